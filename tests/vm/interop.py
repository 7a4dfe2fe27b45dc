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
after so long (28). Exits 77 with the reason where guests cannot be booted.
"""
import argparse
import os
import re
import shutil
import signal
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import verbs_cases  # noqa: F401 (they fill CASES, in this order)
import wire_cases  # noqa: F401
import nvme_cases  # noqa: F401
import crash_cases  # noqa: F401
from cases import CASES, Context, Result, Run
from lab import Lab, Missing
from plan import LONG, PANIC, PLAN, SHORT
from record import Record
from sides import Kernel, Weft, WeftInGuest

OUT_OF_TIME = "out of time"
BEHIND = 3  # captures that may wait to be looked at


def steps(section):
    """(condition, case, direction) in the order they run."""
    for condition, chosen, *only in section.plan:
        for c in CASES:
            if chosen(c):
                for direction in c.directions:
                    if not only or direction in only[0]:
                        yield condition, c, direction


def chosen_steps(args, section, record):
    """Those of them that are asked for and not known yet."""
    for condition, c, direction in steps(section):
        where = f"{section.title}: {condition.name}"
        step = section.title, condition.name, c.name, direction
        if re.search(args.under or "", where) and re.search(args.only or "", c.name) \
                and not record.passed(step):
            yield condition, c, direction


class Sections:
    """Runs sections one after the other; results go into the record as they come."""

    def __init__(self, args, record):
        self.args, self.record = args, record
        self.logs = os.path.join(args.build, "vm-logs")
        self.results, self.count = [], 0
        self.judged, self.heading = deque(), None
        shutil.rmtree(self.logs, ignore_errors=True)

    def skip(self, section, todo, why):
        """A machine that cannot is worth recording; that the time is up is not."""
        for condition, c, direction in todo:
            self.results.append(Result(section.title, condition.name, c.name, direction, "skip", why, 0))
            if why != OUT_OF_TIME:
                self.record.add(self.results[-1])
        print(f"SKIP: {section.title}: {why}", flush=True)

    def run(self, section, todo):
        """In one lab after the other, should a guest die."""
        while todo:
            begun = time.monotonic()
            if begun > self.args.end:
                self.skip(section, todo, OUT_OF_TIME)
                return
            try:
                with Lab(self.args.build, section.guests, section.kernel) as lab:
                    print(f"== {section.title}: Linux {lab.kernel}, up after "
                          f"{time.monotonic() - begun:.0f} s", flush=True)
                    self.record.kernel(section.title, lab.kernel)
                    todo = self.run_steps(lab, section, todo)
            except Missing as e:
                self.skip(section, todo, str(e))
                return

    def run_steps(self, lab, section, todo):
        """Those that are left: where one of the guests has died, or the time is up."""
        weft = Weft(lab) if section.provider == "weft" else WeftInGuest(lab, "g1", section.rdma)
        kernel = Kernel(lab, "g1" if section.provider == "weft" else "g2", section.rdma)
        kernel.prepare()
        if section.provider != "weft":
            weft.prepare()
        current = None
        with ThreadPoolExecutor(1) as judge:
            for i, (condition, c, direction) in enumerate(todo):
                if time.monotonic() > self.args.end:
                    break
                if condition is not current:
                    condition.apply(lab)
                    current = condition
                self.count += 1
                step = Run(c, Context(lab, weft, kernel, direction, section, condition,
                                      os.path.join(self.logs, f"{self.count:03}"),
                                      condition.family))
                os.makedirs(step.context.dir)
                step.run()
                self.judged.append((step.context, judge.submit(step.finish)))
                self.take_results(BEHIND)
                if step.dead:
                    i += 1
                    break
            else:
                i = len(todo)
            self.take_results(0)
        return todo[i:]

    def take_results(self, left):
        """Of the cases that were being looked at while others ran, but for so many."""
        while len(self.judged) > left:
            context, future = self.judged.popleft()
            self.take_result(context, future.result())

    def take_result(self, context, r):
        self.results.append(r)
        self.record.add(r)
        if (r.section, r.condition) != self.heading:
            self.heading = r.section, r.condition
            print(f"-- {r.condition}", flush=True)
        print(f"{r.verdict:6} {r.seconds:5.1f}s {r.direction:12} {r.case}"
              f"{': ' + r.note if r.note else ''}", flush=True)
        if r.verdict == "ok" and not self.args.keep:
            shutil.rmtree(context.dir)
        else:
            print(f"     logs and capture: {context.dir}", flush=True)


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
    parser.add_argument("--minutes", type=float, default=28)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    args.build = os.path.realpath(args.build)
    plan = SHORT if args.short else LONG if args.long else PANIC if args.panic else PLAN
    record = Record(os.path.join(args.build, "vm-results.json"), args.resume, plan is PLAN)
    todo = [(s, list(chosen_steps(args, s, record))) for s in plan]
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
    failed, skipped, kernel = (sum(r.verdict == v for r in results)
                               for v in ("FAIL", "skip", "kernel"))
    if results and skipped == len(results):
        print(f"SKIP: {results[0].note}", flush=True)
        return 77
    print(f"{len(results) - failed - skipped - kernel} passed, {failed} failed, {kernel} the kernel's "
          f"fault, {skipped} skipped in {time.monotonic() - begun:.0f} s")
    if args.panic:
        went_on = [r.verdict for r in results] == ["FAIL", "ok", "ok"]
        return 0 if went_on and "g1 died: " in results[0].note and "Kernel panic" in results[0].note else 1
    if args.report:
        report(args.report, plan, record)
    return 1 if failed else 0


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
