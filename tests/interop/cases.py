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
    quick: object = False     # in the quick set: True, or in one place of the two alone
    veth: bool = False        # only between two namespaces
    mtu: int = 0              # the path MTU it asks for; Ethernet's 1500 carries 1024
    repeat: int = 1           # times in a row: for what depends on who is faster
    options: str = ""         # as the table of programs shows them; "": what client has
    refused: object = None    # what it may say instead (a pattern), and why in plain words
    stop_s: int = 0           # it runs for ever: end it after so long
    stays: bool = False       # the server does not end with its client
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
    """perftest's table has a line for every size, with a figure in it that is not zero; but for one
    before which it says that it could not measure the processor's clock, as on a busy machine."""
    def want(client, _):
        got, clock = {}, True
        for line in client.splitlines():
            f = line.split()
            if line.startswith("Correlation coefficient"):
                clock = False
            elif len(f) >= 4 and f[0].isdigit() and f[1].isdigit():
                got[int(f[0])] = max(map(float, f[2:5])) if clock else True
                clock = True
        missing = [s for s in sizes if not got.get(s)]
        return f"no figures for sizes {missing[:5]}" if missing else None
    return want


# Nothing of weft's: the programs' own, or what RoCE has nowhere.
NO_STALE_EVENTS = (r"poll CQ failed 2", "the program takes an event whose completion it has "
                   "polled already for an error")
NO_IPOIB = (r"Invalid argument|error: -22",
            "datagrams of IPoIB are InfiniBand's; Linux refuses them on RoCE as well")


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
            (False, "-e -r 1 -s 100000 -n 300", 300),
            (False, "-i 1 -p 18600 -n 300", 300),
            (False, "-l 5 -n 300", 300),
            (False, "-o -n 300", 300),
            (False, "-o -P -n 300", 300),
            (False, "-o -O -n 300", 300),
            (False, "-t -n 300", 300),
            (False, "-j -n 300", 300),
            (False, "-N -n 300", 300),
            (False, "-N -j -n 300", 300),
            (False, "-t -e -n 300", 300)):
        line = f"{base} {options}"
        asked = re.search(r"-m (\d+)", options)
        yield Case(f"pingpong {options}", line, line + " {server}", quick=quick,
                   refused=NO_STALE_EVENTS if "-t -e" in options else None,
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
    yield Case("rping -P", "rping -s -d -P -a {server} -p 7300",
               "rping -c -d -a {server} -I {own} -p 7300 -v -V -C 500", tcp=False,
               ready="rdma_listen", stays=True, want=pings(500))


def unreliable_cases():
    for service, extra in (("uc", ""), ("ud", "-s 1024")):
        line = f"ibv_{service}_pingpong -d {{dev}} -g {{gid}} -c {extra}"
        sizes = [(False, "-m 256 -s 65536 -n 300")] if service == "uc" else []
        for quick, options in ((True, "-n 500"), (True, "-e -n 300"), (False, "-r 10 -n 2000"),
                               (False, "-i 1 -p 18600 -n 300"), (False, "-l 5 -n 300"),
                               (False, "-s 1 -n 300"), *sizes):
            name = f"{service}_pingpong {options}"
            yield Case(name, f"{line} {options}", f"{line} {options} {{server}}", quick=quick,
                       want=pingpong(int(options.split()[-1])))


def srq_cases():
    line = "ibv_srq_pingpong -d {dev} -g {gid} -c"
    for quick, options, iters in ((True, "-n 500", 500), (True, "-q 4 -n 300 -e", 300),
                                  (False, "-q 16 -n 2000 -s 65536", 2000),
                                  (False, "-i 1 -p 18600 -n 300", 300),
                                  (False, "-o -m 256 -l 5 -n 300", 300),
                                  (False, "-r 50 -n 300", 300)):
        yield Case(f"srq_pingpong {options}", f"{line} {options}", f"{line} {options} {{server}}",
                   quick=quick, want=pingpong(iters))


def succeeded(client, server):
    for who, out in (("client", client), ("server", server)):
        if not re.search(r"^success$", out, re.M):
            return f"{who} does not report success"
    return None


def xrc_cases():
    line = "ibv_xsrq_pingpong -d {dev} -g {gid}"
    for quick, options in ((True, "-n 500"), (False, "-s 65536 -n 500 -e"), (False, "-m 256"),
                           (False, "-i 1 -p 18600 -l 5"), (False, "-o"), (False, "")):
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
            (False, "-t", "{server}", "-c 10 -t 32"),
            (False, "-P", "{server}", "-P ipoib"),
            (False, "-p", "{server}", "-p 0x2")):
        yield Case(f"udaddy {name}", f"udaddy -b {address} {options}",
                   f"udaddy -s {address} {options}", tcp=False, ready="starting server",
                   refused=NO_IPOIB if name in ("-P", "-p") else None, quick=quick,
                   want=ended_well)


def ucmatose_cases():
    for quick, address, options in (
            (True, "{server}", "-c 5 -C 100"),
            (True, "{server6}", "-f ipv6"),
            (False, "{server}", ""),
            (False, "{server}", "-f ip"),
            (False, "{server}", "-P ib -c 3"),
            (False, "{server}", "-P tcp -S 4096 -C 500"),
            (False, "{server}", "-t 32 -a 16"),
            (False, "{server}", "-p 7300"),
            (False, "{server}", "-m -c 3")):
        yield Case(f"ucmatose {options or 'defaults'}{' IPv6' if '6' in address else ''}",
                   f"ucmatose -b {address} {options}", f"ucmatose -s {address} {options}",
                   tcp=False, ready="starting server", quick=quick, want=ended_well,
                   repeat=5 if "-m" in options else 1)


def steps_done(client, _):
    """cmtime prints how long each step took, from the making of the ids to their end."""
    steps = [l.split(":")[0].strip() for l in client.splitlines() if ":" in l]
    missing = {"create id", "resolve addr", "connect", "disconnect", "destroy"} - set(steps)
    return f"no times of {', '.join(sorted(missing))}" if missing else None


def cmtime_cases():
    for quick, options in ((True, "-c 20"), (False, ""), (False, "-c 200 -p 7300"),
                           (False, "-c 20 -r 5 -t 1000")):
        yield Case(f"cmtime {options or 'defaults'}", f"cmtime -b {{server}} {options}",
                   f"cmtime -s {{server}} {options}", tcp=False, stays=True, quick=quick,
                   want=steps_done)


def rdma_server_cases():
    for quick, options in ((True, ""), (False, "-p 7300")):
        yield Case(f"rdma_server {options or 'defaults'}", f"rdma_server {options}",
                   f"rdma_client -s {{server}} {options}", tcp=False, ready="rdma_server: start",
                   quick=quick, want=ends_with_0)
    yield Case("rdma_server -s", "rdma_server -s {server}", "rdma_client -s {server}", tcp=False,
               ready="rdma_server: start", want=ends_with_0)


def mckey_cases():
    """The receiver has joined when it says so. Loopback has no route to IPv6 groups."""
    no_ib = (r"failure joining: Invalid argument", "addresses of InfiniBand (AF_IB)")
    for quick, name, options, *refused in (
            (True, "IPv4", "-m 239.1.2.3 -b {own} -C 100 -S 1024"),
            (True, "IPv6", "-m ff15::77 -b {own6}"),
            (False, "IPv6 link-local", "-m ff12::77%eth0 -b {own6}"),
            (False, "-c", "-m 239.1.2.4 -b {own} -c 4 -C 10"),
            (False, "-o", "-m 239.1.2.6 -b {own} -o"),
            (False, "-p", "-m 239.1.2.5 -b {own} -p 0x2", NO_IPOIB),
            (False, "-l", "-m 239.1.2.7 -b {own} -l"),
            (False, "-M", "-M ff12:401b::1 -b {own}", no_ib)):
        # Who joins to send alone hears nothing.
        yield Case(f"mckey {name}", f"mckey {options}".removesuffix(" -o"), f"mckey -s {options}",
                   tcp=False, ready="joined dgid", refused=refused[0] if refused else None,
                   quick=quick, want=ended_well, veth="own6" in options)


def ends_with_0(client, server):
    for who, out in (("client", client), ("server", server)):
        if not re.search(r"^rdma_\w+: end 0$", out, re.M):
            return f"{who} does not end with 0"
    return None


def xsrv_cases():
    for options in ("-c r", "-c x", "-p 7300 -c x"):
        yield Case(f"rdma_xserver {options}", f"rdma_xserver {options}",
                   f"rdma_xclient -s {{server}} {options}", tcp=False, ready="rdma_xserver: start",
                   quick=True, want=ends_with_0)


def transferred(count):
    """rstream's and the like's table has a line of so many transfers, and a speed in it."""
    def want(client, server):
        for who, out in (("client", client), ("server", server)):
            if not re.search(rf"^\S+ +\S+ +{count} .*s +\d+\.\d+ +(\d+\.\d+|inf)", out, re.M):
                return f"{who} has no line of {count} transfers"
        return None
    return want


def rsocket_cases():
    for program, given in (
            ("rstream", ("-S 4096 -C 100", "-T v -S 65536 -C 100", "-T b -S 64 -C 100",
                         "-T n -S 4096 -C 100", "-T a -S 4096 -C 100", "-T r -S 64 -C 100",
                         "-T f -S 64 -C 100", "-f ip -S 64 -C 100", "-k 10 -S 64 -C 100",
                         "-B 65536 -i 16 -S 4096 -C 100", "-p 7300 -I 2 -S 64 -C 100")),
            ("riostream", ("-S 4096 -C 100", "-T v -S 65536 -C 100", "-T b -S 64 -C 100",
                           "-T n -S 4096 -C 100", "-T a -S 4096 -C 100", "-f ip -S 64 -C 100",
                           "-B 65536 -i 16 -S 4096 -C 100", "-p 7300 -I 2 -S 64 -C 100"))):
        for options in given:
            yield Case(f"{program} {options}", f"{program} -b {{server}} {options}",
                       f"{program} -s {{server}} {options}", tcp=False,
                       quick=options == "-T v -S 65536 -C 100", want=transferred(100))
        yield Case(f"{program} -f ipv6", f"{program} -b {{server6}} -f ipv6 -S 64 -C 100",
                   f"{program} -s {{server6}} -f ipv6 -S 64 -C 100", tcp=False,
                   want=transferred(100))
    # riostream -S all takes too long: it waits for memory to change and never leaves the processor.
    yield Case("rstream -S all", "rstream -b {server} -S all", "rstream -s {server} -S all",
               tcp=False, timeout=1200, want=transferred(r"\S+"))
    for options in ("-C 1000", "-T b -C 100", "-T n -C 100", "-T a -C 100", "-S 1024 -C 100",
                    "-B 65536 -C 100", "-T e -C 100", "-T e -S 1024 -C 100", "-p 7300 -C 100"):
        # Datagrams may be lost or be late; an echo (counted both ways) waits for each.
        line = transferred("200" if "-T e" in options else r"\S+")
        yield Case(f"udpong {options}", f"udpong -b {{server}} {options}",
                   f"udpong -s {{server}} {options}", tcp=False, stays=True,
                   want=lambda client, _, line=line: line(client, client))
    for options in ("", "-p 7300"):
        yield Case(f"rcopy {options or 'defaults'}", f"rcopy {options}",
                   f"rcopy {{file}} {{server}}:{{file}}.copy {options}", tcp=False, stays=True,
                   ready="waiting for connection")


def all_cases():
    yield from pingpong_cases()
    yield from srq_cases()
    yield from xrc_cases()
    yield from unreliable_cases()
    yield from rping_cases()
    yield from udaddy_cases()
    yield from mckey_cases()
    yield from ucmatose_cases()
    yield from cmtime_cases()
    yield from rdma_server_cases()
    yield from xsrv_cases()
    yield from rsocket_cases()
