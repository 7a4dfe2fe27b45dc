#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What looks for RDMA devices in sysfs finds weft's, under `weft run`: unmodified programs, root's
and an ordinary user's; beside real hardware's; and nothing is left of it.

usage: sysfs.py BUILD HELPERS
"""
import os
import re
import signal
import subprocess
import sys
import time

import lab

CLONE_NEWNS = 0x20000
SHM = "/dev/shm"
TREES = "weft-sysfs-"
# A shell that has looked, and stays.
STAYS = "cd /sys/class/infiniband && while sleep 0.2; do :; done"
# An adapter of the kernel's, and hardware of the interface's: only a kernel could make them, so
# another /sys/class is there, in a mount namespace. All that there is below /sys/devices anywhere
# is "system".
HARDWARE = "/sys/devices/system"
SYSFS = f"""
set -e
t=$(mktemp -d)
mount -t tmpfs none "$t"
mkdir -p "$t/infiniband/mlx5_9/ports/1" "$t/infiniband_verbs/uverbs9" "$t/net/eth0"
echo 4: ACTIVE real > "$t/infiniband/mlx5_9/ports/1/state"
echo 6 > "$t/infiniband_verbs/abi_version"
ip -o link show eth0 | sed 's/.*ether \\([^ ]*\\).*/\\1/' > "$t/net/eth0/address"
ln -s {HARDWARE} "$t/net/eth0/device"
mount --bind "$t" /sys/class
exec "$@"
"""


def trees():
    return [n for n in os.listdir(SHM) if n.startswith(TREES)]


def outcome(r):
    return f"status {r.returncode}: {r.stdout}{r.stderr}"


class Looks:
    """How unmodified programs look, on a host with a device."""

    def __init__(self, host, run, device, address, helpers):
        self.host, self.run, self.device, self.address = host, run, device, address
        self.helpers = helpers

    def output(self, *argv, env=()):
        return self.host.run("env", *env, *self.run, *argv, timeout=60)

    def says(self, r, *wanted):
        """What is wrong with a run that should have these patterns in its output, or None."""
        missing = [w for w in wanted if not re.search(w, r.stdout, re.M)]
        return f"no {missing[0]!r}; {outcome(r)}" if missing or r.returncode else None

    def ibstat(self, _):
        return self.says(self.output("ibstat", self.device), f"CA '{self.device}'", "CA type: weft",
                         "State: Active", "Physical state: LinkUp", r"Rate: [1-9]",
                         "Link layer: Ethernet", "Node GUID: 0x[0-9a-f]{15}")

    def ibstatus(self, _):
        return self.says(self.output("ibstatus"), f"device '{self.device}' port 1", "4: ACTIVE",
                         r"Gb/sec", "link_layer:.*Ethernet",
                         "default gid:.*" + "%02x%02x:%02x%02x" % tuple(
                             map(int, self.address.split("."))))

    def lstopo(self, _):
        # hwloc leaves out what has no hardware unless told otherwise, network interfaces as well.
        return self.says(self.output("lstopo-no-graphics", "-v", env=["HWLOC_VIRTUAL_LINUX_OSDEV=1"]),
                         rf'OpenFabrics.*"?{self.device}"?', "Port1State=4", "NodeGUID=")

    def shell(self, _):
        return self.says(self.output(
            "sh", "-c", "cat /sys/class/infiniband/*/ports/1/state &&"
            "cd /sys/class/infiniband && ls && cd */ports/1 && cat gid_attrs/types/0 && pwd && "
            f"read -r ndev < /sys/class/infiniband/{self.device}/ports/1/gid_attrs/ndevs/0 && "
            'test "$ndev" && test -d /sys/class/infiniband_verbs'),
            "4: ACTIVE", f"^{self.device}$", "^RoCE v2$", "^/sys/class/infiniband/.*/ports/1")

    def ls(self, _):
        return self.says(self.output("ls", "-lR", f"/sys/class/infiniband/{self.device}/"),
                         "node_guid", "ports/1/gid_attrs:$")

    def calls(self, _):
        r = self.output(f"{self.helpers}/sysfs_look")
        return self.says(r, f"^{self.device}: 0 faults", "4: ACTIVE")

    def all(self):
        return {n: getattr(self, n) for n in ("ibstat", "ibstatus", "lstopo", "shell", "ls", "calls")}


def own_descriptors(look, path):
    """A script that numbers its descriptors, and one that closes all, are not disturbed."""
    lock = f"{path}/lock"
    r = look.output("bash", "-c", f"""
        look() {{ cat /sys/class/infiniband/{look.device}/ports/1/state; }}
        cd /sys/class/infiniband && look
        for fd in {{3..9}} {{10..250}}; do eval "exec $fd>>{lock}; echo mine >&$fd"; done
        look && grep -c mine {lock}""")
    return look.says(r, "^248$", "4: ACTIVE\n4: ACTIVE")


def no_mads(look, _):
    """What speaks to the subnet says at once that it cannot."""
    for program in ("sminfo", "ibnetdiscover"):
        begun = time.monotonic()
        r = look.output(program)
        if r.returncode == 0 or not r.stderr or time.monotonic() - begun > 10:
            return f"{program}: {outcome(r)}"
    return None


def changes(look, host):
    """What is read follows what happens to the interfaces."""
    def reads(what, want):
        return look.says(look.output("cat", f"/sys/class/infiniband/{look.device}/ports/1/{what}"),
                         want)

    holder = lab.Program(host, [*look.run, "sh", "-c", STAYS],
                         os.devnull)
    try:
        fault = reads("state", "^4: ACTIVE$")
        host.ip("addr", "add", "10.77.9.9/24", "dev", "eth0")
        host.ip("link", "add", "far0", "type", "veth", "peer", "name", "far1")
        host.ip("link", "set", "far0", "up")
        fault = fault or reads("gids/3", "ffff:0a4d:0909$") or reads("gid_attrs/types/3", "RoCE v2")
        fault = fault or look.says(look.output("ls", "/sys/class/infiniband"), "^weft_far0$")
        host.ip("link", "del", "far0")
        host.ip("addr", "del", "10.77.9.9/24", "dev", "eth0")
        host.ip("link", "set", "eth0", "down")
        fault = fault or reads("state", "^1: DOWN$") or reads("phys_state", "^3: Disabled$")
        host.ip("link", "set", "eth0", "up")
        host.ip("addr", "replace", "10.77.0.1/24", "dev", "eth0")
        if not fault and "far0" in look.output("ls", "/sys/class/infiniband").stdout:
            fault = "weft_far0 is still there"
        r = look.output("cat", f"/sys/class/infiniband/{look.device}/ports/1/gid_attrs/types/3")
        gone = r.returncode and ("No such file" in r.stderr or "Invalid argument" in r.stderr)
        return fault or (None if gone else f"the address that went: {r.stdout}{r.stderr}")
    finally:
        holder.kill()


def after_a_kill(look, host):
    """The next broker's tree is there at once, and the killed one's goes."""
    holder = lab.Program(host, [*look.run, "sh", "-c", STAYS],
                         os.devnull)
    try:
        if not lab.until(lambda: trees() and host.brokers(), 10):
            return "there is no tree"
        before = trees()
        for pid in host.brokers():
            os.kill(pid, signal.SIGKILL)
        lab.until(lambda: not host.brokers(), 5)
        fault = look.ibstat(None)
        left = set(before) & set(trees())
        return fault or (f"{left} is still there" if left else None)
    finally:
        holder.kill()


def goes(host):
    """With the broker."""
    lab.until(lambda: not host.brokers(), 10)
    return f"left: {trees()}" if host.brokers() or trees() else None


def only_named_so(look, _):
    """An interface may be called infiniband0: that is not asked of a broker."""
    r = look.output("cat", "/sys/class/net/infiniband0/address")
    if look.host.has_broker():
        return f"a broker was started: {outcome(r)}"
    return None


def looks_again(host, run, _):
    """Who has looked in vain, be it only because another broker was at its end, does so again."""
    two_looks = ('F=/sys/class/infiniband/weft_lo/ports/1/state; read A <$F; echo "$A"; read go; '
                 'read B <$F; echo "$B"')
    holder = lab.Program(host, ["python3", "-c", "import socket, time; s = socket.socket("
                                "socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 4791)); "
                                "print('bound', flush=True); time.sleep(60)"], os.devnull)
    lab.until(lambda: ":4791 " in host.run("ss", "-Huln").stdout, 10)
    p = subprocess.Popen(host.inside([*run, "bash", "-c", two_looks]), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    first = p.stdout.readline().strip()
    holder.kill()
    time.sleep(6)
    second = p.communicate("go\n", timeout=20)[0].strip()
    return None if (first, second) == ("", "4: ACTIVE") else f"{first!r}, {second!r}"


def no_place(look, _):
    """Where it can be laid out nowhere, everything is as it was."""
    script = "for d in /dev/shm /run /tmp; do mount -t tmpfs -o ro none $d; done; exec \"$@\""
    inside = ["unshare", "--mount", "--", "sh", "-c", script, "sh", *look.run]
    r = look.host.run(*inside, "ls", "/sys/class/infiniband")
    if r.returncode == 0 and look.device in r.stdout:
        return f"a tree where none can be: {outcome(r)}"
    return look.says(look.host.run(*inside, "ibv_devinfo"), look.device, "PORT_ACTIVE")


def beside_hardware(host, run, helpers):
    """In the listings, and in itself, a real device is what it was."""
    def look(*argv):
        return host.run("unshare", "--mount", "--", "sh", "-c", SYSFS, "sh", *run, *argv)

    r = look("sh", "-c", "ls /sys/class/infiniband; cat /sys/class/infiniband/mlx5_9/ports/1/state;"
             "cd /sys/class/infiniband/ && cat mlx5_9/ports/1/state && ls /sys/class/infiniband_verbs;"
             "cat /sys/class/infiniband_verbs/abi_version; ls -d /sys/class/infiniband/*/ports/1;"
             "ls /sys/class/net/eth0/device/infiniband")
    wanted = ("mlx5_9", "weft_eth0", "weft_lo", "4: ACTIVE real", "4: ACTIVE real", "uverbs9",
              "weft_eth0", "weft_lo", "6", "/sys/class/infiniband/mlx5_9/ports/1",
              "/sys/class/infiniband/weft_eth0/ports/1", "/sys/class/infiniband/weft_lo/ports/1",
              "weft_eth0")
    got = r.stdout.split("\n")[:-1]
    if sorted(got) != sorted([*wanted, "abi_version"]) or r.returncode:
        return outcome(r)
    r = look(f"{helpers}/sysfs_look", HARDWARE)
    return None if r.returncode == 0 else outcome(r)


def main():
    build, helpers = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    lab.enter()
    lab.need("ibstat", "ibstatus", "lstopo-no-graphics", "sminfo", "ibnetdiscover", "ibv_devinfo")
    # A place for the trees where nobody else's are.
    if lab.libc.unshare(CLONE_NEWNS) or os.system(
            f"mount --make-rprivate / && mount -t tmpfs -o mode=1777 none {SHM}"):
        lab.skip("no right to make a mount namespace here")
    report = lab.Report(build, "sysfs")
    run = [os.path.join(build, "weft"), "run", "--"]
    user = lab.ordinary_user()
    one, _ = lab.lab(1)
    left, right = lab.lab(2)
    root = Looks(left, run, "weft_eth0", left.address, helpers)

    for name, case in root.all().items():
        report.attempt(name, case)
    report.attempt("own descriptors", lambda p: own_descriptors(root, p))
    report.attempt("no MADs", lambda p: no_mads(root, p))
    report.attempt("changes", lambda _: changes(root, left))
    report.attempt("a broker that is killed", lambda _: after_a_kill(root, left))
    if user:
        own = Looks(one, [*user, *run], "weft_lo", one.address, helpers)
        for name, case in own.all().items():
            report.attempt(f"{name}, an ordinary user", case)
        keeper = lab.Program(left, [*run, "sh", "-c", STAYS],
                             os.devnull)
        lab.until(left.has_broker, 10)
        served = Looks(left, [*user, *run], "weft_eth0", left.address, helpers)
        for name in ("ibstat", "shell"):
            report.attempt(f"{name}, a user whom root's broker serves", served.all()[name])
        keeper.kill()
    else:
        report.skip("an ordinary user", "there is no other user here")
    report.attempt("it goes with the broker", lambda _: goes(left) or goes(one))
    report.attempt("an interface of the name", lambda p: only_named_so(root, p))
    report.attempt("looks again", lambda p: looks_again(one, run, p))
    report.attempt("no place for it", lambda p: no_place(root, p))
    report.attempt("beside hardware", lambda _: beside_hardware(right, run, helpers))
    report.everything_ends([one, left, right])
    report.finish()


main()
