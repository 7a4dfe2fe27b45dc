#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""rdma-core's own test suite (Debian's python3-pyverbs), unmodified, on weft.

usage: pyverbs.py BUILD [--on lo|veth|iwarp]... [--only REGEX] [--list] [--write]
       pyverbs.py --system DEVICE --netdev NAME [--record]

Runs the generic modules, which are all but those that test mlx5, EFA and CUDA, on a loopback, an
Ethernet and an iWARP device, each in a network namespace of its own, and prints how many tests of each
passed, failed and were skipped, with every skip's reason, beside what Linux's rxe makes of them
(pyverbs-rxe.json). What fails the run: a failure, a skip that docs/conformance.md does not name
(--write writes them there), too few tests that pass. --system runs the same tests on the system's
libraries and a device of the kernel's, as root; so the figures of rxe were taken, and --record
adds them.
"""
import argparse
import collections
import glob
import gzip
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import lab

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"  # the one that python3-pyverbs is built for
PACKAGED = "/usr/share/doc/rdma-core/tests"
DOCUMENT = os.path.join(lab.TOP, "docs", "conformance.md")
RXE = os.path.join(HERE, "pyverbs-rxe.json")
# Tests of one vendor's adapters. Their helpers (mlx5_base and the like) stay: others import them.
VENDORS = ("test_mlx5", "test_efa", "test_cuda")
DEVICES = {"lo": "weft_lo", "veth": "weft_eth0", "iwarp": "weft_iw_eth0"}
STUCK_S = 120
# Of a device's 170, if all modules run. Those with traffic take none of iWARP's.
PASSED_MIN = {"weft_lo": 135, "weft_eth0": 135, "weft_iw_eth0": 38}
BEGIN, END = "<!-- pyverbs.py --write: begin -->", "<!-- pyverbs.py --write: end -->"
BAD = ("failed", "error")
UNTOLD = "said nothing of how it ended"


def unpack(where):
    """The package's tests as a Python package in where; returns the generic modules' names."""
    os.makedirs(where)
    for path in glob.glob(os.path.join(PACKAGED, "*.py*")):
        name = os.path.basename(path)
        if name.startswith(VENDORS):
            continue
        opener = gzip.open if name.endswith(".gz") else open
        with opener(path, "rb") as src, open(os.path.join(where, name.removesuffix(".gz")),
                                             "wb") as dst:
            shutil.copyfileobj(src, dst)
    return sorted(os.path.basename(p)[:-3] for p in glob.glob(os.path.join(where, "test_*.py")))


# pyverbs takes a device's addresses from the interface that /sys/class/infiniband names. Only the
# kernel can make such an entry, and neither weft nor rxe has one; a mount namespace has it without.
SYSFS = """
set -e
stash=$(mktemp -d)
mount -t tmpfs none "$stash"
mkdir "$stash/new"
for d in /sys/class/*; do
	mkdir "$stash/new/${d##*/}"
	[ "$d" = /sys/class/infiniband ] || mount --bind "$d" "$stash/new/${d##*/}"
done
entry=$stash/new/infiniband/$1
mkdir -p "$entry"
[ ! -d "/sys/class/infiniband/$1" ] || cp -r "/sys/class/infiniband/$1/." "$entry" 2>/dev/null || :
mkdir -p "$entry/device/net/$2"
mount --rbind "$stash/new" /sys/class
umount -l "$stash"
rmdir "$stash"
shift 2
exec "$@"
"""


class Bench:
    """A device, the libraries to use it by, and how to run something there."""

    def __init__(self, device, netdev, through):
        self.device, self.netdev, self.through = device, netdev, through

    def inside(self, argv):
        return argv

    def run(self, argv, out):
        wrapped = ["unshare", "--mount", "--", "sh", "-c", SYSFS, "sysfs", self.device,
                   self.netdev, *self.through, *argv]
        return subprocess.Popen(self.inside(wrapped), stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.STDOUT, start_new_session=True,
                                preexec_fn=lab.die_with_parent)

    def close(self):
        return []


class Weft(Bench):
    """A device of weft's in a network namespace of its own."""

    def __init__(self, build, on):
        weft = os.path.join(os.path.abspath(build), "weft")
        super().__init__(DEVICES[on], "lo" if on == "lo" else "eth0",
                         [weft, "run", "--devices", "iwarp" if on == "iwarp" else "roce", "--"])
        self.host, _ = lab.lab(1 if on == "lo" else 2)

    def inside(self, argv):
        return self.host.inside(argv)

    def close(self):
        return self.host.close()


def read(log):
    if not os.path.exists(log):
        return []
    with open(log, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def attempt(bench, argv, log, out):
    """Runs the tests until the process ends, or one of them is stuck; what became of it."""
    process = bench.run(argv, out)
    size, since = -1, time.monotonic()
    while process.poll() is None:
        now = os.path.getsize(log) if os.path.exists(log) else 0
        if now != size:
            size, since = now, time.monotonic()
        if time.monotonic() - since > STUCK_S:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"still runs after {STUCK_S} s"
        time.sleep(0.05)
    return f"ends the process with {process.returncode}" if process.returncode else ""


def run_modules(bench, tests, modules, logs):
    """Every test of the modules; {test: (what, why)}. A test that ends the process is an error."""
    log = os.path.join(logs, "results")
    argv = [PYTHON, os.path.join(HERE, "pyverbs_child.py"), tests, bench.device, log, *modules]
    with open(os.path.join(logs, "output.log"), "ab") as out:
        while True:
            fate = attempt(bench, argv, log, out)
            lines = read(log)
            if not fate:
                break
            if not lines or lines[-1]["what"] != "begun":
                print(f"FAIL the tests do not run: it {fate}; see {logs}/output.log")
                sys.exit(1)
            with open(log, "a", encoding="utf-8") as f:
                f.write(json.dumps({**lines[-1], "what": "error", "why": fate}) + "\n")
    results = {}
    for line in lines:
        name = line["test"].removeprefix("tests.")
        if line["what"] == "begun":
            results[name] = ("error", UNTOLD)
        elif results[name][0] not in BAD or results[name][1] == UNTOLD:
            results[name] = (line["what"], line["why"])
    return results


def plain(why):
    """A reason without what changes from run to run, in one line."""
    why = re.sub(r"0x[0-9a-f]{4,}", "0x…", why)
    return " ".join(why.split())[:160]


def count(results, module):
    c = collections.Counter(what for name, (what, _) in results.items()
                            if name.split(".")[0] == module)
    return c["passed"], c["failed"] + c["error"], c["skipped"]


def table(results, rxe):
    """Rows of a module's name and, for each device, passed, failed, skipped; rxe's at the end."""
    modules = sorted({name.split(".")[0] for r in results.values() for name in r})
    columns = {on: {m: count(r, m) for m in modules} for on, r in results.items()} | rxe
    rows = [[m] + ["{} / {} / {}".format(*c[m]) for c in columns.values()] for m in modules]
    rows.append(["all"] + ["{} / {} / {}".format(*(sum(n) for n in zip(*(c[m] for m in modules))))
                           for c in columns.values()])
    return ["module", *columns], rows


def record(results, modules, rxe):
    rxe[f"rxe {platform.release()}"] = {m: count(results, m) for m in modules}
    with open(RXE, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(
            f'"{kernel}": {{\n' + ",\n".join(f'\t"{m}": {list(c)}' for m, c in figures.items())
            + "\n}" for kernel, figures in rxe.items()) + "\n}\n")


def aligned(heads, rows):
    widths = [max(len(r[i]) for r in [heads, *rows]) for i in range(len(heads))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip()
                     for r in [heads, *rows])


def skips(results):
    """{reason: {test: devices}}"""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for on, r in results.items():
        for name, (what, why) in r.items():
            if what == "skipped":
                found[plain(why)][name].append(on)
    return found


def short(name):
    module, _, method = name.split(".")
    return f"{module}.{method}"


def document(results, rxe):
    heads, rows = table(results, rxe)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(r) + " |" for r in rows]
    lines += ["", "| skipped | the reason it gives |", "|---|---|"]
    for why, tests in sorted(skips(results).items()):
        names = []
        for name, ons in sorted(tests.items()):
            where = "" if len(ons) == len(results) else f" ({', '.join(ons)})"
            names.append(f"`{short(name)}`{where}")
        lines.append(f"| {', '.join(names)} | {why.replace('|', '/')} |")
    return "\n".join(lines)


def write(text):
    with open(DOCUMENT, encoding="utf-8") as f:
        whole = f.read()
    before, rest = whole.split(BEGIN)
    _, after = rest.split(END)
    with open(DOCUMENT, "w", encoding="utf-8") as f:
        f.write(f"{before}{BEGIN}\n{text}\n{END}{after}")


def unnamed(results):
    """Skips that the document does not name."""
    with open(DOCUMENT, encoding="utf-8") as f:
        named = f.read().split(BEGIN)[1].split(END)[0]
    return sorted({name for tests in skips(results).values() for name in tests
                   if f"`{short(name)}`" not in named})


def tell(results):
    for module in sorted({name.split(".")[0] for name in results}):
        print("{:20} {:3} passed {:3} failed {:3} skipped".format(module, *count(results, module)))
        for name, (what, why) in results.items():
            if what != "passed" and name.split(".")[0] == module:
                print(f"    {what}: {name.split('.')[-1]}: {plain(why)}")
    sys.stdout.flush()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", nargs="?", default="build")
    p.add_argument("--on", action="append", choices=sorted(DEVICES))
    p.add_argument("--only", default="", help="modules whose name matches")
    p.add_argument("--list", action="store_true", help="name the modules and end")
    p.add_argument("--write", action="store_true", help="write docs/conformance.md's tables")
    p.add_argument("--system", metavar="DEVICE", help="the system's libraries and this device")
    p.add_argument("--netdev", default="eth0", help="the interface of that device")
    p.add_argument("--record", action="store_true", help="note the figures in pyverbs-rxe.json")
    args = p.parse_args()
    if not os.path.isdir(PACKAGED):
        lab.skip(f"no {PACKAGED}: python3-pyverbs is not installed (scripts/setup installs it)")
    if not args.list and not args.system:
        lab.enter()
    with open(RXE, encoding="utf-8") as f:
        rxe = json.load(f)
    with tempfile.TemporaryDirectory(prefix="pyverbs.") as top:
        tests = os.path.join(top, "tests")
        modules = [m for m in unpack(tests) if re.search(args.only, m)]
        if args.list:
            print("\n".join(modules))
            return 0
        results = {}
        left = []
        for on in [args.system] if args.system else args.on or ["veth", "lo", "iwarp"]:
            name = args.system or DEVICES[on]
            logs = os.path.join(top if args.system else args.build, "interop-logs",
                                f"pyverbs-{on}")
            shutil.rmtree(logs, ignore_errors=True)
            os.makedirs(logs)
            bench = Bench(on, args.netdev, []) if args.system else Weft(args.build, on)
            print(f"== {name} (logs in {logs})", flush=True)
            results[name] = run_modules(bench, tests, modules, logs)
            tell(results[name])
            left += bench.close()
    if args.record:
        record(results[args.system], modules, rxe)
    print("\npassed / failed / skipped")
    print(aligned(*table(results, rxe)))
    if args.system:
        return 0
    bad = [f"{on}: {name}: {plain(why)}" for on, r in results.items()
           for name, (what, why) in r.items() if what in BAD]
    bad += [f"still running: {line}" for line in left]
    for on, r in results.items():
        passed = sum(what == "passed" for what, _ in r.values())
        if not args.only and passed < PASSED_MIN[on]:
            bad.append(f"{on}: {passed} tests passed, and {PASSED_MIN[on]} should")
    if args.write:
        write(document(results, rxe))
    else:
        bad += [f"{name} is skipped and docs/conformance.md does not name it"
                for name in unnamed(results)]
    for line in bad:
        print("FAIL", line)
    if not any(results.values()):
        print("FAIL no test ran")
        return 1
    return 1 if bad else 0


sys.exit(main())
