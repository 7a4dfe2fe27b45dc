#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""docs/conformance-nvme.md has a row for what nvmf's code has of NVMe, and for nothing else, and each test that it
names is there. Each command, and each status that is sent, is named by the cases of all transports; each fatal error
status of NVMe/TCP, with its byte and its words, by the tests of the side that sends it."""
import os
import re

import tree

PAGE = "docs/conformance-nvme.md"
CASES = r"test_transport_\w+\.c"
SUCCESS = "NVME_SC_SUCCESS"
TCP = "src/nvmf/tcp/"
RECEIVER = TCP + "rx.c"  # what is wrong with any PDU, whichever side takes it
SIDES = {  # what a side of NVMe/TCP is, and its tests
    "host": ([TCP + "host.c", TCP + "host_queue.c"], r"test_host_tcp\w*\.c"),
    "target": ([TCP + "command.c", TCP + "connection.c", TCP + "ending.c", TCP + "queue.c", TCP + "target.c"],
               r"test_target_tcp\w*\.c"),
}


def code_of(paths):
    """Without comments."""
    return re.sub(r"/\*.*?\*/", "", "\n".join(tree.read(p) for p in paths), flags=re.S)


def sent(paths, constant):
    """Not those that are only looked for."""
    looked_for = rf"\bcase {constant}:|[=!]= {constant}|{constant} [=!]="
    return set(re.findall(rf"\b{constant}\b", re.sub(looked_for, "", code_of(paths))))


def tests_of(files):
    return code_of(p for p in tree.files(".c", under="tests/unit/") if re.fullmatch(files, os.path.basename(p)))


def unnamed(names, files):
    text = re.sub(r"\bcase \w+:", "", tests_of(files))
    if not text:
        return [f"there are no tests/unit/{files}: this rule looks in the wrong place"]
    return [f"{name} is in no case of tests/unit/{files}" for name in sorted(names)
            if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


def told(paths):
    """Of each terminate request its reason, the byte of the header, and the words, as far as they are constants."""
    calls = re.findall(r"(?:terminate|bad|bad_field)\((?:q|rx),\s*(\w+)(?:,\s*(\w+))?(?:,\s*((?:\"[^\"]*\"\s*)+))?",
                       code_of(paths))
    for constants in calls:
        yield from (c for c in constants[:2] if c.startswith("NVME_TCP_"))
        if constants[2]:
            yield re.sub(r"\"\s*\"", "", constants[2]).strip().strip('"')


nvmf = [p for kind in (".c", ".h") for p in tree.files(kind, under="src/nvmf/")]
commands = re.findall(r"^(?:ADMIN|IO|FABRICS)\((\w+),", tree.read("src/nvmf/target/commands.def"), re.M)
statuses = sent(nvmf, r"NVME_SC_\w+") - {SUCCESS}
reasons = sent(nvmf, r"NVME_TCP_FES_\w+")
there = {
    "commands": commands,
    "features": re.findall(r"^\t\[(NVME_FID_\w+)\] =", tree.read("src/nvmf/target/features.c"), re.M),
    "log pages": re.findall(r"^\t\[(NVME_LID_\w+)\] =", tree.read("src/nvmf/target/log.c"), re.M),
    "structures": re.findall(r"^\t\{\w+, (NVME_CNS_\w+),", tree.read("src/nvmf/target/identify.c"), re.M),
    "statuses": statuses,
    "errors of NVMe/TCP": reasons,
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

faults += unnamed(statuses | set(commands), CASES)
of_sides = set()
for side, (paths, files) in SIDES.items():
    said = sent(paths + [RECEIVER], r"NVME_TCP_FES_\w+")
    of_sides |= said
    faults += unnamed(said | set(told(paths + [RECEIVER])), files)
faults += [f"{name}: neither side of NVMe/TCP that this rule knows sends it" for name in sorted(reasons - of_sides)]

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
