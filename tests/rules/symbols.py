#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The cores, and files that are told the time, do no I/O: what their objects leave undefined is on a short list.

Walks the objects that the build made of each core's sources. A symbol of the base library is
followed into the object that defines it, so that nothing slips in through there either.
usage: symbols.py BUILD
"""
import json
import os
import re
import sys

import tree

ALLOWED = re.compile(
    r"(mem(cpy|move|set|cmp|chr)|str(n?len|n?cmp|chr|str)|bcmp|snprintf"  # the compiler makes some of these itself
    r"|__mem(cpy|move|set)_chk"
    r"|__assert_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_"
    r"|qsort|bsearch|abort"
    r"|__cpu_model"  # __builtin_cpu_supports()
    r"|crc32_gzip_refl|crc32_iscsi"  # ISA-L
    r"|(BN|CRYPTO|EVP|OPENSSL|OSSL_PARAM)_\w+"  # libcrypto: reckons; draws no randomness for whom we ask
    r"|(BIO|ERR|SSL|TLS)_\w+)$")  # libssl, between buffers: what TLS draws is its own
BY_SANITIZER = re.compile(r"_*(asan|ubsan|tsan|msan|lsan|sanitizer|sancov|llvm|gcov)_|__start___|__stop___")


build = os.path.abspath(sys.argv[1])
with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
    commands = json.load(f)
paths = {}  # source, relative to src/ -> object
src = os.path.join(tree.TOP, "src")
for c in commands:
    source = os.path.relpath(os.path.join(c["directory"], c["file"]), src)
    obj = os.path.join(c["directory"], c["output"])
    # The library's own object; tests may compile a source once more.
    if source.startswith("..") or "/libweft-" not in obj or not os.path.exists(obj):
        continue
    paths[source] = obj
symbols, objects = tree.symbols(paths.values()), {}  # source -> (object, defined, undefined)
for source, obj in paths.items():
    others, itself, undefined = symbols[obj]
    objects[source] = obj, others | itself, undefined

faults = []
cores = {s: o for s, o in objects.items() if tree.room_of(s) in tree.CORES or s in tree.PURE}
base = {name: s for s, o in objects.items() if tree.room_of(s) == "base" for name in o[1]}
in_cores = {name for o in cores.values() for name in o[1]}
for path in tree.files(".c", under="src/"):
    if (tree.room_of(path[4:]) in tree.CORES or path[4:] in tree.PURE) and path[4:] not in cores:
        faults.append(f"{path}: is built into no libweft-*.a")


def check(source, undefined, via, done):
    for name in sorted(undefined):
        if ALLOWED.match(name) or BY_SANITIZER.match(name) or name in in_cores:
            continue
        if name in base:
            if base[name] not in done:
                done.add(base[name])
                check(source, objects[base[name]][2], f" (through base/{base[name][5:]})", done)
            continue
        faults.append(f"src/{source}: needs {name}{via}, which is not for a core")


for source, (_, _, undefined) in sorted(cores.items()):
    check(source, undefined, "", set())
tree.finish("symbols", faults, len(cores))
