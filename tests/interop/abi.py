#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Compares the symbols and versions that our two libraries export with those of Debian's.

A program is bound to name@version; what is missing here does not load, or fails at its first call.
The texts and rates that programs print are compared too, each asked of both libraries.
Names in abi-missing.txt are known to be missing; a name that is missing without being listed there
fails the test, and so does one that is listed although it is there, or exported beyond Debian's.
"""
import os, re, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def symbols(path):
    """name@version, and what it is: code, or data of so many bytes (programs may have a copy)."""
    out = subprocess.run(["nm", "-D", "-S", "--defined-only", path], check=True,
                         capture_output=True, text=True).stdout
    found = {}
    for line in out.splitlines():
        *size, kind, name = line.split()[1:]
        if kind != "A":
            found[name] = "code" if kind in "TtWi" else f"{int(size[0], 16)} bytes of data"
    return found


def system_library(name):
    for line in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True,
                               text=True).stdout.splitlines():
        m = re.match(r"\s*%s \(.*x86-64.*\) => (\S+)" % re.escape(name), line)
        if m:
            return m.group(1)
    return None


# Run once for each library: a process can have only one libibverbs.so.1.
ASK = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
for name in sys.argv[2].split(","):
    f = getattr(lib, name)
    text = name.endswith("_str")
    f.restype = ctypes.c_char_p if text else ctypes.c_int
    for i in list(range(-2, 300)) + [2500, 5000, 10000, 14062, 25781, 103125, 1275000]:
        print(name, i, f(ctypes.c_int(i)))
"""
ANSWERS = {
    "libibverbs.so.1": "ibv_wc_status_str,ibv_node_type_str,ibv_port_state_str,ibv_event_type_str,"
                       "ibv_rate_to_mult,mult_to_ibv_rate,ibv_rate_to_mbps,mbps_to_ibv_rate",
    "librdmacm.so.1": "rdma_event_str",
}


def answers(path, names):
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(path))
    return subprocess.run([sys.executable, "-c", ASK, path, names], check=True,
                          capture_output=True, text=True, env=env).stdout.splitlines()


def main():
    build = os.path.abspath(sys.argv[1])
    listed = set()
    for line in open(os.path.join(HERE, "abi-missing.txt")):
        line = line.split("#")[0].strip()
        if line:
            listed.add(line)
    bad, all_missing = 0, set()
    for lib in ("libibverbs.so.1", "librdmacm.so.1"):
        theirs = system_library(lib)
        if not theirs:
            print(f"SKIP: the system has no {lib} to compare with")
            return 77
        want, have = symbols(theirs), symbols(os.path.join(build, "lib", lib))
        others = {s for s in want if want[s] != have.get(s, want[s])}
        for s in sorted(others):
            print(f"{lib}: {s} is {have[s]}, and {want[s]} in {theirs}")
        bad += len(others)
        want, have = set(want), set(have)
        if not want:
            print(f"SKIP: {theirs} shows no symbols")
            return 77
        missing = want - have
        all_missing |= missing
        extra = {s for s in have - want if "@@WEFT_PRIVATE_" not in s}
        for s in sorted(missing - listed):
            print(f"{lib}: missing {s}")
        for s in sorted(extra):
            print(f"{lib}: exports {s}, which {theirs} does not")
        ours = os.path.join(build, "lib", lib)
        for a, b in zip(answers(theirs, ANSWERS[lib]), answers(ours, ANSWERS[lib])):
            if a != b:
                print(f"{lib}: {b}, where {theirs} has {a}")
                bad += 1
        bad += len(missing - listed) + len(extra)
        print(f"{lib}: {len(want & have)} of {len(want)} names of {theirs}, "
              f"{len(missing & listed)} known to be missing")
    for s in sorted(listed - all_missing):
        print(f"abi-missing.txt: {s} is not missing any more")
        bad += 1
    return 1 if bad else 0


sys.exit(main())
