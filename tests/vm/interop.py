#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft against the Linux kernel's RDMA and NVMe-oF, in QEMU guests.

usage: interop.py BUILD [--short | --long | --panic | --report FILE] [--resume] [--only REGEX]
                        [--under REGEX] [--keep] [--minutes N] [--list]

--short: the few cases that `make check` runs. --long: those that take minutes each. --panic: a guest
dies, and the next case has to find another. --report: leave the results as a Markdown table; it is
written when every case of the plan has run, and not touched before. --resume: go on where an earlier
run of the same commit stopped, failures once more. --only: cases whose name matches. --under: sections
and conditions whose name does. --keep: captures of cases that passed, too. --minutes: begin no case
after so long (60), making and booting guests not counted; what has not run then is a failure. Exits
77 with the reason where guests cannot be booted.
"""
import argparse
import os
import re
import signal
import sys
import time

import verbs_cases  # noqa: F401 (they fill CASES, in this order)
import wire_cases  # noqa: F401
import nvme_cases  # noqa: F401
import change_cases  # noqa: F401
import auth_cases  # noqa: F401
import tls_cases  # noqa: F401
import attach_cases  # noqa: F401
import fabric_cases  # noqa: F401
import crash_cases  # noqa: F401
from cases import CASES
from plan import LONG, PANIC, PLAN, SHORT
from record import Record
from sections import Sections, verdict


def steps(section):
    """(condition, case, direction) in the order they run."""
    for condition, chosen, *only in section.plan:
        for c in CASES:
            if chosen(c):
                for direction in c.directions:
                    if not only or direction in only[0]:
                        yield condition, c, direction


def chosen_steps(args, section, passed):
    """Those of them that are asked for and have not passed before."""
    for condition, c, direction in steps(section):
        where = f"{section.title}: {condition.name}"
        step = section.title, condition.name, c.name, direction
        if re.search(args.under or "", where) and re.search(args.only or "", c.name) \
                and not passed(step):
            yield condition, c, direction


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--panic", action="store_true")
    parser.add_argument("--report", metavar="FILE")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--only", metavar="REGEX")
    parser.add_argument("--under", metavar="REGEX")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    args.build = os.path.realpath(args.build)
    plan = SHORT if args.short else LONG if args.long else PANIC if args.panic else PLAN
    record = Record(os.path.join(args.build, "vm-results.json"), args.resume, plan is PLAN)
    if not any(any(chosen_steps(args, s, lambda _: False)) for s in plan):
        parser.error("no case is so called")
    todo = [(s, list(chosen_steps(args, s, record.passed))) for s in plan]
    if args.list:
        for section, some in todo:
            for condition, c, direction in some:
                print(f"{section.title}: {condition.name}: {c.name} ({direction})")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun = time.monotonic()
    args.end = begun + args.minutes * 60
    sections = Sections(args, record)
    for section, some in todo:
        if some:
            sections.run(section, some)
    results = sections.results
    said, status = verdict(results, time.monotonic() - begun) if any(some for _, some in todo) \
        else ("every case has passed before", 0)
    print(said, flush=True)
    if status == 77:
        return 77
    if args.panic:
        went_on = [r.verdict for r in results] == ["FAIL", "ok", "ok"]
        return 0 if went_on and "g1 died: " in results[0].note and "Kernel panic" in results[0].note else 1
    if args.report:
        report(args.report, plan, record)
    return status


def report(path, plan, record):
    """When all of the plan is known, be it that this machine cannot run a part."""
    from report import write
    wanted = [(s.title, condition.name, c.name, d) for s in plan for condition, c, d in steps(s)]
    missing = [w for w in wanted if w not in record.results]
    if missing:
        print(f"{path} is left as it is: {len(missing)} of {len(wanted)} cases have not run; "
              "`scripts/interop --resume` goes on with them")
    else:
        write(path, record, wanted, {s.title: s.note for s in plan})


sys.exit(main())
