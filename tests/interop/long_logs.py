#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A discovery service over TCP whose log is long, and that refers to itself by ever new names; and what asking costs.

usage: long_logs.py WEFT ADDRESS
"""
import os
import socket
import struct
import subprocess
import sys
import threading

PORT, RECORDS, NAMES, PAGE = 4429, 2048, 12, 1024
NQN = "nqn.2026-11.org.weft:long-{}"
CONNECT, PROPERTY_GET, IDENTIFY, GET_LOG = 1, 4, 6, 2
# CAP: 128 entries, 16 s until it is ready, NVM; VS; CSTS: ready, and shut down whenever that is asked.
PROPERTIES = {0x00: 127 | 32 << 24 | 1 << 37, 0x08: 0x10400, 0x1C: 9}
ICRESP = struct.pack("<BBBBIHBBI", 1, 0, 128, 0, 128, 0, 0, 0, 1 << 20).ljust(128, b"\0")


def field(text):
    return text if isinstance(text, bytes) else text.encode()


def entry(address, subtype, nqn):
    return (struct.pack("<BBBBHHH", 3, 1, subtype, 0, 1, 0xFFFF, 32).ljust(32, b"\0") + str(PORT).encode().ljust(224)
            + field(nqn).ljust(256, b"\0") + field(address).ljust(256) + bytes(256))


def log(address, number):
    """Of the name with that number: many of one subsystem, and then the next name."""
    last = (1, NQN.format(number + 1)) if number < NAMES else (2, NQN.format("disk"))
    return (struct.pack("<QQ", 1, RECORDS).ljust(PAGE, b"\0") + entry(address, 2, NQN.format("disk")) * (RECORDS - 1)
            + entry(address, *last))


def answer(sqe, page, model=b""):
    """The result, and data for the host."""
    if sqe[0] == IDENTIFY:
        data = bytearray(4096)
        data[24:64] = model.ljust(40)
        data[111] = 2  # a discovery controller
        return 0, bytes(data)
    if sqe[0] == GET_LOG:
        low, high, offset = struct.unpack("<IIQ", sqe[40:56])
        return 0, page[offset:offset + 4 * ((high & 0xFFFF) << 16 | low >> 16) + 4]
    if sqe[0] == 0x7F and sqe[4] == PROPERTY_GET:
        return PROPERTIES[sqe[44]], b""
    return 1 if sqe[0] == 0x7F and sqe[4] == CONNECT else 0, b""


def serve(connection, log_of, model):
    stream, page = connection.makefile("rb"), b""
    while len(head := stream.read(8)) == 8:
        body = stream.read(struct.unpack("<I", head[4:])[0] - 8)
        if head[0] == 0:
            connection.sendall(ICRESP)
            continue
        sqe, nqn = body[:64], body[64 + 256:64 + 512].rstrip(b"\0").decode()
        if nqn:
            page = log_of(int(nqn.rsplit("-", 1)[1]) if "long-" in nqn else 0)
        result, data = answer(sqe, page, model)
        out = b""
        if data:
            out = struct.pack("<BBBBI2sHII4x", 7, 4, 24, 24, 24 + len(data), sqe[2:4], 0, 0, len(data)) + data
        connection.sendall(out + struct.pack("<BBBBIQHH2sH", 5, 0, 24, 0, 24, result, 0, 0, sqe[2:4], 0))


def begin(address, log_of, model=b""):
    """A service whose log log_of() has, by the number in the name that it is asked by."""
    listener = socket.create_server((address, PORT))

    def accept():
        while True:
            connection = listener.accept()[0]
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(connection, log_of, model), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def main():
    weft, address = sys.argv[1:]
    begin(address, lambda number: log(address, number))
    peaks = []
    for first in (NAMES, 0):  # one service, then all that it leads to
        with subprocess.Popen([weft, "connect-all", "-t", "tcp", "-a", address, "-s", str(PORT), "-n",
                               NQN.format(first)], stdout=subprocess.PIPE, text=True) as p:
            found = p.stdout.read().split()
            _, status, used = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode or len(found) != 1 or not found[0].endswith(NQN.format("disk")):
            sys.exit(f"connect-all: {p.returncode}, {found}")
        peaks.append(used.ru_maxrss)
    print(f"KiB: {peaks[0]} for one, {peaks[1]} for {NAMES + 1}")
    # A log of 2048 records has some 1.7 MiB in memory.
    sys.exit(peaks[1] > peaks[0] + 10240)


if __name__ == "__main__":
    main()
