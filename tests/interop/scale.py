#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Many connections, many queue pairs, many processes: all work, and nothing is left behind.

usage: scale.py BUILD HELPERS [--full] [--only REGEX]

Without --full a short form of each. The traffic is the helper scale's; what is looked at from
outside is memory and descriptors of both programs and of the broker.
"""
import os
import random
import re
import subprocess
import time

import lab

HOST = "127.0.0.1"
PORT = 7700
ROUNDS = 3
KIB = 1024


class Program:
    """The helper, on the one host there is; talked to by lines."""

    def __init__(self, bench, log, *words, uid=None):
        self.log = log
        argv = [bench.weft, "run", "--", bench.helper, *map(str, words)]
        if uid:
            argv = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", *argv]
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(bench.host.inside(argv), stdin=subprocess.PIPE,
                                            stdout=out, stderr=subprocess.STDOUT,
                                            preexec_fn=lab.die_with_parent)
        self.pid = self.process.pid

    def lines(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return [l.rstrip("\n") for l in f if l.endswith("\n")]

    def wait_for(self, pattern, seconds, count=1):
        """The count-th line that matches."""
        def found():
            hits = [m for m in (re.match(pattern, l) for l in self.lines()) if m]
            return hits[count - 1] if len(hits) >= count else None
        def look():
            return found() or self.process.poll() is not None
        lab.until(look, seconds, 0.05)
        m = found()
        if not m:
            raise AssertionError(f"{os.path.basename(self.log)}: no line {pattern!r} "
                                 f"(status {self.process.poll()})")
        return m

    def go_on(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self, seconds=30):
        self.process.stdin.close()
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired as e:
            raise AssertionError(f"{os.path.basename(self.log)}: does not end") from e
        if status:
            raise AssertionError(f"{os.path.basename(self.log)}: ended with {status}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def usage(pid):
    """Resident memory in KiB, and descriptors. Without what is shared: the rings between neighbours
    (port/local) have their size, and fill to it as they are used."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        rss = int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1))
    return rss, len(os.listdir(f"/proc/{pid}/fd"))


class Bench:
    def __init__(self, build, helpers):
        self.weft = os.path.abspath(os.path.join(build, "weft"))
        self.helper = os.path.abspath(os.path.join(helpers, "scale"))
        self.report = lab.Report(build, "scale")
        self.host = lab.lab(1)[0]

    def broker(self):
        for pid in self.host.pids():
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
            if words[1:2] == [b"broker"]:
                return pid
        raise AssertionError("there is no broker")

    def case(self, name, do):
        def work(path):
            programs = []
            def start(log, *words, **kwargs):
                programs.append(Program(self, f"{path}/{log}.log", *words, **kwargs))
                return programs[-1]
            try:
                note = do(start)
                if not lab.until(lambda: not self.host.has_broker(), 30):
                    raise AssertionError("the broker stays, long after its last client has gone")
                return note
            finally:
                for p in programs:
                    p.kill()
        self.report.prove(name, work)

    # ---- what is tried ------------------------------------------------------------------------

    def churn(self, start, warm, n):
        """n connections opened and closed leave memory and descriptors as they were."""
        server = start("server", "serve", HOST, PORT)
        server.wait_for("listening", 10)
        client = start("client", "churn", HOST, PORT, warm, n)
        client.wait_for("done", 120)
        watched = {"server": server.pid, "client": client.pid, "broker": self.broker()}
        time.sleep(3)  # time waits end
        # Room for the connections that wait out their time at once stays, where those were more
        # than ever before: a machine that was busy while we warmed up. A leak grows each time.
        for attempt in range(1, ROUNDS + 1):
            before = {who: usage(pid) for who, pid in watched.items()}
            client.go_on()
            rate = client.wait_for(rf"done {n} connections, (\d+) per second, 0 failed", 300, attempt)
            time.sleep(3)
            after = {who: usage(pid) for who, pid in watched.items()}
            grown = {who: after[who][0] - before[who][0] for who in watched}
            fds = {who: after[who][1] - before[who][1] for who in watched}
            # The broker's tables of ids take fresh places first: 48 bytes for each, of which a
            # connection within one host has two. Half a megabyte more is a leak.
            tables = {"broker": min(n, 32768) * 96 // KIB}
            growth = ", ".join(f"{who} {grown[who]:+}" for who in watched)
            # The port opens the socket that it sends by when it first does: neighbours in a host
            # seldom need it.
            if any(more > 1 for more in fds.values()):
                raise AssertionError(f"descriptors more: {fds}")
            if all(grown[who] <= tables.get(who, 0) + 512 for who in watched):
                break
        else:
            raise AssertionError(f"they grow still after {attempt} times {n}, KiB: {growth}")
        client.end()
        server.end()
        return f"{rate.group(1)} connections per second; KiB: {growth}"

    def hold(self, start, n, messages):
        server = start("server", "serve", HOST, PORT)
        server.wait_for("listening", 10)
        client = start("client", "hold", HOST, PORT, n, messages)
        note = client.wait_for(rf"held {n} connections, {n * messages} messages.*, 0 failed", 120)
        client.go_on()
        client.end()
        server.end()
        return note.group(0)

    def mesh(self, start, n, kills):
        """n processes, each talking with each; some are killed and begin again."""
        def begin(i, life=0):
            p = start(f"mesh-{i}-{life}", "mesh", HOST, PORT, i, n)
            p.life = life
            return p
        all_of_them = [begin(i) for i in range(n)]
        everybody = rf"with {n - 1} of {n - 1}, "
        for p in all_of_them:
            p.wait_for(everybody, 120)
        rng = random.Random(n)
        for _ in range(kills):
            i = rng.randrange(n)
            all_of_them[i].kill()
            seen = {p: len([l for l in p.lines() if re.match(everybody, l)])
                    for p in all_of_them}
            all_of_them[i] = begin(i, all_of_them[i].life + 1)
            for p in all_of_them:
                p.wait_for(everybody, 60, seen.get(p, 0) + 1)
        for p in all_of_them:
            p.process.stdin.close()
        for p in all_of_them:
            p.wait_for("end", 30)
            p.end()
        return f"{n * (n - 1) // 2} pairs"


def main():
    args = lab.arguments_of_helpers(__doc__)
    lab.enter()
    bench = Bench(args.build, args.helpers)
    n, qps, processes, kills = (10000, 1000, 64, 16) if args.full else (2000, 1000, 12, 4)
    for name, do in (
            (f"{n} connections opened and closed", lambda s: bench.churn(s, 1000, n)),
            (f"{qps} queue pairs at once", lambda s: bench.hold(s, qps, 20)),
            (f"{processes} processes, each with each, {kills} killed",
             lambda s: bench.mesh(s, processes, kills))):
        if re.search(args.only, name):
            bench.case(name, do)
    bench.report.finish()


main()
