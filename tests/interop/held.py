#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A host that takes what it can of a target, from another address: the others are served meanwhile.

usage: held.py BUILD HELPERS [--minute]

And hosts that stop for a while, as in a debugger, on a suspended machine or behind a partition.
"""
import argparse
import os
import signal
import subprocess
import tempfile
import time

import lab

NQN = "nqn.2026-11.org.weft:held"
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
ALLOWED = "nqn.2026-11.org.weft:allowed"
EXCLUDED = "nqn.2026-11.org.weft:excluded"
SERVED_SECONDS = 10
GROWTH_MAX = 64 << 20
# What it does, how often, with which subsystem, as whom.
HOSTILE = [
    ("requests", 400, NQN, EXCLUDED),
    ("silent", 200, NQN, EXCLUDED),
    ("controllers", 256, DISCOVERY, EXCLUDED),
    ("controllers", 256, NQN, ALLOWED),
    ("logs", 1, DISCOVERY, EXCLUDED),
    ("reads", 4, NQN, ALLOWED),
]


class Held:
    def __init__(self, args):
        self.weft = os.path.join(os.path.abspath(args.build), "weft")
        self.helper = os.path.join(os.path.abspath(args.helpers), "hostile_host")
        self.target, self.other = lab.lab(2)
        self.report = lab.Report(args.build, "held")
        self.tmp = tempfile.TemporaryDirectory()
        self.image = os.path.join(self.tmp.name, "disk.img")
        with open(self.image, "wb") as f:
            f.write(os.urandom(4 << 20))
        self.programs = []
        self.path = ""

    def start(self, host, *argv):
        p = lab.Program(host, [self.weft, *argv], f"{self.path}/{len(self.programs)}.log")
        self.programs.append(p)
        return p

    def serve(self):
        p = self.start(self.target, "serve", self.image, "--nqn", NQN, "--allow-host", ALLOWED,
                       "--listen", f"rdma://{self.target.address}", "--listen", "rdma://127.0.0.1")
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 10) or p.status():
            raise AssertionError("weft serve does not come up")
        return p

    def served(self, when):
        """The allowed host reads it all, from the target's own machine: another address."""
        copy = os.path.join(self.tmp.name, "copy")
        uri = f"nvme+rdma://127.0.0.1/{NQN}"
        begun = time.monotonic()
        r = self.target.run(self.weft, "cp", "--hostnqn", ALLOWED, uri, copy, timeout=60)
        seconds = time.monotonic() - begun
        if r.returncode:
            raise AssertionError(f"{when}: {r.stderr.strip()}")
        with open(copy, "rb") as f, open(self.image, "rb") as g:
            if f.read() != g.read():
                raise AssertionError(f"{when}: the copy differs")
        if seconds > SERVED_SECONDS:
            raise AssertionError(f"{when}: it took {seconds:.0f} s")

    def hostile(self, mode, count, nqn, who):
        serve = self.serve()
        self.served("before")
        small = resident(serve)
        host = lab.Program(self.other,
                           [self.weft, "run", "--", self.helper, self.target.address, "4420", mode,
                            str(count), nqn, who], f"{self.path}/hostile.log")
        try:
            if not lab.until(lambda: host.says("holds") or host.status() is not None, 30) \
                    or host.status() is not None:
                raise AssertionError("the hostile host does not get so far")
            grown = resident(serve) - small
            self.served("meanwhile")
            if mode != "controllers" or nqn == DISCOVERY:
                if grown > GROWTH_MAX:
                    raise AssertionError(f"weft serve grew by {grown >> 20} MiB")
            r = self.target.run(self.weft, "discover", "-t", "rdma", "-a", "127.0.0.1",
                                "--hostnqn", ALLOWED)
            if r.returncode or NQN not in r.stdout:
                raise AssertionError(f"meanwhile: {r.stderr.strip() or r.stdout}")
        finally:
            host.kill()
        self.served("after")
        return f"{host.output().strip()}, weft serve grew by {grown / 2**20:.1f} MiB"

    def refusals(self):
        """Each is worth a line of what weft serve says, which nobody reads."""
        ends = os.pipe()
        serve = subprocess.Popen(
            self.target.inside([self.weft, "serve", self.image, "--nqn", NQN, "--listen",
                                "rdma://127.0.0.1", "--listen", f"rdma://{self.target.address}"]),
            stdin=subprocess.DEVNULL, stdout=ends[1], stderr=subprocess.STDOUT,
            preexec_fn=lab.die_with_parent)
        os.close(ends[1])
        host = None
        try:
            text = b""
            while b"ready\n" not in text:
                text += os.read(ends[0], 4096)
            host = lab.Program(
                self.other, [self.weft, "run", "--", self.helper, self.target.address, "4420",
                             "refusals", "3000", NQN, EXCLUDED], f"{self.path}/hostile.log")
            if not lab.until(lambda: host.says("holds 3000"), 30):
                raise AssertionError("weft serve stands still")
            self.served("with a full pipe")
            os.set_blocking(ends[0], False)
            text = b""
            while part := read_all(ends[0]):
                text += part
            if len(text) > 16384:
                raise AssertionError(f"{len(text)} bytes of refusals")
            if any(c < 32 and c != 10 for c in text) or b"\nconnected: nobody" in text:
                raise AssertionError("a host's bytes reach the terminal")
            return f"{len(text)} bytes said"
        finally:
            if host:
                host.kill()
            os.close(ends[0])
            serve.terminate()
            if serve.wait(10):
                raise AssertionError(f"weft serve ends with {serve.returncode}")

    def bench(self, keep_alive, seconds):
        return self.start(self.other, "bench", "--hostnqn", ALLOWED, "--iodepth", "4", "--runtime",
                          str(seconds), "-k", str(keep_alive), "-o", "json",
                          f"nvme+rdma://{self.target.address}/{NQN}")

    def stopped(self, keep_alive, stop, gone):
        """A host that does nothing for a while, with commands under way."""
        serve = self.serve()
        host = self.bench(keep_alive, stop + 3)
        if not lab.until(lambda: serve.says("connected:"), 10):
            raise AssertionError("the host does not connect")
        time.sleep(1)
        pid = lab.until(lambda: child(host.pid), 5)
        os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        ended = lab.until(lambda: serve.says("gone:"), stop)
        waited = time.monotonic() - begun
        self.served("meanwhile")
        os.kill(pid, signal.SIGCONT)
        if bool(ended) != gone:
            raise AssertionError("the target " + ("parted with it" if ended else "kept it"))
        if host.wait(60) != 0:
            raise AssertionError(f"back again, it ends with {host.status()}: {host.output()[-200:]}")
        if not lab.until(lambda: serve.output().count("connected:") ==
                         serve.output().count("gone:"), 10):
            raise AssertionError("a controller stays")
        return f"parted after {waited:.1f} s" if ended else "served on"

    def run(self, name, function, *args):
        self.report.prove_and_end(name, self, lambda: function(*args))


def read_all(fd):
    try:
        return os.read(fd, 1 << 20)
    except BlockingIOError:
        return b""


def child(pid):
    """nsenter starts the program in its own place, unless it has to fork."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        below = f.read().split()
    return int(below[0]) if below else pid


def resident(program):
    with open(f"/proc/{child(program.pid)}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("--minute", action="store_true", help="a host that is stopped for a minute, alone")
    args = p.parse_args()
    lab.enter()
    h = Held(args)
    if args.minute:
        h.run("a host stopped for a minute", h.stopped, 15, 60, True)
    else:
        for mode, count, nqn, who in HOSTILE:
            h.run(f"{mode} of {who.rpartition(':')[2]} host", h.hostile, mode, count, nqn, who)
        h.run("refusals that nobody reads", h.refusals)
        h.run("a host stopped for 2 s", h.stopped, 20, 2, False)
        h.run("a host stopped beyond its keep-alive", h.stopped, 3, 8, True)
    h.report.everything_ends((h.target, h.other))
    h.report.finish()


if __name__ == "__main__":
    main()
