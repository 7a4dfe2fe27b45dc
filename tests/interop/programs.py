#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The field's own verbs programs, unmodified from Debian's packages, as server and client on weft.

usage: programs.py BUILD (one | veth)... [--devices iwarp] [--full] [--only REGEX] [--list] [--write FILE]

one: two processes on one address (loopback). veth: two network namespaces. Without --full the
quick set, which keeps `make check` short. Logs of what failed stay in BUILD/interop-logs.
"""
import argparse
import filecmp
import os
import re
import shlex
import sys

import cases
import lab
import perftest
import programs_table

PORT = 18515
FILE_BYTES = 4 << 20


def all_cases():
    yield from cases.all_cases()
    yield from perftest.all_cases()


# What iWARP has: reliable connections, by rdma_cm. Of the programs of rsockets udpong makes datagrams.
BY_MANAGER = ("rping", "ucmatose", "cmtime", "rdma_server", "rstream", "riostream", "rcopy")
# It has no "receiver not ready": who sends more than there are receives loses the connection. rping -q calls
# rdma_establish(), which as with adapters is for InfiniBand's connections. And perftest, which says there how much may be sent,
# counts what has come by the receives that it took: where queue pairs share these, by another's. One that is told of more than
# it has sent sends no more (4.5: an unsigned difference), and both ends wait for ever.
NOT_IWARP = re.compile(r"-c (UD|UC|XRC|DC|SRD)|-P ib|--connection=(UD|UC|XRC)|ib_send.* -r 1 |rping .*-q|"
                       r"--use-srq.* -q ")


def has_iwarp(case):
    program = case.server.split()[0]
    if NOT_IWARP.search(case.server) or NOT_IWARP.search(case.client):
        return False
    return program in BY_MANAGER or program in perftest.PROGRAMS and "-R" in case.options.split()


class Bench:
    """The two hosts, what their devices are called, and how to run a pair of programs."""

    def __init__(self, build, hosts, devices):
        self.devices = devices
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.server, self.client = lab.lab(hosts)
        self.fields = [self._fields(h, hosts) for h in (self.server, self.client)]
        for f in self.fields:
            f.update(server=self.server.address, server6=self.server.address6)

    def _fields(self, host, hosts):
        dev = "lo" if hosts == 1 else "eth0"
        if self.devices == "iwarp":
            return {"dev": f"weft_iw_{dev}", "gid": "0", "gid6": "0", "own": host.address,
                    "own6": host.address6}
        dev = f"weft_{dev}"
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
        words = shlex.split(line.format(file=f"{path}/{side}", **self.fields[side]))
        return [self.weft, "run", "--devices", self.devices, "--", "stdbuf", "-oL", *words]

    def pair(self, case, path):
        """Runs one case; returns what is wrong, or None."""
        for _ in range(lab.LATE_MAX):
            fault = self.pair_once(case, path)
            if not fault or not lab.refused_late(f"{path}/client.log"):
                break
        return fault

    def pair_once(self, case, path):
        if "{file}" in case.client:
            for side in (0, 1):
                with open(f"{path}/{side}", "wb") as f:
                    f.write(os.urandom(FILE_BYTES))
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
                # The line is printed just before rdma_listen(). Some print nothing at all, and
                # the r-programs never sleep: they ask and ask for somebody to accept.
                server.settle(0.2 if case.ready else 0.5, 10 if case.ready else 1)
            client = lab.Program(self.client, self.argv(case.client, 1, path), f"{path}/client.log")
            if case.stop_s:
                # As long, or until it has shown what it is to show, on a busy machine.
                lab.until(lambda: client.status() is not None, case.stop_s)
                lab.until(lambda: client.status() is not None or not case.want(client.output(), server.output()), case.timeout)
                if None in (client.status(), server.status()):
                    return case.want(client.output(), server.output())
            if client.wait(case.timeout) is None:
                return f"the client still runs after {case.timeout} s"
            if client.status() != 0:
                return f"the client ended with {client.status()}"
            if "{file}.copy" in case.client:
                same = lab.until(lambda: filecmp.cmp(f"{path}/1", f"{path}/1.copy", False), 5)
                return None if same else "the copy is not the same"
            if case.stays:
                return case.want(client.output(), server.output())
            if server.wait(10) is None:
                return "the server still runs 10 s after its client ended"
            # rping's server leaves with what its last event was, whoever closed first.
            if server.status() < 0 or (server.status() and "rping" not in case.server):
                return f"the server ended with {server.status()}"
            return case.want(client.output(), server.output()) if case.want else None
        finally:
            self.ends = [p.status() for p in (server, client) if p]
            server.kill()
            if client:
                client.kill()


def alone(bench, report, table, where):
    """What needs no peer: ibv_devices and ibv_devinfo name the device, and its port is active."""
    dev, host = bench.fields[0]["dev"], bench.server
    for program, options, wanted in (
            ("ibv_devices", "", dev), ("ibv_devinfo", "", "PORT_ACTIVE"),
            # Of iWARP's it shows none: half of a MAC address as a GID is zero.
            ("ibv_devinfo", "-v", "GID[" if bench.devices == "roce" else "max_sge_rd:\t\t\t1\n"), ("ibv_devinfo", "-l", dev),
            ("ibv_devinfo", "-d {dev}", f"hca_id:\t{dev}"),
            ("ibv_devinfo", "-d {dev} -i 1 -v", "PORT_ACTIVE"),
            ("ibv_devinfo", "-d nosuch", None)):
        name = f"{program} {options}".strip()
        path = report.case(name)
        r = host.run(bench.weft, "run", "--devices", bench.devices, "--", program, *options.format(dev=dev).split())
        good = r.returncode == 0 and wanted in r.stdout if wanted else r.returncode != 0
        fault = "" if good else f"ended with {r.returncode}: {r.stdout[-200:]}{r.stderr}"
        report.ok(name, path) if good else report.fail(name, path, fault)
        if wanted:
            table.note(program, options.format(dev="DEVICE"), where, fault)


def asyncwatch(bench, report, table, where):
    """ibv_asyncwatch tells of a port that goes down and comes back. What is on it is lost: last."""
    name, netdev = "ibv_asyncwatch", bench.fields[0]["dev"].removeprefix("weft_").removeprefix("iw_")
    path = report.case(name)
    watch = lab.Program(bench.server, bench.argv("ibv_asyncwatch -d {dev}", 0, path),
                        f"{path}/watch.log")
    fault = ""
    for text, link in (("async event FD", None), ("EVENT_PORT_ERR", "down"),
                       ("EVENT_PORT_ACTIVE", "up")):
        if link:
            bench.server.ip("link", "set", netdev, link)
        if not fault and not lab.until(lambda t=text: watch.says(t), 10):
            fault = f"does not say '{text}'"
    watch.kill()
    report.fail(name, path, fault) if fault else report.ok(name, path)
    table.note("ibv_asyncwatch", "-d DEVICE", where, fault)


def refusal(case, path, ends):
    """Why the case may not work, if one of the programs said just that, and none of them died."""
    if any(status is not None and status < 0 for status in ends):
        return None
    said = ""
    for log in os.listdir(path):
        if log.endswith(".log"):
            with open(os.path.join(path, log), encoding="utf-8", errors="replace") as f:
                said += f.read()
    return case.refused[1] if case.refused and re.search(case.refused[0], said) else None


def run(args, where, chosen, table):
    """All cases in one place; the Report, and in table what became of each."""
    bench = Bench(args.build, 1 if where == "one" else 2, args.devices)
    kind = "" if args.devices == "roce" else f"-{args.devices}"
    report = lab.Report(args.build, f"programs{kind}-{where}")
    if re.search(args.only, "ibv_devinfo"):
        alone(bench, report, table, where)
    for c in chosen:
        path = report.case(c.name)
        c.timeout = min(c.timeout, args.timeout or c.timeout)
        fault = None
        for _ in range(c.repeat):
            fault = fault or bench.pair(c, path)
        why = fault and refusal(c, path, bench.ends)
        if fault and not why:
            report.fail(c.name, path, fault)
        else:
            report.ok(c.name, path, f"refused: {why}" if why else "")
        table.note(*programs_table.shown(c), where, why or fault or "")
    if re.search(args.only, "ibv_asyncwatch"):
        asyncwatch(bench, report, table, where)
    report.everything_ends((bench.server, bench.client))
    return report


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", nargs="+", choices=("one", "veth"))
    p.add_argument("--devices", choices=("roce", "iwarp"), default="roce", help="on which")
    p.add_argument("--full", action="store_true", help="all cases instead of the quick ones")
    p.add_argument("--only", default="", help="cases whose name matches")
    p.add_argument("--timeout", type=int, help="give up earlier than the case says")
    p.add_argument("--list", action="store_true", help="name the cases and end")
    p.add_argument("--write", metavar="FILE", help="all cases, and a page of what came of "
                   "them; with --only, of those and of the runs before")
    args = p.parse_args()
    lab.need("ibv_rc_pingpong", "rping", "ib_send_bw", "stdbuf")
    if not args.list:
        lab.enter()
    kept = os.path.join(args.build, "interop-logs", f"programs-{args.devices}.json")
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    table = programs_table.Table(kept if args.write else None, not args.only)
    reports = []
    for where in args.where:
        mtu_max = 4096 if where == "one" else 1024
        chosen = [c for c in all_cases() if (args.full or args.write or c.quick in (True, where)) and
                  c.mtu <= mtu_max and not (c.veth and where == "one") and
                  (args.devices == "roce" or has_iwarp(c)) and
                  re.search(args.only, c.name)]
        if args.list:
            print("\n".join(c.name for c in chosen))
        else:
            reports.append(run(args, where, chosen, table))
    if args.write:
        table.keep({programs_table.shown(c) for c in all_cases()})
        table.write(args.write, args.devices)
        forgotten = perftest.forgotten()
        for program, option in forgotten:
            print(f"FAIL {program} --help has {option}, and no case tries it")
        if forgotten:
            sys.exit(1)
    if reports:
        sys.exit(max(r.status() for r in reports))


if __name__ == "__main__":
    main()
