# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The programs of ibverbs-utils and rdmacm-utils: how each is called, and what it must print.

perftest's are in perftest.py; programs.py runs them all.
"""
import dataclasses
import re


@dataclasses.dataclass
class Case:
    name: str
    server: str               # {dev}, {gid}, {gid6}, {own}, {own6}: of the server's own host
    client: str               # the same of the client's; {server}, {server6}: whom to talk to
    tcp: bool = True          # the server is ready when it listens on TCP; else see ready
    ready: str = ""           # text of the server's output by which it listens in rdma_cm
    timeout: int = 60
    quick: bool = False
    veth: bool = False        # only between two namespaces
    mtu: int = 0              # the path MTU it asks for; Ethernet's 1500 carries 1024
    repeat: int = 1           # times in a row: for what depends on who is faster
    options: str = ""         # as the table of programs shows them
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


def unreliable_cases():
    for service, extra in (("uc", ""), ("ud", "-s 1024")):
        line = f"ibv_{service}_pingpong -d {{dev}} -g {{gid}} -c {extra}"
        for quick, options in ((True, "-n 500"), (True, "-e -n 300"), (False, "-r 10 -n 2000")):
            name = f"{service}_pingpong {options}"
            yield Case(name, f"{line} {options}", f"{line} {options} {{server}}", quick=quick,
                       want=pingpong(int(options.split()[-1])))


def srq_cases():
    line = "ibv_srq_pingpong -d {dev} -g {gid} -c"
    for quick, options, iters in ((True, "-n 500", 500), (True, "-q 4 -n 300 -e", 300),
                                  (False, "-q 16 -n 2000 -s 65536", 2000)):
        yield Case(f"srq_pingpong {options}", f"{line} {options}", f"{line} {options} {{server}}",
                   quick=quick, want=pingpong(iters))


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


def mckey_cases():
    """The receiver has joined when it says so. Loopback has no route to IPv6 groups."""
    for quick, name, options in (
            (True, "IPv4", "-m 239.1.2.3 -b {own} -C 100 -S 1024"),
            (True, "IPv6", "-m ff15::77 -b {own6}"),
            (False, "IPv6 link-local", "-m ff12::77%eth0 -b {own6}"),
            (False, "-l", "-m 239.1.2.5 -b {own} -l"),
            (False, "-c", "-m 239.1.2.4 -b {own} -c 4 -C 10")):
        yield Case(f"mckey {name}", f"mckey {options}", f"mckey -s {options}", tcp=False,
                   ready="joined dgid", quick=quick, want=ended_well, veth="own6" in options)


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


def all_cases():
    yield from pingpong_cases()
    yield from srq_cases()
    yield from xrc_cases()
    yield from unreliable_cases()
    yield from rping_cases()
    yield from udaddy_cases()
    yield from mckey_cases()
    yield from xsrv_cases()
