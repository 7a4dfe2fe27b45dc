#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The numbers of sockets: closed, doubled, handed to stdio, in epoll sets, over exit and exec.

usage: numbers.py BUILD HELPERS [--only REGEX]

Each case of tests/interop/numbers.c runs on plain TCP first, which says what is right, and then by
`weft run --sockets=only`, where nothing may have gone by TCP.
"""
import argparse
import os
import re

import lab


def tcp(host):
    names, values = [l.split()[1:] for l in host.read("snmp").splitlines() if l.startswith("Tcp:")]
    return int(dict(zip(names, values))["ActiveOpens"])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    report = lab.Report(args.build, "numbers")
    helper = os.path.abspath(f"{args.helpers}/numbers")
    weft = os.path.abspath(f"{args.build}/weft")
    host, _ = lab.lab(1)
    for case in host.run(helper, "list").stdout.split():
        if not re.search(args.only, case):
            continue
        for how, argv in (("tcp", []), ("rdma", [weft, "run", "--sockets=only", "--"])):
            name = f"{case} {how}"
            path, before = report.case(name), tcp(host)
            program = lab.Program(host, [*argv, helper, host.address, case], f"{path}/log")
            status = program.wait(60)
            program.kill()
            if status != 0 or not program.says("ok"):
                report.fail(name, path, f"it ended with {status}: {program.output()[-300:]}")
            elif (tcp(host) > before) == (how == "rdma"):
                report.fail(name, path, "it went over TCP" if argv else "no TCP was seen")
            else:
                report.ok(name, path)
    report.everything_ends((host,))
    report.finish()


main()
