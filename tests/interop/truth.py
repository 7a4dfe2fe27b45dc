#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""One-sided truth: see truth.c. usage: truth.py BUILD HELPERS (one | veth)"""
import os
import sys

import lab


def one(weft, helpers, hosts, mode, path):
    run = [weft, "run", "--", os.path.join(helpers, "truth")]
    address = hosts[0].address
    passive = lab.Program(hosts[0], [*run, mode, address, "7480"], f"{path}/passive.log")
    active = None
    try:
        if not lab.until(lambda: passive.says("listening") or passive.status() is not None, 10):
            return "the passive side does not come up"
        active = lab.Program(hosts[1], [*run, "client", address, "7480"], f"{path}/active.log")
        status = active.wait(30)
        if status != 0:
            return f"the active side ended with {status}"
        status = passive.wait(30)
        if status != 0:
            return f"the passive side ended with {status}"
        return None
    finally:
        passive.kill()
        if active:
            active.kill()


def main():
    build, helpers, where = sys.argv[1:4]
    lab.enter()
    hosts = lab.lab(1 if where == "one" else 2)
    weft = os.path.abspath(os.path.join(build, "weft"))
    report = lab.Report(build, f"truth-{where}")
    for mode in ("sleep", "compute"):
        report.attempt(f"passive side in {mode}", lambda path, mode=mode:
                       one(weft, os.path.abspath(helpers), hosts, mode, path))
    report.everything_ends(hosts)
    report.finish()


main()
