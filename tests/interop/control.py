#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`weft target`: what is served changes while hosts work on it, at once and whole or not at all.

usage: control.py BUILD [--transport rdma|tcp]

A verified bench goes on beside all that changes, and notices nothing.
"""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unicodedata

import config
import lab
from config import H1, H2, KEY, OTHER, S1, S2, same

NEW = "nqn.2026-11.org.weft:new"


class Control(config.Config):
    """A target, and commands that change it."""

    def __init__(self, build, transport):
        super().__init__(build, transport, "control")
        # Other services of this machine are none of ours.
        self.runtime = os.path.join(self.tmp.name, "run")
        os.mkdir(self.runtime, 0o700)
        self.socket = os.path.join(self.runtime, "s")

    def serve_with(self, *argv):
        self.server = self.start("serve", *argv, "--control", self.socket)
        self.until("ready")

    def serve(self, doc):
        self.write(doc)
        self.serve_with("--config", self.file)

    def run_target(self, *argv, stdin="", service=True):
        which = ["-s", self.socket] if service else []
        return self.hosts[0].run(self.weft, "target", *which, *argv, input=stdin, timeout=60)

    def target(self, *argv, fails=None, status=1, stdin="", service=True):
        r = self.run_target(*argv, stdin=stdin, service=service)
        if bool(fails) != bool(r.returncode) or (fails and (r.returncode != status or fails not in r.stderr)):
            raise AssertionError(f"weft target {' '.join(argv)} ended with {r.returncode}: {r.stdout}{r.stderr}")
        if fails and status == 1 and len(r.stderr.splitlines()) != 1:
            raise AssertionError(f"a failure is a line: {r.stderr}")
        return r.stdout

    def served(self):
        return json.loads(self.target("ls", "-o", "json"))

    def blocks(self, nqn, ns, **how):
        return json.loads(self.host("id-ns", self.uri(nqn, ns, **how), "-o", "json"))["nsze"]


def beside_a_host(c):
    """Each verb, while a host works on a namespace beside: it notices nothing."""
    c.serve(c.document())
    bench = c.bench(c.uri(S2, 4), 10)
    lab.until(lambda: c.server.says("connected"), 10)
    same(c.target("/subsystems", "create", NEW, "allow_any_host=1"), "", "what create says")
    same(c.target("create", f"/subsystems/{NEW}/namespaces", "path=" + c.image("new.img")),
         f"/subsystems/{NEW}/namespaces/1\n", "the path of what was created")
    c.target("create", f"/ports/5/subsystems/{NEW}")
    same(c.offered(), sorted([S1, S2, NEW]), "offered")
    c.host("cp", c.uri(NEW, 1), os.path.join(c.tmp.name, "copy"))
    c.target("set", f"/subsystems/{NEW}", "attr", "serial=abc", "model=made up")
    same(json.loads(c.host("id-ctrl", c.uri(NEW), "-o", "json"))["mn"].strip(), "made up", "model")
    c.target("set", f"/subsystems/{NEW}/namespaces/1", "resv.enable=0", "ana.grpid=1")
    shown = c.target("ls", f"/subsystems/{NEW}/namespaces/1")
    same(" ana.grpid=1, resv.enable=0, " in shown and "ENABLED]" in shown, True, f"attributes in {shown}")
    c.target("disable", f"/subsystems/{NEW}/namespaces/1")
    c.host("id-ns", c.uri(NEW, 1), fails="1")
    c.target("enable", f"/subsystems/{NEW}/namespaces/1")
    before = c.blocks(NEW, 1)
    with open(os.path.join(c.tmp.name, "new.img"), "ab") as f:
        f.truncate(16 << 20)
    c.target("resize", f"/subsystems/{NEW}/namespaces/1")
    same(c.blocks(NEW, 1), 2 * before, "blocks of a file that has grown")
    c.target("resize", f"/subsystems/{NEW}/namespaces/1", "1g", fails="has the size that it has")
    before = c.blocks(S2, 4)
    c.target("resize", f"/subsystems/{S2}/namespaces/4", "64m")
    same(c.blocks(S2, 4), 8 * before, "blocks of a disk in memory that was resized under load")
    c.target("create", "/hosts/" + H2 + "-new", "dhchap.key=" + KEY)
    c.target("create", f"/subsystems/{S1}/allowed_hosts/{H2}")
    c.host("id-ctrl", c.uri(S1, host=H2))
    c.target("remove", f"/subsystems/{S1}/allowed_hosts/{H2}")
    c.host("id-ctrl", c.uri(S1, host=H2), fails="does not let host")
    c.target("create", "/ports/9", f"trtype={c.transport}", f"traddr={c.hosts[0].address}", "trsvcid=4433")
    c.target("create", f"/ports/9/subsystems/{S2}")
    c.target("create", "/ports/9/referrals/far", "trtype=tcp", "traddr=192.0.2.1", "trsvcid=8009")
    same(c.offered(port=4433), [S2, S2], "offered at both, as is told at the new port")
    same(any("192.0.2.1" == r["traddr"] for r in c.records(port=4433)), True, "the new referral is told")
    c.target("disable", "/ports/9/referrals/far")
    same(any("192.0.2.1" == r["traddr"] for r in c.records(port=4433)), False, "a referral that is disabled is told")
    c.target("remove", "/ports/9")
    c.host("discover", "-t", c.transport, f"{c.hosts[0].address}:4433", fails="4433")
    c.target("remove", "/subsystems/" + NEW)
    same(c.offered(), [S1, S2], "offered")
    same(bench.wait(60), 0, "the bench's status")
    if KEY[10:40] in c.server.output():
        raise AssertionError("a secret is told")


def what_is_refused(c):
    """An error names the object, and nothing has changed."""
    c.serve(c.document())
    before = c.served()["document"]
    for argv, words in (
            (("create", f"/subsystems/{S1}/namespaces/3", "path=/nonexistent"),
             f"subsystems[{S1}].namespaces[3].device.path: /nonexistent: no such file"),
            (("create", f"/subsystems/{S1}/namespaces/3", "path=nbd-none"),
             f"subsystems[{S1}].namespaces[3].device.path: {os.getcwd()}/nbd-none: no such file"),
            (("set", f"/subsystems/{S1}", "serial=123456789012345678901"), f"subsystems[{S1}].attr.serial: at most 20"),
            (("create", "/ports/7", f"trtype={c.transport}", "traddr=192.0.2.99"), "ports[7].addr: "),
            (("create", "/ports/7", f"trtype={c.transport}", f"traddr={c.hosts[0].address}"), "ports[7].addr: port 5 has"),
            (("create", f"/subsystems/{S1}/allowed_hosts/{NEW}"), f"there is no such host; `create /hosts/{NEW}`"),
            (("create", "/hosts/bad"), "hosts[bad].nqn: "),
            (("set", f"/hosts/{H1}", "dhchap.key=DHHC-1:00:c2VjcmV0:"), f"hosts[{H1}].dhchap.key: "),
            (("enable", f"/subsystems/{S1}/namespaces/7"), f"subsystems[{S1}].namespaces[7].device.path: /nonexistent"),
            (("remove", "/subsystems/" + NEW), f"subsystems[{NEW}]: there is no such subsystem"),
            (("resize", f"/subsystems/{S2}/namespaces/4", "much"), f"subsystems[{S2}].namespaces[4]: 'much' is not a size"),
            (("ls", "/subsystems/" + NEW), f"/subsystems/{NEW}: there is no such subsystem")):
        c.target(*argv, fails=words)
    for argv, words in ((("crate", "/hosts/" + NEW), "'crate'"), (("create", "/host/" + NEW), "hosts, subsystems, ports"),
                        (("set", f"/subsystems/{S1}", "colour=red"), "attr.serial"), (("restore",), "restore FILE")):
        c.target(*argv, fails=words, status=2)
    same(c.served()["document"], before, "the document")
    same(c.served()["edits"], 0, "edits")


def transactions(c):
    """Commands from standard input are one change: hosts see all of it, or nothing."""
    c.serve(c.document())
    lines = (f"create /subsystems/{NEW} allow_any_host=1  # a comment\n\n"
             f"create /subsystems/{NEW}/namespaces/1 path=mem:1m\ncreate /ports/5/subsystems/{NEW}\n")
    c.target("-", stdin=lines + f"remove /subsystems/{NEW}/namespaces/9\n", fails="line 5: subsystems[")
    c.target("-", stdin=lines + "set /ports/5 'portid=6\n", fails="line 5: a quote has no end")
    c.target("-", stdin=lines + "save\n", fails="line 5: save changes nothing")
    c.target("-", stdin=lines + f"create /subsystems/{NEW}/namespaces/2 path=/nonexistent\n", fails="/nonexistent")
    same(c.offered(), [S1, S2], "offered after what failed")
    # What is in the way until the last line: the same address, the same disk.
    lines += (f"remove /ports/5\ncreate /ports/8 trtype={c.transport} traddr={c.hosts[0].address} trsvcid=4421\n"
              f"create /ports/8/subsystems/{NEW}\nremove /subsystems/{S1}\n"
              f"create /subsystems/{NEW}/namespaces/3 path={os.path.join(c.tmp.name, 'a.img')}\n")
    c.target("-", stdin=lines)
    same(c.offered(port=4421), [NEW], "offered")
    c.host("id-ns", c.uri(NEW, 3, port=4421))
    c.target("-", stdin="# nothing\n")
    same(c.served()["unsaved"], 8, "edits that were not saved")


def documents(c):
    """What was restored is saved, byte for byte, with what is not understood; modes and links stay."""
    doc = c.document()
    doc["subsystems"][0]["attr"].update(ieee_oui="0x000000", version="1.3", colour="red")
    doc["hosts"][0]["dhchap"] = {"key": KEY, "ctrl_key": ""}
    doc["future"] = {"a": [1, 2.5, None, "\u00e4\U0001f600"]}
    text = json.dumps(doc, sort_keys=True, indent=2) + "\n"
    c.serve(text)
    os.chmod(c.file, 0o640)
    c.target("save")
    with open(c.file) as f:
        same(f.read() == text, True, "the file is the same")
    same(os.stat(c.file).st_mode & 0o777, 0o640, "the file's mode")
    other = os.path.join(c.tmp.name, "other.json")
    c.target("save", other)
    same(os.stat(other).st_mode & 0o777, 0o600, "a new file's mode")
    with open(other) as f:
        same(f.read() == text, True, "another file is the same")
    same(c.target("save", "-") == text, True, "on standard output it is the same")
    c.target("create", "/hosts/" + NEW)
    with open(c.file) as f:
        same(f.read() == text, True, "the file is the same before it is saved")
    c.target("save", other)
    same(c.served()["unsaved"], 1, "unsaved, with another file saved")
    c.target("save")
    same(c.served()["unsaved"], 0, "unsaved")
    with open(c.file) as f:
        same([h["nqn"] for h in json.load(f)["hosts"]], [H1, H2, NEW], "hosts in the file")
    # Written by hand it stays so for as long as it says the same.
    with open(c.file) as f:
        by_hand = json.dumps(json.load(f))
    with open(c.file, "w") as f:
        f.write(by_hand)
    c.target("save")
    with open(c.file) as f:
        same(f.read() == by_hand, True, "a file that says the same stays as it is")
    c.target("clear")
    same(c.target("ls", "-p"), "/\n/hosts\n/subsystems\n/ports\n", "what is left")
    with open(other) as f:
        same("future" in json.load(f), True, "unknown keys are kept")
    with open(other, "w") as f:
        f.write(text)
    c.target("restore", other)
    same(c.target("save", "-") == text, True, "what was restored is the same")
    c.target("restore", os.path.join(c.tmp.name, "a.img"), fails="a.img: line ")
    with open(other, "w") as f:
        f.write('{"ports":[{}]}')
    c.target("restore", other, fails="other.json: ports[0].portid")
    c.target("save", "/dev/null", fails="/dev/null")
    # The file wins, and says how much that costs.
    c.reload(text, "read again")
    same("edits by `weft target` that were not saved are gone" in c.server.output(), True, "what is lost is said")
    same(c.served()["unsaved"], 0, "unsaved after the file was read")
    c.target("create", "/hosts/" + NEW)
    c.server.process.terminate()
    same(c.server.wait(20), 0, "the service's status")
    same("1 edit by `weft target` was not saved" in c.server.output(), True, "what ends with the service is said")


def secrets(c):
    doc = c.document()
    doc["hosts"][0]["dhchap"] = {"key": KEY, "hash": "hmac(sha256)"}
    c.serve(doc)
    for argv in (("ls",), ("ls", "-o", "json"), ("ls", "-o", "json", f"/hosts/{H1}")):
        out = c.target(*argv)
        same(KEY in out or "********" not in out, False, f"{argv} shows a key")
        same(KEY in c.target(*argv, "--show-secrets"), True, f"{argv} --show-secrets shows the key")
    same(KEY in c.target("save", "-"), True, "save keeps keys")
    key = os.path.join(c.tmp.name, "key")
    with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        f.write(KEY + "\n")
    c.target("create", "/hosts/" + NEW, f"dhchap.key=@{key}")
    same(c.target("ls", "-S", f"/hosts/{NEW}").count(KEY), 1, "a key from a file")
    c.target("set", "/hosts/" + NEW, "dhchap.key=@/nonexistent", fails="/nonexistent: No such file")


def from_the_command_line(c):
    """A service of a disk image has a document, too, and its file serves the same."""
    image = c.image("d.img")
    c.server = c.start("serve", "mem:1m", image, "-r", "-l", f"{c.transport}://{c.hosts[0].address}", "-n", S1,
                       "--control", c.socket)
    c.until("ready")
    c.target("save", fails="name a file")
    c.target("create", f"/subsystems/{S1}/namespaces/7", "path=null:2g")
    c.host("id-ns", c.uri(S1, 7))
    before = [json.loads(c.host("id-ns", c.uri(S1, n), "-o", "json")) for n in (2, 7)]
    out = c.target("save", c.file)
    same("--block-size=512 --read-only" in out, True, "how it is served again is said")
    c.server.process.terminate()
    same(c.server.wait(20), 0, "the service's status")
    c.serve_with("--config", c.file, "--block-size=512", "--read-only")
    same([json.loads(c.host("id-ns", c.uri(S1, n), "-o", "json")) for n in (2, 7)], before, "namespaces")
    c.host("cp", image, c.uri(S1, 2), fails="write-protected")


def keys_of_the_command_line(c):
    """A host has the key that it is given later in the place of the command line's, and that again without."""
    keys = [os.path.join(c.tmp.name, name) for name in ("key1", "key2")]
    for path, key in zip(keys, (KEY, OTHER)):
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
            f.write(key + "\n")
    c.serve_with("mem:1m", "-l", f"{c.transport}://{c.hosts[0].address}", "-n", S1, "--allow-host", H1,
                 "--dhchap-secret", f"{H1}={keys[0]}")

    def lets_in(key, other):
        c.host("id-ctrl", c.uri(S1), "-S", key)
        c.host("id-ctrl", c.uri(S1), "-S", other, fails="does not take this host's key")

    lets_in(KEY, OTHER)
    c.target("set", f"/hosts/{H1}", f"dhchap.key=@{keys[1]}")
    lets_in(OTHER, KEY)
    c.target("set", f"/hosts/{H1}", "dhchap.hash=hmac(sha384)")
    lets_in(OTHER, KEY)
    c.target("set", f"/hosts/{H1}", "dhchap.key=", "dhchap.hash=")
    lets_in(KEY, OTHER)
    c.server.process.terminate()
    same(c.server.wait(20), 0, "the service's status")


def which_service(c):
    """Services side by side are told apart; a dead one's socket is replaced, a living one's never."""
    os.environ["XDG_RUNTIME_DIR"] = c.runtime
    user = lab.ordinary_user()
    if not user:
        raise lab.Skip("there is no other user")
    os.chown(c.runtime, lab.NOBODY, lab.NOBODY)
    os.chmod(c.tmp.name, 0o755)
    try:
        both = [c.start_as(user, "serve", "mem:1m", "-l", f"tcp://{c.hosts[0].address}:{port}", "-n", nqn)
                for nqn, port in ((S1, 4431), (S2, 4432))]
        for p in both:
            if not lab.until(lambda p=p: p.says("ready"), 20):
                raise AssertionError(f"no service: {p.output()}")
        ask = lambda *argv: c.hosts[0].run(*user, c.weft, "target", *argv, timeout=60)
        directory = os.path.join(c.runtime, "weft")
        same(os.stat(directory).st_mode & 0o777, 0o700, "the directory's mode")
        names = sorted(os.listdir(directory))
        same(len(names), 2, "sockets")
        for n in names:
            same(os.stat(os.path.join(directory, n)).st_mode & 0o777, 0o600, "a socket's mode")
        r = ask("ls")
        same(r.returncode == 1 and S1 in r.stderr and S2 in r.stderr and "--service" in r.stderr, True,
             f"two services are named: {r.stderr}")
        same(S1 in ask("-s", S1, "ls").stdout, True, "one by its subsystem")
        pid = [n for n in names if S2 in ask("-s", n.split(".")[0], "ls").stdout]
        same(len(pid), 1, "one by its process")
        same(S2 in ask("-s", os.path.join(directory, pid[0]), "ls").stdout, True, "one by its socket")
        same(ask("-s", NEW, "ls").returncode, 1, "none of that name")
        # Neither another user, nor one whom root lets act for it.
        r = c.hosts[0].run("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--", c.weft, "target", "-s",
                           os.path.join(directory, pid[0]), "ls")
        same(r.returncode == 1 and "Permission denied" in r.stderr, True, f"another user is kept out: {r.stderr}")
        taken = c.hosts[0].run(*user, c.weft, "serve", "mem:1m", "-l", f"tcp://{c.hosts[0].address}:4433", "--control",
                               os.path.join(directory, pid[0]), timeout=20)
        same(taken.returncode == 1 and "a service listens there" in taken.stderr, True, f"a living one: {taken.stderr}")
        victim = int(pid[0].split(".")[0])
        os.kill(victim, signal.SIGKILL)
        lab.until(lambda: any(p.status() is not None for p in both), 10)
        same(len(os.listdir(directory)), 2, "a dead one's socket stays")
        same(S1 in ask("ls").stdout, True, "the only one alive is meant")
        third = c.start_as(user, "serve", "mem:1m", "-l", f"tcp://{c.hosts[0].address}:4434", "-n", NEW, "--control",
                           os.path.join(directory, pid[0]))
        lab.until(lambda: third.says("ready"), 20)
        same(NEW in ask("-s", os.path.join(directory, pid[0]), "ls").stdout, True, "a dead one's socket is replaced")
        third.process.kill()
        third.wait(10)
        fourth = c.start_as(user, "serve", "mem:1m", "-l", f"tcp://{c.hosts[0].address}:4435", "-n", S2)
        lab.until(lambda: fourth.says("ready"), 20)
        same(len(os.listdir(directory)), 2, "sockets, after dead ones were cleared away")
        c.programs = [p for p in c.programs if p.status() is None]
        for p in c.programs:
            p.process.terminate()
        for p in c.programs:
            same(p.wait(20), 0, "a service's status")
        same(os.listdir(directory), [], "sockets of services that have ended")
        r = ask("ls")
        same(r.returncode == 1 and "no service of yours runs here" in r.stderr, True, f"none is said: {r.stderr}")
        c.programs = []
    finally:
        del os.environ["XDG_RUNTIME_DIR"]
        os.chown(c.runtime, os.geteuid(), os.getegid())


class answering:  # pylint: disable=invalid-name
    """A service of another user's, which says what it is told to: by what it is asked."""

    def __init__(self, c, answers):
        self.socket, self.answers = c.socket, answers
        self.thread = threading.Thread(target=self.serve)
        self.listener = socket.socket(socket.AF_UNIX)

    def serve(self):
        while True:
            try:
                one = self.listener.accept()[0]
            except OSError:
                return
            with one, one.makefile() as lines:
                said = self.answers[json.loads(lines.readline())["op"]]
                one.sendall(json.dumps({"weft": 1, **said} if isinstance(said, dict) else said,
                                       ensure_ascii=False).encode() + b"\n")

    def __enter__(self):
        self.listener.bind(self.socket)
        os.seteuid(lab.NOBODY)  # whom the kernel has clients take the service for
        self.listener.listen()
        os.seteuid(0)
        self.thread.start()

    def __exit__(self, *what):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        os.unlink(self.socket)


def of_another_user(c):
    """Whoever can be asked by root alone says neither where root writes, nor what its terminal does."""
    if not lab.ordinary_user():
        raise lab.Skip("there is no other user")
    c.write({"ports": []})
    answers = {"show": {"config": c.file, "document": {"ports": [], "more": "theirs"}, "edits": 1, "options": ["\033[2J"]},
               "saved": {}, "edit": {"error": "no\033[2J", "command": 1 << 30}}
    with answering(c, answers):
        c.target("save", fails="another user's")
        with open(c.file) as f:
            same("theirs" in f.read(), False, "root has written what another says to where another says")
        other = os.path.join(c.tmp.name, "other.json")
        same("\033" in c.target("save", other), False, "an option is what it is")
        with open(other) as f:
            same("theirs" in f.read(), True, "the file that root names")
        c.target("-", stdin="create /hosts/" + NEW + "\n", fails="no?[2J")


# What stands in the place of something: wrong types, and texts that a terminal would do something by.
WRONG = [None, True, -1, 1.5, "", "\033]0;x\007\u009b2J\u007f\u202e", [], {}, [None], [[1, {"nsid": None}], "\033[2J"],
         {"\033[2J\u009b": {"path": []}}, "x" * 5000, 1 << 63]


def places(v, path=()):
    """The paths of all that is in a document, and the document's own."""
    yield path
    for key, w in v.items() if isinstance(v, dict) else enumerate(v) if isinstance(v, list) else ():
        yield from places(w, (*path, key))


def with_other(v, path, other):
    """A copy with something else at one place."""
    if not path:
        return other
    copy = dict(v) if isinstance(v, dict) else list(v)
    copy[path[0]] = with_other(v[path[0]], path[1:], other)
    return copy


def of_anybody(c):
    """Whatever a service says, of wrong types in any place: nothing crashes, and nothing steers a terminal."""
    if not lab.ordinary_user():
        raise lab.Skip("there is no other user")
    host = {"nqn": H1, "dhchap": {"key": KEY}}
    ns = {"nsid": 1, "enable": 1, "device": {"path": "a.img", "uuid": config.UUID}, "ana": {"grpid": "1"}}
    document = {"discovery": {"nqn": NEW}, "hosts": [host],
                "subsystems": [{"nqn": S1, "allowed_hosts": [H1], "attr": {"serial": "s"}, "namespaces": [ns]}],
                "ports": [{"portid": 5, "addr": {"trtype": "tcp", "traddr": "::1"}, "subsystems": [S1],
                           "referrals": [{"name": "r", "enable": 1, "addr": {"traddr": "::2"}}]}]}
    live = [{"nqn": S1, "nsid": 1, "bytes": 8 << 20, "block_size": 512, "read_only": True}]
    show = {"weft": 1, "document": document, "namespaces": live, "edits": 1, "unsaved": 2, "cwd": "/tmp",
            "options": ["--dhchap-secret", "--threads"]}
    changed = {"weft": 1, "warnings": ["w"], "created": ["/x"], "command": 0}
    saved = os.path.join(c.tmp.name, "saved.json")
    ways = [(show, ["ls"]), (show, ["ls", "-o", "json"]), (show, ["ls", "-p"]), (show, ["save", saved]),
            (show, ["ls", f"/subsystems/{S1}/namespaces/1"]), (show, ["ls", "/ports", "-o", "json"]),
            ({**show, "config": saved}, ["ls"]), (changed, ["create", "/hosts/" + NEW]),
            ({**changed, "error": "no"}, ["-"])]
    answers, ends, count = {"saved": {}}, {}, 0
    with answering(c, answers):
        for i, (answer, words) in enumerate(ways):
            for n, path in list(enumerate(places(answer)))[::3 if 3 < i < 7 else 1]:  # they have much in common
                answers["show"] = answers["edit"] = with_other(answer, path, WRONG[(n + 5 * i) % len(WRONG)])
                r = subprocess.run(c.hosts[0].inside([c.weft, "target", "-s", c.socket, *words]), timeout=60,
                                   input=b"create /hosts/x\n", capture_output=True, check=False)
                told = (r.stdout + r.stderr).decode()
                bad = [x for x in told if x != "\n" and unicodedata.category(x) in ("Cc", "Cf")]
                if r.returncode not in (0, 1) or bad or (r.returncode and len(r.stderr.splitlines()) != 1):
                    raise AssertionError(f"weft target {' '.join(words)} of {answers['show']}: {r.returncode}, "
                                         f"{told[-400:]!r}")
                ends[r.returncode] = ends.get(r.returncode, 0) + 1
                count += 1
    if min(ends.get(0, 0), ends.get(1, 0)) < 20:
        raise AssertionError(f"of {count} answers: {ends}")


def turned_off(c):
    c.server = c.start("serve", "mem:1m", "-l", f"tcp://{c.hosts[0].address}", "--control", "none")
    c.until("ready")
    same(os.path.exists(c.socket), False, "a socket")
    c.target("ls", fails=c.socket)
    r = c.hosts[0].run(c.weft, "serve", "mem:1m", "-l", f"tcp://{c.hosts[0].address}:4431", "--control", "/nonexistent/s")
    same(r.returncode == 1 and "/nonexistent/s" in r.stderr, True, f"a place that is not there: {r.stderr}")
    r = c.hosts[0].run(c.weft, "serve", "mem:1m", "-l", f"tcp://{c.hosts[0].address}:4431", "--control", c.file)
    same(r.returncode == 1 and "no socket" in r.stderr, True, f"a file: {r.stderr}")


def clients_that_do_not(c):
    """Clients that stall, babble or die hold up neither hosts nor other clients."""
    c.serve(c.document())
    bench = c.bench(c.uri(S2, 4), 8)
    lab.until(lambda: c.server.says("connected"), 10)
    before = c.served()["document"]
    held = []
    try:
        for text in (b"", b'{"weft":1', b'{"weft":1,"op":"show"}\n' * 3, b"\0" * 1000 + b"\n", b"[" * 5000 + b"\n"):
            s = socket.socket(socket.AF_UNIX)
            s.connect(c.socket)
            s.sendall(text)
            held.append(s)
        # Killed in the middle of a request.
        s = socket.socket(socket.AF_UNIX)
        s.connect(c.socket)
        s.sendall(b'{"weft":1,"op":"edit","commands":[["clear"]]')
        s.close()
        same(c.served()["document"], before, "the document after a request that had no end")
        errors = []

        def edit(name):
            for i in range(20):
                r = c.run_target("create", f"/hosts/{NEW}-{name}-{i}")
                r2 = c.run_target("remove", f"/hosts/{NEW}-{name}-{i}")
                if r.returncode or r2.returncode:
                    errors.append(r.stderr + r2.stderr)

        two = [threading.Thread(target=edit, args=(name,)) for name in "ab"]
        for t in two:
            t.start()
        for t in two:
            t.join()
        same(errors, [], "errors of two clients at once")
        same(c.served()["document"], before, "the document after both")
        # More than there are places: who comes waits in line for those that are given up.
        for _ in range(12):
            s = socket.socket(socket.AF_UNIX)
            s.connect(c.socket)
            held.append(s)
        begun = time.monotonic()
        same(c.served()["document"], before, "the document")
        same(time.monotonic() - begun < 45, True, "waiting behind clients that stall ends")
    finally:
        for s in held:
            s.close()
    same(bench.wait(60), 0, "the bench's status")


def hosts_hear_of_it(c):
    """A host that waits for discovery to change hears of it."""
    c.serve(c.document())
    watcher = c.start("discover", "-t", c.transport, f"{c.hosts[0].address}:4420", "-q", H1, "--persistent")
    lab.until(lambda: watcher.says(S2), 20)
    c.target("-", stdin=f"create /subsystems/{NEW} allow_any_host=1\ncreate /ports/5/subsystems/{NEW}\n")
    if not lab.until(lambda: watcher.says(NEW), 20):
        raise AssertionError(f"nothing is heard: {watcher.output()[-500:]}")
    watcher.process.terminate()
    watcher.wait(20)
    c.programs.remove(watcher)


def main():
    args = config.arguments(__doc__)
    lab.enter()
    c = Control(args.build, args.transport)
    c.run("beside a host", beside_a_host)
    c.run("what is refused", what_is_refused)
    c.run("transactions", transactions)
    c.run("documents", documents)
    c.run("secrets", secrets)
    c.run("from the command line", from_the_command_line)
    c.run("keys of the command line", keys_of_the_command_line)
    c.run("hosts hear of it", hosts_hear_of_it)
    c.run("clients that do not", clients_that_do_not)
    if args.transport == "tcp":  # have nothing to do with it
        c.run("which service", which_service)
        c.run("of another user", of_another_user)
        c.run("of anybody", of_anybody)
        c.run("turned off", turned_off)
    c.report.everything_ends(c.hosts)
    c.report.finish()


if __name__ == "__main__":
    sys.exit(main())
