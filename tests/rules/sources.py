#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Licence line, length, format, and nothing about the place where a file was written."""
import os
import re
import shutil
import subprocess

import tree

LICENCE = "SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only"
LINES_MAX = 800
# A program that runs with rights its user has not believes nothing of the environment; weft(1)
# itself has no other rights than its user.
GETENV = re.compile(r"(?<!secure_)\bgetenv\(")
SKIP = re.compile(r"\bskip" + r"\(\);")
# Homes and scratch places of people and machines have no meaning in the repository.
PLACES = re.compile(r"(?<![\w.$}/-])/(?:work|home|root|Users)/[\w.]|\.\./" + "shared/")

faults, seen = [], 0
for path in tree.files():
    text = tree.read(path)
    if not path.endswith((".c", ".h", ".def", ".py")) and not text.startswith("#!"):
        continue
    seen += 1
    head = "\n".join(text.splitlines()[:3])
    if LICENCE not in head and not path.endswith(".def"):
        faults.append(f"{path}: no licence line on top: {LICENCE}")
    if path.startswith("src/") and not path.startswith("src/cli/") and GETENV.search(text):
        faults.append(f"{path}: a library reads the environment: secure_getenv()")
    if path != "tests/skip.h" and SKIP.search(text):
        faults.append(f"{path}: cmocka's skip() says nothing and counts as passed: SKIP_CASE() of tests/skip.h")
    lines = text.count("\n")
    if path.startswith("src/") and lines > LINES_MAX:
        faults.append(f"{path}: {lines} lines; which two things is it?")

for path in tree.files():
    for number, line in enumerate(tree.read(path).splitlines(), 1):
        if "\0" in line:
            break
        if PLACES.search(line):
            faults.append(f"{path}:{number}: names a place of one machine: {line.strip()[:80]}")

formatter = shutil.which("clang-format")
if formatter is None:
    faults.append("clang-format is missing: scripts/setup installs it")
else:
    sources = [os.path.join(tree.TOP, p) for p in tree.files(".c", ".h")]
    r = subprocess.run([formatter, "--dry-run", "--Werror", *sources], capture_output=True, text=True)
    for line in r.stderr.splitlines():
        if "error:" in line:
            faults.append(line.replace(tree.TOP + "/", "") + "; `make format` mends it")
tree.finish("sources", faults, seen)
