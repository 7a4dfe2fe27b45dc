#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What other users make beside the tree that root's broker lays out, and in its place, is neither
entered, nor shown as /sys, nor does it keep the tree from going.

usage: hostile_sysfs.py BUILD
"""
import os
import signal
import sys
import time

import lab

CLONE_NEWNS = 0x20000
SHM = "/dev/shm"
TREES = "weft-sysfs-"
AGAIN_SECONDS = 10


def trees(where=SHM):
    return [os.path.join(where, n) for n in os.listdir(where) if n.startswith(TREES)]


def outcome(r):
    return f"status {r.returncode}: {r.stdout}{r.stderr}"


class Scene:
    def __init__(self, host, build, stranger):
        self.host, self.stranger = host, stranger
        self.weft = os.path.join(build, "weft")
        self.run = [self.weft, "run", "--"]

    def look(self, *argv):
        return self.host.run(*self.run, *argv, timeout=60)

    def sh(self, script, before=(), timeout=60):
        """With $RUN and $STRANGER to be put before a command; in mounts of its own."""
        env = [f"RUN={' '.join(self.run)}", f"STRANGER={' '.join(self.stranger)}"]
        return self.host.run(*before, "env", *env, "unshare", "--mount", "--", "sh", "-c", script,
                             timeout=timeout)

    def keeper(self):
        """Who has looked, and stays."""
        return lab.Program(self.host, [*self.run, "sh", "-c",
                                       "cd /sys/class/infiniband && while sleep 0.2; do :; done"],
                           os.devnull)

    def left(self):
        gone = lab.until(lambda: not self.host.brokers() and not trees(), 10)
        return None if gone else f"left: {self.host.brokers()} {trees()}"


def other_mounts(scene, _):
    """Of the same name, where the broker's is not to be seen."""
    keeper = scene.keeper()
    try:
        if not lab.until(trees, 10):
            return "there is no tree"
        tree = trees()[0]
        r = scene.sh(f"""
            mount -t tmpfs -o mode=1777 none {SHM}
            $STRANGER mkdir -p {tree}/class/infiniband/evil || exit 9
            $RUN ls /sys/class/infiniband""")
        # What is there without the tree: what the kernel has, or no such directory.
        good = r.returncode == 0 or r.returncode == 2 and "No such file" in r.stderr
        return None if good and "evil" not in r.stdout + r.stderr else outcome(r)
    finally:
        keeper.kill()


def out_of_the_tree(scene, _):
    """".." leads where it leads from /sys, not to what is beside the tree."""
    r = scene.sh(f"""
        mkdir -p /tmp/infiniband-real && echo real > /tmp/infiniband-real/f
        $STRANGER mkdir -p {SHM}/tmp/infiniband-real {SHM}/etc || exit 9
        echo evil | $STRANGER tee {SHM}/tmp/infiniband-real/f {SHM}/etc/weft-evil >/dev/null
        $RUN cat /sys/devices/virtual/../../../tmp/infiniband-real/f
        $RUN cat /sys/class/infiniband/weft_eth0/../../../../../etc/weft-evil
        $RUN cat /sys/class/infiniband/../../../etc/weft-evil
        $RUN cat /sys/class/infiniband/weft_eth0/../weft_eth0/node_type
        rm -r /tmp/infiniband-real {SHM}/tmp {SHM}/etc""")
    return None if r.stdout == "real\n1: CA\n" else outcome(r)


def alike(scene, _):
    """A directory that is called as if it were a tree is no part of /sys."""
    r = scene.sh(f"""
        mount -t tmpfs none /mnt
        for d in /mnt/{TREES}notes/class /mnt/{TREES}abcdef/classes; do
            mkdir -p "$d"; (cd "$d" && $RUN /bin/pwd && $RUN realpath .)
        done
        d={SHM}/{TREES}abcdef/class
        $STRANGER mkdir -p $d || exit 9
        (cd $d && $RUN /bin/pwd)
        rm -r {SHM}/{TREES}abcdef""")
    return outcome(r) if "/sys" in r.stdout or r.returncode or len(r.stdout.split()) != 5 else None


def locked(scene, _):
    """Whoever waits for the lock of a broker that is killed does not keep its tree."""
    keeper = scene.keeper()
    try:
        if not lab.until(trees, 10):
            return "there is no tree"
        before = trees()
        waits = lab.Program(scene.host, [*scene.stranger, "flock", "-F", "-s", before[0], "sleep", "60"],
                            os.devnull)
        time.sleep(0.3)
        for pid in scene.host.brokers():
            os.kill(pid, signal.SIGKILL)
        lab.until(lambda: not scene.host.brokers(), 5)
        time.sleep(0.3)
        r = scene.look("ls", "/sys/class/infiniband")
        waits.kill()
        left = set(before) & set(trees())
        return f"{left} is still there" if left else None if r.returncode == 0 else outcome(r)
    finally:
        keeper.kill()


def taken_over(scene, _):
    """Of a tree that somebody has moved nothing is removed but the tree."""
    keeper = scene.keeper()
    try:
        if not lab.until(trees, 10):
            return "there is no tree"
        tree, moved = trees()[0], f"{SHM}/moved"
        os.rename(tree, moved)
        scene.host.run(*scene.stranger, "mkdir", "-p", f"{tree}/class/mine")
        keeper.kill()
        lab.until(lambda: not scene.host.brokers(), 10)
        fault = None if os.path.isdir(f"{tree}/class/mine") else "the stranger's is removed"
        if not fault and os.listdir(moved):
            fault = f"left: {os.listdir(moved)}"
        os.system(f"rm -rf {tree} {moved}")
        return fault
    finally:
        keeper.kill()


def full(scene, _):
    """Where there is no room it stands in the next place."""
    r = scene.sh(f"""
        mount -t tmpfs -o mode=1777,nr_inodes=40 none {SHM}
        mount -t tmpfs none /run
        $RUN sh -c 'cat /sys/class/infiniband/weft_eth0/node_type; ls -d /run/{TREES}*'
        ls {SHM}""")
    return None if r.stdout.startswith("1: CA\n/run/") and r.stdout.count(TREES) == 1 else outcome(r)


def nowhere(scene, _):
    """Where there is room nowhere, it is not tried again at each question."""
    r = scene.sh(f"""
        for d in {SHM} /run /tmp; do mount -t tmpfs -o mode=1777,nr_inodes=40 none $d; done
        look() {{ $RUN cat /sys/class/infiniband/weft_eth0/node_type 2>&1; }}
        {scene.weft} broker -f & broker=$!
        sleep 1; look
        mount -o remount,nr_inodes=4000 {SHM}
        look
        sleep {AGAIN_SECONDS}; look
        kill $broker; wait""")
    said = [l for l in r.stdout.splitlines() if "node_type" in l or l == "1: CA"]
    return None if ["CA" in l for l in said] == [False, False, True] else outcome(r)


def broker_below_run(scene, _):
    """A broker that a program of `weft run` starts does not ask itself."""
    broker = lab.Program(scene.host, [*scene.run, scene.weft, "broker", "-f"], os.devnull)
    try:
        lab.until(scene.host.has_broker, 10)
        begun = time.monotonic()
        r = scene.look("ls", "/sys/class/infiniband")
        if r.returncode or time.monotonic() - begun > 5:
            return f"after {time.monotonic() - begun:.1f} s: {outcome(r)}"
        scene.host.ip("link", "add", "far0", "type", "veth", "peer", "name", "far1")
        scene.host.ip("link", "set", "far0", "up")
        scene.look("ls", "/sys/class/infiniband/weft_far0/")
        scene.host.ip("link", "del", "far0")
        scene.look("ls", "/sys/class/infiniband")
        left = [d for t in trees() for d, _, _ in os.walk(t) if d.endswith("weft_far0")]
        return f"left: {left}" if left else None
    finally:
        os.kill(broker.pid, signal.SIGTERM)
        broker.wait(5)


def main():
    build = os.path.abspath(sys.argv[1])
    lab.enter()
    lab.need("flock")
    if lab.libc.unshare(CLONE_NEWNS) or os.system(
            f"mount --make-rprivate / && mount -t tmpfs -o mode=1777 none {SHM}"):
        lab.skip("no right to make a mount namespace here")
    report = lab.Report(build, "hostile-sysfs")
    stranger = lab.ordinary_user()
    host, other = lab.lab(2)
    scene = Scene(host, build, stranger)
    cases = {"it has no room": full, "it has room nowhere": nowhere,
             "a broker below weft run": broker_below_run}
    if stranger:
        cases = {"other mounts": other_mounts, "out of the tree": out_of_the_tree,
                 "a name alike": alike, "a lock": locked,
                 "a name taken over": taken_over, **cases}
    else:
        report.skip("strangers", "there is no other user here")
    for name, case in cases.items():
        report.attempt(name, lambda p, case=case: case(scene, p) or scene.left())
    report.everything_ends([host, other])
    report.finish()


main()
