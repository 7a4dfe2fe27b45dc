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
        p = lab.Program(self.host, [self.weft, "serve", "--config", self.file(f"{name}.json", json.dumps(doc))],
                        f"{self.path}/serve-{name}.log")
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
                  f"-t {t} -a {a} -s 4420 --host-iface lo -p\n"
                  f"--transport={t} --traddr={a} --trsvcid=4421 --keep-alive-tmo=5\n"
                  f"-t {t} -a {a} -s 4421\n")
    same("connect-all", l.run("connect-all", "--config", conf).split(), [l.uri("a", 4420), l.uri("b", 4421)])
    out = l.run("discover", "--config", conf)
    same("discover asks each", out.count("Discovery Log Number of Records"), 3)
    # What the command line says is the default of each line.
    key = l.run("gen-dhchap-key").strip()
    same("with a key", len(l.run("connect-all", "--config", conf, "-S", key).split()), 2)
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


def long_logs(l):
    """Services that refer to ever new ones cost the memory of one log, not of all."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "long_logs.py")
    r = l.host.run(sys.executable, script, l.weft, l.host.address, timeout=60)
    if r.returncode:
        raise AssertionError(f"{r.stdout[-300:]}{r.stderr[-300:]}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--transport", choices=("rdma", "tcp"), default="rdma")
    args = p.parse_args()
    lab.enter()
    l = Lab(args)
    for name, function in (("referrals in a circle", circle), ("discovery.conf", file), ("the log itself", log)):
        l.prove(name, function)
    if args.transport == "tcp":
        l.prove("long logs", long_logs)
    l.report.everything_ends([l.host])
    l.report.finish()


if __name__ == "__main__":
    sys.exit(main())
