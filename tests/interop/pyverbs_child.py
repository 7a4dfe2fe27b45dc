#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs modules of rdma-core's pyverbs tests as their own run_tests.py does, and notes each result.

usage: pyverbs_child.py TESTS DEVICE LOG MODULE...
(started by pyverbs.py, on the libraries that it chose)

LOG gets a line of JSON when a test begins and one when it ends. What LOG says was begun is not
run again, so that whoever started this can start it once more after a test that ended it.
"""
import importlib
import json
import os
import sys
import time
import traceback
import unittest


class Result(unittest.TestResult):
    """Writes down what becomes of each test, as it happens."""

    def __init__(self, log):
        super().__init__()
        self.log = log

    def _note(self, test, what, why=""):
        self.log.write(json.dumps({"test": test.id(), "what": what, "why": why,
                                   "at": time.monotonic()}) + "\n")
        self.log.flush()

    def startTest(self, test):
        super().startTest(test)
        print(f"== {test.id()}", flush=True)
        self._note(test, "begun")

    def addSuccess(self, test):
        self._note(test, "passed")

    def addSkip(self, test, reason):
        self._note(test, "skipped", reason)

    def addFailure(self, test, err):
        self._bad(test, "failed", err)

    def addError(self, test, err):
        self._bad(test, "error", err)

    def addSubTest(self, test, subtest, err):
        if err:
            self._bad(test, "failed", err)

    def addExpectedFailure(self, test, err):
        self._note(test, "passed")

    def addUnexpectedSuccess(self, test):
        self._note(test, "failed", "passes, which it is expected not to")

    def _bad(self, test, what, err):
        traceback.print_exception(*err)
        last = traceback.format_exception_only(err[0], err[1])[-1].strip()
        self._note(test, what, last)


def each(suite):
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from each(entry)
        else:
            yield entry


def main():
    where, device, log, *modules = sys.argv[1:]
    begun = set()
    if os.path.exists(log):
        with open(log, encoding="utf-8") as f:
            begun = {json.loads(line)["test"] for line in f}
    # Theirs instead of this file's directory, where a pyverbs.py would hide the package.
    sys.path[:1] = [os.path.dirname(where), where]
    sys.argv = ["run_tests.py", "--dev", device]
    from args_parser import parser
    parser.parse_args()
    suite = [unittest.defaultTestLoader.loadTestsFromModule(
        importlib.import_module("tests." + m)) for m in modules]
    with open(log, "a", encoding="utf-8") as f:
        left = unittest.TestSuite(t for t in each(suite) if t.id() not in begun)
        left.run(Result(f))


main()
