#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Thousands of controllers of one `weft serve`, by TCP, and what each of them takes; hundreds whose
Keep Alives lie unread, for the service has been stopped for longer than they may be silent.

usage: controllers.py BUILD [--count N]
       controllers.py --hold N ADDRESS    the host that has them
       controllers.py --keep N ADDRESS    the same, alive by Keep Alive

All come from one address, which may have no more than are left for others: who comes from another one is served.
"""
import argparse
import os
import resource
import signal
import socket
import struct
import sys
import time

NQN = "nqn.2026-11.org.weft:controllers"
ICREQ = struct.pack("<BBBBIHBBI", 0, 0, 128, 0, 128, 0, 0, 0, 0) + bytes(112)
BYTES_MAX = 64 << 10  # of a controller with its admin queue
KEPT = 400
KATO = 4  # seconds


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


def controller(address, number, nqn=NQN, kato_ms=600000):
    """A connection with an enabled controller; None: it is refused, the target being busy."""
    s = socket.create_connection((address, 4420), 20)
    data = struct.pack("<16sH", number.to_bytes(16, "little"), 0xffff).ljust(256, b"\0") + field(nqn) + \
        field(f"nqn.2026-11.org.weft:host{number}")
    s.sendall(ICREQ + capsule(1, struct.pack("<HHHBBI", 0, 0, 31, 0, 0, kato_ms), data.ljust(1024, b"\0")))
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


def keep(count, address):
    """Each has said something by the time that half of its KATO is over; who is ended is told of."""
    held = [controller(address, n, kato_ms=KATO * 1000) for n in range(count)]
    keep_alive = struct.pack("<BBBBI", 4, 0, 72, 0, 72) + struct.pack("<BBHI", 0x18, 0x40, 1, 0) + bytes(31) + \
        b"\x5a" + bytes(24)
    for s in held:
        s.setblocking(False)
    print(f"keeps {count}", flush=True)
    while True:
        for s in held:
            try:
                s.sendall(keep_alive)
                if not s.recv(4096):
                    raise OSError
            except BlockingIOError:
                pass
            except OSError:
                print("lost one", flush=True)
                return
        time.sleep(KATO / 4)


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

    def serve(self):
        serve = self.start(self.target, self.weft, "serve", "mem:16m", "--nqn", NQN, "--listen",
                           f"tcp://{self.target.address}", "--listen", "tcp://127.0.0.1")
        if not self.lab.until(lambda: serve.says("ready"), 10):
            raise AssertionError("weft serve does not come up")
        return serve

    def away(self):
        serve = self.serve()
        host = self.start(self.other, sys.executable, os.path.abspath(__file__), "--keep", str(KEPT),
                          self.target.address)
        if not self.lab.until(lambda: host.says("keeps") or host.status() is not None, 60) or not host.says("keeps"):
            raise AssertionError(f"the host does not get so far: {host.output()[-300:]}")
        for _ in range(2):
            serve.process.send_signal(signal.SIGSTOP)
            time.sleep(1.5 * KATO)
            serve.process.send_signal(signal.SIGCONT)
            time.sleep(1.5 * KATO)
            if host.status() is not None or serve.says("silent for"):
                raise AssertionError(f"hosts that have said something are ended: {serve.output()[-300:]}")
        # And of those that are silent it hears nothing, and so has none of them.
        host.process.send_signal(signal.SIGSTOP)
        said = self.lab.until(lambda: serve.says("silent for"), 4 * KATO)
        host.process.send_signal(signal.SIGCONT)
        if not said:
            raise AssertionError("hosts that say nothing stay")
        host.kill()
        serve.process.terminate()
        if serve.wait(20) != 0:
            raise AssertionError(f"weft serve ends with {serve.status()}")
        return f"{KEPT} hosts outlive two stops of {1.5 * KATO} s, with {KATO} s each to be heard"

    def many(self):
        serve = self.serve()
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
    if sys.argv[1:2] == ["--keep"]:
        keep(int(sys.argv[2]), sys.argv[3])
        return
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--count", type=int, default=4000)
    args = p.parse_args()
    import lab
    lab.enter()
    c = Controllers(args)
    c.report.prove_and_end(f"{args.count} controllers", c, c.many)
    c.report.prove_and_end("a service that was away", c, c.away)
    c.report.everything_ends((c.target, c.other))
    c.report.finish()


if __name__ == "__main__":
    sys.exit(main())
