#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Forged packets: what somebody sends who is neither end of a connection must not end it.

usage: forged.py BUILD [--full]

Two hosts use RDMA and NVMe; a third, and the peer's host too, forge. Every case looks at
connections that are there (NVMe and plain verbs, under load) and at new ones (rdma_cm, NVMe).
--full: more rates, and for longer.
"""
import json
import os
import sys
import tempfile
import time

import lab

FORGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forge.py")
NQN = "nqn.2026-11.org.weft:forged"
AT_ONCE = 4  # seconds: then the connection manager sends its requests a second time


class Forged:
    def __init__(self, build, full):
        self.busy_seconds = 15 if full else 3
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.env = {"WEFT_BROKER": self.weft, "WEFT_LOG": "info"}
        self.left, self.right = lab.lab(2)
        for host in (self.left, self.right):
            host.ip("link", "set", "eth0", "mtu", "9000")  # path MTU 4096
        self.third = lab.Host("third", "10.78.0.3", "fd78::3")
        self.join_third()
        self.report = lab.Report(build, "forged")
        self.tmp = tempfile.TemporaryDirectory()
        self.path, self.programs, self.port = "", [], 7100

    def join_third(self):
        self.left.ip("link", "add", "eth1", "type", "veth", "peer", "name", "eth0",
                     "netns", str(self.third.holder.pid))
        self.left.ip("addr", "add", "10.78.0.1/24", "dev", "eth1")
        self.left.ip("addr", "add", "fd78::1/64", "dev", "eth1", "nodad")
        self.left.ip("link", "set", "eth1", "up")
        self.third.ip("addr", "add", "10.78.0.3/24", "dev", "eth0")
        self.third.ip("addr", "add", "fd78::3/64", "dev", "eth0", "nodad")
        self.third.ip("link", "set", "eth0", "up")
        self.third.ip("route", "add", "10.77.0.0/24", "via", "10.78.0.1")
        self.third.ip("route", "add", "fd77::/64", "via", "fd78::1")
        # A network whose edge lets any source address in.
        self.left.run("sh", "-c", "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done")

    def start(self, host, *argv):
        log = f"{self.path}/{len(self.programs)}-{os.path.basename(str(argv[0]))}.log"
        p = lab.Program(host, argv, log, self.env)
        self.programs.append(p)
        return p

    def forge(self, host, *argv):
        r = host.run(sys.executable, FORGE, *argv)
        if r.returncode:
            raise AssertionError(f"forge.py {' '.join(map(str, argv))}: {r.stderr}")

    def finished(self, what, program, seconds):
        status = program.wait(seconds)
        if status != 0:
            raise AssertionError(f"{what} " + (f"goes on after {seconds} s" if status is None else
                                               f"ended with {status}: {program.output()[-200:]}"))

    # ---- what is attacked ----------------------------------------------------------------------

    def serve(self):
        image = os.path.join(self.tmp.name, "disk.img")
        with open(image, "wb") as f:
            f.truncate(16 << 20)
        p = self.start(self.right, self.weft, "serve", image, "--nqn", NQN)
        if not lab.until(lambda: p.says("nvme connect") or p.status() is not None, 10):
            raise AssertionError("weft serve does not come up")

    def uri(self, six):
        address = f"[{self.right.address6}]" if six else self.right.address
        return f"nvme+rdma://{address}:4420/{NQN}"

    def gid_index(self, host, six):
        """The RoCEv2 GID that perftest is to use."""
        address = host.address6 if six else host.address
        listed = json.loads(host.run(self.weft, "devices", "-o", "json").stdout)
        device = next(d for d in listed["devices"] if d["name"] == "weft_eth0")
        gid = address if six else f"::ffff:{address}"
        return next(g["index"] for g in device["ports"][0]["gids"] if g["gid"] == gid)

    def busy(self, six):
        """NVMe and plain verbs under load, for a while."""
        bench = self.start(self.left, self.weft, "bench", self.uri(six), "--rw", "randrw", "--bs",
                           "16k", "--iodepth", "4", "--runtime", self.busy_seconds, "--verify", "--yes",
                           "--ctrl-loss-tmo", "0", "--timeout", "10")
        self.port += 1
        perftest = [self.weft, "run", "--", "ib_write_bw", "-d", "weft_eth0", "-F", "-D",
                    self.busy_seconds, "-f", "0", "-s", "65536", "-p", self.port]
        writes = [self.start(self.right, *perftest, "-x", self.gid_index(self.right, six))]
        lab.until(lambda: self.right.listens_on_tcp(self.port), 10)
        writes.append(self.start(self.left, *perftest, "-x", self.gid_index(self.left, six),
                                 self.right.address))
        return bench, writes

    def held(self, busy):
        bench, writes = busy
        self.finished("NVMe under load", bench, self.busy_seconds + 15)
        for p in writes:
            self.finished("ib_write_bw", p, self.busy_seconds + 10)

    def connects(self, six):
        """New connections, that carry full packets."""
        address = self.right.address6 if six else self.right.address
        self.port += 1
        rping = [self.weft, "run", "--", "rping", "-a", address, "-p", self.port, "-C", "5", "-S",
                 "30000", "-V"]
        server = self.start(self.right, *rping, "-s")
        server.settle()
        client = self.start(self.left, *rping, "-c")
        self.finished("rping", client, AT_ONCE)
        if client.says("path MTU 1024"):
            raise AssertionError("rping takes a path MTU of 1024 where 4096 fits")
        self.finished("rping's server", server, 10)
        self.finished("weft id-ctrl", self.start(self.left, self.weft, "id-ctrl", self.uri(six)), AT_ONCE)

    # ---- running --------------------------------------------------------------------------------

    def run(self, name, function, *args):
        def work(path):
            self.path, self.programs = path, []
            try:
                self.serve()
                note = function(self, *args)
                self.programs[0].process.terminate()
                self.finished("weft serve", self.programs[0], 10)
                return note
            finally:
                for p in self.programs:
                    p.kill()
        self.report.prove(name, work)


def too_big(f, six, forger):
    """Nothing in the message is secret. The kernel believes it, and forgets after ten minutes."""
    family, address = ("-6", f.right.address6) if six else ("-4", f.right.address)
    mtu = 1280 if six else 552
    busy = f.busy(six)
    time.sleep(f.busy_seconds / 3)
    victim = f.left.address6 if six else f.left.address
    # The peer's kernel then answers long echo requests in fragments.
    f.forge(f.left, "too-big", address, victim, mtu)
    f.forge(forger, "too-big", victim, address, 68)  # IPv4: the kernel would fragment
    f.forge(forger, "too-big", victim, address, mtu)
    route = f.left.run("ip", family, "route", "get", address).stdout
    try:
        f.held(busy)
        f.connects(six)
    finally:
        f.left.ip(family, "route", "flush", "cache")
        f.right.ip(family, "route", "flush", "cache")
    if f"mtu {mtu}" not in route.replace("lock ", ""):
        raise AssertionError(f"the kernel was not taken in: {route}")
    return f"while the kernel believes in {mtu} bytes"


def idents(f, rate):
    """What nobody accepts must say nothing of how the peer numbers its packets."""
    flood = f.start(f.third, sys.executable, FORGE, "idents", f.left.address, f.right.address, rate, 60)
    time.sleep(0.3)
    busy = f.busy(False)
    f.connects(False)
    f.held(busy)
    f.connects(False)
    if flood.status() is not None:
        raise AssertionError(f"forge.py does not go on: {flood.output()}")


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


def fragments_seen(host, six):
    if six:
        return int(host.read("snmp6").split("Ip6ReasmReqds")[1].split()[0])
    names, values = [line.split() for line in host.read("snmp").splitlines()[:2]]
    return int(values[names.index("ReasmReqds")])


def oddities(f, six, rate):
    """Nor does it matter what else comes: it costs time, and no memory."""
    victim, peer = (f.left.address6, f.right.address6) if six else (f.left.address, f.right.address)
    lab.until(lambda: not f.left.has_broker(), 10)
    broker = f.start(f.left, f.weft, "broker", "-f")
    lab.until(f.left.has_broker, 10)
    f.connects(six)
    before, fragments = resident_kib(broker.pid), fragments_seen(f.left, six)
    flood = f.start(f.third, sys.executable, FORGE, "oddities", victim, peer, rate, 60)
    busy = f.busy(six)
    f.connects(six)
    f.held(busy)
    if flood.status() is not None:
        raise AssertionError(f"forge.py does not go on: {flood.output()}")
    grown, fragments = resident_kib(broker.pid) - before, fragments_seen(f.left, six) - fragments
    if fragments < 1000:
        raise AssertionError(f"only {fragments} fragments have come")
    if grown > 4096:
        raise AssertionError(f"the broker has grown by {grown} KiB")
    flood.kill()
    broker.kill()
    return f"{fragments} fragments; the broker has grown by {grown} KiB"


def main():
    lab.enter()
    lab.need("rping", "ib_write_bw", "ip")
    full = sys.argv[2:] == ["--full"]
    f = Forged(sys.argv[1], full)
    for six in (False, True):
        for forger in (f.right, f.third):
            f.run(f"one ICMP{'v6' if six else ''} packet too big, from the "
                  f"{'peer' if forger is f.right else 'third host'}", too_big, six, forger)
    for rate in (17, 40, 100, 400, 2000) if full else (17, 400):
        f.run(f"{rate} forged identifications a second", idents, rate)
    for six in (False, True):
        for rate in (200, 2000, 20000) if full else (2000,):
            f.run(f"{rate} oddities a second, IPv{6 if six else 4}", oddities, six, rate)
    f.report.everything_ends((f.left, f.right, f.third))
    f.report.finish()


if __name__ == "__main__":
    main()
