#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs the Meson suites and ends with one plain line: N passed, N failed, N skipped.

Each skipped test is shown with the reason it printed; a skip is never a pass.
"""
import json, os, subprocess, sys


def main():
    build = sys.argv[1]
    log = os.path.join(build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    cmd = ["meson", "test", "-C", build, "--print-errorlogs", "--no-rebuild"]
    cmd += sys.argv[2:] or ["--no-suite", "long"]
    status = subprocess.call(cmd)
    passed = failed = skipped = 0
    if os.path.exists(log):
        for line in open(log):
            t = json.loads(line)
            if t["result"] in ("OK", "EXPECTEDFAIL"):
                passed += 1
            elif t["result"] == "SKIP":
                skipped += 1
                why = [l for l in (t.get("stdout") or "").splitlines() if l.startswith("SKIP")]
                print("skipped:", t["name"], "-", why[0][5:].strip() if why else "no reason given")
            else:
                failed += 1
                print("failed:", t["name"])
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if status or failed or not passed else 0


sys.exit(main())
