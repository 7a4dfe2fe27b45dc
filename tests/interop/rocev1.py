#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""rocev1.py BUILD: unmodified programs over GIDs of RoCEv1, between two hosts and within one.

How many datagrams the kernel's stack has sent meanwhile says that it was not RoCEv2. No kernel is there to be the peer:
what the frames are, wireshark judges, and their ICRC is reckoned here by the rule (IBA volume 1, 7.8.1).
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib

import lab

ETHERTYPE = 0x8915
BEHIND = 32  # an entry of RoCEv1 is so many behind that of RoCEv2
FEW = 60  # datagrams of a host that has other things to say than by RoCEv2, at most
PROGRAMS = (
    "ibv_rc_pingpong", "ibv_rc_pingpong -e -s 65536", "ibv_uc_pingpong -s 1000", "ibv_ud_pingpong", "ibv_srq_pingpong",
    "ib_send_bw -s 65536 -n 500", "ib_write_bw -s 65536 -n 500", "ib_read_bw -s 65536 -n 200", "ib_read_lat -s 8 -n 500",
    "ib_write_lat -s 8 -n 500", "ib_send_lat -e -s 1024 -n 300", "ib_send_lat -c UD -s 1024 -n 300", "ib_atomic_bw -n 300",
)
WITHOUT_RIGHT = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", "--")


def line_of(command, index):
    """With the device and the GID of that index."""
    name, _, options = command.partition(" ")
    where = f"-d weft_eth0 -g {index}" if name.startswith("ibv_") else f"-F -d weft_eth0 -x {index}"
    return f"{name} {where} {options}"


def sent(host):
    """Datagrams that the stack of a host has sent so far, whatever the address family."""
    v6 = dict(line.split() for line in host.read("snmp6").splitlines())
    return host.datagrams() + int(v6["Udp6OutDatagrams"])


class Pair:
    """A program at each of two hosts, or at both ends of one."""

    def __init__(self, weft, server, client):
        self.weft, self.server, self.client = weft, server, client

    def start(self, host, line, log, prefix=(), **env):
        return lab.Program(host, [*prefix, self.weft, "run", "--", *line.split()], log,
                           {"WEFT_BROKER": self.weft, "WEFT_LOG": "info", "WEFT_ROCEV1": "1", **env})

    def run(self, path, server, client, **kwargs):
        """Both to their ends. Returns (server's, client's) output, and how many datagrams their hosts have sent."""
        hosts = self.server, self.client
        before = [sent(h) for h in hosts]
        s = self.start(hosts[0], server, os.path.join(path, "server"), **kwargs)
        c = None
        try:
            lab.until(hosts[0].has_broker, 10)
            s.settle()
            c = self.start(hosts[1], client, os.path.join(path, "client"), **kwargs)
            ended = c.wait(60), s.wait(20)
        finally:
            for p in (c, s):
                if p:
                    p.kill()
        assert ended == (0, 0), f"client and server end with {ended}"
        return (s.output(), c.output()), [sent(h) - n for h, n in zip(hosts, before)]

    def program(self, path, command, index, **kwargs):
        line = line_of(command, index)
        return self.run(path, line, f"{line} {self.server.address}", **kwargs)


def gids(host, weft, *prefix, **env):
    """{index: (GID, type)} of eth0's device, and what weft says of how packets go."""
    r = host.run("env", f"WEFT_BROKER={weft}", *(f"{k}={v}" for k, v in env.items()), *prefix, weft, "devices", "-o", "json",
                 "weft_eth0")
    assert r.returncode == 0, r.stderr
    port = json.loads(r.stdout)["devices"][0]["ports"][0]
    return {g["index"]: (g["gid"], g["type"]) for g in port["gids"]}, port["packets_by"], r.stderr


def table(report, weft, host):
    """Entries of RoCEv1 are behind those of RoCEv2, which are where they were; and not there unless asked for."""
    def silent(_):
        found, by, _ = gids(host, weft)
        assert {t for _, t in found.values()} == {"RoCE v2"} and "RoCEv1" not in by, f"{found}, {by}"
        assert max(found) < BEHIND, found

    def behind(_):
        plain = gids(host, weft)[0]
        found, by, _ = gids(host, weft, WEFT_ROCEV1="1")
        assert "frames of RoCEv1" in by, by
        want = {i + more: (g, f"RoCE v{2 - bool(more)}") for i, (g, _) in plain.items() for more in (0, BEHIND)}
        assert found == want, f"{found}, not {want}"

    def of_sysfs(_):
        port = "/sys/class/infiniband/weft_eth0/ports/1"
        r = host.run("env", f"WEFT_BROKER={weft}", "WEFT_ROCEV1=1", weft, "run", "--", "cat",
                     *(f"{port}/{what}/{i}" for what in ("gid_attrs/types", "gids") for i in (0, BEHIND)))
        lines = r.stdout.splitlines()
        assert r.returncode == 0 and lines[:2] == ["RoCE v2", "IB/RoCE v1"] and lines[2] == lines[3], f"{r}"

    def devinfo(_):
        r = host.run("env", f"WEFT_BROKER={weft}", "WEFT_ROCEV1=1", weft, "run", "--", "ibv_devinfo", "-v", "-d", "weft_eth0")
        v1 = re.findall(r"GID\[ *(\d+)\]:.*RoCE v1", r.stdout)
        assert r.returncode == 0 and v1 and all(int(i) >= BEHIND for i in v1), f"{r.stdout}{r.stderr}"

    def no_right(_):
        found, by, says = gids(host, weft, *WITHOUT_RIGHT, WEFT_ROCEV1="1")
        assert max(found) < BEHIND and "RoCEv1" not in by, f"{found}, {by}"
        lines = [l for l in says.splitlines() if "WEFT_ROCEV1" in l]
        assert len(lines) == 1 and re.search("no right .* CAP_NET_RAW", lines[0]), says
        return lines[0]

    def mistaken(_):
        found, _, says = gids(host, weft, WEFT_ROCEV1="yes")
        assert max(found) < BEHIND and "WEFT_ROCEV1=yes is unknown" in says, says

    for name, case in (("none unless asked for", silent), ("behind RoCEv2's", behind), ("in sysfs", of_sysfs),
                       ("as ibv_devinfo shows them", devinfo), ("none without CAP_NET_RAW", no_right),
                       ("none for another word", mistaken)):
        report.prove(f"GIDs: {name}", case)


def by_frames(outputs, datagrams):
    assert max(datagrams) <= FEW, f"{datagrams} datagrams, which were to be frames: {outputs[1][-300:]}"
    return f"{datagrams[0]} and {datagrams[1]} datagrams"


def programs(report, pair):
    for command in PROGRAMS:
        report.prove(command, lambda path, c=command: by_frames(*pair.program(path, c, BEHIND)))


def every_kind_of_gid(report, weft, pair):
    """IPv4's was above. That of a link-local address comes some time after the address."""
    def proof(path, what, index=None):
        def find():
            found = gids(pair.client, weft)[0]
            there = gids(pair.server, weft)[0]
            return [i for i, (g, _) in found.items() if re.match(what, g) and re.match(what, there.get(i, ("",))[0])]
        index = lab.until(find, 10, 0.5)
        assert index, "there is none at the same place on both hosts"
        return by_frames(*pair.program(path, "ib_write_bw -s 65536 -n 200", index[0] + BEHIND))
    for name, what in (("a global IPv6 address", "fd77:"), ("a link-local address", "fe80:")):
        report.prove(f"over the GID of {name}", lambda path, w=what: proof(path, w))


def within(report, weft, host):
    """To this host frames go by loopback."""
    pair = Pair(weft, host, host)

    def packets():
        return int(re.search(r"^ *lo: *\d+ +(\d+)", host.read("dev"), re.M)[1])

    def proof(path):
        before = packets()
        note = by_frames(*pair.program(path, "ib_write_bw -s 65536 -n 200", BEHIND))
        count = packets() - before
        assert count > 200 * 64, f"{count} packets over lo"
        return f"{note}, {count} packets over lo"
    report.prove("within one host", proof)


def rocev2_beside(report, pair):
    """The same environment, and GIDs of RoCEv2, or none: rdma_cm connects by RoCEv2."""
    def by_datagrams(outputs, datagrams):
        assert min(datagrams) > FEW, f"{datagrams} datagrams: {outputs[1][-300:]}"
        return f"{datagrams[0]} and {datagrams[1]} datagrams"

    def rping(path):
        line = f"rping -a {pair.server.address} -C 100 -S 60000 -V"
        return by_datagrams(*pair.run(path, f"{line} -s", f"{line} -c"))
    report.prove("RoCEv2 by its index", lambda path: by_datagrams(*pair.program(path, "ib_read_lat -s 8 -n 500", 0)))
    report.prove("rdma_cm", rping)


def seen(report, pair):
    """weft stat tells of the frames, apart from the datagrams."""
    def proof(path):
        line = line_of("ib_write_bw -D 4", BEHIND)
        s = pair.start(pair.server, line, os.path.join(path, "server"))
        c = None
        try:
            lab.until(pair.server.has_broker, 10)
            s.settle()
            c = pair.start(pair.client, f"{line} {pair.server.address}", os.path.join(path, "client"))

            def sends():
                text = pair.client.run(pair.weft, "stat").stdout
                part = re.search(r"^\s*rocev1\b.*?tx_packets\s+: (\d+)", text, re.M | re.S)
                return part and int(part[1]) > 100
            assert lab.until(sends, 10, 0.2), f"weft stat: {pair.client.run(pair.weft, 'stat').stdout}"
            assert (c.wait(30), s.wait(10)) == (0, 0), "the programs fail"
        finally:
            for p in (c, s):
                if p:
                    p.kill()
    report.prove("weft stat shows it", proof)


def frames(name):
    with open(name, "rb") as f:
        data = f.read()
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def fault_of(frame):
    """What is wrong with a frame, or None."""
    grh, bth = frame[14:54], frame[54:66]
    head, length, following, hops = struct.unpack_from(">IHBB", grh)
    if head >> 28 != 6 or following != 0x1b or not hops:
        return f"its GRH begins with {grh[:8].hex()}"
    if length != len(frame) - 54 or length % 4:
        return f"its GRH tells of {length} bytes, there are {len(frame) - 54}"
    covered = bytes([grh[0] | 0xf, 0xff, 0xff, 0xff]) + grh[4:7] + b"\xff" + grh[8:] + bth[:4] + b"\xff" + frame[59:-4]
    icrc = zlib.crc32(b"\xff" * 8 + covered)
    if struct.unpack("<I", frame[-4:])[0] != icrc:
        return f"its ICRC is {frame[-4:].hex()}, and should be {struct.pack('<I', icrc).hex()}"
    return None


def judged(report, pair):
    """Every frame on the wire, both ways: by the rules, and by wireshark."""
    def proof(path):
        if not shutil.which("tshark") or not shutil.which("tcpdump"):
            raise lab.Skip("tshark or tcpdump is not installed")
        wire = os.path.join(path, "wire.pcap")
        dump = lab.Program(pair.server, ["tcpdump", "-Z", "root", "-U", "--immediate-mode", "-s", "2048", "-B", "8192", "-i",
                                         "eth0", "-w", wire, "ether", "proto", hex(ETHERTYPE)], os.path.join(path, "tcpdump"))
        try:
            assert lab.until(lambda: dump.says("listening"), 10), dump.output()
            for command in ("ib_send_lat -s 1023 -n 50", "ib_read_lat -s 4000 -n 20", "ib_atomic_lat -n 20",
                            "ib_send_lat -c UD -s 7 -n 20"):
                by_frames(*pair.program(path, command, BEHIND))
            dump.settle()
        finally:
            dump.process.terminate()
            dump.wait(5)
        found = list(frames(wire))
        assert len(found) > 200, f"{len(found)} frames"
        for f in found:
            fault = fault_of(f)
            assert not fault, f"{fault}: {f.hex()}"
        fields = ("eth.type", "infiniband.grh.nxthdr", "infiniband.grh.paylen", "infiniband.bth.opcode",
                  "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.invariant.crc", "_ws.malformed")
        t = subprocess.run(["tshark", "-r", wire, "-T", "fields", *(w for f in fields for w in ("-e", f))],
                           capture_output=True, text=True, timeout=60)
        assert t.returncode == 0, t.stderr
        rows = [line.split("\t") for line in t.stdout.splitlines()]
        assert len(rows) == len(found), f"wireshark sees {len(rows)} of {len(found)}"
        for row, f in zip(rows, found):
            want = [ETHERTYPE, 0x1b, len(f) - 54, f[54], int.from_bytes(f[59:62], "big"), int.from_bytes(f[63:66], "big"),
                    int.from_bytes(f[-4:], "big")]
            assert not row[7] and [int(n, 0) for n in row[:7]] == want, f"wireshark sees {row} in {f.hex()}"
        return f"{len(found)} frames"
    report.prove("wireshark finds nothing wrong, nor do the rules", proof)


def main():
    lab.enter()
    lab.need("ib_write_bw", "ibv_rc_pingpong", "ibv_devinfo", "rping", "setpriv")
    left, right = lab.lab(2)
    weft = os.path.realpath(os.path.join(sys.argv[1], "weft"))
    report = lab.Report(sys.argv[1], "rocev1")
    by = gids(left, weft, WEFT_ROCEV1="1")
    if "RoCEv1" not in by[1]:
        lab.skip(by[2].strip())
    pair = Pair(weft, right, left)
    table(report, weft, left)
    programs(report, pair)
    every_kind_of_gid(report, weft, pair)
    within(report, weft, left)
    rocev2_beside(report, pair)
    seen(report, pair)
    judged(report, pair)
    report.everything_ends((left, right))
    report.finish()


if __name__ == "__main__":
    main()
