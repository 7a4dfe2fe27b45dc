# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A narrow place between two hosts: three network namespaces, and between the outer two `narrow` (narrow.c), which has a rate, a
queue, a delay and losses in each direction. Packets go singly."""
import contextlib
import json
import os
import re
import tempfile
import time
from collections import namedtuple

from bed import Failed, lab

LEFT, RIGHT = "10.78.0.1", "10.78.0.2"
PORT = 21000
LEAST_QUEUE = 20  # KB
TRIES = 3
TCP_HEADERS = 52  # bytes, with timestamps

# rate: Mbit/s; rtt: ms without the queue; loss: of a hundred packets; queue, mark: KB, 0: of a round trip, none
Way = namedtuple("Way", "rate rtt loss queue mark", defaults=[0, 0, 0])


def mtu(way):
    """Bytes. Fast ones have large frames, which a program in the middle can pass on."""
    return 9000 if way.rate >= 1000 else 1500


def fairness(rates):
    """Jain's index: 1 where all have the same."""
    squares = sum(r * r for r in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0


class Place:
    def __init__(self, build):
        self.weft = os.path.abspath(os.path.join(build, "weft"))
        self.narrow = os.path.abspath(os.path.join(build, "bench", "narrow"))
        self.ends = contextlib.ExitStack()
        self.scratch = self.ends.enter_context(tempfile.TemporaryDirectory())
        self.left, self.right, self.wire = hosts = lab.Host("left", LEFT, ""), lab.Host("right", RIGHT, ""), lab.Host("wire", "", "")
        for host in hosts:
            self.ends.callback(host.close)
        self.wire.ip("link", "set", "lo", "up")
        for host, end in ((self.left, "to-left"), (self.right, "to-right")):
            self.wire.ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", str(host.holder.pid))
            self.wire.ip("link", "set", end, "up")
            host.ip("addr", "add", f"{host.address}/24", "dev", "eth0")
            host.ip("link", "set", "eth0", "up", "gso_max_segs", "1")

    def close(self):
        self.ends.close()

    def log(self, name):
        return os.path.join(self.scratch, name)

    def through(self, way, work):
        """What work() gives, in Mbit/s of each flow and in packets of a hundred that were sent again, and what the place says of
        the way from left to right."""
        for host, end in ((self.wire, "to-left"), (self.wire, "to-right"), (self.left, "eth0"), (self.right, "eth0")):
            host.ip("link", "set", end, "mtu", str(mtu(way)))
        queue = way.queue or max(way.rate * way.rtt / 8, LEAST_QUEUE)
        n = lab.Program(self.wire, [self.narrow, "to-left", "to-right", "rate", int(way.rate), "delay", int(way.rtt * 500), "queue",
                                    int(queue), "mark", int(way.mark), "loss", int(way.loss * 10000)], self.log("narrow"))
        try:
            if not lab.until(lambda: n.says("ready") or n.status() is not None, 5) or n.status() is not None:
                raise Failed(f"narrow: {n.output()}")
            rates, again = work()
        finally:
            n.process.terminate()
            n.wait(20)
        words = next((l for l in n.output().splitlines() if l.startswith("to-left to-right")), "").split()
        if not words:
            raise Failed(f"narrow says nothing at its end: {n.output()[-300:]}")
        seen = dict(zip(words[2::2], map(int, words[3::2])))
        return {"share": sum(rates) / way.rate, "fairness": fairness(rates), "delay, ms": seen["mean_delay_us"] / 1000,
                "most, ms": seen["max_delay_us"] / 1000, "overflowed": seen["overflowed"], "again, %": again, "rates": rates}

    def flows(self, count, seconds, server, client, env=None, late=lambda: None, from_left=True):
        """What the clients of so many pairs say that run side by side, and what late() gives shortly before their end. Clients are
        on the left, or on the right."""
        there, here = (self.right, self.left) if from_left else (self.left, self.right)
        programs = []
        try:
            for i in range(count):
                programs.append(lab.Program(there, server(i), self.log(f"server{i}"), env))
            for s in list(programs):
                s.settle(0.3)
            clients = [lab.Program(here, client(i), self.log(f"client{i}"), env) for i in range(count)]
            programs += clients
            time.sleep(max(seconds - 0.5, 0))
            seen = late()
            for c in clients:
                c.wait(seconds + 20)
            return [c.output() for c in clients], seen
        finally:
            for p in programs:
                p.kill()

    def sent_again(self, host):
        """Of weft's packets there."""
        r = host.run(self.weft, "stat", "-o", "json", timeout=30)
        try:
            qps = [q for p in json.loads(r.stdout)["processes"] for q in p["queue_pairs"]]
            return 100 * sum(q["tx_retransmit"] for q in qps) / max(sum(q["tx_packets"] for q in qps), 1)
        except (KeyError, ValueError):
            raise Failed(f"weft stat: {r.stderr or r.stdout[:300]}") from None

    def by_weft(self, way, count, seconds, cc="", recovery="selective", verb="write"):
        """Payload goes from left to right: who READs is on the right, and what is sent again are requests then."""
        writes = verb == "write"
        env = {"WEFT_BROKER": self.weft, "WEFT_CC": cc, "WEFT_RECOVERY": recovery, "WEFT_PORT": "udp"}
        command = [self.weft, "run", "--", f"ib_{verb}_bw", "-R", "-F", "-D", seconds, "-s", 65536]

        def rate(text):
            found = re.findall(r"^ *65536 +\d+ +[\d.]+ +([\d.]+)", text, re.M)
            if not found:
                raise Failed(f"ib_{verb}_bw by weft: {text[-300:]}")
            return float(found[-1]) * 1.048576 * 8

        def work():
            said, again = self.flows(count, seconds, lambda i: [*command, "-p", PORT + i],
                                     lambda i: [*command, "-p", PORT + i, RIGHT if writes else LEFT], env,
                                     lambda: self.sent_again(self.left if writes else self.right), writes)
            return [rate(text) for text in said], again

        # One whose first packets were lost begins seconds later, when the others have ended: that is no share of anything.
        for _ in range(TRIES):
            got = self.through(way, work)
            if sum(got["rates"]) <= way.rate:
                return got
        raise Failed(f"{TRIES} times, {count} connections did not all run at once")

    def by_tcp(self, way, count, seconds, cc):
        def ends(text):
            try:
                end = json.loads(text)["end"]
                return end["sum_received"]["bits_per_second"] / 1e6, end["sum_sent"]["retransmits"], end["sum_sent"]["bytes"]
            except (KeyError, ValueError):
                raise Failed(f"iperf3 by {cc}: {text[-300:]}") from None

        def work():
            said, _ = self.flows(count, seconds, lambda i: ["iperf3", "-s", "-1", "-p", PORT + i],
                                 lambda i: ["iperf3", "-c", RIGHT, "-p", PORT + i, "-t", seconds, "-C", cc, "-J"])
            rates, again, sent = zip(*map(ends, said))
            return rates, 100 * sum(again) * (mtu(way) - TCP_HEADERS) / max(sum(sent), 1)

        return self.through(way, work)
