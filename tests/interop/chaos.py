#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Two hosts under mixed, verified load, and random faults from a seed: of programs, link and disks.

usage: chaos.py BUILD HELPERS [--minutes N] [--seed N] [--loads RE] [--faults RE]

The hosts are network namespaces joined by a link that loses, damages and delays (bad_link.c); the
disks of the targets fail when told to (bad_disk.c). chaos_loads.py has what runs.

Held all the time: whatever verifies, verifies right; nobody dies of a signal that was not sent;
nobody runs on past the limit of its load; whoever is not touched by a fault goes on. Held when the
storm is over: every load runs well once more; memory, descriptors and threads of what ran all the
time are back where they were; everything ends when asked, and the brokers by themselves. A seed
gives the same faults in the same order; whom they meet, and when, is also the machine's doing. On a
build with sanitizers (--loads '^bench|copy': what is not weft's own cannot load their runtime) no report.
"""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import chaos_loads
import lab

HEALING_SECONDS = 20   # after a fault: resends, reconnects at most seconds apart
STORE_THREADS = 4      # a target's, made when there is first so much to do at once (store/pool.c)
SETTLE_SECONDS = 90    # for memory and descriptors to come back; crowd.c gives up after 75
BROKER_SECONDS = 15
NASTY = re.compile(r"is wrong: |AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error: |"
                   r"Assertion|assertion failed|another's message|WRONG DATA")


class Link:
    """bad_link between two hosts, eth0 in each."""

    def __init__(self, helper, hosts, seed):
        self.hosts, self.state = hosts, {}
        self.process = subprocess.Popen(
            [helper, *(str(h.holder.pid) for h in hosts), str(seed & 0xffffffff)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=lab.die_with_parent)
        if self.process.stdout.readline() != "up\n":
            lab.skip("cannot make a TAP device (/dev/net/tun)")
        for h in hosts:
            self.restore(h)

    def restore(self, h):
        """Addresses and MTU as they should be, whatever became of them."""
        h.ip("link", "set", "eth0", "mtu", "1500")
        h.ip("link", "set", "eth0", "up")
        h.ip("addr", "replace", f"{h.address}/24", "dev", "eth0")
        h.ip("addr", "replace", f"{h.address6}/64", "dev", "eth0", "nodad")

    def set(self, **state):
        """Faults that come together each have their say; the answer is read, so it holds now."""
        self.state.update(state)
        self.process.stdin.write(" ".join(f"{k}={v}" for k, v in self.state.items()) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- faults --------------------------------------------------------------------------------------
#
# A fault is a generator: it does its harm, yields for how long, and mends it. What it touches it
# says beforehand: a set of groups, or None for everybody.

def kill(storm, victim):
    """kill -9, or a polite SIGTERM; a server comes back on the same image and port."""
    victim.signal(storm.fault_rng.choice(("KILL", "KILL", "TERM")))
    yield storm.fault_rng.uniform(0, 3)
    victim.revive()


def stop(storm, victim):
    victim.signal("STOP")
    yield storm.fault_rng.choice((1, 3, 8, storm.longest))
    victim.signal("CONT")


def cut(storm, _):
    storm.link.set(cut=storm.fault_rng.choice((1, 2, 3)))
    yield storm.fault_rng.choice((0.5, 2, 6, storm.longest / 2))
    storm.link.set(cut=0)


def bad_line(storm, _):
    rng = storm.fault_rng
    state = {"loss": rng.choice((0, 2, 20, 50)), "dup": rng.choice((0, 0, 20)),
             "corrupt": rng.choice((0, 0, 5, 20)), "reorder": rng.choice((0, 0, 20)),
             "delay": rng.choice((0, 0, 1, 20)), "jitter": rng.choice((0, 0, 3))}
    storm.link.set(**state)
    yield rng.uniform(2, 10)
    storm.link.set(**dict.fromkeys(state, 0))


def link_down(storm, _):
    host = storm.fault_rng.choice(storm.hosts)
    host.ip("link", "set", "eth0", "down")
    yield storm.fault_rng.choice((0.3, 2, 8))
    storm.link.restore(host)


def mtu(storm, _):
    hosts = storm.fault_rng.choice(([storm.hosts[0]], [storm.hosts[1]], storm.hosts))
    size = storm.fault_rng.choice((1280, 1400, 2000, 4500, 9000))
    for h in hosts:
        h.ip("link", "set", "eth0", "mtu", str(size))
    yield storm.fault_rng.uniform(1, 8)
    for h in hosts:
        storm.link.restore(h)


def address(storm, _):
    host = storm.fault_rng.choice(storm.hosts)
    host.run("ip", "addr", "del", f"{host.address}/24", "dev", "eth0")  # if it is still there
    yield storm.fault_rng.choice((0.2, 1, 5))
    storm.link.restore(host)


def bad_disk(storm, victim):
    victim.disk(storm.fault_rng.choice("ensh"))
    yield storm.fault_rng.choice((0.5, 3, 15))
    victim.disk("g")


def broker_stopped(storm, _):
    brokers = storm.fault_rng.choice(storm.hosts).brokers()
    for pid in brokers:
        os.kill(pid, signal.SIGSTOP)
    # Who asks it something waits, for a minute at the most (broker/client.c).
    yield storm.fault_rng.choice((0.5, 2, 12))
    for pid in brokers:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def broker_killed(storm, _):
    for pid in storm.fault_rng.choice(storm.hosts).brokers():
        os.kill(pid, signal.SIGKILL)
    yield 1.0


# name, generator, whose it is: a server, a running load, a target, or everybody
FAULTS = [
    ("kill a server", kill, "server"), ("kill a program", kill, "program"),
    ("stop a server", stop, "server"), ("stop a program", stop, "program"),
    ("cut", cut, None), ("bad line", bad_line, None), ("bad line", bad_line, None),
    ("link down", link_down, None), ("mtu", mtu, None), ("address", address, None),
    ("bad disk", bad_disk, "target"), ("stop a broker", broker_stopped, None),
    ("kill a broker", broker_killed, None),
]


class Fault:
    def __init__(self, storm, name, generator, whose):
        victims = storm.victims(whose)
        victim = storm.fault_rng.choice(victims) if victims else None
        self.name = f"{name}: {victim.name}" if victim else name
        self.groups = {victim.group} if whose and victim else None
        self.begun, self.ended = time.monotonic(), None
        self.body = generator(storm, victim) if victim or not whose else iter(())
        self.due = self.begun + next(self.body, 0)

    def finish(self):
        next(self.body, None)
        self.ended = time.monotonic()


# ---- the storm -----------------------------------------------------------------------------------

def descriptors_of(pid):
    """How many of each kind. Not counted are UDP sockets: one to send from is kept for each of the
    256 slots of the hosts that were spoken to (port/udp/udp_tx.c)."""
    udp, kinds = set(), {}
    for table in ("udp", "udp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as f:
            udp |= {f"socket:[{line.split()[9]}]" for line in f.readlines()[1:]}
    for target in lab.open_files(pid):
        if target not in udp:
            kind = re.sub(r":\[\d+\]", "", target)
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def usage_of(pid):
    """Resident KiB, descriptors, threads; None if it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            status = dict(line.split(":", 1) for line in f)
        return (int(status["VmRSS"].split()[0]), sum(descriptors_of(pid).values()),
                int(status["Threads"]))
    except (OSError, KeyError):
        return None


class Storm:
    def __init__(self, args, scratch):
        self.build, self.helpers = os.path.abspath(args.build), os.path.abspath(args.helpers)
        self.weft = os.path.join(self.build, "weft")
        self.seed, self.scratch = args.seed, scratch
        self.fault_rng = random.Random(f"{args.seed} faults")
        self.longest = 60 if args.minutes >= 15 else 15
        a, b = (lab.Host("left", "10.77.0.1", "fd77::1"), lab.Host("right", "10.77.0.2", "fd77::2"))
        self.hosts = [a, b]
        self.link = Link(os.path.join(self.helpers, "bad_link"), self.hosts, args.seed)
        self.report = lab.Report(args.build, "chaos")
        self.path = self.report.case("storm")
        self.faults, self.past, self.wrong, self.runs, self.blown = [], [], [], {}, 0
        self.servers = chaos_loads.servers(self)
        self.loads = [l for l in chaos_loads.loads(self) if re.search(args.loads, l.name)]
        groups = {l.group for l in self.loads}
        self.servers = [s for s in self.servers if s.group in groups or s.always]
        self.kinds = [f for f in FAULTS if re.search(args.faults, f[0])]
        self.started = time.monotonic()

    def say(self, text):
        print(f"{time.monotonic() - self.started:7.1f}s {text}", flush=True)

    def complain(self, text):
        self.wrong.append(text)
        self.say(f"WRONG: {text}")

    def victims(self, whose):
        return {"server": self.servers, "target": [s for s in self.servers if s.image],
                "program": [l for l in self.loads if l.running()], None: []}[whose]

    def disturbed(self, group, since):
        """The faults that touched a group since then, or shortly before."""
        return [f for f in self.past + self.faults if (not f.groups or group in f.groups)
                and (f.ended is None or f.ended + HEALING_SECONDS > since)]

    def held_up(self, group, since):
        """For how long, in all, the faults that touched it lasted."""
        now = time.monotonic()
        return sum((f.ended or now) - max(f.begun, since) for f in self.disturbed(group, since)
                   if (f.ended or now) > since)

    def judge(self, load):
        """A load's programs have ended, or its time is up."""
        since, limit = load.began, load.limit
        faults = self.disturbed(load.group, since)
        status = load.status()
        if status is None:
            late = time.monotonic() - since - limit - self.held_up(load.group, since)
            if late < 0:
                return
            if faults and not load.ends_always:
                self.count(load, "left")
            else:
                self.complain(f"{load.label()} still runs {limit:.0f} s after its start, faults "
                              f"not counted ({', '.join(f.name for f in faults) or 'none'})")
            load.finish()
            return
        nasty, fault = self.nasty(load.output()), load.fault_beside()
        if nasty:
            self.complain(f"{load.label()}: {nasty!r} in {load.log}")
        elif fault:
            self.complain(f"{load.label()}, its other end: {fault}")
        elif status == 0:
            self.count(load, "well")
        elif status < 0 and -status not in load.signals:
            self.complain(f"{load.label()} died of signal {-status}")
        elif faults or load.starved or (load.may_say and load.may_say in load.output()):
            self.count(load, "failed")
        else:
            self.complain(f"{load.label()} ended with {status}, and no fault touched it "
                          f"({load.log})")
        load.finish(keep=status != 0 or fault)

    @staticmethod
    def nasty(output):
        """What no program may say, whatever befalls it."""
        found = NASTY.search(output)
        return found and found.group(0)

    def count(self, load, how):
        self.runs.setdefault(load.name, {}).setdefault(how, 0)
        self.runs[load.name][how] += 1

    def step(self, start_loads, one_each=None):
        for s in self.servers:
            s.look()
        for l in self.loads:
            if l.began is not None:
                self.judge(l)
            elif start_loads and (one_each is None or l in one_each):
                l.start()
                if one_each:
                    one_each.remove(l)
        time.sleep(0.05)

    def drain(self):
        """Until every load has ended."""
        while any(l.began is not None for l in self.loads):
            self.step(False)

    def blow(self, seconds):
        end = time.monotonic() + seconds
        calm = time.monotonic() + 1
        while time.monotonic() < end:
            now = time.monotonic()
            for f in [f for f in self.faults if f.due <= now]:
                f.finish()
                self.faults.remove(f)
                self.past.append(f)
                calm = now + self.fault_rng.choice((0, 1, 4, HEALING_SECONDS + 5))
            if self.kinds and now >= calm and len(self.faults) < 2:
                fault = Fault(self, *self.fault_rng.choice(self.kinds))
                self.say(f"{fault.name} for {fault.due - now:.1f} s")
                self.faults.append(fault)
                self.blown += 1
                calm = now + self.fault_rng.choice((1, 5, 60))
            self.step(True)
        for f in self.faults:
            f.finish()
        self.past += self.faults
        self.faults = []
        self.link.set(**dict.fromkeys(self.link.state, 0))
        for h in self.hosts:
            self.link.restore(h)

    # -- what is held at the end

    def long_lived(self):
        return {**{s.name: s.pid() for s in self.servers},
                **{f"broker of {h.name}": pid for h in self.hosts for pid in h.brokers()}}

    def usage(self):
        return {name: usage_of(pid) for name, pid in self.long_lived().items()}

    def back_to(self, base):
        """Who has more than it had, as text, or None."""
        for name, now in self.usage().items():
            had = base.get(name)
            if not had or not now:
                continue
            if now[0] > had[0] * 1.3 + 6 * 1024:
                return f"{name} has {now[0]} KiB, and had {had[0]}"
            if now[1] > had[1] + 2 or now[2] > had[2] + STORE_THREADS:
                return f"{name} has {now[1]} descriptors and {now[2]} threads, had {had[1:]}: " \
                       + str(descriptors_of(self.long_lived()[name]))
        return None

    def run(self, seconds):
        for s in self.servers:
            s.start()
        if not lab.until(lambda: all(s.up() for s in self.servers), 30):
            raise AssertionError("the servers do not come up")
        # Everything once or twice, undisturbed: that is also what memory is compared with.
        for _ in range(2):
            todo = list(self.loads)
            while todo:
                self.step(True, todo)
            self.drain()
        time.sleep(3)
        base = {name: usage for name, usage in self.usage().items() if usage}
        for name, (rss, fds, threads) in base.items():
            self.say(f"{name}: {rss} KiB, {fds} descriptors, {threads} threads")
        self.blow(seconds)
        self.say("the storm is over")
        self.drain()
        time.sleep(HEALING_SECONDS)
        self.past = []
        todo = list(self.loads)
        while todo:
            self.step(True, todo)
        self.drain()
        if not lab.until(lambda: not self.back_to(base), SETTLE_SECONDS, 1):
            self.complain(self.back_to(base) or "what had too much has let go of it just now")
        for name, (rss, fds, threads) in ((n, u) for n, u in self.usage().items() if u):
            self.say(f"{name}: {rss} KiB, {fds} descriptors, {threads} threads")
        for s in self.servers:
            s.expected = False
            s.program.process.terminate()
        for s in self.servers:
            s.see_it_end()
            s.program.kill()
            if NASTY.search(s.program.output()):
                self.complain(f"{s.name}: {NASTY.search(s.program.output()).group(0)!r} ({s.log})")
        if not lab.until(lambda: not any(h.has_broker() for h in self.hosts), BROKER_SECONDS):
            self.complain(f"a broker is still there {BROKER_SECONDS} s after its last client")

    def close(self):
        for l in self.loads:
            l.finish()
        for s in self.servers:
            s.kill()
        self.link.close()
        for h in self.hosts:
            for line in h.close():
                self.complain(f"left on {h.name}: {line}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("--minutes", type=float, default=1)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--loads", default="", metavar="RE")
    p.add_argument("--faults", default="", metavar="RE")
    args = p.parse_args()
    # What AddressSanitizer keeps of freed memory would pass for a leak.
    os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=1")
    lab.enter()
    lab.need("ip", "prlimit", "setsid", "rping", "ib_write_bw", "ibv_rc_pingpong", "python3")
    again = f"{sys.argv[0]} {args.build} {args.helpers} --minutes {args.minutes:g} " \
            f"--seed {args.seed}" + "".join(
                f" --{n} '{v}'" for n, v in (("loads", args.loads), ("faults", args.faults)) if v)
    print(f"replay: {again}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        storm = Storm(args, scratch)
        try:
            storm.run(args.minutes * 60)
        finally:
            storm.close()
    for name, runs in sorted(storm.runs.items()):
        print(f"     {name}: " + ", ".join(f"{n} {how}" for how, n in runs.items()))
    if storm.wrong:
        for log in os.listdir(storm.path):
            one = log.replace("-other.log", ".log")  # of a pair, what either says
            if not any(f"/{one}" in w for w in storm.wrong):
                os.unlink(os.path.join(storm.path, log))
        storm.report.fail("storm", storm.path, f"{len(storm.wrong)} things; replay: {again}")
    else:
        storm.report.ok("storm", storm.path, f"{storm.blown} faults")
    storm.report.finish()


main()
