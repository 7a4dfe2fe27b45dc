#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft against the Linux kernel's RDMA and NVMe-oF, in QEMU guests.

usage: interop.py BUILD [--short | --report FILE] [--only REGEX] [--under REGEX]
                        [--keep] [--minutes N] [--list]

--short: the few cases that `make check` runs. --report: leave the results as a Markdown table.
--only: cases whose name matches. --under: conditions whose name does. --keep: captures of cases that passed, too.
--minutes: begin no case after so long (27). Exits 77 with the reason where guests cannot be booted.
"""
import argparse
import os
import re
import shutil
import signal
import sys
import time

import verbs_cases  # noqa: F401 (they fill CASES, in this order)
import nvme_cases  # noqa: F401
from cases import CASES, Context, Result, run_case
from lab import Lab, Missing
from plan import PLAN, SHORT
from sides import Kernel, Weft


def steps(args):
    """(condition, case, direction) in the order they run."""
    for condition, chosen in SHORT if args.short else PLAN:
        if not re.search(args.under or "", condition.name):
            continue
        for c in CASES:
            if (chosen is None or chosen(c)) and re.search(args.only or "", c.name):
                for direction in c.directions:
                    yield condition, c, direction


def run(args, lab):
    weft, kernel = Weft(lab), Kernel(lab)
    kernel.prepare()
    results, current = [], None
    logs = os.path.join(lab.build, "vm-logs")
    shutil.rmtree(logs, ignore_errors=True)
    for number, (condition, c, direction) in enumerate(steps(args)):
        if condition is not current and time.monotonic() <= args.end:
            condition.apply(lab)
            current = condition
            print(f"-- {condition.name}", flush=True)
        if time.monotonic() > args.end:
            results.append(Result(c.name, direction, condition.name, "skip", "out of time", 0))
            continue
        where = os.path.join(logs, f"{number:03}")
        os.makedirs(where)
        r = run_case(c, Context(lab, weft, kernel, direction, condition, where, condition.family))
        results.append(r)
        print(f"{r.verdict:4} {r.seconds:5.1f}s {direction:12} {c.name}"
              f"{': ' + r.note if r.note else ''}", flush=True)
        if r.verdict == "ok" and not args.keep:
            shutil.rmtree(where)
        else:
            print(f"     logs and capture: {where}", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--report", metavar="FILE")
    parser.add_argument("--only", metavar="REGEX")
    parser.add_argument("--under", metavar="REGEX")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--minutes", type=float, default=27)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        for condition, c, direction in steps(args):
            print(f"{condition.name}: {c.name} ({direction})")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.monotonic()
    args.end = begun + args.minutes * 60
    try:
        with Lab(args.build) as lab:
            print(f"Linux {lab.kernel}, up after {time.monotonic() - begun:.0f} s", flush=True)
            results = run(args, lab)
            kernel = lab.kernel
    except Missing as e:
        print(f"SKIP: {e}", flush=True)
        return 77
    seconds = time.monotonic() - begun
    failed, skipped = (sum(r.verdict == v for r in results) for v in ("FAIL", "skip"))
    print(f"{len(results) - failed - skipped} passed, {failed} failed, {skipped} skipped "
          f"in {seconds:.0f} s")
    if args.report:
        from report import write
        write(args.report, kernel, results, seconds)
    return 1 if failed or not results else 0


sys.exit(main())
