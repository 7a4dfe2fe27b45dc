#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""README.md's first session works as it is written, typed into one shell from top to bottom.

usage: readme.py BUILD
"""
import argparse
import os
import re
import tempfile

import lab

# The second that people wait is longer here, as the machine may be busy.
BEFORE = 'set -em\nsleep() { command sleep "$(($1 * 5))"; }\n'
# What one should have seen of each step.
SEEN = (r"subnqn: +nqn\.2026-11\.org\.example:disk", r"nsze +: 0x80000", r"copied 64 MiB",
        r"copied 256 MiB .*verified", r"IOPS", r"hca_id:\s+weft_lo", r"RDMA_Write BW Test",
        r"#bytes(.*\n)+?.*65536 +\d+ +[1-9]", r"iperf Done")


def session():
    with open(os.path.join(lab.TOP, "README.md"), encoding="utf-8") as f:
        text = re.search(r"^## A first session\n(.*?)^## ", f.read(), re.M | re.S)[1]
    return "".join(re.findall(r"^ {4}(.*\n)", text, re.M))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    args = p.parse_args()
    lab.enter()
    lab.need("ibv_devinfo", "ib_write_bw", "iperf3")
    report = lab.Report(args.build, "readme")
    path = report.case("first session")
    host, _ = lab.lab(1)
    with tempfile.TemporaryDirectory() as scratch:
        os.symlink(os.path.abspath(args.build), f"{scratch}/build")
        shell = lab.Program(host, ["sh", "-c", 'cd "$1" && exec bash -c "$2"', "sh", scratch,
                                   BEFORE + session() + "wait\n"], f"{path}/session.log")
        status = shell.wait(150)
        shell.kill()
        missing = [s for s in SEEN if not re.search(s, shell.output())]
        if status != 0:
            report.fail("first session", path, f"the shell ends with {status}")
        elif missing:
            report.fail("first session", path, f"nothing seen of {missing}")
        else:
            report.ok("first session", path)
    for line in host.close():
        report.fail("everything ends", path, f"still running: {line}")
    report.finish()


main()
