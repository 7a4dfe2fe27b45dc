#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Who may in: DH-HMAC-CHAP between `weft serve` and weft's host commands, by RDMA and by TCP.

usage: auth.py BUILD (one | veth) [--transport rdma|tcp] [--only WORD]

Keys from files and from the command line, mutual or one-way, by every hash and group; who has
none, another, or not the right name is told what is wrong, in a line, and gets no byte; no key is
ever shown, by a message or in /proc/PID/cmdline.
"""
import argparse
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import lab

NQN = "nqn.2026-11.org.weft:auth"
HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555"
OTHER = "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-4333-8444-555555555555"
KEY = re.compile(r"DHHC-1:0[0-3]:[A-Za-z0-9+/=]{16,}:")
HASHES = ("sha256", "sha384", "sha512")
ADD_KEY, KEYCTL, KEYCTL_UNLINK = 248, 250, 9  # system calls of x86-64; keyctl(2)
GROUPS = ("null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192")

# A target that closes the connection where it should say that it does not take the key: Linux's may.
CLOSES = r"""
import socket, struct, sys
def take(n):
    return c.recv(n, socket.MSG_WAITALL)
def command():
    n, = struct.unpack("<4xI", take(8))
    return struct.unpack_from("<H", take(n - 8), 2)[0]
def answer(result):
    c.sendall(struct.pack("<BBBBIIIHHHH", 5, 0, 24, 0, 24, result, 0, 0, 0, command(), 0))
server = socket.create_server((sys.argv[1], 4420))
print("ready", flush=True)
c, _ = server.accept()
take(128)
c.sendall(struct.pack("<BBBBIHBBI", 1, 0, 128, 0, 128, 0, 0, 0, 8192) + bytes(112))
answer(1 | 1 << 17)  # controller 1, which demands authentication
answer(0)
command()
"""


class Auth:
    def __init__(self, args, name=None):
        self.transport = args.transport
        self.weft = os.path.join(os.path.abspath(args.build), "weft")
        self.hosts = lab.lab(1 if args.where == "one" else 2)
        self.report = lab.Report(args.build, name or f"auth-{args.transport}-{args.where}")
        self.tmp = tempfile.TemporaryDirectory()
        self.programs, self.path = [], ""
        self.image = self.file("disk.img")
        with open(self.image, "wb") as f:
            f.write(os.urandom(4 << 20))
        self.key = self.new_key("host", "-m", "1", "-n", HOST)
        self.ctrl = self.new_key("ctrl", "-m", "3", "-n", NQN)
        self.wrong = self.new_key("wrong")

    def file(self, name):
        return os.path.join(self.tmp.name, name)

    def new_key(self, name, *options):
        r = self.hosts[0].run(self.weft, "gen-dhchap-key", *options)
        path = self.file(name + ".key")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
            f.write(r.stdout)
        return path

    def text(self, path):
        with open(path, encoding="ascii") as f:
            return f.read().strip()

    def start(self, host, *argv):
        p = lab.Program(host, [self.weft, *argv], f"{self.path}/{len(self.programs)}-{argv[0]}.log")
        self.programs.append(p)
        return p

    def serve(self, *options):
        p = self.start(self.hosts[0], "serve", self.image, "--nqn", NQN, "--listen",
                       f"{self.transport}://{self.hosts[0].address}:4420", *options)
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 10) or p.status() is not None:
            raise AssertionError(f"weft serve does not come up: {p.output()[-300:]}")
        return p

    def secured(self, *options):
        return self.serve("--dhchap-secret", f"{HOST}={self.key}", "--dhchap-ctrl-secret",
                          f"{HOST}={self.ctrl}", *options)

    def uri(self):
        return f"nvme+{self.transport}://{self.hosts[0].address}:4420/{NQN}?ns=1"

    def host(self, *argv, name=HOST):
        r = self.hosts[-1].run(self.weft, *argv, "-q", name)
        if KEY.search(r.stdout + r.stderr):
            raise AssertionError(f"weft {argv[0]} shows a key")
        return r

    def gets_in(self, *options, name=HOST):
        back = self.file("back")
        r = self.host("cp", self.uri(), back, *options, name=name)
        if r.returncode:
            raise AssertionError(f"is not let in: {r.stderr.strip()}")
        with open(back, "rb") as a, open(self.image, "rb") as b:
            if a.read() != b.read():
                raise AssertionError("what came is not what is there")
        os.remove(back)

    def stays_out(self, says, *options, name=HOST):
        r = self.host("id-ctrl", self.uri(), *options, name=name)
        if r.returncode != 1 or not re.search(says, r.stderr):
            raise AssertionError(f"status {r.returncode}, not a failure that says /{says}/: {r.stderr.strip()}")
        if len(r.stderr.strip().splitlines()) != 1:
            raise AssertionError(f"more than a line: {r.stderr}")

    def seen(self, server):
        r = self.hosts[0].run(self.weft, "stat", "-o", "json", server.pid, timeout=30)
        return json.loads(r.stdout)["processes"][0]

    def counters(self, server):
        return self.seen(server)["counters"]["target"]

    def check_server(self, server):
        if KEY.search(server.output()):
            raise AssertionError("weft serve shows a key")


def mutual(a):
    """Each proves itself to the other, by keys from files and on the command line."""
    server = a.secured()
    both = ("-S", "@" + a.key, "-C", "@" + a.ctrl)
    a.gets_in(*both)
    a.gets_in("-S", "@" + a.key)
    a.gets_in(f"--dhchap-secret={a.text(a.key)}", "--dhchap-ctrl-secret", a.text(a.ctrl))
    seen = a.counters(server)
    if seen["authentications"] < 6 or seen["authentications_failed"]:
        raise AssertionError(f"counted: {seen}")
    a.check_server(server)


def every_kind(a):
    """Each hash with each group."""
    for h in HASHES:
        for g in GROUPS:
            server = a.secured("--dhchap-hash", h, "--dhchap-dhgroup", g)
            r = a.host("id-ctrl", a.uri(), "-S", "@" + a.key, "-C", "@" + a.ctrl)
            if r.returncode:
                raise AssertionError(f"{h}, {g}: {r.stderr.strip()}")
            os.kill(server.pid, signal.SIGTERM)
            if server.wait(20) != 0:
                raise AssertionError(f"weft serve ends with {server.status()}")


def strangers(a):
    """No key, another one, another name, a target that cannot prove itself."""
    server = a.secured()
    if not re.search(r"^weft: nvme\S+ --hostnqn=\S+ --dhchap-secret=@FILE$.*^Linux: nvme connect .* -q \S+ --dhchap-secret=KEY$",
                     server.output(), re.M | re.S):
        raise AssertionError(f"the options are not told of: {server.output()}")
    a.stays_out("DH-HMAC-CHAP.*there is no key.*--dhchap-secret=@FILE")
    a.stays_out("does not take this host's key", "-S", "@" + a.wrong)
    a.stays_out("controller's key", "-S", "@" + a.key, "-C", "@" + a.wrong)
    # A name without a key is not asked for one: who may connect is said otherwise.
    a.gets_in(name=OTHER)
    a.stays_out("has no key of this host", "-S", "@" + a.key, "-C", "@" + a.ctrl, name=OTHER)
    seen = a.counters(server)
    if seen["authentications_failed"] < 3 or not server.says("not authenticated: " + HOST):
        raise AssertionError(f"not told: {seen}, {server.output()[-300:]}")
    failed = {f["reason"]: f["count"] for f in a.seen(server)["connects_failed"]}
    if (sum(failed.values()) != seen["authentications_failed"] or "authentication failed" not in failed
            or "its host has not proved who it is" not in failed):
        raise AssertionError(f"as connects that failed: {failed}, beside {seen}")
    a.gets_in("-S", "@" + a.key, "-C", "@" + a.ctrl)
    a.check_server(server)


def allowed(a):
    """Of those that may connect, each has its key; one for all others; nobody else."""
    a.serve("--allow-host", HOST, "--allow-host", OTHER, "--dhchap-secret", f"{HOST}={a.key}",
            "--dhchap-secret", a.wrong)
    a.gets_in("-S", "@" + a.key)
    a.gets_in("-S", "@" + a.wrong, name=OTHER)
    a.stays_out("does not take this host's key", "-S", "@" + a.wrong)
    a.stays_out("does not let host", "-S", "@" + a.wrong, name=OTHER + "0")
    if a.host("discover", "-t", a.transport, a.hosts[0].address).returncode:
        raise AssertionError("discovery asks for a key")


def masked(a):
    """A key on the command line is not there any more when the command runs."""
    server = a.secured()
    p = a.start(a.hosts[-1], "bench", a.uri(), "--runtime", "20", "-q", HOST, "-S", a.text(a.key), "-C",
                a.text(a.ctrl))
    if not lab.until(lambda: a.counters(server)["io_queues"] or p.status() is not None, 20) or p.status() is not None:
        raise AssertionError(f"weft bench does not begin: {p.output()[-300:]}")
    with open(f"/proc/{p.pid}/cmdline", "rb") as f:
        words = f.read().decode().split("\0")
    if any(KEY.search(w) for w in words) or words.count("*" * len(a.text(a.key))) != 1:
        raise AssertionError(f"seen: {words}")
    os.kill(p.pid, signal.SIGTERM)
    p.wait(20)


def keys(a):
    """Made, checked, and refused where they are none."""
    def run(status, says, *argv, **kwargs):
        r = subprocess.run([a.weft, *argv], capture_output=True, text=True, timeout=30, check=False, **kwargs)
        out = r.stdout + r.stderr
        if r.returncode != status or not re.search(says, out):
            raise AssertionError(f"{' '.join(argv[:2])}: status {r.returncode}, {out.strip()!r}")
        return r.stdout

    ours = ("DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:")
    secret = bytes(range(32)).hex()
    if run(0, "", "gen-dhchap-key", "-s", secret) != ours + "\n":
        raise AssertionError("not the key that was asked for")
    run(0, r"^Key is valid \(HMAC 0, length 32, CRC 91267e8a\)$", "check-dhchap-key", "-k", ours)
    if run(0, "", "gen-dhchap-key") == run(0, "", "gen-dhchap-key"):
        raise AssertionError("two keys are the same")
    for n, (hmac, length) in enumerate((("0", "64"), ("1", "32"), ("2", "48"), ("3", "64"))):
        key = run(0, f"^DHHC-1:0{hmac}:", "gen-dhchap-key", "-m", hmac, "-l", length, "-n", HOST).strip()
        run(0, f"HMAC {hmac}, length {length}", "check-dhchap-key", f"--key={key}")
        run(1, "check sum|base64", "check-dhchap-key", "-k", key[:20] + ("A" if key[20] != "A" else "B") + key[21:])
        run(1, "reads DHHC-1|length", "check-dhchap-key", "-k", key[:30 + n])
    run(2, "does not go with", "gen-dhchap-key", "-m", "2", "-l", "32")
    run(2, "from 0 to 3", "gen-dhchap-key", "-m", "4")
    run(1, "digits", "gen-dhchap-key", "-s", "00ff")
    run(1, "hexadecimal", "gen-dhchap-key", "-s", "zz" * 32)
    run(2, "which key", "check-dhchap-key")
    run(1, "none.key", "check-dhchap-key", "-k", "@" + a.file("none.key"))
    # Wrong use of them where they are used.
    out = run(2, "dhchap-secret", "id-ctrl", a.uri(), "-S", ours[:-2] + ":")
    if ours[10:30] in out:
        raise AssertionError("a key that is wrong is shown")
    run(2, "goes with --dhchap-secret", "id-ctrl", a.uri(), "-C", ours)
    run(1, "none.key", "serve", a.image, "--dhchap-secret", a.file("none.key"))
    run(1, "prove nothing itself", "serve", a.image, "-l", "tcp://127.0.0.1", "--dhchap-ctrl-secret", a.key)
    run(2, "ffdhe", "serve", a.image, "--dhchap-dhgroup", "modp")
    run(2, "sha256", "serve", a.image, "--dhchap-hash", "md5")
    for least in (("--dhchap-hash", "sha384"), ("--dhchap-dhgroup", "ffdhe2048")):
        run(2, "--dhchap-secret=.*says which", "serve", a.image, *least)
        run(2, "stands in the file", "serve", "--config", a.file("none.json"), *least)
    os.chmod(a.wrong, 0o644)
    run(0, "others can get at", "check-dhchap-key", "-k", "@" + a.wrong)
    os.chmod(a.wrong, 0o600)


def in_keyring(a):
    """A key of the kernel's, by its description, on both sides; one that is not there is told by its name."""
    libc, name, session = ctypes.CDLL(None, use_errno=True), f"weft-auth-{os.getpid()}", -3
    text = a.text(a.key).encode()
    libc.syscall.restype = ctypes.c_long
    key = libc.syscall(ADD_KEY, b"user", name.encode(), text, len(text), session)
    if key < 0:
        raise lab.Skip(f"no keyring here: {os.strerror(ctypes.get_errno())}")
    try:
        server = a.serve("--dhchap-secret", f"{HOST}=keyring:{name}")
        a.gets_in("-S", f"@keyring:{name}")
        a.stays_out("does not take", "-S", "@" + a.wrong)
        r = a.host("id-ctrl", a.uri(), "-S", f"@keyring:{name}-not")
        if r.returncode != 2 or f"keyring:{name}-not: " not in r.stderr:
            raise AssertionError(f"a key that is not there: {r.returncode}, {r.stderr.strip()}")
        a.check_server(server)
    finally:
        libc.syscall(KEYCTL, KEYCTL_UNLINK, ctypes.c_long(key), session)


def closed(a):
    """The connection ends where an answer is due: what is told is where to look."""
    p = lab.Program(a.hosts[0], [sys.executable, "-c", CLOSES, a.hosts[0].address], f"{a.path}/target.log")
    a.programs.append(p)
    lab.until(lambda: p.says("ready"), 10)
    a.stays_out("lost: the target closed it, before it had authenticated this host; .*--dhchap-secret",
                "--dhchap-secret", f"@{a.key}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", choices=("one", "veth"))
    p.add_argument("--transport", choices=("rdma", "tcp"), default="rdma")
    p.add_argument("--only", metavar="WORD", default="", help="what the case's name has in it")
    args = p.parse_args()
    lab.enter()
    a = Auth(args)
    for case in (mutual, every_kind, strangers, allowed, masked, keys, in_keyring, *[closed] * (a.transport == "tcp")):
        if args.only in case.__name__:
            a.report.prove_and_end(case.__name__.replace("_", " "), a, lambda case=case: case(a))
    a.report.everything_ends(a.hosts)
    a.report.finish()


if __name__ == "__main__":
    sys.exit(main())
