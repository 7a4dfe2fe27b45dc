#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""SPDK's NVMe/RDMA target and host, unmodified, under `weft run`, with each other and with weft's own; the
same with weft's over TCP, its target with keys, and with blocks of 64 KiB, too.

usage: WEFT_SPDK=DIR spdk.py BUILD (one | veth)

Debian has no package of SPDK. DIR is its source tree, configured --with-rdma against the system's
libibverbs and built: build/bin/spdk_tgt or nvmf_tgt, spdk_nvme_perf and spdk_nvme_identify are run.
No huge pages are needed, so spdk_nvme_discover, which does not start without, is not: identify asks the
discovery subsystem.
"""
import json
import os
import re
import subprocess
import tempfile

import lab

NQN = "nqn.2026-11.org.weft:spdk"
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
HOSTNQN = "nqn.2026-11.org.weft:spdk-host"
MIB = 32  # of the namespace
DISK = ("bdev_malloc_create", "-b", "disk", str(MIB), "512")
MEMORY = ["--no-huge", "-s", "512"]
# name, options of the target, of its transport
MODES = (
    ("", [], []),
    (" without SRQ", [], ["--no-srq"]),
    (" by interrupts", ["--interrupt-mode"], []),
    (" by interrupts, without SRQ", ["--interrupt-mode"], ["--no-srq"]),
)


class Wrong(AssertionError):
    pass


def check(condition, what):
    if not condition:
        raise Wrong(what)


def core(last):
    """A mask of the first processor that we may use, or of the last."""
    cpus = sorted(os.sched_getaffinity(0))
    return hex(1 << cpus[-1 if last else 0])


class Spdk:
    def __init__(self, directory, weft, hosts, scratch):
        self.directory, self.weft, self.hosts, self.scratch = directory, weft, hosts, scratch
        self.path, self.programs = "", []
        self.address = hosts[0].address

    def trid_by(self, transport):
        return f"trtype:{transport.upper()} adrfam:IPv4 traddr:{self.address} trsvcid:4420"

    def uri_by(self, transport):
        return f"nvme+{transport}://{self.address}:4420/{NQN}?ns=1"

    def binary(self, name):
        return os.path.join(self.directory, "build/bin", name)

    def start(self, host, *argv):
        log = f"{self.path}/{len(self.programs)}-{os.path.basename(argv[0])}.log"
        self.programs.append(lab.Program(host, argv, log))
        return self.programs[-1]

    def run(self, *argv, seconds=60):
        """What a host's command says, if it ends well."""
        p = self.start(self.hosts[1], *argv)
        status = p.wait(seconds)
        p.kill()
        check(status == 0, f"{' '.join(p.argv)} ends with {status}")
        return p.output()

    def kill(self):
        for p in self.programs:
            p.kill()
        self.programs = []

    # ---- targets ---------------------------------------------------------------------------------

    def target(self, options, transport, trtype="RDMA", disk=DISK, hosts=()):
        """hosts: what it is told of them; or any may come."""
        name = "spdk_tgt" if os.path.exists(self.binary("spdk_tgt")) else "nvmf_tgt"
        sock = f"{self.scratch}/rpc.sock"
        p = self.start(self.hosts[0], self.weft, "run", "--", self.binary(name), *MEMORY, "-m",
                       core(False), "--disable-cpumask-locks", "-r", sock, *options)

        def rpc(*argv):
            r = subprocess.run(["python3", f"{self.directory}/scripts/rpc.py", "-s", sock, *argv],
                               capture_output=True, text=True, timeout=60, check=False)
            return r.returncode, r.stdout + r.stderr

        check(lab.until(lambda: p.status() is not None or rpc("framework_wait_init")[0] == 0, 60, 1)
              and p.status() is None, f"{name} does not start")
        for argv in (("nvmf_create_transport", "-t", trtype, *transport), disk,
                     ("nvmf_create_subsystem", NQN, *(() if hosts else ("-a",)), "-s", "WEFT", "-m", "8"),
                     *hosts, ("nvmf_subsystem_add_ns", NQN, "disk"),
                     ("nvmf_subsystem_add_listener", NQN, "-t", trtype, "-a", self.address, "-s",
                      "4420")):
            status, said = rpc(*argv)
            check(status == 0, f"rpc.py {argv[0]}: {said}")
        return p

    def serve(self, transport="rdma"):
        image = f"{self.scratch}/disk.img"
        with open(image, "wb") as f:
            f.truncate(MIB << 20)
        p = self.start(self.hosts[0], self.weft, "serve", image, "--nqn", NQN, "--listen",
                       f"{transport}://{self.address}:4420")
        check(lab.until(lambda: p.says("nvme connect") or p.status() is not None, 20)
              and p.status() is None, "weft serve does not come up")
        return p

    # ---- hosts -----------------------------------------------------------------------------------

    def with_keys(self):
        """Both sides prove who they are, over TCP; who has no key is not let in."""
        path = {name: f"{self.scratch}/{name}.key" for name in ("host", "ctrl")}
        for at in path.values():
            with open(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
                f.write(self.run(self.weft, "gen-dhchap-key").strip())
        target = self.target([], [], "TCP", hosts=(
            *(("keyring_file_add_key", name, at) for name, at in path.items()),
            ("nvmf_subsystem_add_host", NQN, HOSTNQN, "--dhchap-key", "host", "--dhchap-ctrlr-key", "ctrl")))
        new, back, named = f"{self.scratch}/new", f"{self.scratch}/back", ("--hostnqn", HOSTNQN)
        keys = ("--dhchap-secret", "@" + path["host"], "--dhchap-ctrl-secret", "@" + path["ctrl"])
        with open(new, "wb") as f:
            f.write(os.urandom(MIB << 20))
        for there in ((new, self.uri_by("tcp")), (self.uri_by("tcp"), back)):
            self.run(self.weft, "cp", *there, *named, *keys)
        with open(new, "rb") as a, open(back, "rb") as b:
            check(a.read() == b.read(), "what was read is not what was written")
        refused = self.start(self.hosts[1], self.weft, "id-ns", self.uri_by("tcp"), *named)
        check(refused.wait(20) == 1 and refused.says("DH-HMAC-CHAP"), "who has no key is let in")
        return target, None

    def large_blocks(self):
        """Of a hole of more than 4 GiB more is told at a time than 32 bits of bytes say."""
        target = self.target([], [], "TCP", disk=("bdev_null_create", "disk", "8192", "65536"))
        hole = f"{self.scratch}/hole"
        with open(hole, "wb") as f:
            f.truncate(5 << 30)
        self.run(self.weft, "cp", hole, self.uri_by("tcp"))
        return target, None

    def by_weft(self, transport="rdma"):
        """All that is written comes back, and a verified bench finds nothing wrong."""
        new, back, uri = f"{self.scratch}/new", f"{self.scratch}/back", self.uri_by(transport)
        with open(new, "wb") as f:
            f.write(os.urandom(MIB << 20))
        check(NQN in self.run(self.weft, "discover", f"nvme+{transport}://{self.address}:4420"),
              "weft discover does not find the subsystem")
        self.run(self.weft, "cp", new, uri)
        self.run(self.weft, "cp", uri, back)
        with open(new, "rb") as a, open(back, "rb") as b:
            check(a.read() == b.read(), "what was read is not what was written")
        said = json.loads(self.run(self.weft, "bench", uri, "--rw", "randrw", "--bs", "4k",
                                   "--iodepth", 16, "--runtime", 2, "--verify", "--yes", "-o",
                                   "json"))
        return f"weft bench {sum(said['jobs'][0][way]['iops'] for way in ('read', 'write')):.0f} IOPS, verified"

    def by_spdk(self, transport="rdma"):
        trid = f"{self.trid_by(transport)} subnqn:{NQN}"
        run = (self.weft, "run", "--")
        for subsystem, want in ((DISCOVERY, f"NVM Subsystem Qualified Name: +{NQN}"),
                                (NQN, "Namespace ID:1")):
            said = self.run(*run, self.binary("spdk_nvme_identify"), "--no-huge", "-r",
                            f"{self.trid_by(transport)} subnqn:{subsystem}")
            check(re.search(want, said), f"spdk_nvme_identify of {subsystem} has no {want!r}")
        figures = []
        for size, depth in ((4096, 32), (131072, 8)):
            said = self.run(*run, self.binary("spdk_nvme_perf"), *MEMORY, "-c", core(True), "-t", 2,
                            "-w", "randrw", "-M", 50, "-o", size, "-q", depth, "-r", trid)
            iops = re.search(r"^Total\s+:\s+([\d.]+)", said, re.M)
            check(iops and float(iops[1]) > 0, "spdk_nvme_perf has no figures")
            figures.append(f"{float(iops[1]):.0f} of {size >> 10} KiB")
        return f"spdk_nvme_perf IOPS: {', '.join(figures)}"


def cases():
    for name, options, transport in MODES:
        yield f"SPDK's target{name}, weft's host", lambda s, o=options, t=transport: (
            s.target(o, t), s.by_weft())
        yield f"SPDK's target{name} and host", lambda s, o=options, t=transport: (
            s.target(o, t), s.by_spdk())
    yield "weft's target, SPDK's host", lambda s: (s.serve(), s.by_spdk())
    yield "SPDK's target over TCP, weft's host", lambda s: (s.target([], [], "TCP"), s.by_weft("tcp"))
    yield "weft's target over TCP, SPDK's host", lambda s: (s.serve("tcp"), s.by_spdk("tcp"))
    yield "SPDK's target over TCP with keys, weft's host", Spdk.with_keys
    yield "SPDK's target with blocks of 64 KiB, weft's host", Spdk.large_blocks


def one(spdk, work, path):
    spdk.path = path
    try:
        target, note = work(spdk)
        check(target.status() is None, "the target has ended")
        target.process.terminate()
        status = target.wait(20)
        check(status == 0, f"the target ends with {status} at SIGTERM")
        return note
    finally:
        spdk.kill()


def main():
    args = lab.arguments(__doc__)
    directory = os.environ.get("WEFT_SPDK")
    if not directory:
        lab.skip("no SPDK: WEFT_SPDK=DIR names a built source tree of it (CONTRIBUTING.md)")
    missing = [n for n in ("build/bin/spdk_nvme_perf", "build/bin/spdk_nvme_identify",
                           "scripts/rpc.py")
               if not os.path.exists(os.path.join(directory, n))]
    if missing:
        raise SystemExit(f"WEFT_SPDK={directory} has no {', '.join(missing)}: build it first")
    lab.enter()
    weft = os.path.join(os.path.abspath(args.build), "weft")
    hosts = lab.lab(1 if args.where == "one" else 2)
    report = lab.Report(args.build, f"spdk-{args.where}")
    with tempfile.TemporaryDirectory() as scratch:
        spdk = Spdk(directory, weft, hosts, scratch)
        for name, work in cases():
            if args.only in name:
                report.prove(name, lambda path, work=work: one(spdk, work, path))
    report.everything_ends(hosts)
    report.finish()


if __name__ == "__main__":
    main()
