# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Connections of which one side knows nothing any more: rebooted, or killed without a word."""
import json
import time

import cases
from cases import ACTIVE, PASSIVE
from lab import Failed, last_line
from nvme_cases import DISCONNECT, MIB, NQN, connect, export, random_file, serve, sha256

# What the kernel says of a peer that is gone, with reason.
GONE = ("I/O error", "timeout", "Buffer I/O", "rxe0: ", "keep-alive")


def case(name, directions, **kwargs):
    return cases.case(name, directions, crash=True, log_may_say=GONE, **kwargs)


def rpings(t, count):
    where = t.weft.address[t.family]
    return t.kernel.run(f"rping -c -a {where} -C {count} -V -v -S 1000", 60).stdout.count("ping data: ")


# The first: the queue pair numbers of a kernel that has just booted are those of the one before.
@case("host reset: comes back with the queue pair numbers it had, to nvme and to rping", (PASSIVE,))
def host_reset(t):
    p, image = serve(t)
    # Its keep-alive must not end the old association before the new host comes.
    t.kernel.shell(connect(t, "-k 120") + f"head -c {2 * MIB} /dev/urandom >/tmp/r\n"
                   "dd if=/tmp/r of=$disk bs=64k oflag=direct 2>/dev/null")
    written = sha256(t.weft, image, 2 * MIB)
    server = t.weft.listen(f"rping -s -P -a {t.weft.address[t.family]} -S 1000", 200, cm=7174)
    t.kernel.start(f"rping -c -a {t.weft.address[t.family]} -C 1000000 -S 1000", 100)
    time.sleep(2)
    t.kernel.reboot()
    tries = 1
    while t.lab.guest(t.kernel.guest, connect(t)).returncode:
        tries += 1
        if tries > 5:
            raise Failed(f"the host that was reset does not connect: {last_line(p.output)}")
    seen = t.kernel.shell("disk=$(ls /dev/nvme*n1)\ndd if=$disk of=/tmp/r bs=64k count=32 iflag=direct "
                          "2>/dev/null && sha256sum </tmp/r\n" + DISCONNECT).split()[0]
    if seen != written:
        raise Failed("what was written before the reset is not what is read after it")
    if rpings(t, 5) != 5 and rpings(t, 5) != 5:
        raise Failed("no pings after the reset")
    for program in (p, server):
        if not program.running():
            raise Failed(f"it ended: {last_line(program.output)}")
    return f"nvme connected at attempt {tries}"


# Of a host that is alive, with every queue pair number that it may have by now.
@case("forged restarts of a host: it is asked whether it lives, and goes on", (PASSIVE,))
def forged_restarts(t):
    p, _ = serve(t)
    t.kernel.shell(connect(t, "-k 120 -c 1 -l 0") + "echo $disk >/tmp/disk\n"
                   "(dd if=$disk of=/dev/null bs=4k iflag=direct && echo well >/tmp/read) >/dev/null 2>&1 &")
    guid = t.kernel.shell("cat /sys/class/infiniband/rxe0/node_guid").strip().replace(":", "")
    for _ in range(3):
        t.weft.shell(f"{t.lab.hostile_cm} stale {t.kernel.address[4]} {t.weft.address[4]} 4420 256 500 "
                     f"0x{guid} 1")
    time.sleep(3)  # the questions have been asked
    t.kernel.shell("dd if=$(cat /tmp/disk) of=/dev/null bs=64k count=32 iflag=direct 2>/dev/null || exit 1\n"
                   "dmesg | grep -q 'nvme.*reconnect' && exit 1\n" + DISCONNECT)
    if not p.running():
        raise Failed(f"it ended: {last_line(p.output)}")


def bench_through(t, uri, trouble):
    """weft bench reads while trouble() happens, and has to come to its end; its JSON."""
    # Of a machine that is silent TCP knows nothing for long; the keep-alive ends that.
    p = t.weft.start_tool("bench", uri, "--rw", "randread", "--iodepth", 8, "--runtime", 25 if t.tcp else 12,
                          "--keep-alive-tmo", 5, "--ctrl-loss-tmo", 60, "-o", "json")
    time.sleep(3)
    if not p.running():
        raise Failed(f"bench: {last_line(p.output)}")
    trouble()
    status = p.wait(100)
    if status:
        raise Failed(f"bench: {last_line(p.output)} (status {status})")
    return json.loads(p.output[p.output.index("{"):])


@case("nvme target reset: weft's host waits and goes on", (ACTIVE,), nvme=True)
def target_reset(t):
    uri = export(t)

    def reset():
        t.kernel.reboot()
        export(t)

    found = bench_through(t, uri, reset)
    if found["reconnects"] < 1:
        raise Failed("no reconnect, though the target was reset")
    source = random_file(t, "source", MIB)
    t.weft.tool("cp", "--verify", source, uri)
    return f"{found['reconnects']} reconnects"


@case("weft's machine dies as the host: the kernel's target takes it back", (ACTIVE,), nvme=True)
def weft_host_dies(t):
    uri = export(t)
    t.kernel.shell("dmesg -C")
    p = t.weft.start_tool("bench", uri, "--rw", "randread", "--iodepth", 8, "--runtime", 60,
                          "--keep-alive-tmo", 5)
    time.sleep(3)
    if not p.running():
        raise Failed(f"bench: {last_line(p.output)}")
    t.weft.die()
    source = random_file(t, "source", MIB)
    t.weft.tool("cp", "--verify", source, uri)
    if sha256(t.kernel, "/dev/ram0", MIB) != sha256(t.weft, source, MIB):
        raise Failed("what lies in the guest differs from what was written")
    # The dead one's controller goes when its keep-alive runs out; by iWARP and TCP its connections have ended with it.
    if not t.weft.iwarp and not t.tcp:
        t.kernel.await_there("dmesg | grep -q 'ctrl .* keep-alive timer .* expired'", "the end of the dead controller")


@case("weft's machine dies as the target: the kernel's host comes back", (PASSIVE,), nvme=True)
def weft_target_dies(t):
    serve(t)
    t.kernel.shell(connect(t, "-k 5 -c 1") + f"head -c {2 * MIB} /dev/urandom >/tmp/r\n"
                   "dd if=/tmp/r of=$disk bs=64k oflag=direct 2>/dev/null; echo $disk >/tmp/disk")
    t.weft.die()
    time.sleep(1)
    serve(t)
    t.kernel.shell("timeout 60 dd if=$(cat /tmp/disk) of=/tmp/r2 bs=64k count=32 iflag=direct "
                   "2>/dev/null && cmp /tmp/r /tmp/r2 || exit 1\n" + DISCONNECT, 100)


for name_, directions_, function_ in (
        ("nvme target reset: weft's host waits and goes on", (ACTIVE,), target_reset),
        ("weft's machine dies as the host: the kernel's target takes it back", (ACTIVE,), weft_host_dies),
        ("weft's machine dies as the target: the kernel's host comes back", (PASSIVE,), weft_target_dies)):
    case("NVMe/TCP: " + name_, directions_, tcp=True)(function_)


@case("rping killed in the middle: the other ends, and a new pair connects", (ACTIVE, PASSIVE))
def rping_killed(t):
    """The direction says who connects; the passive side is the one that is killed."""
    where = t.passive.address[t.family]
    server = t.passive.listen(f"rping -s -a {where} -S 1000", 100, cm=7174)
    client = t.active.start(f"rping -c -a {where} -C 1000000 -S 1000", 100)
    time.sleep(3)
    if not client.running() or not server.running():
        raise Failed(f"they do not talk: {last_line(client.output + server.output)}")
    t.passive.kill("rping")
    begun = time.monotonic()
    try:
        client.wait(30)
    except Failed:
        # A receive that is posted behind the end is never flushed: docs/siw.md.
        if not t.weft.iwarp or t.active is t.weft or client.output.count("DISCONNECT EVENT") != 1:
            raise
    ended = time.monotonic() - begun
    server = t.passive.listen(f"rping -s -a {where} -C 5 -V -v -S 1000", 60, cm=7174)
    again = t.active.run(f"rping -c -a {where} -C 5 -V -v -S 1000", 60)
    server.wait(20)
    if again.stdout.count("ping data: ") != 5:
        raise Failed(f"afterwards {again.stdout.count('ping data: ')} of 5 pings")
    return f"it ended within {ended:.0f} s"


# No part of the matrix: that it goes on behind a guest that died is what is tried.
@cases.case("the guest's kernel panics", (PASSIVE,), panic=True)
def panic(t):
    t.kernel.shell("(sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &")
    t.kernel.shell("sleep 20")
