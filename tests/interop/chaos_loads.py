# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What runs in chaos.py: servers that are there all the time, and loads that come and go.

Servers are on the left host, but for one that is on the right; loads on the right. A group is what
a fault of one of its members may hurt.
"""
import os
import random
import signal
import time

import lab

NQN = "nqn.2026-11.org.weft:chaos"
SIZES = (8 << 20, 24 << 20, 48 << 20)
ECHO_PORT, CROWD_PORT, PAIR_PORT = 8100, 7800, 7600

# A thread for each connection; a peer that has vanished is found out.
ECHO_SERVER = """
import socket, sys, threading
def serve(s):
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2)
        while data := s.recv(65536):
            s.sendall(data)
    except OSError:
        pass
    s.close()
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=128)
print("serving", flush=True)
while True:
    try:
        conn, _ = listener.accept()
    except OSError:
        continue
    threading.Thread(target=serve, args=(conn,), daemon=True).start()
"""

# Streams of several lengths, one after the other; what comes back is what was sent.
ECHO_CLIENT = """
import random, socket, sys, threading, time
rng, end = random.Random(int(sys.argv[3])), time.monotonic() + float(sys.argv[4])
while time.monotonic() < end:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
    n = rng.choice((1, 1000, 65536, 1000000))
    sent, got = rng.randbytes(n), bytearray()
    def send():
        try:
            s.sendall(sent)
        except OSError as e:
            print("sending:", e)
    writer = threading.Thread(target=send)
    writer.start()
    try:
        while n and (data := s.recv(65536)):
            got += data
            n -= len(data)
    finally:
        writer.join()
    s.close()
    if n:
        sys.exit("it ended before all was there")
    wrong = [i for i in range(len(sent)) if sent[i] != got[i]] if got != sent else []
    if wrong: # where it came from says what went wrong
        at = wrong[0]
        sys.exit(f"WRONG DATA: {len(wrong)} of {len(sent)} bytes, from {at} to {wrong[-1]}; what "
                 f"came there was sent at {sent.find(got[at:at + 16])}, what was sent there came "
                 f"at {got.find(sent[at:at + 16])}; it begins {got[at:at + 16].hex()}")
"""


class Server:
    """A program that runs all the time, and again after it was killed."""

    def __init__(self, storm, name, group, host, argv, ready, image=None, always=False):
        self.storm, self.name, self.group, self.host = storm, name, group, host
        self.argv, self.ready, self.image, self.always = argv, ready, image, always
        self.program, self.log, self.starts, self.expected = None, None, 0, False
        self.switch = os.path.join(storm.scratch, f"disk-of-{name}")

    def disk(self, letter):
        with open(self.switch, "w", encoding="ascii") as f:
            f.write(letter)

    def start(self):
        self.starts += 1
        self.log = os.path.join(self.storm.path, f"{self.name}-{self.starts}.log".replace(" ", "-"))
        env = []
        if self.image:
            self.disk("g")
            shim = os.path.join(self.storm.helpers, "libbad-disk.so")
            env = ["env", f"LD_PRELOAD={shim}", f"BAD_DISK={self.switch}"]
        self.program = lab.Program(self.host, [*env, *self.argv], self.log)
        self.expected = True

    def up(self):
        return self.program.says(self.ready)

    def look(self):
        """It is there, or why not is told, and it starts again."""
        if not self.expected or self.program.status() is None:
            return
        # While its address is gone it has nothing to listen on.
        if self.up() or not self.storm.disturbed(self.group, self.program.started):
            self.storm.complain(f"{self.name} ended by itself with {self.program.status()} "
                                f"({self.log})")
        time.sleep(0.2)
        self.start()

    def pid(self):
        return self.program.pid

    def signal(self, name):
        self.expected = self.expected and name in ("STOP", "CONT")
        self.program.process.send_signal(getattr(signal, f"SIG{name}"))
        if name == "TERM":
            self.see_it_end()

    def see_it_end(self):
        """At SIGTERM."""
        status = self.program.wait(10)
        if status is None:
            self.storm.complain(f"{self.name} does not end at SIGTERM ({self.log})")
        elif status < 0 and status != -signal.SIGTERM:
            self.storm.complain(f"{self.name} dies of signal {-status} at SIGTERM ({self.log})")

    def revive(self):
        self.program.kill()
        self.start()

    def kill(self):
        if self.program:
            self.program.kill()


class Load:
    """A program, or a pair of them, on and off. make(load) gives the argv of the one that counts,
    after it has started the other, if any, with load.beside()."""

    def __init__(self, storm, name, group, limit, make, ends_always=True, starved=False,
                 may_say=None):
        self.storm, self.name, self.group, self.limit, self.make = storm, name, group, limit, make
        self.ends_always, self.starved, self.may_say = ends_always, starved, may_say
        self.began, self.program, self.other, self.count = None, None, None, 0
        self.signals, self.log = set(), None
        self.rng = random.Random(f"{storm.seed} {name}")

    def label(self):
        return f"{self.name} (run {self.count})"

    def running(self):
        return self.began is not None and self.program.status() is None

    def file(self, suffix):
        return os.path.join(self.storm.path, f"{self.name}-{self.count}{suffix}".replace(" ", "-"))

    def beside(self, host, *argv):
        self.other = lab.Program(host, argv, self.file("-other.log"))
        self.other.settle(0.1, 5)

    def start(self):
        self.count += 1
        self.signals = set()
        self.log = self.file(".log")
        self.began = time.monotonic()
        argv = ["setsid", *self.make(self)]  # with its children, of whom it may be robbed
        self.program = lab.Program(self.storm.hosts[1], argv, self.log)

    def status(self):
        return self.program.status()

    def output(self):
        return self.program.output()

    def fault_beside(self):
        """What is wrong with the other of a pair, that no fault is meant for; or None."""
        if not self.other:
            return None
        nasty, status = self.storm.nasty(self.other.output()), self.other.status()
        if nasty:
            return f"{nasty!r} in {self.other.log}"
        return f"died of signal {-status} ({self.other.log})" if status and status < 0 else None

    def signal(self, name):
        number = getattr(signal, f"SIG{name}")
        self.signals.add(number)
        try:
            self.program.process.send_signal(number)
        except ProcessLookupError:
            pass

    def revive(self):
        pass

    def finish(self, keep=True):
        if self.began is None:
            return
        try:
            os.killpg(self.program.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.program.kill()
        if self.other:
            self.other.kill()
        if not keep:
            for path in (self.log, self.file("-other.log")):
                if os.path.exists(path):
                    os.unlink(path)
        self.began, self.other = None, None


def servers(storm):
    left, right = storm.hosts
    found = []
    for n, size in enumerate((*SIZES, 1 << 20)):
        image = os.path.join(storm.scratch, f"disk{n}.img")
        with open(image, "wb") as f:
            f.truncate(size)
        if n == len(SIZES):  # Nobody's: it keeps the right host's broker.
            found.append(Server(storm, "idle server", "idle", right, [
                storm.weft, "serve", image, "--nqn", NQN], "nvme connect", always=True))
            break
        listen = f"rdma://{left.address}:{4420 + n}" if n else f"rdma://:{4420 + n}"
        found.append(Server(storm, f"target {n}", f"disk{n}", left, [
            storm.weft, "serve", image, "--nqn", NQN, "--listen", listen], "nvme connect",
            image=image))
    found.append(Server(storm, "echo server", "echo", left, [
        storm.weft, "run", "--sockets=only", "--", "python3", "-u", "-c", ECHO_SERVER,
        left.address, ECHO_PORT], "serving"))
    found.append(Server(storm, "crowd server", "crowd", left, [
        storm.weft, "run", "--", os.path.join(storm.helpers, "crowd"), "serve", left.address,
        CROWD_PORT], "listening"))
    return found


def uri(storm, n):
    return f"nvme+rdma://{storm.hosts[0].address}:{4420 + n}/{NQN}"


PATIENCE = ("--ctrl-loss-tmo", "20", "--timeout", "10", "--keep-alive-tmo", "5")


def bench(storm, n):
    def make(load):
        rw, bs, depth = load.rng.choice((("randrw", "4k", 16), ("randwrite", "64k", 8),
                                         ("write", "512k", 4), ("randrw", "512", 32)))
        return [storm.weft, "bench", uri(storm, n), "--rw", rw, "--bs", bs, "--iodepth", depth,
                "--size", "4m", "--runtime", load.rng.choice((1, 3, 8)), "--verify", "--yes",
                "--seed", load.rng.randrange(1 << 20),
                "--nr-io-queues", load.rng.choice((1, 2)), *PATIENCE]
    return make


def copy(storm, n):
    def make(load):
        path = os.path.join(storm.scratch, "to-copy")
        with open(path, "wb") as f:
            f.write(load.rng.randbytes(4 << 20))
        return [storm.weft, "cp", path, uri(storm, n), "--verify", *PATIENCE]
    return make


def starved_bench(storm, n):
    """Too few descriptors, or too little memory, at whatever point that is noticed."""
    def make(load):
        limit = load.rng.choice((f"--nofile={load.rng.randrange(3, 24)}",
                                 f"--as={load.rng.randrange(8, 120) << 20}"))
        return ["prlimit", limit, storm.weft, "bench", uri(storm, n), "--rw", "randread",
                "--runtime", "1", *PATIENCE]
    return make


def echo(storm):
    def make(load):
        return [storm.weft, "run", "--sockets=only", "--", "python3", "-u", "-c", ECHO_CLIENT,
                storm.hosts[0].address, ECHO_PORT, load.rng.randrange(1 << 30),
                load.rng.choice((0.5, 2, 6))]
    return make


def crowd(storm, *limits):
    def make(load):
        starved = [limits[0].format(load.rng.randrange(*limits[1:]))] if limits else []
        return [*(["prlimit"] * len(starved)), *starved, storm.weft, "run", "--",
                os.path.join(storm.helpers, "crowd"), "connect", storm.hosts[0].address, CROWD_PORT,
                load.rng.choice((1, 3)), load.rng.choice((1, 4))]
    return make


def pair(storm, ports, *words):
    """The same words on both hosts, a port of its own, and the server's address for the client."""
    def make(load):
        argv = [storm.weft, "run", "--", *words, str(ports[load.count % len(ports)])]
        load.beside(storm.hosts[0], *argv)
        return [*argv, storm.hosts[0].address]
    return make


# Addresses that went and came again may have other indices in a host's table of GIDs than before.
PINGPONG = """
gid=$(ibv_devinfo -v -d weft_eth0 | sed -n 's/.*GID\\[ *\\([0-9]*\\)\\]:.*::ffff:.*/\\1/p')
port=$1
shift
exec ibv_rc_pingpong -d weft_eth0 -g ${gid:?none of IPv4} -n 2000 -p $port "$@"
"""


def rping(storm):
    def make(load):
        port, to = PAIR_PORT + 100 + load.rng.randrange(100), storm.hosts[0].address
        words = [storm.weft, "run", "--", "rping", "-a", to, "-p", port, "-C", "200", "-V"]
        load.beside(storm.hosts[0], *words, "-s")
        return [*words, "-c"]
    return make


def loads(storm):
    for n in range(len(SIZES) - 1):
        yield Load(storm, f"bench {n}", f"disk{n}", 90, bench(storm, n))
    last = len(SIZES) - 1
    yield Load(storm, "copy", f"disk{last}", 90, copy(storm, last))
    yield Load(storm, "starved bench", f"disk{last}", 60, starved_bench(storm, last), starved=True)
    # recv() and each connect have 20 s, close() has 60.
    yield Load(storm, "echo", "echo", 120, echo(storm))
    yield Load(storm, "echo again", "echo", 120, echo(storm))
    # These wait for their peers as long as it takes, and some of them by TCP.
    yield Load(storm, "crowd", "crowd", 60, crowd(storm), ends_always=False)
    yield Load(storm, "starved crowd", "crowd", 60, crowd(storm, "--nofile={}", 3, 40),
               ends_always=False, starved=True)
    yield Load(storm, "rping", "rping", 60, rping(storm), ends_always=False)
    # By itself it gives up after half a second, in which a busy machine may not run its peer.
    yield Load(storm, "ib_write_bw", "ib_write_bw", 60,
               pair(storm, range(PAIR_PORT, PAIR_PORT + 50),
                    "ib_write_bw", "-F", "-d", "weft_eth0", "-u", "18", "-D", "2", "-p"),
               ends_always=False)
    # So does this, and has no option for it.
    yield Load(storm, "pingpong", "pingpong", 60,
               pair(storm, range(PAIR_PORT + 50, PAIR_PORT + 100), "sh", "-c", PINGPONG, "sh"),
               ends_always=False, may_say="transport retry counter exceeded")
