#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft serve on a disk that fails or hangs, beside one that does not.

usage: moody.py BUILD [--full]
"""
import argparse
import json
import os
import pathlib
import re
import signal
import tempfile
import time

import lab
from moody_disk import DEAF, FAILS, FINE, HANGS, MoodyDisk

NQN = "nqn.2026-11.org.weft:moody"
SOUND = "nqn.2026-11.org.weft:sound"
SIZE = 1 << 20
LAST_FLUSH = 60  # seconds that the end waits for a disk
LIMIT = 40  # seconds; that of a connection that nobody answers is 15


class Moody:
    def __init__(self, build):
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.tmp = tempfile.TemporaryDirectory()
        mount = os.path.join(self.tmp.name, "mount")
        os.mkdir(mount)
        self.disk = MoodyDisk(mount, SIZE)
        self.host, _ = lab.lab(1)
        self.report = lab.Report(build, "moody")
        self.good = self.file("good", os.urandom(SIZE))
        self.control = os.path.join(self.tmp.name, "control")
        self.path, self.serve, self.stuck = "", None, []

    def file(self, name, content=b""):
        path = os.path.join(self.tmp.name, name)
        with open(path, "wb") as f:
            f.write(content)
        return path

    def uri(self, ns, nqn=NQN):
        return f"nvme+rdma://127.0.0.1/{nqn}?ns={ns}"

    def copy(self, source, to, timeout=LIMIT):
        return self.host.run(self.weft, "cp", source, to, timeout=timeout)

    def check(self, condition, why):
        if not condition:
            raise AssertionError(why)

    def well(self, ns, when):
        """There and back."""
        new, back = self.file("new", os.urandom(SIZE)), self.file("back")
        for a, b in ((new, self.uri(ns)), (self.uri(ns), back)):
            r = self.copy(a, b)
            self.check(r.returncode == 0, f"{when}, namespace {ns}: {r.stderr.strip()}")
        with open(new, "rb") as f, open(back, "rb") as g:
            self.check(f.read() == g.read(), f"{when}, namespace {ns}: not what was written")

    def fails(self):
        self.well(1, "before")
        self.disk.be(FAILS)
        r = self.copy(self.uri(1), self.file("back"))
        self.check(r.returncode == 1 and "Read" in r.stderr, f"read: {r.stderr.strip()!r}")
        w = self.copy(self.file("new", os.urandom(SIZE)), self.uri(1))
        self.check(w.returncode == 1 and "Write" in w.stderr, f"write: {w.stderr.strip()!r}")
        self.well(2, "meanwhile")
        self.check(self.serve.output().count("fails: Input/output error") == 1, "errors are not told once")
        self.disk.be(FINE)
        self.well(1, "after")
        return f"{r.stderr.strip()}; {w.stderr.strip()}"

    def hangs(self):
        self.disk.be(HANGS)
        stuck = lab.Program(self.host, [self.weft, "cp", self.file("old", b"\1" * SIZE),
                                        self.uri(1)], f"{self.path}/stuck.log")
        self.check(lab.until(lambda: self.serve.says("connected:"), 5), "it does not connect")
        time.sleep(0.5)
        self.well(2, "meanwhile")  # the same host, by its identifier
        stuck.kill()
        self.check(lab.until(lambda: self.serve.output().count("connected:") ==
                             self.serve.output().count("gone:"), 5), "a controller stays")
        self.well(2, "when the host has gone")
        # New data, sent while the old ones have not come to the disk.
        new = self.file("young", b"\2" * SIZE)
        later = lab.Program(self.host, [self.weft, "cp", new, self.uri(1)],
                            f"{self.path}/later.log")
        time.sleep(1)
        self.check(later.status() is None, f"it does not wait: {later.output()}")
        stalled = self.told("a write is not done after")
        self.disk.be(FINE)
        self.check(later.wait(20) == 0, f"it does not come to an end: {later.output()}")
        back = self.file("back")
        self.check(self.copy(self.uri(1), back).returncode == 0, "it cannot be read")
        with open(back, "rb") as f:
            self.check(f.read() == b"\2" * SIZE, "old data came last")
        self.well(1, "after")
        longest = self.told("goes on:")
        self.check(5 <= stalled <= longest < LIMIT, f"a stall of {stalled} s, at most {longest} s")
        return "old data came first"

    def told(self, words):
        """Seconds that the line with these words says."""
        self.check(lab.until(lambda: self.serve.says(words), 10), f"it is not told: {words}")
        said = re.search(rf"{words}(?:.* at most)? ([0-9.]+ \S+)", self.serve.output())
        self.check(said and said[1].endswith(" s"), f"in no seconds: {said and said[0]}")
        return float(said[1].split()[0])

    def waits(self, *command):
        """What it says, and how long it took."""
        begun = time.monotonic()
        r = self.host.run(self.weft, *command, timeout=LIMIT)
        return r, time.monotonic() - begun

    def many(self):
        """More requests hang, in either direction, than there are threads or memory for."""
        self.well(1, "before")
        self.disk.be(HANGS)
        stuck = self.stuck = [lab.Program(self.host, [self.weft, "bench", self.uri(1), "--rw", rw, "--yes",
                                         "--bs", "128k", "--iodepth", "128",
                                         "--runtime", "1"],
                             f"{self.path}/{rw}-{i}.log")
                 for i, rw in enumerate(["randread", "randwrite"] * 3)]
        self.check(lab.until(lambda: self.serve.output().count("connected:") == 2 + len(stuck), 10),
                   "they do not connect")
        time.sleep(0.5)
        self.well(2, "meanwhile")
        r, took = self.waits("id-ns", self.uri(2))
        self.check(r.returncode == 0 and took < 10, f"id-ns: {took:.1f} s, {r.stderr.strip()!r}")
        # One thread of io_uring's that waits for a disk could be in the way of another's work.
        tasks = [path.read_text() for path in
                 pathlib.Path(f"/proc/{self.serve.process.pid}/task").glob("*/comm")]
        self.check(not any("iou-wrk" in t for t in tasks), f"io_uring has threads: {tasks}")
        for options, why in (([], "though the connection stands: the target or its disk may hang"),
                             (["-k", "4", "--timeout", "4"], "though it answers others: its disk may hang")):
            r, _ = self.waits("read", self.uri(1), "-d", "/dev/null", "--timeout", "2", *options)
            self.check(r.returncode == 1 and re.search(f"does not answer Read within [24] s, {why}", r.stderr)
                       and "--timeout" in r.stderr, f"read: {r.stderr.strip()!r}")
        self.disk.be(FINE)
        for s in stuck:
            self.check(s.wait(20) == 0, f"it does not come to an end: {s.output()}")
        self.well(1, "after")
        return r.stderr.strip()

    def beside(self):
        """Two subsystems, each with a namespace 1: the disk of one hangs, and has what memory it gets."""
        self.disk.be(HANGS)
        self.stuck = [lab.Program(self.host, [self.weft, "bench", self.uri(1), "--rw", "randwrite", "--yes",
                                              "--bs", "16k", "--iodepth", "256", "--nr-io-queues", "16",
                                              "--runtime", "1"], f"{self.path}/stuck.log")]
        self.check(lab.until(lambda: self.serve.says("connected:"), 10), "it does not connect")
        time.sleep(1)
        longest = 0.0
        for ns in (2, 1):
            r, took = self.waits("write", self.uri(ns, SOUND), "-d", self.file("new", b"\3" * 65536),
                                 "--timeout", "8")
            self.check(r.returncode == 0, f"namespace {ns} of the other: {r.stderr.strip()!r}")
            longest = max(longest, took)
        self.disk.be(FINE)
        self.check(self.stuck[0].wait(20) == 0, f"it does not come to an end: {self.stuck[0].output()}")
        return f"64 KiB to the other's in {longest:.2f} s"

    def deaf(self):
        """Not even the size is told."""
        self.well(2, "before")
        self.disk.be(DEAF)
        for _ in range(3):
            r, took = self.waits("id-ns", self.uri(2))
            self.check(r.returncode == 0 and took < 10, f"id-ns: {took:.1f} s, {r.stderr.strip()!r}")
        self.well(2, "meanwhile")
        self.disk.be(FINE)
        self.well(1, "after")
        return f"id-ns of the other in {took:.2f} s"

    def deaf_leaves(self):
        """Its size is asked for while it is removed, and at the end: nobody waits for the answer."""
        host = self.beside_a_size()
        begun = time.monotonic()
        self.check(self.edit("remove", f"/subsystems/{NQN}/namespaces/1").wait(10) == 0, "it is not removed")
        self.well(2, "when it is removed")
        took = time.monotonic() - begun
        self.check(took < 10, f"that took {took:.1f} s")
        host.kill()
        self.disk.be(FINE)
        self.check(lab.until(lambda: not self.holds(self.disk.path), 10), "it stays open")
        return f"there and back in {took:.1f} s"

    def deaf_ends(self):
        self.beside_a_size()
        begun = time.monotonic()
        self.serve.process.send_signal(signal.SIGTERM)
        self.check(self.serve.wait(10) == 0, f"it ends with {self.serve.status()}: {self.serve.output()}")
        self.disk.be(FINE)
        return f"in {time.monotonic() - begun:.1f} s"

    def beside_a_size(self):
        """A host that has sizes asked for, of the disk, too, which does not tell it."""
        host = lab.Program(self.host, [self.weft, "bench", self.uri(2), "--rw", "randread", "--bs", "4k",
                                       "--iodepth", "1", "--runtime", "30"], f"{self.path}/host.log")
        self.stuck = [host]
        self.check(lab.until(lambda: self.serve.says("connected:"), 10), "it does not connect")
        self.disk.be(DEAF)
        time.sleep(2)
        return host

    def stopped(self):
        """The machine is there, and the target does not come to its connections."""
        self.serve.process.send_signal(signal.SIGSTOP)
        r, _ = self.waits("id-ns", self.uri(2))
        self.serve.process.send_signal(signal.SIGCONT)
        self.check(r.returncode == 1 and "no answer in time" in r.stderr and
                   "target hangs" in r.stderr, f"id-ns: {r.stderr.strip()!r}")
        self.well(2, "after")
        return r.stderr.strip()

    def ends(self):
        """The first signal waits for the disk, the second one does not."""
        self.well(1, "before")
        self.disk.be(DEAF)
        self.serve.process.send_signal(signal.SIGTERM)
        self.check(self.serve.wait(1) is None, "it does not wait for the disk")
        self.serve.process.send_signal(signal.SIGTERM)
        self.check(self.serve.wait(5) == 1, f"the second signal: {self.serve.status()}")
        self.disk.be(FINE)
        return "at the second signal"

    def gives_up(self):
        """One signal, and a disk that never answers."""
        self.well(1, "before")
        self.disk.be(DEAF)
        self.serve.process.send_signal(signal.SIGTERM)
        self.check(self.serve.wait(LAST_FLUSH - 5) is None, "it does not wait for the disk")
        self.check(self.serve.says("a second signal ends this"), f"it does not say so: {self.serve.output()}")
        self.check(self.serve.wait(15) == 1, f"it does not give up: {self.serve.status()}")
        self.check(self.serve.says(f"{self.disk.path}: the disk has not written"), self.serve.output())
        self.disk.be(FINE)
        return self.serve.output().splitlines()[-1]

    def edit(self, *words):
        """`weft target`, in the background."""
        return lab.Program(self.host, [self.weft, "target", "-s", self.control, *words],
                           f"{self.path}/edit.log")

    def holds(self, path):
        """Whether the target has the file open."""
        return path in lab.open_files(self.serve.process.pid)

    def edited(self):
        """A namespace on a disk that does not answer is added: the others know nothing of that."""
        at = f"/subsystems/{NQN}/namespaces"
        self.disk.be(DEAF)
        edit = self.edit("create", at, "path=" + self.disk.path)
        time.sleep(0.5)
        for ns in (2, 3):
            self.well(ns, "meanwhile")
        self.check(edit.status() is None, f"it does not wait: {edit.output()}")
        self.disk.be(FINE)
        self.check(edit.wait(10) == 0 and edit.output() == f"{at}/1\n", f"the edit: {edit.output()}")
        self.well(1, "when it answers")
        # One that is flushed yet is open, and what it is called is not asked again.
        self.disk.be(DEAF)
        for words in (["remove", at + "/1"], ["create", at, "path=" + self.disk.path]):
            self.check(self.edit(*words).wait(10) == 0, f"{words[0]}: {self.serve.output()}")
        self.well(2, "while it is flushed")
        self.disk.be(FINE)
        self.well(1, "when it is flushed")
        # Who gave the order goes, and nothing of it stays.
        self.check(self.edit("remove", at + "/1").wait(10) == 0, "it is not removed")
        self.check(lab.until(lambda: not self.holds(self.disk.path), 10), "it stays open")
        self.disk.be(DEAF)
        edit = self.edit("create", at, "path=" + self.disk.path)
        time.sleep(0.5)
        edit.kill()
        self.well(2, "without who gave the order")
        self.disk.be(FINE)
        edit = self.edit("create", at, "path=" + self.disk.path)
        self.check(edit.wait(10) == 0, f"the next one: {edit.output()}")
        self.well(1, "after")
        return "it is there when the disk answers"

    def never_edited(self):
        """The same, and it never answers."""
        self.disk.be(DEAF)
        edit = self.edit("create", f"/subsystems/{NQN}/namespaces", "path=" + self.disk.path)
        self.check(edit.wait(LIMIT) == 1, f"it does not give up: {edit.output()}")
        self.check(f"{self.disk.path}: it does not answer" in edit.output(), edit.output())
        self.well(2, "after")
        self.serve.process.send_signal(signal.SIGTERM)
        self.disk.be(FINE)
        self.check(self.serve.wait(10) == 0, f"the end: {self.serve.output()}")
        return edit.output().strip()

    def without(self):
        """Namespaces 2 and 3 that never fail, and the first to come."""
        subsystem = {"nqn": NQN, "attr": {"allow_any_host": "1"}, "namespaces": [
            {"nsid": n, "enable": 1, "device": {"path": path}} for n, path in ((2, self.good), (3, "mem:1m"))]}
        doc = {"subsystems": [subsystem], "ports": [{"portid": 1, "subsystems": [NQN], "addr": {
            "trtype": "rdma", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "4420"}}]}
        return ["--config", self.file("without.json", json.dumps(doc).encode()), "--control", self.control]

    def to_read(self):
        """The disk, which has nothing to be flushed, beside one that never fails."""
        return [self.disk.path + ",ro", self.good, "--nqn", NQN, "--listen", "rdma://127.0.0.1",
                "--control", self.control]

    def two(self):
        """What serves the disk in one subsystem, and in another what never fails."""
        subsystems = {NQN: [self.disk.path], SOUND: ["mem:1m", "mem:1m"]}
        doc = {"subsystems": [{"nqn": nqn, "attr": {"allow_any_host": "1"}, "namespaces": [
            {"nsid": n, "enable": 1, "device": {"path": path}} for n, path in enumerate(paths, 1)]}
            for nqn, paths in subsystems.items()],
            "ports": [{"portid": 1, "subsystems": list(subsystems), "addr": {
                "trtype": "rdma", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "4420"}}]}
        return ["--config", self.file("two.json", json.dumps(doc).encode()), "--memory", "2m"]

    def run(self, name, function, *what):
        what = what or (self.disk.path, self.good, "--nqn", NQN, "--listen", "rdma://127.0.0.1")

        def work(path):
            self.path, self.stuck = path, []
            self.serve = lab.Program(self.host, [self.weft, "serve", *what], f"{path}/serve.log")
            try:
                self.check(lab.until(lambda: self.serve.says("ready"), 10), "weft serve stays away")
                return function()
            finally:
                self.disk.be(FINE)
                for p in (self.serve, *self.stuck):
                    p.kill()
        self.report.prove(name, work)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--full", action="store_true")
    args = p.parse_args()
    lab.enter()
    m = Moody(args.build)
    m.run("a disk that fails", m.fails)
    m.run("a disk that hangs", m.hangs)
    m.run("many requests on a disk that hangs", m.many)
    m.run("another subsystem than that of a disk that hangs", m.beside, *m.two())
    m.run("a disk that does not even tell its size", m.deaf)
    m.run("a disk that does not tell its size is removed", m.deaf_leaves, *m.to_read())
    m.run("the end on a disk that does not tell its size", m.deaf_ends, *m.to_read())
    m.run("a disk that hangs is to be served", m.edited, *m.without())
    m.run("a target that is stopped", m.stopped)
    m.run("the end on a disk that hangs", m.ends)
    if args.full:
        m.run("the end on a disk that never writes", m.gives_up)
        m.run("a disk that never answers is to be served", m.never_edited, *m.without())
    m.report.everything_ends((m.host,))
    m.disk.close()
    m.report.finish()


if __name__ == "__main__":
    main()
