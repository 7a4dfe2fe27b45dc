#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft bench by fio's words: several jobs, kinds of verification, and JSON with the names that fio itself
has, where it is installed.

usage: fio_words.py BUILD [--transport rdma|tcp]
"""
import argparse
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile

import lab

NQN = "nqn.2026-11.org.weft:fio-words"
KINDS = ("crc32c", "crc32", "crc64", "sha256", "sha384", "sha512", "meta", "pattern")


class Lab:
    def __init__(self, args):
        self.weft = os.path.join(os.path.abspath(args.build), "weft")
        self.host = lab.lab(1)[0]
        self.report = lab.Report(args.build, f"fio-words-{args.transport}")
        self.tmp = tempfile.TemporaryDirectory()
        self.image = os.path.join(self.tmp.name, "disk.img")
        self.listen = f"{args.transport}://{self.host.address}"
        self.uri = f"nvme+{self.listen}/{NQN}"
        self.programs, self.path = [], ""

    def serve(self):
        with open(self.image, "wb") as f:
            f.truncate(4 << 20)
        p = lab.Program(self.host, [self.weft, "serve", self.image, "--nqn", NQN, "-l", self.listen],
                        f"{self.path}/serve.log")
        self.programs.append(p)
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 10):
            raise AssertionError("weft serve does not come up")

    def bench(self, *words, status=0, says=""):
        r = self.host.run(self.weft, "bench", self.uri, "--size=1m", *words, timeout=60)
        if r.returncode != status or says not in r.stdout + r.stderr:
            raise AssertionError(f"weft bench {' '.join(words)}: status {r.returncode}, not {status}, or no "
                                 f"'{says}': {r.stderr[-300:]}{r.stdout[-300:]}")
        return r.stdout

    def json(self, *words):
        return json.loads(self.bench(*words, "--output-format=json"))

    def prove(self, name, function):
        self.report.prove_and_end(name, self, lambda: function(self))


def same(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {got}, not {want}")


def jobs(l):
    l.serve()
    r = l.json("--numjobs=3", "--iodepth=4", "--name=many", "--rw=read")
    same("jobs", [j["jobname"] for j in r["jobs"]], ["many"] * 3)
    same("each reads it all", [j["read"]["total_ios"] for j in r["jobs"]], [256] * 3)
    same("queues", r["queues"], 3)
    one = l.json("--numjobs=3", "--rw=randread", "--group_reporting")["jobs"]
    same("together", [j["read"]["total_ios"] for j in one], [768])
    same("its distribution", round(sum(v for k in ("latency_ns", "latency_us", "latency_ms")
                                       for v in one[0][k].values())), 100)
    l.bench("--numjobs=2", "--iodepth=8", "--rw=randread", says="2 jobs of 8 under way on 2 queues")
    mixed = l.json("--rw=readwrite", "--rwmixwrite=0", "--yes")["jobs"][0]
    same("no writes", (mixed["read"]["total_ios"], mixed["write"]["total_ios"]), (256, 0))
    ramped = l.json("--runtime=1", "--ramp_time=1", "--time_based", "--rate_iops=100", "--numjobs=2")["jobs"]
    for j in ramped:
        if not 80 <= j["read"]["total_ios"] <= 120 or not 900 <= j["read"]["runtime"] <= 1500:
            raise AssertionError(f"a job at 100 a second for one has {j['read']['total_ios']} in "
                                 f"{j['read']['runtime']} ms")
    rate = l.json("--runtime=1", "--time_based", "--bs=4k", "--rate=1m")["jobs"][0]["read"]
    if not 900 << 10 <= rate["io_bytes"] <= 1200 << 10:
        raise AssertionError(f"a job of 1 MiB a second for one has {rate['io_bytes']} bytes")
    l.bench("--numjobs=129", status=2, says="--numjobs")
    l.bench("--numjobs=65", "-i", "2", status=2, says="--numjobs times --nr-io-queues")
    l.bench("--numjobs=64", "--iodepth=65", status=2, says="--numjobs times --iodepth")
    l.bench("--offset=3584k", status=1, says="beyond the end")
    l.bench("--offset=1", status=1, says="no multiple")


def all_queues(l):
    """As many queues as there are, and as long ones; by RDMA not both at once, for each command takes a memory window."""
    l.serve()
    shapes = ((128, 1024), (1, 1024)) if l.listen.startswith("tcp") else ((128, 128), (32, 1024))
    for queues, entries in shapes:
        depth = min(entries - 1, 4096 // queues)
        r = l.json(f"--numjobs={queues}", f"--queue-size={entries}", f"--iodepth={depth}", "--rw=randrw", "--bs=4k", "--yes",
                   "--runtime=1", "--time_based", "--group_reporting")
        same("queues", r["queues"], queues)
        if r["jobs"][0]["read"]["total_ios"] < queues * depth:
            raise AssertionError(f"{queues} queues: only {r['jobs'][0]['read']['total_ios']} reads")
    if not l.listen.startswith("tcp"):
        l.bench("--numjobs=128", "--queue-size=1024", status=1, says="no memory window left")


def progress(l):
    """On a terminal, and nowhere else."""
    l.serve()
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        p = subprocess.run(l.host.inside([l.weft, "bench", l.uri, "--runtime=1", "--time_based", "--rw=read"]), timeout=30,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, check=False)
        os.set_blocking(ours, False)
        said = terminal.read(1 << 16).decode()
    os.close(theirs)
    same("status", p.returncode, 0)
    drawn = re.findall(r"\r\x1b\[Kmeasuring \[[=> ]*\] +(\d+) %", said)
    if len(drawn) < 5 or sorted(map(int, drawn)) != list(map(int, drawn)):
        raise AssertionError(f"not drawn as it goes on: {said[:300]!r}")
    same("what is left of it at the end", said.endswith("\r\x1b[K"), True)
    same("nothing of it in the output", b"measuring" in p.stdout, False)


def kinds(l):
    l.serve()
    for kind in KINDS:
        rw = "write" if kind == "pattern" else "randwrite"
        l.bench(f"--rw={rw}", f"--verify={kind}", "--numjobs=2", "--iodepth=4", "--yes", "--offset=1m",
                says="every block read was right")
    with open(l.image, "rb") as f:
        f.seek(1 << 20)
        same("the pattern", set(f.read(1 << 20)), {0xa5})
        same("what is before", f.seek(0) or set(f.read(1 << 20)), {0})
    # What one run has written another checks; what was damaged since shows, and where.
    for kind, damage in (("sha256", "checksum is wrong"), ("pattern", "does not hold the pattern")):
        l.bench("--rw=write", f"--verify={kind}", "--verify_pattern=0x0102", "--do_verify=0", "--yes")
        l.bench("--rw=read", f"--verify={kind}", "--verify_pattern=0x0102", says="every block read was right")
        with open(l.image, "r+b") as f:
            f.seek(8192 + 1000)
            f.write(b"\xff")
        l.bench("--rw=read", f"--verify={kind}", "--verify_pattern=0x0102", status=1,
                says="at byte 8192 of namespace 1 is wrong: it")
        l.bench("--rw=read", f"--verify={kind}", "--verify_pattern=0x0102", status=1, says=damage)
    l.bench("--verify=md5", status=2, says="not 'md5'")
    l.bench("--verify=pattern", "--verify_pattern=0x1", status=2, says="pairs of digits")


def trims(l):
    """Blocks that are deallocated are gone, each once in order, and those beside them are not."""
    l.serve()
    l.bench("--rw=write", "--yes", "--bs=64k")
    l.bench("--rw=write", "--yes", "--bs=64k", "--offset=1m")
    r = l.json("--rw=trim", "--bs=64k", "--iodepth=4", "--yes")["jobs"][0]
    same("commands", [r[side]["total_ios"] for side in ("read", "write", "trim")], [0, 0, 16])
    same("bytes", r["trim"]["io_bytes"], 1 << 20)
    with open(l.image, "rb") as f:
        same("what was deallocated", set(f.read(1 << 20)), {0})
        if {0} == set(f.read(64 << 10)):
            raise AssertionError("what is behind it is gone, too")
    # Nothing of it goes over the wire: it may be more than a command carries.
    same("in one", l.json("--rw=randtrim", "--bs=1m", "--yes", "--offset=2m")["jobs"][0]["trim"]["total_ios"], 1)
    l.bench("--rw=trim", status=2, says="overwrites what the namespace holds")
    l.bench("--rw=trim", "--verify", "--yes", status=2, says="nothing to check")


def names(l):
    """No name of ours in a job that fio does not have in the same place."""
    if not shutil.which("fio"):
        raise lab.Skip("fio is not installed")
    l.serve()
    ours = l.json("--rw=randrw", "--yes")
    r = l.host.run("fio", "--name=x", "--ioengine=null", "--size=1m", "--rw=randrw", "--bs=4k",
                   "--output-format=json", timeout=60)
    theirs = json.loads(r.stdout)

    def check(a, b, where):
        for key in a:
            if key not in b:
                raise AssertionError(f"fio has no {where}.{key}")
            if isinstance(a[key], dict) and key != "job options":
                check(a[key], b[key], f"{where}.{key}")
    check(ours["jobs"][0], theirs["jobs"][0], "jobs[0]")
    for key in ("timestamp", "timestamp_ms", "time"):
        same(f"type of {key}", type(ours[key]), type(theirs[key]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--transport", choices=("rdma", "tcp"), default="rdma")
    args = p.parse_args()
    lab.enter()
    l = Lab(args)
    for name, function in (("several jobs", jobs), ("all queues there are", all_queues), ("kinds of verification", kinds),
                           ("blocks deallocated", trims), ("progress", progress), ("fio's names", names)):
        l.prove(name, function)
    l.report.everything_ends([l.host])
    l.report.finish()


if __name__ == "__main__":
    sys.exit(main())
