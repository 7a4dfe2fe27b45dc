#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Every command is in the manual, with an example, and in the README; links lead somewhere; manual
pages are clean."""
import os
import re
import subprocess

import tree

faults, seen = [], 0

commands = re.findall(r'^X\(\w+,\s*"([^"]+)"', tree.read("src/cli/commands.def"), re.M)
readme = tree.read("README.md")
overview = tree.read("docs/man/weft.1")
for name in commands:
    seen += 1
    if not os.path.isfile(os.path.join(tree.TOP, f"docs/man/weft-{name}.1")):
        faults.append(f"weft {name}: docs/man/weft-{name}.1 is missing")
    if f"weft {name}" not in readme:
        faults.append(f"weft {name}: not in README.md")
    if f".Xr weft-{name} 1" not in overview:
        faults.append(f"weft {name}: not in docs/man/weft.1")

pages = tree.files(".1", ".3", ".5", ".7", under="docs/man/")
for page in pages:
    seen += 1
    name = re.fullmatch(r"docs/man/weft-(.+)\.1", page)
    if name and name[1] not in commands:
        faults.append(f"{page}: there is no command weft {name[1]}")
    if f"'man/{os.path.basename(page)}'" not in tree.read("docs/meson.build"):
        faults.append(f"{page}: docs/meson.build does not install it")
    # A page may be another's, which then shows this command, too.
    text = tree.read(page)
    so = re.fullmatch(r"\.so man1/(weft-[\w-]+\.1)\n", text)
    if so:
        text = tree.read("docs/man/" + so[1])
        if not re.search(rf"^\.Nm {os.path.basename(page)[:-2]}( ,)?$", text, re.M):
            faults.append(f"{page}: {so[1]} is not about it")
    examples = re.search(r"^\.Sh EXAMPLES\n(.*?)(?=^\.Sh |\Z)", text, re.M | re.S)
    own = os.path.basename(page)[:-2].replace("-", " ", 1)
    own = own if own.startswith("weft") else own.split()[0]  # another program's, with ours in it
    if page.endswith(".1") and not re.search(rf"^\.Dl .*\b{own}\b", examples[1] if examples else "", re.M):
        faults.append(f"{page}: EXAMPLES shows no line with `{own}`")
    for ref in re.findall(r"^\.Xr (weft[\w-]*) (\d)", tree.read(page), re.M):
        if not os.path.isfile(os.path.join(tree.TOP, "docs/man", ".".join(ref))):
            faults.append(f"{page}: .Xr {ref[0]} {ref[1]} leads nowhere")
whole = [os.path.join(tree.TOP, p) for p in pages if not tree.read(p).startswith(".so ")]
lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *whole],
                      capture_output=True, text=True) if pages else None
if lint:
    # Pages of other projects are not here to be found.
    faults += [l.replace(tree.TOP + "/", "") for l in lint.stdout.splitlines()
               if "referenced manual not found" not in l]

target = tree.read("docs/man/weft-target.1")
verbs = re.findall(r'^X\(\w+, "([a-z]+)"', tree.read("src/config/verbs.def"), re.M)
paths = re.findall(r'"(/[\w/]+)"\)$', tree.read("src/config/objects.def"), re.M)
# Which attributes there are at a path, and which have no effect.
groups = {"DISCOVERY": ("/", "discovery"), "DHCHAP": ("/hosts/NQN", "dhchap"), "ATTR": ("/subsystems/NQN", "attr"),
          "DEVICE": ("/subsystems/NQN/namespaces/NSID", "device"), "ANA": ("/subsystems/NQN/namespaces/NSID", "ana"),
          "RESV": ("/subsystems/NQN/namespaces/NSID", "resv"), "ADDR": ("/ports/PORTID", "addr"),
          "PARAM": ("/ports/PORTID", "param"), "REFERRAL_ADDR": ("/ports/PORTID/referrals/NAME", "addr")}
told = {path: [set(re.findall(r"\b\w+\.\w+\b", part)) for part in (text + "and without effect\n").split("and without effect\n")]
        for path, text in re.findall(r"^\.It Li (/\S*)\n(.*?)(?=^\.(?:It|El))", target, re.M | re.S)}
for section, body in re.findall(r"^\t\[SECTION_(\w+)\] = \{(.*?)\}\},?$", tree.read("src/config/keys.c"), re.M | re.S):
    for key, note in re.findall(r'\{"(\w+)"(?!, KIND_(?:OBJECT|LIST))(, KIND_VALUE, )?', body + "}") if section in groups else ():
        seen += 1
        path, name = groups[section][0], f"{groups[section][1]}.{key}"
        if name not in told.get(path, [(), ()])[bool(note)]:
            faults.append(f"docs/man/weft-target.1: no attribute {name} {'without' if note else 'with'} an effect at {path}")
seen += len(verbs) + len(paths)
faults += [f"docs/man/weft-target.1: no verb {v}" for v in verbs if not re.search(rf"\bCm {v}\b", target)]
faults += [f"docs/man/weft-target.1: no path {p}" for p in paths if f".It Li {p}\n" not in target]
if len(verbs) < 5 or len(paths) < 5:
    faults.append("src/config: verbs.def and objects.def are not what this rule reads")

causes = re.findall(r'^X\(\w+, (\d+), "([^"]+)"\)', tree.read("src/rnic/cause.def"), re.M)
listed = re.findall(r"^\.It Li (\d+)\n(.*)", tree.read("docs/man/weft.7"), re.M)
seen += len(causes)
if not causes or causes != listed:
    faults.append("docs/man/weft.7: the table of vendor_err is not that of src/rnic/cause.def: "
                  f"{sorted(set(causes) ^ set(listed))}")
if len({number for number, _ in causes}) != len(causes):
    faults.append("src/rnic/cause.def: a number is there twice")
diagnostics = re.search(r"^\.Sh DIAGNOSTICS\n(.*?)^\.Sh ", tree.read("docs/man/weft.7"), re.M | re.S)
modules = {m for path in tree.files(".c", ".h", under="src/")
           for m in re.findall(r'\blog_(?:err|warn|info|debug|refused)\(\s*"(\w+)"', tree.read(path))}
seen += len(modules)
faults += [f"docs/man/weft.7: DIAGNOSTICS has no module {m} of the log" for m in sorted(modules)
           if not re.search(rf"^\.Cm {m}\b", diagnostics[1], re.M)]
# Tests that a page names are there.
def spelled_out(text):
    m = re.search(r"\{([^{}]*)\}", text)
    return [s for word in m[1].split(",") for s in spelled_out(text[:m.start()] + word + text[m.end():])] if m else [text]


tests = {os.path.basename(p) for p in tree.files(".c", ".py", under="tests/")}
for path in tree.files(".md"):
    for text in re.findall(r"`([^`\s*]*test_[^`\s*]*\.c|tests/[^`\s*]*\.(?:c|py))`", tree.read(path)):
        seen += 1
        faults += [f"{path}: there is no {name}" for name in spelled_out(text) if os.path.basename(name) not in tests]
    text = re.sub(r"```.*?```", "", tree.read(path), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        seen += 1
        target = target.split("#")[0]
        if not target or re.match(r"[a-z]+:", target):
            continue
        if not os.path.exists(os.path.join(tree.TOP, os.path.dirname(path), target)):
            faults.append(f"{path}: link to {target} leads nowhere")
tree.finish("docs", faults, seen)
