#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Discovery as nvme-cli has it: a file of services, referrals that go round in a circle, the log as it is.

usage: discovery.py BUILD [--transport rdma|tcp]
"""
import argparse
import json
import os
import sys
import tempfile

import lab

DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
NQN = "nqn.2026-11.org.weft:{}"
# What nvme-cli 2.x has of an entry in JSON, by transport.
KEYS = ["trtype", "adrfam", "subtype", "treq", "portid", "trsvcid", "subnqn", "traddr", "eflags"]
OF_TRANSPORT = {"rdma": ["rdma_prtype", "rdma_qptype", "rdma_cms", "rdma_pkey"], "tcp": ["sectype"]}


class Lab:
    def __init__(self, args):
        self.transport = args.transport
        self.weft = os.path.join(os.path.abspath(args.build), "weft")
        self.host = lab.lab(1)[0]
        self.report = lab.Report(args.build, f"discovery-{args.transport}")
        self.tmp = tempfile.TemporaryDirectory()
        self.programs, self.path = [], ""

    def address(self, port):
        return {"trtype": self.transport, "adrfam": "ipv4", "traddr": self.host.address, "trsvcid": str(port)}

    def serve(self, name, port, refers_to=()):
        doc = {"subsystems": [{"nqn": NQN.format(name), "attr": {"allow_any_host": "1"},
                               "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": "mem:8m"}}]}],
               "ports": [{"portid": 1, "addr": self.address(port), "subsystems": [NQN.format(name)],
                          "referrals": [{"name": f"r{p}", "enable": 1, "addr": {**self.address(p), "portid": str(p)}}
                                        for p in refers_to]}]}
        self.start(name, "--config", self.file(f"{name}.json", json.dumps(doc)))

    def start(self, name, *options):
        p = lab.Program(self.host, [self.weft, "serve", *options], f"{self.path}/serve-{name}.log")
        self.programs.append(p)
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 10) or p.status() is not None:
            raise AssertionError(f"weft serve does not come up: {p.output()[-300:]}")

    def file(self, name, text):
        path = os.path.join(self.tmp.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def run(self, *argv, status=0, says=""):
        r = self.host.run(self.weft, *argv, timeout=30)
        if r.returncode != status or says not in r.stdout + r.stderr:
            raise AssertionError(f"weft {' '.join(argv)}: status {r.returncode}, not {status}, or no '{says}': "
                                 f"{r.stderr[-300:]}{r.stdout[-300:]}")
        return r.stdout

    def uri(self, name, port):
        return f"nvme+{self.transport}://{self.host.address}:{port}/{NQN.format(name)}"

    def prove(self, name, function):
        self.report.prove_and_end(name, self, lambda: function(self))


def same(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {got}, not {want}")


def circle(l):
    """Three services, each refers to the next, and one to itself."""
    l.serve("a", 4420, [4421])
    l.serve("b", 4421, [4422, 4421])
    l.serve("c", 4422, [4420])
    want = [l.uri("a", 4420), l.uri("b", 4421), l.uri("c", 4422)]
    out = l.run("connect-all", "-t", l.transport, "-a", l.host.address)
    same("connect-all", out.split(), want)
    found = json.loads(l.run("connect-all", "-o", "json", f"nvme+{l.transport}://{l.host.address}:4422"))
    same("in JSON", sorted(s["uri"] for s in found["subsystems"]), want)
    same("its keys", set(found["subsystems"][0]), {"trtype", "adrfam", "traddr", "trsvcid", "subnqn", "uri"})
    for uri in want:
        l.run("id-ns", uri)


def file(l):
    l.serve("a", 4420)
    l.serve("b", 4421)
    t, a = l.transport, l.host.address
    conf = l.file("discovery.conf", "# the first is written as people do, the second as scripts\n\n"
                  f"-t {t} -a {a} -s 4420 {'--host-iface lo ' if t == 'tcp' else ''}-p\n"
                  f"--transport={t} --traddr={a} --trsvcid=4421 --keep-alive-tmo=5\n"
                  f"-t {t} -a {a} -s 4421\n")
    same("connect-all", l.run("connect-all", "--config", conf).split(), [l.uri("a", 4420), l.uri("b", 4421)])
    out = l.run("discover", "--config", conf)
    same("discover asks each", out.count("Discovery Log Number of Records"), 3)
    # What the command line says is the default of each line.
    key = l.run("gen-dhchap-key").strip()
    same("with a key", len(l.run("connect-all", "--config", conf, "-S", key).split()), 2)
    if t == "tcp":
        same("with a key for concatenation", len(l.run("connect-all", "--config", conf, "-S", key, "--concat").split()), 2)
        line = l.file("discovery.conf", f"-t {t} -a {a} -s 4420 -C {key}\n")
        same("with the controller's in a line", len(l.run("connect-all", "--config", line, "-S", key).split()), 1)
        tls_key = l.file("tls.key", l.run("gen-tls-key"))
        os.chmod(tls_key, 0o600)
        l.start("tls", "mem:8m", "--nqn", NQN.format("tls"), "-l", f"tcp+tls://{a}:4423", "--tls-key", tls_key)
        line = l.file("discovery.conf", f"-t {t} -a {a} -s 4423\n" * 2)
        same("with a key of TLS", l.run("connect-all", "--config", line, "--tls-key", "@" + tls_key).split(),
             [f"nvme+tcp+tls://{a}:4423/{NQN.format('tls')}"])
    # One that does not answer is told, and the others are asked.
    conf = l.file("discovery.conf", f"-t {t} -a {a} -s 4999\n-t {t} -a {a} -s 4420\n")
    r = l.host.run(l.weft, "connect-all", "--config", conf, timeout=30)
    same("with one that does not answer", (r.returncode, r.stdout.split()), (1, [l.uri("a", 4420)]))
    if "4999" not in r.stderr:
        raise AssertionError(f"what does not answer is not named: {r.stderr}")
    for line, says in ((f"-t {t} -a {a} -s 99999", "line 1: --trsvcid takes a port"),
                       ("--transport=carrier", "not 'carrier'"), ("-a", "line 1: option requires an argument"),
                       ("--what", "line 1: unrecognized option '--what'"), ("-t tcp", "which target?")):
        # The other lines are asked all the same.
        r = l.host.run(l.weft, "connect-all", "--config", l.file("discovery.conf", f"{line}\n-t {t} -a {a} -s 4420\n"),
                       timeout=30)
        if r.returncode != 1 or says not in r.stderr or "Try" in r.stderr or len(r.stderr.splitlines()) != 1:
            raise AssertionError(f"{line}: {r.returncode}, {r.stderr!r}")
        same(f"behind {line}", r.stdout.split(), [l.uri("a", 4420)])
    l.run("connect-all", "--config", "/nonexistent.conf", status=1, says="/nonexistent.conf cannot be read")
    # As Debian installs it. At each boot that is no failure.
    conf = l.file("discovery.conf", "# Used for extracting default parameters for discovery\n#\n# -t rdma -a 192.0.2.1\n\n")
    for verb in ("connect-all", "discover"):
        r = l.host.run(l.weft, verb, "--config", conf, timeout=30)
        same(verb, (r.returncode, f"none stands in {conf}; say HOST" in r.stderr), (0, True))


def log(l):
    l.serve("a", 4420, [4421])
    at = [f"nvme+{l.transport}://{l.host.address}"]
    records = json.loads(l.run("discover", *at, "-o", "json"))["records"]
    for r in records:
        keys = KEYS + OF_TRANSPORT[l.transport]
        same("an entry's keys", [k for k in r if k != "uri"], keys)
        if l.transport == "rdma" and not isinstance(r["rdma_pkey"], int):
            raise AssertionError(f"rdma_pkey is {r['rdma_pkey']!r}")
    raw, page = os.path.join(l.tmp.name, "raw"), os.path.join(l.tmp.name, "page")
    l.run("discover", *at, "--raw", raw)
    size = 1024 * (1 + len(records))
    same("its length", os.path.getsize(raw), size)
    l.run("admin-passthru", f"{at[0]}/{DISCOVERY}", "--opcode=2", f"--cdw10={(size // 4 - 1) << 16 | 0x70:#x}",
          f"--data-len={size}", "-i", page)
    with open(raw, "rb") as a, open(page, "rb") as b:
        if a.read() != b.read():
            raise AssertionError("--raw is not the page")
    l.run("discover", *at, "--raw", "/nonexistent/x", status=1, says="/nonexistent/x")
    l.run("discover", "-p", status=2, says="--persistent takes one service")


def port(l):
    """Of a service whose port nobody names: over TCP 8009, as with nvme-cli, and 4420 where nothing answers there."""
    t, a = l.transport, l.host.address
    conf = l.file("discovery.conf", f"-t {t} -a {a}\n")
    ways = (["-t", t, "-a", a], [f"nvme+{t}://{a}"], ["--config", conf])
    l.serve("a", 4420)
    for way in ways:
        r = l.host.run(l.weft, "connect-all", *way, timeout=30)
        same(f"at 4420 by {way}", (r.returncode, r.stdout.split()), (0, [l.uri("a", 4420)]))
        same("what is told", r.stderr, "weft: nothing answers at port 8009, trying 4420 instead\n" if t == "tcp" else "")
    l.serve("b", 8009, [4420])
    for way in ways:
        r = l.host.run(l.weft, "connect-all", *way, timeout=30)
        same(f"of both by {way}", (r.returncode, r.stdout.split(), r.stderr),
             (0, [l.uri("b", 8009), l.uri("a", 4420)] if t == "tcp" else [l.uri("a", 4420)], ""))
    # A port that is named is asked and no other, and I/O is at 4420.
    l.run("discover", *ways[0], "-s", "8010", status=1, says=":8010")
    l.run("id-ns", f"nvme+{t}://{a}/{NQN.format('a')}")
    # Both of them are named where neither answers.
    if t == "tcp":
        far = "127.0.0.9"
        r = l.host.run(l.weft, "discover", "-t", "tcp", "-a", far, timeout=30)
        same("nothing there", (r.returncode, "port 8009" in r.stderr, f"{far}:4420: refused" in r.stderr), (1, True, True))


# Prints the types of service of what goes to a port, when it is told to end.
SNIFF = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
s.settimeout(20)
print("listens", flush=True)
seen, kind, port = set(), int(sys.argv[1]), int(sys.argv[2])
while True:
    p = s.recv(65535)
    at = (p[0] & 15) * 4
    to = int.from_bytes(p[at + 2:at + 4], "big")
    if p[9] == 17 and to == 9:
        break
    if p[9] == kind and to == port:
        seen.add(p[1] & 0xfc)
print(*sorted(seen), flush=True)
"""


def services_of_packets(l, *argv):
    """The types of service of what a command sends to the target: by UDP those of RoCE."""
    kind, to = (6, 4420) if l.transport == "tcp" else (17, 4791)
    sniffer = lab.Program(l.host, [sys.executable, "-c", SNIFF, str(kind), str(to)], f"{l.path}/sniff.log")
    l.programs.append(sniffer)
    if not lab.until(lambda: sniffer.says("listens"), 10):
        raise AssertionError(f"nothing is heard: {sniffer.output()}")
    l.run(*argv)
    l.host.run(sys.executable, "-c", "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', "
               f"('{l.host.address}', 9))")
    sniffer.wait(10)
    return {int(word) for word in sniffer.output().split()[1:]}


def words_of_nvme_cli(l):
    """What `nvme discover` and its kin take: what has a meaning here does it, and scripts with the rest run."""
    l.serve("a", 4420)
    t, a = l.transport, l.host.address
    at = ["-t", t, "-a", a, "-s", "4420"]
    plain = l.run("discover", *at, "-o", "json")
    idle = ["-i", "4", "-W", "2", "--nr-poll-queues=1"]
    others = ["-D", "--force", "--quiet", "-J", "none", "-v", "-Q", "16", "-k", "10", "-c", "3", "-l", "20"]
    r = l.host.run(l.weft, "discover", *at, "-o", "json", *idle, *others, timeout=30)
    same("with all of them", (r.returncode, r.stdout), (0, plain))
    same("what is told", r.stderr, "weft: --nr-io-queues, --nr-write-queues, --nr-poll-queues: without effect, as no "
                                   "device of the kernel's is made here\n")
    r = l.host.run(l.weft, "connect-all", *at, "-p", "-d", "nvme0", timeout=30)
    same("a device", (r.returncode, "'nvme0'" in r.stderr), (2, True))
    r = l.host.run(l.weft, "connect-all", *at, "-p", timeout=30)
    same("connect-all -p", (r.returncode, r.stdout.split(), r.stderr.count("\n")), (0, [l.uri("a", 4420)], 1))
    for wrong, says in ((["-W", "x"], "--nr-write-queues takes a number"), (["-T", "256"], "--tos takes a number"),
                        (["-O"], "no configuration to be shown"), (["-J", "/etc/x.json"], "say what it has")):
        l.run("discover", *at, *wrong, status=2, says=says)
    # The file's lines, too, where what is idle is not told.
    conf = l.file("discovery.conf", f"{' '.join(at)} -W 2 -P 1 -i 4 -D -d -T 32\n")
    r = l.host.run(l.weft, "connect-all", "--config", conf, timeout=30)
    same("of a file", (r.returncode, r.stdout.split(), r.stderr), (0, [l.uri("a", 4420)], ""))
    # By memory there are no packets.
    os.environ["WEFT_PORT"] = "udp"
    try:
        same("as it is", services_of_packets(l, "discover", *at), {0})
        seen = services_of_packets(l, "discover", *at, "-T", "32")
        same("with -T 32", 32 in seen, True)
        same("with -T -1", services_of_packets(l, "discover", *at, "--tos=-1"), {0})
        seen = services_of_packets(l, "id-ns", l.uri("a", 4420), "--tos", "0x48")
        same("of I/O with --tos", 0x48 in seen, True)
    finally:
        del os.environ["WEFT_PORT"]
    if t == "rdma":
        l.run("discover", *at, "-f", "lo", status=2, says="--host-iface is for TCP")
        return
    same("by lo", l.run("discover", *at, "-f", "lo", "-o", "json"), plain)
    same("with its long word", l.run("id-ns", l.uri("a", 4420), "--host-iface=lo").count("nsze"), 1)
    l.run("discover", *at, "-f", "none0", status=1, says="by interface 'none0': there is none of that name")
    l.run("discover", *at, "-f", "a-name-of-many-letters", status=2, says="--host-iface takes at most 15")


def script(l, name, *argv):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    r = l.host.run(sys.executable, path, l.weft, l.host.address, *argv, timeout=120)
    if r.returncode:
        raise AssertionError(f"{r.stdout[-300:]}{r.stderr[-300:]}")


def long_logs(l):
    """Services that refer to ever new ones cost the memory of one log, not of all."""
    script(l, "long_logs.py")


def hostile_text(l):
    """What a service says steers no terminal, and JSON of it is some."""
    script(l, "hostile_discovery.py", "text")


def many_subsystems(l):
    """More of them than can be listed are not looked at each, and who interrupts that is heard."""
    script(l, "hostile_discovery.py", "many")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--transport", choices=("rdma", "tcp"), default="rdma")
    args = p.parse_args()
    lab.enter()
    l = Lab(args)
    for name, function in (("referrals in a circle", circle), ("discovery.conf", file), ("the log itself", log),
                           ("a port that nobody names", port), ("nvme-cli's words", words_of_nvme_cli)):
        l.prove(name, function)
    if args.transport == "tcp":
        for name, function in (("long logs", long_logs), ("hostile text", hostile_text),
                               ("many subsystems", many_subsystems)):
            l.prove(name, function)
    l.report.everything_ends([l.host])
    l.report.finish()


if __name__ == "__main__":
    sys.exit(main())
