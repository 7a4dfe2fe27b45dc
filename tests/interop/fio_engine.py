#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""fio with weft's engine, built with the headers of Debian's fio, before weft serve: verified writes over
both transports, trims and flushes, several jobs, and what is told of what cannot be.

usage: fio_engine.py BUILD
"""
import argparse
import os
import platform
import subprocess
import tempfile

import debian_source
import lab

NQN = "nqn.2026-11.org.weft:fio"
LIMIT = 120


def engine(build):
    """Its path, in a build of its own."""
    source = debian_source.built(build, "fio", "fio", ["./configure", "mkdir -p {prefix}", "cp -a . {prefix}/"],
                                 platform.freedesktop_os_release()["VERSION_CODENAME"])
    where = os.path.join(os.path.abspath(build), "fio-build")
    setup = [] if os.path.exists(f"{where}/build.ninja") else [
        ["meson", "setup", where, lab.TOP, f"-Dfio={source}", "-Dtests=false"]]
    for argv in (*setup, ["ninja", "-C", where, "lib/fio-weft.so"]):
        r = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False)
        if r.returncode:
            raise SystemExit(f"the engine does not build: {r.stdout[-2000:]}{r.stderr[-500:]}")
    return f"{where}/lib/fio-weft.so"


class Fio:
    def __init__(self, build, so):
        self.weft, self.so = os.path.join(os.path.abspath(build), "weft"), so
        self.tmp = tempfile.TemporaryDirectory()
        self.host, _ = lab.lab(1)
        self.report = lab.Report(build, "fio-engine")
        self.programs, self.path = [], ""

    def check(self, condition, why):
        if not condition:
            raise AssertionError(why)

    def serve(self, *options):
        p = lab.Program(self.host, [self.weft, "serve", "mem:64m", "--nqn", NQN, "-l", "tcp://127.0.0.1",
                                    "-l", "rdma://127.0.0.1", *options], f"{self.path}/{len(self.programs)}.log")
        self.programs.append(p)
        self.check(lab.until(lambda: p.says("ready") or p.status() is not None, 20)
                   and p.status() is None, f"weft serve does not come up: {p.output()}")

    def fio(self, *options, transport="tcp", status=0):
        """Debian's is linked with the system's libibverbs, so that it needs `weft run`."""
        r = self.host.run(self.weft, "run", "--", "fio", "--name=job", f"--ioengine=external:{self.so}",
                          f"--weft_uri=nvme+{transport}://127.0.0.1/{NQN}?ns=1", "--thread=1", *options,
                          timeout=LIMIT)
        self.check((r.returncode != 0) == bool(status), f"fio ends with {r.returncode}: {r.stdout}{r.stderr}")
        return r.stdout + r.stderr

    def verified(self, transport):
        self.serve()
        said = self.fio("--rw=randrw", "--bs=4k", "--iodepth=32", "--numjobs=2", "--verify=crc32c",
                        "--size=16m", "--offset_increment=16m", "--group_reporting", "--verify_state_save=0",
                        transport=transport)
        self.check("err= 0" in said, said)

    def kinds(self, transport):
        self.serve()
        for rw, more in (("randread", ("--weft_poll=1",)), ("randwrite", ("--fsync=8",)), ("randtrim", ()),
                         ("write", ("--bs=128k", "--iodepth=4"))):
            said = self.fio(f"--rw={rw}", "--bs=4k", "--iodepth=8", "--io_size=2m", *more,
                            transport=transport)
            self.check("err= 0" in said, f"{rw}: {said}")
        if transport == "tcp":
            self.fio("--rw=read", "--bs=4k", "--io_size=1m", "--weft_hdr_digest=1", "--weft_data_digest=1")

    def key(self, kind):
        path = os.path.join(self.tmp.name, kind)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
            f.write(self.host.run(self.weft, kind).stdout)
        return path

    def with_keys(self):
        """Both sides prove who they are, and speak TLS."""
        host, tls = self.key("gen-dhchap-key"), self.key("gen-tls-key")
        self.serve("-l", "tcp+tls://127.0.0.1:4421", "--tls-key", tls, "--dhchap-secret", host,
                   "--dhchap-ctrl-secret", host)
        keys = (f"--weft_dhchap_secret={host}", f"--weft_dhchap_ctrl_secret={host}")
        self.fio("--rw=read", "--io_size=1m", *keys)
        self.fio("--rw=read", "--io_size=1m", *keys, f"--weft_tls_key={tls}",
                 f"--weft_uri=nvme+tcp://127.0.0.1:4421/{NQN}?ns=1")
        self.check(self.programs[-1].says("by TLS"), self.programs[-1].output())
        self.fio("--rw=read", *keys, f"--weft_uri=nvme+tcp://127.0.0.1:4421/{NQN}?ns=1", status=1)

    def by_what_comes_of_them(self):
        """TLS by a key that comes of DH-HMAC-CHAP, and by one of an older identity."""
        host, tls = self.key("gen-dhchap-key"), self.key("gen-tls-key")
        self.serve("-l", "tcp+tls://127.0.0.1:4421?treq=not-required", "--tls-key", tls, "--dhchap-secret", host)
        uri = f"--weft_uri=nvme+tcp://127.0.0.1:4421/{NQN}?ns=1"
        for more in (("--weft_concat=1",), (f"--weft_tls_key={tls}", "--weft_tls_identity=0")):
            seen = self.programs[-1].output().count("by TLS")
            self.fio("--rw=read", "--io_size=1m", f"--weft_dhchap_secret={host}", *more, uri)
            self.check(self.programs[-1].output().count("by TLS") > seen, self.programs[-1].output())
        self.fio("--rw=read", f"--weft_dhchap_secret={host}", f"--weft_tls_key={tls}", "--weft_tls_compat=1", uri, status=1)

    def named(self):
        """By the URI alone, and by an option, which goes before."""
        name = "nqn.2026-11.org.weft:fio-host"
        self.serve("--allow-host", name)
        uri = f"--weft_uri=nvme+tcp://127.0.0.1/{NQN}?ns=1"
        self.fio("--rw=read", "--io_size=1m", f"{uri}&hostnqn={name}")
        self.fio("--rw=read", "--io_size=1m", f"{uri}&hostnqn={name}x", f"--weft_hostnqn={name}")
        self.fio("--rw=read", "--io_size=1m", uri, status=1)

    def parts_of_blocks(self):
        """Are nowhere, whatever the smallest size is."""
        self.serve()
        for options in (("--rw=read", "--bs=4k", "--offset=100"), ("--rw=trim", "--bs=4k,4k,256"),
                        ("--rw=trim", "--bs=4k,4k,1000")):
            said = self.fio(*options, "--io_size=16k", status=1)
            self.check("Invalid argument" in said, f"{options}: {said}")

    def says_why(self):
        self.serve()
        for options, word in ((("--thread=0",), "thread=1"), (("--bs=1000",), "blocks of 512 bytes"),
                              (("--weft_uri=nvme+tcp://127.0.0.1:1/nqn.a:b",), "refused"),
                              (("--weft_uri=",), "weft"),
                              (("--weft_dhchap_secret=/nowhere",), "/nowhere")):
            said = self.fio("--rw=read", *options, status=1)
            self.check(word in said, f"{options}: {said}")

    def prove(self, name, function, *args):
        self.report.prove_and_end(name, self, lambda: function(*args))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    args = p.parse_args()
    if os.environ.get("WEFT_IN_NETNS") != "entered":  # there is no network within
        lab.need("fio", "meson", "ninja")
        os.environ["WEFT_FIO_ENGINE"] = engine(args.build)
    lab.enter()
    fio = Fio(args.build, os.environ["WEFT_FIO_ENGINE"])
    for transport in ("tcp", "rdma"):
        fio.prove(f"verified by {transport}", fio.verified, transport)
        fio.prove(f"all kinds by {transport}", fio.kinds, transport)
    fio.prove("with keys, and by TLS", fio.with_keys)
    fio.prove("by TLS, by what comes of keys", fio.by_what_comes_of_them)
    fio.prove("hosts are named", fio.named)
    fio.prove("parts of blocks", fio.parts_of_blocks)
    fio.prove("what cannot be is named", fio.says_why)
    fio.report.everything_ends([fio.host])
    fio.report.finish()


if __name__ == "__main__":
    main()
