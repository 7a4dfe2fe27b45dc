#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Throws datagrams that are no RoCEv2 at port 4791: usage: garbage.py ADDR COUNT SEED

Random lengths and bytes, well-formed base headers with random queue pairs and bad ICRCs, and
truncated pieces of both; CM-like ones to QP1 among them. Prints how many were sent.
"""
import random
import socket
import struct
import sys

address, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
sent = 0
for n in range(count):
    qpn = rng.choice((0, 1, 1, rng.randrange(1 << 24), rng.randrange(1, 4) << 16 | rng.randrange(4)))
    opcode = rng.choice((0x64, 0x04, 0x0a, 0x06, 0x0c, 0x10, 0x11, 0x13, 0x14, rng.randrange(256)))
    bth = struct.pack(">BBHII", opcode, rng.randrange(256), 0xffff, qpn, rng.randrange(1 << 32))
    body = rng.randbytes(rng.choice((0, 4, 12, 16, 28, 280, rng.randrange(1400))))
    packet = rng.choice((bth + body, bth + body, body, (bth + body)[:rng.randrange(40)]))
    try:
        s.sendto(packet, (address, 4791))
        sent += 1
    except OSError:
        pass
print(sent)
