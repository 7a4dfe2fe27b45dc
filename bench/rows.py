# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What is measured: the rows of the table, beside whom, and what is asked of them."""
import disks
import field
import place as places
import tcp
from table import Group, Row, Run, Side, at_least, at_most

PERFTEST = ("ib_send_lat", "ib_write_bw")
SIZES = {"8 B": 8, "4 KiB": 4096, "64 KiB": 65536, "4 MiB": 4 << 20}


def groups(bed):
    raw, spdk = Raw(bed), disks.Spdk(bed)
    return [latency(bed, raw), bandwidth(bed, raw), messages(bed, raw), one_sided(bed), ud(bed), nvme(bed, spdk),
            nvme_tcp(bed, spdk), asleep(bed), sockets(bed), connections(bed), cpu(bed, raw),
            one_host(bed, spdk), iwarp(bed, raw), congestion(bed)]


class Raw:
    """Raw UDP and TCP, polling and asleep: what no transport on them passes. 4 KiB packets go 15 at once,
    small ones 60."""

    def __init__(self, bed):
        self.bed = bed

    def ping_pong(self, how, by="udp"):
        return Run(f"pingpong {by} {how} 8", lambda: field.ping_pong(self.bed, by, how))

    def stream(self, how, payload=field.MTU, around=field.AROUND):
        at_once = max(1, min(60, 62000 // (payload + around)))
        return Run(f"udp_stream {how} 1 {payload + around} {at_once}",
                   lambda: field.stream(self.bed, how, payload, around, at_once))

    def tcp_stream(self, how):
        return Run(f"tcp_stream {how} 1 65536", lambda: field.tcp_stream(self.bed, how, 65536))


def perftest(bed, program, *options):
    take = field.latency if program.endswith("_lat") else field.bandwidth
    return Run(" ".join(map(str, (program, *options))), lambda: take(bed, program, *options), (program,))


def latencies(bed):
    """The runs of 8 bytes, by what the page calls them."""
    return {"send, polling": perftest(bed, "ib_send_lat", "-s", 8, "-n", 10000),
            "send, events": perftest(bed, "ib_send_lat", "-s", 8, "-n", 10000, "-e"),
            "write": perftest(bed, "ib_write_lat", "-s", 8, "-n", 10000),
            "read": perftest(bed, "ib_read_lat", "-s", 8, "-n", 10000),
            "atomic": perftest(bed, "ib_atomic_lat", "-n", 10000)}


def latency(bed, raw):
    ours, awake, asleep_ = latencies(bed), raw.ping_pong("poll"), raw.ping_pong("sleep")

    def row(what, limit, figure="p50"):
        return Row(f"{what}, 8 B", "us", Side(ours[what], "p50"), None, Side(limit, figure), at_most(1.3))

    return Group("latency", "half the round trip, of read and atomic all of it; limit: raw UDP, to and fro, "
                 "polling for the first, asleep for the others", [
        row("send, polling", awake),
        row("send, events", asleep_),
        row("write", asleep_),
        row("read", asleep_, "round trip"),
        row("atomic", asleep_, "round trip"),
        *(Row(f"jitter of {what}", "p99.9/p50", Side(ours[what], "tail"), None, Side(limit, "tail"),
              at_most(1.5)) for what, limit in (("send, polling", awake), ("send, events", asleep_)))])


def bandwidth(bed, raw):
    limit = Side(raw.stream("poll"), "MiB/s")
    rows = []
    for verb in ("write", "read", "send"):
        for name, size, n in (("64 KiB", 65536, 10000), ("1 MiB", 1 << 20, 800)):
            run = perftest(bed, f"ib_{verb}_bw", "-s", size, "-n", n)
            rows.append(Row(f"{verb} {name}", "MiB/s", Side(run, "MiB/s"), None, limit, at_least(0.85)))
    return Group("bandwidth", "limit: raw UDP, a GSO/GRO stream at the same MTU", rows)


def messages(bed, raw):
    limit = Side(raw.stream("poll", 64, field.AROUND_WRITE), "M/s")

    def row(qps, n, how, *options):
        run = perftest(bed, "ib_write_bw", "-s", 64, "-q", qps, "-n", n, *options)
        return Row(f"write 64 B, {qps} QP{'s' * (qps > 1)}, {how}", "M/s", Side(run, "M/s"), None, limit,
                   at_least(0.25))

    return Group("message rate", "limit: raw UDP, a GSO/GRO stream of the same packets, 60 a call", [
        row(1, 320000, "one by one"), row(1, 960000, "in lists", "-l", 32),
        row(8, 40000, "one by one"), row(8, 120000, "in lists", "-l", 32)])


def ucx(bed, transport, test, size, count, *options):
    name = " ".join(map(str, ("UCX_TLS=" + transport, "ucx_perftest", "-t", test, "-s", size, "-n", count,
                              *options)))
    return Run(name, lambda: field.ucx(bed, transport, test, size, count, *options), ("ucx_perftest",))


# What it is called, test, its options, figure, unit, and how often for each of SIZES: of TCP's, a get takes a millisecond
ONE_SIDED = (("put {}", "ucp_put_lat", (), "p50", "us", (20000, 10000, 3000, 60)),
             ("put {}", "ucp_put_bw", (), "MiB/s", "MiB/s", (100000, 50000, 5000, 60)),
             ("get {}", "ucp_get", (), "p50", "us", (500, 500, 500, 60)),
             ("get {}, 16 at a time", "ucp_get", ("-O", 16), "MiB/s", "MiB/s", (20000, 10000, 3000, 60)))


def one_sided(bed):
    rows = []
    for what, test, options, figure, unit, counts in ONE_SIDED:
        for (name, size), count in zip(SIZES.items(), counts):
            ours, peer = (Side(ucx(bed, how, test, size, count, *options), figure) for how in ("rc_v", "tcp"))
            target = at_most(1.0, "peer") if unit == "us" else at_least(1.0, "peer")
            rows.append(Row("UCX " + what.format(name), unit, ours, peer, None, target))
    return Group("one-sided", "ucx_perftest over rc_v; peer: over TCP", rows)


def ud(bed):
    rows = []
    for name, size, count in (("64 KiB", 65536, 4000), ("4 MiB", 4 << 20, 60)):
        ours, peer = (Side(ucx(bed, how, "tag_bw", size, count), "MiB/s") for how in ("ud_v", "tcp"))
        rows.append(Row(f"UCX tag_bw {name}", "MiB/s", ours, peer, None, at_least(1.0, "peer")))
    run = perftest(bed, "ib_send_bw", "-c", "UD", "-s", 2048, "-n", 20000)
    rows.append(Row("UD send 2 KiB", "MiB/s", Side(run, "MiB/s")))
    return Group("UD in bulk", "ucx_perftest over ud_v; peer: over TCP", rows)


def weft_nvme(bed, rw, size, depth, *options, by="rdma", figure="IOPS"):
    name = " ".join(("weft bench", by, rw, str(size), str(depth), *options))
    return Side(Run(name, lambda: disks.weft(bed, by, rw, size, depth, *options), ("taskset",)), figure)


def nvme_rows(spdk, sizes, ours, times):
    """Beside SPDK: what one gives in a second so many times as much."""
    rows = []
    for name, size, depths in sizes:
        for rw in ("randread", "randwrite"):
            for depth in depths:
                peer = Run(f"spdk_nvme_perf -w {rw} -o {size} -q {depth}",
                           lambda rw=rw, size=size, depth=depth: spdk.perf(rw, size, depth))
                rows.append(Row(f"{rw} {name} QD {depth}", "IOPS", ours(rw, size, depth),
                                Side(peer, "IOPS"), None, at_least(times, "peer")))
    return rows


NVME_SIZES = (("4 KiB", 4096, (1, 32, 128)), ("128 KiB", 131072, (16,)))


def nvme(bed, spdk):
    rows = nvme_rows(spdk, NVME_SIZES, lambda *what: weft_nvme(bed, *what, "--poll"), 1.0)
    return Group("NVMe", "weft serve and weft bench --poll, a processor each; peer: SPDK's target and host "
                 "over TCP", rows)


def nvme_tcp(bed, spdk):
    """SPDK's host and target in place of ours, too, one at a time."""
    def mixed(name, what):
        def ours(rw, size, depth):
            return Side(Run(f"{name} {rw} {size} {depth}", lambda: what(rw, size, depth), ("taskset",)), "IOPS")

        return [row._replace(what=f"{name}, {row.what}") for row in nvme_rows(spdk, NVME_SIZES, ours, 1.0)]

    def perf(depth, figure="IOPS"):
        return Side(Run(f"spdk_nvme_perf -w randread -o 4096 -q {depth}",
                        lambda: spdk.perf("randread", 4096, depth)), figure)

    rows = nvme_rows(spdk, NVME_SIZES, lambda *what: weft_nvme(bed, *what, "--poll", by="tcp"), 1.0)
    rows += mixed("SPDK's host", spdk.of_weft) + mixed("SPDK's target", spdk.to_weft)
    rows += [Row(f"processor time of a million reads of 4 KiB, QD {depth}", "s",
                 weft_nvme(bed, "randread", 4096, depth, by="tcp", figure="s/M"), perf(depth, "s/M"), None,
                 at_most(1.0, "peer")) for depth in (1, 32, 128)]
    return Group("NVMe/TCP", "weft serve and weft bench --poll, a processor each; one of them SPDK's; peer: both "
                 "SPDK's. Processor time: of both sides, without --poll", rows)


def asleep(bed):
    ours, peer = (Side(Run(f"qperf {test}", lambda test=test: field.qperf(bed, test), ("qperf",)), "us")
                  for test in ("rc_lat", "tcp_lat"))
    return Group("who sleeps", "peer: TCP", [
        Row("qperf rc_lat", "us", ours, peer, None, at_most(1.0, "peer")),
        Row("NVMe randread 4 KiB QD 1", "IOPS", weft_nvme(bed, "randread", 4096, 1))])


def sockets(bed):
    def row(what, unit, target, work, *needs):
        rdma, by_tcp = (Side(Run(f"{what} {name}", lambda how=how: work(how), needs), unit)
                        for name, how in (("--sockets", bed.sockets), ("TCP", lambda *argv: argv)))
        return Row(what, unit, rdma, by_tcp, None, target)

    target = at_least(0.8, "peer")
    return Group("sockets", "weft run --sockets; peer: TCP", [
        row("iperf3", "Mbit/s", target, lambda how: tcp.iperf3(bed, how), "iperf3"),
        *(row(f"redis -c {clients}", "/s", target,
              lambda how, c=clients, n=requests: tcp.redis(bed, how, c, n), "redis-benchmark", "bash")
          for clients, requests in ((1, 30000), (50, 100000))),
        *(row(f"connects {threads}", "/s", None, lambda how, t=threads: tcp.connects(bed, how, t, 1000))
          for threads in (1, 8))])


def connections(bed):
    def own(what, unit, target, name, work, *needs):
        return Row(what, unit, Side(Run(name, lambda: work(bed), needs), unit), None, None, target)

    return Group("connections", "targets for the figure itself", [
        own("cmtime", "/s", at_least(2000, None), "cmtime -c 1000", field.cmtime, "cmtime"),
        own("memory of a connected QP", "KiB", at_most(16, None), "qp_memory", field.qp_memory),
        own(f"idle target, {2 * disks.HOSTS_IDLE} connections", "%", at_most(1, None), "weft serve, idle",
            disks.idle)])


def cpu(bed, raw):
    def run(size, many, few):
        return Run(f"ib_send_bw -e -s {size} -n {many} less -n {few}",
                   lambda: field.cpu_of_each(bed, "ib_send_bw", size, many, few), ("ib_send_bw",))

    return Group("processor time", "both sides, user and system, nobody polls; limit: raw UDP, a GSO/GRO stream, "
                 "asleep while there is nothing to do", [
        Row("send 64 KiB, a KiB", "ns/KiB", Side(run(65536, 10000, 100), "ns/KiB"), None,
            Side(raw.stream("sleep"), "ns/KiB"), at_most(1.3)),
        Row("send 64 B, a message", "ns", Side(run(64, 200000, 1000), "ns"), None,
            Side(raw.stream("sleep", 64), "ns"), at_most(1.3))])


def by_memory(bed, side):
    run = side.run
    return Side(Run(f"{run.name}, by memory", lambda: bed.by_memory(run.work), run.needs), side.figure)


def one_host(bed, spdk):
    """The rows of other groups, past the wire."""
    flag = Side(Run("neighbours flag", lambda: field.neighbours(bed, "flag")), "p50")
    rows = [Row(f"{verb} 8 B, polling", "us", by_memory(bed, Side(perftest(bed, f"ib_{verb}_lat", "-s", 8, "-n", 50000),
                                                                  "p50")), None, flag, at_most(3))
            for verb in ("send", "write")]
    for name, size, n in (("64 KiB", 65536, 20000), ("1 MiB", 1 << 20, 2000)):
        limit = Side(Run(f"neighbours copy {size}", lambda size=size: field.neighbours(bed, "copy", size)), "MiB/s")
        rows += [Row(f"{verb} {name}", "MiB/s", by_memory(bed, Side(perftest(bed, f"ib_{verb}_bw", "-s", size, "-n", n),
                                                                    "MiB/s")), None, limit, at_least(0.9))
                 for verb in ("write", "read")]
    rows += nvme_rows(spdk, NVME_SIZES, lambda *what: by_memory(bed, weft_nvme(bed, *what, "--poll")), 2.0)
    rows += [row._replace(ours=by_memory(bed, row.ours), target=at_least(1.5, "peer"))
             for row in sockets(bed).rows if row.target]
    return Group("one host", "by memory; limits: a word in shared memory set to and fro, process_vm_writev() of as "
                 "much; peers: as above", rows)


def by_iwarp(bed, side):
    run = side.run
    return Side(Run(f"{run.name}, by iWARP", lambda: bed.by_iwarp(run.work), run.needs), side.figure)


def iwarp(bed, raw):
    def row(what, unit, side, limit, target):
        return Row(what, unit, by_iwarp(bed, side), side, limit, target)

    lat = latencies(bed)
    rows = [row(f"{what}, 8 B", "us", Side(lat[what], "p50"), Side(raw.ping_pong(how, "tcp"), figure), at_most(1.4))
            for what, how, figure in (("send, polling", "poll", "p50"), ("send, events", "sleep", "p50"),
                                      ("write", "sleep", "p50"), ("read", "sleep", "round trip"))]
    limit = Side(raw.tcp_stream("poll"), "MiB/s")
    for verb in ("write", "read", "send"):
        for name, size, n in (("64 KiB", 65536, 20000), ("1 MiB", 1 << 20, 1600)):
            run = perftest(bed, f"ib_{verb}_bw", "-s", size, "-n", n)
            rows.append(row(f"{verb} {name}", "MiB/s", Side(run, "MiB/s"), limit, at_least(0.8)))
    run = perftest(bed, "ib_write_bw", "-s", 64, "-n", 320000)
    rows.append(row("write 64 B", "M/s", Side(run, "M/s"), None, None))
    rows += [row(f"randread {name} QD {depth}", "IOPS", weft_nvme(bed, "randread", size, depth, "--poll"), None, None)
             for name, size, depths in NVME_SIZES for depth in depths]
    return Group("iWARP", "peer: RoCEv2 over UDP; limit: raw TCP", rows)


SECONDS = 4  # of a flow through the narrow place
SECONDS_SHARED = 8  # of several, which do not begin at once


def congestion(bed):
    """What TCP makes of the same way: its best in goodput where packets are lost, and in delay."""
    there = []

    def place():
        if not there:
            there.append(places.Place(bed.build))
            bed.ends.callback(there[0].close)
        return there[0]

    def seconds(flows):
        return SECONDS if flows == 1 else SECONDS_SHARED

    def weft(way, flows, figure, recovery="selective"):
        return Side(Run(f"ib_write_bw, {flows} through {way}, {recovery}",
                        lambda: place().by_weft(way, flows, seconds(flows), recovery=recovery), ("ib_write_bw", "ip")), figure)

    def tcp_(way, flows, figure, cc):
        return Side(Run(f"iperf3 -C {cc}, {flows} through {way}", lambda: place().by_tcp(way, flows, seconds(flows), cc), ("iperf3", "ip")),
                    figure)

    lossy = [places.Way(rate, rtt, 1) for rate, rtt in ((10, 20), (100, 1), (100, 20), (1000, 1))]
    rows = [Row(f"{w.rate} Mbit/s, {w.rtt} ms, 1 % lost", "share", weft(w, 1, "share"), tcp_(w, 1, "share", "cubic"), None,
                at_least(1.0, "peer")) for w in lossy]
    fast = lossy[-1]
    # Who goes back n has (1-p) / (1-p + pW) of the line: 30 packets of 4096 are on this way, one in 100 is lost, and nobody can have
    # five times as much. Where 600 are, tests/sim/narrow.c holds it to five.
    rows.append(Row("the same, beside going back", "share", weft(fast, 1, "share"), weft(fast, 1, "share", "go-back-n"), None,
                    at_least(1.0, "peer")))
    for way in (places.Way(100, 1), places.Way(100, 20)):
        name = f"{way.rate} Mbit/s, {way.rtt} ms"
        rows += [Row(f"{name}, {flows} flows", "fairness", weft(way, flows, "fairness"), None, None, at_least(0.95, None))
                 for flows in (2, 8)]
        rows.append(Row(f"{name}, 8 flows, queue", "delay, ms", weft(way, 8, "delay, ms"), tcp_(way, 8, "delay, ms", "bbr"), None,
                        at_most(1.0, "peer")))
    return Group("congestion", "one writes through a narrow place, or several; peer: TCP by CUBIC, of the queue by BBR; going back: "
                 "weft that repeats all", rows)


# ---- the page ------------------------------------------------------------------------------------

def distributions(bed):
    """Runs whose latencies are drawn."""
    raw, ours = Raw(bed), latencies(bed)
    return {**{name: ours[name] for name in ("send, polling", "send, events", "write")},
            "raw UDP, polling": raw.ping_pong("poll"), "raw UDP, asleep": raw.ping_pong("sleep")}


def sweep(bed):
    """Runs whose bandwidth is drawn over the size of the message: name -> bytes -> run."""
    sizes = [1 << n for n in range(6, 23, 2)]
    raw = Raw(bed)
    return {"write": {size: perftest(bed, "ib_write_bw", "-s", size, "-n",
                                     max(100, min(100000, (512 << 20) // size))) for size in sizes},
            "raw UDP": {size: raw.stream("poll", size, field.AROUND_WRITE) if size < field.MTU else
                        raw.stream("poll") for size in sizes}}
