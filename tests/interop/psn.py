#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""psn.py BUILD: on the wire each side starts sending with the PSN that its peer's REQ or REP named.

Two sides that both got it the other way round agree with each other and with nobody else, so it
is the packets of an rping over loopback that are looked at.
"""
import os
import socket
import sys
import time

import lab

REQ, REP = 0x10, 0x13
UD_SEND_ONLY, RC_LAST = 100, 31


def rping(host, weft, sniffer):
    directory = os.path.join(sys.argv[1], "interop-logs", "psn")
    os.makedirs(directory, exist_ok=True)
    env = {"WEFT_BROKER": weft, "WEFT_PORT": "udp"}  # neighbours would go by memory
    programs = []
    for role in ("s", "c"):
        argv = [weft, "run", "--", "rping", f"-{role}", "-a", host.address, "-C", "3", "-v", "-V"]
        programs.append(lab.Program(host, argv, os.path.join(directory, role), env))
        time.sleep(0.5)
    packets = []
    sniffer.settimeout(0.2)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            packets.append(sniffer.recv(65536))
        except TimeoutError:
            if all(p.status() is not None for p in programs):
                break
    for p in programs:
        p.kill()
    return packets


def main():
    lab.enter()
    lab.need("rping")
    host, _ = lab.lab(1)
    weft = os.path.realpath(os.path.join(sys.argv[1], "weft"))
    sys.stdout.flush()
    with open(f"/proc/{host.holder.pid}/ns/net", encoding="ascii") as ns:
        if lab.libc.setns(ns.fileno(), 0):
            lab.skip("cannot join a namespace of one's own")
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    named, first = {}, {}
    for p in rping(host, weft, sniffer):
        if p[9] != 17 or p[22:24] != (4791).to_bytes(2, "big"):
            continue
        bth = p[28:]
        opcode, qpn = bth[0], int.from_bytes(bth[5:8], "big")
        psn = int.from_bytes(bth[9:12], "big")
        mad = bth[20:]
        if opcode == UD_SEND_ONLY and int.from_bytes(mad[16:18], "big") == REQ:
            named[int.from_bytes(mad[56:59], "big")] = int.from_bytes(mad[68:71], "big")
        elif opcode == UD_SEND_ONLY and int.from_bytes(mad[16:18], "big") == REP:
            named[int.from_bytes(mad[36:39], "big")] = int.from_bytes(mad[44:47], "big")
        elif opcode <= RC_LAST and not 13 <= opcode <= 18:
            first.setdefault(qpn, psn)
    print(f"named {named}, begun with {first}")
    if len(named) != 2 or first != named:
        print("FAIL: a side did not begin with the PSN that was named to it")
        sys.exit(1)
    host.holder.stdin.close()  # ends it


main()
