#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs Meson suites in one or more builds and ends with one plain line: N passed, N failed, N skipped.

usage: run-tests.py [--meanwhile COMMAND] BUILD:SETUP...   (a key of SETUPS, or the name of a suite)

--meanwhile: runs COMMAND, which makes what the later builds need, beside the first build's tests.
Each failed test is named with what it said of it, each skipped one, and each skipped case of one
that passed, with the reason it printed; a skip is never a pass.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

# What each kind of build runs. Under a sanitizer the programs that are not ours run no better,
# so those builds run the tests that are; TSan those that have threads.
SETUPS = {
    "check": ["--no-suite", "long", "--no-suite", "wide"],
    "wide": ["--suite", "wide"],
    "long": ["--suite", "long"],
    "asan": ["--suite", "unit", "--suite", "golden", "--suite", "sim", "--suite", "strangers",
             "--suite", "threads"],
    "tsan": ["--suite", "unit", "--suite", "threads"],
}
ENV = {
    # What is freed is kept back to be recognized: of 256 MiB, as it would be, each page is a fault.
    "asan": {"ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:quarantine_size_mb=32",
             "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
    "tsan": {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:die_after_fork=0"},
}


# Most of the time most tests wait for something: a timeout, a peer, a time that they measure.
CPUS = len(os.sched_getaffinity(0))
AT_ONCE = 2 * CPUS


AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"


def autogroups(setting):
    """What it was before; None: it cannot be set here."""
    try:
        with open(AUTOGROUP, encoding="ascii") as f:
            before = f.read()
        with open(AUTOGROUP, "w", encoding="ascii") as f:
            f.write(setting)
        return before
    except OSError:
        return None


@contextlib.contextmanager
def without_autogroups():
    """Meson gives each test a session, and so an autogroup (sched(7)), of its own. Linux 6.18 lets
    such a group wait for tens of seconds beside others that are busy, and then no test can keep a
    time limit: so while tests run there are none, if we may say so."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    before = autogroups("0\n")
    try:
        yield
    finally:
        if before:
            autogroups(before)


# Brokers and other children have no stderr, and nobody looks at how they end.
def reports_into(where, env):
    """The same options, with which a sanitizer of any process and user leaves its reports there."""
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    os.chmod(where, 0o1777)
    return {name: f"{options}:log_path={where}/report" for name, options in env.items()}


def reports(where):
    return sorted(os.path.join(where, name) for name in os.listdir(where))


# "SKIP: why" of a test, and "skip  1.2s case: why" of a case in one (tests/skip.h, tests/interop/lab.py).
LEFT_OUT = re.compile(r"(?:SKIP:?|skip +[\d.]+s) +(.*)")


def left_out(test):
    matches = map(LEFT_OUT.match, (test.get("stdout") or "").splitlines())
    return [m[1] for m in matches if m]


# "FAIL  1.2s case: why" of a case (tests/interop/lab.py) or what cmocka says, and some lines of the
# why; without either, the last words.
WENT_WRONG = re.compile(r"(?:FAIL +[\d.]+s |\[ +(?:ERROR|LINE|FAILED) +\] ).*(?:\n(?!ok |skip |FAIL |\[ ).*){0,7}",
                        re.M)


def went_wrong(test):
    said = (test.get("stdout") or "") + (test.get("stderr") or "")
    lines = [line for match in WENT_WRONG.findall(said) for line in match.splitlines()]
    return [line[:1000] for line in (lines or said.splitlines()[-8:])]


# Where it was, and what ran: the first frames of each stack are enough to find the place.
TELLS = re.compile(r".*(?:WARNING|ERROR|SUMMARY): .*|  \S.* (?:by|of size) .*|    #[0-5] .*|.*: runtime error: .*")


def gist(report):
    """The first lines of a sanitizer's report that tell where it was."""
    lines = [line[:160] for line in report.splitlines() if TELLS.match(line)]
    return lines[:16]


def run(build, setup):
    """Returns meson's exit status, the list of its tests' records, and sanitizers' reports."""
    log = os.path.join(build, "meson-logs", "testlog.json")
    where = os.path.join(os.path.abspath(build), "meson-logs", "sanitizers")
    env = reports_into(where, ENV.get(setup, {}))
    if os.path.exists(log):
        os.unlink(log)
    print(f"== {build}: {setup}", flush=True)
    status = subprocess.call(
        ["meson", "test", "-C", build, "--print-errorlogs", "--no-rebuild",
         "--num-processes", str(AT_ONCE),
         *SETUPS.get(setup, ["--suite", setup])],
        env={**os.environ, **env})
    if not os.path.exists(log):
        return status, [], reports(where)
    with open(log, encoding="utf-8") as f:
        return status, [json.loads(line) for line in f], reports(where)


def finish(command):
    """Waits for what ran meanwhile, and shows what it said if it failed."""
    out, _ = command.communicate()
    if command.returncode:
        print(out)
    return command.returncode


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--meanwhile", metavar="COMMAND")
    p.add_argument("what", nargs="+", metavar="BUILD:SETUP")
    args = p.parse_args()
    passed, failed, skipped, broken, reasons = 0, [], [], [], {}
    meanwhile = args.meanwhile and subprocess.Popen(
        args.meanwhile, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for arg in args.what:
        build, setup = arg.rsplit(":", 1)
        begun = time.monotonic()
        status, tests, said = run(build, setup)
        print(f"== {build}: {setup} took {time.monotonic() - begun:.0f} s")
        for t in tests:
            name = f"{build}: {t['name']}"
            if t["result"] in ("OK", "EXPECTEDFAIL"):
                passed += 1
                skipped += [f"{name}, in part - {why}" for why in left_out(t)]
            elif t["result"] == "SKIP":
                skipped.append(f"{name} - {', '.join(left_out(t)) or 'no reason given'}")
            else:
                failed.append(f"{name} ({t['result'].lower()})")
                reasons[failed[-1]] = went_wrong(t)
        for report in said:
            with open(report, encoding="utf-8", errors="replace") as f:
                text = f.read()
            print(f"---- {report}", text[:8000], sep="\n")
            broken.append(f"{build}: a sanitizer's report: {report}")
            reasons[broken[-1]] = gist(text)
        if not tests or (status and not any(f.startswith(build + ":") for f in failed)):
            broken.append(f"{build}: {len(tests)} tests ran, meson's status is {status}")
        if meanwhile:
            if finish(meanwhile):
                broken.append(f"{args.meanwhile}: status {meanwhile.returncode}")
            meanwhile = None
    print()
    for line in skipped:
        print("skipped:", line)
    for line in failed + broken:
        print("failed:", line)
        for reason in reasons.get(line, []):
            print("   ", reason)
    print(f"{passed} passed, {len(failed) + len(broken)} failed, {len(skipped)} skipped")
    return 1 if failed or broken or not passed else 0


with without_autogroups():
    exit_status = main()
sys.exit(exit_status)
