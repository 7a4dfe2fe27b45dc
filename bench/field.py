# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Programs on verbs, and what raw UDP and TCP do beside them: each gives figures by name."""
import re

import bed as beds
from bed import TO, Failed

PERFTEST_PORT, UCX_PORT, QPERF_PORT = 18515, 13400, 19765
MTU = 4096
# What RoCEv2 has around the data of a packet: BTH and ICRC; RETH besides in the only packet of a WRITE.
AROUND, AROUND_WRITE = 12 + 4, 12 + 16 + 4
QUANTILES = ("0", "1", "5", "10", "25", "50", "75", "90", "95", "99", "99.5", "99.9", "99.99", "100")


# ---- perftest ------------------------------------------------------------------------------------

def quantiles(samples):
    """As bench/pingpong.c has them."""
    samples, n = sorted(samples), len(samples)
    return {q: samples[min(int(n * float(q) / 100), n - 1)] for q in QUANTILES}


def parse_latency(said):
    """min, max, typical, average, deviation, 99 %, 99.9 %; with -H, each latency before them."""
    rows = [l.split() for l in said.splitlines() if re.match(r"\s*\d+\s+\d+\s+[\d.]", l)]
    if not rows or len(rows[-1]) < 9:
        raise Failed(f"no latencies in: {said[-300:]}")
    p50, p999 = float(rows[-1][4]), float(rows[-1][8])
    each = [float(x) for x in re.findall(r"^\d+, ([\d.e+-]+)$", said, re.M)]
    return {"p50": p50, "p99.9": p999, "tail": p999 / p50,
            "quantiles": quantiles(each) if each else {}}


def parse_bandwidth(said):
    """peak, average, messages."""
    rows = [l.split() for l in said.splitlines() if re.match(r"\s*\d+\s+\d+\s+[\d.]", l)]
    if not rows or len(rows[-1]) < 5:
        raise Failed(f"no bandwidth in: {said[-300:]}")
    return {"MiB/s": float(rows[-1][3]), "M/s": float(rows[-1][4])}


def perftest(bed, program, *options):
    where = ("-R",) if bed.iwarp else ("-d", bed.device, "-x", bed.gid, "-m", str(MTU))
    argv = bed.verbs(program, *map(str, options), *where, "-F")
    for _ in range(5):
        try:
            with bed.serving(PERFTEST_PORT, *argv) as server:
                said = bed.ask(*argv, TO)
                server.wait(10)  # with what it has taken of the processors
            return said
        except Failed as e:
            # With -R its server listens anew between two connections, and its client does not survive it.
            if "RDMA_CM_EVENT_REJECTED" not in str(e):
                raise
    raise Failed(f"{program}: its server was late five times")


def latency(bed, program, *options):
    return parse_latency(perftest(bed, program, *options, "-H"))


def bandwidth(bed, program, *options):
    return parse_bandwidth(perftest(bed, program, *options))


def cpu_of_each(bed, program, size, many, few):
    """Processor time of a message, both sides: of many without what they take to begin and end."""
    def taken(n):
        before = beds.cpu_seconds()
        perftest(bed, program, "-s", size, "-n", n, "-e")
        return beds.cpu_seconds() - before

    beginning = taken(few)
    ns = (taken(many) - beginning) * 1e9 / (many - few)
    return {"ns": ns, "ns/KiB": ns * 1024 / size}


# ---- raw UDP and TCP -----------------------------------------------------------------------------

def ping_pong(bed, by, how):
    """p50: half the round trip. ib_read_lat and ib_atomic_lat count all of it."""
    half = {q[1:]: us for q, us in beds.named_numbers(
        bed.ask(bed.own("pingpong"), by, how, 8, 10000)).items()}
    return {"p50": half["50"], "round trip": 2 * half["50"], "p99.9": half["99.9"],
            "tail": half["99.9"] / half["50"], "quantiles": half}


def stream(bed, how, payload, around, at_once):
    """Packets that carry so much each, with what RoCEv2 has around it."""
    said = beds.named_numbers(
        bed.ask(bed.own("udp_stream"), how, 1, payload + around, at_once))
    ns = said["cpu_s"] * 1e9 / said["packets"]
    return {"MiB/s": said["packets_per_s"] * payload / (1 << 20), "M/s": said["packets_per_s"] / 1e6,
            "ns": ns, "ns/KiB": ns * 1024 / payload}


def tcp_stream(bed, how, block):
    said = beds.named_numbers(bed.ask(bed.own("tcp_stream"), how, 1, block))
    return {"MiB/s": said["bytes_per_s"] / (1 << 20), "ns/KiB": said["cpu_s"] * 1e9 * 1024 / said["bytes"]}


def neighbours(bed, *what):
    """Two processes and the memory between them."""
    return beds.named_numbers(bed.ask(bed.own("neighbours"), *what))


# ---- UCX -----------------------------------------------------------------------------------------

def parse_ucx(said):
    """Iterations; latency or overhead: median, average, overall; MiB/s: average, overall; messages alike."""
    rows = [l.split() for l in said.splitlines() if re.fullmatch(r"\s*\d+(\s+[\d.]+){7}\s*", l)]
    if not rows:
        raise Failed(f"no figures in: {said[-300:]}")
    return {"p50": float(rows[-1][1]), "MiB/s": float(rows[-1][5])}


def ucx(bed, transport, test, size, count, *options):
    """transport: as UCX_TLS has it; none but tcp is on weft."""
    by_tcp = transport == "tcp"
    env = {"UCX_TLS": transport, "UCX_NET_DEVICES": "lo" if by_tcp else f"{bed.device}:1"}
    argv = ["ucx_perftest", "-p", str(UCX_PORT)]
    argv = argv if by_tcp else bed.verbs(*argv)
    with bed.serving(UCX_PORT, *argv, env=env):
        return parse_ucx(bed.ask(*argv, TO, "-t", test, "-s", size, "-n", count, "-w",
                                 max(count // 20, 10), "-f", *options, env=env))


# ---- others --------------------------------------------------------------------------------------

def parse_qperf(said):
    m = re.search(r"latency\s+=\s+([\d.]+) (ns|us|ms)", said)
    if not m:
        raise Failed(f"no latency in: {said[-300:]}")
    return {"us": float(m[1]) * {"ns": 1e-3, "us": 1, "ms": 1e3}[m[2]]}


def qperf(bed, test):
    """rc_ tests on weft, connected by RDMA-CM: RoCE has no LIDs, which it takes else."""
    run, options = (bed.verbs, ["-cm1"]) if test.startswith("rc_") else (lambda *argv: argv, [])
    with bed.serving(QPERF_PORT, *run("qperf")):
        return parse_qperf(bed.ask(*run("qperf"), "-t", 1, *options, TO, test, seconds=20))


CONNECTING = ("create id", "resolve addr", "resolve route", "create qp", "connect")


def parse_cmtime(said, connections):
    """Of each step, what it took for all connections: ms."""
    steps = {m[1]: float(m[2]) for m in re.finditer(r"^(\w+(?: \w+)?)\s*:\s*([\d.]+)", said, re.M)}
    missing = set(CONNECTING) - set(steps)
    if missing:
        raise Failed(f"no times of {', '.join(sorted(missing))} in: {said[-300:]}")
    return {"/s": connections / (sum(steps[s] for s in CONNECTING) / 1e3)}


def cmtime(bed, connections=1000):
    with bed.serving(None, *bed.verbs("cmtime", "-b", TO, "-c", str(connections))):
        return parse_cmtime(bed.ask(*bed.verbs("cmtime", "-s", TO, "-c", connections)), connections)


def qp_memory(bed):
    said = bed.ask(*bed.verbs(bed.own("qp_memory"), bed.device, bed.gid))
    return {"KiB": float(said) / 1024}
