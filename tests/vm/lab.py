# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Guests that run Debian's kernel, and a network namespace beside them in which weft runs."""
import atexit
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from guests import GONE, STOPPED, Broken, Guests, die_with_parent, images

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

IWPMD = "/usr/sbin/iwpmd"


class Missing(Exception):
    """Why the lab cannot run here."""


class Failed(Exception):
    """What a case saw that it should not have."""


def check_machine():
    """Missing with the reason where guests cannot be booted."""
    if os.geteuid():
        raise Missing("guests need root")
    if not os.path.exists("/dev/net/tun"):
        raise Missing("guests need /dev/net/tun")
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        raise Missing("no right to make a network namespace here")


def libraries(program):
    """The shared objects that a program needs, beyond the C library and weft's own."""
    r = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    paths = re.findall(r"=> (/\S+)", r.stdout)
    own = re.compile(r"/(libc\.so|ld-linux|libibverbs|librdmacm)")
    return [p for p in paths if not own.search(p)]


def add_program(added, program, where):
    added[program] = where
    for lib in libraries(program):
        added[lib] = f"/usr/local/lib/x86_64-linux-gnu/{os.path.basename(lib)}"


class Process:
    """A program of this machine that runs beside the test."""

    def __init__(self, argv, env):
        self.serves = "serve" in argv  # weft serve, which ends in order when it is told to
        self.log = tempfile.TemporaryFile()
        self.popen = subprocess.Popen(
            argv, text=True, env=env, preexec_fn=die_with_parent, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=subprocess.STDOUT)

    @property
    def output(self):
        # The position in it is the program's, too: it is neither used nor moved.
        fd = self.log.fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace")

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
        if self.running():
            self.popen.send_signal(sig)
        try:
            return self.popen.wait(10)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()


class GuestProcess:
    """A program that runs in a guest: the same calls."""

    def __init__(self, lab, name, script, seconds):
        self.lab, self.name, self.status = lab, name, None
        self.serves = "weft serve " in script
        self.end = time.monotonic() + seconds
        self.mark = f"/run/test.{lab.next()}"
        self.job = lab.guests.begin(name, f"exec 2>&1; echo $$ >{self.mark}\n{script}")

    @property
    def output(self):
        return self.lab.guests.said(self.job)[0]

    def running(self):
        if self.status is None:
            self.status = self.lab.guests.ended(self.job)
            if self.status is None and time.monotonic() > self.end:
                self.status = STOPPED
                self.lab.guests.stop(self.job)
        return self.status is None

    def wait(self, seconds):
        """The exit status; Failed where it still runs then."""
        end = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > end:
                self.stop()
                raise Failed(f"still running after {seconds:.0f} s: {last_line(self.output)}")
            time.sleep(0.03)
        return self.status

    def stop(self, sig=signal.SIGTERM):
        if self.running():
            self.lab.guest(self.name, f"kill -{int(sig)} $(cat {self.mark})")
        end = time.monotonic() + 10
        while self.running() and time.monotonic() < end:
            time.sleep(0.03)
        if self.running():
            self.lab.guests.stop(self.job)
        return self.status


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "(no output)"


class Lab:
    """Use as a context manager: the guests are up inside and gone after."""

    def __init__(self, build, guests=1, series="6.1", siw=False, life=3000, cpus=1, more=()):
        check_machine()
        self.build, self.life = os.path.realpath(build), life
        self.series, self.siw, self.cpus, self.more = series, siw, cpus, more
        self.names = [f"g{i + 1}" for i in range(guests)]
        self.weft = os.path.join(self.build, "weft")
        self.wire = os.path.join(self.build, "tests", "vm", "wire")
        self.hostile_cm = os.path.join(self.build, "tests", "interop", "hostile_cm")
        self.env = dict(os.environ)
        self.processes = []
        self.serial = 0
        self.powered_off = set()
        self.log_read = {}  # how much of each console
        self.tshark = shutil.which("tshark")

    def next(self):
        self.serial += 1
        return self.serial

    def __enter__(self):
        # weft with its own libraries, as it is installed, so that which ones it runs on is its choice.
        added = {os.path.join(self.build, "lib", f"lib{name}.so.1"): f"/opt/weft/lib/lib{name}.so.1"
                 for name in ("ibverbs", "rdmacm")}
        for program in (self.weft, self.wire, *self.more):
            add_program(added, program, f"/opt/weft/{os.path.basename(program)}")
        self.guests = None
        atexit.register(self.down)
        try:
            image = images(self.series, self.siw)
            if self.siw:
                added[image.file("siw.ko")] = "/opt/siw.ko"
                if not os.path.exists(IWPMD):
                    raise Missing(f"no {IWPMD}: Debian's rdma-core is not installed (scripts/setup installs it)")
                add_program(added, IWPMD, "/opt/iwpmd")
            try:
                self.guests = Guests(image, len(self.names), added, self.life, 9000, self.cpus)
            except Broken:  # a busy machine may not have managed in time
                self.guests = Guests(image, len(self.names), added, self.life, 9000, self.cpus)
        except Broken as e:
            raise Missing(str(e)) from None
        self.kernel = image.kernel
        self.share = self.guests.share
        return self

    def __exit__(self, *_):
        self.down()
        atexit.unregister(self.down)

    def down(self):
        for p in self.processes:
            p.stop()
        self.processes = []
        if self.guests:
            self.guests.down()
        self.guests = None

    # ---- in a guest

    def guest(self, name, script, timeout=60):
        """Runs a shell script in a guest to its end."""
        if not self.guests.up(name):
            return subprocess.CompletedProcess(script, GONE, "", f"no guest {name} is up")
        job = self.guests.begin(name, script)
        end = time.monotonic() + timeout
        while (status := self.guests.ended(job)) is None:
            if time.monotonic() > end:
                self.guests.stop(job)
                status = STOPPED
                break
            time.sleep(0.02)
        out, err = self.guests.said(job)
        return subprocess.CompletedProcess(script, status, out, err)

    def guest_ok(self, name, script, timeout=60):
        r = self.guest(name, script, timeout)
        if r.returncode:
            raise Failed(f"in the guest: {last_line(r.stderr or r.stdout)} (status {r.returncode})")
        return r.stdout

    def guest_start(self, name, command, timeout=120, ready=""):
        """A program in a guest. ready: a shell command; guest_start() returns when it has succeeded."""
        flag = f"ready.{self.next()}"
        # In the one script: it takes the guest a quarter of a second to begin another.
        watch = (f"for i in {{1..300}}; do {ready} && : >$LAB_SHARE/{flag} && break\n"
                 "sleep 0.03; done >/dev/null 2>&1 &\n") if ready else ""
        p = GuestProcess(self, name, f"{watch}exec {command}\n", timeout)
        self.processes.append(p)
        if ready:
            until(lambda: os.path.exists(os.path.join(self.share, flag)) or not p.running(), 20,
                  f"{command.split()[0]} ready")
        return p

    def new_log(self, name):
        """What its kernel has said since the last time: all goes to the console (see Kernel.prepare)."""
        text = self.console(name)
        begin, self.log_read[name] = self.log_read.get(name, 0), len(text)
        return text[begin:]

    def console(self, name):
        return self.guests.console(name)

    def dead(self, ask):
        """The guests that are gone without having been asked to go; ask: and those that stay silent."""
        return [g for g in self.names if g not in self.powered_off and
                (not self.guests.up(g) or ask and self.guest(g, "true", 20).returncode)]

    def power_off(self, name):
        """Without a word to anybody: the guest's kernel resets the machine, which ends QEMU."""
        self.powered_off.add(name)
        r = self.guest(name, "echo b >/proc/sysrq-trigger; sleep 20", 20)
        if r.returncode != GONE:
            raise Failed(f"{name} did not reset: {last_line(r.stderr)}")

    # ---- beside the guests

    def inside(self, *argv):
        return self.guests.inside(*argv)

    def pids(self):
        """Of what this machine runs in the namespace."""
        return self.guests.pids()

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
