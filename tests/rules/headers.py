#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Every header compiles alone: what it needs, it includes.

As GNU C only, under both compilers: these are internal ones, which use designated array initializers
and statement expressions, which C++ has not. The one that is installed library.py looks at. A header
that its source of the same name includes before all others has been compiled alone by the build.
"""
import os
import re
import subprocess

import tree


def compile_alone(path, compiler):
    r = subprocess.run(
        [compiler, "-x", "c", "-std=gnu17", "-fsyntax-only", "-Wall", "-Werror", "-D_GNU_SOURCE",
         '-DWEFT_VERSION="0"', "-I", os.path.join(tree.TOP, "src"), "-I", os.path.join(tree.TOP, "include"),
         "-include", os.path.join(tree.TOP, path), "/dev/null"],
        capture_output=True, text=True)
    return [] if r.returncode == 0 else [f"{path}: {compiler}: does not compile alone:\n{r.stderr}"]


def comes_first(path):
    source = path[:-2] + ".c"
    first = re.search(r"^\s*#\s*include\s+(.*)$", tree.read(source) if os.path.isfile(os.path.join(tree.TOP, source))
                      else "", re.M)
    return first and first[1] == f'"{path[len("src/"):]}"'


headers = tree.files(".h", under="src/")
faults = []
for header in headers:
    if not comes_first(header):
        for compiler in ("gcc", "clang"):
            faults += compile_alone(header, compiler)
tree.finish("headers", faults, len(headers))
