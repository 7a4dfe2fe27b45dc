#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""libweft-nvmf is what its header says: the header alone compiles as C11 and as C++, the version map has
each of its functions, the library exports these and nothing else, and the manual has them.
usage: library.py BUILD
"""
import os
import re
import subprocess
import sys

import tree

HEADER = "include/weft/nvmf.h"
MAP = "lib/libweft-nvmf.map"
LIBRARY = os.path.join(os.path.abspath(sys.argv[1]), "lib/libweft-nvmf.so.0")
STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
NODE = "WEFT_NVMF_0"

faults = []
for compiler, language in (("gcc", "c"), ("clang", "c"), ("g++", "c++"), ("clang++", "c++")):
    for standard in (["c11", "gnu17"] if language == "c" else ["c++11", "c++17"]):
        r = subprocess.run([compiler, "-x", language, f"-std={standard}", *STRICT,
                            "-include", os.path.join(tree.TOP, HEADER), "/dev/null"],
                           capture_output=True, text=True, check=False)
        if r.returncode:
            faults.append(f"{HEADER}: {compiler} -std={standard}:\n{r.stderr}")

code = re.sub(r"/\*.*?\*/", "", tree.read(HEADER), flags=re.S)
declared = set(re.findall(r"\b(weft_\w+)\(", re.sub(r"\btypedef\b[^;{]*;", "", code)))
listed = re.findall(r"^\t\t(\w+);", tree.read(MAP), re.M)
faults += [f"{MAP}: {n} is not in {HEADER}" for n in listed if n not in declared]
faults += [f"{MAP}: lacks {n} of {HEADER}" for n in sorted(declared - set(listed))]
if listed != sorted(listed):
    faults.append(f"{MAP}: not in the alphabet's order")

out = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True,
                     text=True).stdout
exported = {line.split()[2] for line in out.splitlines()} - {NODE}
wanted = {f"{n}@@{NODE}" for n in declared}
faults += [f"{LIBRARY}: exports {n}" for n in sorted(exported - wanted)]
faults += [f"{LIBRARY}: lacks {n}" for n in sorted(wanted - exported)]

manual = "".join(tree.read(p) for p in tree.files(".3", under="docs/man/"))
faults += [f"docs/man: no page of section 3 has {n}" for n in sorted(declared)
           if not re.search(rf"^\.Fo {n}$|^\.Fn {n}\b", manual, re.M)]
tree.finish("library", faults, len(declared))
