#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""MPI and OpenSHMEM, unmodified, under `weft run`: Open MPI and MPICH, with UCX below them, and Open MPI
with libfabric. Debian's MPICH is built for UCX alone (`mpichversion`: ch4:ucx), and has no netmod to choose.

usage: mpi.py BUILD (one | veth) [--only WORD]

On one host both ranks are below one `weft run -- mpirun`, an ordinary user's that may lock 64 KiB; of two
hosts each starts its own, by what mpirun takes for ssh. What goes over RDMA is seen by the port's
datagrams.
"""
import os
import re
import stat
import subprocess
import tempfile

import lab

HERE = os.path.dirname(os.path.abspath(__file__))
DATAGRAMS = 300  # of a run; names and connections alone take a few dozen
OFI = "verbs;ofi_rxm"  # libfabric's messages to any peer, over connections
# UCX_TLS: weft's alone, and what UCX takes by itself
TRANSPORTS = ("rc_v,self", "ud_v,self", None)
AGENT = """#!/bin/sh
# What mpirun takes for ssh: a host's name, then a command.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
case $host in
%s
*) echo "no host $host" >&2; exit 1 ;;
esac
exec nsenter -t "$pid" -n -- unshare --uts --ipc -- sh -c "hostname $host; exec %s run -- sh -c \\"\\$*\\"" sh "$@"
"""


def datagrams(hosts):
    return sum(h.datagrams() for h in dict.fromkeys(hosts))


def open_mpi(tls, hosts, agent, starter="mpirun.openmpi"):
    argv = [starter, "--allow-run-as-root", "--oversubscribe", "-n", 2, "--mca", "pml"]
    if tls == OFI:
        argv += ["cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", OFI, "--mca",
                 "osc", "pt2pt"]
    else:
        argv += ["ucx", "--mca", "osc", "ucx", *(["-x", "UCX_TLS"] if tls else [])]
    if agent:
        argv += ["--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "eth0",
                 "--host", ",".join(h.name for h in hosts)]
    return argv


def open_shmem(tls, hosts, agent):
    return [*open_mpi(tls, hosts, agent, "oshrun"), "--mca", "spml", "ucx", "--mca", "atomic", "ucx"]


def mpich(_, hosts, agent):
    argv = ["mpirun.mpich", "-n", 2]
    if agent:
        argv += ["-launcher", "ssh", "-launcher-exec", agent, "-iface", "eth0",
                 "-hosts", ",".join(h.name for h in hosts)]
    return argv


# name -> compiler, source, how it is started, over what
MPIS = {
    "openmpi": ("mpicc.openmpi", "mpi_ring.c", open_mpi, (*TRANSPORTS, OFI)),
    "mpich": ("mpicc.mpich", "mpi_ring.c", mpich, TRANSPORTS),
    "openshmem": ("oshcc", "shmem_ring.c", open_shmem, TRANSPORTS),
}


def runs(hosts, argv, env, path, *, by_rdma):
    """Within one host once by memory, as it comes, and once by datagrams, which can be counted."""
    note = ""
    for port in ("local", "udp") if len(set(hosts)) == 1 else (None,):
        wrong, note = runs_once(hosts, argv, env | ({"WEFT_PORT": port} if port else {}), path,
                                counted=by_rdma and port != "local")
        if wrong:
            return f"WEFT_PORT={port}: {wrong}" if port else wrong, ""
    return None, note


def runs_once(hosts, argv, env, path, *, counted):
    before = datagrams(hosts)
    program = lab.Program(hosts[0], argv, f"{path}/mpirun.log", env=env)
    status = program.wait(100)
    program.kill()
    if status != 0:
        return f"mpirun ends with {status}", ""
    said = re.search(r"^ranks 2 wrong 0 (.*)$", program.output(), re.M)
    if not said:
        return "not what was sent has come", ""
    sent = datagrams(hosts) - before
    if counted and sent < DATAGRAMS:
        return f"it went another way: {sent} datagrams", ""
    return None, said[1]


def main():
    args = lab.arguments(__doc__)
    lab.enter()
    lab.need("mpirun.openmpi", "mpirun.mpich", "oshrun", *(m[0] for m in MPIS.values()))
    weft = os.path.join(os.path.abspath(args.build), "weft")
    hosts = lab.lab(1 if args.where == "one" else 2)
    # libfabric has no connections on loopback.
    of = {OFI: lab.lab(2)[:1] * 2} if args.where == "one" else {}
    report = lab.Report(args.build, f"mpi-{args.where}")
    limit = ["prlimit", "--memlock=65536:65536", "--"]
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        run = [*(lab.ordinary_user() if args.where == "one" else []), *limit, weft, "run", "--"]
        agent = None
        if args.where == "veth":
            agent = f"{scratch}/agent"
            names = "\n".join(f"{h.name}) pid={h.holder.pid} ;;" for h in hosts)
            with open(agent, "w", encoding="ascii") as f:
                f.write(AGENT % (names, weft))
            os.chmod(agent, stat.S_IRWXU)
        for name, (compiler, source, command, transports) in MPIS.items():
            program = f"{scratch}/{name}"
            subprocess.run([compiler, "-O2", "-Wno-deprecated-declarations", "-o", program,
                            os.path.join(HERE, source)], check=True)
            for tls in transports:
                case = f"{name} {tls or 'as it comes'}"
                if args.only not in case:
                    continue
                path = report.case(case)
                env = {"UCX_TLS": tls} if tls and tls != OFI else {}
                on = of.get(tls, hosts)
                wrong, note = runs(on, [*run, *command(tls, on, agent), program], env, path,
                                   by_rdma=tls or args.where == "veth")
                if wrong:
                    report.fail(case, path, wrong)
                else:
                    report.ok(case, path, note)
        if args.only in f"mpich {OFI}":
            device = subprocess.run(["mpichversion"], capture_output=True, text=True, check=True)
            device = re.search(r"^MPICH Device:\s*(\S+)", device.stdout, re.M)[1]
            report.skip(f"mpich {OFI}", f"it is built for another: {device}")
    report.everything_ends([*hosts, *of.get(OFI, ())])
    report.finish()


if __name__ == "__main__":
    main()
