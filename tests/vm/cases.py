# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a case is, and running one with its capture looked at afterwards."""
import os
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
    captured: bool = True
    nvme: bool = False
    log_may_say: tuple = ()


@dataclass
class Result:
    case: str
    direction: str
    condition: str
    verdict: str  # ok, FAIL, skip
    note: str
    seconds: float


@dataclass
class Context:
    """What a case gets: the lab, the two sides in their roles, and where to leave files."""
    lab: object
    weft: object
    kernel: object
    direction: str
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


def check_capture(lab, path, nvme):
    """Our own codecs' and tshark's view of a capture; a note about it."""
    tool = os.path.join(lab.build, "tests", "vm", "check_pcap")
    r = subprocess.run([tool, path], capture_output=True, text=True, check=False)
    if r.returncode:
        raise Failed(f"capture: {last_line(r.stdout + r.stderr)}")
    if lab.tshark:
        t = subprocess.run(["tshark", "-r", path, "-c", "20000", "-Y",
                            f"_ws.malformed && !({NVME_DATA if nvme else DATA})"],
                           capture_output=True, text=True, check=False)
        if t.stdout.strip():
            raise Failed(f"tshark: malformed: {t.stdout.splitlines()[0]}")
    return r.stdout.strip()


def bad_log_lines(lab, guest, allowed):
    r = lab.guest(guest, "dmesg -c")
    return [line for line in r.stdout.splitlines()
            if any(b in line for b in BAD_LOG) and not any(a in line for a in allowed)]


def run_case(c, context):
    """One case in one direction; what it raises becomes its verdict."""
    lab = context.lab
    pcap = context.file("wire.pcap")
    begun = time.monotonic()
    capture = c.captured and not lab.vm("capture", "start", pcap, "udp", "port", "4791").returncode
    try:
        note = c.run(context) or ""
        verdict = "ok"
    except Failed as e:
        verdict, note = "FAIL", str(e)
    finally:
        for p in lab.processes:
            p.stop()
        if capture:
            lab.vm("capture", "stop")
    seconds = time.monotonic() - begun
    try:
        seen = check_capture(lab, pcap, c.nvme) if capture else ""
        wrong = bad_log_lines(lab, context.kernel.guest, c.log_may_say)
        if wrong:
            raise Failed(f"guest's kernel log: {wrong[0]}")
        note = "; ".join(n for n in (note, seen) if n)
    except Failed as e:
        verdict, note = "FAIL", f"{note}; {e}" if verdict == "FAIL" else str(e)
    if verdict == "FAIL":
        for i, p in enumerate(lab.processes):
            with open(context.file(f"process.{i}"), "w", encoding="utf-8") as f:
                f.write(p.output)
    lab.processes.clear()
    return Result(c.name, context.direction, context.condition.name, verdict, note, seconds)
