#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""xdp.py BUILD: WEFT_PORT=xdp between two hosts: at one end, at both, and where it cannot be.

perftest runs unmodified; how many datagrams the kernel's stack has sent and received meanwhile says which
way the packets went. What XDP sends is also wireshark's to judge.
"""
import os
import re
import shutil
import signal
import subprocess
import sys

import lab

PAST = "packets go past the kernel's stack"
# How many datagrams pass through the stack of an end with XDP, at most: connection management, and
# what is sent before a neighbour is known.
FEW = 60
PERFTEST = {  # how many datagrams each costs at an end without: super-packets of up to 64 packets
    "ib_send_bw -s 65536 -n 500": 400,
    "ib_write_bw -s 65536 -n 500": 400,
    "ib_read_lat -s 8 -n 500": 400,
    "ib_send_lat -s 1024 -n 300": 250,
    "ib_send_lat -c UD -s 1024 -n 300": 250,
    "ib_atomic_bw -n 300": 20,
    "ib_write_bw -s 65536 -n 500 -R": 400,
}
TAKEN_AWAY = ("net_raw", "bpf", "net_admin")


def stack(host):
    """Datagrams that the stack of a host has sent and received so far, whatever the address family."""
    v4 = host.read("snmp").split("Udp:")[2].split()
    v6 = dict(line.split() for line in host.read("snmp6").splitlines())
    return int(v4[0]) + int(v4[3]) + int(v6["Udp6InDatagrams"]) + int(v6["Udp6OutDatagrams"])


class Pair:
    """A program at each of two hosts."""

    def __init__(self, weft, hosts):
        self.weft, self.hosts = weft, hosts

    def start(self, host, command, log, port, prefix=(), **env):
        argv = [*prefix, self.weft, "run", "--", *command.split()]
        return lab.Program(host, argv, log, {"WEFT_BROKER": self.weft, "WEFT_LOG": "info",
                                             "WEFT_PORT": port, **env})

    def run(self, path, server, client, ports, prefix=(), **env):
        """Both to their ends, the server on the right. Returns (server's, client's) output, and what
        the stacks had to do with it, in the same order."""
        left, right = self.hosts
        before = stack(right), stack(left)
        s = self.start(right, server, os.path.join(path, "server"), ports[0])
        lab.until(right.has_broker, 10)
        s.settle()
        c = self.start(left, client, os.path.join(path, "client"), ports[1], prefix, **env)
        ended = c.wait(60), s.wait(20)
        for p in (c, s):
            p.kill()
        if ended != (0, 0):
            raise AssertionError(f"client and server end with {ended}")
        return ((s.output(), c.output()),
                (stack(right) - before[0], stack(left) - before[1]))

    def perftest(self, path, command, ports, prefix=(), **env):
        line = command.replace(" ", " -F -d weft_eth0 -x 0 ", 1)
        return self.run(path, line, f"{line} {self.hosts[1].address}", ports, prefix, **env)


def went(ports, outputs, datagrams, many):
    """Raises unless both ends' packets went the way that was asked for."""
    for port, text, n in zip(ports, outputs, datagrams):
        if (PAST in text) != (port != "udp"):
            raise AssertionError(f"the end with {port} says the other thing")
        if n > FEW if port != "udp" else n < many:
            raise AssertionError(f"{n} datagrams by the stack of the end with {port}")
    return f"{datagrams[0]} and {datagrams[1]} datagrams by the stacks of {ports[0]} and {ports[1]}"


def ways_of_perftest(report, pair):
    for ports in (("udp", "xdp"), ("xdp", "udp"), ("xdp:eth0", "xdp")):
        for command, many in PERFTEST.items():
            report.prove(f"{command}, {ports[0]} and {ports[1]}", lambda path, c=command, m=many, p=ports:
                         went(p, *pair.perftest(path, c, p), m))


def over_ipv6(report, pair):
    for ports in (("udp", "xdp"), ("xdp", "xdp")):
        line = f"rping -a {pair.hosts[1].address6} -C 50 -S 60000 -V"
        report.prove(f"rping over IPv6, {ports[0]} and {ports[1]}", lambda path, p=ports:
                     went(p, *pair.run(path, f"{line} -s", f"{line} -c", p), 100))


def refused(report, pair):
    """What may not, or is late, or misunderstood, goes by UDP, and a line says why."""
    def falls_back(path, ports, says, prefix=(), **env):
        outputs, datagrams = pair.perftest(path, "ib_write_bw -s 65536 -n 500", ports, prefix, **env)
        lines = [l for l in outputs[1].splitlines() if "WEFT_PORT=" in l]
        if len(lines) != 1 or not re.search(says, lines[0]):
            raise AssertionError(f"the client says {lines}")
        went(("udp", "udp"), outputs, datagrams, 400)
        return lines[0]

    for name in TAKEN_AWAY:
        # For these the kernel takes CAP_SYS_ADMIN, too.
        gone = name if name == "net_raw" else f"{name},-sys_admin"
        prefix = ("setpriv", f"--bounding-set=-{gone}", f"--inh-caps=-{gone}", "--")
        report.prove(f"without CAP_{name.upper()}", lambda path, p=prefix: falls_back(
            path, ("udp", "xdp"), "no right .* CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF", p))
    for port, says in (("xdp:eth7", "eth7: No such device"), ("xdp:lo", "no frames of Ethernet"),
                       ("dpdk", "unknown")):
        report.prove(f"WEFT_PORT={port}", lambda path, p=port, s=says: falls_back(path, ("udp", p), s))


def attached(host):
    return "xdp" in host.run("ip", "link", "show", "eth0").stdout


def one_at_a_time(report, pair):
    def proof(path):
        right, left = pair.hosts[1], pair.hosts[0]
        first = pair.start(left, "ib_write_bw -F -d weft_eth0 -x 0 -p 18600", os.path.join(path, "first"), "xdp")
        try:
            if not lab.until(lambda: first.says(PAST), 20):
                raise AssertionError("the first has no XDP")
            (_, text), _ = pair.perftest(path, "ib_write_bw -s 65536 -n 500", ("udp", "xdp"))
            if "another program has XDP on eth0 already" not in text:
                raise AssertionError("the second does not say why not")
            # The first one's queue pairs are served all the same.
            c = pair.start(right, f"ib_write_bw -F -d weft_eth0 -x 0 -s 65536 -n 500 -p 18600 {left.address}",
                           os.path.join(path, "third"), "udp")
            if (c.wait(30), first.wait(10)) != (0, 0):
                raise AssertionError("the first does not work any more")
        finally:
            first.kill()
    report.prove("a second program on the interface goes by UDP", proof)


def killed(report, pair):
    def proof(path):
        left = pair.hosts[0]
        p = pair.start(left, "ib_write_bw -F -d weft_eth0 -x 0", os.path.join(path, "killed"), "xdp")
        try:
            if not lab.until(lambda: p.says(PAST), 20) or not attached(left):
                raise AssertionError("there is no XDP")
            for pid in left.named("ib_write_bw"):
                os.kill(pid, signal.SIGKILL)
        finally:
            p.kill()
        if not lab.until(lambda: not attached(left), 5):
            raise AssertionError("the program is still there")
        return went(("udp", "xdp"), *pair.perftest(path, "ib_write_bw -s 65536 -n 500", ("udp", "xdp")), 400)
    report.prove("kill -9 leaves nothing behind, and the next one works", proof)


def seen(report, pair):
    """weft stat tells the two ways apart."""
    def proof(path):
        left, right = pair.hosts
        s = pair.start(right, "ib_write_bw -F -d weft_eth0 -x 0 -D 4", os.path.join(path, "server"), "udp")
        c = None
        try:
            lab.until(right.has_broker, 10)
            s.settle()
            c = pair.start(left, f"ib_write_bw -F -d weft_eth0 -x 0 -D 4 {right.address}",
                           os.path.join(path, "client"), "xdp")

            def sends():
                text = left.run(pair.weft, "stat").stdout
                part = re.search(r"^\s*xdp\b.*?tx_packets\s+: (\d+)", text, re.M | re.S)
                return part and int(part[1]) > 100
            if not lab.until(sends, 10, 0.2):
                raise AssertionError(f"weft stat: {left.run(pair.weft, 'stat').stdout}")
            if (c.wait(30), s.wait(10)) != (0, 0):
                raise AssertionError("the programs fail")
        finally:
            for p in (c, s):
                if p:
                    p.kill()
    report.prove("weft stat shows it", proof)


def judged(report, pair):
    """Of the frames on the wire wireshark finds none that is not RoCE, or has a wrong checksum; the
    program's own capture has the same packets."""
    def proof(path):
        if not shutil.which("tshark") or not shutil.which("tcpdump"):
            raise lab.Skip("tshark or tcpdump is not installed")
        right = pair.hosts[1]
        # Immediate mode has a place as long as a packet may be for each: with tcpdump's own sizes eight.
        wire, own = os.path.join(path, "wire.pcap"), os.path.join(path, "own.pcapng")
        dump = lab.Program(right, ["tcpdump", "-Z", "root", "-U", "--immediate-mode", "-s", "2048", "-B", "8192", "-i",
                                   "eth0", "-Q", "in", "-w", wire, "udp", "port", "4791"], os.path.join(path, "tcpdump"))
        try:
            lab.until(lambda: dump.says("listening"), 10)
            pair.perftest(path, "ib_send_lat -s 1024 -n 100", ("udp", "xdp"), WEFT_PCAP=own)
            dump.settle()
        finally:
            dump.process.terminate()
            dump.wait(5)

        def count(name, what):
            r = subprocess.run(["tshark", "-r", name, "-o", "ip.check_checksum:TRUE", "-o",
                                "udp.check_checksum:TRUE", "-Y", what], capture_output=True, text=True, timeout=60)
            if r.returncode:
                raise AssertionError(r.stderr)
            return len(r.stdout.splitlines())
        good = count(wire, "infiniband && udp.srcport >= 61440 && ip.checksum.status == 1 && udp.checksum.status == 1")
        bad = count(wire, "udp.srcport >= 61440 && (!infiniband || ip.checksum.status == 0 || udp.checksum.status == 0)")
        sent = count(own, "infiniband && udp.srcport >= 61440 && udp.dstport == 4791 && frame.p2p_dir == 0 ||"
                          " infiniband && udp.srcport >= 61440 && frame.packet_flags_direction == 2")
        if good < 200 or bad or sent != good:
            raise AssertionError(f"{good} good ones, {bad} bad ones; {sent} in the program's own capture")
        return f"{good} packets"
    report.prove("wireshark finds nothing wrong", proof)


def main():
    lab.enter()
    lab.need("ib_write_bw", "rping", "setpriv")
    left, right = lab.lab(2)
    weft = os.path.realpath(os.path.join(sys.argv[1], "weft"))
    report = lab.Report(sys.argv[1], "xdp")
    pair = Pair(weft, (left, right))
    r = left.run("env", "WEFT_PORT=xdp", "WEFT_LOG=info", f"WEFT_BROKER={weft}", weft, "run", "--", "ibv_devinfo")
    why = re.search(r"WEFT_PORT=xdp: .*: (.*)", r.stderr)
    if why and re.search("this kernel has no|no right to|locked memory", why[1]):
        lab.skip(why[1])
    for cases in (ways_of_perftest, over_ipv6, refused, one_at_a_time, killed, seen, judged):
        cases(report, pair)
    report.everything_ends((left, right))
    report.finish()


if __name__ == "__main__":
    main()
