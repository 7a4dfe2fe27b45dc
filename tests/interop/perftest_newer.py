#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A newer perftest than Debian 12's, unmodified, under `weft run`: it posts by ibv_wr_*() unless told
--use_old_post_send, and is built from the source of Debian 13's package.

usage: perftest_newer.py BUILD (one | veth)
"""
import os
import re
import subprocess

import debian_source
import lab
import perftest
import programs

COMMANDS = ("./autogen.sh", "./configure --prefix={prefix}", "make -j{jobs} install")
OLD = "--use_old_post_send"
# program, options; each runs with both ways to post, and connected by socket and by rdma_cm
CASES = (
    ("ib_write_bw", "-s 65536 -n 500"),
    ("ib_write_lat", "-s 8 -n 500"),
    ("ib_send_bw", "-s 65536 -n 500 -e"),
    ("ib_send_lat", "-s 8 -n 500"),
    ("ib_read_bw", "-s 65536 -n 500"),
    ("ib_read_lat", "-s 8 -n 500"),
    ("ib_atomic_bw", "-n 500"),
    ("ib_atomic_lat", "-n 500 -A CMP_AND_SWAP"),
    ("ib_send_bw", "-c UD -s 1024 -n 300"),
    ("ib_send_lat", "-c UD -s 8 -n 300"),
    ("ib_send_bw", "--use-srq -s 4096 -n 500 -q 4"),
)
# These by socket alone: perftest itself has no UC with -R.
BY_SOCKET = (
    ("ib_write_bw", "-c UC -s 65536 -n 500"),
    ("ib_send_lat", "-c UC -s 8 -n 300"),
    ("ib_send_bw", "-c XRC -s 65536 -n 500 -q 4"),
)


def all_cases():
    for program, options in CASES + BY_SOCKET:
        for posted in ("", f" {OLD}"):
            for manager in ("", " -R") if (program, options) in CASES else ("",):
                yield perftest.measured(program, options + posted + manager)


def main():
    args = lab.arguments(__doc__)
    prefix = debian_source.built(args.build, "perftest", "perftest", COMMANDS)
    lab.enter()
    os.environ["PATH"] = f"{prefix}/bin:{os.environ['PATH']}"
    said = subprocess.run(["ib_write_bw", "--version"], capture_output=True, text=True, check=False)
    print(f"perftest {re.search(r'[0-9.]+', said.stdout)[0]}")
    bench = programs.Bench(args.build, 1 if args.where == "one" else 2, "roce")
    report = lab.Report(args.build, f"perftest-newer-{args.where}")
    for case in all_cases():
        if args.only in case.name:
            report.attempt(case.name, lambda path, c=case: bench.pair(c, path))
    report.everything_ends([bench.server, bench.client])
    report.finish()


if __name__ == "__main__":
    main()
