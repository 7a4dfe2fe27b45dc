#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft serve of an NBD server's export (nbdkit), beside a file: there and back; the server stops,
dies and comes back; what is told of an export that cannot be served.

usage: nbd.py BUILD
"""
import argparse
import os
import shutil
import signal
import tempfile
import time

import lab

NQN = "nqn.2026-11.org.weft:nbd"
SIZE = 8 << 20
LIMIT = 60


class Nbd:
    def __init__(self, build):
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.tmp = tempfile.TemporaryDirectory()
        self.host, _ = lab.lab(1)
        self.report = lab.Report(build, "nbd")
        self.programs, self.path = [], ""
        self.image, self.plain = (self.file(n, os.urandom(SIZE)) for n in ("export", "plain"))
        self.export = f"nbd+unix:///?socket={self.tmp.name}/nbd"

    def file(self, name, content=None):
        path = os.path.join(self.tmp.name, name)
        if content is not None:
            with open(path, "wb") as f:
                f.write(content)
        return path

    def start(self, *argv):
        p = lab.Program(self.host, list(argv), f"{self.path}/{len(self.programs)}.log")
        self.programs.append(p)
        return p

    def server(self, *where):
        pid = self.file("pid")
        if os.path.exists(pid):
            os.unlink(pid)
        where = where or ("-U", self.file("nbd"))
        if where[0] == "-U" and os.path.exists(where[1]):
            os.unlink(where[1])
        p = self.start("nbdkit", "-f", "-P", pid, *where, "file", self.image)
        self.check(lab.until(lambda: os.path.exists(pid), 10), "nbdkit does not come up")
        return p

    def serve(self, export=None):
        p = self.start(self.weft, "serve", export or self.export, self.plain, "--nqn", NQN,
                       "-l", "tcp://127.0.0.1", "-l", "rdma://127.0.0.1")
        self.check(lab.until(lambda: p.says("ready") or p.status() is not None, 20)
                   and p.status() is None, f"weft serve does not come up: {p.output()}")
        return p

    def check(self, condition, why):
        if not condition:
            raise AssertionError(why)

    def copy(self, source, to):
        return self.host.run(self.weft, "cp", source, to, timeout=LIMIT)

    def well(self, ns, when):
        for transport in ("tcp", "rdma"):
            uri = f"nvme+{transport}://127.0.0.1/{NQN}?ns={ns}"
            new, back = self.file("new", os.urandom(SIZE)), self.file("back")
            for a, b in ((new, uri), (uri, back)):
                r = self.copy(a, b)
                self.check(r.returncode == 0, f"{when}, {uri}: {r.stderr.strip()}")
            with open(new, "rb") as f, open(back, "rb") as g:
                self.check(f.read() == g.read(), f"{when}, {uri}: not what was written")

    def there_and_back(self):
        self.server()
        self.serve()
        self.well(1, "at first")
        self.well(2, "the file")
        with open(self.image, "rb") as f, open(self.file("new"), "rb") as g:
            self.check(f.read() != g.read(), "both are one disk")

    def by_tcp(self):
        self.server("-i", "127.0.0.1", "-p", "10809", "-e", "disk")
        self.serve("nbd://127.0.0.1/disk")
        self.well(1, "by TCP")

    def stops(self):
        server = self.server()
        self.serve()
        self.well(1, "before")
        os.kill(server.pid, signal.SIGSTOP)
        stuck = self.start(self.weft, "cp", f"nvme+tcp://127.0.0.1/{NQN}?ns=1", self.file("stuck"))
        time.sleep(1)
        self.well(2, "while the server stands still")
        self.check(stuck.status() is None, f"it did not wait: {stuck.output()}")
        os.kill(server.pid, signal.SIGCONT)
        self.check(stuck.wait(LIMIT) == 0, f"it does not go on: {stuck.output()}")
        self.well(1, "after")

    def dies(self):
        server = self.server()
        serve = self.serve()
        self.well(1, "before")
        server.kill()
        r = self.copy(f"nvme+tcp://127.0.0.1/{NQN}?ns=1", self.file("back"))
        self.check(r.returncode == 1 and "Namespace Not Ready" in r.stderr, r.stderr)
        self.check(lab.until(lambda: serve.says("the connection is lost"), 5), serve.output())
        self.well(2, "meanwhile")
        self.server()
        self.check(lab.until(lambda: serve.says("connected again"), 20), "it is not found again")
        self.well(1, "after")
        return r.stderr.strip()

    def says_why(self):
        said = []
        for export, word in ((self.export + "-not", "No such file"), ("nbd://127.0.0.1:1", "refused"),
                             ("nbd://", "nbd://"), ("nbd+unix:///", "socket")):
            r = self.host.run(self.weft, "serve", export, timeout=LIMIT)
            said.append(r.stderr.strip())
            self.check(r.returncode == 1 and word in r.stderr and export in r.stderr, r.stderr)
        return "; ".join(said)

    def run(self, name, function):
        def to_its_end():
            note = function()
            for p in self.programs:  # before the servers that it would still write to
                if p.argv[:2] == [self.weft, "serve"]:
                    p.process.terminate()
                    self.check(p.wait(10) == 0, f"weft serve ends with {p.status()}: {p.output()}")
            return note

        self.report.prove_and_end(name, self, to_its_end)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    args = p.parse_args()
    lab.enter()
    nbd = Nbd(args.build)
    if not shutil.which("nbdkit"):
        nbd.report.skip("all", "nbdkit is not installed")
        nbd.report.finish()
        return
    nbd.run("there and back", nbd.there_and_back)
    nbd.run("by TCP", nbd.by_tcp)
    nbd.run("the server stops and goes on", nbd.stops)
    nbd.run("the server dies and comes back", nbd.dies)
    nbd.run("what cannot be served is named", nbd.says_why)
    nbd.report.everything_ends([nbd.host])
    nbd.report.finish()


if __name__ == "__main__":
    main()
