#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""mtu.py BUILD: interfaces of different MTU at the two ends of a wire: the smaller one wins.

A veth pair loses what its other end's MTU does not allow, and says nothing, as Ethernet does. Each
pair of MTUs is tried with echo requests answered, where the active side finds out by itself, and
ignored, where the passive side's CM has to refuse. How many packets it took says what path MTU was used.
"""
import os
import sys

import lab

PINGS = 10
SIZE = 60000
PATH_MTU = {1500: 1024, 2500: 2048, 9000: 4096}


def rping(server, client, address, weft, path):
    env = {"WEFT_BROKER": weft}
    argv = [weft, "run", "--", "rping", "-a", address, "-C", PINGS, "-S", SIZE, "-v", "-V"]
    s = lab.Program(server, [*argv, "-s"], os.path.join(path, "server"), env)
    # Listening shows nowhere; a REQ too early is answered only after a moment, so this is enough.
    lab.until(server.has_broker, 10)
    c = lab.Program(client, [*argv, "-c"], os.path.join(path, "client"), env)
    c.wait(20)
    s.wait(10)
    for p in (c, s):
        p.kill()
    return c.output().count("ping data: "), s.output().count("ping data: ")


def packets(host):
    """Sent and received so far."""
    line = next(l for l in host.read("dev").splitlines() if "eth0:" in l)
    fields = line.split(":")[1].split()
    return int(fields[1]) + int(fields[9])


def main():
    lab.enter()
    lab.need("rping", "ip", "sysctl")
    left, right = lab.lab(2)
    weft = os.path.realpath(os.path.join(sys.argv[1], "weft"))
    report = lab.Report(sys.argv[1], "mtu")
    for h in (left, right):
        h.ip("link", "set", "eth0", "gso_max_segs", "1")  # every packet counts
    for ignored in (0, 1):
        right.run("sysctl", "-qw", f"net.ipv4.icmp_echo_ignore_all={ignored}",
                  f"net.ipv6.icmp.echo_ignore_all={ignored}")
        for client, server in ((9000, 9000), (9000, 1500), (9000, 2500), (1500, 9000)):
            left.ip("link", "set", "eth0", "mtu", str(client))
            right.ip("link", "set", "eth0", "mtu", str(server))
            for address in (right.address, right.address6):
                name = (f"{client} to {server}, {address}, "
                        f"echo requests {'ignored' if ignored else 'answered'}")
                path = report.case(name)
                before = packets(left)
                seen = rping(right, left, address, weft, path)
                used = packets(left) - before
                # A ping is a READ and a WRITE of SIZE, and some short packets.
                data = PINGS * 2 * -(-SIZE // PATH_MTU[min(client, server)])
                if seen == (PINGS, PINGS) and not data <= used <= data + PINGS * 25:
                    report.fail(name, path, f"{used} packets where {data} have data")
                elif seen == (PINGS, PINGS):
                    report.ok(name, path, f"{used} packets")
                else:
                    report.fail(name, path, f"client and server saw {seen} of {PINGS} pings")
    for h in (left, right):
        h.close()
    report.finish()


main()
