#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""doctor.py BUILD: weft doctor between two hosts that are well, and then made ill in one way at a time: each ill is found
by its name, and nothing else is accused.

What belongs to the machine, such as its clock, may be as it is: of that only what a case changes counts.
"""
import json
import os
import sys

import lab

WELL, LOOK_FAILED, USAGE, WARNINGS, ERRORS = 0, 1, 2, 3, 4
# Nobody but the machine itself is to blame for these.
MACHINES = {"clock", "governor", "c-states", "softnet", "nvme", "rmem", "udp-drops", "peer-rmem"}
TABLE = "table {0} ill {{\n\tchain c {{\n\t\ttype filter hook {1};{3}\n\t\t{2}\n\t}}\n}}\n"
INPUT, INGRESS = "input priority 0", "ingress device eth0 priority 0"


class Bench:
    def __init__(self, weft, left, right):
        self.weft, self.left, self.right = weft, left, right

    def look(self, host, *words, before=()):
        """What is wrong, by check, as it is told: without the machine's own, and with it; and all findings."""
        r = host.run(*before, self.weft, "doctor", "-o", "json", *words)
        assert r.returncode in (WELL, WARNINGS, ERRORS), f"status {r.returncode}: {r.stderr}"
        assert not r.stderr, r.stderr
        seen = json.loads(r.stdout)
        graver = any(f["severity"] == "error" for f in seen["findings"])
        bad = {}
        for f in seen["findings"]:
            assert f["seen"] and f["why"] and f["source"], f"says too little: {f}"
            if f["severity"] in ("warning", "error"):
                assert f["mend"], f"nothing to do: {f}"
                bad[f["check"]] = f"{bad.get(f['check'], '')}{f['seen']} | {f['mend']}; "
        assert r.returncode == (ERRORS if graver else WARNINGS if bad else WELL), f"status {r.returncode} of {list(bad)}"
        return {name: f for name, f in bad.items() if name not in MACHINES}, bad, seen["findings"]

    def well(self, host, *words):
        bad, _, findings = self.look(host, *words)
        assert not bad, bad
        return findings

    def ill(self, host, names, *words, says="", before=()):
        """Those checks find something, and no others."""
        bad, every, _ = self.look(host, *words, before=before)
        names = {names} if isinstance(names, str) else set(names)
        bad |= {n: every[n] for n in names & set(every)}
        assert set(bad) == names, f"found {bad}, not {names}"
        text = "".join(bad.values())
        assert says in text, f"not '{says}' in: {text}"
        return text.split(" | ", maxsplit=1)[0]

    def typed(self, host, check):
        """What a check says is to be typed is."""
        _, _, findings = self.look(host)
        line, = (f["mend"] for f in findings if f["check"] == check)
        r = host.run("sh", "-c", line.removeprefix("sudo "))
        assert r.returncode == 0, f"{line}: {r.stderr}"

    def rules(self, host, text):
        host.run("nft", "flush", "ruleset")
        if text:
            r = host.run("nft", "-f", "-", input=text)
            if r.returncode:
                raise lab.Skip(f"nftables cannot do that here: {r.stderr.strip()}")

    def broker(self, path, host):
        p = lab.Program(host, [self.weft, "broker", "-f"], os.path.join(path, f"{host.name}-broker"))
        assert lab.until(host.has_broker, 10), p.output()
        return p


def mtu(host, n, dev="eth0"):
    host.ip("link", "set", dev, "mtu", str(n))


def cases(b):
    left, right = b.left, b.right
    peer = ("--peer", right.address)

    def healthy(_):
        for host in (left, right):
            b.well(host)
        # That of containers that do not run.
        left.ip("link", "add", "docker0", "type", "bridge")
        left.ip("addr", "add", "172.17.0.1/16", "dev", "docker0")
        left.ip("link", "add", "veth0", "type", "veth", "peer", "name", "container0")
        left.ip("link", "set", "veth0", "master", "docker0", "up")
        left.ip("link", "set", "docker0", "up")
        b.well(left)
        b.ill(left, "link", "docker0", says="no carrier")
        left.ip("link", "del", "veth0")
        left.ip("link", "del", "docker0")
        for address in (right.address, right.address6):
            for n in (1500, 9000):
                mtu(left, n)
                mtu(right, n)
                findings = b.well(left, "--peer", address)
                checks = {f["check"] for f in findings if f["severity"] == "ok" and f["object"] == address}
                assert {"peer", "path-mtu", "dscp-path", "ecn-path"} <= checks, f"to {address}: only {checks}"
        return f"{len(findings)} findings"

    def jumbo_here(_):
        mtu(right, 1500)
        mtu(left, 9000)
        return b.ill(left, "path-mtu", *peer, says="1500")

    def jumbo_there(_):
        mtu(right, 9000)
        mtu(left, 1500)
        return b.ill(left, "path-mtu", *peer, says="9000")

    def odd_mtu(_):
        mtu(left, 4096)
        return b.ill(left, "mtu", says="4200")

    def dropped(_):
        b.rules(right, TABLE.format("inet", INPUT, "udp dport 4791 drop", ""))
        b.ill(right, "firewall", says="udp dport 4791 drop")
        return b.ill(left, "peer", *peer, says="echo requests")

    def rejected(_):
        b.rules(right, TABLE.format("inet", INPUT, "udp dport 4791 reject", ""))
        b.ill(right, "firewall", says="reject")
        return b.ill(left, "peer", *peer)

    def closed(_):
        b.rules(right, TABLE.format("inet", INPUT, "icmp type echo-request accept", " policy drop;"))
        b.ill(left, "peer", *peer)
        return b.ill(right, "firewall", says="udp dport 4791 accept")

    def closed_by_a_rule(_):
        b.rules(right, TABLE.format("inet", INPUT, "icmp type echo-request accept\n\t\tdrop", ""))
        b.ill(left, "peer", *peer)
        seen = b.ill(right, "firewall", says="nft insert rule inet ill c")
        b.typed(right, "firewall")
        b.well(right)
        b.well(left, *peer)
        return seen

    def closed_to_ipv6(_):
        b.rules(right, TABLE.format("ip6", INPUT, "udp dport 53 accept", " policy drop;"))
        b.well(left, *peer)
        return b.ill(right, "firewall", says="over IPv6")

    def dropped_elsewhere(_):
        for family, hook, rule in (("inet", INPUT, 'iifname "wan0" udp dport 4791 drop'),
                                   ("inet", INPUT, "ip saddr 192.0.2.0/24 udp dport 4791 drop"),
                                   ("inet", INPUT, "tcp dport 22 ip dscp set cs2"),
                                   ("bridge", INPUT, "udp dport 4790 accept\n\t\tdrop")):
            b.rules(right, TABLE.format(family, hook, rule, ""))
            b.well(right)
            b.well(left, *peer)

    def open_all_the_same(_):
        b.rules(right, TABLE.format("inet", INPUT, "udp dport 4791 accept", " policy drop;"))
        b.well(right)
        b.well(left, *peer)

    def stripped(where, rule, check, says):
        def work(_):
            b.rules(where, TABLE.format("netdev", INGRESS, rule, ""))
            if where is right:
                b.ill(right, "mark-rules")
                return b.ill(left, check, *peer, says=says)
            return b.ill(left, {check, "mark-rules"}, *peer, says=says)
        return work

    def offload(option):
        def work(_):
            r = left.run("ethtool", "-K", "eth0", option, "off")
            if r.returncode:
                raise lab.Skip(r.stderr.strip())
            try:
                return b.ill(left, "offloads", says=f"{option} on")
            finally:
                left.run("ethtool", "-K", "eth0", option, "on")
        return work

    def down(_):
        left.ip("link", "add", "spare", "type", "veth", "peer", "name", "other")
        try:
            b.well(left)  # nobody uses it
            return b.ill(left, "link", "spare", says="ip link set dev spare up")
        finally:
            left.ip("link", "del", "spare")

    def unprivileged(_):
        user = lab.ordinary_user()
        if not user:
            raise lab.Skip("no other user here")
        bad, _, findings = b.look(left, *peer, before=user)
        firewall = [f["severity"] for f in findings if f["check"] == "firewall"]
        assert not bad and firewall == ["unknown"], f"{bad}, firewall {firewall}"

    def wrong_words(_):
        for words, status in ((["nothing0"], LOOK_FAILED), (["--peer", "no.such.host.invalid"], LOOK_FAILED),
                              (["--all", "eth0"], USAGE), (["-o", "binary"], USAGE)):
            r = left.run(b.weft, "doctor", *words)
            assert r.returncode == status and r.stderr, f"{words}: {r.returncode}, {r.stderr}"
        for words in ([], ["-v"], ["weft_eth0"], ["--all"]):
            r = left.run(b.weft, "doctor", *words)
            assert r.returncode in (WELL, WARNINGS, ERRORS) and " checks: " in r.stdout, f"{words}: {r.stdout}"

    def small_buffers(path):
        tiny = os.path.join(path, "tiny")
        with open(tiny, "w", encoding="ascii") as f:
            f.write("65536\n")
        return b.ill(left, "rmem", says="65536", before=mounted(tiny, "/proc/sys/net/core/rmem_max"))

    def rxe(path):
        device = os.path.join(path, "sys/class/infiniband/rxe0")
        os.makedirs(device)
        for name, text in (("parent", "eth0"), ("node_type", "1: CA")):
            with open(os.path.join(device, name), "w", encoding="ascii") as f:
                f.write(text + "\n")
        # A device without a port is one more thing that is told of it, and its GIDs.
        return b.ill(left, "rxe", says="rdma link delete rxe0", before=mounted(os.path.join(path, "sys"), "/sys"))

    yield "two hosts that are well", healthy
    yield "jumbo frames here alone", jumbo_here
    yield "jumbo frames there alone", jumbo_there
    yield "an MTU without room for headers", odd_mtu
    yield "a rule drops port 4791", dropped
    yield "a rule rejects port 4791", rejected
    yield "a policy drops port 4791", closed
    yield "a last rule drops port 4791, and the line to type mends it", closed_by_a_rule
    yield "a policy drops IPv6 alone", closed_to_ipv6
    yield "rules for others", dropped_elsewhere
    yield "a policy drops all but port 4791", open_all_the_same
    yield "ECN is taken away there", stripped(right, "udp dport 4791 ip ecn set not-ect", "ecn-path", "arrives there as Not-ECT")
    yield "ECN is taken away here", stripped(left, "udp sport 4791 ip ecn set not-ect", "ecn-path", "arrives here as Not-ECT")
    yield "marks are taken away", stripped(right, "udp dport 4791 ip ecn ce ip ecn set ect0", "ecn-path", "CE arrives there as ECT(0)")
    yield "DSCP is taken away", stripped(right, "udp dport 4791 ip dscp set 0", "dscp-path", "DSCP 26 arrives there as 0")
    yield "segmentation is off", offload("gso")
    yield "segmentation of UDP is off", offload("tx-udp-segmentation")
    yield "segmentation lacks what it needs", offload("sg")
    yield "an interface is down", down
    yield "small buffers", small_buffers
    yield "rxe on the interface", rxe
    yield "an ordinary user", unprivileged
    yield "words that are wrong, and forms", wrong_words


def mounted(what, where):
    """What, put before a program, has it see that there."""
    return ["unshare", "--mount", "sh", "-c", f"mount --bind '{what}' '{where}' && exec \"$@\"", "sh"]


def in_the_middle(b, path):
    """A bridge whose ports take less than the hosts do, as a switch without jumbo frames."""
    middle = lab.Host("middle", "", "")
    try:
        middle.ip("link", "add", "br0", "type", "bridge")
        for host, port, number in ((b.left, "to-left", 1), (b.right, "to-right", 2)):
            middle.ip("link", "add", port, "type", "veth", "peer", "name", "eth1", "netns", str(host.holder.pid))
            mtu(middle, 1500, port)
            middle.ip("link", "set", port, "master", "br0", "up")
            host.ip("addr", "add", f"10.78.0.{number}/24", "dev", "eth1")
            mtu(host, 9000, "eth1")
            host.ip("link", "set", "eth1", "up")
        middle.ip("link", "set", "br0", "up")
        assert lab.until(lambda: "state UP" in middle.run("ip", "link", "show", "br0").stdout, 10), "no bridge"
        return b.ill(b.left, "path-mtu", "--peer", "10.78.0.2", says="9000")
    finally:
        middle.close()


def nobody_there(b, path):
    """No broker; then another program that has the port."""
    b.ill(b.left, "peer", "--peer", b.right.address, says="weft broker -f")
    other = lab.Program(b.right, [sys.executable, "-c", "import socket, time\ns = socket.socket(socket.AF_INET, "
                                  "socket.SOCK_DGRAM)\ns.bind(('', 4791))\nprint('bound', flush=True)\ntime.sleep(60)"],
                        os.path.join(path, "other"))
    try:
        assert lab.until(lambda: other.says("bound"), 10), other.output()
        b.ill(b.left, "peer", "--peer", b.right.address, says="echo requests")
        return b.ill(b.right, "port-4791", says="ss -ulnp")
    finally:
        other.kill()


def main():
    lab.enter()
    lab.need("nft", "ethtool")
    left, right = lab.lab(2)
    report = lab.Report(sys.argv[1], "doctor")
    b = Bench(os.path.realpath(os.path.join(sys.argv[1], "weft")), left, right)

    def with_broker(work):
        def proof(path):
            broker = b.broker(path, right)
            try:
                return work(path)
            finally:
                for host in (left, right):
                    b.rules(host, "")
                    mtu(host, 1500)
                broker.process.terminate()
                broker.wait(10)
                broker.kill()
        return proof

    for name, work in cases(b):
        report.prove(name, with_broker(work))
    report.prove("a switch without jumbo frames", with_broker(lambda path: in_the_middle(b, path)))
    report.prove("nobody there, or another", lambda path: nobody_there(b, path))
    report.everything_ends((left, right))
    report.finish()


main()
