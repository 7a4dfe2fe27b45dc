# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a case is, and running one with its capture looked at afterwards."""
import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from typing import Callable

from capture import Capture
from guests import GONE
from lab import Failed, last_line

ACTIVE, PASSIVE = "weft active", "weft passive"
CASES = []
A_WINDOW = 32  # packets that one timeout may repeat, however few there are

# What a guest's kernel log may not say while it deals with us.
BAD_LOG = ("BUG:", "WARNING:", "Oops", "Call Trace", "I/O error", "Buffer I/O", "EXT4-fs error",
           "timeout", "controller is down", "rxe0: ")

# What rxe says of a registration that it carries out again where it repeats what was lost before it
# (docs/rxe.md): the queue pair has ended.
REGISTERED_TWICE = re.compile(r"rxe_reg_fast_mr: .*not free")


@dataclass
class Case:
    name: str
    run: Callable
    directions: tuple
    short: bool = False
    lossy: bool = False  # worth running on a bad wire too
    wire: bool = False  # of the program `wire`: quick on a very bad one
    iwarp: bool = False  # of a device of iWARP alone
    sweep: bool = False  # long and dull: last
    cm: bool = False  # of rdma_cm's programs
    four: bool = False  # cannot go by IPv6
    newer: bool = False  # what Linux 6.1 has not
    newest: bool = False  # nor 6.12
    both: bool = False  # that one and a newer may differ in
    repeats: float = 0.05  # what part of its packets weft may send twice on a good wire
    long: bool = False  # takes minutes: of no plan but that of long ones
    refused: bool = False  # only where the guest asks for more than our interface carries
    provider: bool = False  # worth running with weft on another RNIC
    crash: bool = False  # a machine or a program dies in it: with guests to spare
    panic: bool = False  # it fails, for the harness to be tried
    nvme: bool = False
    tcp: bool = False  # NVMe by TCP: nothing of it is RDMA
    silent: bool = False  # no connection of RDMA's or NVMe's is made: its capture says nothing
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
    tcp: bool = False  # as the case
    more: dict = field(default_factory=dict)

    @property
    def active(self):
        return self.weft if self.direction == ACTIVE else self.kernel

    @property
    def passive(self):
        return self.kernel if self.direction == ACTIVE else self.weft

    def file(self, name):
        return os.path.join(self.dir, name)

    def weft_address(self):
        """Of weft's own RNIC; none where it uses the kernel's."""
        return set() if hasattr(self.weft, "guest") else set(self.weft.address.values())


def case(name, directions=(ACTIVE, PASSIVE), **kwargs):
    def note(function):
        CASES.append(Case(name, function, directions, **kwargs))
        return function
    return note


def bad_log_lines(text, allowed):
    return [line for line in text.splitlines()
            if any(b in line for b in BAD_LOG) and not any(a in line for a in allowed)]


def last_words(log):
    """The lines of a dying kernel that say most, else its last ones."""
    lines = [re.sub(r"^\[[^]]*\] *", "", line) for line in log.split("\n") if line.strip()]
    told = [line for line in lines if re.match(r"BUG: |RIP: |Oops|Kernel panic|traps: |.*[Ff]ault: ", line)]
    return " / ".join(list(dict.fromkeys(told))[-3:] or lines[-3:]) or "(an empty console)"


class Run:
    """One case in one direction; what it raises becomes its verdict.

    run() is what needs the guests. finish() looks at the capture and gives the result; it can go on
    beside the next case.
    """

    def __init__(self, c, context):
        self.case, self.context = c, context
        self.verdict, self.notes = "ok", []

    def fail(self, why):
        self.verdict = "FAIL"
        self.notes.append(why)

    def run(self):
        begun = time.monotonic()
        self.context.tcp = self.case.tcp
        self.capture = Capture(self.context)
        try:
            self.notes.append(self.case.run(self.context) or "")
        except Failed as e:
            self.fail(str(e))
        except subprocess.TimeoutExpired as e:
            self.fail(f"hangs: {e.cmd[:4]}")
        finally:
            self.processes, self.context.lab.processes = self.context.lab.processes, []
            for p in self.processes:
                self.end(p)
            self.capture.end()
        self.read_logs()
        self.weft_address = self.context.weft_address()
        self.seconds = time.monotonic() - begun

    def end(self, p):
        """What still runs is told to end. Of weft serve that is judged; a guest that died has none."""
        ran, status = p.running(), p.stop()
        if ran and p.serves and status not in (0, GONE):
            self.fail(f"weft serve ends with {status} at SIGTERM: {last_line(p.output)}")

    def read_logs(self):
        """Of the kernel's guest, and of weft's where it is in one; which guests the case has cost us."""
        lab = self.context.lab
        self.logs = {side.guest: lab.new_log(side.guest)
                     for side in (self.context.kernel, self.context.weft) if hasattr(side, "guest")}
        self.dead = lab.dead(self.verdict != "ok")
        for guest in self.dead:
            self.logs[guest] = log = self.logs.get(guest) or lab.new_log(guest)
            self.fail(f"{guest} died: {last_words(log)}")
        lost = self.case.log_may_say_if_lost if self.context.condition.netem else ()
        wrong = [line for log in self.logs.values()
                 for line in bad_log_lines(log, self.case.log_may_say + lost)]
        if wrong and not self.dead:
            self.fail(f"guest's kernel log: {wrong[0]}")
        if (self.verdict == "FAIL" and self.context.condition.netem
                and any(REGISTERED_TWICE.search(log) for log in self.logs.values())):
            self.verdict = "kernel"
            self.notes.append("rxe registered memory twice")

    def finish(self):
        cut_short = self.case.crash or bool(self.context.condition.netem)
        try:
            seen = "" if self.case.silent else self.capture.check(self.case.nvme, cut_short)
            self.notes.append(seen)
            self.judge_senders(seen)
            if self.verdict != "kernel":
                self.judge_repeats(seen)
        except Failed as e:
            self.fail(str(e))
        if self.verdict != "ok":
            said = {f"process.{i}": p.output for i, p in enumerate(self.processes)}
            said.update((f"console.{guest}", log) for guest, log in self.logs.items())
            for name, text in said.items():
                with open(self.context.file(name), "w", encoding="utf-8") as f:
                    f.write(text)
        c = self.context
        return Result(c.section.title, c.condition.name, self.case.name, c.direction, self.verdict,
                      "; ".join(n for n in self.notes if n), self.seconds)

    def judge_repeats(self, seen):
        """A good wire loses nothing, but a guest that is not scheduled for a while may."""
        packets = re.match(r"(\d+) packets", seen)
        if self.context.condition.netem or self.case.crash or not packets:
            return
        for count, sender in re.findall(r"(\d+) PSNs sent again by ([^,; ]+)", seen):
            allowed = max(A_WINDOW, int(packets[1]) * self.case.repeats)
            if sender in self.weft_address and int(count) > allowed:
                raise Failed(f"weft sent {count} of {packets[1]} packets again")

    def judge_senders(self, seen):
        """A sender that repeats a PSN as another packet has itself to blame for what follows, and so
        has one that never gives up a peer that has said goodbye."""
        culprits = set(re.findall(r"PSNs sent again as something else by ([^,; ]+)", seen))
        endless = set(re.findall(r"times after the peer's DREQ by ([^,; ]+)", seen))
        if culprits & self.weft_address:
            self.verdict = "FAIL"
        elif (culprits | endless - self.weft_address) and self.verdict == "FAIL":
            self.verdict = "kernel"
