#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Thousands of controllers of one `weft serve`, by TCP, and what each of them takes.

usage: controllers.py BUILD [--count N]
       controllers.py --hold N ADDRESS    the host that has them

All come from one address, which may have no more than are left for others: who comes from another one is served.
"""
import argparse
import os
import resource
import socket
import struct
import sys
import time

NQN = "nqn.2026-11.org.weft:controllers"
ICREQ = struct.pack("<BBBBIHBBI", 0, 0, 128, 0, 128, 0, 0, 0, 0) + bytes(112)
BYTES_MAX = 64 << 10  # of a controller with its admin queue


def capsule(fctype, dwords, data=b"", nsid=0):
    sgl = struct.pack("<QI4B", 0, len(data), 0, 0, 0, 1 if data else 0x5a)
    sqe = struct.pack("<BBHI", 0x7f, 0x40, 0, fctype) + bytes(16) + sgl + dwords.ljust(24, b"\0")
    return struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, 72 + len(data)) + sqe + data


def field(text):
    return text.encode().ljust(256, b"\0")


def receive(s, length):
    got = b""
    while len(got) < length:
        part = s.recv(length - len(got))
        if not part:
            raise OSError("the connection has ended")
        got += part
    return got


def controller(address, number, nqn=NQN):
    """A connection with an enabled controller; None: it is refused, the target being busy."""
    s = socket.create_connection((address, 4420), 20)
    data = struct.pack("<16sH", number.to_bytes(16, "little"), 0xffff).ljust(256, b"\0") + field(nqn) + \
        field(f"nqn.2026-11.org.weft:host{number}")
    s.sendall(ICREQ + capsule(1, struct.pack("<HHHBBI", 0, 0, 31, 0, 0, 600000), data.ljust(1024, b"\0")))
    answer = receive(s, 128 + 24)[128:]
    status = struct.unpack_from("<H", answer, 22)[0] >> 1
    if status == 0x181:
        s.close()
        return None
    if status:
        raise AssertionError(f"Connect is answered with {status:#x}")
    s.sendall(capsule(0, struct.pack("<IIQ", 0, 0x14, 6 << 16 | 4 << 20 | 1)))
    status = struct.unpack_from("<H", receive(s, 24), 22)[0] >> 1
    if status:
        raise AssertionError(f"enabling is answered with {status:#x}")
    return s


def hold(count, address):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    begun, held = time.monotonic(), []
    for number in range(count):
        s = controller(address, number)
        if not s:
            break
        held.append(s)
    print(f"holds {len(held)} after {time.monotonic() - begun:.1f} s", flush=True)
    sys.stdin.read()


class Controllers:
    def __init__(self, args):
        import lab
        self.lab, self.count = lab, args.count
        self.weft = os.path.join(os.path.abspath(args.build), "weft")
        self.target, self.other = lab.lab(2)
        self.report = lab.Report(args.build, "controllers")
        self.programs, self.path = [], ""

    def start(self, host, *argv):
        p = self.lab.Program(host, argv, f"{self.path}/{len(self.programs)}.log")
        self.programs.append(p)
        return p

    def kill(self):
        for p in self.programs:
            p.kill()
        self.programs = []

    def resident(self, program):
        with open(f"/proc/{program.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def many(self):
        serve = self.start(self.target, self.weft, "serve", "mem:16m", "--nqn", NQN, "--listen",
                           f"tcp://{self.target.address}", "--listen", "tcp://127.0.0.1")
        if not self.lab.until(lambda: serve.says("ready"), 10):
            raise AssertionError("weft serve does not come up")
        before = self.resident(serve)
        host = self.start(self.other, sys.executable, os.path.abspath(__file__), "--hold", str(self.count),
                          self.target.address)
        if not self.lab.until(lambda: host.says("holds") or host.status() is not None, 120) or not host.says("holds"):
            raise AssertionError(f"the host does not get so far: {host.output()[-300:]}")
        held = int(host.output().split("holds ")[1].split()[0])
        each = (self.resident(serve) - before) / max(held, 1)
        if held < self.count:
            raise AssertionError(f"it has {held} controllers, not {self.count}")
        if each > BYTES_MAX:
            raise AssertionError(f"each takes {each / 1024:.1f} KiB")
        r = self.target.run(self.weft, "id-ctrl", f"nvme+tcp://127.0.0.1/{NQN}")
        if r.returncode:
            raise AssertionError(f"meanwhile: {r.stderr.strip()}")
        host.kill()
        serve.process.terminate()
        if serve.wait(20) != 0:
            raise AssertionError(f"weft serve ends with {serve.status()}")
        return f"{host.output().strip()}, {each / 1024:.1f} KiB each"


def main():
    if sys.argv[1:2] == ["--hold"]:
        hold(int(sys.argv[2]), sys.argv[3])
        return
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--count", type=int, default=4000)
    args = p.parse_args()
    import lab
    lab.enter()
    c = Controllers(args)
    c.report.prove_and_end(f"{args.count} controllers", c, c.many)
    c.report.everything_ends((c.target, c.other))
    c.report.finish()


if __name__ == "__main__":
    sys.exit(main())
