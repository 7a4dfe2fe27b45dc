#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""ecn.py BUILD: a network that marks what is too much for it, as a switch would (ECN).

nftables, before the receiver, marks packets beyond a rate. Who does DCQCN says that it answers to marks, is told of
them by notifications, and comes down to about that rate; who does not is not marked, and goes on.
"""
import json
import os
import re
import sys

import lab

LIMIT = 60  # MB/s
SECONDS = 4
RULES = f"""
table netdev marks {{
	chain before {{
		type filter hook ingress device eth0 priority 0;
		udp dport 4791 ip ecn ect0 limit rate over {LIMIT} mbytes/second burst 64 kbytes counter ip ecn set ce
	}}
}}
"""


def counters(host, weft):
    """Of the program that uses weft there: the core's, and the rates of its queue pairs."""
    seen = json.loads(host.run(weft, "stat", "-o", "json", "-a").stdout)
    for process in seen["processes"]:
        if process.get("queue_pairs"):
            return process["counters"]["core"], [q["rate"] for q in process["queue_pairs"]]
    return {}, []


def transfer(server, client, weft, path, cc):
    env = {"WEFT_BROKER": weft, "WEFT_CC": cc}
    argv = [weft, "run", "--", "ib_write_bw", "-D", SECONDS, "-F", "-s", 65536]
    s = lab.Program(server, argv, os.path.join(path, "server"), env)
    lab.until(lambda: server.listens_on_tcp(18515), 10)
    c = lab.Program(client, [*argv, server.address], os.path.join(path, "client"), env)
    told, rates = {}, []
    while c.wait(0.5) is None:
        now, at = counters(client, weft)
        there, _ = counters(server, weft)
        if now and there:
            told = {"ours": now, "theirs": there}
            rates += at
    assert c.status() == 0 and s.wait(10) == 0, f"statuses {c.status()} and {s.status()}"
    found = re.findall(r"^ *65536 +\d+ +[\d.]+ +([\d.]+)", c.output(), re.M)
    assert found and told, "no figures"
    return float(found[-1]) * 1.048576, told, rates


def main():
    lab.enter()
    lab.need("ib_write_bw", "nft")
    left, right = lab.lab(2)
    weft = os.path.realpath(os.path.join(sys.argv[1], "weft"))
    report = lab.Report(sys.argv[1], "ecn")
    rules = right.run("nft", "-f", "-", input=RULES)
    if rules.returncode:
        lab.skip(f"nftables cannot mark here: {rules.stderr.strip()}")

    def marked():
        return int(re.search(r"packets (\d+)", right.run("nft", "list", "ruleset").stdout)[1])

    def free(path):
        rate, told, rates = transfer(right, left, weft, path, "halving")
        assert marked() == 0, f"{marked()} packets were marked of one who would not answer"
        assert told["theirs"]["tx_cnp"] == 0 and not any(rates), f"{told}, rates {rates}"
        assert rate > 4 * LIMIT, f"{rate:.0f} MB/s: this machine is too slow for what comes now to mean anything"
        return f"{rate:.0f} MB/s"

    def held(path):
        rate, told, rates = transfer(right, left, weft, path, "dcqcn")
        ours, theirs = told["ours"], told["theirs"]
        assert marked() > 0, "nothing was marked"
        assert theirs["rx_ecn_marked"] > 0 and 0 < theirs["tx_cnp"] <= theirs["rx_ecn_marked"], f"the receiver: {theirs}"
        assert 0 < ours["rx_cnp"] <= theirs["tx_cnp"], f"the sender: {ours}"
        assert any(rates), "the sender never had a rate"
        assert LIMIT / 2 < rate < 2 * LIMIT, f"{rate:.1f} MB/s, where {LIMIT} are not marked"
        return f"{rate:.1f} MB/s of {LIMIT}, {theirs['rx_ecn_marked']} marked, {theirs['tx_cnp']} notifications"

    report.prove("who would not answer is not marked", free)
    report.prove("dcqcn comes down to what is not marked", held)
    report.everything_ends((left, right))
    report.finish()


main()
