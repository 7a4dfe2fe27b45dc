#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The field's own verbs programs, unmodified from Debian's packages, as server and client on weft.

usage: programs.py BUILD (one | veth) [--full] [--only REGEX] [--list]

one: two processes on one address (loopback). veth: two network namespaces. Without --full the
quick set, which keeps `make check` short. Logs of what failed stay in BUILD/interop-logs.
"""
import argparse
import os
import re
import shlex
import sys

import cases
import lab
import perftest

PORT = 18515


def all_cases():
    yield from cases.all_cases()
    yield from perftest.all_cases()


class Bench:
    """The two hosts, what their devices are called, and how to run a pair of programs."""

    def __init__(self, build, hosts):
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.server, self.client = lab.lab(hosts)
        self.fields = [self._fields(h, hosts) for h in (self.server, self.client)]
        for f, h in zip(self.fields, (self.server, self.client)):
            f.update(address=h.address, server=self.server.address, server6=self.server.address6)

    def _fields(self, host, hosts):
        dev = "weft_lo" if hosts == 1 else "weft_eth0"
        info = host.run(self.weft, "run", "--", "ibv_devinfo", "-v", "-d", dev)
        gids = {}
        for index, gid in re.findall(r"GID\[\s*(\d+)\]:\s*(\S+)", info.stdout):
            gids[gid.rstrip(",")] = index
        found = [gids.get(g) for g in (f"::ffff:{host.address}", host.address6)]
        if None in found:
            print(f"ibv_devinfo -v -d {dev} on {host.name} does not show the GIDs of "
                  f"{host.address} and {host.address6}:\n{info.stdout}{info.stderr}")
            sys.exit(1)
        return {"dev": dev, "gid": found[0], "gid6": found[1], "own": host.address,
                "own6": host.address6}

    def argv(self, line, side, path):
        words = shlex.split(line.format(path=f"{path}/{side}", **self.fields[side]))
        return [self.weft, "run", "--", "stdbuf", "-oL", *words]

    def pair(self, case, path):
        """Runs one case; returns what is wrong, or None."""
        if "{path}.mmap" in case.server:
            for side in (0, 1):
                with open(f"{path}/{side}.mmap", "wb") as f:
                    f.truncate(1 << 24)
        server = lab.Program(self.server, self.argv(case.server, 0, path), f"{path}/server.log")
        client = None
        try:
            if case.tcp:
                port = re.search(r" -p (\d+)", case.server)
                ready = lambda: self.server.listens_on_tcp(int(port[1]) if port else PORT)
            else:
                ready = lambda: server.says(case.ready)
            if not lab.until(lambda: ready() or server.status() is not None, 10) \
                    or server.status() is not None:
                return f"the server does not come up (status {server.status()})"
            if not case.tcp:
                lab.until(lambda: False, 0.2)  # the line is printed just before rdma_listen()
            client = lab.Program(self.client, self.argv(case.client, 1, path), f"{path}/client.log")
            if client.wait(case.timeout) is None:
                return f"the client still runs after {case.timeout} s"
            if client.status() != 0:
                return f"the client ended with {client.status()}"
            if server.wait(10) is None:
                return "the server still runs 10 s after its client ended"
            # rping's server leaves with what its last event was, whoever closed first.
            if server.status() != 0 and "rping" not in case.server:
                return f"the server ended with {server.status()}"
            return case.want(client.output(), server.output()) if case.want else None
        finally:
            server.kill()
            if client:
                client.kill()


def devinfo(bench, report):
    """ibv_devinfo and ibv_devices name the device, and the port is active."""
    for host, fields in ((bench.server, bench.fields[0]),):
        path = report.case("ibv_devinfo")
        faults = []
        for options in ("", "-v", "-l", f"-d {fields['dev']}", f"-d {fields['dev']} -i 1 -v"):
            r = host.run(bench.weft, "run", "--", "ibv_devinfo", *options.split())
            if r.returncode or fields["dev"] not in r.stdout:
                faults.append(f"ibv_devinfo {options} ended with {r.returncode}: {r.stderr}")
            elif options != "-l" and "PORT_ACTIVE" not in r.stdout:
                faults.append(f"ibv_devinfo {options}: no active port")
        r = host.run(bench.weft, "run", "--", "ibv_devinfo", "-d", "nosuch")
        if r.returncode == 0:
            faults.append("ibv_devinfo -d nosuch succeeds")
        r = host.run(bench.weft, "run", "--", "ibv_devices")
        if r.returncode or fields["dev"] not in r.stdout:
            faults.append(f"ibv_devices ended with {r.returncode}")
        if faults:
            report.fail("ibv_devinfo", path, "; ".join(faults))
        else:
            report.ok("ibv_devinfo", path)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", choices=("one", "veth"))
    p.add_argument("--full", action="store_true")
    p.add_argument("--only", default="")
    p.add_argument("--timeout", type=int, help="give up earlier than the case says")
    p.add_argument("--list", action="store_true")
    args = p.parse_args()
    mtu_max = 4096 if args.where == "one" else 1024
    chosen = [c for c in all_cases() if (args.full or c.quick) and c.mtu <= mtu_max and
              not (c.veth and args.where == "one") and
              re.search(args.only, c.name)]
    if args.list:
        for c in chosen:
            print(c.name)
        return
    lab.enter()
    lab.need("ibv_rc_pingpong", "rping", "ib_send_bw", "stdbuf")
    bench = Bench(args.build, 1 if args.where == "one" else 2)
    report = lab.Report(args.build, f"programs-{args.where}")
    if re.search(args.only, "ibv_devinfo"):
        devinfo(bench, report)
    for c in chosen:
        path = report.case(c.name)
        c.timeout = min(c.timeout, args.timeout or c.timeout)
        fault = None
        for _ in range(c.repeat):
            fault = fault or bench.pair(c, path)
        if fault:
            report.fail(c.name, path, fault)
        else:
            report.ok(c.name, path)
    left = {line for h in {bench.server, bench.client} for line in h.close()}
    path = report.case("everything ends")
    if left:
        report.fail("everything ends", path, f"still running: {', '.join(sorted(left))}")
    else:
        report.ok("everything ends", path)
    report.finish()


main()
