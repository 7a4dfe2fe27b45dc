#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Packets as somebody forges them who is neither end of a connection: run inside a lab's host.

usage: forge.py too-big VICTIM PEER MTU
       forge.py idents VICTIM PEER RATE SECONDS
       forge.py oddities VICTIM PEER RATE SECONDS
       forge.py strays VICTIM PEER RATE SECONDS QPN

too-big: one ICMP message to VICTIM, "fragmentation needed" or "packet too big", about a datagram
that VICTIM is to have sent from port 4791 to PEER's.
idents: so many packets a second in PEER's name, to each of VICTIM's first processes, that are right
in everything that is no secret; of IPv4's identification they give an example of their own.
oddities: so many datagrams a second in PEER's name that no RNIC sends: fragments that overlap, are
tiny, or lack the rest; extension headers; nothing at all, headers cut short; and answers that would
stop a queue pair if they hit one: NAKs of each kind, the longest wait, congestion notifications.
strays: so many packets a second in PEER's name to a queue pair that has another peer.
"""
import argparse
import ipaddress
import random
import socket
import struct
import sys
import time
import zlib

PORT = 4791
UDP, ICMP, ICMPV6 = 17, 1, 58


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def packed(address):
    return ipaddress.ip_address(address).packed


def ip(src, dst, protocol, payload, ident=0, flags=0x4000):
    """An IP packet of either family. flags: IPv4's, with the fragment offset."""
    src, dst = packed(src), packed(dst)
    if len(src) == 16:
        return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + src + dst + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), ident, flags, 64, protocol, 0)
    head += src + dst
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def udp(sport, payload, dport=PORT):
    """Without a checksum, which IPv4 allows and weft allows with IPv6."""
    return struct.pack("!HHHH", sport, dport, 8 + len(payload), 0) + payload


ACK = 0x11


def bth(opcode, qpn, psn, ack=False):
    return struct.pack("!BBHII", opcode, 0, 0xffff, qpn, int(ack) << 31 | psn)


def roce(src, dst, sport, payload, ident=0):
    """A whole packet: payload is BTH and the rest, without the ICRC, which is computed."""
    whole = bytearray(ip(src, dst, UDP, udp(sport, payload + b"\0" * 4), ident))
    masked = bytearray(whole)
    at = 40 if ":" in src else 20
    if ":" in src:
        masked[0:4] = b"\x6f\xff\xff\xff"
        masked[7] = 0xff
    else:
        masked[1] = masked[8] = 0xff
        masked[10:12] = b"\xff\xff"
    masked[at + 6:at + 8] = b"\xff\xff"  # UDP checksum
    masked[at + 8 + 4] = 0xff
    crc = zlib.crc32(b"\xff" * 8 + bytes(masked[:-4]))
    whole[-4:] = struct.pack("<I", crc)
    return bytes(whole)


def raw_socket(address):
    """Takes whole IP packets, with whatever source address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return s


def send(s, dst, packet):
    s.sendto(packet, (dst, 0))


def own_address(dst):
    """From which this host would send to there."""
    family = socket.AF_INET6 if ":" in dst else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.connect((dst, PORT))
        return s.getsockname()[0]


def too_big(victim, peer, mtu):
    src = own_address(victim)
    quoted = ip(victim, peer, UDP, udp(PORT, b"\0" * 1000))
    if ":" in victim:
        body = struct.pack("!BBHI", 2, 0, 0, mtu) + quoted
        pseudo = packed(src) + packed(victim) + struct.pack("!II", len(body), ICMPV6)
        body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
        return ip(src, victim, ICMPV6, body)
    body = struct.pack("!BBHHH", 3, 4, 0, 0, mtu) + quoted[:28]
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    return ip(src, victim, ICMP, body)


def idents(victim, peer, rate, seconds, slots=8):
    """To every slot in turn, each at this rate."""
    s = raw_socket(victim)
    begun = time.monotonic()
    for n in range(int(rate * seconds)):
        for slot in range(slots):
            payload = bth(ACK, slot << 16 | random.getrandbits(16), random.getrandbits(24))
            send(s, victim, roce(peer, victim, 49152, payload + struct.pack("!I", 0x1f000000), 400))
        time.sleep(max(0, begun + n / rate - time.monotonic()))


def strays(victim, peer, rate, seconds, qpn):
    s = raw_socket(victim)
    begun = time.monotonic()
    for n in range(int(rate * seconds)):
        payload = bth(ACK, qpn, random.getrandbits(24)) + struct.pack("!I", 0x1f000000)
        send(s, victim, roce(peer, victim, 49152, payload, 400))
        time.sleep(max(0, begun + n / rate - time.monotonic()))


def fragments(src, dst, ident, payload, cuts):
    """cuts: (from, to, whether more follow) of the UDP datagram."""
    whole = udp(49152, payload)
    for at, end, more in cuts:
        if ":" in src:
            head = struct.pack("!BBHI", UDP, 0, at & ~7 | int(more), ident)
            yield ip(src, dst, 44, head + whole[at:end])
        else:
            yield ip(src, dst, UDP, whole[at:end], ident, at >> 3 | (0x2000 if more else 0))


def odd_fragments(src, dst, payload, ident):
    n = len(payload) + 8
    cuts = random.choice((
        [(0, 8, True)],                                     # tiny, and no more
        [(n & ~7, n, False)],                               # an end without a beginning
        [(0, 64, True), (32, 96, True), (64, n, False)],    # overlapping
        [(0, 64, True), (0, n, False)],                     # twice the beginning
        [(at, at + 8, at + 8 < n) for at in range(0, n, 8)],    # all of it, in tiny pieces
        [(0, n, False)],                                    # IPv6: atomic
        [(65528, 65536, True)],                             # beyond what a packet may be
    ))
    return fragments(src, dst, ident, payload, cuts)


def with_extension(src, dst, payload):
    """IPv6 only: options hop by hop or for the destination, or a route, before UDP."""
    kind = random.choice((0, 60, 43))
    body = bytes((UDP, 0)) + (b"\0\0\0\0\0\0" if kind == 43 else b"\1\4\0\0\0\0")
    return ip(src, dst, kind, body + udp(49152, payload))


def answer(qpn):
    """ACK, RNR NAK with the longest timer, each NAK, READ responses, CNP."""
    opcode = random.choice((ACK, ACK, ACK, 0x0d, 0x0f, 0x10, 0x12, 0x81))
    syndrome = random.choice((0x1f, 0x20, 0x3f, 0x60, 0x61, 0x62, 0x63, 0x64, 0x7f))
    body = struct.pack("!I", syndrome << 24) + random.randbytes(random.choice((0, 8, 16, 1024)))
    return bth(opcode, qpn, random.getrandbits(24)) + (body if opcode != 0x81 else bytes(16))


def oddities(victim, peer, rate, seconds, slots=8):
    s = raw_socket(victim)
    begun = time.monotonic()
    for n in range(int(rate * seconds)):
        qpn = random.randrange(slots) << 16 | random.getrandbits(16)
        what = random.randrange(5)
        if what == 0:
            packets = odd_fragments(peer, victim, answer(qpn) + bytes(200), 1 + n % 60000)
        elif what == 1 and ":" in victim:
            packets = [with_extension(peer, victim, answer(qpn))]
        elif what == 2:
            packets = [ip(peer, victim, UDP, udp(49152, answer(qpn)[:random.randrange(20)]), 1)]
        else:
            packets = [roce(peer, victim, random.choice((49152, PORT)), answer(qpn), random.getrandbits(16))]
        for p in packets:
            try:
                send(s, victim, p)
            except OSError:
                pass  # our own kernel does not let that out
        if n % 20 == 0:
            time.sleep(max(0, begun + n / rate - time.monotonic()))


def main():
    p = argparse.ArgumentParser()
    commands = p.add_subparsers(dest="command", required=True)
    c = commands.add_parser("too-big")
    c.add_argument("victim")
    c.add_argument("peer")
    c.add_argument("mtu", type=int)
    for name in ("idents", "oddities", "strays"):
        c = commands.add_parser(name)
        c.add_argument("victim")
        c.add_argument("peer")
        c.add_argument("rate", type=float)
        c.add_argument("seconds", type=float)
    c.add_argument("qpn", type=int)
    args = p.parse_args()
    if args.command == "too-big":
        send(raw_socket(args.victim), args.victim, too_big(args.victim, args.peer, args.mtu))
    elif args.command == "strays":
        strays(args.victim, args.peer, args.rate, args.seconds, args.qpn)
    else:
        flood = idents if args.command == "idents" else oddities
        flood(args.victim, args.peer, args.rate, args.seconds)


if __name__ == "__main__":
    sys.exit(main())
