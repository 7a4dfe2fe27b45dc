# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a case is, and running one with its capture looked at afterwards."""
import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from typing import Callable

from lab import Failed, last_line

ACTIVE, PASSIVE = "weft active", "weft passive"
CASES = []

# What a guest's kernel log may not say while it deals with us.
BAD_LOG = ("BUG:", "WARNING:", "Oops", "Call Trace", "I/O error", "Buffer I/O", "EXT4-fs error",
           "timeout", "controller is down", "rxe0: ")


@dataclass
class Case:
    name: str
    run: Callable
    directions: tuple
    short: bool = False
    lossy: bool = False  # worth running on a bad wire too
    sweep: bool = False  # long and dull: last
    refused: bool = False  # only where the guest asks for more than our interface carries
    provider: bool = False  # worth running with weft on another RNIC
    crash: bool = False  # a machine or a program dies in it: with guests to spare
    nvme: bool = False
    log_may_say: tuple = ()
    log_may_say_if_lost: tuple = ()  # where packets are


@dataclass
class Result:
    section: str
    condition: str
    case: str
    direction: str
    verdict: str  # ok, FAIL, skip; kernel: it failed after the kernel broke a rule in the capture
    note: str
    seconds: float

    @property
    def step(self):
        return self.section, self.condition, self.case, self.direction


@dataclass
class Context:
    """What a case gets: the lab, the two sides in their roles, and where to leave files."""
    lab: object
    weft: object
    kernel: object
    direction: str
    section: object
    condition: object
    dir: str
    family: int = 4
    more: dict = field(default_factory=dict)

    @property
    def active(self):
        return self.weft if self.direction == ACTIVE else self.kernel

    @property
    def passive(self):
        return self.kernel if self.direction == ACTIVE else self.weft

    def file(self, name):
        return os.path.join(self.dir, name)


def case(name, directions=(ACTIVE, PASSIVE), **kwargs):
    def note(function):
        CASES.append(Case(name, function, directions, **kwargs))
        return function
    return note


# tshark guesses at the data that a packet carries and calls it malformed when it guessed wrong (a
# SEND of one byte, zeroes that look like an Ethertype, the data of an Effects log page; between two
# kernels too). So it judges what has no data: headers, MADs and, in `nvme` cases, capsules.
DATA = "infiniband.bth.opcode in {0..11, 13..16, 22, 23, 32..43}"
NVME_DATA = "infiniband.bth.opcode in {6..11, 13..16}"


def check_capture(context, path, c):
    """Our own codecs' and tshark's view of a capture; a note about it."""
    lab, notes = context.lab, []
    if context.kernel.rdma == "rxe":
        tool = [os.path.join(lab.build, "tests", "vm", "check_pcap")]
        if c.crash or context.condition.netem:
            tool.append("--cut-short")  # the last word of an exchange may be missing
        r = subprocess.run([*tool, path], capture_output=True, text=True, check=False)
        if r.returncode:
            raise Failed(f"capture: {last_line(r.stdout + r.stderr)}")
        notes.append(r.stdout.strip())
    if lab.tshark:
        data = NVME_DATA if c.nvme else DATA
        t = subprocess.run(["tshark", "-r", path, "-c", "20000", "-Y",
                            f"_ws.malformed && !({data})"],
                           capture_output=True, text=True, check=False)
        if t.stdout.strip():
            raise Failed(f"tshark: malformed: {t.stdout.splitlines()[0]}")
    return "; ".join(notes)


def judge_senders(context, verdict, seen):
    """A sender that repeats a PSN as another packet has itself to blame for what follows."""
    culprits = set(re.findall(r"PSNs sent again as something else by ([^,; ]+)", seen))
    if culprits & set(context.weft.address.values()) and not hasattr(context.weft, "guest"):
        return "FAIL"
    return "kernel" if culprits and verdict == "FAIL" else verdict


def capture_filter(context):
    """iWARP is TCP, to the port of the service."""
    return ("udp", "port", "4791") if context.kernel.rdma == "rxe" else ("tcp", "port", "4420")


def bad_log_lines(context, allowed):
    """Of the kernel's guest, and of weft's where it is in one."""
    r = context.lab.guest(context.kernel.guest, "dmesg -c")
    text = r.stdout
    if hasattr(context.weft, "guest"):
        text += context.lab.guest(context.weft.guest, "dmesg -c").stdout
    return [line for line in text.splitlines()
            if any(b in line for b in BAD_LOG) and not any(a in line for a in allowed)]


def run_case(c, context):
    """One case in one direction; what it raises becomes its verdict."""
    lab = context.lab
    pcap = context.file("wire.pcap")
    begun = time.monotonic()
    capture = not lab.vm("capture", "start", pcap, *capture_filter(context)).returncode
    try:
        note = c.run(context) or ""
        verdict = "ok"
    except Failed as e:
        verdict, note = "FAIL", str(e)
    except subprocess.TimeoutExpired as e:
        verdict, note = "FAIL", f"hangs: {e.cmd[:4]}"
    finally:
        for p in lab.processes:
            p.stop()
        if capture:
            lab.vm("capture", "stop")
    seen = ""
    try:
        seen = check_capture(context, pcap, c) if capture else ""
        lost = c.log_may_say_if_lost if context.condition.netem else ()
        wrong = bad_log_lines(context, c.log_may_say + lost)
        if wrong:
            raise Failed(f"guest's kernel log: {wrong[0]}")
    except Failed as e:
        verdict, note = "FAIL", f"{note}; {e}" if verdict == "FAIL" else str(e)
    note = "; ".join(n for n in (note, seen) if n)
    verdict = judge_senders(context, verdict, seen)
    if verdict not in ("ok", "skip"):
        for i, p in enumerate(lab.processes):
            with open(context.file(f"process.{i}"), "w", encoding="utf-8") as f:
                f.write(p.output)
    lab.processes.clear()
    return Result(context.section.title, context.condition.name, c.name, context.direction, verdict,
                  note, time.monotonic() - begun)
