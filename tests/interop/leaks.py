#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Does anything grow with the connections that there have been under `weft run --sockets`?

usage: leaks.py BUILD HELPERS [--full] [--only REGEX]

HELPERS is where the program leaks is. Connections are made one after another. When half of them are
over, the descriptors, threads and memory of client, server and brokers are noted, and after each part
from then on: descriptors and threads are to be as many as before, and memory is to have grown by less
than BYTES for each connection. --full: 20,000 connections instead of 500, where each costs no
process.

On a build with sanitizers there is no look at memory, of which their runtime keeps what was freed, and
no program for each connection: what is not built with them cannot load it.
"""
import os
import re
import signal
import time

import lab

# An identifier or key is used again when all others have been (base/handles.h), and until then each
# connection has fresh ones, of 24 bytes, in two tables. What is lost is not as small as that.
BYTES = 64
NOISE = 3 * 512 * 1024  # the buffers of a connection, which serve the next
TURNS = 10
STEPS = TURNS // 2
# A connection that has not wholly ended when the next begins costs the buffers of one more, once. The
# more else the machine does, the more of them overlap: that makes a step or two, where a leak climbs.
OVERLAPS = 2
PATIENCE_S = 600  # with a turn: beside it programs may poll on every processor
SANITIZED = False


def entries(path):
    return len(os.listdir(path))


def memory(pid):
    """Bytes of its own. What is mapped of files, and so shared, comes and goes."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"^RssAnon:\s+(\d+) kB", f.read(), re.M).group(1)) * 1024


class Look:
    """What a process has, once it is not at work on the last connection any more."""

    def __init__(self, pid):
        self.pid, self.fds, self.threads = pid, None, None
        lab.until(lambda: self.same(pid), 5, 0.2)
        self.memory = memory(pid)

    def same(self, pid):
        before = (self.fds, self.threads)
        self.fds, self.threads = entries(f"/proc/{pid}/fd"), entries(f"/proc/{pid}/task")
        return before == (self.fds, self.threads)

    def more(self, since):
        """What is wrong, or None."""
        if self.pid != since.pid:
            return f"process {since.pid} has died, {self.pid} is in its place"
        if self.fds > since.fds or self.threads > since.threads:
            return (f"{since.fds} descriptors and {since.threads} threads have become {self.fds} "
                    f"and {self.threads}")
        return None


def climb(looks):
    """By how much memory has grown that is likely to go on growing."""
    steps = sorted(b.memory - a.memory for a, b in zip(looks, looks[1:]))
    return sum(steps[:-OVERLAPS]) * STEPS // (STEPS - OVERLAPS)


def grown(looks, connections):
    """What is wrong, or None."""
    if SANITIZED or climb(looks) <= BYTES * connections + NOISE:
        return None
    return (f"{(looks[-1].memory - looks[0].memory) // 1024} KiB more than {connections} connections "
            f"before: {', '.join(str(look.memory // 1024) for look in looks)} KiB")


class Bench:
    def __init__(self, build, helpers):
        self.report = lab.Report(build, "leaks")
        self.weft = os.path.abspath(f"{build}/weft")
        self.helper = os.path.abspath(f"{helpers}/leaks")
        self.hosts = lab.lab(2)
        self.port = 7000

    def run(self, name, how, sides, count):
        self.port += 1
        path = self.report.case(name)
        server_host, client_host = self.hosts
        where = [server_host.address, self.port]
        by_weft = [self.weft, "run", "--sockets=only" if len(sides) == 2 else "--sockets", "--"]
        server = lab.Program(server_host, [*(by_weft if "server" in sides else []), self.helper,
                                           "serve", how, *where], f"{path}/server.log")
        client = None
        part = count // TURNS
        try:
            if not lab.until(lambda: server.says("listens"), 30):
                return self.report.fail(name, path, "the server does not listen")
            client = lab.Program(client_host, [*(by_weft if "client" in sides else []), self.helper,
                                               "ask", *where, part, TURNS], f"{path}/client.log")
            looks = []
            for turn in range(TURNS):
                if not lab.until(lambda t=turn: client.output().count("done") > t or
                                 client.status() is not None, PATIENCE_S):
                    return self.report.fail(name, path, f"part {turn + 1} has not come to its end")
                if client.status() is not None:
                    return self.report.fail(name, path, f"the client ended with {client.status()}")
                time.sleep(0.2)
                if turn >= TURNS - 1 - STEPS:
                    looks.append(self.look(server, client, sides))
                if turn < TURNS - 1:
                    os.kill(client.pid, signal.SIGUSR1)
            then, now = looks[0], looks[-1]
            for who, had in then.items():
                wrong = now[who].more(had) if who in now else "it has gone"
                wrong = wrong or grown([look[who] for look in looks if who in look], count // 2)
                if wrong:
                    return self.report.fail(name, path, f"{who}: {wrong}")
            return self.report.ok(name, path, f"{count // 2} connections more: " + ", ".join(
                f"{who} {(now[who].memory - had.memory) // 1024:+} KiB"
                for who, had in then.items()))
        finally:
            if client:
                client.kill()
            server.kill()

    def look(self, server, client, sides):
        """Where weft is not used, the broker of the case before may stay for a while."""
        seen = {"server": Look(server.pid), "client": Look(client.pid)}
        for host, whose in zip(self.hosts, seen.copy()):
            for pid in host.brokers() if whose in sides else ():
                seen[f"the {whose}'s broker"] = Look(pid)
        return seen


def main():
    global SANITIZED
    args = lab.arguments_of_helpers(__doc__)
    lab.enter()
    with open(f"{args.build}/lib/libweft-sockets.so", "rb") as f:
        SANITIZED = b"__asan_init" in f.read()
    # A child ends with what its parent has allocated.
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    b = Bench(args.build, args.helpers)
    many, some = (20000, 2000) if args.full else (500, 100)
    for name, how, sides, count in (
            ("one process", "itself", ("server", "client"), many),
            ("a child for each", "fork", ("server", "client"), some),
            ("a program for each", "exec", ("server", "client"), some),
            ("client alone", "itself", ("client",), some),
            ("server alone", "itself", ("server",), some)):
        if re.search(args.only, name) and not (SANITIZED and how == "exec"):
            b.run(name, how, sides, count)
    b.report.everything_ends(b.hosts)
    b.report.finish()


main()
