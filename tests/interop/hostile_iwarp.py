#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Peers of iWARP that follow no rule, from another address: hosts that do are served meanwhile.

usage: hostile_iwarp.py BUILD [--only WORD]
       hostile_iwarp.py --attack NAME ADDRESS    what one of them does
"""
import argparse
import os
import random
import socket
import struct
import sys
import time

import hostile_tcp
from hostile_tcp import connect, hold

# Of RFC 5044, with a CRC, without markers; private data: NVMe over RDMA's request, of an admin queue.
NVME = struct.pack("<HHHHH", 0, 0, 32, 31, 0) + bytes(22)
TERMINATE, READ_REQUEST, SEND, WRITE = 7, 1, 3, 0
TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82f63b78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def request(private=NVME, length=None):
    return b"MPA ID Req Frame" + struct.pack(">BBH", 0x40, 1, len(private) if length is None else length) + private


def fpdu(ulpdu, crc=None):
    data = struct.pack(">H", len(ulpdu)) + ulpdu
    data += bytes(-len(data) % 4)
    return data + struct.pack("<I", crc32c(data) if crc is None else crc)


def untagged(opcode, queue, msn, mo, payload, last=True):
    return struct.pack(">BBIIII", (0x40 if last else 0) | 1, 0x40 | opcode, 0, queue, msn, mo) + payload


def tagged(opcode, stag, to, payload, last=True):
    return struct.pack(">BBIQ", 0x80 | (0x40 if last else 0) | 1, 0x40 | opcode, stag, to) + payload


def read_request(msn, stag, to, size, sink=1):
    return untagged(READ_REQUEST, 1, msn, 0, struct.pack(">IQIIQ", sink, 0, size, stag, to))


def accepted(address):
    s = connect(address)
    s.sendall(request())
    got = b""
    while len(got) < 20:
        part = s.recv(4096)
        if not part:
            raise OSError("closed")
        got += part
    if not got.startswith(b"MPA ID Rep Frame") or got[16] & 0x20:
        raise OSError("rejected")
    return s


def silent(address):
    """Connections that say nothing, as many as it gets."""
    return hold(address, lambda s: None)


def half(address):
    """Connections in the middle of their request."""
    return hold(address, lambda s: s.sendall(request()[:30]))


def slow(address):
    """Requests byte by byte, of a hundred at a time."""
    held, whole = [connect(address) for _ in range(100)], request()
    for i in range(40):
        for s in held:
            try:
                s.sendall(whole[i:i + 1])
            except OSError:
                pass
        time.sleep(0.1)
    return held


def refused(address):
    """Requests of nobody known, whose answers are not read."""
    return hold(address, lambda s: s.sendall(request(bytes(32))))


def longest(address):
    """Requests that promise more private data than there may be, or do not send what they promise."""
    held = hold(address, lambda s: s.sendall(request(bytes(512), 600)))
    return held + hold(address, lambda s: s.sendall(request(bytes(100), 512)))


def taken(address):
    """Connections that are accepted, and say no more."""
    held = []
    for _ in range(300):
        try:
            held.append(accepted(address))
        except OSError:
            pass
    return held


def again_and_again(address, rng, says):
    end = time.monotonic() + 4
    while time.monotonic() < end:
        try:
            s = accepted(address)
        except OSError:
            continue
        try:
            s.sendall(says(rng))
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except OSError:
            pass
        s.close()
    return []


def garbage(address):
    """Random bytes for a request, and behind one that is right."""
    end, rng = time.monotonic() + 2, random.Random(5)
    while time.monotonic() < end:
        with connect(address) as s:
            try:
                s.sendall(rng.choice((b"", b"MPA ID R", request()[:18])) + rng.randbytes(rng.randrange(1, 9000)))
            except OSError:
                pass
    return again_and_again(address, rng, lambda r: r.randbytes(r.randrange(1, 20000)))


def forged(address):
    """Wrong keys, places, numbers, queues and lengths behind a right CRC."""
    def one(rng):
        stag, to = rng.randrange(1 << 32), rng.choice((0, rng.randrange(1 << 64), (1 << 64) - 4))
        payload = rng.randbytes(rng.randrange(300))
        return rng.choice((
            lambda: tagged(WRITE, stag, to, payload),
            lambda: tagged(rng.randrange(64), stag, to, payload, rng.random() < 0.5),
            lambda: untagged(SEND, rng.randrange(5), rng.choice((1, 2, 0, 0xffffffff)), rng.choice((0, 1, 0xfffffff0)),
                             payload),
            lambda: untagged(rng.randrange(64), rng.randrange(4), 1, 0, payload),
            lambda: read_request(rng.choice((1, 2)), stag, to, rng.choice((0, 1, 0xffffffff))),
            lambda: rng.randbytes(rng.randrange(40))))()
    return again_and_again(address, random.Random(9), lambda rng: b"".join(fpdu(one(rng)) for _ in range(4)))


def readers(address):
    """Endless READs of nothing, more than were granted, whose answers are not read."""
    held = []
    for _ in range(16):
        try:
            s = accepted(address)
        except OSError:
            continue
        s.settimeout(0.3)
        try:
            for msn in range(1, 200, 50):
                s.sendall(b"".join(fpdu(read_request(n, 1, 0, 0)) for n in range(msn, msn + 50)))
        except OSError:
            pass
        held.append(s)
    return held


ATTACKS = (silent, half, slow, refused, longest, taken, garbage, forged, readers)


class Target(hostile_tcp.Target):
    kind, scheme, attacker = "hostile-iwarp", "rdma", __file__

    def terminated(self):
        """Who breaks a rule of DDP or RDMAP is told which, and the connection ends."""
        self.serve()
        unknown = bytes((0x11, 0x00))  # DDP, tagged: invalid STag
        rows = ((tagged(WRITE, 12345, 0, b"x"), 0x0, 0x1, 0x02),  # RDMAP: a target lets nobody write, whatever the key
                (untagged(SEND, 0, 7, 0, b"x"), 0x1, 0x2, 0x03),  # untagged: MSN
                (untagged(SEND, 3, 1, 0, b"x"), 0x1, 0x2, 0x01),  # QN
                (read_request(1, 12345, 0, 4), 0x1, 0x2, 0x02))  # no buffer: a target grants no READs
        script = ("import sys, time; sys.path.insert(0, sys.argv[1]); import hostile_iwarp as h\n"
                  "s = h.accepted(sys.argv[2]); time.sleep(float(sys.argv[4])); s.sendall(bytes.fromhex(sys.argv[3]))\n"
                  "got = b''\nwhile part := s.recv(4096): got += part\nprint(got.hex())")
        for ulpdu, layer, kind, code in rows:
            for wait in (0, 0.1, 0.5, 2, 5):
                r = self.other.run(sys.executable, "-c", script, os.path.dirname(os.path.abspath(__file__)),
                                   self.target.address, fpdu(ulpdu).hex(), str(wait))
                got = bytes.fromhex(r.stdout.strip())
                said = got[20:22] if len(got) > 22 and got[3] & 0xf == TERMINATE else b""
                if said == bytes((layer << 4 | kind, code)) or said != unknown:
                    break  # else the target has not heard of the connection yet
            if said != bytes((layer << 4 | kind, code)):
                raise AssertionError(f"{ulpdu[:18].hex()}: {got.hex()} {r.stderr}")
        self.served("after")


def main():
    if sys.argv[1:2] == ["--attack"]:
        return hostile_tcp.attack(ATTACKS, *sys.argv[2:])
    import lab
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--only", default="")
    args = p.parse_args()
    os.environ["WEFT_DEVICES"] = "iwarp"
    lab.enter()
    t = Target(args)
    for name, function, kwargs in [("terminated", t.terminated, {}), *hostile_tcp.attacked_by(t, ATTACKS)]:
        if args.only in name:
            t.report.prove_and_end(name, t, lambda f=function, k=kwargs: f(**k))
    t.report.finish()


if __name__ == "__main__":
    sys.exit(main())
