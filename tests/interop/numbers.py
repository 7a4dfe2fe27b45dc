#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The numbers of sockets: closed, doubled, handed to stdio, in epoll sets, over exit and exec.

usage: numbers.py BUILD HELPERS [--only REGEX]

Each case of tests/interop/numbers.c and sets.c runs on plain TCP first, which says what is right, and then by
`weft run --sockets=only`, where nothing may have gone by TCP; some as a program that is built with a
sanitizer.
"""
import argparse
import os
import re
import shutil
import sys

import lab


def tcp(host):
    names, values = [l.split()[1:] for l in host.read("snmp").splitlines() if l.startswith("Tcp:")]
    return int(dict(zip(names, values))["ActiveOpens"])


SANITIZED = ("closed_by_close_range", "taken_by_a_system_call", "lines_by_fdopen")


def lose_some(host):
    """From now on, of what is for queue pairs of programs, not of brokers (byte 5, the slot), one
    packet in five: what has been written when a program ends is not there yet."""
    rules = "add table inet lossy; " \
            "add chain inet lossy in { type filter hook input priority 0; }; " \
            "flush chain inet lossy in; " \
            "add rule inet lossy in udp dport 4791 @th,104,8 != 0 numgen random mod 5 0 drop"
    return shutil.which("nft") and host.run("nft", rules).returncode == 0


class Bench:
    def __init__(self, build, helpers):
        self.report = lab.Report(build, "numbers")
        self.weft = os.path.abspath(f"{build}/weft")
        self.helpers = os.path.abspath(helpers)
        self.host, _ = lab.lab(1)

    def run(self, case, name, how, helper):
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
    runs, sanitized = [], []  # case, name, how, the program
    for helper in ("numbers", "sets"):
        listed = b.host.run(f"{b.helpers}/{helper}", "list")
        if listed.returncode or not listed.stdout.split():
            sys.exit(f"{helper} list: {listed.returncode}, {listed.stderr}")
        for case in listed.stdout.split():
            runs += [(case, f"{case} tcp", [], helper), (case, f"{case} rdma", rdma, helper)]
    for kind in ("address", "thread"):
        helper = f"numbers_{kind}"
        sanitized += [(case, f"{case} {kind} sanitizer", rdma, helper) for case in SANITIZED]
        sanitized.append((SANITIZED[0], f"{kind} sanitizer without --sockets", weft_run, helper))
    lossy = [(case, f"{case} with losses", rdma, "numbers") for case, _, how, _ in runs if how == rdma
             and case.startswith("data_before_")]
    for run in runs + sanitized + lossy:
        if run in lossy and not lose_some(b.host):
            b.report.skip(run[1], "nft cannot drop a share of the packets here")
        elif re.search(args.only, run[1]):
            b.run(*run)
    b.report.everything_ends((b.host,))
    b.report.finish()


main()
