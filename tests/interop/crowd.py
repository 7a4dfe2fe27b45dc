#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Programs with threads and children, several on each of several hosts at once, of an ordinary user.

usage: crowd.py BUILD HELPERS

Where the tests run as root, everything here runs as nobody; otherwise as who runs them.
"""
import os
import sys
import time

import lab

PORT = 7800
NOBODY = 65534
PROCESSES, THREADS = 3, 4


def as_nobody():
    if os.geteuid() or os.environ.get("WEFT_CROWD_UID") == "own":
        return []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]


def owners(host, word):
    """Whose the processes with this word in their command line are, one entry each."""
    found = []
    for pid in host.pids():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if word.encode() in f.read().split(b"\0"):
                    found.append(os.stat(f"/proc/{pid}").st_uid)
        except OSError:
            pass
    return found


def crowds(report, weft, crowd):
    user = as_nobody()
    hosts = lab.lab(2)
    if user and hosts[0].run(*user, "test", "-x", weft).returncode:
        lab.skip("the build's directory is not open to nobody")
    name = f"{len(hosts)} hosts, {PROCESSES} processes of {THREADS} threads to and from each"
    path = report.case(name)
    fault = None
    # One shell for all of a host, under weft run: what it starts is under it too.
    servers = [lab.Program(h, [*user, weft, "run", "--", crowd, "serve", h.address, PORT],
                           f"{path}/server-{h.name}.log") for h in hosts]
    clients = []
    try:
        if not lab.until(lambda: all(s.says("listening") for s in servers), 20):
            fault = "the servers do not listen"
        else:
            for h in hosts:
                words = " & ".join(f"{crowd} connect {to.address} {PORT} {PROCESSES} {THREADS}"
                                   for to in hosts)
                script = f"{words} & wait"
                clients.append(lab.Program(h, [*user, weft, "run", "--", "sh", "-c", script],
                                           f"{path}/clients-{h.name}.log"))
            brokers = [owners(h, "broker") for h in hosts]
            wanted = [[NOBODY if user else os.geteuid()]] * 2
            if brokers != wanted:
                fault = f"brokers of {brokers} instead of {wanted}"
            ends = [c.wait(90) for c in clients]
            said = [c.output().count(f"0 of {PROCESSES} processes failed") for c in clients]
            if ends != [0, 0] or said != [2, 2]:
                fault = f"the shells ended with {ends}, {said} of 2 clients well on each"
            ended = [s.status() for s in servers]
            if ended != [None, None]:
                fault = f"a server has ended: {ended}"
    finally:
        for p in servers + clients:
            p.kill()
    if not fault and not lab.until(lambda: not any(h.has_broker() for h in hosts), 15):
        fault = "a broker stays"
    left = {line for h in hosts for line in h.close()}
    if not fault and left:
        fault = f"still running: {', '.join(sorted(left))}"
    if fault:
        report.fail(name, path, fault)
    else:
        report.ok(name, path, "as nobody" if user else "")


def busy(host, server):
    """Threads of the server's connections: its own two aside, its caller's and weft's."""
    pid = next(p for p in host.pids() if os.readlink(f"/proc/{p}/exe").endswith("/crowd"))
    return len(os.listdir(f"/proc/{pid}/task")) - 2 if server.status() is None else 0


def unfinished(report, weft, crowd):
    """The last word of a connection's beginning is lost, and who was to say it dies: the end of
    what was never quite there is told, too."""
    name, hosts = "who connects dies before the other end knows that it is up", lab.lab(2)
    path, (to, of) = report.case(name), hosts
    # The attribute of a management datagram behind the headers of UDP, BTH and DETH: an RTU.
    rules = ("add table inet t; add chain inet t in { type filter hook input priority 0; }; "
             "add rule inet t in udp dport 4791 @th,352,16 0x0014 drop")
    if to.run("nft", rules).returncode:
        report.skip(name, "nft cannot drop what it is to drop here")
        return
    server = lab.Program(to, [weft, "run", "--", crowd, "serve", to.address, PORT],
                         f"{path}/server.log")
    client = fault = None
    try:
        if not lab.until(lambda: server.says("listening"), 20):
            fault = "the server does not listen"
        else:
            client = lab.Program(of, [weft, "run", "--", crowd, "connect", to.address, PORT, 1, 1],
                                 f"{path}/client.log")
            if not lab.until(lambda: busy(to, server) == 1, 20):
                fault = "no connection is begun"
            else:
                time.sleep(0.5)  # it is up, as far as the client knows
                client.kill()
                if not lab.until(lambda: busy(to, server) == 0, 30):
                    fault = "the server's end of the connection stays"
    finally:
        for p in filter(None, (server, client)):
            p.kill()
        for h in hosts:
            h.close()
    if fault:
        report.fail(name, path, fault)
    else:
        report.ok(name, path)


def main():
    lab.enter()
    lab.need("setpriv", "sh")
    build, helpers = sys.argv[1:3]
    weft = os.path.abspath(os.path.join(build, "weft"))
    crowd = os.path.abspath(os.path.join(helpers, "crowd"))
    report = lab.Report(build, "crowd")
    crowds(report, weft, crowd)
    unfinished(report, weft, crowd)
    report.finish()


main()
