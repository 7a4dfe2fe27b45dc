#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft serve of an NBD server's export (nbdkit), beside a file: there and back; the server stops,
dies and comes back; what is told of an export that cannot be served.

usage: nbd.py BUILD [--only WORD]
"""
import argparse
import json
import os
import shutil
import signal
import socket
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
        self.programs, self.open, self.path = [], [], ""
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

    def slow(self, name, seconds):
        """A server that takes so long to open its export."""
        at, pid = self.file(name), self.file(name + ".pid")  # which it writes when it listens
        self.start("nbdkit", "-f", "-P", pid, "-U", at, "--filter=delay", "memory", "8m", f"delay-open={seconds}")
        self.check(lab.until(lambda: os.path.exists(pid), 10), "nbdkit does not come up")
        return f"nbd+unix:///?socket={at}"

    def config(self, *paths):
        doc = {"subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"}, "namespaces": [
            {"nsid": n, "enable": 1, "device": {"path": path}} for n, path in enumerate(paths, 1)]}],
            "ports": [{"portid": 1, "subsystems": [NQN], "addr": {
                "trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "4420"}}]}
        return self.file("config.json", json.dumps(doc).encode())

    def reload_waits_alone(self):
        """A reload waits for two slow servers at once, and nobody for it; all of it is done, or nothing."""
        serve = self.start(self.weft, "serve", "--config", self.config(self.plain))
        self.check(lab.until(lambda: serve.says("ready"), 10), f"it does not come up: {serve.output()}")
        uri = f"nvme+tcp://127.0.0.1/{NQN}?ns="
        slow = self.slow("slow1", 3), self.slow("slow2", 3)
        self.config(self.plain, *slow)
        serve.process.send_signal(signal.SIGHUP)
        begun, longest, asked = time.monotonic(), 0, 0
        while not serve.says("read again"):
            before = time.monotonic()
            self.check(before - begun < 20, f"it does not come: {serve.output()}")
            r = self.host.run(self.weft, "id-ns", uri + "1", timeout=LIMIT)
            self.check(r.returncode == 0, f"meanwhile: {r.stderr}")
            longest, asked = max(longest, time.monotonic() - before), asked + 1
        took = time.monotonic() - begun
        self.check(2.5 < took < 5.5, f"two servers that take 3 s each take {took:.1f} s")
        self.check(longest < 2 and asked > 3, f"a host waits {longest:.1f} s, of {asked}")
        for n in (2, 3):
            r = self.host.run(self.weft, "id-ns", uri + str(n), timeout=LIMIT)
            self.check(r.returncode == 0, f"namespace {n}: {r.stderr}")
        # One of them cannot be had; and what the file says while a reload waits is read then.
        gone, later = f"nbd+unix:///?socket={self.file('none')}", self.slow("slow3", 1)
        self.config(self.plain, later, gone)
        serve.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        self.config(self.plain)
        serve.process.send_signal(signal.SIGHUP)
        self.check(lab.until(lambda: serve.says("No such file or directory; nothing has changed"), 10), serve.output())
        self.check(lab.until(lambda: serve.output().count("read again, 2 changes\n") == 2, 10) and
                   serve.output().count("read again") == 2, serve.output())
        # The end does not wait for one either.
        self.config(self.plain, self.slow("slow4", 8))
        serve.process.send_signal(signal.SIGHUP)
        self.ends_soon(serve)
        return f"{asked} times, at most {longest:.2f} s"

    def ends_soon(self, serve):
        """Though it waits for a server."""
        time.sleep(0.3)
        serve.process.terminate()
        self.check(serve.wait(5) == 0, f"it ends with {serve.status()}: {serve.output()}")

    def mute(self):
        """A server that accepts whoever comes and says nothing, ever."""
        at = self.file("mute")
        s = socket.socket(socket.AF_UNIX)
        s.bind(at)
        s.listen(8)
        self.open.append(s)
        return f"nbd+unix:///?socket={at}"

    def target(self, *argv):
        return self.start(self.weft, "target", "-s", self.file("control"), *argv)

    def create(self, nsid, path):
        return self.target("create", f"/subsystems/{NQN}/namespaces/{nsid}", "path=" + path)

    def edit_waits_alone(self):
        """An edit waits for a server that says nothing, and a host's reads do not; other edits wait in turn."""
        serve = self.start(self.weft, "serve", "--config", self.config(self.plain), "--control", self.file("control"))
        self.check(lab.until(lambda: serve.says("ready"), 10), f"it does not come up: {serve.output()}")
        bench = self.start(self.weft, "bench", f"nvme+tcp://127.0.0.1/{NQN}?ns=1", "--rw=randread",
                           "--iodepth=1", "--runtime=18", "-o", "json")
        self.check(lab.until(lambda: serve.says("connected"), 10), serve.output())
        begun = time.monotonic()
        mute = self.create(2, self.mute())
        time.sleep(0.5)
        small = self.create(3, "mem:1m")
        again = self.create(4, self.slow("slow", 4))
        shown = self.target("ls")
        self.check(shown.wait(3) == 0, f"nobody may look meanwhile: {shown.output()}")
        self.check("namespaces/3" not in shown.output() and small.status() is None, "an edit overtakes another")
        self.check(mute.wait(20) == 1 and "its server does not answer" in mute.output() and
                   f"subsystems[{NQN}].namespaces[2]" in mute.output(), f"it does not say why: {mute.output()}")
        took = time.monotonic() - begun
        self.check(9 < took < 16, f"it took {took:.1f} s")
        self.check(small.wait(5) == 0 and again.wait(10) == 0, small.output() + again.output())
        for n, there in ((2, 1), (3, 0), (4, 0)):
            r = self.host.run(self.weft, "id-ns", f"nvme+tcp://127.0.0.1/{NQN}?ns={n}", timeout=LIMIT)
            self.check(r.returncode == there, f"namespace {n}: {r.stdout}{r.stderr}")
        # The same disk a second time, while the first stays, is another connection.
        twice = self.create(5, again.argv[-1][5:])
        time.sleep(0.3)
        before = time.monotonic()
        r = self.host.run(self.weft, "id-ns", f"nvme+tcp://127.0.0.1/{NQN}?ns=1", timeout=LIMIT)
        self.check(r.returncode == 0 and time.monotonic() - before < 3, "a host waits")
        self.check(twice.wait(15) == 0, twice.output())
        self.check(bench.wait(30) == 0, bench.output())
        longest = json.loads(bench.output())["jobs"][0]["read"]["lat_ns"]["max"] / 1e9
        self.check(longest < 3, f"a read took {longest:.1f} s")
        # Who goes has asked for nothing; a reload comes after what came before; the end waits for neither.
        gone = self.create(6, self.slow("slow6", 2))
        time.sleep(0.3)
        gone.process.terminate()
        self.config(self.plain, "mem:2m")
        serve.process.send_signal(signal.SIGHUP)
        self.check(lab.until(lambda: serve.says("read again"), 10), serve.output())
        self.check("namespaces/6" not in self.shown(), "a request of nobody's is carried out")
        self.create(7, self.slow("slow7", 8))
        self.ends_soon(serve)
        return f"the longest of a host's reads {longest:.3f} s"

    def shown(self):
        p = self.target("ls")
        self.check(p.wait(10) == 0, p.output())
        return p.output()

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

        if self.only in name:
            self.report.prove_and_end(name, self, to_its_end)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--only", default="", metavar="WORD", help="what the case's name has in it")
    args = p.parse_args()
    lab.enter()
    nbd = Nbd(args.build)
    nbd.only = args.only
    if not shutil.which("nbdkit"):
        nbd.report.skip("all", "nbdkit is not installed")
        nbd.report.finish()
        return
    nbd.run("there and back", nbd.there_and_back)
    nbd.run("by TCP", nbd.by_tcp)
    nbd.run("the server stops and goes on", nbd.stops)
    nbd.run("the server dies and comes back", nbd.dies)
    nbd.run("a reload waits alone", nbd.reload_waits_alone)
    nbd.run("an edit waits alone", nbd.edit_waits_alone)
    nbd.run("what cannot be served is named", nbd.says_why)
    nbd.report.everything_ends([nbd.host])
    nbd.report.finish()


if __name__ == "__main__":
    main()
