#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Interfaces go down and up, lose and gain addresses, change and vanish: what programs see of it.

usage: port_events.py BUILD HELPERS

An application's view is told by the helper port_events, and by ibv_asyncwatch; what becomes of
traffic meanwhile by ib_write_bw.
"""
import os
import re
import subprocess
import sys
import time

import lab

PORT = 7500
SECONDS = 10


class Watcher:
    """The helper on a host; talk to it by ask() and wait for what it says by itself."""

    def __init__(self, host, weft, helper, path):
        self.log = os.path.join(path, "watcher.log")
        self.said = 0  # lines looked at
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                host.inside([weft, "run", "--", helper, "weft_eth0", host.address, PORT]),
                stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT,
                preexec_fn=lab.die_with_parent)
        self.expect("ready")

    def lines(self):
        with open(self.log, encoding="utf-8") as f:
            return [l.rstrip("\n") for l in f if l.endswith("\n")]

    def expect(self, *patterns):
        """The next lines match these, one each, in this order; other lines may stand between."""
        for pattern in patterns:
            def found():
                lines = self.lines()
                while self.said < len(lines):
                    self.said += 1
                    m = re.fullmatch(pattern, lines[self.said - 1])
                    if m:
                        return m
                return None
            m = lab.until(found, SECONDS)
            if not m:
                raise AssertionError(f"no line {pattern!r}")
        return m

    def ask(self, what, pattern):
        """Asks until the answer fits: an interface's state needs a moment to settle."""
        def fits():
            self.process.stdin.write(what.encode() + b"\n")
            self.process.stdin.flush()
            return re.fullmatch(f"{what} ?{pattern}", self.expect(f"{what}.*").group(0))
        m = lab.until(fits, SECONDS, 0.1)
        if not m:
            raise AssertionError(f"{what}: {self.lines()[self.said - 1]!r} is not {pattern!r}")
        return m

    def end(self):
        self.process.stdin.close()
        self.expect("end")
        if self.process.wait(SECONDS):
            raise AssertionError("the program failed")


def down_and_up(host, w):
    w.ask("port", r"state 4 phys 5 mtu 1024 .*")
    host.ip("link", "set", "eth0", "down")
    w.expect("async port error 1")
    w.ask("port", r"state 1 phys 3 .*")
    host.ip("link", "set", "eth0", "up")
    w.expect("async port active 1")
    w.ask("port", r"state 4 phys 5 .*")


def carrier_lost(host, peer, w):
    peer.ip("link", "set", "eth0", "down")
    w.expect("async port error 1")
    w.ask("port", r"state 1 phys 2 .*")  # set up, and nobody at the other end
    peer.ip("link", "set", "eth0", "up")
    w.expect("async port active 1")


def short_gaps(host, w):
    """Nobody may have looked while the port was down; each time is told all the same."""
    for _ in range(5):
        host.run("sh", "-c", "ip link set eth0 down; ip link set eth0 up")
    w.expect(*["async port error 1", "async port active 1"] * 5)


def addresses(host, w):
    index = host.run("ip", "-o", "link", "show", "dev", "eth0").stdout.split(":")[0]
    before = w.ask("gids", rf"0=::ffff:{host.address}/{index}(.*)").group(1)
    host.ip("addr", "add", "10.99.0.1/24", "dev", "eth0")
    w.expect("async GID table change 1")
    place = w.ask("gids", rf".* (\d+)=::ffff:10\.99\.0\.1/{index}.*").group(1)
    host.ip("addr", "add", "10.99.0.2/32", "dev", "eth0")
    w.expect("async GID table change 1")
    last = w.ask("gids", rf".* (\d+)=::ffff:10\.99\.0\.2/{index}.*").group(1)
    # The first goes: the one behind it stays where it is, and the hole is filled again.
    host.ip("addr", "del", "10.99.0.1/24", "dev", "eth0")
    w.expect("async GID table change 1")
    w.ask("gids", rf"(?!.* {place}=).* {last}=::ffff:10\.99\.0\.2/{index}.*")
    host.ip("addr", "add", "10.99.0.3/32", "dev", "eth0")
    w.expect("async GID table change 1")
    w.ask("gids", rf".* {place}=::ffff:10\.99\.0\.3/{index} {last}=.*")
    host.run("sh", "-c", "ip addr del 10.99.0.2/32 dev eth0; ip addr add 10.99.0.2/32 dev eth0")
    w.expect("async GID table change 1")
    host.ip("addr", "del", "10.99.0.2/32", "dev", "eth0")
    host.ip("addr", "del", "10.99.0.3/32", "dev", "eth0")
    w.ask("gids", rf"0=::ffff:{host.address}/{index}{re.escape(before)}")


def attributes(host, w):
    w.ask("port", r"state 4 phys 5 mtu 1024 width 1 speed 8")  # veth says 10 Gb/s
    host.ip("link", "set", "eth0", "mtu", "4200")
    w.ask("port", r"state 4 phys 5 mtu 4096 .*")
    host.ip("link", "set", "eth0", "mtu", "1500")
    w.ask("port", r"state 4 phys 5 mtu 1024 .*")
    host.ip("link", "set", "eth0", "address", "02:00:00:00:00:77")
    w.expect("cm RDMA_CM_EVENT_ADDR_CHANGE bound", "cm RDMA_CM_EVENT_ADDR_CHANGE listener")


def removed(host, peer, w):
    peer.ip("link", "add", "eth1", "type", "veth", "peer", "name", "eth1",
            "netns", str(host.holder.pid))
    host.ip("link", "set", "eth1", "up")
    w.ask("list", r"(?=.*weft_eth0/).*weft_eth1/\d+.*")
    old = w.ask("list", r".*weft_eth0/(\d+).*").group(1)
    host.ip("link", "del", "eth0")
    # Of the listener on all addresses nothing is said. Which descriptor speaks first is open.
    said = sorted(w.expect(r"(async|cm) .*").group(0) for _ in "123")
    if said != ["async local catastrophic error 0", "cm RDMA_CM_EVENT_DEVICE_REMOVAL bound",
                "cm RDMA_CM_EVENT_DEVICE_REMOVAL listener"]:
        raise AssertionError(f"removal: {said}")
    w.ask("flushed", "4 of 4")
    w.ask("port", "error 5")  # EIO, as from a device that the kernel has lost
    w.ask("gids", "error 5")
    w.ask("listen", "Input/output error")
    w.ask("list", r"(?!.*weft_eth0).*weft_eth1/\d+.*")
    # One of the same name is another device.
    peer.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
            "netns", str(host.holder.pid))
    host.ip("link", "set", "eth0", "up")
    peer.ip("link", "set", "eth0", "up")
    new = w.ask("list", r".*weft_eth0/(\d+).*").group(1)
    if new == old:
        raise AssertionError("the new device has the old one's index")
    w.ask("port", "error 5")
    w.ask("open", "yes")


def asyncwatch(host, weft, path):
    watch = lab.Program(host, [weft, "run", "--", "stdbuf", "-oL", "ibv_asyncwatch", "-d",
                               "weft_eth0"], f"{path}/asyncwatch.log")
    try:
        if not lab.until(lambda: watch.says("async event FD"), SECONDS):
            raise AssertionError("ibv_asyncwatch does not begin")
        host.ip("link", "set", "eth0", "down")
        host.ip("link", "set", "eth0", "up")
        host.ip("addr", "add", "10.99.0.1/24", "dev", "eth0")
        host.ip("addr", "del", "10.99.0.1/24", "dev", "eth0")
        for text in ("IBV_EVENT_PORT_ERR (10), port 1", "IBV_EVENT_PORT_ACTIVE (9), port 1",
                     "IBV_EVENT_GID_CHANGE (18), port 1"):
            if not lab.until(lambda t=text: watch.says(t), SECONDS):
                raise AssertionError(f"ibv_asyncwatch does not say {text!r}")
    finally:
        watch.kill()


def sent(host):
    """Bytes that have left by eth0."""
    return int(re.search(r"eth0:\s*" + r"(?:\d+\s+){8}(\d+)", host.read("dev")).group(1))


def traffic(hosts, weft, path, disturb, works):
    """ib_write_bw for some seconds, with something happening to the client's interface."""
    seconds = "5" if works else "12"  # longer than eight tries of 0.5 s, however late they begin
    words = [weft, "run", "--", "ib_write_bw", "-d", "weft_eth0", "-x", "0", "-F", "-D", seconds,
             "-u", "17", "-p", "18515"]
    server = lab.Program(hosts[0], words, f"{path}/server.log")
    client = None
    try:
        if not lab.until(lambda: hosts[0].listens_on_tcp(18515), SECONDS):
            raise AssertionError("the server does not listen")
        before = sent(hosts[1])
        client = lab.Program(hosts[1], [*words, "10.88.0.1"], f"{path}/client.log")
        # More than what the two say by TCP first, which is to be over.
        if not lab.until(lambda: sent(hosts[1]) > before + 1000000 or client.status() is not None,
                         SECONDS):
            raise AssertionError("no data are sent")
        disturb(hosts[1])
        status = client.wait(40)
        if works and status != 0:
            raise AssertionError(f"the client ended with {status}")
        if not works and (not status or not client.says("Failed status 12")):
            raise AssertionError(f"the client ended with {status}, without its retries exceeded")
    finally:
        server.kill()
        if client:
            client.kill()


def gap(host):
    host.ip("link", "set", "eth0", "down")
    time.sleep(1)
    host.ip("link", "set", "eth0", "up")


def address_gap(host):
    host.ip("addr", "del", f"{host.address}/24", "dev", "eth0")
    time.sleep(1)
    host.ip("addr", "add", f"{host.address}/24", "dev", "eth0")


def end_of_address(host):
    host.ip("addr", "del", f"{host.address}/24", "dev", "eth0")


def main():
    lab.enter()
    lab.need("ibv_asyncwatch", "ib_write_bw", "stdbuf")
    build, helpers = sys.argv[1:3]
    weft = os.path.abspath(os.path.join(build, "weft"))
    helper = os.path.abspath(os.path.join(helpers, "port_events"))
    report = lab.Report(build, "port-events")

    def watched(host, do, *more):
        def run(path):
            w = Watcher(host, weft, helper, path)
            try:
                do(host, *more, w)
                w.end()
            finally:
                w.process.kill()
                w.process.wait()
        return run

    # The programs' own TCP connection takes another wire, which nothing happens to.
    hosts = lab.lab(2)
    host, peer = hosts
    host.ip("link", "add", "talk", "type", "veth", "peer", "name", "talk",
            "netns", str(peer.holder.pid))
    for h, address in ((host, "10.88.0.1/24"), (peer, "10.88.0.2/24")):
        h.ip("addr", "add", address, "dev", "talk")
        h.ip("link", "set", "talk", "up")
    report.prove("down and up", watched(host, down_and_up))
    report.prove("the carrier is lost", watched(host, carrier_lost, peer))
    report.prove("short gaps are told", watched(host, short_gaps))
    report.prove("addresses come and go, and keep their places", watched(host, addresses))
    report.prove("MTU, rate, MAC address", watched(host, attributes))
    report.prove("ibv_asyncwatch", lambda path: asyncwatch(host, weft, path))
    report.prove("traffic goes on when the port is up again",
                 lambda path: traffic(hosts, weft, path, gap, True))
    report.prove("traffic goes on when the address is back",
                 lambda path: traffic(hosts, weft, path, address_gap, True))
    report.prove("without an address the retries are exceeded",
                 lambda path: traffic(hosts, weft, path, end_of_address, False))
    report.prove("the interface is removed", watched(host, removed, peer))
    report.everything_ends(hosts)
    report.finish()


main()
