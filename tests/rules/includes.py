#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The dependency rule: a file includes from its own room and from the rooms below it only; and of the
command line, the verbs of a host include nothing of the storage half but the library."""
import os
import re

import tree

# The cores take memory, time and randomness by hand; what these headers offer is not theirs.
NOT_IN_CORES = re.compile(
    r"(stdio|stdlib|time|unistd|pthread|poll|fcntl|signal|malloc|threads)\.h"
    r"|sys/(socket|mman|ioctl|epoll|timerfd|eventfd|random|time)\.h|netinet/.*|arpa/.*|linux/.*")
# Of the storage half one room knows RDMA, by the standard headers, so that it runs on any RNIC.
KNOWS_VERBS = "nvmf/rdma"

faults, seen, includes = [], 0, {}
for path in tree.files(".c", ".h", ".def", under="src/"):
    room = tree.room_of(path[len("src/"):])
    if room is None:
        faults.append(f"{path}: belongs to no room that tests/rules/tree.py knows")
        continue
    seen += 1
    for number, line in enumerate(tree.read(path).splitlines(), 1):
        own = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        sys_header = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
        if own:
            includes.setdefault(path[len("src/"):], []).append(own[1])
            target = tree.room_of(own[1])
            if target is None or not os.path.isfile(os.path.join(tree.TOP, "src", own[1])):
                faults.append(f'{path}:{number}: "{own[1]}" is no path from src/')
            elif target != room and target not in tree.ROOMS[room]:
                faults.append(f"{path}:{number}: {room} must not include from {target}")
        elif sys_header and room in tree.CORES and NOT_IN_CORES.fullmatch(sys_header[1]):
            faults.append(f"{path}:{number}: <{sys_header[1]}> has no place in a core ({room})")
        elif sys_header and re.match("(infiniband|rdma)/", sys_header[1]) \
                and (room in tree.CORES or room.startswith("nvmf/") and room != KNOWS_VERBS):
            faults.append(f"{path}:{number}: {room} must not know <{sys_header[1]}>")
faults += tree.verb_faults(includes)
# It sees what is not a verb's, through another header, too, and lets the target have its own.
MADE_UP = {"cli/cmd_x.c": ["cli/x.h", "nvmf/lib/uri.h"], "cli/x.h": ["nvmf/host/host.h"],
           "cli/serve_x.c": ["nvmf/target/target.h"]}
if tree.verb_faults(MADE_UP) != [f"src/{way}: a host's verb stands on <weft/nvmf.h>" for way in (
        "cli/cmd_x.c -> cli/x.h -> nvmf/host/host.h", "cli/x.h -> nvmf/host/host.h")]:
    faults.append("tests/rules/tree.py: verb_faults() does not see what it is for")
tree.finish("includes", faults, seen)
