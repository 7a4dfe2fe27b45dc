# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Where it is measured: a network namespace of its own with loopback, programs in it that are asked
and others that serve, and the processor time they take."""
import contextlib
import os
import re
import resource
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(TOP, "tests", "interop"))  # behind Python's own, whose names some have there
sys.dont_write_bytecode = True
import lab  # noqa: E402

TO = "127.0.0.1"


class Failed(Exception):
    """A run that gave no figure, and why."""


class NotHere(Exception):
    """What would be measured is not to be had on this machine, and why."""


def named_numbers(text):
    """Of the lines "name number" that programs of this directory print."""
    return {name: float(number) for name, number in (l.split()[:2] for l in text.splitlines())}


def cpu_seconds():
    """What all programs that have been waited for have taken, user and system."""
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime


class Bed:
    """For one build of weft. What is kept from run to run registers its end with `ends`."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        os.environ["WEFT_PORT"] = "udp"  # the wire, though both ends are here: see by_memory()
        self.ends = contextlib.ExitStack()
        self.host, _ = lab.lab(1)
        self.ends.callback(self.host.close)
        self.scratch = self.ends.enter_context(tempfile.TemporaryDirectory())
        self.device = "weft_lo"
        self.gid = self._gid()
        self.iwarp = False

    def _gid(self):
        info = self.ask(*self.verbs("ibv_devinfo", "-v", "-d", self.device))
        gid = re.search(r"GID\[\s*(\d+)\]:\s*::ffff:127\.0\.0\.1", info)
        if not gid:
            raise Failed(f"no device {self.device} with {TO}:\n{info}")
        return gid[1]

    @staticmethod
    def by_memory(work):
        """What a run gives where programs of one host go past the wire, as they do by default."""
        os.environ["WEFT_PORT"] = "local"
        try:
            return work()
        finally:
            os.environ["WEFT_PORT"] = "udp"

    def by_iwarp(self, work):
        """What a run gives where iWARP's devices are the only ones."""
        os.environ["WEFT_DEVICES"], self.iwarp = "iwarp", True
        try:
            return work()
        finally:
            del os.environ["WEFT_DEVICES"]
            self.iwarp = False

    @property
    def weft(self):
        return os.path.join(self.build, "weft")

    def verbs(self, *argv):
        return [self.weft, "run", "--", *argv]

    def sockets(self, *argv):
        return [self.weft, "run", "--sockets=only", "--", *argv]

    def own(self, name):
        """A program of this directory."""
        return os.path.join(self.build, "bench", name)

    def ask(self, *argv, seconds=120, env=None):
        """What a program says that ends by itself, and well."""
        argv = [str(word) for word in argv]
        name = " ".join(argv)
        log = os.path.join(self.scratch, "asked")
        program = lab.Program(self.host, argv, log, env=env)
        try:
            status, said = program.wait(seconds), program.output()
        finally:
            program.kill()
        if status == 77:
            raise NotHere(said.strip().removeprefix("SKIP: "))
        if status is None:
            raise Failed(f"{name} has not ended in {seconds} s: {said[-300:]}")
        if status:
            raise Failed(f"{name} ended with {status}: {said[-300:]}")
        return said

    @contextlib.contextmanager
    def serving(self, ready, *argv, seconds=20, env=None):
        """A program that serves meanwhile. ready: a TCP port that it listens on, a word that it
        says, or None: it sleeps. It may end by itself; if not, it is killed."""
        server = lab.Program(self.host, argv, os.path.join(self.scratch, "serving"), env=env)
        try:
            if ready is None:
                server.settle()
            else:
                there = (lambda: self.host.listens_on_tcp(ready)) if isinstance(ready, int) else \
                    (lambda: server.says(ready))
                lab.until(lambda: there() or server.status() is not None, seconds)
                if not there():
                    raise Failed(f"{' '.join(server.argv)} does not come up: "
                                 f"{server.output()[-300:]}")
            yield server
        finally:
            server.kill()

    def close(self):
        self.ends.close()
