#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What becomes of cases for which no time is left: sections.py with cases that need no guests.

usage: out_of_time.py
"""
import contextlib
import io
import os
import sys
import tempfile
import time
from types import SimpleNamespace

import sections
from cases import Case, Result

FAULTS = []


class Record:
    def __init__(self):
        self.results = {}

    def kernel(self, *_):
        pass

    def add(self, r):
        self.results[r.step] = r.verdict


class Lab:
    kernel = "none"

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Side(SimpleNamespace):
    def __init__(self, *_):
        super().__init__(prepare=lambda: None)


class Run:
    """Of a case whose run() names the verdicts, one after the other; "late" lets the time run out."""

    def __init__(self, case, context):
        self.case, self.context, self.dead = case, context, []

    def run(self):
        self.verdict = self.case.run.pop(0)
        if self.verdict.startswith("late "):
            ARGS.end = 0
            self.verdict = self.verdict[5:]

    def finish(self):
        c = self.context
        return Result(c.section.title, c.condition.name, self.case.name, c.direction, self.verdict, "", 0)


def expect(name, scripts, verdicts, recorded, status, words):
    """Cases with what each of their runs brings; what is to be said of them in the end."""
    section = SimpleNamespace(title="s", guests=1, kernel="6.1", provider="weft", rdma="rxe")
    condition = SimpleNamespace(name="c", family=4, apply=lambda _: None)
    record, said = Record(), io.StringIO()
    ARGS.end = time.monotonic() + 60
    with tempfile.TemporaryDirectory() as ARGS.build, contextlib.redirect_stdout(said):
        s = sections.Sections(ARGS, record)
        s.run(section, [(condition, Case(f"case {i}", list(script), ()), "weft active")
                        for i, script in enumerate(scripts)])
    text, got = sections.verdict(s.results, 1)
    for what, seen, wanted in (("verdicts", [r.verdict for r in s.results], verdicts),
                               ("recorded", sorted(record.results.values()), recorded),
                               ("status", got, status),
                               ("text", [w for w in words if w not in text + said.getvalue()], [])):
        if seen != wanted:
            FAULTS.append(name)
            print(f"{name}: {what}: {seen}, not {wanted}: {text}")


ARGS = SimpleNamespace(keep=False)
for replaced in (Lab, Run):
    setattr(sections, replaced.__name__, replaced)
sections.Weft = sections.Kernel = Side
expect("all pass", [["ok"], ["ok"]], ["ok", "ok"], ["ok", "ok"], 0, ["2 passed, 0 failed"])
expect("one fails", [["ok"], ["FAIL"]], ["ok", "FAIL"], ["FAIL", "ok"], 1, ["1 passed, 1 failed"])
expect("the kernel breaks one once", [["kernel", "ok"], ["ok"]], ["ok", "ok"], ["ok", "ok"], 0, ["2 passed"])
expect("the kernel breaks one each time", [["kernel"] * 3], ["kernel"], ["kernel"], 1, ["1 the kernel's"])
# No result of a run: it is told, it is no success, and --resume begins with it.
expect("never begun", [["late ok"], ["ok"], ["ok"]], ["ok", "not run", "not run"], ["ok"], 1,
       ["1 passed, 0 failed", "NOT RUN: 2 of 3", "OUT OF TIME"])
# It has failed, and has not passed since.
expect("no time for a second try", [["late kernel"]], ["kernel"], ["kernel"], 1, ["1 the kernel's fault"])
expect("no time for a third", [["kernel", "late kernel"]], ["kernel"], ["kernel"], 1, ["1 the kernel's"])
if sections.verdict([], 1)[1] != 1:
    FAULTS.append("a run without cases is a success")
print(f"{len(FAULTS)} faults: {FAULTS}" if FAULTS else "ok", os.path.basename(__file__))
sys.exit(1 if FAULTS else 0)
