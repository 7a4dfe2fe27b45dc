# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Unmodified verbs programs, one side on weft, the other on the kernel's rxe."""
import re
import subprocess

from cases import PASSIVE, case
from lab import Failed, last_line, until
from sides import finish


@case("rping -C 20 -S 3000, data verified", short=True, lossy=True)
def rping(t):
    where = t.passive.address[t.family]
    server = t.passive.listen(f"rping -s -a {where} -C 20 -V -v -S 3000", 60, cm=7174)
    client = t.active.run(f"rping -c -a {where} -C 20 -V -v -S 3000", 60)
    finish(server, client, 20, server_may_fail=True)  # its status says nothing
    for side, text in (("client", client.stdout), ("server", server.output)):
        if text.count("ping data: ") != 20:
            raise Failed(f"{side} saw {text.count('ping data: ')} of 20 pings")


@case("rping, refused for its path MTU (reason 26)", (PASSIVE,), refused=True)
def refused_path_mtu(t):
    where = t.passive.address[t.family]
    server = t.passive.listen(f"rping -s -a {where} -C 1", 60, cm=7174)
    client = t.active.run(f"rping -c -a {where} -C 1 -S 3000 -d", 20)
    server.stop()
    said = client.stdout + client.stderr
    if not re.search(r"RDMA_CM_EVENT_REJECTED, error 26\b", said):
        raise Failed(f"client: {said.splitlines()[-1:]}")


# ---- ibverbs-utils: they find each other by TCP --------------------------------------------------

def pingpong(t, program, options, says):
    """One pair; options are the same on both sides."""
    def command(side):
        return f"{program} -d {side.device} -g {side.gid_index(t.family)} {options}"

    server = t.passive.listen(command(t.passive), 60, tcp=18515)
    client = t.active.run(f"{command(t.active)} {t.passive.address[4]}", 50)
    finish(server, client, 20)
    if not re.search(says, client.stdout) or not re.search(says, server.output):
        raise Failed(f"no '{says}' in what it printed")


@case("ibv_rc_pingpong -n 200, 1 B to 64 KiB, with -e, -t, data checked", lossy=True)
def rc_pingpong(t):
    for options, n in (("-n 200 -c", 200), ("-s 1 -n 200 -c", 200), ("-s 65536 -n 50 -c", 50),
                       ("-s 1025 -n 100 -e", 100), ("-n 100 -r 10", 100)):
        pingpong(t, "ibv_rc_pingpong", options, rf"{n} iters in")


@case("ibv_rc_pingpong -m, each path MTU")
def path_mtu(t):
    fits = 4096 if min(t.condition.weft_mtu, t.condition.guest_mtu) >= 4200 else 1024
    for mtu in (256, 512, 1024, 2048, 4096):
        if mtu <= fits:
            pingpong(t, "ibv_rc_pingpong", f"-m {mtu} -s 10000 -n 50 -c", "50 iters in")
    return f"256 to {fits}"


@case("ibv_uc_pingpong")
def uc_pingpong(t):
    for options, n in (("-n 200", 200), ("-s 1 -n 200", 200), ("-s 20000 -n 50 -e", 50)):
        pingpong(t, "ibv_uc_pingpong", options, rf"{n} iters in")


@case("ibv_ud_pingpong")
def ud_pingpong(t):
    for options, n in (("-n 200 -s 1000", 200), ("-s 1 -n 200", 200), ("-s 777 -n 50 -e", 50)):
        pingpong(t, "ibv_ud_pingpong", options, rf"{n} iters in")


@case("ibv_srq_pingpong -q 4")
def srq_pingpong(t):
    pingpong(t, "ibv_srq_pingpong", "-q 4 -n 200", "200 iters in")


MARK = """
table ip marks {
	chain before { type filter hook input priority mangle; udp dport 4791 ip ecn set ce; }
}
"""


def notifications(t):
    """The CNPs of the case so far."""
    seen = subprocess.run(["tshark", "-r", t.file("wire.pcap"), "-Y", "infiniband.bth.opcode == 129"],
                          capture_output=True, text=True, check=False)
    return len(seen.stdout.splitlines())


@case("what the kernel sends comes marked (ECN), and it is told so", both=True)
def marked(t):
    with open(t.file("marks"), "w", encoding="ascii") as f:
        f.write(MARK)
    t.lab.run_ok("nft", "-f", t.file("marks"))
    try:
        pingpong(t, "ibv_rc_pingpong", "-s 20000 -n 200 -c", "200 iters in")
        pingpong(t, "ibv_uc_pingpong", "-n 200", "200 iters in")
    finally:
        t.lab.run_ok("nft", "delete", "table", "ip", "marks")
    if not t.lab.tshark:
        return ""
    until(lambda: notifications(t), 10, "a notification in the capture")
    return f"{notifications(t)} notifications"


# ---- rdmacm-utils --------------------------------------------------------------------------------

def cm_pair(t, program, options, port, seconds=60):
    where = t.passive.address[t.family]
    if t.family == 6:
        options += " -f ipv6"
    server = t.passive.listen(f"{program} {options} -b {where}", seconds, cm=port)
    client = t.active.run(f"{program} {options} -s {where}", seconds)
    finish(server, client, 20)
    return client.stdout, server.output


def return_status_0(outs, also=""):
    for who, out in zip(("client", "server"), outs):
        if also not in out or "return status 0" not in out:
            raise Failed(f"{who}: {last_line(out)}")


@case("ucmatose, 3 connections, 20 messages each way", lossy=True, cm=True)
def ucmatose(t):
    return_status_0(cm_pair(t, "ucmatose", "-c 3 -C 20 -S 2000", 7471), "data transfers complete")


@case("udaddy, 2 connections, 10 messages each way", cm=True)
def udaddy(t):
    return_status_0(cm_pair(t, "udaddy", "-c 2 -C 10 -S 500", 7174), "data transfers complete")


@case("cmtime, 20 connections", lossy=True, cm=True)
def cmtime(t):
    where = t.passive.address[t.family]
    server = t.passive.listen(f"cmtime -b {where} -c 20", 60, cm=7471)
    client = t.active.run(f"cmtime -s {where} -c 20", 50)
    if client.returncode or "connect" not in client.stdout:
        raise Failed(f"client: {last_line(client.stderr or client.stdout)}")
    server.stop()


# mckey leaves the group and destroys all as soon as its sends are posted. Linux 6.12 sends later, and
# finds the address handle gone; so what mckey writes to the kernel then is made to wait.
LINGER = "strace -f -qq -o /dev/null -e trace=write -e inject=write:delay_enter=50000 "


# Who sends is the active side. Linux joins no group of IPv6 over RoCEv2.
@case("mckey, 50 messages to a multicast group", cm=True, four=True)
def mckey(t):
    def command(side):
        return f"mckey -m 239.1.2.3 -b {side.address[4]} -C 50 -S 1000"

    receiver = t.passive.listen(command(t.passive), 40, says="joined dgid")
    sender = t.active.run(LINGER + command(t.active) + " -s", 40)
    finish(receiver, sender, 20)
    return_status_0((sender.stdout, receiver.output))


# ---- rsockets: each side's own librdmacm on its own RNIC -----------------------------------------

def rsocket_pair(t, program, options):
    where = t.passive.address[t.family]
    if t.family == 6:
        options += " -f ipv6"
    # Blocking: else it spins, and a server that waits looks like one that begins.
    options += " -T b"
    server = t.passive.listen(f"{program} -b {where} {options}", 60, cm=7471)
    client = t.active.run(f"{program} -s {where} {options}", 50)
    finish(server, client, 20)
    return transfers(client)


def transfers(client):
    """The last line of its table: how many, and how fast."""
    row = re.findall(r"^\S+ +\S+ +(\d+\S*) .*s +(\d+\.\d+) +(?:\d+\.\d+|inf)", client.stdout, re.M)
    if not row:
        raise Failed(f"no figures: {last_line(client.stdout)}")
    return f"{row[-1][0]} transfers, {row[-1][1]} Gb/s"


@case("rstream, data verified", cm=True, lossy=True)
def rstream(t):
    return ", ".join(rsocket_pair(t, "rstream", f"-T v -S {size} -C {count}")
                     for size, count in ((64, 100), (5000 if t.condition.netem else 65536, 20)))


@case("riostream, data verified", cm=True)
def riostream(t):
    return rsocket_pair(t, "riostream", "-T v -S 4096 -C 50")


@case("rcopy of a file", cm=True, four=True)
def rcopy(t):
    source, copy = t.active.file(t, "source"), t.passive.file(t, "copy")
    t.active.shell(f"head -c 1000000 /dev/urandom >{source}")
    server = t.passive.listen("rcopy", 60, says="waiting for connection")
    client = t.active.run(f"rcopy {source} {t.passive.address[4]}:{copy}", 50)
    server.stop()
    if client.returncode:
        raise Failed(f"client: {last_line(client.stdout + client.stderr)}")
    if t.active.shell(f"sha256sum <{source}") != t.passive.shell(f"sha256sum <{copy}"):
        raise Failed("the copy differs")


# ---- perftest ------------------------------------------------------------------------------------

# perftest's server with -R closes its listener after the first connection and opens another. A
# client that is faster than an emulated guest finds none and dies of it, so its second look for the
# address, which is a connect() of a datagram socket, is made to last; where the guest took longer
# still, both begin again, and it lasts longer.
HELD_BACK_S = 0.3, 2, 6


def hold_back(seconds):
    return ("strace", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-e", "trace=connect",
            "-e", f"inject=connect:delay_exit={seconds * 1e6:.0f}:when=3+")


def refused_late(client):
    """The passive side's CM knows no listener: reason 8, or by iWARP what TCP says. Nothing has been measured yet."""
    return client.returncode and re.search(r"RDMA_CM_EVENT_REJECTED; error: (8|-111|-104)\b", client.stdout + client.stderr)


# An acknowledgement may be long in coming: perftest's own 67 ms, eight times, are less than a guest
# may have to wait for its processor on a busy machine. (With -R it is rdma_cm that has the say.)
PATIENCE = " -u 17"


def perftest(t, program, options):
    """The client's figure: µs for a latency, MB/s for a bandwidth."""
    cm = "-R" in options.split()
    if not t.condition.netem:
        options += PATIENCE

    def command(side):
        return f"{program} -F -d {side.device} -x {side.gid_index(t.family)} {options}"

    for seconds in HELD_BACK_S:
        server = t.passive.listen(command(t.passive), 90, **{"cm" if cm else "tcp": 18515})
        client = t.active.run(f"{command(t.active)} {t.passive.address[4]}", 80,
                              hold_back(seconds) if cm else ())
        if not cm or not refused_late(client):
            break
        server.stop()
    finish(server, client, 20)
    row = re.findall(r"^ *(\d+) +(\d+) +([\d.]+) +([\d.]+)(?: +([\d.]+))?", client.stdout, re.M)
    if not row:
        raise Failed(f"no figures: {client.stdout.splitlines()[-1]}")
    return float(row[-1][4] or row[-1][2]) if program.endswith("_lat") else float(row[-1][3])


def sweep(t, program, options=""):
    if "read" in program or "atomic" in program:
        options += " -o 16"  # else rxe's 128, which perftest asks of our device as well
    sizes = (1, 100), (5000, 50) if "-R" in options else (65536, 30), (1 << 20, 5)
    if program.startswith("ib_atomic"):
        sizes = ((8, 200),)
    elif not t.condition.plain:
        sizes = sizes[::2]
    unit = "µs" if program.endswith("_lat") else "MB/s"
    seen = []
    for size, n in sizes:
        size_option = "" if program.startswith("ib_atomic") else f"-s {size}"
        value = perftest(t, program, f"{size_option} -n {n} {options}")
        seen.append(f"{size} B {value:.0f} {unit}" if value >= 1 else f"{size} B {value:.2f} {unit}")
    return ", ".join(seen)


def perftest_cases():
    for verb in ("send", "write", "read", "atomic"):
        for kind in ("lat", "bw"):
            for connect in ("", "-R"):
                program = f"ib_{verb}_{kind}"
                case(f"{program} {connect}".strip(), sweep=True)(
                    lambda t, program=program, connect=connect: sweep(t, program, connect))


perftest_cases()


def some(t):
    """Messages: few where rxe goes back so often that 100 READs take it a minute (14 s from rxe)."""
    return 20 if t.condition.netem else 100


# A slow guest may be at the packets of the others for longer than perftest's half a second.
PATIENT = 16  # 2.1 s in eight tries


@case("ib_write_bw, 4 queue pairs both ways", lossy=True, repeats=0.25)
def many_qps(t):
    return f"{perftest(t, 'ib_write_bw', f'-q 4 -b -s 8192 -n {some(t)} -u {PATIENT}'):.0f} MB/s"


@case("ib_write_bw -R with 4 queue pairs")
def many_qps_by_cm(t):
    return f"{perftest(t, 'ib_write_bw', f'-R -q 4 -s 8192 -n {some(t)}'):.0f} MB/s"


@case("ib_read_bw -R with events")
def reads_with_events(t):
    # Not SENDs: when these are complete before the peer's credits have come, perftest sleeps for ever.
    return f"{perftest(t, 'ib_read_bw', f'-R -e -o 16 -s 4096 -n {some(t)}'):.0f} MB/s"


@case("ib_read_bw, 16 READs outstanding", lossy=True)
def deep_reads(t):
    return f"{perftest(t, 'ib_read_bw', f'-o 16 -s 20000 -n {some(t)}'):.0f} MB/s"


@case("ib_send_bw on UC and UD")
def send_uc_ud(t):
    return ", ".join(f"{c} {perftest(t, 'ib_send_bw', f'-c {c} -s 1000 -n 200'):.1f} MB/s"
                     for c in ("UC", "UD"))
