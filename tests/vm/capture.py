# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The packets of a case, and what our own codecs and tshark make of them."""
import os
import re
import subprocess
import time

from lab import Failed, Process, last_line, state, until

# tshark guesses at the data that a packet carries and calls it malformed when it guessed wrong (a
# SEND of one byte, zeroes that look like an Ethertype, the data of an Effects log page; between two
# kernels too). So it judges what has no data: headers, MADs and, in `nvme` cases, capsules.
DATA = "infiniband.bth.opcode in {0..11, 13..16, 22, 23, 32..43}"
NVME_DATA = "infiniband.bth.opcode in {6..11, 13..16}"

# iWARP, as tshark names it. Of no bytes: the READ request says so, a WRITE is all header.
IWARP_FIELDS = ("frame.number", "tcp.stream", "_ws.malformed", "tcp.analysis.reused_ports",
                "iwarp_mpa.req", "iwarp_mpa.ulpdulength")
NO_BYTES = "iwarp_rdma.rdmardsz == 0 || (iwarp_rdma.opcode == 0 && tcp.len == 20)"


class Capture:
    """Of the bridge, while a case runs. iWARP is TCP, to the port of the service."""

    def __init__(self, context):
        self.lab, self.path = context.lab, context.file("wire.pcap")
        self.tcp = context.tcp
        self.roce = context.kernel.rdma == "rxe" and not self.tcp
        what = "udp port 4791" if self.roce else "tcp port 4420" if self.tcp else "tcp"
        self.tcpdump = Process(
            self.lab.inside("tcpdump", "-i", "br0", "-s", "0", "--immediate-mode", "-U", "-Z",
                            "root", "-B", "65536", "-w", self.path, *what.split()), self.lab.env)
        until(lambda: "listening" in self.tcpdump.output or not self.tcpdump.running(), 20,
              "tcpdump listening", 0.02)
        if not self.tcpdump.running():
            raise Failed(f"tcpdump: {last_line(self.tcpdump.output)}")

    def end(self):
        """The kernel takes its time to let go of a socket that captures: check() waits for that."""
        time.sleep(0.15)  # the last packets are on their way
        until(lambda: state(self.tcpdump.popen.pid) in ("S", "Z", None), 5,
              "tcpdump at rest, with nothing left to be written")
        self.tcpdump.popen.terminate()

    def check(self, nvme, cut_short):
        """A note about it; Failed if there is something wrong. cut_short: an exchange may be."""
        self.tcpdump.popen.wait(60)
        dropped = re.search(r"([1-9]\d*) packets? dropped by kernel", self.tcpdump.output)
        if dropped:
            raise Failed(f"tcpdump was too slow for {dropped[1]} packets")
        if self.tcp:
            return self.check_tcp() if self.lab.tshark else ""
        if not self.roce:
            return self.check_iwarp() if self.lab.tshark else ""
        seen = self.check_ours(cut_short)
        if self.lab.tshark:
            data = NVME_DATA if nvme else DATA
            t = subprocess.run(["tshark", "-r", self.path, "-c", "20000", "-Y",
                                f"_ws.malformed && !({data})"],
                               capture_output=True, text=True, check=False)
            if t.returncode:
                raise Failed(f"tshark ends with {t.returncode}: {last_line(t.stderr)}")
            if t.stdout.strip():
                raise Failed(f"tshark: malformed: {t.stdout.splitlines()[0]}")
        return seen

    def check_tcp(self):
        """NVMe/TCP, as tshark reads it: nothing malformed, no PDU that ends a connection. What of TCP it
        cannot put together, because segments overlap that were sent again, it calls malformed, too."""
        t = subprocess.run(["tshark", "-r", self.path, "-c", "20000", "-T", "fields", "-e", "frame.number",
                            "-e", "_ws.malformed.expert", "-e", "_ws.malformed.dissector_bug", "-e",
                            "nvme-tcp.type", "-Y", "_ws.malformed || nvme-tcp"],
                           capture_output=True, text=True, check=False)
        if t.returncode:
            raise Failed(f"tshark ends with {t.returncode}: {last_line(t.stderr)}")
        lines = [line.split("\t") for line in t.stdout.splitlines()]
        if not any(types for *_, types in lines):
            raise Failed("no NVMe/TCP in the capture")
        for number, malformed, bug, types in lines:
            if malformed or bug:
                raise Failed(f"tshark: malformed: packet {number}")
            if {"2", "3"} & set(types.split(",")):
                raise Failed(f"a terminate request in packet {number}")
        return f"{sum(len(types.split(',')) for *_, types in lines if types)} PDUs"

    def check_iwarp(self):
        """tshark would take the port for NVMe over TCP, and tells by a connection's first bytes what it
        is: one on the ports of an earlier one it takes for that, so those it does not judge. What SENDs
        carry it would take for RPC."""
        t = subprocess.run(
            ["tshark", "-r", self.path, "-c", "20000", "--disable-protocol", "nvme-tcp",
             "--disable-protocol", "rpcordma", "--disable-protocol", "iser", "-T", "fields",
             *(x for name in IWARP_FIELDS for x in ("-e", name)), "-Y",
             f"_ws.malformed || iwarp_mpa.req || tcp.analysis.reused_ports || {NO_BYTES}"],
            capture_output=True, text=True, check=False)
        if t.returncode:
            raise Failed(f"tshark ends with {t.returncode}: {last_line(t.stderr)}")
        lines = [dict(zip(IWARP_FIELDS, line.split("\t"))) for line in t.stdout.splitlines()]
        reused = {f["tcp.stream"] for f in lines if f["tcp.analysis.reused_ports"]}
        lines = [f for f in lines if f["tcp.stream"] not in reused]
        connections = sum(f["iwarp_mpa.req"] != "" for f in lines)
        if not connections and not reused:
            raise Failed("no iWARP connection in the capture")
        for f in lines:
            if f["_ws.malformed"]:
                raise Failed(f"tshark: malformed: packet {f['frame.number']}")
        empty = sum(f["iwarp_mpa.ulpdulength"] != "" and not f["iwarp_mpa.req"] for f in lines)
        return f"{connections} connections" + f", {empty} READs and WRITEs of no bytes" * bool(empty)

    def check_ours(self, cut_short):
        tool = [os.path.join(self.lab.build, "tests", "vm", "check_pcap")]
        if cut_short:
            tool.append("--cut-short")
        r = subprocess.run([*tool, self.path], capture_output=True, text=True, check=False)
        if r.returncode:
            raise Failed(f"capture: {last_line(r.stdout + r.stderr)}")
        return r.stdout.strip()
