#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""mtu.py BUILD: interfaces of different MTU at the two ends of a wire: the smaller one wins.

A veth pair loses what its other end's MTU does not allow, and says nothing, as Ethernet does. Each
pair of MTUs is tried with echo requests answered, ignored, and not permitted to the active side. How
many packets it took says what path MTU was used. A peer that answers nothing but the connection manager's
messages, as Linux does where echo requests are ignored, is asked for what every link carries.
"""
import os
import sys
import time

import lab

PINGS = 10
SIZE = 60000
PATH_MTU = {1500: 1024, 2500: 2048, 9000: 4096}


# Without the right to raw sockets, and ping sockets nobody has in a new network namespace.
UNPRIVILEGED = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", "--")


def rping(server, client, address, weft, path, prefix):
    env = {"WEFT_BROKER": weft}
    argv = [weft, "run", "--", "rping", "-a", address, "-C", PINGS, "-S", SIZE, "-v", "-V"]
    s = lab.Program(server, [*argv, "-s"], os.path.join(path, "server"), env)
    lab.until(server.has_broker, 10)
    s.settle()
    c = lab.Program(client, [*prefix, *argv, "-c"], os.path.join(path, "client"), env)
    c.wait(20)
    s.wait(10)
    for p in (c, s):
        p.kill()
    return c.output().count("ping data: "), s.output().count("ping data: ")


# The peer: with "forges" it answers a question as one does who has not seen it, but guessed its
# port and identifier, and has all of its length come back. It says what path MTU the first REQ asks for, and how often other datagrams had come before.
SILENT = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 4791))
s.settimeout(10)
print("ready", flush=True)
others = 0
while True:
    b, sender = s.recvfrom(10000)
    if len(b) == 280 and b[0] == 0x64 and b[36:38] == b"\\0\\x10":
        break
    others += 1
    if sys.argv[1] == "forges":
        s.sendto(bytes.fromhex("ffff7721") + b[4:12] + bytes(len(b) - 12), sender)
print(f"asked for {128 << (b[94] >> 4)} after {others} others", flush=True)
"""


def silent_peer(server, client, address, weft, path, env, forges=False):
    """What a peer is asked for that answers nothing, after how many other datagrams and how long."""
    lab.until(lambda: not server.has_broker() and not client.has_broker(), 10)
    s = lab.Program(server, [sys.executable, "-c", SILENT, "forges" if forges else ""],
                     os.path.join(path, "server"))
    lab.until(lambda: s.says("ready"), 10)
    # The broker and the neighbour are there when the time is taken.
    warm = lab.Program(client, [weft, "broker", "-f"], os.path.join(path, "broker"), env)
    lab.until(client.has_broker, 10)
    begun = time.monotonic()
    c = lab.Program(client, [weft, "run", "--", "rping", "-c", "-a", address, "-C", "1"],
                    os.path.join(path, "client"), {"WEFT_BROKER": weft, "WEFT_LOG": "info", **env})
    lab.until(lambda: s.says(" others"), 10, 0.005)
    seconds = time.monotonic() - begun
    told = c.output().count("WEFT_PATH_MTU=4096 says so")
    for p in (c, warm, s):
        p.kill()
    words = s.output().split()
    return (int(words[3]), int(words[5]), told, seconds) if len(words) > 5 else None


def packets(host):
    """Sent and received so far."""
    line = next(l for l in host.read("dev").splitlines() if "eth0:" in l)
    fields = line.split(":")[1].split()
    return int(fields[1]) + int(fields[9])


ECHO = "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)"


def ignore(host, echo):
    host.run("sysctl", "-qw", f"net.ipv4.icmp_echo_ignore_all={int(echo)}",
             f"net.ipv6.icmp.echo_ignore_all={int(echo)}")


def main():
    lab.enter()
    lab.need("rping", "ip", "sysctl", "setpriv")
    left, right = lab.lab(2)
    weft = os.path.realpath(os.path.join(sys.argv[1], "weft"))
    report = lab.Report(sys.argv[1], "mtu")
    for h in (left, right):
        h.ip("link", "set", "eth0", "gso_max_segs", "1")  # every packet counts
    left.run("sysctl", "-qw", "net.ipv4.ping_group_range=1 0")
    for echo in ("answered", "ignored", "not permitted"):
        ignore(right, echo == "ignored")
        prefix = UNPRIVILEGED if echo == "not permitted" else ()
        if prefix and left.run(*prefix, sys.executable, "-c", ECHO).returncode == 0:
            report.skip("echo requests not permitted", "setpriv does not take the right away")
            continue
        for client, server in ((9000, 9000), (9000, 1500), (9000, 2500), (1500, 9000)):
            left.ip("link", "set", "eth0", "mtu", str(client))
            right.ip("link", "set", "eth0", "mtu", str(server))
            for address in (right.address, right.address6):
                name = f"{client} to {server}, {address}, echo requests {echo}"
                path = report.case(name)
                before = packets(left)
                seen = rping(right, left, address, weft, path, prefix)
                used = packets(left) - before
                # A ping is a READ and a WRITE of SIZE, and some short packets.
                data = PINGS * 2 * -(-SIZE // PATH_MTU[min(client, server)])
                if seen == (PINGS, PINGS) and not data <= used <= data + PINGS * 40:
                    report.fail(name, path, f"{used} packets where {data} have data")
                elif seen == (PINGS, PINGS):
                    report.ok(name, path, f"{used} packets")
                else:
                    report.fail(name, path, f"client and server saw {seen} of {PINGS} pings")
    ignore(right, True)
    # (the interface, the setting, what must be asked for, whether questions may come before)
    for mtu, setting, wanted, asks in ((9000, "", 1024, True), (9000, "4096", 4096, False),
                                       (9000, "512", 512, False), (9000, "4711", 1024, True),
                                       (1500, "", 1024, False), (1500, "4096", 1024, False)):
        left.ip("link", "set", "eth0", "mtu", str(mtu))
        for address in (right.address, right.address6):
            name = f"{mtu} to a peer that answers nothing, {address}, WEFT_PATH_MTU={setting}"
            path = report.case(name)
            got = silent_peer(right, left, address, weft, path, {"WEFT_PATH_MTU": setting})
            if got is None:
                report.fail(name, path, "no REQ came")
                continue
            asked, others, told, seconds = got
            if asked != wanted or bool(others) != asks or told != asks:
                report.fail(name, path, f"asked for {asked} after {others} questions, told {told} times")
            elif seconds > 2:
                report.fail(name, path, f"asked for {asked} after {seconds:.1f} s")
            else:
                report.ok(name, path, f"asked for {asked} after {others} questions")
    left.ip("link", "set", "eth0", "mtu", "9000")
    for address in (right.address, right.address6):
        name = f"9000, and who has not seen the question answers it, {address}"
        path = report.case(name)
        got = silent_peer(right, left, address, weft, path, {}, True)
        if got is None or got[0] != 1024:
            report.fail(name, path, f"asked for {got and got[0]}")
        else:
            report.ok(name, path, f"asked for {got[0]} after {got[1]} questions")
    report.everything_ends((left, right))
    report.finish()


main()
