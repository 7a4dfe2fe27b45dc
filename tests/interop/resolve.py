#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Resolving an address finds a host, or says in time that there is none.

usage: resolve.py BUILD
"""
import os
import sys
import time

import lab

DEAD = ("10.77.0.99", "fd77::99")  # on the link, and nobody's
PORT = 7474


def main():
    lab.enter()
    lab.need("rping", "stdbuf")
    weft = os.path.abspath(os.path.join(sys.argv[1], "weft"))
    report = lab.Report(sys.argv[1], "resolve")
    here, there = lab.lab(2)

    def rping(path, name, host, *words):
        return lab.Program(host, [weft, "run", "--", "stdbuf", "-oL", "rping", "-v", "-p", PORT,
                                  *words], f"{path}/{name}.log")

    for address in DEAD:
        name = f"nobody has {address}"
        path = report.case(name)
        begun = time.monotonic()
        p = rping(path, "client", here, "-c", "-a", address)
        status, seconds = p.wait(30), time.monotonic() - begun
        p.kill()
        # rping allows 2 s; the connection manager alone would try for a minute.
        if not status or not p.says("RDMA_CM_EVENT_ADDR_ERROR, error -110"):
            report.fail(name, path, f"the client ended with {status}")
        else:
            report.ok(name, path, f"told after {seconds:.1f} s")
    for address in (there.address, there.address6):
        name = f"a neighbour not heard of for long: {address}"
        path = report.case(name)
        server = rping(path, "server", there, "-s", "-C", "3", "-a", address)
        lab.until(lambda s=server: s.says("port") or s.status() is not None, 1)
        for host in (here, there):
            host.ip("neigh", "flush", "all")
        client = rping(path, "client", here, "-c", "-C", "3", "-a", address)
        ends = client.wait(20), server.wait(10)
        for p in (client, server):
            p.kill()
        if ends != (0, 0):
            report.fail(name, path, f"client, server ended with {ends}")
        else:
            report.ok(name, path)
    report.everything_ends((here, there))
    report.finish()


main()
