#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Targets that misbehave: the host says what is wrong in a line, with status 1, and goes on living.

usage: hostile.py BUILD HELPERS
"""
import argparse
import os
import re
import subprocess

import lab

PORT = 4455
URI = f"nvme+rdma://127.0.0.1:{PORT}/nqn.2026-11.org.weft:hostile"
MODES = [
    ("refuses", "refuses queue 0"),
    ("speaks-no-nvme", "speaks no NVMe/RDMA"),
    ("unknown-format", "speaks no NVMe/RDMA"),
    ("long-response", "breaks the protocol.*longer than 16 bytes"),
    ("short-response", "breaks the protocol.*not 16 bytes"),
    ("empty-response", "breaks the protocol.*not 16 bytes"),
    ("unknown-command", "breaks the protocol.*not outstanding"),
    ("queue-head", "breaks the protocol.*queue head"),
    ("key-of-another", "lost|breaks the protocol"),
    ("twice", "breaks the protocol.*(not outstanding|two responses to a command)"),
    ("hangs-up", "lost: the target closed it"),
    ("silent", "does not answer Connect"),
]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    args = p.parse_args()
    lab.enter()
    weft = os.path.join(os.path.abspath(args.build), "weft")
    helper = os.path.join(os.path.abspath(args.helpers), "hostile_target")
    host, _ = lab.lab(1)
    report = lab.Report(args.build, "hostile")
    for mode, pattern in MODES:
        path = report.case(mode)
        target = lab.Program(host, [weft, "run", "--", helper, "127.0.0.1", str(PORT), mode],
                             f"{path}/target.log")
        if not lab.until(lambda: target.says("listening") or target.status() is not None, 10):
            report.fail(mode, path, "the target does not come up")
            target.kill()
            continue
        try:
            r = host.run(weft, "id-ctrl", "--timeout", "2", URI, timeout=30)
            said = r.stderr.strip()
            fault = None if r.returncode == 1 and re.fullmatch(f".*({pattern}).*", said) else \
                f"status {r.returncode}, said {said!r}, not /{pattern}/"
        except subprocess.TimeoutExpired:
            fault = "the host still runs after 30 s"
        # It ends by itself when the connection does.
        if target.wait(10) is None:
            fault = fault or "the target was not told that the host is gone"
            target.kill()
        if fault:
            report.fail(mode, path, fault)
        else:
            report.ok(mode, path, said)
    report.everything_ends([host])
    report.finish()


if __name__ == "__main__":
    main()
