#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""IPv6 link-local addresses, over rdma_cm and over plain verbs.

usage: link_local.py BUILD

Two hosts with two wires between them, and the same link-local address on both wires' ends of a
host: only the interface that goes along with the address says which is meant. Beside these a host
that has nothing but loopback, and there nothing but ::1.
"""
import os
import sys

import lab

LEFT, RIGHT = "fe80::a", "fe80::b"
TALK = "10.77.0.1"  # of the left host: ibv_rc_pingpong's own TCP connection knows no scope
WIRES = ("eth0", "eth1")
PORT = 7474


def two_hosts():
    hosts = lab.Host("left", LEFT, LEFT), lab.Host("right", RIGHT, RIGHT)
    for wire in WIRES:
        hosts[0].ip("link", "add", wire, "type", "veth", "peer", "name", wire,
                    "netns", str(hosts[1].holder.pid))
        for h in hosts:
            h.ip("link", "set", wire, "addrgenmode", "none")
            h.ip("link", "set", wire, "up")
            h.ip("addr", "add", f"{h.address6}/64", "dev", wire, "nodad")
    hosts[0].ip("addr", "add", f"{TALK}/24", "dev", "eth0")
    hosts[1].ip("addr", "add", "10.77.0.2/24", "dev", "eth0")
    return hosts


class Bench:
    def __init__(self, build):
        self.weft = os.path.abspath(os.path.join(build, "weft"))
        self.report = lab.Report(build, "link-local")

    def start(self, host, argv, log):
        return lab.Program(host, [self.weft, "run", "--", "stdbuf", "-oL", *argv], log)

    def pair(self, name, server, client, ready, want):
        """server and client: (host, words). ready: text, or None for one that listens on TCP."""
        path = self.report.case(name)
        s = self.start(*server, f"{path}/server.log")
        c = None
        try:
            listens = (lambda: s.says(ready)) if ready else \
                (lambda: server[0].listens_on_tcp(PORT))
            if not lab.until(listens, 10):
                return self.report.fail(name, path, "the server does not listen")
            c = self.start(*client, f"{path}/client.log")
            ends = c.wait(20), s.wait(10)
            if ends != (0, 0):
                return self.report.fail(name, path, f"client, server ended with {ends}")
            if c.output().count(want[0]) != want[1]:
                return self.report.fail(name, path, f"not {want[1]} times {want[0]!r}")
            return self.report.ok(name, path)
        finally:
            s.kill()
            if c:
                c.kill()

    def rping(self, name, server, client, at, to, source=()):
        words = ["rping", "-v", "-C", "5", "-p", PORT]
        self.pair(name, (server, [*words, "-s", "-d", "-a", at]),
                  (client, [*words, "-c", "-a", to, *source]), "rdma_listen",
                  ("ping data: rdma-ping", 5))

    def pingpong(self, name, server, client, wire):
        def words(host):
            gid = self.gid_index(host, wire)
            return ["ibv_rc_pingpong", "-d", f"weft_{wire}", "-g", gid, "-n", "100", "-p", PORT]
        self.pair(name, (server, words(server)), (client, [*words(client), TALK]), None,
                  ("100 iters in", 1))

    def gid_index(self, host, wire):
        """Where ibv_devinfo shows the link-local address."""
        out = host.run(self.weft, "run", "--", "ibv_devinfo", "-v", "-d", f"weft_{wire}").stdout
        for line in out.splitlines():
            if "GID[" in line and "fe80:" in line:
                return line.split("GID[")[1].split("]")[0].strip()
        raise RuntimeError(f"{host.name}: no link-local address in\n{out}")


def main():
    lab.enter()
    lab.need("rping", "ibv_rc_pingpong", "ibv_devinfo", "stdbuf")
    bench = Bench(sys.argv[1])
    left, right = two_hosts()
    for wire in WIRES:
        bench.rping(f"rping over {wire}", left, right, f"{LEFT}%{wire}", f"{LEFT}%{wire}")
        bench.rping(f"rping over {wire}, listening at ::", left, right, "::", f"{LEFT}%{wire}")
        bench.rping(f"rping over {wire}, source given", left, right, "::", f"{LEFT}%{wire}",
                    ["-I", f"{RIGHT}%{wire}"])
        bench.rping(f"rping on {wire} to itself", left, left, f"{LEFT}%{wire}", f"{LEFT}%{wire}")
        bench.pingpong(f"ibv_rc_pingpong over {wire}", left, right, wire)
        bench.pingpong(f"ibv_rc_pingpong on {wire} to itself", left, left, wire)
    # A listener on one interface is not found by way of the other.
    name = "a listener on eth0 does not hear eth1"
    path = bench.report.case(name)
    s = bench.start(left, ["rping", "-s", "-d", "-C", "1", "-a", f"{LEFT}%eth0", "-p", PORT],
                    f"{path}/server.log")
    lab.until(lambda: s.says("rdma_listen"), 10)
    c = bench.start(right, ["rping", "-c", "-C", "1", "-a", f"{LEFT}%eth1", "-p", PORT],
                    f"{path}/client.log")
    status = c.wait(20)
    s.kill()
    c.kill()
    if status and c.says("REJECTED"):
        bench.report.ok(name, path)
    else:
        bench.report.fail(name, path, f"the client ended with {status}")

    alone = lab.Host("alone", None, "::1")
    alone.ip("addr", "del", "127.0.0.1/8", "dev", "lo")
    bench.rping("rping where ::1 is all there is", alone, alone, "::1", "::1")
    bench.rping("rping where ::1 is all there is, listening at ::", alone, alone, "::", "::1")
    bench.report.everything_ends((left, right, alone))
    bench.report.finish()


main()
