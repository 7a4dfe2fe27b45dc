#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Captures by WEFT_PCAP and --pcap: whole, as on the wire, and what tshark makes of them.

usage: pcap.py BUILD
"""
import argparse
import glob
import os
import shutil
import struct
import subprocess

import forge
import lab

SECTION, INTERFACE, PACKET = 0x0a0d0d0a, 1, 6
RECEIVED, SENT = 1, 2
CM_DQPN = b"\0\0\1"


def blocks(path):
    """(type, body) of each block; whatever is amiss raises an error."""
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("=II", data, at)
        if length < 12 or length % 4 or struct.unpack_from("=I", data, at + length - 4)[0] != length:
            raise ValueError(f"{path}: no block at {at}")
        yield kind, data[at + 8:at + length - 4]
        at += length


def packets(path):
    """(direction, IP packet) of each; there is one head, and nothing else."""
    kinds, found = [], []
    for kind, body in blocks(path):
        kinds.append(kind)
        if kind == PACKET:
            captured, original = struct.unpack_from("=II", body, 12)
            if captured != original:
                raise ValueError(f"{path}: a packet is cut short")
            flags = struct.unpack_from("=HHI", body, 20 + captured + -captured % 4)
            found.append((flags[2] & 3, body[20:20 + captured]))
    if kinds[:2] != [SECTION, INTERFACE] or set(kinds[2:]) - {PACKET}:
        raise ValueError(f"{path}: blocks {kinds[:4]} …")
    return found


def udp_payload(ip):
    return ip[28:] if ip[0] >> 4 == 4 else ip[48:]


def icrc_is_good(ip):
    """By the headers that are before it in the file: a source port or an identification that is
    not the one of the wire would spoil it."""
    src, dst = (ip[12:16], ip[16:20]) if ip[0] >> 4 == 4 else (ip[8:24], ip[24:40])
    text = [".".join(map(str, a)) if len(a) == 4 else ":".join(a.hex()[i:i + 4] for i in range(0, 32, 4))
            for a in (src, dst)]
    at = 20 if len(src) == 4 else 40
    sport, ident = int.from_bytes(ip[at:at + 2], "big"), int.from_bytes(ip[4:6], "big")
    right = forge.roce(*text, sport, udp_payload(ip)[:-4], ident)
    return right[-4:] == ip[-4:]


def as_sent(ip):
    """Without IPv6's flow label, which the kernel makes up."""
    return ip if ip[0] >> 4 == 4 else bytes([ip[0], ip[1] & 0xf0, 0, 0]) + ip[4:]


def checksums_are_good(ip):
    if ip[0] >> 4 == 4:
        pseudo, udp = ip[12:20], ip[20:]
        if forge.checksum(ip[:20]):
            return False
    else:
        pseudo, udp = ip[8:40], ip[40:]
    return not forge.checksum(pseudo + struct.pack("!HH", 17, len(udp)) + udp)


class Captures:
    def __init__(self, build):
        self.report = lab.Report(os.path.abspath(build), "pcap")
        self.weft = os.path.abspath(f"{build}/weft")
        self.host, _ = lab.lab(1)

    def rping(self, path, address, pcap=(), env=None, size=60000):
        """A server and a client. What is wrong, or None."""
        line = [self.weft, "run", *pcap, "rping", "-a", address, "-C", "4", "-S", str(size)]
        server = lab.Program(self.host, line + ["-s"], f"{path}/server", env=env)
        server.settle()
        client = lab.Program(self.host, line + ["-c"], f"{path}/client", env=env)
        statuses = client.wait(30), server.wait(30)
        for p in (client, server):
            p.kill()
        # It ends with a status of no meaning when the other end has gone first.
        return None if "DISCONNECT" in client.output() + server.output() else \
            f"rping ends with {statuses}"

    def no_broker(self):
        if not lab.until(lambda: not self.host.has_broker(), 10):
            raise RuntimeError("a broker stays")

    def judge(self, path, file, both_ends=True):
        """What is wrong with a capture, or None."""
        found = packets(file)
        sent = [ip for direction, ip in found if direction == SENT]
        got = [ip for direction, ip in found if direction == RECEIVED]
        if not sent or not got or len(sent) + len(got) != len(found):
            return f"{len(sent)} packets sent and {len(got)} received of {len(found)}"
        for ip in sent + got:
            if not icrc_is_good(ip):
                return f"the ICRC of {ip.hex()} is wrong"
            if not checksums_are_good(ip):
                return f"a checksum of {ip.hex()} is wrong"
        # The last words of one end may be for nobody.
        other = {as_sent(ip) for ip in got} - {as_sent(ip) for ip in sent}
        if both_ends and other:
            return f"{len(other)} packets were received otherwise than sent"
        if not shutil.which("tshark"):
            return None
        t = subprocess.run(["tshark", "-r", file, "-T", "fields", "-e", "frame.packet_flags_direction",
                            "-e", "infiniband.bth.opcode", "-e", "_ws.malformed"],
                           capture_output=True, text=True, timeout=60)
        rows = [line.split("\t") for line in t.stdout.splitlines()]
        if t.returncode or len(rows) != len(found):
            return f"tshark ends with {t.returncode} and sees {len(rows)} of {len(found)}: {t.stderr[-200:]}"
        for row, (direction, ip) in zip(rows, found):
            if int(row[0], 0) != direction or int(row[1] or "-1") != udp_payload(ip)[0] or row[2]:
                return f"tshark sees {row} in {ip.hex()}"
        return None

    def one_file(self, path, address):
        file = f"{path}/both.pcapng"
        fault = self.rping(path, address, env={"WEFT_PCAP": file}) or self.judge(path, file)
        if fault:
            return fault
        idents = {ip[4:6] for _, ip in packets(file) if ip[0] >> 4 == 4}
        if "." in address and len(idents) < 2:
            return "no packet has an identification: none was a piece of a super-packet"
        return None

    def a_file_each(self, path):
        fault = self.rping(path, "127.0.0.1", pcap=["--pcap", f"{path}/100%%-%p.pcapng"])
        files = glob.glob(f"{path}/100%-*.pcapng")
        if fault or len(files) != 2:
            return fault or f"{files}"
        return next(filter(None, (self.judge(path, f, both_ends=False) for f in files)), None)

    def anew(self, path):
        """What was in the file is gone, unless somebody still writes there."""
        file = f"{path}/again.pcapng"
        with open(file, "wb") as f:
            f.write(b"x" * 1000000)
        return self.rping(path, "127.0.0.1", env={"WEFT_PCAP": file}, size=100) or \
            self.judge(path, file)

    def broker(self, path):
        """The connection manager's packets are the broker's."""
        file = f"{path}/broker.pcapng"
        self.no_broker()
        # In the background, from another directory than the file is named from.
        start = self.host.run(self.weft, "broker", "--pcap", "broker.pcapng", cwd=path)
        if start.returncode:
            return start.stderr
        fault = self.rping(path, "127.0.0.1", size=100) or self.judge(path, file)
        if fault:
            return fault
        others = [ip.hex() for _, ip in packets(file) if udp_payload(ip)[5:8] != CM_DQPN]
        return f"not to QP1: {others[0]}" if others else None

    def broker_that_runs(self, path):
        self.no_broker()
        server = lab.Program(self.host, [self.weft, "broker", "-f"], f"{path}/broker")
        if not lab.until(self.host.has_broker, 10):
            return "no broker"
        r = self.host.run(self.weft, "broker", "--pcap", f"{path}/none.pcapng")
        server.process.terminate()
        if server.wait(10) != 0:
            return "the first broker does not end"
        return None if r.returncode == 1 and "broker" in r.stderr else f"{r.returncode}: {r.stderr}"

    def started_on_demand(self, path):
        """It stays for others, and is none of the program whose capture this is."""
        file = f"{path}/program.pcapng"
        self.no_broker()
        fault = self.rping(path, "127.0.0.1", env={"WEFT_PCAP": file}, size=100)
        if fault:
            return fault
        return "the broker's packets are there" if any(udp_payload(ip)[5:8] == CM_DQPN
                                                       for _, ip in packets(file)) else None

    def serve(self, path):
        file = f"{path}/serve.pcapng"
        target = lab.Program(self.host, [self.weft, "serve", "--pcap", file, "-l", "rdma://127.0.0.1",
                                         "-n", "nqn.2026-11.org.weft:pcap", "null:1m"], f"{path}/serve")
        target.settle()
        r = self.host.run(self.weft, "id-ctrl", "nvme+rdma://127.0.0.1/nqn.2026-11.org.weft:pcap")
        fault = lab.end_in_order([target])
        if r.returncode or fault:
            return fault or r.stderr
        return self.judge(path, file, both_ends=False)

    def refusals(self, path):
        for file, why in (("/nonexistent/x", "No such file"), ("/dev/null", "regular file")):
            self.no_broker()
            for command in ([self.weft, "run", "--pcap", file, "rping", "-s", "-a", "127.0.0.1"],
                            [self.weft, "serve", "--pcap", file, "null:1m"],
                            [self.weft, "broker", "-f", "--pcap", file]):
                r = self.host.run("timeout", "20", *command, timeout=60)
                if r.returncode != 1 or file not in r.stderr or why not in r.stderr:
                    return f"{command[1:]}: {r.returncode}, {r.stderr}"
                if not lab.until(lambda: not self.host.has_broker(), 10):
                    return "a broker stays"
        r = self.host.run(self.weft, "serve", "--provider=system", "--pcap=x", "null:1m")
        return None if r.returncode == 2 else f"--provider=system: {r.returncode}, {r.stderr}"

    def full(self, path):
        """Packets go on where the file does not."""
        file = f"{path}/full.pcapng"
        line = ["prlimit", "--fsize=20000", "env", "--ignore-signal=XFSZ", self.weft, "run",
                "--pcap", file, "rping", "-a", "127.0.0.1", "-C", "4", "-S", "60000"]
        server = lab.Program(self.host, line + ["-s"], f"{path}/server")
        server.settle()
        client = lab.Program(self.host, line + ["-c"], f"{path}/client")
        client.wait(30), server.wait(30)
        for p in (client, server):
            p.kill()
        said = client.output() + server.output()
        if "DISCONNECT" not in said:
            return "rping failed"
        return None if said.count(f"cannot write the capture {file}: File too large") == 2 else \
            f"it is not said once by each: {said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    args = parser.parse_args()
    lab.need("rping", "prlimit")
    lab.enter()
    c = Captures(args.build)
    c.report.attempt("both ends in one file", lambda path: c.one_file(path, "127.0.0.1"))
    c.report.attempt("both ends in one file, IPv6", lambda path: c.one_file(path, "::1"))
    c.report.attempt("a file for each process", c.a_file_each)
    c.report.attempt("a capture begins anew", c.anew)
    c.report.attempt("a file that takes no more", c.full)
    c.report.attempt("the broker's", c.broker)
    c.report.attempt("a broker started on demand writes none", c.started_on_demand)
    c.report.attempt("a broker that runs already", c.broker_that_runs)
    c.report.attempt("weft serve's", c.serve)
    c.report.attempt("what cannot be written is named", c.refusals)
    if not shutil.which("tshark"):
        c.report.skip("decoded by tshark", "it is not installed (scripts/setup installs it)")
    c.report.everything_ends([c.host])
    c.report.finish()


if __name__ == "__main__":
    main()
