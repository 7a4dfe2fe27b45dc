#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A disk image served by `weft serve` and used by weft's host commands, over one host or two.

usage: disk.py BUILD (one | veth) [--transport rdma|tcp|tcp+tls] [--rounds N] [--deaths N]
               [--seed N] [--threads N [--only-io]]

Copies both ways compare equal, two namespaces and two hosts at once do not mix, a verified bench
finds nothing wrong; and kill -9 of either side ends the other side's work with an error in bounded
time, after which a new pair goes on at once with what was flushed.
"""
import argparse
import hashlib
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time

import lab

NQN = "nqn.2026-11.org.weft:interop"
END_SECONDS = 30


class Disk:
    def __init__(self, build, where, transport, threads):
        self.transport = transport
        self.threads = threads
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.hosts = lab.lab(1 if where == "one" else 2)
        self.report = lab.Report(build, f"disk-{transport}-{where}" +
                                 (f"-{threads}" if threads > 1 else ""))
        self.tmp = tempfile.TemporaryDirectory()
        self.images = [self.image(f"disk{n}.img", size) for n, size in ((1, 24 << 20), (2, 8 << 20))]
        self.programs = []
        self.path = ""
        self.key = ()  # of TLS, for host and target
        if transport == "tcp+tls":
            self.key = ("--tls-key", self.file("tls.key"))
            with open(os.open(self.key[1], os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
                f.write(self.hosts[0].run(self.weft, "gen-tls-key").stdout)

    def image(self, name, size):
        path = os.path.join(self.tmp.name, name)
        with open(path, "wb") as f:
            f.write(os.urandom(size))
        return path

    def file(self, name):
        return os.path.join(self.tmp.name, name)

    def uri(self, ns=1, ipv6=False):
        host = self.hosts[0]
        address = f"[{host.address6}]" if ipv6 else host.address
        return f"nvme+{self.transport}://{address}:4420/{NQN}?ns={ns}"

    def start(self, host, *argv):
        if self.key:
            argv = (*argv, self.key[0], self.key[1] if argv[0] == "serve" else "@" + self.key[1])
        p = lab.Program(host, [self.weft, *argv], f"{self.path}/{len(self.programs)}-{argv[0]}.log")
        self.programs.append(p)
        return p

    def serve(self, *options, files=()):
        address = self.hosts[0].address
        p = self.start(self.hosts[0], "serve", *(files or self.images), "--nqn", NQN, "--listen",
                       f"{self.transport}://{address}:4420", "--listen",
                       f"{self.transport}://[{self.hosts[0].address6}]:4420", "--threads",
                       str(self.threads), *options)
        if not lab.until(lambda: p.says("nvme connect") or p.status() is not None, 10) \
                or p.status() is not None:
            raise AssertionError("weft serve does not come up")
        return p

    def counters(self, server):
        r = self.hosts[0].run(self.weft, "stat", "-o", "json", server.pid, timeout=30)
        return json.loads(r.stdout)["processes"][0]["counters"]["target"]

    def at_work(self, server, bench, when=""):
        """Whose first connection is not tried again where nothing answers it."""
        if not lab.until(lambda: self.counters(server)["reads"] or bench.status() is not None, 10) \
                or bench.status() is not None:
            raise AssertionError(f"{when}{bench.argv[1]} does not read: {bench.output()[-300:]}")

    def host(self, *argv, seconds=60):
        p = self.start(self.hosts[1], *argv)
        status = p.wait(seconds)
        if status is None:
            p.kill()
            raise AssertionError(f"weft {argv[0]} still runs after {seconds} s")
        if status:
            raise AssertionError(f"weft {argv[0]} ended with {status}: {p.output()[-300:]}")
        return p.output()

    def run(self, name, function, *args):
        self.report.prove_and_end(name, self, lambda: function(self, *args))


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def same(a, b):
    if digest(a) != digest(b):
        raise AssertionError(f"{os.path.basename(a)} and {os.path.basename(b)} differ")


def copies(d):
    """There and back, both namespaces, IPv4 and IPv6."""
    d.serve()
    for ns, image in enumerate(d.images, 1):
        d.host("cp", d.uri(ns), d.file("copy"))
        same(image, d.file("copy"))
        new = d.image("new", os.path.getsize(image))
        d.host("cp", new, d.uri(ns, ipv6=True))
        same(new, image)
        d.host("cp", d.uri(ns, ipv6=True), d.file("copy"))
        same(new, d.file("copy"))


def two_at_once(d):
    d.serve()
    new = d.image("new", os.path.getsize(d.images[0]))
    a = d.start(d.hosts[1], "cp", new, d.uri(1))
    b = d.start(d.hosts[1], "cp", d.uri(2), d.file("copy"))
    c = d.start(d.hosts[0], "cp", d.uri(2), d.file("copy2"))
    for p in (a, b, c):
        if p.wait(60) != 0:
            raise AssertionError(f"{' '.join(p.argv[1:])}: {p.status()}")
    same(new, d.images[0])
    same(d.images[1], d.file("copy"))
    same(d.images[1], d.file("copy2"))


def by_both(d):
    """One service reached by RDMA and by TCP at once, each listed by the other's discovery."""
    address = d.hosts[0].address
    server = d.start(d.hosts[0], "serve", *d.images, "--nqn", NQN, "-l", f"rdma://{address}",
                     "-l", f"tcp://{address}", "-l", f"tcp://{address}:8009")
    if not lab.until(lambda: server.says("ready") or server.status() is not None, 10):
        raise AssertionError("weft serve does not come up")
    new = d.image("new", os.path.getsize(d.images[0]))
    d.host("cp", new, f"nvme+tcp://{address}/{NQN}?ns=1", "--hdr-digest", "--data-digest")
    d.host("cp", f"nvme+rdma://{address}/{NQN}?ns=1", d.file("copy"))
    same(new, d.file("copy"))
    d.host("cp", f"nvme+rdma://{address}/{NQN}?ns=1", f"nvme+tcp://{address}/{NQN}?ns=1")
    same(new, d.images[0])
    for where in (["-t", "rdma", "-a", address], ["-t", "tcp", address + ":8009"]):
        found = json.loads(d.host("discover", *where, "-o", "json"))["records"]
        found = [(e["trtype"], e["trsvcid"]) for e in found if e["subtype"] == "nvme subsystem"]
        if sorted(found) != [("rdma", "4420"), ("tcp", "4420"), ("tcp", "8009")]:
            raise AssertionError(f"discovery {where}: {found}")


def digests(d):
    """Of headers, of data, of both, and of none: what is written is what is read."""
    d.serve()
    for options in (["-g"], ["-G"], ["-g", "-G"]):
        d.host("bench", d.uri(1), "--rw", "randrw", "--bs", "16k", "--iodepth", "8", "--runtime", "1",
               "--verify", "--yes", *options)
        new = d.image("new", os.path.getsize(d.images[0]))
        d.host("cp", new, d.uri(1), *options)
        d.host("cp", d.uri(1), d.file("copy"), *options)
        same(new, d.file("copy"))


def verified(d):
    d.serve()
    for rw, bs, qd in (("randwrite", "4k", 16), ("write", "128k", 4), ("randrw", "512", 1)):
        d.host("bench", d.uri(1), "--rw", rw, "--bs", bs, "--iodepth", str(qd),
               "--runtime", "1", "--verify", "--yes")


def server_killed(d, delay):
    server = d.serve()
    bench = d.start(d.hosts[1], "bench", d.uri(1), "--rw", "randrw", "--yes",
                    "--runtime", "60", "--iodepth", "16", "--ctrl-loss-tmo", "5")
    d.at_work(server, bench)
    time.sleep(delay)
    server.kill()
    killed = time.monotonic()
    status = bench.wait(END_SECONDS)
    if status != 1:
        raise AssertionError(f"bench: status {status} after its server's death, not 1")
    took = time.monotonic() - killed
    d.serve()
    d.host("cp", d.uri(1), d.file("copy"))
    same(d.images[0], d.file("copy"))
    return f"bench failed after {took:.2f} s"


def server_restarted(d, delay):
    """The bench connects again by itself, and every write that was acknowledged is there."""
    server = d.serve()
    bench = d.start(d.hosts[1], "bench", d.uri(1), "--rw", "randrw", "--yes", "--verify",
                    "--runtime", "4", "--iodepth", "16", "-o", "json")
    d.at_work(server, bench)
    time.sleep(delay)
    server.kill()
    time.sleep(1)
    d.serve()
    if bench.wait(END_SECONDS) != 0:
        raise AssertionError(f"bench: status {bench.status()}: {bench.output()[-300:]}")
    if '"reconnects": 1' not in bench.output():
        raise AssertionError(f"bench did not connect again: {bench.output()[-300:]}")


def another_disk(d):
    """A service that starts anew has another disk in memory: no copy of the first goes on with it."""
    server = d.serve(files=("mem:256m",))
    cp = d.start(d.hosts[1], "cp", d.uri(1), d.file("copy"), "--bs", "512", "--iodepth", "1")
    d.at_work(server, cp)
    server.kill()
    d.serve(files=("mem:256m",))
    if cp.wait(END_SECONDS) != 1 or "another disk has its number" not in cp.output():
        raise AssertionError(f"cp: status {cp.status()}: {cp.output()[-300:]}")


def killed_under_a_bench(d, rng, times, before):
    """As often as its time allows, at most so many times; how often. At its end every block is what was last
    acknowledged."""
    server = d.serve()
    seconds = times * 2
    deadline = time.monotonic() + seconds
    bench = d.start(d.hosts[1], "bench", d.uri(1), "--rw", "randrw", "--yes", "--verify",
                    "--runtime", str(seconds + 8), "--iodepth", "16", "-o", "json",
                    "--reconnect-delay", "1", "--ctrl-loss-tmo", "60")
    deaths = 0
    while deaths < times and (not deaths or time.monotonic() < deadline):
        # The host works again: a death while it is on its way back is no reconnection more.
        d.at_work(server, bench, f"after {before + deaths} deaths: ")
        time.sleep(rng.uniform(0.02, 0.4))
        server.kill()
        deaths += 1
        server = d.serve()
    if bench.wait(seconds + 60) != 0:
        raise AssertionError(f"bench: status {bench.status()}: {bench.output()[-300:]}")
    result = json.loads(bench.output()[bench.output().index("{"):])
    if result["reconnects"] < deaths:
        raise AssertionError(f"{deaths} deaths, {result['reconnects']} reconnects")
    server.kill()
    return deaths


def killed_again_and_again(d, rng, times):
    """The same over many deaths, all of them: a machine that is too slow for one bench has another."""
    began = time.monotonic()
    deaths = benches = 0
    while deaths < times:
        if time.monotonic() > began + 60 + times * 12:
            raise AssertionError(f"{deaths} deaths of {times} in {time.monotonic() - began:.0f} s")
        deaths += killed_under_a_bench(d, rng, times - deaths, deaths)
        benches += 1
    return f"{deaths} deaths, {benches} bench" + "es" * (benches > 1)


def cache_lost(d):
    """As if the server's machine had lost its power: what was not flushed is gone."""
    server = d.serve()
    size = os.path.getsize(d.images[0])
    new = d.image("new", size)
    cp = d.start(d.hosts[1], "cp", new, d.uri(1), "--bs", "2k", "--iodepth", "1")
    with open(new, "rb") as f, open(d.images[0], "rb", buffering=0) as g:
        first = f.read(2048)
        arrived = lambda: g.seek(0) == 0 and g.read(2048) == first
        if not lab.until(arrived, 10) or cp.status() is not None:
            raise AssertionError(f"cp was not caught at work: {cp.output()[-300:]}")
    server.kill()
    with open(d.images[0], "r+b") as f:
        f.write(bytes(size))
    d.serve()
    # Twelve thousand commands, one after the other: each wakes both ends, on a busy machine late.
    if cp.wait(4 * END_SECONDS) != 0:
        raise AssertionError(f"cp: status {cp.status()}: {cp.output()[-300:]}")
    same(new, d.images[0])
    return [l for l in cp.output().splitlines() if "again" in l][-1]


def interrupted(d):
    """A copy between two namespaces, while one target still fetches from the memory of both."""
    address, uris, servers = d.hosts[0].address, [], []
    for port in (4420, 4421):
        image = d.image(f"{port}.img", 192 << 20 if port == 4420 else 0)
        os.truncate(image, 192 << 20)
        servers.append(d.start(d.hosts[0], "serve", image, "--nqn", NQN, "--listen",
                               f"{d.transport}://{address}:{port}"))
        uris.append(f"nvme+{d.transport}://{address}:{port}/{NQN}")
    if not lab.until(lambda: all(s.says("ready") for s in servers), 10):
        raise AssertionError("weft serve does not come up")
    caught = 0
    for n in range(1, 13):
        cp = d.start(d.hosts[1], "cp", *uris, "--iodepth", "64")
        if not lab.until(lambda: servers[1].output().count("connected: ") >= n, 10, 0.001):
            raise AssertionError("cp does not connect")
        time.sleep(0.05 + 0.02 * n)
        cp.process.send_signal(signal.SIGINT)
        if cp.wait(END_SECONDS) not in (0, 128 + signal.SIGINT):
            raise AssertionError(f"cp: status {cp.status()} after SIGINT: {cp.output()[-300:]}")
        caught += cp.status() != 0
    if not caught:
        raise AssertionError("cp was never caught at work")
    return f"{caught} times"


def figures_so_far(d, bench, ended, seconds):
    """The JSON form of a bench that was cut short in so many seconds."""
    told, _, figures = bench.output().partition("{")
    figures = json.loads("{" + figures)
    if figures["ended"] != ended or not \
            0 < figures["jobs"][0]["job_runtime"] < seconds * 1000 or \
            not figures["jobs"][0]["read"]["total_ios"]:
        raise AssertionError(f"{figures} in {seconds:.1f} s")
    return told.strip().splitlines()


def bench_interrupted(d):
    server = d.serve()
    for n, (sig, options) in enumerate([(signal.SIGINT, ["-o", "json"]), (signal.SIGTERM, [])], 1):
        bench = d.start(d.hosts[1], "bench", d.uri(1), "--runtime", "60", *options)
        if not lab.until(lambda: server.output().count("connected: ") == n, 10):
            raise AssertionError("bench does not connect")
        time.sleep(1)
        bench.process.send_signal(sig)
        if bench.wait(END_SECONDS) != 128 + sig:
            raise AssertionError(f"bench: status {bench.status()} after signal {sig}")
        took = time.monotonic() - bench.started
        if not bench.says("weft: interrupted"):
            raise AssertionError(f"bench does not say that: {bench.output()}")
        if options:
            figures_so_far(d, bench, "interrupted", took)
        elif not bench.says("interrupted: these are the figures until then") or \
                not bench.says("IOPS"):
            raise AssertionError(f"no figures so far: {bench.output()}")


def bench_cut_off(d):
    """Its target is gone for good: it says why it could not connect again, as who comes then is
    told, and what it measured before."""
    server = d.serve()
    bench = d.start(d.hosts[1], "bench", d.uri(1), "--runtime", "60", "-o", "json",
                    "--ctrl-loss-tmo", "3")
    if not lab.until(lambda: server.says("connected: "), 10):
        raise AssertionError("bench does not connect")
    time.sleep(1)
    server.kill()
    took = time.monotonic() - bench.started
    if bench.wait(END_SECONDS) != 1:
        raise AssertionError(f"bench: status {bench.status()} without its target")
    told = figures_so_far(d, bench, "failed", took + 1)
    fresh = d.hosts[1].run(d.weft, "id-ctrl", d.uri(1), timeout=60).stderr.strip()
    if told[-1] != fresh:
        raise AssertionError(f"bench says {told[-1]!r} in the end, a new one {fresh!r}")
    return fresh


def read_only(d):
    """One of two files, by its own word or by all the others'."""
    new = d.image("new", os.path.getsize(d.images[1]))
    old = [digest(i) for i in d.images]
    for words, options in ((("", ",ro"), ()), ((",rw", ""), ("--read-only",))):
        p = d.serve(*options, files=[i + w for i, w in zip(d.images, words)])
        cp = d.start(d.hosts[1], "cp", new, d.uri(2))
        if cp.wait(60) != 1 or not cp.says("write-protected"):
            raise AssertionError(f"cp to a read-only namespace: {cp.status()}, {cp.output()}")
        if digest(d.images[1]) != old[1]:
            raise AssertionError("a read-only file was written")
        d.host("cp", new, d.uri(1))
        if digest(d.images[0]) == old[0]:
            raise AssertionError("nothing was written beside a read-only file")
        p.process.terminate()
        p.wait(10)


def resized(d):
    """A file that grows or shrinks while it is served, with a host and without."""
    def told(size):
        if not lab.until(lambda: server.says(f"grow.img: {size} now (namespace 1)"), 10):
            raise AssertionError(f"serve does not say {size}: {server.output()[-300:]}")

    def blocks(expected):
        seen = json.loads(d.host("id-ns", d.uri(1), "-o", "json"))
        if seen["nsze"] != expected:
            raise AssertionError(f"nsze {seen['nsze']}, not {expected}")

    image = d.image("grow.img", 1 << 20)
    server = d.serve(files=[image])
    os.truncate(image, 4 << 20)
    blocks((4 << 20) // 512)
    told("4 MiB")
    new = d.image("new", 4 << 20)
    d.host("cp", new, d.uri(1))
    same(new, image)
    bench = d.start(d.hosts[1], "bench", d.uri(1), "--runtime", "60", "--iodepth", "8")
    if not lab.until(lambda: server.output().count("connected: ") == 3, 10):
        raise AssertionError("bench does not connect")
    os.truncate(image, 8 << 20)
    told("8 MiB")
    if bench.status() is not None:
        raise AssertionError(f"bench ends when its namespace grows: {bench.output()[-300:]}")
    os.truncate(image, 2 << 20)
    told("2 MiB")
    if bench.wait(END_SECONDS) != 1:
        raise AssertionError(f"bench: status {bench.status()} beyond the end of a namespace")
    blocks((2 << 20) // 512)
    os.truncate(image, 0)
    blocks(0)
    read = d.start(d.hosts[1], "read", d.uri(1), "-d", d.file("copy"))
    if read.wait(60) != 1 or not read.says("namespace 1 of") or not read.says("no blocks"):
        raise AssertionError(f"a file of nothing: {read.status()}, {read.output()}")
    os.truncate(image, 1 << 20)
    blocks((1 << 20) // 512)
    return bench.output().splitlines()[0]


def nothing_kept(d):
    """null:SIZE, beside a file: two of one size are two namespaces, and one is read-only."""
    server = d.serve(files=[d.images[1], "null:1m", "null:1m,ro"])
    new, zeroes = d.image("new", 1 << 20), d.file("zeroes")
    with open(zeroes, "wb") as f:
        f.truncate(1 << 20)
    d.host("cp", new, d.uri(2))
    d.host("cp", d.uri(2), d.file("copy"))
    same(zeroes, d.file("copy"))
    cp = d.start(d.hosts[1], "cp", new, d.uri(3))
    if cp.wait(60) != 1 or not cp.says("write-protected"):
        raise AssertionError(f"cp to null:1m,ro: {cp.status()}, {cp.output()}")
    seen = [json.loads(d.host("id-ns", d.uri(n), "-o", "json")) for n in (2, 3)]
    if seen[0]["nguid"] == seen[1]["nguid"] or seen[0]["nsze"] != (1 << 20) // 512:
        raise AssertionError(f"two of one size: {seen}")
    d.host("cp", d.uri(1), d.file("copy"))
    same(d.images[1], d.file("copy"))
    server.process.terminate()
    if server.wait(10) != 0:
        raise AssertionError(f"weft serve ended with {server.status()}")


def in_memory(d):
    """mem:SIZE, twice of one size: keeps what is written while it is served, and no longer."""
    size, files = 32 << 20, ["mem:32m", "mem:32m", "mem:1m,ro"]
    server = d.serve("--block-size", "4096", files=files)
    new, zeroes = d.image("new", size), d.file("zeroes")
    with open(zeroes, "wb") as f:
        f.truncate(size)

    def holds(ns, image):
        d.host("cp", d.uri(ns), d.file("copy"))
        same(image, d.file("copy"))

    def told():
        return [json.loads(d.host("id-ns", d.uri(n), "-o", "json")) for n in (1, 2, 3)]

    holds(1, zeroes)
    d.host("cp", new, d.uri(1))
    holds(1, new)
    holds(2, zeroes)
    for rw, bs, qd in (("randwrite", "4k", 16), ("write", "128k", 4), ("randrw", "12k", 1)):
        d.host("bench", d.uri(2), "--rw", rw, "--bs", bs, "--iodepth", str(qd), "--runtime", "1",
               "--verify", "--yes")
    holds(1, new)
    d.host("cp", zeroes, d.uri(2))
    full = resident(server)
    if not d.host("cp", zeroes, d.uri(1)).count("zeroes not sent") or \
            resident(server) > full - size // 2:
        raise AssertionError(f"{full} bytes resident before zeroes, {resident(server)} after")
    holds(1, zeroes)
    cp = d.start(d.hosts[1], "cp", new, d.uri(3))
    if cp.wait(60) != 1 or not cp.says("write-protected"):
        raise AssertionError(f"cp to mem:1m,ro: {cp.status()}, {cp.output()}")
    seen = told()
    if seen[0]["nsze"] != size // 4096 or len({s["nguid"] for s in seen}) != 3:
        raise AssertionError(f"three disks: {seen}")
    d.host("cp", new, d.uri(1))
    server.process.terminate()
    if server.wait(10) != 0:
        raise AssertionError(f"weft serve ended with {server.status()}")
    d.serve("--block-size", "4096", files=files)
    if {s["nguid"] for s in told()} & {s["nguid"] for s in seen}:
        raise AssertionError(f"what it held is gone, and it is the same disk: {told()}")
    holds(1, zeroes)


def resident(program):
    with open(f"/proc/{program.pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def memory_runs_out(d):
    """Writes then fail with a status that says so, and all else goes on."""
    server = d.serve(files=["mem:64m", "mem:1m"])
    new = d.image("new", 64 << 20)
    d.host("cp", d.image("other", 1 << 20), d.uri(2))  # which has all its memory then
    queues = d.counters(server)["io_queues"]
    bench = d.start(d.hosts[1], "bench", d.uri(2), "--rw", "randrw", "--yes", "--verify",
                    "--runtime", "2")
    if not lab.until(lambda: d.counters(server)["io_queues"] > queues, 10):
        raise AssertionError("bench does not connect")
    with open(f"/proc/{server.pid}/status", encoding="ascii") as f:
        data = int(re.search(r"VmData:\s+(\d+) kB", f.read())[1]) << 10
    hard = resource.prlimit(server.pid, resource.RLIMIT_DATA)[1]
    resource.prlimit(server.pid, resource.RLIMIT_DATA, (data + (32 << 20), hard))
    cp = d.start(d.hosts[1], "cp", new, d.uri(1))
    if cp.wait(60) != 1 or not cp.says("Capacity Exceeded"):
        raise AssertionError(f"cp to a disk without memory: {cp.status()}, {cp.output()}")
    if bench.wait(60) != 0:
        raise AssertionError(f"bench of the other disk: {bench.status()}, {bench.output()}")
    resource.prlimit(server.pid, resource.RLIMIT_DATA, (hard, hard))
    d.host("cp", new, d.uri(1))
    d.host("cp", d.uri(1), d.file("copy"))
    same(new, d.file("copy"))
    return cp.output().splitlines()[0]


def made_wrongly(d):
    """What is wrong with a disk that cannot be made, by the name that it was given."""
    rows = [("mem:4194304t", 1, "mem:4194304t: .*make it smaller")]
    for kind in ("mem", "null"):
        rows.append((f"{kind}:1000", 1, f"{kind}:1000: .*not a multiple of the block size"))
        for size in ("x", "0", "", "8388608t"):
            rows.append((f"{kind}:{size}", 2, f"{kind}:SIZE takes a size.* not '{size}'"))
    for name, status, why in rows:
        p = d.start(d.hosts[0], "serve", name)
        if p.wait(10) != status or not re.search(why, p.output()):
            raise AssertionError(f"serve {name}: {p.status()}, {p.output()}")


def host_killed(d, delay):
    server = d.serve()
    bench = d.start(d.hosts[1], "bench", d.uri(1), "--rw", "randrw", "--yes",
                    "--runtime", "60", "--iodepth", "16", "--ctrl-loss-tmo", "5")
    time.sleep(0.5 + delay)
    bench.kill()
    begun = time.monotonic()
    new = d.image("new", os.path.getsize(d.images[0]))
    d.host("cp", new, d.uri(1))
    took = time.monotonic() - begun
    d.host("cp", d.uri(1), d.file("copy"))
    same(new, d.file("copy"))
    same(new, d.images[0])
    if server.status() is not None:
        raise AssertionError("the server has died too")
    return f"24 MiB written {took:.2f} s later"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", choices=("one", "veth"))
    p.add_argument("--transport", choices=("rdma", "tcp", "tcp+tls"), default="rdma")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--deaths", type=int, default=4, help="of one server after the other")
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--threads", type=int, default=1, help="of the server")
    p.add_argument("--only-io", action="store_true", help="not what concerns one thread alone")
    args = p.parse_args()
    lab.enter()
    print(f"seed {args.seed}", flush=True)
    rng = random.Random(args.seed)
    d = Disk(args.build, args.where, args.transport, args.threads)
    d.run("copies", copies)
    d.run("two at once", two_at_once)
    d.run("verified bench", verified)
    if args.transport == "tcp":
        d.run("by RDMA and by TCP", by_both)
    if args.transport == "tcp" and not args.only_io:
        d.run("digests", digests)
    if not args.only_io:
        d.run("what was not flushed is lost", cache_lost)
        d.run("a copy is interrupted", interrupted)
        d.run("a bench is interrupted", bench_interrupted)
        d.run("a bench is cut off", bench_cut_off)
        d.run("one file read-only", read_only)
        d.run("a file grows and shrinks", resized)
        d.run("a disk that keeps nothing", nothing_kept)
        d.run("disks in memory", in_memory)
        d.run("memory runs out", memory_runs_out)
        d.run("another disk is there after a restart", another_disk)
        d.run("disks that cannot be made", made_wrongly)
    for _ in range(args.rounds):
        for what in (server_killed, server_restarted, host_killed):
            delay = rng.uniform(0, 1)
            d.run(f"{what.__name__.replace('_', ' ')} after {delay:.2f} s", what, delay)
    if args.deaths:
        d.run("the server is killed again and again", killed_again_and_again, rng, args.deaths)
    d.report.everything_ends(d.hosts)
    d.report.finish()


if __name__ == "__main__":
    sys.exit(main())
