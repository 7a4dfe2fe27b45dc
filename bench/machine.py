# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which machine it is, and whether it was quiet: figures of one that has other work say little."""
import os
import platform
import re
import subprocess
import time

import bed
from bed import lab

# Of all its processors' time: what others may take, and what the hypervisor may give to others.
OTHERS_MAX, STOLEN_MAX = 0.05, 0.01
LOOK_SECONDS = 1
HZ = os.sysconf("SC_CLK_TCK")


def about(build):
    def said(*argv):
        try:
            r = subprocess.run(argv, capture_output=True, text=True, check=False)
        except OSError:
            return ""
        return r.stdout.strip() if r.returncode == 0 else ""

    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        model = re.search(r"^model name\s*:\s*(.*)$", f.read(), re.M)
    with open("/proc/meminfo", encoding="ascii") as f:
        kib = int(re.search(r"MemTotal:\s+(\d+)", f.read())[1])
    commit = said("git", "-C", bed.TOP, "rev-parse", "HEAD")
    changed = said("git", "-C", bed.TOP, "status", "--porcelain", "--untracked-files=no")
    return {"kernel": platform.release(), "architecture": platform.machine(),
            "processor": model[1] if model else "", "processors": len(os.sched_getaffinity(0)),
            "memory_mib": kib >> 10, "commit": commit + ("-dirty" if commit and changed else ""),
            "weft": said(os.path.join(build, "weft"), "--version"),
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def busy():
    """Seconds that the processors have worked."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _, _, irq, softirq, *_ = map(int, f.readline().split()[1:])
    return (user + nice + system + irq + softirq) / HZ


def foreign(ours):
    """Seconds that processes of other network namespaces have taken, with those that they have
    waited for. Threads of the kernel may work for us."""
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
            if pid == "2" or fields[1] == "2" or _net(pid) in ours:
                continue
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / HZ


def _net(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except PermissionError:
        return "somebody else's"


class Watch:
    """From when it is made until noise() is asked."""

    def __init__(self, hosts):
        self.ours = {_net("self"), *(_net(str(h.holder.pid)) for h in hosts)}
        self.load = os.getloadavg()[0]
        self.before = self._look()
        self.begun, self.ticks, self.foreign = time.monotonic(), lab.ticks(), foreign(self.ours)

    def _look(self):
        """The share of the processors that is taken while nothing of ours runs."""
        before = busy()
        time.sleep(LOOK_SECONDS)
        return (busy() - before) / LOOK_SECONDS / os.cpu_count()

    def seen(self):
        every, stolen = (now - then for now, then in zip(lab.ticks(), self.ticks))
        seconds = time.monotonic() - self.begun
        others = max(foreign(self.ours) - self.foreign, 0) / max(seconds, 1e-9) / os.cpu_count()
        return {"load_average": self.load, "seconds": seconds, "stolen": stolen / max(every, 1),
                "others_before": self.before, "others_meanwhile": others, "others_after": self._look(),
                "low_priority": os.sched_getscheduler(0) in (os.SCHED_IDLE, os.SCHED_BATCH) or
                os.getpriority(os.PRIO_PROCESS, 0) > 0}


def noise(seen):
    """Why the machine was not quiet; nothing: it was."""
    why = [f"others took {seen[when]:.0%} of the processors {words}"
           for when, words in (("others_before", "before"), ("others_meanwhile", "meanwhile"),
                               ("others_after", "afterwards")) if seen[when] > OTHERS_MAX]
    if seen["stolen"] > STOLEN_MAX:
        why.append(f"{seen['stolen']:.1%} of its time was stolen by the hypervisor")
    if seen["low_priority"]:
        why.append("this ran at a low priority")
    return why


def in_words(seen):
    why = noise(seen)
    return (f"the machine was {'not quiet: ' + '; '.join(why) if why else 'quiet'} "
            f"(load average {seen['load_average']:.2f} before, stolen {seen['stolen']:.1%})")
