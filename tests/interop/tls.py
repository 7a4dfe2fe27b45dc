#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The secure channel: TLS between `weft serve` and weft's host commands, and others that come to its port.

usage: tls.py BUILD (one | veth) [--only WORD]

Who has the key gets every byte, at ports that require TLS and at ports that offer it; who has none,
another, a name that is not his, or speaks something else is told, in a line, and so is the operator.
What goes over the wire cannot be read. A configuration that is read again changes keys and ports in place.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys

import auth
import lab
from auth import HOST, NQN, OTHER

SECRET = re.compile(r"NVMeTLSkey-1:0[0-2]:[A-Za-z0-9+/=]{16,}:")
PORT = 4420


# Of what passes by, whether the words are in it.
LISTENER = """
import socket, sys
s, seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)), bytearray()
print("listening", flush=True)
while len(seen) < 4 << 20:
    seen += s.recv(1 << 17)
print("heard many bytes,", "and the words" if sys.argv[1].encode() in seen else "nothing of it", flush=True)
s.recv(1)
"""


# Between a host and a target: so many bytes of the host's go on of its second connection, which is that of the first
# I/O queue, and that ends then, in order or not.
CUTTER = """
import select, socket, struct, sys
address, limits = sys.argv[1], [int(n) for n in sys.argv[2:]]
server = socket.create_server((address, 4421))
print("cuts", flush=True)
for n, limit in enumerate(limits):
    pairs, left = [], limit
    while left > 0 or not pairs:
        ready = select.select([server] * (len(pairs) < 2) + [s for p in pairs for s in p], [], [], 10)[0]
        if not ready:
            raise SystemExit("nobody comes")
        for s in ready:
            if s is server:
                pairs.append((server.accept()[0], socket.create_connection((address, 4420), 5)))
                continue
            pair = next(p for p in pairs if s in p)
            second = pairs.index(pair) == 1 and s is pair[0]
            data = s.recv(min(65536, max(left, 1) if second else 65536))
            left -= len(data) if second else 0
            pair[1 - pair.index(s)].sendall(data)
            left = left if data else 0
    for s in [s for p in reversed(pairs) for s in p]:
        if n % 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
print("has cut", flush=True)
"""


class Tls(auth.Auth):
    def __init__(self, args):
        args.transport = "tcp"
        super().__init__(args, f"tls-{args.where}")
        self.tls = self.new_tls_key("tls", "-m", "2")
        self.wrong_tls = self.new_tls_key("wrong-tls")

    def new_tls_key(self, name, *options):
        return self.keep(name + ".key", self.hosts[0].run(self.weft, "gen-tls-key", *options).stdout)

    def keep(self, name, text):
        path = self.file(name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
            f.write(text)
        return path

    def program(self, host, argv, log):
        p = lab.Program(host, argv, f"{self.path}/{log}")
        self.programs.append(p)
        return p

    def up(self, *argv):
        p = self.start(self.hosts[0], "serve", *argv)
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 10) or p.status() is not None:
            raise AssertionError(f"weft serve does not come up: {p.output()[-300:]}")
        return p

    def listen(self, *options, tls=True, optional=False, port=PORT):
        return ("-l", f"tcp{'+tls' if tls else ''}://{self.hosts[0].address}:{port}"
                f"{'?treq=not-required' if optional else ''}", *options)

    def secured(self, *options, optional=False):
        return self.up(self.image, "--nqn", NQN, *self.listen(optional=optional), "--tls-key", f"{HOST}={self.tls}", *options)

    def uri(self, tls=True, port=PORT):
        return f"nvme+tcp{'+tls' if tls else ''}://{self.hosts[0].address}:{port}/{NQN}?ns=1"

    def host(self, *argv, name=HOST):
        r = super().host(*argv, name=name)
        if SECRET.search(r.stdout + r.stderr):
            raise AssertionError(f"weft {argv[0]} shows a key")
        return r

    def bytes(self, data):
        """What comes back for these, sent to the port by whom knows no TLS."""
        argv = [sys.executable, "-c", "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); "
                "s.sendall(bytes.fromhex(sys.argv[3])); s.settimeout(5); print(s.recv(1000).hex())",
                self.hosts[0].address, str(PORT), data.hex()]
        return bytes.fromhex(self.hosts[-1].run(*argv).stdout.strip())

    def plain_uri(self, port=PORT):
        return self.uri(tls=False, port=port)

    def copies(self, uri, *options, name=HOST):
        """Every byte of the disk by that URI."""
        real, self.uri = self.uri, lambda *a, **k: uri
        try:
            self.gets_in(*options, name=name)
        finally:
            self.uri = real

    def fails(self, says, uri, *options, name=HOST):
        real, self.uri = self.uri, lambda *a, **k: uri
        try:
            self.stays_out(says, *options, name=name)
        finally:
            self.uri = real


def required(a):
    """The key, in every form in which it is given; nobody else, and nobody without TLS."""
    server = a.secured()
    key = "@" + a.tls
    a.copies(a.uri(), "--tls-key", key)
    a.copies(a.plain_uri(), "--tls", "--tls_key=" + a.text(a.tls))
    a.copies(a.uri(), "--tls-key", key, "--tls-identity=0")
    a.copies(a.uri(), "--tls-key", key, "-g", "-G")
    for i, options in enumerate((("--tls-key", "@" + a.wrong_tls), ("--tls-key", key, "--tls-compat"))):
        a.fails("unknown PSK identity", a.uri(), *options)
    a.fails("unknown PSK identity", a.uri(), "--tls-key", key, name=OTHER)
    a.fails("TLS fails: the other side breaks off", a.uri(), "--tls-key", key, "--tls-compat", "--tls-identity=0")
    a.fails("does it require TLS", a.plain_uri())
    for says in ("by TLS", "TLS: there is no key of what it offers", "it does not speak TLS, and the port requires it",
                 "TLS: its key is not the one that goes with its name"):
        if not lab.until(lambda says=says: server.says(says), 5):
            raise AssertionError(f"weft serve does not say: {says}: {server.output()[-500:]}")
    seen = a.counters(server)
    if seen["connections_rejected"] != 5 or SECRET.search(server.output()):
        raise AssertionError(f"counted: {seen}")
    r = json.loads(a.hosts[0].run(a.weft, "stat", "-o", "json", server.pid, timeout=30).stdout)
    if "TLS: there is no key of what it offers" not in json.dumps(r):
        raise AssertionError("weft stat has no reasons")


def offered(a):
    """Both are let in where it is not required; the discovery log says which port is what."""
    a.up(a.image, "--nqn", NQN, *a.listen(optional=True), *a.listen(port=4421), *a.listen(tls=False, port=4422),
         "--tls-key", a.tls)
    key = ("--tls-key", "@" + a.tls)
    a.copies(a.uri(), *key)
    a.copies(a.plain_uri())
    a.copies(a.uri(), *key, name=OTHER)
    a.fails("does it require TLS", a.plain_uri(4421))
    a.fails("does it speak TLS there", a.uri(port=4422), *key)
    r = a.host("discover", f"nvme+tcp+tls://{a.hosts[0].address}:4421", *key, "-o", "json")
    got = {e["trsvcid"]: (e["treq"].split(",")[0], e["sectype"], e.get("uri", "").split(":")[0])
           for e in json.loads(r.stdout)["records"] if "uri" in e}
    want = {"4420": ("not required", "tls13", "nvme+tcp"), "4421": ("required", "tls13", "nvme+tcp+tls"),
            "4422": ("not specified", "none", "nvme+tcp")}
    if got != want:
        raise AssertionError(f"{got}, not {want}")


def strangers(a):
    """Who speaks something else gets the alert that says so, and no resources."""
    server = a.secured()
    hello12 = bytes.fromhex("160301002f0100002b0303" + "00" * 32 + "000004c02f00ff0100")
    if a.bytes(hello12)[:7] != bytes.fromhex("15030300020246"):  # fatal: protocol version
        raise AssertionError(f"TLS 1.2: {a.bytes(hello12).hex()}")
    if a.bytes(bytes.fromhex("160301000455000000")) [:1] not in (b"\x15", b""):
        raise AssertionError("rubbish is answered by no alert")
    if a.bytes(b"GET / HTTP/1.0\r\n\r\n") != b"":
        raise AssertionError("a browser is answered")
    r = a.hosts[-1].run("openssl", "s_client", "-connect", f"{a.hosts[0].address}:{PORT}", "-tls1_3", stdin=subprocess.DEVNULL)
    if "handshake failure" not in r.stderr:
        raise AssertionError(f"without a key: {r.stderr[-300:]}")
    # Many that begin and go no further hold up nobody.
    held = a.program(a.hosts[-1], [sys.executable, "-c", "import socket, sys, time; "
                     "l = [socket.create_connection((sys.argv[1], 4420), 5) for _ in range(100)]; "
                     "[s.sendall(b'\\x16\\x03\\x01') for s in l]; print('held', flush=True); time.sleep(60)",
                     a.hosts[0].address], "held.log")
    if not lab.until(lambda: held.says("held"), 10):
        raise AssertionError(f"not held: {held.output()[-300:]}")
    a.copies(a.uri(), "--tls-key", "@" + a.tls)
    if not server.says("TLS: it does not speak TLS 1.3") or not server.says("TLS: it offers no key"):
        raise AssertionError(f"not told: {server.output()[-500:]}")


def with_dhchap(a):
    """A host that has to prove itself by DH-HMAC-CHAP has to in the channel, too."""
    a.secured("--dhchap-secret", f"{HOST}={a.key}")
    a.copies(a.uri(), "--tls-key", "@" + a.tls, "-S", "@" + a.key)
    a.fails("DH-HMAC-CHAP.*there is no key", a.uri(), "--tls-key", "@" + a.tls)


def concatenated(a):
    """Who proves himself by DH-HMAC-CHAP where TLS is not required has a key made of that: weft's host, and one that
    has nothing of weft's."""
    server = a.up(a.image, "--nqn", NQN, *a.listen(optional=True), *a.listen(tls=False, port=4421),
                  "--dhchap-secret", f"{HOST}={a.key}", "--dhchap-ctrl-secret", f"{HOST}={a.ctrl}")
    ours, both = ("-S", "@" + a.key, "--concat"), ("-S", "@" + a.key, "-C", "@" + a.ctrl, "--concat")
    for options in (ours, both, (*both, "-g", "-G")):
        a.copies(a.plain_uri(), *options)
    if any(server.output().count(says) != 3 for says in ("), by TLS", "it is to come again by TLS")):
        raise AssertionError(f"not by TLS: {server.output()[-500:]}")
    a.copies(a.plain_uri(), "-S", "@" + a.key)
    a.fails("no key of TLS", a.plain_uri(4421), *ours)
    a.fails("does not take", a.plain_uri(), "-S", "@" + a.wrong, "--concat")
    a.fails("controller's key", a.plain_uri(), "-S", "@" + a.key, "-C", "@" + a.wrong, "--concat")
    a.fails("no key of this host", a.plain_uri(), *ours, name=OTHER)
    other = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "concat_host.py"),
             a.hosts[0].address, str(PORT), HOST, NQN, a.key]
    r = a.hosts[-1].run(*other, timeout=30)
    want = ["plain: status 0x0, proof demanded", "authenticated", "without TLS: authentication required",
            "by TLS: status 0x0, nothing demanded", "another digest: not let in", "another key: not let in"]
    if r.returncode or r.stdout.splitlines() != want:
        raise AssertionError(f"the other host: {r.stdout}{r.stderr[-500:]}")
    r = a.hosts[-1].run(*other, "null", timeout=30)
    if "failure 3" not in r.stderr or not server.says("secure channel concatenation mismatch"):
        raise AssertionError(f"of the NULL group: {r.stdout}{r.stderr[-500:]}")


def ticks(pid):
    """Processor time of each of a process's threads, the first one's in front."""
    def of(task):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as f:
            return sum(map(int, f.read().rpartition(")")[2].split()[11:13]))
    return [of(task) for task in sorted(map(int, os.listdir(f"/proc/{pid}/task")))]


def by_threads(a):
    """I/O queues are dealt out to the threads of the service whether the key is configured or of an authentication;
    who breaks off at any byte of a handshake, of Connect or behind it leaves the others as they are."""
    server = a.up("mem:32m", "--nqn", NQN, *a.listen(optional=True), "--tls-key", f"{HOST}={a.tls}",
                  "--dhchap-secret", f"{OTHER}={a.wrong}", "--threads", "2")
    key = ("-q", HOST, "--tls-key", "@" + a.tls)
    load = ("--rw", "randrw", "--iodepth", "8", "--verify", "--yes")
    for uri, who in ((a.uri(), key), (a.plain_uri(), ("-q", OTHER, "-S", "@" + a.wrong, "--concat"))):
        for bs in ("4k", "68k"):
            before = ticks(server.pid)
            r = a.hosts[-1].run(a.weft, "bench", uri, *load, "--bs", bs, "--numjobs", "2", "--size", "8m", "--runtime", "2", *who)
            if r.returncode:
                raise AssertionError(f"{uri}: {r.stdout}{r.stderr}")
            used = [now - then for now, then in zip(ticks(server.pid), before)]
            if len(used) != 2 or min(used) * 8 < max(used):
                raise AssertionError(f"the threads worked for {used} ticks")
    before = server.output().count("connected: ")
    bench = a.start(a.hosts[-1], "bench", a.uri(), *load, "--bs", "16k", "--numjobs", "2", "--size", "8m", "--runtime", "60", *key)
    if not lab.until(lambda: server.output().count("connected: ") > before, 10):
        raise AssertionError(f"weft bench does not begin: {bench.output()[-300:]}")
    limits = [*range(1, 900, 60), *range(900, 2600, 100), 30000]
    cutter = a.program(a.hosts[0], [sys.executable, "-c", CUTTER, a.hosts[0].address, *map(str, limits)], "cutter.log")
    if not lab.until(lambda: cutter.says("cuts"), 10):
        raise AssertionError(f"nobody cuts: {cutter.output()[-300:]}")
    for limit in limits:
        r = a.hosts[-1].run(a.weft, "bench", a.uri(port=4421), "--runtime", "5", "--ctrl-loss-tmo", "0", *key)
        if r.returncode != 1 or "lost" not in r.stderr:
            raise AssertionError(f"cut after {limit} bytes: {r.returncode}, {r.stdout}{r.stderr}")
    if cutter.wait(20) != 0 or not cutter.says("has cut"):
        raise AssertionError(f"the cutter: {cutter.output()[-300:]}")
    os.kill(bench.pid, signal.SIGINT)
    if bench.wait(20) != 128 + signal.SIGINT or bench.says("verif.*fail"):
        raise AssertionError(f"the other host: {bench.status()}, {bench.output()[-300:]}")
    if not lab.until(lambda: open_sockets(server.pid) == 0, 10):
        raise AssertionError(f"{open_sockets(server.pid)} connections are left")
    return f"{len(limits)} cut"


def open_sockets(pid):
    """Connections that a process has: what it listens on aside."""
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as f:
        inodes = {line.split()[9] for line in f.readlines()[1:] if line.split()[3] != "0A"}
    return sum(name[8:-1] in inodes for name in lab.open_files(pid))


def configured(a):
    """A port's TLS and keys of a file change in place at SIGHUP; connections that stay are not touched."""
    def save(tls, treq=None):
        addr = {"trtype": "tcp", "adrfam": "ipv4", "traddr": a.hosts[0].address, "trsvcid": str(PORT), "tsas": tls}
        if treq:
            addr["treq"] = treq
        doc = {"hosts": [], "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"}, "namespaces": [
            {"nsid": 1, "enable": 1, "device": {"path": a.image}}]}],
            "ports": [{"portid": 1, "addr": addr, "subsystems": [NQN], "referrals": []}]}
        return a.keep("config.json", json.dumps(doc))

    def again(server, changes):
        before = server.output().count("read again")
        os.kill(server.pid, signal.SIGHUP)
        if not lab.until(lambda: server.output().count("read again") > before, 5) or \
                f"read again, {changes} change" not in server.output().splitlines()[-1]:
            raise AssertionError(f"not read again with {changes}: {server.output()[-300:]}")

    config = save("tls1.3")
    keys = a.keep("many.keys", f"# keys\n\n{OTHER} {a.text(a.wrong_tls)}\n{HOST} {a.text(a.tls)}\n")
    server = a.up("--config", config, "--tls-keys", keys)
    mine = ("--tls-key", "@" + a.tls)
    a.copies(a.uri(), *mine)
    a.copies(a.uri(), "--tls-key", "@" + a.wrong_tls, name=OTHER)
    a.fails("does it require TLS", a.plain_uri())  # nobody has said that it is not required
    bench = a.start(a.hosts[-1], "bench", a.uri(), "--runtime", "30", "-q", HOST, *mine)
    if not lab.until(lambda: server.output().count("connected: ") == 3, 10):
        raise AssertionError(f"weft bench does not begin: {bench.output()[-300:]}")
    save("tls1.3", "not required")
    again(server, 1)
    a.copies(a.plain_uri())
    save("none")
    again(server, 1)
    a.fails("does it speak TLS there", a.uri(), *mine)
    save("tls1.3", "required")
    again(server, 1)
    a.keep("many.keys", f"{HOST} {a.text(a.wrong_tls)}\n")
    again(server, 1)
    a.fails("unknown PSK identity", a.uri(), *mine)
    a.copies(a.uri(), "--tls-key", "@" + a.wrong_tls)
    if bench.status() is not None:
        raise AssertionError(f"weft bench is touched: {bench.output()[-300:]}")
    os.kill(bench.pid, signal.SIGTERM)
    bench.wait(20)
    a.keep("many.keys", f"{HOST} {a.text(a.tls)[:-3]}\n")
    os.kill(server.pid, signal.SIGHUP)
    if not lab.until(lambda: re.search("many.keys, line 1.*nothing has changed", server.output()), 5):
        raise AssertionError(f"wrong keys: {server.output()[-300:]}")
    a.copies(a.uri(), "--tls-key", "@" + a.wrong_tls)


def by_a_pipe(a):
    """A key that comes by a pipe comes once: when the file is read again it is the one that it was."""
    doc = {"hosts": [], "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"}, "namespaces": [
        {"nsid": 1, "enable": 1, "device": {"path": a.image}}]}],
        "ports": [{"portid": 1, "addr": {"trtype": "tcp", "adrfam": "ipv4", "traddr": a.hosts[0].address,
                                         "trsvcid": str(PORT), "tsas": "tls1.3"}, "subsystems": [NQN], "referrals": []}]}
    pipes = [a.file("one.pipe"), a.file("many.pipe")]
    for pipe in pipes:
        os.mkfifo(pipe)
    for pipe, text in zip(pipes, (a.text(a.tls), f"{OTHER} {a.text(a.wrong_tls)}")):
        a.program(a.hosts[0], ["sh", "-c", 'echo "$1" >"$2"', "sh", text, pipe], "writer.log")
    server = a.up("--config", a.keep("piped.json", json.dumps(doc)), "--tls-key", f"{HOST}={pipes[0]}", "--tls-keys", pipes[1])
    for _ in range(2):
        a.copies(a.uri(), "--tls-key", "@" + a.tls)
        a.copies(a.uri(), "--tls-key", "@" + a.wrong_tls, name=OTHER)
        doc["subsystems"][0]["attr"]["serial"] = "0123456789abcdef"
        a.keep("piped.json", json.dumps(doc))
        os.kill(server.pid, signal.SIGHUP)
        if not lab.until(lambda: "read again" in server.output(), 5):
            raise AssertionError(f"it is not read again: {server.output()[-300:]}")


def unreadable(a):
    """What is on the disk does not go over the wire as it is; a key is not to be seen while a command runs."""
    marker = b"a secret that somebody listens for" * 30
    with open(a.image, "r+b") as f:
        f.write(marker)
    server = a.secured()
    listener = a.program(a.hosts[0], [sys.executable, "-c", LISTENER, marker[:20].decode()], "listener.log")
    if not lab.until(lambda: listener.says("listening"), 10):
        raise AssertionError(f"nobody listens: {listener.output()[-300:]}")
    p = a.start(a.hosts[-1], "bench", a.uri(), "--runtime", "3", "--rw", "read", "--bs", "4k", "-q", HOST, "--tls-key", a.text(a.tls))
    if not lab.until(lambda: a.counters(server)["io_queues"] or p.status() is not None, 20) or p.status() is not None:
        raise AssertionError(f"weft bench does not begin: {p.output()[-300:]}")
    with open(f"/proc/{p.pid}/cmdline", "rb") as f:
        words = f.read().decode().split("\0")
    if any(SECRET.search(w) for w in words) or "*" * len(a.text(a.tls)) not in words:
        raise AssertionError(f"seen: {words}")
    if p.wait(20) != 0:
        raise AssertionError(f"weft bench: {p.output()[-300:]}")
    a.hosts[-1].run(a.weft, "id-ctrl", a.uri(), "-q", HOST, "--tls-key", "@" + a.tls)
    if not lab.until(lambda: listener.says("heard"), 10) or not listener.says("heard many bytes, nothing of it"):
        raise AssertionError(f"the listener: {listener.output()}")


def wrong_use(a):
    """Of keys and options, each told with what to do."""
    def run(status, says, *argv, **kwargs):
        r = subprocess.run([a.weft, *argv], capture_output=True, text=True, timeout=30, check=False, **kwargs)
        out = r.stdout + r.stderr
        if r.returncode != status or not re.search(says, out) or SECRET.search(r.stderr):
            raise AssertionError(f"{' '.join(argv[:3])}: status {r.returncode}, {out.strip()!r}")
        return r.stdout

    ours = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
    secret = "5512dbb6737d0106f65975b773dfb011ffc344bcf442e2dd6d8bc4870b5d5b03"
    if run(0, "", "gen-tls-key", "-s", secret) != ours + "\n":
        raise AssertionError("not the key that was asked for")
    run(0, r"^Key is valid \(HMAC 1, length 32, CRC d9baf45f\)$", "check-tls-key", "-d", ours)
    run(0, r"^Key is valid", "check-tls-key", input=ours + "\n")
    names = ("-n", "nqn.psk-test-host", "-c", "nqn.psk-test-subsys")
    run(0, "^NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys$", "check-tls-key", "-d", ours, *names)
    run(0, "iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA[+]X5lEU=$", "check-tls-key", "-d", ours, "-I1", *names)
    run(0, "66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=$", "check-tls-key", "-d", ours, "-I1", "-C", *names)
    run(1, "check sum", "check-tls-key", "-d", ours.replace("VRL", "VRM"))
    run(1, "none.key", "check-tls-key", "-d", "@" + a.file("none.key"))
    run(1, "no key in its first line", "check-tls-key", input="\n")
    run(2, "keyring", "check-tls-key", "-k", ".nvme")
    run(2, "keyring", "gen-tls-key", "--insert")
    run(2, "from 1 to 2", "gen-tls-key", "-m", "3")
    run(1, "64 digits.*48 bytes 96; --hmac", "gen-tls-key", "-m", "2", "-s", secret)
    # Where they are used.
    run(2, "TLS takes a key", "id-ctrl", a.uri())
    run(2, "--tls is for TCP", "id-ctrl", a.uri().replace("tcp+tls", "rdma"), "--tls-key", ours)
    run(2, "no target", "id-ctrl", a.uri().replace("tcp+tls", "rdma+tls"), "--tls-key", ours)
    run(2, "keyring", "id-ctrl", a.uri(), "--keyring", ".nvme")
    run(2, "--concat takes a key of DH-HMAC-CHAP", "id-ctrl", a.plain_uri(), "--concat")
    run(2, "--concat is for TCP", "id-ctrl", a.plain_uri().replace("tcp", "rdma"), "--concat", "-S", "@" + a.key)
    run(2, "without --tls", "id-ctrl", a.plain_uri(), "--concat", "-S", "@" + a.key, "--tls-key", ours)
    run(2, "tls-key.*check sum", "id-ctrl", a.uri(), "--tls-key", ours.replace("VRL", "VRM"))
    tls = ("-l", "tcp+tls://127.0.0.1")
    run(1, "--listen: port 1 .*TLS.*no key of any host: --tls-key", "serve", a.image, *tls)
    run(1, "--tls-key: .*none.key", "serve", a.image, *tls, "--tls-key", a.file("none.key"))
    run(1, "--tls-key: .*already", "serve", a.image, *tls, "--tls-key", a.tls, "--tls-key", a.tls)
    run(1, "--tls-keys: .*bad.keys, line 2: .*reads NVMeTLSkey", "serve", a.image, *tls, "--tls-keys",
        a.keep("bad.keys", f"{a.text(a.tls)}\n{HOST} x\n"))
    run(2, "treq", "serve", a.image, "-l", "tcp+tls://127.0.0.1?treq=perhaps")
    run(2, "treq", "serve", a.image, "-l", "tcp://127.0.0.1?treq=required")
    run(2, "--listen takes", "serve", a.image, "-l", "rdma+tls://127.0.0.1")
    p = a.up(a.image, "--nqn", NQN, *a.listen(tls=False), "--tls-key", a.tls)
    if not re.search("--tls-key: no port .* is for TLS", p.output()):
        raise AssertionError(f"keys without effect are not told of: {p.output()[-300:]}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", choices=("one", "veth"))
    p.add_argument("--only", metavar="WORD", default="", help="what the case's name has in it")
    args = p.parse_args()
    lab.enter()
    a = Tls(args)
    for case in (required, offered, strangers, with_dhchap, concatenated, by_threads, configured, by_a_pipe, unreadable, wrong_use):
        if args.only in case.__name__:
            a.report.prove_and_end(case.__name__.replace("_", " "), a, lambda case=case: case(a))
    a.report.everything_ends(a.hosts)
    a.report.finish()


if __name__ == "__main__":
    sys.exit(main())
