# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Running the cases of a plan's sections, in one lab after the other, and what came of all."""
import os
import shutil
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor

from cases import Context, Result, Run
from lab import Lab, Missing
from sides import Kernel, Weft, WeftInGuest

TRIES = 3  # of a case that the kernel breaks
BEHIND = 3  # captures that may wait to be looked at


class Sections:
    """Runs sections one after the other; results go into the record as they come."""

    def __init__(self, args, record):
        self.args, self.record = args, record
        self.logs = os.path.join(args.build, "vm-logs")
        self.results, self.count = [], 0
        self.judged, self.heading = deque(), None
        self.again, self.tries = [], Counter()
        shutil.rmtree(self.logs, ignore_errors=True)

    def skip(self, section, todo, why):
        """This machine cannot."""
        for condition, c, direction in todo:
            self.results.append(Result(section.title, condition.name, c.name, direction, "skip", why, 0))
            self.record.add(self.results[-1])
        print(f"SKIP: {section.title}: {why}", flush=True)

    def out_of_time(self, section, todo):
        """What was never begun is no result and is not recorded; what the kernel broke is what it was."""
        for condition, c, direction in todo:
            r = Result(section.title, condition.name, c.name, direction, "not run", "out of time", 0)
            if self.tries[r.step]:
                r.verdict = "kernel"
                r.note = f"the kernel broke it {self.tries[r.step]} times; out of time for another"
                self.record.add(r)
            self.results.append(r)
        print(f"OUT OF TIME: {section.title}: {len(todo)} cases are left", flush=True)

    def run(self, section, todo):
        """In one lab after the other, should a guest die."""
        while todo:
            begun = time.monotonic()
            if begun > self.args.end:
                self.out_of_time(section, todo)
                return
            try:
                with Lab(self.args.build, section.guests, section.kernel,
                         section.rdma == "siw") as lab:
                    took = time.monotonic() - begun
                    self.args.end += took  # the first time they are made, too: no case's time
                    print(f"== {section.title}: Linux {lab.kernel}, up after {took:.0f} s", flush=True)
                    self.record.kernel(section.title, lab.kernel)
                    todo = self.run_steps(lab, section, todo)
                    todo += self.again
                    self.again = []
            except Missing as e:
                self.skip(section, todo, str(e))
                return

    def run_steps(self, lab, section, todo):
        """Those that are left: where one of the guests has died, or the time is up."""
        weft = Weft(lab, section.rdma) if section.provider == "weft" else WeftInGuest(lab, "g1", section.rdma)
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
                self.judged.append((step, judge.submit(step.finish)))
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
            step, future = self.judged.popleft()
            self.take_result(step, future.result())

    def take_result(self, step, r):
        """What failed by a fault of the kernel's runs again: it must pass once."""
        context = step.context
        self.tries[r.step] += 1
        if r.verdict == "kernel" and self.tries[r.step] < TRIES:
            self.again.append((context.condition, step.case, context.direction))
        else:
            if self.tries[r.step] > 1:
                r.note += f"; after {self.tries[r.step] - 1} that the kernel broke"
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


def verdict(results, seconds):
    """(what is said at the end, the exit status): what was to run and did not is no success."""
    count = Counter(r.verdict for r in results)
    if not results:
        return "no case was chosen", 1
    if count["skip"] == len(results):
        return f"SKIP: {results[0].note}", 77
    said = (f"{count['ok']} passed, {count['FAIL']} failed, {count['kernel']} the kernel's fault, "
            f"{count['skip']} skipped in {seconds:.0f} s")
    if count["not run"]:
        said += (f"\nNOT RUN: {count['not run']} of {len(results)} cases, out of time: "
                 "--resume goes on with them")
    return said, 1 if count["FAIL"] or count["kernel"] or count["not run"] else 0
