# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Guests that run Debian's kernel, and a network namespace beside them in which weft runs.

The lab itself, a script `vm` that boots QEMU guests on a bridge, is no part of this repository: it
is found where $WEFT_LAB says or beside the repository. Its --help says what it offers.
"""
import atexit
import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PRCTL = ctypes.CDLL(None).prctl


class Missing(Exception):
    """Why the lab cannot run here."""


class Failed(Exception):
    """What a case saw that it should not have."""


def die_with_parent():
    PRCTL(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def find_lab():
    """The path of the script `vm`; Missing with the reason where guests cannot be booted."""
    script = os.environ.get("WEFT_LAB") or os.path.join(TOP, "..", "shared", "lab", "vm")
    if not os.access(script, os.X_OK):
        raise Missing(f"no VM lab at {os.path.relpath(script, TOP)} (WEFT_LAB names another)")
    if os.geteuid():
        raise Missing("the VM lab needs root")
    if not os.path.exists("/dev/net/tun"):
        raise Missing("the VM lab needs /dev/net/tun")
    if not shutil.which("qemu-system-x86_64") and not shutil.which("apt-get"):
        raise Missing("qemu-system-x86_64 is not installed")
    r = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    if r.returncode:
        raise Missing("no right to make a network namespace here")
    return os.path.realpath(script)


def libraries(program):
    """The shared objects that a program needs, beyond the C library and weft's own."""
    r = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    paths = re.findall(r"=> (/\S+)", r.stdout)
    own = re.compile(r"/(libc\.so|ld-linux|libibverbs|librdmacm)")
    return [p for p in paths if not own.search(p)]


class Process:
    """A program that runs beside the test, here or in a guest."""

    def __init__(self, argv, env, script=None, stop=None):
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.stop_by = stop
        self.popen = subprocess.Popen(
            argv, text=True, env=env, preexec_fn=die_with_parent,
            stdout=self.log, stderr=subprocess.STDOUT,
            stdin=subprocess.PIPE if script is not None else subprocess.DEVNULL)
        if script is not None:
            self.popen.stdin.write(script)
            self.popen.stdin.close()

    @property
    def output(self):
        here = self.log.tell()
        self.log.seek(0)
        text = self.log.read()
        self.log.seek(here)
        return text

    def running(self):
        return self.popen.poll() is None

    def wait(self, seconds):
        """The exit status; Failed where it still runs then."""
        try:
            return self.popen.wait(max(seconds, 0.01))
        except subprocess.TimeoutExpired:
            self.stop()
            raise Failed(f"still running after {seconds:.0f} s: {last_line(self.output)}") from None

    def stop(self, sig=signal.SIGTERM):
        if self.running() and self.stop_by:
            self.stop_by(sig)
        elif self.running():
            self.popen.send_signal(sig)
        try:
            return self.popen.wait(10)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "(no output)"


class Lab:
    """Use as a context manager: the guests are up inside and gone after."""

    def __init__(self, build, guests=1, series="6.1", life=3000):
        self.script = find_lab()
        self.build, self.life = os.path.realpath(build), life
        self.names = [f"g{i + 1}" for i in range(guests)]
        self.weft = os.path.join(self.build, "weft")
        self.wire = os.path.join(self.build, "tests", "vm", "wire")
        self.hostile_cm = os.path.join(self.build, "tests", "interop", "hostile_cm")
        self.env = {**os.environ, "LAB_NAME": f"weft-{os.getpid()}", "LAB_KERNEL": series}
        self.processes = []
        self.serial = 0
        self.powered_off = set()
        self.log_read = {}  # how much of each console
        self.tshark = shutil.which("tshark")

    def __enter__(self):
        argv = ["up", "-n", str(len(self.names)), "--life", str(self.life), "--mtu", "9000"]
        # weft with its own libraries, as it is installed, so that which ones it runs on is its choice.
        added = {os.path.join(self.build, "lib", f"lib{name}.so.1"): f"/opt/weft/lib/lib{name}.so.1"
                 for name in ("ibverbs", "rdmacm")}
        for program in ("/sbin/mke2fs", "/sbin/e2fsck", self.weft, self.wire):
            if os.path.exists(program):
                added[program] = f"/opt/weft/{os.path.basename(program)}"
                for lib in libraries(program):
                    added[lib] = f"/usr/local/lib/x86_64-linux-gnu/{os.path.basename(lib)}"
        for source, dest in added.items():
            argv += ["--add", f"{source}:{dest}"]
        atexit.register(self.down)
        r = self.vm("build", timeout=600)
        if r.returncode:
            raise Missing(f"no guest images: {last_line(r.stderr)}")
        r = self.vm(*argv, timeout=120)
        if r.returncode:  # a busy machine may not have managed in time
            self.vm("down")
            r = self.vm(*argv, timeout=120)
        if r.returncode:
            raise Missing(f"the guests do not boot: {last_line(r.stderr)}")
        self.kernel = self.guest("g1", "uname -r").stdout.strip()
        self.share = self.run_ok("sh", "-c", "echo $LAB_SHARE").strip()
        return self

    def __exit__(self, *_):
        self.down()
        atexit.unregister(self.down)

    def down(self):
        for p in self.processes:
            p.stop()
        self.processes = []
        self.vm("down", timeout=60)

    def vm(self, *args, timeout=60, **kwargs):
        return subprocess.run([self.script, *args], env=self.env, text=True, errors="replace",
                              check=False, capture_output=True, timeout=timeout, **kwargs)

    # ---- in a guest

    def guest(self, name, script, timeout=60):
        """Runs a shell script in a guest to its end."""
        return self.vm("exec", name, "--timeout", str(timeout), "-", input=script,
                       timeout=timeout + 30)

    def guest_ok(self, name, script, timeout=60):
        r = self.guest(name, script, timeout)
        if r.returncode:
            raise Failed(f"in the guest: {last_line(r.stderr or r.stdout)} (status {r.returncode})")
        return r.stdout

    def guest_start(self, name, command, timeout=120, ready=""):
        """A program in a guest. ready: a shell command; guest_start() returns when it has succeeded."""
        self.serial += 1
        mark = f"/run/test.{self.serial}"
        flag = os.path.join(self.share, f"ready.{self.serial}")

        def stop(sig):
            self.guest(name, f"kill -{int(sig)} $(cat {mark})")

        # In the one script: it takes the guest a quarter of a second to begin another.
        watch = (f"for i in {{1..300}}; do {ready} && : >$LAB_SHARE/{os.path.basename(flag)} && break\n"
                 "sleep 0.03; done >/dev/null 2>&1 &\n") if ready else ""
        p = Process([self.script, "exec", name, "--timeout", str(timeout), "-"],
                    self.env, f"{watch}echo $$ >{mark}; exec {command}\n", stop)
        self.processes.append(p)
        if ready:
            until(lambda: os.path.exists(flag) or not p.running(), 20, f"{command.split()[0]} ready")
        return p

    def new_log(self, name):
        """What its kernel has said since the last time: all goes to the console (see Kernel.prepare)."""
        text = self.console(name)
        begin, self.log_read[name] = self.log_read.get(name, 0), len(text)
        return text[begin:]

    def console(self, name):
        return self.vm("console", name).stdout

    def dead(self, ask):
        """The guests that are gone without having been asked to go; ask: and those that stay silent."""
        up = re.findall(r"^(g\d+) .* up$", self.vm("status").stdout, re.M)
        return [g for g in self.names if g not in self.powered_off and
                (g not in up or ask and self.guest(g, "true", 20).returncode)]

    def power_off(self, name):
        """Without a word to anybody: the guest's kernel resets the machine, which ends QEMU."""
        self.powered_off.add(name)
        r = self.guest(name, "echo b >/proc/sysrq-trigger; sleep 20", 20)
        if r.returncode != 125:  # the guest went away
            raise Failed(f"{name} did not reset: {last_line(r.stderr)}")

    # ---- beside the guests

    def inside(self, *argv):
        return [self.script, "ns", "--", *map(str, argv)]

    def pids(self):
        """Of this machine's programs in the namespace."""
        r = subprocess.run(["ip", "netns", "pids", self.env["LAB_NAME"]], capture_output=True,
                           text=True, check=False)
        return [int(pid) for pid in r.stdout.split()]

    def run(self, *argv, timeout=60):
        """Runs a program of this machine in the namespace to its end."""
        try:
            return subprocess.run(self.inside(*argv), env=self.env, text=True, check=False,
                                  capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"still running after {timeout} s: {' '.join(map(str, argv))}") from None

    def run_ok(self, *argv, timeout=60):
        r = self.run(*argv, timeout=timeout)
        if r.returncode:
            raise Failed(f"{last_line(r.stderr or r.stdout)} (status {r.returncode})")
        return r.stdout

    def start(self, *argv):
        p = Process(self.inside(*argv), self.env)
        self.processes.append(p)
        return p


def state(pid):
    """S, R, D, ... of a process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def until(condition, seconds, what, step=0.03):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"after {seconds} s still not: {what}")
        time.sleep(step)
