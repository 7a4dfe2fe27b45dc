#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""NVMe/TCP hosts that follow no rule, from another address: the others are served meanwhile.

usage: hostile_tcp.py BUILD [--only WORD]
       hostile_tcp.py --attack NAME ADDRESS    what one of them does
"""
import os
import random
import resource
import socket
import struct
import sys
import tempfile
import time

NQN = "nqn.2026-11.org.weft:hostile-tcp"
GROWTH_MAX = 64 << 20
SERVED_SECONDS = 15
DESCRIPTORS = 256
ICREQ = struct.pack("<BBBBIHBBI", 0, 0, 128, 0, 128, 0, 0, 0, 0) + bytes(112)
ICRESP_LEN = 128


def connect(address):
    s = socket.create_connection((address, 4420), 10)
    s.settimeout(10)
    return s


def capsule(data=b"", plen=None, cid=0):
    sqe = struct.pack("<BBHI", 0x7f, 0x40, cid, 1) + bytes(16) + struct.pack(
        "<QI4B", 0, 1024, 0, 0, 0, 1 if data else 0x5a) + bytes(24)
    total = 72 + len(data) if plen is None else plen
    return struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, total) + sqe + data


# ---- attacks: each says "holds" when it has done its worst, and stays -----------------------------

def silent(address):
    """Connections that say nothing, as many as it gets."""
    return hold(address, lambda s: None)


def half(address):
    """Connections in the middle of a PDU."""
    return hold(address, lambda s: s.sendall(ICREQ + capsule(bytes(1024))[:500]))


def initialized(address):
    """Connections that agree on what they are like, and say no more."""
    return hold(address, lambda s: s.sendall(ICREQ))


def asked(address):
    """Connect whose data were asked for, and are not sent."""
    return hold(address, lambda s: s.sendall(ICREQ + capsule()))


def hold(address, begin):
    held = []
    for _ in range(600):
        try:
            s = connect(address)
            begin(s)
            held.append(s)
        except OSError:
            pass
    return held


def garbage(address):
    """Random bytes, again and again; a header that is right at first now and then."""
    rng, end = random.Random(7), time.monotonic() + 4
    while time.monotonic() < end:
        s = connect(address)
        try:
            s.sendall(rng.choice((b"", ICREQ, ICREQ + capsule()[:8])) + rng.randbytes(rng.randrange(1, 20000)))
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        s.close()
    return []


def deaf(address):
    """Commands without end, whose responses are not read."""
    held = []
    for _ in range(8):
        s = connect(address)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(ICREQ)
        s.settimeout(0.3)
        many = capsule(bytes(64)) * 1000
        try:
            for _ in range(100):
                s.sendall(many)
        except OSError:
            pass
        held.append(s)
    return held


def greedy(address):
    """Controllers, as many as it gets."""
    import controllers
    held = []
    try:
        while s := controllers.controller(address, len(held), NQN):
            held.append(s)
    except OSError:
        pass
    return held


ATTACKS = (silent, half, initialized, asked, garbage, deaf)


def attack(attacks, name, address):
    held = dict((a.__name__, a) for a in attacks)[name](address)
    print(f"holds {len(held)}", flush=True)
    time.sleep(120)


# ---- the target's side ----------------------------------------------------------------------------

class Target:
    kind, scheme, attacker = "hostile-tcp", "tcp", __file__

    def __init__(self, args):
        import lab
        self.lab = lab
        self.weft = os.path.join(os.path.abspath(args.build), "weft")
        self.target, self.other = lab.lab(2)
        self.report = lab.Report(args.build, self.kind)
        self.tmp = tempfile.TemporaryDirectory()
        self.image = os.path.join(self.tmp.name, "disk.img")
        with open(self.image, "wb") as f:
            f.write(os.urandom(4 << 20))
        self.programs, self.path = [], ""

    def start(self, host, *argv):
        p = self.lab.Program(host, argv, f"{self.path}/{len(self.programs)}.log")
        self.programs.append(p)
        return p

    def kill(self):
        for p in self.programs:
            p.kill()
        self.programs = []

    def serve(self, *more, before=()):
        p = self.start(self.target, *before, self.weft, "serve", self.image, "--nqn", NQN, "--listen",
                       f"{self.scheme}://{self.target.address}", "--listen", f"{self.scheme}://127.0.0.1", *more)
        if not self.lab.until(lambda: p.says("ready") or p.status() is not None, 10) or p.status():
            raise AssertionError("weft serve does not come up")
        return p

    def served(self, when):
        """A host of another address reads it all."""
        copy, begun = os.path.join(self.tmp.name, "copy"), time.monotonic()
        r = self.target.run(self.weft, "cp", f"nvme+{self.scheme}://127.0.0.1/{NQN}", copy)
        if r.returncode:
            raise AssertionError(f"{when}: {r.stderr.strip()}")
        with open(copy, "rb") as f, open(self.image, "rb") as g:
            if f.read() != g.read():
                raise AssertionError(f"{when}: the copy differs")
        if time.monotonic() > begun + SERVED_SECONDS:
            raise AssertionError(f"{when}: it took {time.monotonic() - begun:.0f} s")

    def attack(self, name):
        host = self.start(self.other, sys.executable, os.path.abspath(self.attacker), "--attack", name,
                          self.target.address)
        if not self.lab.until(lambda: host.says("holds") or host.status() is not None, 60) \
                or host.status() is not None:
            raise AssertionError("the hostile host does not get so far")
        return host

    def attacked(self, name):
        serve = self.serve()
        self.served("before")
        small, few = self.resident(serve), self.descriptors(serve)
        host = self.attack(name)
        grown = self.resident(serve) - small
        self.served("meanwhile")
        if grown > GROWTH_MAX:
            raise AssertionError(f"weft serve grew by {grown >> 20} MiB")
        host.kill()
        self.served("after")
        if not self.lab.until(lambda: self.descriptors(serve) <= few, 20):
            raise AssertionError(f"weft serve has {self.descriptors(serve)} descriptors, and had {few}")
        serve.process.terminate()
        if serve.wait(10) != 0:
            raise AssertionError(f"weft serve ends with {serve.status()}")
        return f"{host.output().strip()}, weft serve grew by {grown / 2**20:.1f} MiB"

    def resident(self, program):
        with open(f"/proc/{program.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * 4096

    @staticmethod
    def descriptors(program):
        return len(os.listdir(f"/proc/{program.pid}/fd"))

    def told_why(self):
        """Who breaks the protocol gets a terminate request with the status, and the connection's end."""
        rows = ((b"\x08" + ICREQ[1:], 1, 0),  # no such type
                (capsule(), 2, 0),  # not first of all
                (ICREQ + ICREQ, 2, 0),
                (ICREQ + capsule(bytes(1028)), 5, 0),  # more than Connect has
                (ICREQ + capsule(plen=60), 1, 4),
                (ICREQ[:8] + b"\1" + ICREQ[9:], 6, 8))  # another version
        self.serve()
        script = ("import sys; sys.path.insert(0, sys.argv[1]); import hostile_tcp as h\n"
                  "s = h.connect(sys.argv[2]); s.sendall(bytes.fromhex(sys.argv[3])); got = b''\n"
                  "while part := s.recv(4096): got += part\nprint(got.hex())")
        for request, fes, fei in rows:
            r = self.other.run(sys.executable, "-c", script, os.path.dirname(os.path.abspath(__file__)),
                               self.target.address, request.hex())
            got = bytes.fromhex(r.stdout.strip())
            if got[:1] == b"\1":
                got = got[ICRESP_LEN:]
            if len(got) < 32 or got[0] != 3 or struct.unpack_from("<HI", got, 8) != (fes, fei):
                raise AssertionError(f"{request[:16].hex()}: {got.hex()} {r.stderr}")
        self.served("after")


    def few_descriptors(self, threads):
        """One host leaves as many for others, and all together some for the service itself."""
        control = os.path.join(self.tmp.name, "control")
        serve = self.serve("--control", control, "--threads", str(threads),
                           before=("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"))
        host = self.attack("greedy")
        self.served("beside a host that takes what it gets")
        r = self.target.run(self.weft, "target", "-s", control, "ls")
        if r.returncode:
            raise AssertionError(f"control beside that: {r.stderr.strip()}")
        held = int(host.output().split("holds ")[1])
        if held * 2 * threads > DESCRIPTORS:
            raise AssertionError(f"one host has {held} connections of {DESCRIPTORS} descriptors")
        return f"it holds {held}"

    def no_descriptors(self):
        """It is told once that connections cannot be taken, and they are when that is over."""
        serve = self.serve()
        used, limit = len(os.listdir(f"/proc/{serve.pid}/fd")), resource.prlimit(serve.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(serve.pid, resource.RLIMIT_NOFILE, (used, limit[1]))
        host = self.start(self.other, sys.executable, os.path.abspath(__file__), "--attack", "silent",
                          self.target.address)
        self.lab.until(lambda: serve.says("is not taken"), 10)
        time.sleep(1)
        told = serve.output().count("is not taken")
        if told != 1:
            raise AssertionError(f"it is told {told} times in a second")
        resource.prlimit(serve.pid, resource.RLIMIT_NOFILE, limit)
        host.kill()
        self.served("after")


def attacked_by(target, attacks):
    return [(a.__name__ + ": " + a.__doc__[0].lower() + a.__doc__[1:].rstrip("."), target.attacked,
             {"name": a.__name__}) for a in attacks]


def main():
    import argparse
    import lab
    if sys.argv[1:2] == ["--attack"]:
        return attack((*ATTACKS, greedy), *sys.argv[2:])
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    t = Target(args)
    cases = [("told why", t.told_why, {}), ("no descriptors", t.no_descriptors, {})]
    cases += [(f"few descriptors, {n} thread{'s'[:n - 1]}", t.few_descriptors, {"threads": n}) for n in (1, 2)]
    cases += attacked_by(t, ATTACKS)
    for name, function, kwargs in cases:
        if args.only in name:
            t.report.prove_and_end(name, t, lambda f=function, k=kwargs: f(**k))
    t.report.finish()


if __name__ == "__main__":
    sys.exit(main())
