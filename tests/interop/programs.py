#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The field's own verbs programs, unmodified from Debian's packages, as server and client on weft.

usage: programs.py BUILD (one | veth) [--full] [--only REGEX] [--list]

one: two processes on one address (loopback). veth: two network namespaces. Without --full the
quick set, which keeps `make check` short. Logs of what failed stay in BUILD/interop-logs.
"""
import argparse
import dataclasses
import os
import re
import shlex
import sys

import lab

PORT = 18515
SIZES_ALL = [2 ** n for n in range(1, 24)]  # perftest's -a


@dataclasses.dataclass
class Case:
    name: str
    server: str               # {dev}, {gid}, {gid6}: of the server's own host
    client: str               # the same of the client's; {server}, {server6}: whom to talk to
    tcp: bool = True          # the server is ready when it listens on TCP; else see ready
    ready: str = ""           # text of the server's output by which it listens in rdma_cm
    timeout: int = 60
    quick: bool = False
    mtu: int = 0              # the path MTU it asks for; Ethernet's 1500 carries 1024
    repeat: int = 1           # times in a row: for what depends on who is faster
    want: object = None       # callable(client's output, server's output) -> fault or None


def pingpong(iters):
    def want(client, server):
        for who, out in (("client", client), ("server", server)):
            if f"{iters} iters in" not in out:
                return f"{who} does not report {iters} iterations"
            if "invalid data" in out:
                return f"{who} found wrong data"
        return None
    return want


def pings(count):
    def want(client, _):
        seen = sum(l.startswith("ping data: rdma-ping") for l in client.splitlines())
        return None if seen == count else f"{seen} of {count} pings printed"
    return want


def rows(sizes):
    """perftest's table has a line for every size, with a figure in it that is not zero."""
    def want(client, _):
        got = {}
        for line in client.splitlines():
            f = line.split()
            if len(f) >= 5 and f[0].isdigit() and f[1].isdigit():
                got[int(f[0])] = max(map(float, f[2:5]))
        missing = [s for s in sizes if not got.get(s)]
        return f"no figures for sizes {missing[:5]}" if missing else None
    return want


def pingpong_cases():
    base = "ibv_rc_pingpong -d {dev} -g {gid} -c"
    for quick, options, iters in (
            (True, "-n 1000", 1000),
            (True, "-e -n 500", 500),
            (True, "-s 1 -n 500", 500),
            (True, "-s 1048576 -n 50", 50),
            (False, "-s 8388608 -n 10 -r 10", 10),
            (False, "-s 65537 -n 200", 200),
            (False, "-s 4095 -n 1000 -e", 1000),
            (False, "-m 256 -n 300", 300),
            (False, "-m 512 -s 10000 -n 300", 300),
            (False, "-m 2048 -s 10000 -n 300", 300),
            (False, "-m 4096 -s 100000 -n 300", 300),
            (True, "-r 1 -n 300", 300),
            (False, "-r 1000 -n 3000", 3000),
            (False, "-l 0 -n 300", 300),
            (False, "-e -r 1 -s 100000 -n 300", 300)):
        line = f"{base} {options}"
        asked = re.search(r"-m (\d+)", options)
        yield Case(f"pingpong {options}", line, line + " {server}", quick=quick,
                   mtu=int(asked[1]) if asked else 0, want=pingpong(iters))
    # Both end at once when they have the last message; each must see its own acknowledged.
    yield Case("pingpong ends 20 times", base + " -n 20", base + " -n 20 {server}", quick=True,
               repeat=20, want=pingpong(20))
    line = "ibv_rc_pingpong -d {dev} -g {gid6} -c -n 500"
    yield Case("pingpong IPv6 GID", line, line + " {server}", quick=True, want=pingpong(500))


def rping_cases():
    for quick, name, address, options, count in (
            (True, "rping IPv4", "{server}", "-v -V -C 10000", 10000),
            (True, "rping IPv6", "{server6}", "-v -V -C 1000", 1000),
            (False, "rping IPv6 10,000", "{server6}", "-v -V -C 10000", 10000),
            (False, "rping -S 60000", "{server}", "-v -V -S 60000 -C 1000", 1000),
            (False, "rping -S 23", "{server}", "-v -V -S 23 -C 1000", 1000)):
        yield Case(name, f"rping -s -d -a {address} {options}".replace(" -v", ""),
                   f"rping -c -a {address} {options}", tcp=False, ready="rdma_listen",
                   quick=quick, want=pings(count))
    yield Case("rping -q", "rping -s -d -q -a {server} -V -C 500",
               "rping -c -q -a {server} -v -V -C 500", tcp=False, ready="rdma_listen",
               want=pings(500))


def perftest_cases():
    """kind, then: options of the quick set, options of the full set; each by socket and by -R."""
    table = (
        ("ib_send_bw", SIZES_ALL, ["-a -n 20", "-s 65536 -n 1000 -e -q 8"],
         ["-a -n 50 -q 8", "-s 1 -n 1000", "-s 65536 -n 1000 -e", "-s 65536 -n 500 -b",
          "-s 4096 -n 1000 -Q 1", "-s 4096 -n 1000 -l 8", "-s 512 -n 1000 -I 64",
          "-s 4096 -n 1000 -r 1 -t 1", "-s 4096 -D 2"]),
        ("ib_send_lat", SIZES_ALL, ["-a -n 10", "-s 8 -n 500 -e"],
         ["-a -n 200", "-s 1 -n 1000", "-s 8 -n 1000 -I 0", "-s 65536 -n 300 -e"]),
        ("ib_write_bw", SIZES_ALL, ["-a -n 20"],
         ["-a -n 50 -q 8", "-s 1 -n 1000", "-s 65536 -n 500 -b", "-s 65536 -n 500 -q 8",
          "-s 4096 -n 1000 -l 8", "-s 4096 -D 2", "-s 64 -n 2000 -I 64"]),
        ("ib_write_lat", SIZES_ALL, ["-a -n 10"], ["-a -n 200", "-s 1 -n 1000"]),
        ("ib_read_bw", SIZES_ALL, ["-a -n 20"],
         ["-a -n 50 -q 8", "-s 1 -n 1000", "-s 65536 -n 500 -e", "-s 65536 -n 500 -b",
          "-s 65536 -n 500 -o 1", "-s 4096 -D 2"]),
        ("ib_read_lat", SIZES_ALL, ["-a -n 10"],
         ["-a -n 200", "-s 1 -n 1000", "-s 4096 -n 500 -e"]),
        ("ib_atomic_bw", [8], ["-n 1000"],
         ["-n 1000 -q 8", "-n 1000 -A CMP_AND_SWAP", "-n 1000 -e", "-n 500 -b"]),
        ("ib_atomic_lat", [8], ["-n 500"],
         ["-n 500 -A CMP_AND_SWAP", "-n 500 -e"]),
    )
    for program, sizes, quick_options, full_options in table:
        for options in quick_options + full_options:
            for manager in ("", "-R"):
                size = re.search(r"-s (\d+)", options)
                expected = [int(size[1])] if size else sizes
                line = f"{program} -F -d {{dev}} -x {{gid}} {options} {manager}".strip()
                yield Case(
                    f"{program} {options} {manager}".strip(), line, line + " {server}",
                    tcp=not manager, ready="Waiting for client to connect",
                    timeout=120 if "-a" in options else 60,
                    quick=options in quick_options, want=rows(expected))


def unreliable_cases():
    for service, extra in (("uc", ""), ("ud", "-s 1024")):
        line = f"ibv_{service}_pingpong -d {{dev}} -g {{gid}} -c {extra}"
        for quick, options in ((True, "-n 500"), (True, "-e -n 300"), (False, "-r 10 -n 2000")):
            name = f"{service}_pingpong {options}"
            yield Case(name, f"{line} {options}", f"{line} {options} {{server}}", quick=quick,
                       want=pingpong(int(options.split()[-1])))
    for quick, program, options in (
            (True, "ib_send_lat", "-c UD -s 8 -n 500"),
            (False, "ib_send_lat", "-c UD -s 1024 -n 500 -e"),
            (True, "ib_send_bw", "-c UD -s 1024 -n 300"),
            (True, "ib_send_lat", "-c UC -s 65536 -n 300"),
            (True, "ib_send_bw", "-c UC -s 4096 -n 300"),
            (True, "ib_write_bw", "-c UC -s 65536 -n 500"),
            (False, "ib_send_bw", "-c UC -s 65536 -n 1000"),
            (False, "ib_send_bw", "-c UD -s 1024 -n 10000"),
            (False, "ib_write_lat", "-c UC -s 8 -n 500"),
            (False, "ib_write_bw", "-c UC -s 65536 -n 500 -q 4")):
        line = f"{program} -F -d {{dev}} -x {{gid}} {options}"
        yield Case(f"{program} {options}", line, line + " {server}", quick=quick, timeout=90,
                   want=rows([int(re.search(r"-s (\d+)", options)[1])]))


def srq_cases():
    line = "ibv_srq_pingpong -d {dev} -g {gid} -c"
    for quick, options, iters in ((True, "-n 500", 500), (True, "-q 4 -n 300 -e", 300),
                                  (False, "-q 16 -n 2000 -s 65536", 2000)):
        yield Case(f"srq_pingpong {options}", f"{line} {options}", f"{line} {options} {{server}}",
                   quick=quick, want=pingpong(iters))
    line = "ib_send_bw -F -d {dev} -x {gid} --use-srq"
    for quick, options in ((True, "-s 65536 -n 500 -q 4"), (False, "-s 64 -n 1000"),
                           (False, "-s 65536 -n 500 -q 2 -R")):
        yield Case(f"ib_send_bw --use-srq {options}", f"{line} {options}",
                   f"{line} {options} {{server}}", tcp="-R" not in options,
                   ready="Waiting for client to connect", quick=quick,
                   want=rows([int(re.search(r"-s (\d+)", options)[1])]))


def succeeded(client, server):
    for who, out in (("client", client), ("server", server)):
        if not re.search(r"^success$", out, re.M):
            return f"{who} does not report success"
    return None


def xrc_cases():
    line = "ibv_xsrq_pingpong -d {dev} -g {gid}"
    for quick, options in ((True, "-n 500"), (False, "-s 65536 -n 500 -e"), (False, "-m 256")):
        yield Case(f"xsrq_pingpong {options}", f"{line} {options}", f"{line} {options} {{server}}",
                   quick=quick, want=succeeded)
    for quick, program, options in (
            (True, "ib_send_bw", "-s 65536 -n 500 -q 4"),
            (True, "ib_send_lat", "-s 8 -n 500"),
            (True, "ib_write_bw", "-s 65536 -n 500"),
            (False, "ib_send_bw", "-s 65536 -n 500 -b"),
            (False, "ib_send_bw", "-s 65536 -n 500 -q 4 --use-srq"),
            (False, "ib_send_lat", "-s 65536 -n 300 -e"),
            (False, "ib_write_lat", "-s 8 -n 500"),
            (True, "ib_read_bw", "-s 65536 -n 500"),
            (False, "ib_read_lat", "-s 8 -n 500"),
            (False, "ib_atomic_bw", "-s 8 -n 500"),
            (False, "ib_atomic_lat", "-s 8 -n 500")):
        given = options.replace("-s 8 ", "") if "atomic" in program else options
        line = f"{program} -F -d {{dev}} -x {{gid}} -c XRC {given}"
        yield Case(f"{program} -c XRC {options}", line, line + " {server}", quick=quick,
                   want=rows([int(re.search(r"-s (\d+)", options)[1])]))


def ended_well(client, server):
    """udaddy and mckey say how it went beside their exit status."""
    for who, out in (("client", client), ("server", server)):
        if "return status 0" not in out:
            return f"{who} does not report success"
    return None


def udaddy_cases():
    for quick, name, address, options in (
            (True, "IPv4", "{server}", "-c 3 -C 100"),
            (True, "IPv6", "{server6}", "-c 3 -f ipv6"),
            (False, "defaults", "{server}", ""),
            (False, "-S", "{server}", "-S 1024 -C 1000"),
            (False, "-t", "{server}", "-c 10 -t 32")):
        yield Case(f"udaddy {name}", f"udaddy -b {address} {options}",
                   f"udaddy -s {address} {options}", tcp=False, ready="starting server",
                   quick=quick, want=ended_well)


def ends_with_0(client, server):
    for who, out in (("client", client), ("server", server)):
        if not re.search(r"^rdma_x\w+: end 0$", out, re.M):
            return f"{who} does not end with 0"
    return None


def xsrv_cases():
    for kind in ("r", "x"):
        yield Case(f"rdma_xserver -c {kind}", f"rdma_xserver -c {kind}",
                   f"rdma_xclient -c {kind} -s {{server}}", tcp=False, ready="rdma_xserver: start",
                   quick=True, want=ends_with_0)


def cases():
    yield from pingpong_cases()
    yield from srq_cases()
    yield from xrc_cases()
    yield from unreliable_cases()
    yield from rping_cases()
    yield from udaddy_cases()
    yield from xsrv_cases()
    yield from perftest_cases()


class Bench:
    """The two hosts, what their devices are called, and how to run a pair of programs."""

    def __init__(self, build, hosts):
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.server, self.client = lab.lab(hosts)
        self.fields = [self._fields(h, hosts) for h in (self.server, self.client)]
        for f in self.fields:
            f.update(server=self.server.address, server6=self.server.address6)

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
        return {"dev": dev, "gid": found[0], "gid6": found[1]}

    def argv(self, line, side):
        words = shlex.split(line.format(**self.fields[side]))
        return [self.weft, "run", "--", "stdbuf", "-oL", *words]

    def pair(self, case, path):
        """Runs one case; returns what is wrong, or None."""
        server = lab.Program(self.server, self.argv(case.server, 0), f"{path}/server.log")
        client = None
        try:
            if case.tcp:
                ready = lambda: self.server.listens_on_tcp(PORT)
            else:
                ready = lambda: server.says(case.ready)
            if not lab.until(lambda: ready() or server.status() is not None, 10) \
                    or server.status() is not None:
                return f"the server does not come up (status {server.status()})"
            if not case.tcp:
                lab.until(lambda: False, 0.2)  # the line is printed just before rdma_listen()
            client = lab.Program(self.client, self.argv(case.client, 1), f"{path}/client.log")
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
    p.add_argument("--list", action="store_true")
    args = p.parse_args()
    mtu_max = 4096 if args.where == "one" else 1024
    chosen = [c for c in cases() if (args.full or c.quick) and c.mtu <= mtu_max and
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
