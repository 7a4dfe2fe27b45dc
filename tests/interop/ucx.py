#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""UCX, unmodified, under `weft run`: it finds the devices, and talks over each of its transports.

usage: ucx.py BUILD (one | veth) [--full] [--place PLACE]

On one host an ordinary user's, who may lock 64 KiB of memory. A place is one without privilege
(places.py).
"""
import argparse
import os
import shutil
import signal
import subprocess
import tempfile

import lab
import places

PORT = 13400
CM_PORT = 13401
# Addresses exchanged by RDMA-CM: UCX's own example does that, and its benchmark does not.
EXAMPLE = "/usr/share/doc/libucx-dev/examples/ucp_client_server.c"
# UCX_TLS -> tests of ucx_perftest; None: what UCX takes by itself
TALKS = {
    "rc_v": ("tag_lat", "tag_bw", "ucp_put_lat", "ucp_get", "stream_bw", "ucp_add"),
    "ud_v": ("tag_lat", "tag_bw", "stream_lat", "ucp_am_lat"),
    "rc,ud": ("tag_lat",),
    None: ("tag_lat", "ucp_put_bw"),
}
SIZES = (8, 65536)
# --full: every test of ucx_perftest that needs no more than host memory
ATOMICS = ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")
UCP = ("tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get",
       *ATOMICS, "stream_bw", "stream_lat", "ucp_am_lat", "ucp_am_bw")
SIZES_FULL = (8, 4096, 65536, 4 << 20)
# UCT, below the protocols: transport -> tests
UCT = {
    "rc_verbs": ("am_lat", "am_bw", "put_lat", "put_bw", "get", "add_lat", "add_mr", "fadd", "cswap"),
    "ud_verbs": ("am_lat", "am_bw"),
}


def finds_devices(weft, host, dev):
    out = host.run(*weft, "run", "--", "ucx_info", "-d", timeout=30).stdout
    for want in ("Transport: rc_verbs", "Transport: ud_verbs", f"Device: {dev}:1"):
        if want not in out:
            return f"ucx_info -d has no {want!r}"
    return None


def talk(weft, hosts, env, options, path):
    run = [*weft, "run", "--", "ucx_perftest", "-p", PORT]
    server = lab.Program(hosts[0], run, f"{path}/server.log", env=env)
    client = None
    try:
        if not lab.until(lambda: hosts[0].listens_on_tcp(PORT) or server.status() is not None, 10):
            return "the server does not listen"
        client = lab.Program(hosts[1], [*run, hosts[0].address, *options], f"{path}/client.log",
                             env=env)
        status = client.wait(60), server.wait(10)
        if status != (0, 0):
            return f"client and server end with {status}"
        return None if client.says("Final:") else "the client gives no figures"
    finally:
        server.kill()
        if client:
            client.kill()


def by_address(weft, hosts, program, env, api, path):
    run = [*weft, "run", "--", "stdbuf", "-oL", program, "-p", CM_PORT, "-c", api, "-i", 20]
    server = lab.Program(hosts[0], run, f"{path}/server.log", env=env)
    client = None
    try:
        if not lab.until(lambda: server.says("Waiting for connection") or
                         server.status() is not None, 10):
            return "the server does not listen"
        client = lab.Program(hosts[1], [*run, "-a", hosts[0].address], f"{path}/client.log", env=env)
        status = client.wait(30)
        if status != 0:
            return f"the client ends with {status}"
        # It serves until it is killed.
        return None if lab.until(lambda: server.says("UCP TEST SUCCESS"), 5) else \
            "the server did not get what was sent"
    finally:
        for pid in hosts[0].named(os.path.basename(program)):  # which may be in a container
            os.kill(pid, signal.SIGKILL)
        server.kill()
        if client:
            client.kill()


def compiled(directory):
    """UCX's example, or None where it is not installed."""
    if not os.path.exists(EXAMPLE) or not shutil.which("cc"):
        return None
    subprocess.run(["cc", "-o", f"{directory}/example", EXAMPLE, "-lucp", "-lucs"], check=True)
    return f"{directory}/example"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", choices=["one", "veth"])
    p.add_argument("--full", action="store_true")
    p.add_argument("--place", choices=places.PLACES)
    args = p.parse_args()
    lab.enter()
    lab.need("ucx_info", "ucx_perftest")
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o777)
        run(args, os.path.abspath(args.build), scratch)


def run(args, build, scratch):
    weft = [f"{build}/weft"]
    if args.place:
        os.environ["HOME"] = "/tmp"  # root's is not theirs
    elif args.where == "one":
        weft = [*lab.ordinary_user(), *places.LIMIT, *weft]
    hosts = lab.lab(1 if args.where == "one" else 2, *[places.user_namespace()] * bool(args.place))
    for h in hosts if args.place else ():
        places.put(h, args.place, build, scratch)
    dev = "weft_lo" if args.where == "one" else "weft_eth0"
    report = lab.Report(build, "-".join(["ucx", *[args.place] * bool(args.place), args.where,
                                         *["full"] * args.full]))
    report.attempt("ucx_info -d", lambda path: finds_devices(weft, hosts[0], dev))
    for tls, tests in TALKS.items():
        # Without the system's own shared memory and TCP, but where UCX is to choose.
        env = {"UCX_NET_DEVICES": f"{dev}:1", "UCX_TLS": tls} if tls else {}
        for test in UCP if args.full else tests:
            for size in SIZES_FULL if args.full else SIZES:
                if test in ATOMICS and size != 8:
                    continue
                count = 20 if size > 1 << 20 else 300
                options = ["-t", test, "-s", size, "-n", count, "-w", 10]
                report.attempt(f"{tls or 'all'} {test} {size}", lambda path, o=options, e=env:
                               talk(weft, hosts, e, o, path))
    for transport, tests in UCT.items() if args.full else ():
        for test in tests:
            options = ["-t", test, "-s", 8, "-n", 300, "-w", 10, "-d", f"{dev}:1", "-x", transport]
            if test == "get":
                options += ["-D", "bcopy"]
            report.attempt(f"{transport} {test}", lambda path, o=options:
                           talk(weft, hosts, {}, o, path))
    program = compiled(scratch) if args.full or args.place else None
    for tls in TALKS if program else ():
        env = {"UCX_TLS": tls} if tls else {}
        for api in ("am", "tag", "stream"):
            report.attempt(f"{tls or 'all'} RDMA-CM {api}", lambda path, a=api, e=env:
                           by_address(weft, hosts, program, e, a, path))
    if (args.full or args.place) and not program:
        report.skip("RDMA-CM", "libucx-dev or a compiler is not installed")
    report.everything_ends(hosts)
    report.finish()


if __name__ == "__main__":
    main()
