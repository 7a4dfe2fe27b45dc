#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A discovery service over TCP that says what it should not, and what a host makes of it.

usage: hostile_discovery.py WEFT ADDRESS text|many
"""
import json
import signal
import struct
import subprocess
import sys
import time

from long_logs import NQN, PAGE, PORT, begin, entry

# Control characters of one byte and of two (CSI, OSC), some for the direction of text, and no UTF-8.
STEERING = b"\x1b[31m \xc2\x9b31m \xc2\x9d0;title\xc2\x9c \xe2\x80\xae \xc0\x9b \xff\xfe"
FINE = "\u00e4\u20ac".encode()


def log(*entries):
    return struct.pack("<QQ", 1, len(entries)).ljust(PAGE, b"\0") + b"".join(entries)


def plain(verb, fmt, out):
    """That it neither steers a terminal nor is anything but UTF-8."""
    text = out.decode()
    if bad := [c for c in text if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or c == "\u202e")]:
        sys.exit(f"{verb} -o {fmt}: {bad} in {text}")
    if fmt == "json":
        json.loads(text)
    return text


def text(weft, address):
    """What it says is shown: by each verb that shows some of it, for people and as JSON."""
    said = NQN.format("").encode() + FINE + STEERING
    records = log(entry(address, 2, said), entry(STEERING, 2, said), entry(STEERING, 1, said))
    begin(address, lambda number: records, FINE + STEERING[:20])
    for verb in ("discover", "connect-all", "id-ctrl"):
        at = ["nvme+tcp://" + address + f":{PORT}/" + NQN.format(0)] if verb == "id-ctrl" else [
            "-t", "tcp", "-a", address, "-s", str(PORT)]
        for fmt in ("normal", "json"):
            r = subprocess.run([weft, verb, *at, "-o", fmt], capture_output=True, check=False, timeout=30)
            shown = plain(verb, fmt, r.stdout)
            plain(verb, "normal", r.stderr)
            if verb != "connect-all" and FINE.decode() not in shown:
                sys.exit(f"{verb} -o {fmt} shows no {FINE.decode()}: {shown}{r.stderr}")


FOUND_MAX = 65536  # that connect-all lists; as many as a log may have records


def connect_all(weft, address, number):
    return subprocess.Popen([weft, "connect-all", "-t", "tcp", "-a", address, "-s", str(PORT), "-n", NQN.format(number)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def many(weft, address):
    """More subsystems than are listed: that is said once, and an interrupt is heard."""
    subsystems = [entry(address, 2, NQN.format(i)) for i in range(FOUND_MAX + 3)]
    logs = {1: log(*subsystems[:FOUND_MAX - 1], entry(address, 1, NQN.format(2))),  # and of the second the first is new
            2: log(subsystems[0], *subsystems[FOUND_MAX - 1:])}
    begin(address, logs.get)
    with connect_all(weft, address, 1) as p:
        out, err = p.communicate(timeout=100)
    found = out.split()
    if p.returncode != 1 or len(found) != FOUND_MAX or len(set(found)) != FOUND_MAX or err != (
            f"weft: there are more than {FOUND_MAX} subsystems: the others are not listed\n"):
        sys.exit(f"connect-all: {p.returncode}, {len(found)} found, {err[:200]} and {len(err)} bytes")
    with connect_all(weft, address, 1) as p:
        p.stdout.readline()  # it is at them
        p.send_signal(signal.SIGINT)
        begun = time.monotonic()
        err = p.communicate(timeout=100)[1]
    if p.returncode != 130 or err != "weft: interrupted\n" or time.monotonic() > begun + 2:
        sys.exit(f"interrupted: {p.returncode}, {err[:200]}, after {time.monotonic() - begun:.1f} s")


CASES = (text, many)


def main():
    weft, address, case = sys.argv[1:]
    dict((c.__name__, c) for c in CASES)[case](weft, address)


if __name__ == "__main__":
    main()
