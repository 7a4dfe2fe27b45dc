#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The units of systemd, as they are installed, in a system that systemd has booted.

usage: booted.py BUILD [--only WORD]

The system is a container of namespaces: this machine's files below a layer that goes with it, which has what is installed; a cgroup of its own; systemd is its process 1 and starts the journal and what a case asks for. Nothing of it is seen
outside. Only root can make one.
"""
import argparse
import contextlib
import json
import os
import signal
import subprocess
import tempfile

import lab
from installed import stage

NQN = "nqn.2026-11.org.weft:booted"
SYSTEMD = "/lib/systemd/systemd"
MADE = "the container is made"
# Of what a system starts the journal alone: all else is this machine's, and its kernel's.
CONTAINER = r"""
set -e
lab=$1 installed=$2
mount -t tmpfs lab "$lab"
mkdir "$lab/upper" "$lab/work" "$lab/root"
chmod 755 "$lab/upper"
cat >"$lab/inside" <<'INSIDE'
set -e
root=$1/root
umask 022
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" root "$root"
tar -C "$2" -c . | tar -C "$root" -x --keep-directory-symlink --no-overwrite-dir
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sys "$root/sys"
mount -t cgroup2 cgroup "$root/sys/fs/cgroup"
for d in run tmp dev; do mount -t tmpfs -o mode=755 $d "$root/$d"; done
chmod 1777 "$root/tmp"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 pts "$root/dev/pts"
mount -t tmpfs shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
for d in null zero full random urandom; do
	: >"$root/dev/$d"
	mount --bind /dev/$d "$root/dev/$d"
done
units=$root/etc/systemd/system
rm -rf "${units:?}" "${root:?}"/etc/weft "${root:?}"/var/lib/weft "${root:?}"/etc/default/weft-serve
mkdir -p "$units" "$root/run/systemd/journald.conf.d" "$root/srv" "$root/mnt"
for wants in "$root"/lib/systemd/system/{sysinit,sockets,local-fs,basic,timers,multi-user}.target.wants; do
	[ -d "$wants" ] || continue
	for unit in $(ls "$wants"); do
		case $unit in
		systemd-journald.* | systemd-journald-dev-log.socket | systemd-tmpfiles-setup.service) ;;
		*) ln -sf /dev/null "$units/$unit" ;;
		esac
	done
done
ln -sf /dev/null "$units/tmp.mount"
: >"$root/etc/fstab"
mkdir -p "$root/run/systemd/system-generators"
for g in "$root"/lib/systemd/system-generators/* "$root"/etc/systemd/system-generators/*; do
	ln -sf /dev/null "$root/run/systemd/system-generators/$(basename "$g")"
done
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' >"$root/run/systemd/journald.conf.d/lab.conf"
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' >"$units/lab.target"
hostname booted
cd "$root"
pivot_root . mnt
umount -l /mnt
export container=lab PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
echo "the container is made"
exec setpriv --bounding-set=-sys_module,-sys_time,-sys_rawio,-sys_boot,-mknod,-syslog \
	/lib/systemd/systemd --unit=lab.target --log-target=console --show-status=no
INSIDE
mkdir "$lab/cgroup"
mount -t cgroup2 cgroup "$lab/cgroup"
cgroup=$lab/cgroup$3
mkdir "$cgroup"
echo $$ >"$cgroup/cgroup.procs"
exec unshare --pid --uts --ipc --cgroup --mount --fork --kill-child bash "$lab/inside" "$lab" "$installed"
"""


def own_cgroup():
    with open("/proc/self/cgroup", encoding="ascii") as f:
        for line in f:
            if line.startswith("0::"):
                return line.strip()[3:]
    return None


# In sight of nobody else; those of scripts that were killed, too.
REMOVE = r"""
mount -t cgroup2 cgroup "$1" && cd "$1/$2" || exit 0
for group in weft-booted-*; do
	pid=${group##*-}
	[ "$pid" = "$3" ] || ! kill -0 "$pid" 2>/dev/null || continue
	[ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
done
[ ! -d "weft-booted-$3" ]
"""


def remove_cgroup(below, pid):
    """That of this script, with those below it: whether it has gone, as it does once all that was in it has ended."""
    with tempfile.TemporaryDirectory() as at:
        return subprocess.run(["unshare", "--mount", "--", "sh", "-c", REMOVE, "sh", at, below, str(pid)],
                              capture_output=True, check=False).returncode == 0


class Booted:
    """The system, from the constructor to off()."""

    def __init__(self, host, build, tmp, log):
        self.host, self.pid = host, None
        installed, lab_dir = os.path.join(tmp, "installed"), os.path.join(tmp, "lab")
        os.mkdir(installed)
        os.mkdir(lab_dir)
        where, why = stage(build, installed)
        if not where:
            raise AssertionError(f"meson install: {why}")
        self.weft = f"{where[len(installed):]}/weft"
        self.cgroup = own_cgroup()
        self.program = lab.Program(host, ["unshare", "--mount", "--", "bash", "-c", CONTAINER, "container", lab_dir, installed,
                                          f"{self.cgroup}/weft-booted-{os.getpid()}"], log)

    def up(self):
        """What keeps it from being so, or None."""
        def running():
            self.pid = self.pid or next(filter(is_systemd, lab.family(self.program.pid)), None)
            return self.program.status() is not None or \
                (self.pid and self.run("systemctl", "is-active", "lab.target", fails=None).startswith("active"))
        if not lab.until(running, 90, 0.1) or self.program.status() is not None:
            return self.program.output()[-300:] or f"status {self.program.status()}"
        return None

    def argv(self, argv):
        if self.program.status() is not None:
            raise AssertionError(f"the system has gone: {self.program.output()[-300:]}")
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-i", "-u", "--", *argv]

    def run(self, *argv, fails=False, text=None):
        """fails: None: it may."""
        r = self.host.run(*self.argv(argv), input=text)
        if fails is not None and bool(r.returncode) != fails:
            raise AssertionError(f"{' '.join(argv)}: {r.returncode}, {r.stdout[-300:]}{r.stderr[-300:]}")
        return r.stdout + r.stderr

    def write(self, path, text):
        self.run("sh", "-c", f"mkdir -p {os.path.dirname(path)} && cat >{path}", text=text)

    def start(self, log, *argv):
        return lab.Program(self.host, self.argv(argv), log)

    def off(self):
        if self.pid and self.program.status() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(self.pid), signal.SIGKILL)
        self.program.kill()
        lab.until(lambda: remove_cgroup(self.cgroup, os.getpid()), 10, 0.1)


def is_systemd(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii") as f:
        return f.read() == "systemd\n"
    return False


def same(got, expected, what):
    if got != expected:
        raise AssertionError(f"{what}: {got}, not {expected}")


class Cases:
    def __init__(self, system, report):
        self.system, self.report = system, report
        self.path, self.programs = "", []

    # --- what systemd says and does ---

    def control(self, *argv, fails=False):
        return self.system.run("systemctl", *argv, fails=fails)

    def shown(self, name, unit="weft-serve"):
        return self.control("show", "--value", "-p", name, unit).strip()

    def journal(self, *argv, unit="weft-serve"):
        return self.system.run("journalctl", "-q", "--no-pager", "-o", "cat", "-u", unit, *argv)

    def until_journal(self, text, unit="weft-serve"):
        if not lab.until(lambda: text in self.journal(unit=unit), 20, 0.1):
            raise AssertionError(f"the journal does not say '{text}': {self.journal(unit=unit)[-500:]}")

    def until_shown(self, name, wanted, unit="weft-serve"):
        if not lab.until(lambda: wanted == self.shown(name, unit), 30, 0.1):
            raise AssertionError(f"{name} is {self.shown(name, unit)}, not {wanted}: {self.journal(unit=unit)[-500:]}")

    def drop_in(self, text):
        self.system.write("/run/systemd/system/weft-serve.service.d/case.conf", text)
        self.control("daemon-reload")

    def document(self, *paths, port=4420, transports=("tcp", "rdma")):
        return {"subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"}, "namespaces": [
            {"nsid": n, "enable": 1, "device": {"path": path}} for n, path in enumerate(paths, 1)]}],
            "ports": [{"portid": n, "subsystems": [NQN], "addr": {
                "trtype": transport, "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": str(port)}}
                for n, transport in enumerate(transports, 1)]}

    def config(self, doc, name="target"):
        self.system.write(f"/etc/weft/{name}.json", json.dumps(doc))

    def image(self, path):
        self.system.run("sh", "-c", f"mkdir -p {os.path.dirname(path)} && truncate -s 8m {path}")
        return path

    def host(self, verb, transport, *argv, ns=1, port=4420):
        return self.system.run(self.system.weft, verb, self.uri(transport, ns, port), *argv)

    def uri(self, transport, ns=1, port=4420):
        return f"nvme+{transport}://127.0.0.1:{port}/{NQN}?ns={ns}"

    def works(self, transport, ns=1, port=4420):
        self.host("bench", transport, "--rw", "randrw", "--bs", "16k", "--iodepth", "8", "--runtime", "1", "--verify", "--yes",
                  ns=ns, port=port)

    def load(self, transport, seconds, ns=1):
        """Of a namespace that nobody else writes to meanwhile."""
        p = self.system.start(f"{self.path}/load-{transport}.log", self.system.weft, "bench", self.uri(transport, ns), "--rw",
                              "randrw", "--bs", "16k", "--iodepth", "4", "--runtime", str(seconds), "--verify", "--yes")
        self.programs.append(p)
        return p

    def ends_well(self, load, seconds=60):
        same(load.wait(seconds), 0, f"the load's status ({load.output()[-500:]})")

    def serve(self, *paths):
        self.config(self.document(*(paths or (self.image("/var/lib/weft/a.img"),))))
        self.control("start", "weft-serve")

    def processes(self):
        """Of the service."""
        group = self.shown("ControlGroup")
        return self.system.run("sh", "-c", f"cat /sys/fs/cgroup{group}/cgroup.procs", fails=None).split() if group else []

    # --- the cases ---

    def nothing_to_serve(self):
        self.control("start", "weft-serve")
        same((self.shown("ActiveState"), self.shown("ConditionResult")), ("inactive", "no"), "without a file it is")

    def a_service(self):
        self.serve(self.image("/var/lib/weft/a.img"), "mem:8m")
        same((self.shown("ActiveState"), self.shown("NRestarts")), ("active", "0"), "it is")
        same("hosts' controllers: 0" in self.shown("StatusText"), True, f"its status: {self.shown('StatusText')}")
        for transport in ("tcp", "rdma"):
            for ns in (1, 2):
                self.works(transport, ns)
        load = self.load("tcp", 2)
        if not lab.until(lambda: "hosts' controllers: 1" in self.shown("StatusText"), 10, 0.1):
            raise AssertionError(f"its status while a host is there: {self.shown('StatusText')}")
        self.ends_well(load)
        same([line for line in self.journal("-p", "warning").splitlines() if line], [], "warnings")
        self.until_journal("connected: ")
        pid = self.shown("MainPID")
        same(pid in self.processes() and len(self.processes()) > 1, True, "service and broker in its cgroup")
        self.control("stop", "weft-serve")
        same((self.shown("ActiveState"), self.shown("Result")), ("inactive", "success"), "after stop it is")
        same(self.processes(), [], "what is left of it")

    def read_again(self):
        self.serve()
        load = self.load("rdma", 4)
        doc = self.document("/var/lib/weft/a.img", self.image("/var/lib/weft/b.img"))
        self.config(doc)
        self.control("reload", "weft-serve")
        self.until_journal("read again, 1 change")
        self.works("tcp", 2)
        self.system.write("/etc/weft/target.json", "{")
        self.control("reload", "weft-serve", fails=None)
        self.until_journal("line 1, column 2")
        same("line 1, column 2" in self.journal("-p", "warning"), True, "a warning of the file that is none")
        same(self.shown("ActiveState"), "active", "it is")
        self.ends_well(load)
        self.works("rdma", 2)

    def is_saved(self):
        self.serve()
        self.system.run(self.system.weft, "target", "create", f"/subsystems/{NQN}/namespaces/5", "device.path=mem:4m", "enable=1")
        self.system.run(self.system.weft, "target", "save")
        self.control("restart", "weft-serve")
        self.works("tcp", 5)

    def is_killed(self):
        """Both its own process and, at another time, the broker."""
        self.serve(*(self.image(f"/var/lib/weft/{name}.img") for name in ("a", "b")))
        loads = [self.load(transport, 5, ns) for ns, transport in enumerate(("tcp", "rdma"), 1)]
        lab.until(lambda: "hosts' controllers: 2" in self.shown("StatusText"), 10, 0.1)
        self.control("kill", "--kill-whom=main", "-s", "KILL", "weft-serve")
        self.until_shown("NRestarts", "1")
        self.until_shown("ActiveState", "active")
        for load in loads:
            self.ends_well(load)
        load = self.load("rdma", 3)
        for pid in set(self.processes()) - {self.shown("MainPID")}:
            self.system.run("kill", "-9", pid)
        self.ends_well(load)
        self.works("rdma")
        same(self.shown("NRestarts"), "1", "restarts")

    def hangs(self):
        self.drop_in("[Service]\nWatchdogSec=2\n")
        self.serve()
        load = self.load("tcp", 6)
        lab.until(lambda: "hosts' controllers: 1" in self.shown("StatusText"), 10, 0.1)
        self.control("kill", "--kill-whom=main", "-s", "STOP", "weft-serve")
        self.until_shown("NRestarts", "1")
        self.until_shown("ActiveState", "active")
        self.ends_well(load)

    def disks_elsewhere(self):
        self.config(self.document(self.image("/srv/weft/a.img")))
        self.control("start", "weft-serve", fails=True)
        self.until_journal("/srv/weft/a.img")
        return self.journal("-p", "err").splitlines()[0]

    def disks_with_a_drop_in(self):
        self.drop_in("[Service]\nReadWritePaths=/srv/weft\n")
        self.serve(self.image("/srv/weft/a.img"))
        self.works("tcp")

    def several(self):
        self.serve()
        self.config(self.document("mem:8m", port=4430), "other")
        self.control("start", "weft-serve@other")
        self.works("rdma", port=4430)
        self.control("stop", "weft-serve")
        self.works("rdma", port=4430)
        self.works("tcp", port=4430)
        self.control("stop", "weft-serve@other")

    def ports_of_systemd(self):
        """Hosts that come while it starts again wait for it."""
        self.system.write("/run/systemd/system/weft-serve.socket", "[Socket]\nListenStream=127.0.0.1:4420\n")
        self.control("daemon-reload")
        self.config(self.document(*(self.image(f"/var/lib/weft/{name}.img") for name in ("a", "b"))))
        self.control("start", "weft-serve.socket")
        self.works("tcp")  # which starts it
        same(self.shown("ActiveState"), "active", "it is")
        load = self.load("tcp", 4)
        self.control("restart", "weft-serve")
        self.works("tcp", ns=2)
        self.ends_well(load)
        self.control("stop", "weft-serve.socket", "weft-serve")

    def options(self):
        self.system.write("/etc/default/weft-serve", "OPTIONS=--threads 2 --metrics 127.0.0.1:9420\n")
        self.serve()
        said = self.system.run("python3", "-c", "import urllib.request as r;"
                               "print(r.urlopen('http://127.0.0.1:9420/metrics', timeout=10).read().decode())")
        same("weft_" in said, True, f"figures: {said[:300]}")
        self.works("rdma")

    def begin(self, path):
        self.path, self.programs = path, []
        self.control("stop", "weft-serve", "weft-serve.socket", fails=None)
        self.system.run("sh", "-c", "rm -rf /etc/weft/* /var/lib/weft/* /srv/weft /etc/default/weft-serve "
                        "/run/systemd/system/weft-serve*; journalctl -q --rotate --vacuum-time=1s")
        self.control("daemon-reload")
        self.control("reset-failed", fails=None)

    def prove(self, name, case):
        def proof(path):
            self.begin(path)
            try:
                return case()
            finally:
                with open(f"{path}/journal.log", "w", encoding="utf-8") as f:
                    f.write(self.system.run("journalctl", "-q", "--no-pager", fails=None))
                for p in self.programs:
                    p.kill()
        self.report.prove(name, proof)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--only", metavar="WORD", default="", help="what the case's name has in it")
    args = p.parse_args()
    lab.need("unshare", "nsenter", "mount", "pivot_root")
    if not os.access(SYSTEMD, os.X_OK):
        lab.skip("systemd is not installed (scripts/setup installs it)")
    if os.geteuid() != 0 or own_cgroup() is None:
        lab.skip("only root can boot a system, and with cgroups of version 2")
    lab.enter()
    host, _ = lab.lab(1)
    report = lab.Report(args.build, "booted")
    with tempfile.TemporaryDirectory() as tmp:
        system = Booted(host, os.path.abspath(args.build), tmp, f"{report.dir}/systemd.log")
        try:
            why = system.up()
            if why:
                if system.program.says(MADE):
                    raise SystemExit(f"systemd does not boot: {why}")
                lab.skip(f"no container can be made here: {why}")
            cases = Cases(system, report)
            for name, case in (
                    ("nothing to serve", cases.nothing_to_serve), ("a service", cases.a_service),
                    ("read again", cases.read_again), ("what is saved", cases.is_saved), ("killed", cases.is_killed),
                    ("without a sign of life", cases.hangs), ("disks elsewhere", cases.disks_elsewhere),
                    ("disks elsewhere, with a drop-in", cases.disks_with_a_drop_in), ("several services", cases.several),
                    ("ports of systemd's", cases.ports_of_systemd), ("options", cases.options)):
                if args.only in name:
                    cases.prove(name, case)
        finally:
            system.off()
    report.everything_ends([host])
    report.finish()


if __name__ == "__main__":
    main()
