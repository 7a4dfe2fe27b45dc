#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Programs that people run on verbs, unmodified under `weft run`, beside their other transport.

usage: consumers.py BUILD (one | veth)... [--only REGEX | --write PAGE]

Each case has a server and a client, or however the program is used, on one host and on two. What
came must be what was sent, where a program lets us see it; a figure that both transports give
stands beside the other's. --write makes the page (docs/consumers.md) that says it all.
"""
import argparse
import contextlib
import json
import os
import re
import socket
import subprocess
import tempfile
import time

import lab

IQN, INITIATOR = "iqn.2026-11.org.weft:disk", "iqn.2008-11.org.linux-kvm"  # QEMU's


class Wrong(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Wrong(what)


def first(pattern, text):
    found = re.search(pattern, text, re.M)
    check(found, f"no {pattern!r} in what it says")
    return found[1]


class Lab:
    """What a case works with: two hosts (or the same twice), weft, room for files."""

    def __init__(self, weft, hosts, scratch, path):
        self.weft, self.hosts, self.scratch, self.path = weft, hosts, scratch, path
        self.server, self.client = hosts
        self.logs = 0

    def start(self, host, *argv, rdma=True, env=None):
        self.logs += 1
        log = f"{self.path}/{self.logs}-{os.path.basename(argv[0])}.log"
        return lab.Program(host, [*([self.weft, "run", "--"] if rdma else []), *argv], log, env=env)

    @contextlib.contextmanager
    def serving(self, *argv, rdma=True, env=None):
        p = self.start(self.server, *argv, rdma=rdma, env=env)
        try:
            p.settle()
            yield p
        finally:
            p.kill()

    def run(self, *argv, rdma=True, env=None, seconds=60):
        """A client's output, if it ends well."""
        p = self.start(self.client, *argv, rdma=rdma, env=env)
        status = p.wait(seconds)
        p.kill()
        check(status == 0, f"{' '.join(p.argv)} ends with {status}")
        return p.output()


# ---- the programs --------------------------------------------------------------------------------
# A case takes a Lab and returns weft's figures and the other transport's, as text.

def fio(l):
    """4 GiB by each verb, for its client sleeps half a second first, and 32 MiB by SEND: nothing
    holds back fio's sender, which may not try again where no receive is posted (it accepts with an
    RNR retry count of 0), so all of them are."""
    def one(engine, server, client, rdma, size="4g"):
        names = []
        for name, job in (("receiver", server), ("sender", client)):
            names.append(f"{l.scratch}/{name}.fio")
            with open(names[-1], "w", encoding="ascii") as f:
                f.write(f"[{name}]\nioengine={engine}\nport=7777\nbs=64k\nsize={size}\n{job}\n")
        with l.serving("fio", names[0], rdma=rdma) as p:
            out = l.run("fio", "--output-format=json", names[1], rdma=rdma)
            check(p.wait(10) == 0, "the receiver does not end well")
        return f"{json.loads(out[out.index('{'):])['jobs'][0]['write']['bw'] >> 10} MiB/s"

    sender = f"hostname={l.server.address}\nrw=write\niodepth=16\niodepth_batch_complete=1"
    by_verb = [f"{verb} " + one("rdma", f"iodepth={depth}", f"{sender}\nverb={verb}", True, size)
               for verb, depth, size in (("write", 64, "4g"), ("read", 64, "4g"),
                                         ("send", 512, "32m"))]
    # The receiver counts a short read for a whole one, and must not have enough before the end.
    tcp = one("net", "listen\nprotocol=tcp\nrw=read\nsize=16g", f"{sender}\nprotocol=tcp", False)
    return ", ".join(by_verb), f"net engine, TCP: {tcp}"


def qperf(l):
    tests = ("rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_bw", "rc_rdma_read_lat",
             "rc_rdma_write_bw", "rc_rdma_write_lat", "rc_compare_swap_mr", "rc_fetch_add_mr",
             "ver_rc_compare_swap", "ver_rc_fetch_add")
    said = {}
    with l.serving("qperf"):
        for test in tests:
            out = l.run("qperf", "-t", 1, "-cm1", l.server.address, test)
            said[test] = first(r"=\s+(.*\S)", out)
    with l.serving("qperf", rdma=False):
        tcp = {t: first(r"=\s+(.*\S)", l.run("qperf", "-t", 1, l.server.address, t, rdma=False))
               for t in ("tcp_lat", "tcp_bw")}
    return ", ".join(f"{t} {said[t]}" for t in ("rc_lat", "rc_bw")) + " and nine more tests", \
        ", ".join(f"{t} {figure}" for t, figure in tcp.items())


def iser(l):
    """tgt serves an image; qemu-img reads it by libiscsi, and it is the same; iscsi-perf reads."""
    disk, back = f"{l.scratch}/lun.img", f"{l.scratch}/back.img"
    with open(disk, "wb") as f:
        f.write(os.urandom(16 << 20))
    control = {"TGT_IPC_SOCKET": f"{l.scratch}/tgt"}

    def admin(*argv):
        r = subprocess.run(["tgtadm", "-C", "7", *map(str, argv)], env={**os.environ, **control},
                           capture_output=True, text=True, timeout=20, check=False)
        check(r.returncode == 0, f"tgtadm {argv}: {r.stderr}")

    with l.serving("tgtd", "-f", "-C", 7, "--iser", "pool_sz_mb=128", env=control) as p:
        check(lab.until(lambda: l.server.listens_on_tcp(3260), 10), "tgtd does not listen")
        for tid, lld in ((1, "iser"), (2, "iscsi")):
            target = ("--lld", lld, "--mode", "target", "--tid", tid)
            admin(*target, "--op", "new", "-T", f"{IQN}-{lld}")
            admin("--lld", lld, "--mode", "logicalunit", "--op", "new", "--tid", tid, "--lun", 1,
                  "-b", disk)
            admin(*target, "--op", "bind", "-I", "ALL")
            admin(*target, "--op", "bind", "-Q", INITIATOR)
        where = f"{l.server.address}:3260/{IQN}"
        # libiscsi's buffers for iSER have 256 KiB each.
        l.run("qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=256k", f"if=iser://{where}-iser/1",
              f"of={back}")
        with open(disk, "rb") as a, open(back, "rb") as b:
            check(a.read() == b.read(), "what was read by iSER is not what is there")
        figures = []
        for lld in ("iser", "iscsi"):
            out = l.run("iscsi-perf", "-i", INITIATOR, "-t", 2, "-r", f"{lld}://{where}-{lld}/1",
                        rdma=lld == "iser")
            figures.append(re.findall(r"average (\d+)", out)[-1])
        check(p.status() is None, "tgtd has ended")
    return f"{figures[0]} IOPS of 4 KiB, 32 at once", f"iSCSI: {figures[1]}"


class Qmp:
    """A QEMU's control socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        # It is there a moment before it listens.
        check(lab.until(lambda: self.socket.connect_ex(path) == 0, 20), "QEMU does not start")
        self.file = self.socket.makefile("rw")
        self.file.readline()
        self.do("qmp_capabilities")

    def do(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline())
            check("error" not in answer, f"{command}: {answer.get('error')}")
            if "return" in answer:
                return answer["return"]


def qemu(l):
    """A machine that stands still moves with 32 MiB of noise in its memory, which is all there."""
    noise = os.urandom(32 << 20)
    with open(f"{l.scratch}/noise", "wb") as f:
        f.write(noise)
    figures = []
    for scheme in ("rdma", "tcp"):
        machine = ["qemu-system-x86_64", "-S", "-nodefaults", "-display", "none", "-machine",
                   "pc,accel=tcg", "-m", 128]
        sockets = [f"{l.scratch}/{scheme}-{side}" for side in ("to", "from")]
        uri = f"{scheme}:{l.server.address}:4444"
        rdma = scheme == "rdma"
        with l.serving(*machine, "-qmp", f"unix:{sockets[0]},server,nowait", "-incoming", uri,
                       rdma=rdma) as there:
            here = l.start(l.client, *machine, "-qmp", f"unix:{sockets[1]},server,nowait", "-device",
                           f"loader,file={l.scratch}/noise,addr=0x1000000,force-raw=on", rdma=rdma)
            try:
                to, source = map(Qmp, sockets)
                source.do("migrate", uri=uri)
                state = lab.until(lambda: (lambda s: s.get("status") in ("completed", "failed") and s)
                                  (source.do("query-migrate")), 180, 0.1)
                check(state and state["status"] == "completed", f"the migration: {state}")
                to.do("pmemsave", val=0x1000000, size=len(noise), filename=f"{l.scratch}/came")
                with open(f"{l.scratch}/came", "rb") as f:
                    check(f.read() == noise, "the memory is not what it was")
                figures.append(f"{state['total-time']} ms, of which {state['downtime']} at a stop")
                source.do("quit")
                to.do("quit")
                check((here.wait(10), there.wait(10)) == (0, 0), "QEMU does not end well")
            finally:
                here.kill()
    return figures[0], f"TCP: {figures[1]}"


def ucx(l):
    figures = []
    for tls in ("rc_v", "tcp"):
        env = {"UCX_TLS": tls}
        if tls != "tcp":
            env["UCX_NET_DEVICES"] = ("weft_lo" if l.server is l.client else "weft_eth0") + ":1"
        said = []
        for test, size, count in (("tag_lat", 8, 2000), ("tag_bw", 1 << 20, 200)):
            argv = ["ucx_perftest", "-p", 13400, "-t", test, "-s", size, "-n", count, "-w", 10]
            with l.serving(*argv[:3], rdma=tls != "tcp", env=env) as p:
                out = l.run(argv[0], l.server.address, *argv[1:], rdma=tls != "tcp", env=env)
                p.wait(10)
            numbers = re.findall(r"^Final:\s+\d+\s+(.*)$", out, re.M)[-1].split()
            said.append(f"{numbers[1]} us" if test == "tag_lat" else f"{numbers[4]} MB/s")
        figures.append(f"tag_lat {said[0]}, tag_bw {said[1]}")
    return figures[0], f"UCX_TLS=tcp: {figures[1]}"


# program, package, what is needed, how its version is told, the command, the case
CASES = [
    ("fio", "fio", ("fio",), "`ioengine=rdma`, `verb=write`, `read`, `send`; half a second that its "
     "client sleeps is counted", fio),
    ("qperf", "qperf", ("qperf",), "`qperf -cm1 SERVER TEST`", qperf),
    ("tgt's iSER, with libiscsi and qemu-img", "tgt", ("tgtd", "iscsi-perf", "qemu-img"),
     "`tgtd --iser pool_sz_mb=128`; `qemu-img dd`, `iscsi-perf` on `iser://`", iser),
    ("QEMU's migration", "qemu-system-x86", ("qemu-system-x86_64",),
     "`-incoming rdma:ADDRESS:4444`, `migrate rdma:ADDRESS:4444`", qemu),
    ("UCX", "ucx-utils", ("ucx_perftest",), "`UCX_TLS=rc_v ucx_perftest`", ucx),
]

PAGE = """# Programs that use RDMA, on weft

What people run on verbs besides what [programs.md](programs.md) has, unmodified, from Debian 12's packages: nothing but
`weft run --` before them, here and at the other end. `tests/interop/consumers.py BUILD one veth --write docs/consumers.md`
makes this page; `make check-long` runs the same cases. Data are compared where the program lets one see them. Both figures
of a cell are of one run, one after the other, on a machine with other work: they are there to be compared with each other.

| program | version | command | one host | two hosts |
|---|---|---|---|---|
"""
REST = """
Open MPI and MPICH are in `tests/interop/mpi.py`: two ranks below one `weft run -- mpirun`, as an ordinary user who may lock
64 KiB, and each rank on a host of its own, over `rc_v`, `ud_v`, and what UCX takes by itself; messages of 1 B to 4 MiB, a
reduction and one-sided operations; so does an OpenSHMEM program. Open MPI is run over libfabric, too (`--mca mtl ofi`, provider
`verbs;ofi_rxm`); Debian's MPICH is not, which is built for UCX alone (`mpichversion` says `ch4:ucx`). UCX's own benchmark, each
test with each transport, and its example with addresses exchanged by RDMA-CM are in `tests/interop/ucx.py`, `fi_info` and
`fi_pingpong` in `tests/interop/libfabric.py`, libfabric's own tests (fabtests) in `tests/interop/fabtests.py`, perftest 6.24 in
`tests/interop/perftest_newer.py`; the last two are built from Debian 13's sources. SPDK's target and
host, with each other and with weft's, are in `tests/interop/spdk.py`, which takes a built SPDK (`WEFT_SPDK=DIR`).
TCP programs over RDMA have [a page of their own](sockets.md).

## What cannot run

| | why |
|---|---|
| `ibnetdiscover`, `sminfo`, `saquery` and what else sends MADs by libibumad | there are no umad devices, and no subnet manager on RoCE; `ibstat` and `ibstatus` do run |
| what is told LIDs instead of GIDs (qperf without `-cm1`, old tutorials) | RoCE has no LIDs; with rxe it does not run either |
| mlx5dv, GPUDirect | of one vendor's hardware |
| bindings for Rust and Go | not tried: Debian 12 has no package of one |
"""


def version(package):
    r = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True,
                       text=True, check=False)
    return re.sub(r"^\d+:|[-+~].*$", "", r.stdout) if r.returncode == 0 else ""


def run(args, where, cells):
    hosts = lab.lab(1 if where == "one" else 2)
    report = lab.Report(args.build, f"consumers-{where}")
    weft = os.path.join(os.path.abspath(args.build), "weft")
    for name, _, programs, _, case in CASES:
        if not re.search(args.only, name):
            continue
        path = report.case(name)
        try:
            lab.need(*programs)
        except SystemExit:
            report.skip(name, "not installed")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            try:
                ours, theirs = case(Lab(weft, hosts, scratch, path))
            except (Wrong, OSError, subprocess.SubprocessError, IndexError) as e:
                report.fail(name, path, str(e))
                cells[name, where] = "**no**"
                continue
        report.ok(name, path, f"{ours} | {theirs}")
        cells[name, where] = f"{ours} ({theirs})"
    report.everything_ends(hosts)
    return report.status()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", choices=["one", "veth"], nargs="+")
    which = p.add_mutually_exclusive_group()
    which.add_argument("--only", default="", metavar="REGEX")
    which.add_argument("--write", metavar="PAGE")
    args = p.parse_args()
    lab.enter()
    cells, status = {}, 0
    for where in args.where:
        status |= run(args, where, cells)
    if args.write and not status:
        with open(args.write, "w", encoding="ascii") as f:
            f.write(PAGE)
            for name, package, _, command, _ in CASES:
                f.write(f"| {name} | {version(package)} | {command} | "
                        + " | ".join(cells.get((name, w), "") for w in ("one", "veth")) + " |\n")
            f.write(REST)
    raise SystemExit(status)


if __name__ == "__main__":
    main()
