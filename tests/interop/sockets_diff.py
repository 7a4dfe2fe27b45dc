#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Socket programs over TCP and over `weft run --sockets`: can they tell?

usage: sockets_diff.py BUILD HELPERS [--only REGEX] [--modes both,client,server] [--show]
                       [--slots N] [--times N] [--patience FACTOR] [--without-brokers]

HELPERS is where the program sockets_cases is (BUILD/tests/interop), whose source is sockets/*.c:
some 320 small functions, each run by two processes in two networks, over plain TCP, and then with
both, the client alone and the server alone under `weft run --sockets`. What they say is to be the
same to the letter. --show prints the transcripts, TCP's and weft's; with --times each is run so
often, to find what depends on chance. Of 'both', those that went over TCP are failures, too.

What is known to differ stands in sockets/differences, a line each: CASE MODE why, where MODE may be
'both', 'client', 'server', several with commas, 'all', or 'tcp': goes over TCP though both ends
could do otherwise. A line that is no longer true is a failure: take it out. A word 'may' before why
is for what differs now and then.
"""
import argparse
import collections
import difflib
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time

import lab

MODES = ("both", "client", "server")
HERE = os.path.dirname(os.path.abspath(__file__))
DIFFERENCES = os.path.join(HERE, "sockets", "differences")
LIMIT_S = 15
BOARD_BYTES = 256 * 1024
SILENT = "10.77.0.250"  # takes everything and answers nothing
# Of a transcript: the case itself does not work, be it on TCP.
BROKEN = re.compile(r"^(ends with 9[678]|timeout|.*\.[ch]:\d+: .*)$", re.M)

# What no table of differences allows: crashes, and a sanitizer's end.
CRASHED = re.compile(r"^(is killed by SIG(?:SEGV|ABRT|BUS|ILL|FPE|SYS)|ends with 66)$", re.M)
Result = collections.namedtuple("Result", "tcp server client")


def renamed(helpers):
    """The program of the roles by weft in a build with ThreadSanitizer, or None."""
    path = os.path.join(os.path.abspath(helpers), "sockets_cases_renamed")
    return path if os.path.exists(path) else None


def unwatched():
    with open(os.path.join(HERE, "sockets", "unwatched"), encoding="ascii") as f:
        return {line.split()[0] for line in f if line.strip() and not line.startswith("#")}


class Slot:
    """Two hosts, and the driver that runs cases on them, one after another."""

    def __init__(self, args, number, scratch):
        self.hosts = lab.lab(2)
        for host in self.hosts:
            host.ip("neigh", "add", SILENT, "lladdr", "02:00:00:00:00:fe", "dev", "eth0",
                    "nud", "permanent")
        weft = os.path.join(os.path.abspath(args.build), "weft")
        board = os.path.join(scratch, f"board-{number}")
        with open(board, "wb") as f:
            f.truncate(BOARD_BYTES)
        self.log, self.port, self.heard = os.path.join(scratch, f"log-{number}"), 5000, 0
        self.brokers = []
        if not args.without_brokers:
            self.brokers = [lab.Program(h, [weft, "broker", "-f"],
                                        os.path.join(scratch, f"broker-{number}-{h.name}"))
                            for h in self.hosts]
            if not lab.until(lambda: all(h.has_broker() for h in self.hosts), 20):
                raise RuntimeError("no broker")
        program = os.path.join(os.path.abspath(args.helpers), "sockets_cases")
        env = dict(os.environ)
        if renamed(args.helpers):
            env["SOCKETS_CASES_RENAMED"] = renamed(args.helpers)
            # A server's children have threads, too; and each process that ends would wait for a
            # second for what its threads do still.
            env["TSAN_OPTIONS"] = (f"{env.get('TSAN_OPTIONS', 'halt_on_error=1')}:die_after_fork=0"
                                   ":atexit_sleep_ms=50")
        with open(self.log, "wb") as log:
            self.driver = subprocess.Popen(
                [program, "drive", board, weft, SILENT,
                 *(str(w) for h in self.hosts for w in (h.holder.pid, h.address, h.address6))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env,
                preexec_fn=lab.die_with_parent)

    def run(self, case, mode, limit_ms):
        self.port = 5000 + (self.port + 10) % 20000
        self.driver.stdin.write(f"{case} {mode} {self.port} {limit_ms}\n".encode())
        self.driver.stdin.flush()
        head = self.driver.stdout.readline().decode().split()
        if len(head) != 5:
            raise RuntimeError(f"the driver ended at {case} {mode}: {open(self.log).read()[-500:]}")
        texts = [self.driver.stdout.read(int(n)).decode(errors="replace") for n in head[3:]]
        return Result(int(head[2]), *texts)

    def said(self):
        """By the programs, a sanitizer perhaps, since it was asked last."""
        with open(self.log, encoding="utf-8", errors="replace") as f:
            f.seek(self.heard)
            text = f.read()
            self.heard = f.tell()
        return text.splitlines()

    def end(self):
        """What is wrong, or None."""
        self.driver.stdin.close()
        self.driver.wait()
        ends = []
        for b in self.brokers:
            b.process.terminate()
            ends.append(b.wait(10))
            b.kill()
        left = [line for h in self.hosts for line in h.close()]
        if any(ends) or None in ends:
            return f"brokers end with {ends}"
        return f"still running: {', '.join(left)}" if left else None


def differences():
    """{(case, mode): why}; how a line's 'all' and commas are read."""
    table = {}
    with open(DIFFERENCES, encoding="ascii") as f:
        for line in f:
            words = line.split(maxsplit=2)
            if not words or words[0].startswith("#"):
                continue
            if len(words) < 3:
                sys.exit(f"{DIFFERENCES}: '{line.strip()}': no why")
            for mode in MODES if words[1] == "all" else words[1].split(","):
                table[words[0], mode] = words[2].strip()
    return table


def compare(plain, other):
    """The lines in which they differ, or none."""
    lines = []
    for who in ("server", "client"):
        a, b = getattr(plain, who), getattr(other, who)
        if a != b:
            lines += [f"  {who}:"]
            lines += ["    " + l for l in difflib.unified_diff(
                a.splitlines(), b.splitlines(), "TCP", "weft", n=2, lineterm="")][2:]
    return lines


class Tester:
    def __init__(self, args, known):
        self.args, self.known = args, known
        self.jobs, self.lock = queue.Queue(), threading.Lock()
        self.passed = self.expected = self.runs = 0
        self.failed, self.lines, self.faults = [], [], []

    def verdict(self, case, mode, differs, lines, crashed=False):
        """Under the lock: counts, and says what is not as the table has it."""
        why = None if crashed else self.known.get((case, mode))
        may = why and why.startswith("may ")
        what = "goes over TCP" if mode == "tcp" else f"{mode} differs"
        if differs and why:
            self.expected += 1
        elif differs:
            self.failed.append(f"{case} {mode}")
            print(f"FAIL {case}: {what}", *lines, sep="\n", flush=True)
        elif why and not may:
            self.failed.append(f"{case} {mode}")
            print(f"FAIL {case}: {mode}: mended: take it out of sockets/differences", flush=True)
        else:
            self.passed += mode != "tcp"

    def one(self, slot, case, limit_s):
        limit = int((limit_s or LIMIT_S) * self.args.patience * 1000)
        plain = slot.run(case, "plain", limit)
        if BROKEN.search(plain.server + plain.client):
            with self.lock:
                self.failed.append(f"{case} plain")
                print(f"FAIL {case}: does not work on TCP\n{plain.server}----\n{plain.client}")
            return
        if self.args.show:
            print(f"---- {case} by TCP: server\n{plain.server}---- client\n{plain.client}", end="")
        for mode in self.args.modes:
            begun = time.monotonic()
            got = slot.run(case, mode, limit)
            spent = time.monotonic() - begun
            lines = compare(plain, got)
            crashes = [CRASHED.findall(r.server + r.client) for r in (plain, got)]
            said = slot.said()
            if lines and said:
                lines += ["  they say:", *("    " + l for l in said[-60:])]
            by_tcp = got.tcp > 0 and mode == "both"
            if by_tcp and (case, "tcp") not in self.known:  # it may be that nobody had the time
                by_tcp = slot.run(case, mode, limit).tcp > 0
            with self.lock:
                self.runs += 1
                if self.args.show:
                    print(f"---- {case} {mode}: server\n{got.server}---- client\n{got.client}",
                          end="")
                if self.args.slow and spent > self.args.slow:
                    print(f"slow {spent:5.1f}s {case} {mode}", flush=True)
                self.verdict(case, mode, bool(lines), lines, crashes[0] != crashes[1])
                if mode == "both":
                    self.verdict(case, "tcp", by_tcp, [f"  {got.tcp} segments"])

    def work(self, number, scratch):
        try:
            slot = Slot(self.args, number, scratch)
            try:
                while True:
                    self.one(slot, *self.jobs.get_nowait())
            except queue.Empty:
                pass
            finally:
                wrong = slot.end()
            if wrong:
                raise RuntimeError(wrong)
        except Exception as e:  # pylint: disable=broad-except
            self.faults.append(e)
            raise


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("--only", metavar="REGEX", default="", help="cases whose name matches")
    p.add_argument("--modes", default=",".join(MODES), help="who runs by weft")
    p.add_argument("--show", action="store_true", help="print TCP's transcripts")
    p.add_argument("--slow", type=float, metavar="SECONDS", help="name what takes longer")
    p.add_argument("--slots", type=int, default=6, help="cases at a time")
    p.add_argument("--times", type=int, default=1)
    p.add_argument("--patience", type=float, default=1, help="on the limit of each case")
    p.add_argument("--without-brokers", action="store_true",
                   help="a plain end's host answers nothing on RDMA's port")
    args = p.parse_args()
    args.modes = args.modes.split(",")
    return args


def main():
    args = arguments()
    lab.enter()
    known = differences()
    program = os.path.join(os.path.abspath(args.helpers), "sockets_cases")
    listed = [l.split() for l in subprocess.run([program, "list"], capture_output=True, text=True,
                                                check=True).stdout.splitlines()]
    names = [n for n, _ in listed]
    unknown = sorted({c for c, _ in known} - set(names))
    if unknown:
        sys.exit(f"{DIFFERENCES} names cases that are not there: {', '.join(unknown)}")
    if len(set(names)) != len(names):
        sys.exit("two cases have one name")
    tester = Tester(args, known)
    left_out = unwatched() if renamed(args.helpers) else set()
    if left_out - set(names):
        sys.exit(f"sockets/unwatched names cases that are not there: {left_out - set(names)}")
    chosen = [(n, int(limit)) for n, limit in listed
              if re.search(args.only, n) and n not in left_out]
    for _ in range(args.times):
        for job in chosen:
            tester.jobs.put(job)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        threads = [threading.Thread(target=tester.work, args=(i, scratch))
                   for i in range(min(args.slots, len(chosen)))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    print(f"{len(chosen)} cases, {tester.runs} comparisons: {tester.passed} the same, "
          f"{tester.expected} known to differ, {len(tester.failed)} wrong "
          f"({time.monotonic() - begun:.0f} s)")
    sys.exit(1 if tester.failed or tester.faults or not chosen else 0)


main()
