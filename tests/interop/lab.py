# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Hosts made of network namespaces, and programs that run on them and end with the test.

enter() puts the calling script into a network (and, if it is not root, user) namespace of its
own, so that nothing here meets a broker or a port 4791 outside. A Host is a namespace below that;
lab(1) makes one host with loopback, lab(2) two hosts and a veth pair between them.
"""
import argparse
import contextlib
import ctypes
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PR_SET_PDEATHSIG = 1
NOBODY = 65534
libc = ctypes.CDLL(None)


def skip(reason):
    print(f"SKIP: {reason}", flush=True)
    sys.exit(77)


def arguments(doc):
    """Of a script that runs its cases on one host or between two."""
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", choices=["one", "veth"])
    p.add_argument("--only", metavar="WORD", default="", help="what the case's name has in it")
    return p.parse_args()


def arguments_of_helpers(doc):
    """Of a script whose cases are a program's in the directory `helpers`, a few or all of it."""
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("--full", action="store_true")
    p.add_argument("--only", default="")
    return p.parse_args()


def need(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        skip(f"{', '.join(missing)} not installed (scripts/setup installs it)")


def enter():
    """Runs this script again inside namespaces of its own, unless it is there already."""
    if os.environ.get("WEFT_IN_NETNS") == "entered":
        return
    need("unshare", "nsenter", "ip", "setpriv")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if subprocess.run(["unshare", *user, "--net", "true"], capture_output=True).returncode:
        skip("no right to make a network namespace here")
    os.environ["WEFT_IN_NETNS"] = "entered"
    os.execvp("unshare", ["unshare", *user, "--net", "--", sys.executable, *sys.argv])


def ordinary_user():
    """What, put before a program, makes an ordinary user of root. Nothing, if we are none, or where
    there is no other user: in a user namespace of our own."""
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    return user if subprocess.run([*user, "true"], capture_output=True).returncode == 0 else []


def until(condition, seconds, step=0.02):
    """Waits for condition() to hold; its value, or False after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value or False
        time.sleep(step)


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and would stay so


class Host:
    """A network namespace, held by a process that lives as long as this script.

    within: what, put before a program, has it run where that namespace is made. place: makes of
    a program's argv that of what starts it where it shall be, as in a container (places.py).
    """

    def __init__(self, name, address, address6, within=()):
        self.name, self.address, self.address6 = name, address, address6
        self.within, self.place = within, lambda argv: argv
        self.holder = subprocess.Popen(
            [*within, "unshare", "--net", "--", "sh", "-c", "ip link set lo up && echo up && cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        if self.holder.stdout.readline() != b"up\n":
            skip("cannot make a network namespace")

    def inside(self, argv):
        return [*self.within, "nsenter", "-t", str(self.holder.pid), "-n", "--",
                *self.place(list(map(str, argv)))]

    def run(self, *argv, timeout=60, **kwargs):
        """Runs to the end; returns a CompletedProcess with text."""
        kwargs.setdefault("capture_output", True)
        return subprocess.run(self.inside(argv), text=True, timeout=timeout,
                              preexec_fn=die_with_parent, **kwargs)

    def ip(self, *args):
        r = self.run("ip", *args)
        if r.returncode:
            raise RuntimeError(f"{self.name}: ip {' '.join(args)}: {r.stderr}")

    def read(self, path):
        """A file below /proc/<pid>/net of this namespace."""
        with open(f"/proc/{self.holder.pid}/net/{path}", encoding="ascii") as f:
            return f.read()

    def listens_on_tcp(self, port):
        pattern = re.compile(rf":{port:04X} [0-9A-F]+:0000 0A ")
        return bool(pattern.search(self.read("tcp")) or pattern.search(self.read("tcp6")))

    def datagrams(self):
        """UDP datagrams sent so far."""
        return int(self.read("snmp").split("Udp:")[2].split()[3])

    def has_broker(self):
        return "@weft-broker" in self.read("unix")

    def pids(self):
        """Every process in this namespace but the holder."""
        own = os.readlink(f"/proc/{self.holder.pid}/ns/net")
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) not in self.holder_pids():
                try:
                    if os.readlink(f"/proc/{entry}/ns/net") == own:
                        found.append(int(entry))
                except OSError:
                    pass
        return found

    def named(self, *words):
        """Of pids(), those whose command line begins with these, the program's without its path."""
        found = []
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    argv = [os.fsdecode(word) for word in f.read().split(b"\0")]
            except OSError:
                continue
            if [os.path.basename(argv[0]), *argv[1:]][:len(words)] == list(words):
                found.append(pid)
        return found

    def weft(self, command):
        """Those that are this command of weft's."""
        return self.named("weft", command)

    def brokers(self):
        return self.weft("broker")

    def holder_pids(self):
        try:
            with open(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children",
                      encoding="ascii") as f:
                return [self.holder.pid, *map(int, f.read().split())]
        except OSError:
            return [self.holder.pid]

    def end_brokers(self):
        """For ten seconds a broker answers those who may ask again: it is told not to."""
        for pid in self.brokers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def close(self):
        """Ends what is left; returns the command lines of what should have ended by itself, as all
        should but a broker."""
        until(lambda: set(self.pids()) <= set(self.brokers()), 5)
        self.end_brokers()
        until(lambda: not self.pids(), 5)
        left = []
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    left.append(f.read().replace(b"\0", b" ").decode().strip())
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.holder.stdin.close()
        self.holder.wait()
        return left


def lab(hosts, within=()):
    """One host (both sides are the same), or two joined by a veth pair."""
    if hosts == 1:
        host = Host("one", "127.0.0.1", "::1", within)
        return host, host
    a = Host("left", "10.77.0.1", "fd77::1", within)
    b = Host("right", "10.77.0.2", "fd77::2", within)
    a.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
         "netns", str(b.holder.pid))
    for h in (a, b):
        h.ip("addr", "add", f"{h.address}/24", "dev", "eth0")
        h.ip("addr", "add", f"{h.address6}/64", "dev", "eth0", "nodad")
        h.ip("link", "set", "eth0", "up")
    for h, peer in ((a, b), (b, a)):
        if not until(lambda h=h, p=peer: h.run("ping", "-c1", "-W1", p.address).returncode == 0
                     if shutil.which("ping") else "LOWER_UP" in h.run("ip", "link").stdout, 5):
            raise RuntimeError(f"{h.name} cannot reach {peer.name}")
        # The kernel adds the route to IPv6 groups some time after the carrier has come.
        if not until(lambda h=h: "ff00::/8" in h.run("ip", "-6", "route", "show", "table",
                                                     "local").stdout, 5):
            raise RuntimeError(f"{h.name} has no route to IPv6 groups")
    return a, b


def open_files(pid):
    """What its descriptors are, but for those that are closed meanwhile."""
    seen = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            seen.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return seen


def asleep(pid):
    """Whether every thread of a process waits for something, and none to be scheduled."""
    for stat in glob.glob(f"/proc/{pid}/task/*/stat"):
        try:
            with open(stat, encoding="ascii") as f:
                if f.read().rpartition(")")[2].split()[0] != "S":
                    return False
        except OSError:
            pass
    return True


def thread_stands(task):
    """A thread's name, state and the kernel function in which it waits."""
    words = []
    for name in ("comm", "stat", "wchan"):
        try:
            with open(f"{task}/{name}", encoding="utf-8", errors="replace") as f:
                text = f.read().strip()
        except OSError:
            text = "?"
        words.append(text.rpartition(")")[2].split()[0] if name == "stat" and ")" in text else text)
    return " ".join(words)


def stands(hosts):
    """Where everything on these hosts stands: for a case that has waited in vain."""
    for h in dict.fromkeys(hosts):
        for pid in h.pids():
            tasks = [thread_stands(t) for t in sorted(glob.glob(f"/proc/{pid}/task/*"))]
            yield f"{h.name}: {pid}: {', '.join(tasks)}"


def ticks():
    """What the machine's processors have done since they began: all, and what others have taken."""
    with open("/proc/stat", encoding="ascii") as f:
        counts = [int(word) for word in f.readline().split()[1:9]]
    return sum(counts), counts[7]


def family(pid):
    """A process and what it has started."""
    yield pid
    for children in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(children, encoding="ascii") as f:
                for child in f.read().split():
                    yield from family(child)
        except OSError:
            pass


class Program:
    """A program on a host, its output in a file of its own."""

    def __init__(self, host, argv, log, env=None):
        self.argv, self.log, self.host = [str(a) for a in argv], log, host
        self.started = time.monotonic()
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                host.inside(self.argv), stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, preexec_fn=die_with_parent,
                env={**os.environ, **(env or {})})
        self.pid = self.process.pid

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def says(self, text):
        return text in self.output()

    def settle(self, seconds=0.2, at_most=10):
        """Waits until it, its children and the broker have slept for so long: if it was about to
        listen, it listens, on however busy a machine."""
        end, since = time.monotonic() + at_most, None
        while time.monotonic() < end and self.status() is None:
            now = time.monotonic()
            calm = all(map(asleep, [*family(self.pid), *self.host.brokers()]))
            since = (since or now) if calm else None
            if since and now - since >= seconds:
                return
            time.sleep(0.02)

    def status(self):
        return self.process.poll()

    def wait(self, seconds):
        """The exit status, or None if it still runs then."""
        try:
            return self.process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


# So often at most: a busy machine has been seen to be late three times in succession.
LATE_MAX = 10


def refused_late(log):
    """Whether perftest's client met a listener that was late, which it does not survive.

    With -R it connects twice on one port, and its server listens anew in between. If weft has
    rejected the second request, as any connection manager would, the client goes on with an
    identifier that it has destroyed.
    """
    if not os.path.exists(log):
        return False
    with open(log, encoding="utf-8", errors="replace") as f:
        # Of iWARP it is TCP that refuses, or breaks what waited for the listener that went.
        return re.search(r"RDMA_CM_EVENT_REJECTED; error: (8|-111|-104)\b", f.read()) is not None


def end_in_order(programs):
    """SIGTERM for what still runs. What is wrong, or None: weft serve ends with 0, nothing crashes."""
    running = [p for p in programs if p.status() is None]
    for p in running:
        p.process.terminate()
    for p in running:
        what, status = " ".join(p.argv[1:3]), p.wait(10)
        if status is None:
            return f"{what} does not end at SIGTERM"
        if status not in (0, -signal.SIGTERM) and (status < 0 or "serve" in p.argv):
            return f"{what} ends with {status} at SIGTERM: {p.output()[-300:]}"
    return None


class Skip(Exception):
    """Raised by a case that cannot be had here, with the reason."""


class Report:
    """Counts, names and times the cases; keeps the logs of those that failed."""

    def __init__(self, build, name):
        self.dir = os.path.join(build, "interop-logs", name)
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        self.passed, self.failed, self.skipped = 0, [], []
        self.begun, self.ticks = time.monotonic(), ticks()

    def case(self, name):
        path = os.path.join(self.dir, re.sub(r"[^\w.-]+", "_", name))
        os.makedirs(path, exist_ok=True)
        self.begun, self.ticks = time.monotonic(), ticks()
        return path

    def ok(self, name, path, note=""):
        self.passed += 1
        shutil.rmtree(path, ignore_errors=True)
        self._say("ok", name, note)

    def fail(self, name, path, why):
        self.failed.append(name)
        every, stolen = (now - before for now, before in zip(ticks(), self.ticks))
        self._say("FAIL", name, f"{why} (stolen from this machine meanwhile: "
                                f"{100 * stolen // max(every, 1)} % of its time)")
        # What was written last says most of why.
        for log in sorted(os.listdir(path), reverse=True,
                          key=lambda log: os.path.getmtime(os.path.join(path, log))):
            with open(os.path.join(path, log), encoding="utf-8", errors="replace") as f:
                lines = f.read().splitlines()
            if len(lines) > 24:  # a crash is told first, as stdout is written at the end
                lines[12:-12] = [f"... ({len(lines) - 24} lines)"]
            print(f"    {os.path.join(path, log)}:")
            for line in lines:
                print(f"    | {line[:160]}")
        sys.stdout.flush()

    def prove(self, name, work):
        """A case whose work(path) raises what is wrong, or returns what there is to note, if
        anything. Whatever it raises, the other cases come all the same."""
        path = self.case(name)
        try:
            note = work(path)
        except Skip as e:
            self.skip(name, str(e))
        except AssertionError as e:
            self.fail(name, path, str(e))
        except Exception as e:  # pylint: disable=broad-exception-caught
            self.fail(name, path, f"{type(e).__name__}: {e}")
        else:
            self.ok(name, path, note or "")

    def prove_and_end(self, name, keeper, work):
        """A case whose work() raises or returns as that of prove(), and has what it starts kept in
        keeper.programs: these end in order. keeper.path is the case's."""
        def proof(path):
            keeper.path, keeper.programs = path, []
            try:
                note = work()
                fault = end_in_order(keeper.programs)
                if fault:
                    raise AssertionError(fault)
                return note
            finally:
                for p in keeper.programs:
                    p.kill()
        self.prove(name, proof)

    def attempt(self, name, work):
        """A case whose work(path) returns what is wrong, or None, and raises what nobody thought of."""
        def proof(path):
            fault = work(path)
            if fault:
                raise AssertionError(fault)
        self.prove(name, proof)

    def everything_ends(self, hosts):
        """The last case: what ran on the hosts has ended by itself."""
        left = [f"{h.name}: {line}" for h in dict.fromkeys(hosts) for line in h.close()]
        self.attempt("everything ends", lambda _: f"still running: {', '.join(left)}" if left else
                     None)

    def skip(self, name, why):
        self.skipped.append(name)
        self._say("skip", name, why)

    def _say(self, what, name, note):
        seconds = time.monotonic() - self.begun
        print(f"{what:4} {seconds:6.1f}s {name}{': ' + note if note else ''}", flush=True)

    def status(self):
        print(f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped")
        return 1 if self.failed or not self.passed else 0

    def finish(self):
        sys.exit(self.status())
