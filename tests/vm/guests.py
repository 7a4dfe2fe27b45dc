# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""QEMU guests with Debian's kernel on a bridge, in a network namespace that has no way out.

The namespace lives as long as the process that holds it, and that and the guests as long as this
one. Guest N is gN, 192.168.77.(N+1) and fd77::(N+1); this machine is .1 and ::1 on br0. They share a
folder, /lab in the guests, through which scripts go in and what they say comes out (guest/init).
"""
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
GONE, STOPPED = 125, 124  # exit statuses of a script whose guest went away, or whose time was up
PRCTL = ctypes.CDLL(None).prctl
NEEDED = ("qemu-system-x86_64", "ip", "nsenter", "unshare", "tcpdump", "ethtool")


class Broken(Exception):
    """Why there are no guests."""


def die_with_parent(sig=signal.SIGKILL):
    PRCTL(1, sig)  # PR_SET_PDEATHSIG


@dataclass
class Images:
    """The kernel, initramfs and root of the guests; siw.ko if it was asked for."""
    dir: str
    kernel: str

    def file(self, name):
        return os.path.join(self.dir, name)


def recipe(names):
    """Of what files something is made, but for the packages: where they change it is made anew."""
    h = hashlib.sha256()
    for name in names:
        with open(os.path.join(HERE, name), "rb") as f:
            h.update(f.read())
    return h.hexdigest()


def images(series, siw):
    """Those of a series of Debian's kernels; made, which takes minutes, where there are none."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    where = os.path.join(cache, "weft-vm", series)
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # others may be about the same
        guest = [f"guest/{name}" for name in sorted(os.listdir(os.path.join(HERE, "guest")))]
        made(series, where, "make-images", recipe(["make-images", *guest]))
        with open(os.path.join(where, "kernel"), encoding="ascii") as f:
            kernel = f.read().strip()
        if siw:
            made(series, where, "make-siw", f"{recipe(['make-siw'])} {kernel}")
    return Images(where, kernel)


def made(series, where, script, stands_for):
    """By a script, unless it has made the same before."""
    stamp = os.path.join(where, f"{script}.stamp")
    try:
        with open(stamp, encoding="ascii") as f:
            if f.read() == stands_for:
                return
        os.remove(stamp)
    except FileNotFoundError:
        pass
    missing = [p for p in ("mmdebstrap", "cpio", "depmod", "busybox", "xz", "zstd", "mke2fs", "make", "gcc-12")
               if not shutil.which(p, path=f"{os.environ['PATH']}:/sbin:/usr/sbin")]
    if missing:
        raise Broken(f"{', '.join(missing)} not installed (scripts/setup installs it)")
    log = os.path.join(where, f"{script}.log")
    print(f"making what the guests boot: {script} {series} (log: {log})", flush=True)
    with open(log, "w", encoding="utf-8") as f:
        r = subprocess.run([os.path.join(HERE, script), series, where], stdin=subprocess.DEVNULL, stdout=f, stderr=f, check=False)
    if r.returncode:
        with open(log, encoding="utf-8", errors="replace") as f:
            lines = [line.strip() for line in f if line.strip() and not line.startswith("+")]
        raise Broken(f"no guest images: {lines[-1] if lines else '?'} ({log})")
    with open(stamp, "w", encoding="ascii") as f:
        f.write(stands_for)


class Guests:
    """Some of them, up from the constructor to down()."""

    def __init__(self, image, count, added, life, mtu, cpus=1):
        """added: this machine's files -> where they are in the guests."""
        missing = [p for p in NEEDED if not shutil.which(p)]
        if missing:
            raise Broken(f"{', '.join(missing)} not installed (scripts/setup installs it)")
        self.image, self.mtu, self.life, self.cpus = image, mtu, life, cpus
        self.names = [f"g{n + 1}" for n in range(count)]
        self.dir = tempfile.mkdtemp(prefix="weft-vm-")
        self.share = os.path.join(self.dir, "share")
        self.qemu, self.control, self.serial = {}, {}, 0
        self.holder = None
        try:
            os.mkdir(self.share)
            with tarfile.open(os.path.join(self.share, "added.tar"), "w", dereference=True) as tar:
                for source, dest in added.items():
                    tar.add(source, dest.lstrip("/"))
            self.make_network()
            for name in self.names:
                self.boot(name)
            for name in self.names:
                self.await_boot(name)
        except BaseException:
            self.down()
            raise

    def make_network(self):
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--", "sh", "-c", "echo there && exec cat"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        if self.holder.stdout.readline() != b"there\n":
            raise Broken("no right to make a network namespace here")
        lines = ["set -e",
                 "echo 0 >/proc/sys/net/ipv6/conf/default/router_solicitations",
                 "ip link set lo up",
                 "ip link add br0 type bridge forward_delay 0 stp_state 0 mcast_snooping 0"]
        for n in range(1, len(self.names) + 1):
            lines += [f"ip tuntap add dev tap{n} mode tap",
                      f"ip link set tap{n} mtu {self.mtu} addrgenmode none master br0 up"]
        lines += [f"ip link set br0 mtu {self.mtu} up",
                  "ip addr add 192.168.77.1/24 dev br0",
                  "ip addr add fd77::1/64 dev br0 nodad",
                  # What is captured is what would be on a wire.
                  "ethtool -K br0 tx off tso off gso off gro off >/dev/null 2>&1 || true"]
        r = subprocess.run(self.inside("sh", "-c", "\n".join(lines)), capture_output=True, text=True,
                           check=False)
        if r.returncode:
            raise Broken(f"no bridge: {r.stderr.strip()}")

    def inside(self, *argv):
        """What runs a program in the namespace."""
        return ["nsenter", "-t", str(self.holder.pid), "-n", "--", *map(str, argv)]

    def pids(self):
        """Of what runs in the namespace: the guests, too."""
        own, found = os.readlink(f"/proc/{self.holder.pid}/ns/net"), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/net") == own:
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def file(self, name):
        return os.path.join(self.dir, name)

    def boot(self, name):
        n = int(name[1:])
        plain = "".join(f",{what}=off" for what in (
            "csum", "guest_csum", "gso", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo",
            "host_tso4", "host_tso6", "host_ecn", "host_ufo"))
        for way in ("in", "out"):
            os.mkfifo(self.file(f"{name}.{way}"))
        self.control[name] = os.open(self.file(f"{name}.in"), os.O_RDWR | os.O_CLOEXEC)
        argv = [
            "timeout", "-k", "5", str(self.life), "qemu-system-x86_64", "-name", f"weft-vm-{name}",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-monitor", "none",
            "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max,la57=off",
            "-smp", str(self.cpus), "-m", "768",
            "-kernel", self.image.file("vmlinux"), "-initrd", self.image.file("initrd"),
            # An emulated processor takes a minute for Linux's tests of its own Diffie-Hellman groups, at their first use.
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on no_timer_check cryptomgr.notests=1 "
            f"lab_guest={name} lab_mtu={self.mtu}",
            "-serial", f"file:{self.file(name)}.console",
            "-drive", f"file={self.image.file('root.img')},if=none,id=root,format=raw,readonly=on",
            "-device", "virtio-blk-pci,drive=root",
            "-netdev", f"tap,id=net,ifname=tap{n},script=no,downscript=no,vhost=off",
            "-device", f"virtio-net-pci,netdev=net,mac=52:54:00:4c:00:0{n},romfile={plain}",
            "-virtfs", f"local,path={self.share},mount_tag=lab,security_model=none,multidevs=remap",
            "-device", "virtio-serial-pci", "-chardev", f"pipe,id=ctl,path={self.file(name)}",
            "-device", "virtserialport,chardev=ctl,name=lab",
            "-object", "rng-random,filename=/dev/urandom,id=rng", "-device", "virtio-rng-pci,rng=rng"]
        with open(self.file(f"{name}.qemu"), "wb") as out:
            self.qemu[name] = subprocess.Popen(
                self.inside(*argv), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                preexec_fn=lambda: die_with_parent(signal.SIGTERM))

    def await_boot(self, name):
        end = time.monotonic() + 300  # a busy machine emulates slowly
        while not os.path.exists(os.path.join(self.share, f"{name}.up")):
            if not self.up(name) or time.monotonic() > end:
                said = self.console(name) + self.read(self.file(f"{name}.qemu"))
                raise Broken(f"{name} does not boot: {' / '.join(said.strip().splitlines()[-3:])}")
            time.sleep(0.05)

    def down(self):
        for p in self.qemu.values():
            p.terminate()
        for p in self.qemu.values():
            p.wait()
        for fd in self.control.values():
            os.close(fd)
        self.qemu, self.control = {}, {}
        if self.holder:
            self.holder.stdin.close()
            self.holder.wait()
            self.holder = None
        shutil.rmtree(self.dir, ignore_errors=True)

    # ---- scripts

    @staticmethod
    def read(path):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def up(self, name):
        return name in self.qemu and self.qemu[name].poll() is None

    def console(self, name):
        return self.read(self.file(f"{name}.console"))

    def begin(self, name, script):
        """Starts a script in a guest that is up; returns what ended(), said() and stop() take."""
        self.serial += 1
        job = f"{name}.{self.serial}"
        with open(os.path.join(self.share, f"{job}.sh"), "w", encoding="utf-8") as f:
            f.write(script)
        os.write(self.control[name], f"run {job}\n".encode())
        return job

    def ended(self, job):
        """The script's exit status, or None; GONE if the guest is."""
        status = self.read(os.path.join(self.share, f"{job}.rc"))
        if status.strip():
            return int(status)
        return None if self.up(job.split(".")[0]) else GONE

    def said(self, job):
        """What it has written to its standard output and to its standard error."""
        return tuple(self.read(os.path.join(self.share, f"{job}.{what}")) for what in ("out", "err"))

    def stop(self, job):
        if self.up(job.split(".")[0]):
            os.write(self.control[job.split(".")[0]], f"stop {job}\n".encode())
