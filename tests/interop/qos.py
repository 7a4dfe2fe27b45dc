#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""qos.py BUILD: what packets leave with: DSCP, priority, ECN and the class of notifications, by what a program says of
its queue pair and what the file of congestion control says of classes. nftables counts them at the sender and marks
some at the receiver.
"""
import json
import os
import re
import sys

import lab

PORT, DSCP, CLASS = 18515, 26, 26 << 2
COUNTERS = ("right", "wrong", "markable", "elsewhere", "by_level", "notices")


def rules(ip):
    """At the sender; ip: "ip" or "ip6"."""
    counters = "\n".join(f"\tcounter {name} {{ }}" for name in COUNTERS)
    return f"""
table inet qos {{
{counters}
	chain out {{
		type filter hook postrouting priority 0;
		udp dport 4791 {ip} dscp {DSCP} meta priority 0:3 counter name right
		udp dport 4791 {ip} dscp {DSCP} meta priority != 0:3 counter name wrong
		udp dport 4791 {ip} dscp {DSCP} {ip} ecn ect0 counter name markable
		udp dport 4791 {ip} dscp != {DSCP} {ip} ecn != not-ect counter name elsewhere
		udp dport 4791 {ip} dscp 0 meta priority 0:5 counter name by_level
		udp dport 4791 {ip} dscp 40 meta priority 0:5 counter name notices
	}}
}}
"""


MARKS = """
table netdev marks {
	chain before {
		type filter hook ingress device eth0 priority 0;
		udp dport 4791 ip ecn ect0 limit rate 100/second ip ecn set ce
	}
}
"""


class Bench:
    def __init__(self, weft, left, right):
        self.weft, self.left, self.right = weft, left, right

    def load(self, host, text):
        host.run("nft", "flush", "ruleset")
        r = host.run("nft", "-f", "-", input=text)
        if r.returncode:
            raise lab.Skip(f"nftables cannot count or mark here: {r.stderr.strip()}")

    def counted(self, host):
        return {name: int(re.search(r"packets (\d+)", host.run("nft", "list", "counter", "inet", "qos", name).stdout)[1])
                for name in COUNTERS}

    def devices(self, host, *before):
        r = host.run(*before, self.weft, "devices", "-v", "-o", "json", "weft_eth0")
        assert r.returncode == 0, r.stderr
        return json.loads(r.stdout)["devices"][0], r.stderr

    def index(self, host, address):
        """Of the address's GID."""
        gids = self.devices(host)[0]["ports"][0]["gids"]
        return next(g["index"] for g in gids if g["gid"] in (address, f"::ffff:{address}"))

    def transfer(self, path, v6, *options, file=os.devnull):
        """From left to right; what was counted at the sender."""
        env = {"WEFT_BROKER": self.weft, "WEFT_CC_FILE": file}
        argv = [self.weft, "run", "--", "ib_write_bw", "-F", "-s", 4096, "-n", 2000, *options]
        at = {h: self.index(h, h.address6 if v6 else h.address) for h in (self.left, self.right)}
        self.load(self.left, rules("ip6" if v6 else "ip"))
        s = lab.Program(self.right, [*argv, "-x", at[self.right]], os.path.join(path, "server"), env)
        assert lab.until(lambda: self.right.listens_on_tcp(PORT), 10), "the server does not listen"
        c = lab.Program(self.left, [*argv, "-x", at[self.left], self.right.address], os.path.join(path, "client"), env)
        assert c.wait(60) == 0 and s.wait(10) == 0, f"statuses {c.status()} and {s.status()}"
        return self.counted(self.left)


def main():
    lab.enter()
    lab.need("ib_write_bw", "nft")
    left, right = lab.lab(2)
    weft = os.path.realpath(os.path.join(sys.argv[1], "weft"))
    report = lab.Report(sys.argv[1], "qos")
    b = Bench(weft, left, right)

    def by_class(v6):
        def proof(path):
            n = b.transfer(path, v6, f"--tclass={CLASS | 2}")  # with a bit of ECN, which is not the program's
            assert n["right"] and not n["wrong"], f"DSCP {DSCP} has another priority than 3: {n}"
            assert not n["markable"] and not n["elsewhere"], f"packets can be marked: {n}"
            return f"{n['right']} packets"
        return proof

    def by_level(path):
        n = b.transfer(path, False, "-S", 5)
        assert n["by_level"] and not n["right"] + n["wrong"], f"service level 5: {n}"

    def written(path, text):
        name = os.path.join(path, "congestion.conf")
        with open(name, "w", encoding="ascii") as f:
            f.write(text)
        return name

    def by_file(path):
        file = written(path, f"dscp {DSCP} dcqcn\n")
        n = b.transfer(path, False, f"--tclass={CLASS}", file=file)
        assert n["right"] == n["markable"] and not n["wrong"], f"not all of the class can be marked: {n}"
        n = b.transfer(path, False, f"--tclass={10 << 2}", file=file)
        assert not n["markable"] and not n["elsewhere"], f"packets of another class can be marked: {n}"

    def notices(path):
        """Of the receiver, by its own file."""
        file = written(path, f"peer {left.address}/24 dcqcn,np_cnp_dscp=40\n")
        b.load(right, rules("ip") + MARKS)
        n = b.transfer(path, False, f"--tclass={CLASS}", file=file)
        there = b.counted(right)
        right.run("nft", "flush", "ruleset")
        assert n["markable"] and there["notices"], f"no notification of DSCP 40 and priority 5: {n}, {there}"
        return f"{there['notices']} notifications"

    def shown(path):
        file = written(path, f"device weft_lo none\ndscp {DSCP} dcqcn,rp_ai_rate=5\nwrong\ndevice weft_eth* none\n")
        found, log = b.devices(left, "env", f"WEFT_CC_FILE={file}")
        one, rest = found["packets"]["classes"]
        assert (one["for"], one["dscp"], one["ecn"], one["priority"], one["congestion_control"], one["said_by"],
                one["parameters"]["rp_ai_rate"], one["cnp_priority"]) == (
                    f"dscp {DSCP}", DSCP, "ECT(0)", 3, "dcqcn", f"{file}:2", 5, 6), one
        assert (rest["for"], rest["congestion_control"], rest["said_by"], rest["ecn"]) == (
            "device weft_eth*", "none", f"{file}:4", "not-ECT"), rest
        assert f"{file}:3: wrong is none of" in log, log
        found, log = b.devices(left, "env", f"WEFT_CC_FILE={file}", "WEFT_CC=dcqcn")
        only, = found["packets"]["classes"]
        assert only["said_by"] == "WEFT_CC" and only["congestion_control"] == "dcqcn" and not log, f"{only}, {log}"
        text = left.run("env", f"WEFT_CC_FILE={file}", weft, "devices", "-v", "weft_eth0").stdout
        assert re.search(r"congestion +: dcqcn,rp_ai_rate=5$", text, re.M), text
        assert "packets" not in left.run("env", "WEFT_DEVICES=iwarp", weft, "devices", "-v", "-o", "json").stdout.replace(
            "packets_by", ""), "a device of iWARP shows classes of RoCE"

    report.prove("a class has its priority, IPv4", by_class(False))
    report.prove("a class has its priority, IPv6", by_class(True))
    report.prove("a service level is the priority", by_level)
    report.prove("a class has its congestion control by the file", by_file)
    report.prove("notifications travel in their class", notices)
    report.prove("weft devices -v shows it", shown)
    report.everything_ends((left, right))
    report.finish()


main()
