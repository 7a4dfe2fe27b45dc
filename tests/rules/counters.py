#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The manual has every counter, event, parameter and key as its .def list has it, and `weft stat` knows every list.

usage: counters.py [--write]   --write makes the tables of weft-counters(7), weft-trace(1), weft-congestion(7) and weft-scenario(5)
                               anew
"""
import os
import re
import sys

import tree

# The rooms as `weft stat` names them, in the order of the page; the list and what stands before it.
ROOMS = {
    "core": ("src/rnic/counters.def", "The RNIC, of each process."),
    "queue-pairs": ("src/rnic/qp_shown.def", "What is so of each queue pair; of its counters the core "
                    "tells above."),
    "port": ("src/port/counters.def", "The port of a process, or of the broker: its UDP socket; as xdp, what goes past the "
             "kernel's stack where WEFT_PORT asks for that; and as rocev1, the frames of RoCEv1 where WEFT_ROCEV1 does."),
    "target": ("src/nvmf/target/counters.def", "The target of weft-serve(1)."),
    "host": ("src/nvmf/host/counters.def", "The host of weft-bench(1), weft-cp(1) and the like."),
    "rsocket": ("src/rsocket/counters.def", "Sockets of rsocket(7), and so of weft run --sockets."),
    "broker": ("src/broker/counters.def", "The broker's own."),
    "cm": ("src/cm/counters.def", "The connection manager, in the broker."),
}
BEGIN, END = '.\\" The tables: tests/rules/counters.py --write', '.\\" The tables end.'


def counters(path):
    """[(macro, name, unit, sentence)] of a list."""
    text = re.sub(r"/\*.*?\*/", "", tree.read(path), flags=re.S)
    return [(macro, name, unit, "".join(re.findall(r'"([^"]*)"', says)))
            for macro, name, unit, says in re.findall(
                r'^([XQ])\((\w+),\s*"([^"]*)",\s*((?:"[^"]*"\s*)+)\)', text, re.M)]


def events():
    text = re.sub(r"/\*.*?\*/", "", tree.read("src/rnic/trace.def"), flags=re.S)
    lines = [BEGIN, ".Bl -tag -width rx_verdict"]
    for name, says, a, b in re.findall(r'^X\((\w+), "([^"]*)", "([^"]*)", "([^"]*)"\)', text, re.M):
        lines += [f".It Li {name}", says]
    return "\n".join(lines + [".El", END])


def table():
    lines = [BEGIN]
    for room, (path, says) in ROOMS.items():
        lines += [f".Ss {room}", says]
        if any(macro == "Q" for macro, *_ in counters(path)):
            lines.append("Those with an asterisk are also counted of each queue pair.")
        lines.append(".Bl -tag -width Ds")
        for macro, name, unit, text in counters(path):
            star = " *" if macro == "Q" else ""
            lines += [f".It Li {name} Pq {unit}{star}", text.replace("'", "\\(aq")]
        lines.append(".El")
    return "\n".join(lines + [END])


def parameters():
    text = re.sub(r"/\*.*?\*/", "", tree.read("src/rnic/cc/params.def"), flags=re.S)
    lines = [BEGIN, ".Bl -tag -width Ds"]
    for name, normally, least, most, unit, says in re.findall(
            r'^X\((\w+), (\d+), (\d+), (\d+), "([^"]*)",\s*"([^"]*)"\)', text, re.M):
        lines += [f".It Cm {name} Pq {normally}; {least} to {most}, {unit}", says.replace("'", "\\(aq")]
    return "\n".join(lines + [".El", END])


SECTIONS = {
    "TOP": "The run",
    "TOPOLOGY": "topology",
    "LINE": "links, uplinks, other_links",
    "HOSTS": "hosts",
    "SWITCHES": "switches",
    "INFINIBAND": "infiniband",
    "TRAFFIC": "traffic",
    "EXPECT": "expect",
}


def scenario():
    """What traffic there is, the keys of each section, and the figures."""
    text = re.sub(r"/\*.*?\*/", "", tree.read("src/fabric/traffic/kinds.def"), flags=re.S)
    lines = [BEGIN, ".Ss Kinds of traffic", "Besides the keys that are named, each has kind, name, start and dscp.",
             ".Bl -tag -width Ds"]
    for name, keys, says in re.findall(r'^X\(\w+, "([^"]*)", "([^"]*)", "([^"]*)"\)', text, re.M):
        lines += [f".It Cm {name}", says.replace("'", "\\(aq").replace("`", ""),
                  f"Keys: {', '.join(keys.split())}."]
    lines.append(".El")
    text = re.sub(r"/\*.*?\*/", "", tree.read("src/fabric/scenario/keys.def"), flags=re.S)
    for section, title in SECTIONS.items():
        lines += [f".Ss {title}", ".Bl -tag -width Ds"]
        for name, normally, says in re.findall(
                rf'^X\({section}, "(\w+)", .*, "([^"]*)", "([^"]*)"\)', text, re.M):
            lines += [f".It Cm {name}" + (f" Pq {normally}" if normally else ""),
                      says.replace("'", "\\(aq").replace("`", "")]
        lines.append(".El")
    text = re.sub(r"/\*.*?\*/", "", tree.read("src/fabric/scenario/figures.def"), flags=re.S)
    lines += [".Ss Figures", ".Bl -tag -width Ds"]
    for name, unit, says in re.findall(r'^X\(\w+, "([^"]*)", [\w |]+, "([^"]*)", "([^"]*)"\)', text, re.M):
        lines += [f".It Cm {name} Pq {unit}", says.replace("'", "\\(aq").replace("`", "")]
    return "\n".join(lines + [".El", END])


faults = []
for path, made in (("docs/man/weft-counters.7", table()), ("docs/man/weft-trace.1", events()),
                   ("docs/man/weft-congestion.7", parameters()),
                   ("docs/man/weft-scenario.5", scenario())):
    page = tree.read(path)
    begin, end = page.find(BEGIN), page.find(END)
    if begin < 0 or end < 0:
        faults.append(f"{path}: has no place for the tables")
    elif sys.argv[1:] == ["--write"]:
        with open(os.path.join(tree.TOP, path), "w", encoding="utf-8") as f:
            f.write(page[:begin] + made + page[end + len(END):])
    elif page[begin:end + len(END)] != made:
        faults.append(f"{path}: the tables are not those of the .def lists; tests/rules/counters.py "
                      "--write makes them")
shown = tree.read("src/cli/seen_names.c")
lists = [p for p in tree.files(".def", under="src/")
         if os.path.basename(p) in ("counters.def", "qp_shown.def")]
for path in lists:
    if path not in {p for p, _ in ROOMS.values()}:
        faults.append(f"{path}: is not in tests/rules/counters.py, and so not in the manual")
    if f'#include "{path[4:]}"' not in shown:
        faults.append(f"{path}: is not in src/cli/seen_names.c, and so not in `weft stat`")
    names = [name for _, name, _, _ in counters(path)]
    if len(names) != len(re.findall(r"^[XQ]\(", tree.read(path), re.M)) or len(set(names)) != len(names):
        faults.append(f"{path}: a row is not X(name, \"unit\", \"sentence\"), or is there twice")
tree.finish("counters", faults, len(lists))
