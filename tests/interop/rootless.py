#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The field's programs and weft's own where there is no privilege: nothing but `weft run` before them.

usage: rootless.py BUILD (userns | memlock | bwrap | crun) (one | veth) [--mpi [--only WORD]]

All of it is in a user namespace that an ordinary user has made (unshare -Urn). memlock: 64 KiB may be
locked. bwrap, crun: each program in a container of its own, without capabilities, with its own
processes and users, a read-only /sys and no /dev/infiniband; crun's with podman's seccomp filter.
one: the two are containers of a pod, with one network.
"""
import argparse
import os
import re
import signal
import subprocess
import tempfile
import time

import lab
import libfabric
import mpi
import places
import ucx

NQN = "nqn.2026-11.org.weft:rootless"
DISK_BYTES = 16 << 20


def pair(weft, hosts, server, client, ready, path):
    """Its client's output and None, or what is wrong. Who is refused has come early: it tries again."""
    first = lab.Program(hosts[0], [weft, "run", "--", "stdbuf", "-oL", *server], f"{path}/server.log")
    try:
        if not lab.until(lambda: ready() or first.status() is not None, 10):
            return "", "the server does not listen"
        status, end = None, time.monotonic() + 30
        while status != 0 and first.status() is None and time.monotonic() < end:
            second = lab.Program(hosts[1], [weft, "run", "--", *client], f"{path}/client.log")
            status = second.wait(30)
            second.kill()
            if status != 0 and not second.says("REJECTED"):
                break
        if status != 0:
            return "", f"the client ends with {status}"
        return second.output(), None if first.wait(10) is not None else "the server still runs"
    finally:
        first.kill()


def perftest(weft, hosts, path):
    argv = ["ib_write_bw", "-F", "-d", "weft_eth0", "-s", 65536, "-n", 500]
    out, wrong = pair(weft, hosts, argv, [*argv, hosts[0].address],
                      lambda: hosts[0].listens_on_tcp(18515), path)
    if not wrong and not re.search(r"^ *65536 +500 +\S*[1-9]", out, re.M):
        wrong = "no figure"
    return wrong


def rping(weft, hosts, path):
    argv = ["rping", "-a", hosts[0].address, "-C", 10, "-v"]
    out, wrong = pair(weft, hosts, [*argv, "-s"], [*argv, "-c"], lambda: True, path)
    if not wrong and out.count("ping data: rdma-ping") != 10:
        wrong = "not 10 pings"
    return wrong


def disk(weft, hosts, scratch, path):
    """What is written to a served image is read back from it, and it is measured."""
    image, given, back = (f"{scratch}/{name}" for name in ("disk", "given", "back"))
    with open(given, "wb") as f:
        f.write(os.urandom(DISK_BYTES))
    for name in (image, back):
        with open(name, "wb") as f:
            f.truncate(DISK_BYTES)
        os.chmod(name, 0o666)
    uri = f"nvme+rdma://{hosts[0].address}/{NQN}?ns=1"
    target = lab.Program(hosts[0], [weft, "serve", image, "-l", f"rdma://{hosts[0].address}", "-n",
                                    NQN], f"{path}/serve.log")
    try:
        if not lab.until(lambda: target.says("ready") or target.status() is not None, 10):
            return "the target does not come up"
        for argv in (["cp", given, uri], ["cp", "--verify", uri, back],
                     ["bench", uri, "--rw", "randread", "--bs", "4k", "--runtime", 1]):
            r = hosts[1].run(weft, *argv)
            if r.returncode:
                return f"weft {argv[0]} ends with {r.returncode}: {r.stderr.strip()}"
        with open(given, "rb") as a, open(back, "rb") as b:
            if a.read() != b.read():
                return "what was read is not what was written"
        for pid in hosts[0].weft("serve"):  # not what has started it, which need not pass it on
            os.kill(pid, signal.SIGTERM)
        status = target.wait(10)
        return None if status == 0 else f"the target ends with {status}"
    finally:
        target.kill()


def mpi_cases(weft, host, scratch, report, only):
    """Two ranks below one `weft run`, and each below its own; in one container."""
    for mpi_name, (compiler, source, command, transports) in mpi.MPIS.items():
        program = f"{scratch}/{mpi_name}"
        subprocess.run([compiler, "-O2", "-Wno-deprecated-declarations", "-o", program,
                        f"{mpi.HERE}/{source}"], check=True)
        for tls in filter(None, transports):
            start = command(tls, (host, host), None)
            env = {} if tls == mpi.OFI else {"UCX_TLS": tls}
            for name, argv in (("weft run -- mpirun", [weft, "run", "--", *start, program]),
                               ("mpirun weft run --", [*start, weft, "run", "--", program])):
                case = f"{mpi_name} {tls}, {name}"
                if only in case:
                    report.attempt(case, lambda path, a=argv, e=env: mpi.runs(
                        (host, host), a, e, path, by_rdma=True)[0])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("place", choices=places.PLACES)
    p.add_argument("where", choices=["one", "veth"])
    p.add_argument("--mpi", action="store_true", help="the MPIs, and nothing else")
    p.add_argument("--only", default="", help="of MPIs, those with this in their case's name")
    args = p.parse_args()
    lab.enter()
    lab.need("ib_write_bw", "rping", "ucx_perftest", "fi_pingpong", "stdbuf",
             *(["mpirun.openmpi", "mpirun.mpich", "oshrun", *(m[0] for m in mpi.MPIS.values())]
               if args.mpi else []))
    os.environ["HOME"] = "/tmp"  # root's is not theirs
    build = os.path.abspath(args.build)
    weft = f"{build}/weft"
    report = lab.Report(build, "-".join(["rootless", args.place, args.where] + ["mpi"] * args.mpi))
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o777)
        # Open MPI's directory is called by the user's number, which is another's outside.
        os.environ["TMPDIR"] = scratch
        # libfabric has connections on no loopback device.
        hosts = lab.lab(2, places.user_namespace())
        for h in hosts:
            places.put(h, args.place, build, scratch)
        server, client = hosts if args.where == "veth" else (hosts[0], hosts[0])
        both = (server, client)
        if args.mpi:
            mpi_cases(weft, server, scratch, report, args.only)
        else:
            rc = {"UCX_TLS": "rc_v", "UCX_NET_DEVICES": "weft_eth0:1"}
            for name, work in (
                    ("ib_write_bw", lambda path: perftest(weft, both, path)),
                    ("rping", lambda path: rping(weft, both, path)),
                    ("ucx_perftest", lambda path: ucx.talk(
                        [weft], both, rc, ["-t", "tag_bw", "-s", 65536, "-n", 300], path)),
                    ("fi_pingpong", lambda path: libfabric.talk(
                        weft, both, server.address, ["-p", "verbs", "-e", "msg"], path)),
                    ("weft serve", lambda path: disk(weft, both, scratch, path))):
                report.attempt(name, work)
        report.everything_ends(hosts)
    report.finish()


if __name__ == "__main__":
    main()
