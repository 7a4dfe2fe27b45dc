#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Files call one another downward: no circles within a room, but those that are listed.

Reads the objects of each room: who leaves a symbol undefined calls, or names, the one that defines
it. Prints every circle with the calls that make it.
usage: circles.py BUILD
"""
import json
import os
import sys

import tree

# (room, files of the circle without their .c, why it is there). A list that gets shorter: one that
# is a circle no longer, or has lost a file, is a fault, too.
LISTED = (
    ("nodes", "calls tree", "calls of the C library that nodes/ itself answers"),
    ("rsocket", "connect cq dgram dgram_io iomap recv send stream svc",
     "whoever waits makes progress for all: what comes in may connect, send or end a stream"),
    ("sockets", "end epoll epoll_sets fd io relay stdio table",
     "a call of the C library has another's effects"),
    ("subnet", "discover manager program requests",
     "an answer says what is asked next, and what is asked waits for its answer"),
)


def circles(calls):
    """The strongly connected parts, of two nodes or more, of node -> set of nodes (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in calls[v]:
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for v in sorted(calls):
        if v not in index:
            visit(v)
    return found


build = os.path.abspath(sys.argv[1])
with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
    commands = json.load(f)
objects, src = {}, os.path.join(tree.TOP, "src")
for c in commands:
    source = os.path.relpath(os.path.join(c["directory"], c["file"]), src)
    obj = os.path.join(c["directory"], c["output"])
    if source.startswith("..") or not source.endswith(".c") or not os.path.exists(obj):
        continue
    # Tests may compile a source once more; one of its objects is enough.
    objects.setdefault(source, obj)
symbols, rooms = tree.symbols(objects.values()), {}
for source, obj in objects.items():
    others, _, undefined = symbols[obj]
    rooms.setdefault(tree.room_of(source), {})[source] = others, undefined

faults = []
listed = {(room, frozenset(f + ".c" for f in names.split())): why for room, names, why in LISTED}
for room, files in sorted(rooms.items()):
    owner = {name: s for s, (defined, _) in files.items() for name in defined}
    calls = {s: {owner[n] for n in undefined if owner.get(n, s) != s}
             for s, (_, undefined) in files.items()}
    for circle in circles(calls):
        why = listed.pop((room, frozenset(map(os.path.basename, circle))), None)
        print(f"{room}: a circle of {len(circle)} files: {why or 'not listed'}")
        for s in circle:
            for other in sorted(calls[s] & set(circle)):
                names = sorted(n for n in files[s][1] if owner.get(n) == other)
                print(f"    {os.path.basename(s)} -> {os.path.basename(other)}: {', '.join(names)}")
        if not why:
            faults.append(f"{room}: a circle of {len(circle)} files that is not listed in circles.py: "
                          "move what is called to where it belongs")
for room, names in listed:
    faults.append(f"{room}: {', '.join(sorted(names))} are not the circle that circles.py lists: "
                  "take it off, or those files that have left it")
tree.finish("circles", faults, sum(map(len, rooms.values())))
