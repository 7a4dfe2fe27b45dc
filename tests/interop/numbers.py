#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The numbers of sockets: closed, doubled, handed to stdio, in epoll sets, over exit and exec.

usage: numbers.py BUILD HELPERS [--only REGEX]

Each case of tests/interop/numbers.c runs on plain TCP first, which says what is right, and then by
`weft run --sockets=only`, where nothing may have gone by TCP; some as a program that is built with a
sanitizer.
"""
import argparse
import os
import re

import lab


def tcp(host):
    names, values = [l.split()[1:] for l in host.read("snmp").splitlines() if l.startswith("Tcp:")]
    return int(dict(zip(names, values))["ActiveOpens"])


SANITIZED = ("closed_by_close_range", "taken_by_a_system_call", "lines_by_fdopen")


class Bench:
    def __init__(self, build, helpers):
        self.report = lab.Report(build, "numbers")
        self.weft = os.path.abspath(f"{build}/weft")
        self.helpers = os.path.abspath(helpers)
        self.host, _ = lab.lab(1)

    def run(self, case, name, how, helper="numbers"):
        helper = f"{self.helpers}/{helper}"
        if not os.path.exists(helper):
            return self.report.skip(name, "the compiler has no such sanitizer")
        path, before = self.report.case(name), tcp(self.host)
        program = lab.Program(self.host, [*how, helper, self.host.address, case], f"{path}/log")
        status = program.wait(60)
        program.kill()
        by_tcp = tcp(self.host) > before
        if status != 0 or not program.says("ok"):
            return self.report.fail(name, path, f"it ended with {status}")
        if by_tcp == ("--sockets=only" in how):
            return self.report.fail(name, path, f"by TCP: {by_tcp}")
        return self.report.ok(name, path)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    b = Bench(args.build, args.helpers)
    weft_run, rdma = [b.weft, "run", "--"], [b.weft, "run", "--sockets=only", "--"]
    runs = []
    for case in b.host.run(f"{b.helpers}/numbers", "list").stdout.split():
        runs += [(case, f"{case} tcp", []), (case, f"{case} rdma", rdma)]
    for kind in ("address", "thread"):
        helper = f"numbers_{kind}"
        runs += [(case, f"{case} {kind} sanitizer", rdma, helper) for case in SANITIZED]
        runs.append((SANITIZED[0], f"{kind} sanitizer without --sockets", weft_run, helper))
    for run in runs:
        if re.search(args.only, run[1]):
            b.run(*run)
    b.report.everything_ends((b.host,))
    b.report.finish()


main()
