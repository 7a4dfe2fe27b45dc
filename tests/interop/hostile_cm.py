#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Whoever can send packets, and puts any address into them, against the connection manager.

usage: hostile_cm.py BUILD HELPERS [--full]

A connection goes on, others are made, and the broker stays small, whatever is sent to it.
"""
import argparse
import contextlib
import os
import re
import signal
import socket
import threading
import time

import lab

# Of the clients' host, too: a connection manager answers for it, and no client uses it.
ANOTHER = "10.77.0.3"
PORT, DEAF_PORT = 4420, 7999
NQN = "nqn.2026-11.org.weft:hostile-cm"
REQ, REP = 0x10, 0x13
GROWTH_KIB = 8192


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def named(sniffer, seconds):
    """GUID and queue pair of the first REQ seen."""
    end = time.monotonic() + seconds
    sniffer.settimeout(0.2)
    while time.monotonic() < end:
        try:
            p = sniffer.recv(65536)
        except TimeoutError:
            continue
        if p[9] != 17 or p[22:24] != (4791).to_bytes(2, "big") or p[28] != 100:
            continue
        mad = p[48:]
        if int.from_bytes(mad[16:18], "big") == REQ:
            return int.from_bytes(mad[40:48], "big"), int.from_bytes(mad[56:59], "big")
    return None


class Bench:
    def __init__(self, args):
        self.weft = os.path.realpath(os.path.join(args.build, "weft"))
        self.helper = os.path.realpath(os.path.join(args.helpers, "hostile_cm"))
        self.left, self.right = lab.lab(2)
        # Answers to addresses that are none go to the attacker's host, which drops them.
        self.left.ip("route", "add", "default", "via", self.right.address)
        self.right.ip("addr", "add", f"{ANOTHER}/24", "dev", "eth0")
        self.env = {"WEFT_BROKER": self.weft}
        self.full = args.full
        self.programs = []
        self.image = os.path.join(args.build, "hostile-cm.img")
        with open(self.image, "wb") as f:
            f.truncate(16 << 20)
        self.uri = f"nvme+rdma://{self.left.address}:{PORT}/{NQN}"

    def start(self, host, path, name, *argv):
        p = lab.Program(host, [self.weft, *argv], os.path.join(path, name), self.env)
        self.programs.append(p)
        return p

    def attack(self, path, mode, src, port, n, rate, *more):
        p = lab.Program(self.right, [self.helper, mode, src, self.left.address, port, n, rate,
                                     *more], os.path.join(path, f"attack-{mode}"))
        self.programs.append(p)
        return p

    def serve(self, path):
        server = self.start(self.left, path, "server", "serve", "-n", NQN, self.image)
        if not lab.until(lambda: server.says(NQN), 10):
            raise RuntimeError("the target does not come up")
        return server

    def connects(self, path, times):
        """So often somebody else connects, says something and leaves; the seconds it took each."""
        took = []
        for i in range(times):
            begun = time.monotonic()
            c = self.start(self.right, path, f"client{i}", "id-ctrl", "--timeout", "40", self.uri)
            if c.wait(60) != 0:
                raise RuntimeError(f"connect {i} failed after {time.monotonic() - begun:.1f} s")
            took.append(time.monotonic() - begun)
        return took

    def broker(self):
        return self.left.brokers()[0]

    def still(self, server, broker):
        """Both are who they were: an heir would have taken the broker's place unseen."""
        if server.status() is not None:
            raise RuntimeError(f"the target has ended with {server.status()}")
        if self.left.brokers() != [broker]:
            raise RuntimeError(f"the broker {broker} has died: there is {self.left.brokers()} now")

    def end(self):
        for p in self.programs:
            p.kill()
        self.programs.clear()
        lab.until(lambda: not self.left.has_broker() and not self.right.has_broker(), 15)


def a_live_connection_goes_on(bench, path, sniffer):
    """Forged REQs name its peer's queue pair: to be that peer's restart."""
    server = bench.serve(path)
    broker, seconds = bench.broker(), 15 if bench.full else 4
    c = bench.start(bench.right, path, "client", "bench", "--ctrl-loss-tmo=0",
                    f"--runtime={seconds}", bench.uri)
    who = named(sniffer, 10)
    if not who:
        raise RuntimeError("no connection comes up")
    guid, qpn = who
    time.sleep(0.5)
    first, n = (qpn & ~0xffff, 65536) if bench.full else (qpn - 50, 100)
    for _ in range(2 if bench.full else 5):
        a = bench.attack(path, "stale", bench.right.address, PORT, n, 15000 if bench.full else 1000,
                         guid, first)
        if a.wait(60) != 0:
            raise RuntimeError(f"the attack failed: {a.output()}")
    if c.status() is not None:
        raise RuntimeError("the connection has ended, or the attack took too long")
    if c.wait(seconds + 20) != 0:
        raise RuntimeError("the connection has ended")
    bench.still(server, broker)
    return f"{n} queue pairs tried"


@contextlib.contextmanager
def rarely_running(program, running=0.005, stopped=0.045):
    """A program of a machine that has little time for it: what comes meanwhile waits."""
    over, held = threading.Event(), []

    def hold():
        while not over.wait(running):
            os.kill(program.pid, signal.SIGSTOP)
            time.sleep(stopped)
            os.kill(program.pid, signal.SIGCONT)
            held.append(program.pid)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        yield
    finally:
        over.set()
        holder.join()
    if not held:
        raise RuntimeError(f"{program.pid} was never stopped")


def flooded(mode, src, port, slow=False):
    def run(bench, path, _):
        server = bench.serve(path)
        with rarely_running(server) if slow else contextlib.nullcontext():
            return flood(bench, path, server)

    def flood(bench, path, server):
        bench.connects(path, 1)
        broker = bench.broker()
        server_before, before = rss(server.pid), rss(broker)
        seconds, rate = (60, 15000) if bench.full else (4, 5000)
        # For longer, should one of the others have to ask twice: that takes 4.3 s each.
        a = bench.attack(path, mode, src, port, (seconds + 60) * rate, rate)
        begun = time.monotonic()
        time.sleep(1)
        took = bench.connects(path, 10 if bench.full else 4)
        time.sleep(max(0, begun + seconds - time.monotonic()))
        if a.status() is not None:
            raise RuntimeError(f"the flood was over before: {took}: {a.output()}")
        lasted = time.monotonic() - begun
        a.kill()
        time.sleep(0.5)
        bench.still(server, broker)
        grown = rss(broker) - before
        if grown > GROWTH_KIB:
            raise RuntimeError(f"the broker has grown by {grown} KiB")
        took += bench.connects(path, 1)
        bench.still(server, broker)
        return (f"{rate} a second for {lasted:.1f} s; connected within {' '.join(f'{t:.2f}' for t in took)} s; "
                f"the broker has grown by {grown} KiB, the target by "
                f"{rss(server.pid) - server_before}")
    return run


CASES = (
    ("a live connection goes on", a_live_connection_goes_on),
    ("requests from nowhere", flooded("req", "any", PORT)),
    ("requests in another host's name", flooded("req", ANOTHER, PORT)),
    ("so, and the target is slow", flooded("req", ANOTHER, PORT, slow=True)),
    ("requests that nobody listens for", flooded("req", "any", DEAF_PORT)),
    ("requests for services", flooded("sidr", "any", PORT)),
    ("any messages", flooded("junk", "any", PORT)),
)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("--full", action="store_true")
    args = p.parse_args()
    lab.enter()
    lab.need("ip")
    bench = Bench(args)
    report = lab.Report(args.build, "hostile-cm" + ("-full" if args.full else ""))
    with open("/proc/self/ns/net", encoding="ascii") as own, \
            open(f"/proc/{bench.right.holder.pid}/ns/net", encoding="ascii") as ns:
        if lab.libc.setns(ns.fileno(), 0):
            lab.skip("cannot join a namespace of one's own")
        sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        sniffer.bind(("eth0", 3))
        lab.libc.setns(own.fileno(), 0)
    for name, run in CASES:
        report.prove(name, lambda path, run=run: run(bench, path, sniffer))
        bench.end()
    report.everything_ends((bench.left, bench.right))
    report.finish()


main()
