#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""kill -9 of either side in the middle of traffic: the other side is told, and nothing stays.

usage: killed.py BUILD HELPERS (one | veth) [--rounds N] [--seed N]

HELPERS is where the built test programs stand. After each kill: the survivor ends by itself in
bounded time, for `churn` with every work request back in error and a DISCONNECTED event; a new
pair connects at once, beside the old broker; and at the end no broker and no process is left.
"""
import argparse
import os
import random
import re
import time

import lab

PORT = 7471
TRAFFIC = 100           # datagrams of one side that show that data flow; to connect takes some 30
SURVIVOR_SECONDS = 20   # rdma_cm: 8 tries of 4.096 us x 2^17, 4.3 s; perftest then ends in order
CONNECT_SECONDS = 15    # far below a minute's timewait; some 0.1 s where nothing else is busy
SLOW_SECONDS = 3        # where it stands then is noted: a message that was lost costs more
BROKER_SECONDS = 15     # it lingers 5 s for who owes it an answer (broker.c), 10 for who may ask again


class Kind:
    """A pair of programs that talk until something happens. {port} is filled in, {dev} too."""

    def __init__(self, name, server, client, listening, talking, status=None):
        self.name = name
        self.server, self.client = server, client  # words after `weft run --`
        self.listening = listening  # text of the server's output, or None: it listens on TCP
        self.talking = talking      # text of the client's output
        self.status = status        # the survivor's exit status, None for any


def kinds(helpers, host):
    churn = [os.path.join(helpers, "churn")]
    perftest = "-F -f 0 -D 10 -s 65536 -p {port}".split()
    for how in ("disconnect", "retry"):
        yield Kind(f"churn, {how}", [*churn, "server", host, "{port}", how],
                   [*churn, "client", host, "{port}", how], "listening", "talking", 0)
    yield Kind("rping", ["rping", "-s", "-d", "-a", host, "-p", "{port}"],
               ["rping", "-c", "-v", "-a", host, "-p", "{port}"], "rdma_listen", "ping data")
    write = ["ib_write_bw", "-d", "{dev}", *perftest]
    # A client's table begins when it is connected. One that is killed before, between the two
    # connections that it makes with -R, leaves a server that waits for the second, on any RNIC.
    yield Kind("ib_write_bw", write, [*write, host], None, "#bytes")
    send = ["ib_send_bw", "-R", *perftest]
    # perftest looks at no CM event once it is connected: what ends a server that only receives is
    # that weft moves its queue pair to error.
    yield Kind("ib_send_bw -R", send, [*send, host], "Waiting for client to connect", "#bytes")


class Pair:
    """A kind's two programs, running."""

    def __init__(self, kind, hosts, weft, dev, port, path, label):
        words = lambda argv: [weft, "run", "--", "stdbuf", "-oL",
                              *(str(w).format(port=port, dev=dev) for w in argv)]
        self.client, self.fault = None, None
        self.server = lab.Program(hosts[0], words(kind.server), f"{path}/{label}-server.log")
        listening = (lambda: self.server.says(kind.listening)) if kind.listening else \
            (lambda: hosts[0].listens_on_tcp(port))
        lab.until(lambda: listening() or self.server.status() is not None, 10)
        if kind.listening:
            self.server.settle()  # the line may come just before the call
        begun = time.monotonic()
        self.client = lab.Program(hosts[1], words(kind.client), f"{path}/{label}-client.log")
        known = lambda: self.client.says(kind.talking) or self.client.status() is not None
        talks = lab.until(known, SLOW_SECONDS)
        if not talks:
            self.note_where(hosts, weft, f"{path}/{label}-stands.log")
            talks = lab.until(known, CONNECT_SECONDS - SLOW_SECONDS)
        self.seconds = time.monotonic() - begun
        ends = [self.server.status(), self.client.status()]
        if not talks or ends != [None, None]:
            self.fault = f"the {label} pair does not talk (ended: server {ends[0]}, client {ends[1]})"
            self.kill()

    @staticmethod
    def note_where(hosts, weft, log):
        with open(log, "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in lab.stands(hosts))
            f.writelines(h.run(weft, "list", "-v").stdout for h in dict.fromkeys(hosts))
        with open(log, encoding="utf-8") as f:
            print(f"slow: {log}:\n{f.read()}", flush=True)

    def kill(self):
        for p in (self.server, self.client):
            if p:
                p.kill()


def one_round(kind, hosts, weft, dev, port, path, victim_name, delay):
    """Returns (what is wrong or None, a note)."""
    for _ in range(lab.LATE_MAX):
        first = Pair(kind, hosts, weft, dev, port, path, "first")
        if not first.fault or not lab.refused_late(f"{path}/first-client.log"):
            break
    if first.fault:
        return first.fault, ""
    talked = hosts[1].datagrams()
    victim, survivor = first.server, first.client
    if victim_name == "client":
        victim, survivor = survivor, victim
    time.sleep(delay)
    if not lab.until(lambda: hosts[1].datagrams() - talked > TRAFFIC, CONNECT_SECONDS):
        first.kill()
        return f"only {hosts[1].datagrams() - talked} datagrams in {CONNECT_SECONDS} s: no data flow", ""
    victim.kill()
    killed = time.monotonic()
    try:
        # At once, while the survivor may still be retrying; a dead server's rdma_cm port is free.
        reuse = kind.listening and victim_name == "server"
        for _ in range(lab.LATE_MAX):
            second = Pair(kind, hosts, weft, dev, port if reuse else port + 1, path, "second")
            second.kill()
            if not second.fault or not lab.refused_late(f"{path}/second-client.log"):
                break
        if second.fault:
            return f"after the kill {second.fault}", ""
        status = survivor.wait(killed + SURVIVOR_SECONDS - time.monotonic())
        if status is None:
            return f"the survivor still runs {SURVIVOR_SECONDS} s after the {victim_name}'s death", ""
    finally:
        survivor.kill()
    if status < 0:  # of its own will one may leave with 255 (rping: -1)
        return f"the survivor died of a signal ({status})", ""
    if kind.status is not None and status != kind.status:
        return f"the survivor ended with {status}", ""
    return None, f"new pair talked after {second.seconds:.2f} s"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("where", choices=("one", "veth"))
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    lab.need("rping", "ib_write_bw", "ib_send_bw", "stdbuf")
    print(f"seed {args.seed}", flush=True)
    rng = random.Random(args.seed)
    hosts = lab.lab(1 if args.where == "one" else 2)
    dev = "weft_lo" if args.where == "one" else "weft_eth0"
    weft = os.path.abspath(os.path.join(args.build, "weft"))
    report = lab.Report(args.build, f"killed-{args.where}")
    for kind in kinds(os.path.abspath(args.helpers), hosts[0].address):
        for n in range(args.rounds):
            for victim in ("server", "client"):
                delay = rng.uniform(0, 1)
                name = f"{kind.name}: {victim} killed after {delay:.2f} s"
                if not re.search(args.only, name):
                    continue
                path = report.case(name)
                fault, note = one_round(kind, hosts, weft, dev, PORT, path, victim, delay)
                if n and args.where == "veth":  # that they end by themselves is seen by now
                    for h in hosts:
                        h.end_brokers()
                if not fault and not lab.until(
                        lambda: not any(h.has_broker() for h in hosts), BROKER_SECONDS):
                    fault = f"a broker is still there {BROKER_SECONDS} s after its last client"
                if fault:
                    report.fail(name, path, fault)
                else:
                    report.ok(name, path, note)
    report.everything_ends(hosts)
    report.finish()


main()
