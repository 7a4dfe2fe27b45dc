#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""docs/conformance-nvme.md has a row for what the target's code has of NVMe, and for nothing else, and
each test that it names is there."""
import os
import re

import tree

PAGE = "docs/conformance-nvme.md"
SUCCESS = "NVME_SC_SUCCESS"

target = [p for p in tree.files(".c", under="src/nvmf/target/")]
code = "\n".join(tree.read(p) for p in target)
there = {
    "commands": re.findall(r"^(?:ADMIN|IO|FABRICS)\((\w+),", tree.read("src/nvmf/target/commands.def"), re.M),
    "features": re.findall(r"^\t\[(NVME_FID_\w+)\] =", tree.read("src/nvmf/target/features.c"), re.M),
    "log pages": re.findall(r"^\t\[(NVME_LID_\w+)\] =", tree.read("src/nvmf/target/log.c"), re.M),
    "structures": re.findall(r"^\t\{\w+, (NVME_CNS_\w+),", tree.read("src/nvmf/target/identify.c"), re.M),
    "statuses": set(re.findall(r"\bNVME_SC_\w+", code)) - {SUCCESS},
    "errors of NVMe/TCP": re.findall(r"\b(NVME_TCP_FES_\w+) =", tree.read("src/wire/nvme_tcp.h")),
}
page = tree.read(PAGE)
rows = re.findall(r"^\| `(NVM\w+)` \|", page, re.M)
faults = [f"{PAGE}: {name} has {rows.count(name)} rows" for name in sorted(set(rows)) if rows.count(name) > 1]
for kind, names in there.items():
    if not names:
        faults.append(f"no {kind} are found in the code: this rule looks in the wrong place")
    faults += [f"{PAGE}: no row for {name}" for name in sorted(set(names) - set(rows))]
known = set().union(*there.values())
faults += [f"{PAGE}: {name}: the code has none" for name in sorted(set(rows) - known)]

tests = re.findall(r"`(test_\w+\.c): (\w+)`", page)
for file, name in tests:
    path = f"tests/unit/{file}"
    if path not in tree.files(".c", under="tests/unit/") or \
            not re.search(rf"^static void {name}\(void \*\*state\)", tree.read(path), re.M):
        faults.append(f"{PAGE}: there is no test {file}: {name}")
scripts = re.findall(r"`(tests/interop/\w+\.py)`", page)
faults += [f"{PAGE}: there is no {s}" for s in scripts if not os.path.isfile(os.path.join(tree.TOP, s))]
faults += [f"{PAGE}: {line.split('|')[1].strip()}: no test" for line in page.splitlines()
           if line.startswith("| `NVM") and "`test" not in line]
tree.finish("nvme", faults, len(rows) + len(tests))
