#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""bench/run's table says met of nothing that was not measured; medians, ranges, ratios, its status, the
JSON, the page, what is read of programs, and what makes a machine not quiet."""
import contextlib
import itertools
import json
import os
import sys
import xml.etree.ElementTree as ET

import tree

sys.dont_write_bytecode = True
sys.path.append(os.path.join(tree.TOP, "bench"))
import bed  # noqa: E402
import disks  # noqa: E402
import field  # noqa: E402
import machine  # noqa: E402
import page  # noqa: E402
import rows  # noqa: E402
import table  # noqa: E402

faults, seen = [], 0


def expect(what, got, want):
    global seen
    seen += 1
    if got != want:
        faults.append(f"{what}: {got!r}, not {want!r}")


def fails(what, error, work):
    with contextlib.suppress(error):
        expect(what, work(), error.__name__)


def gives(name, figures, order=None, needs=()):
    """A run that gives these, one a round; an exception is raised."""
    each = iter(figures)

    def work():
        if order is not None:
            order.append(name)
        figure = next(each)
        if isinstance(figure, Exception):
            raise figure
        return {"us": figure}
    return table.Side(table.Run(name, work, needs), "us")


def judged(target, ours, peer=None, limit=None, rounds=3, installed=lambda _: True):
    row = table.Row("what", "us", ours, peer, limit, target)
    samples = table.Samples(installed)
    table.measure(table.runs_of([row]), rounds, samples)
    return table.judge(row, samples)


def verdicts():
    most, least = table.at_most(1.3), table.at_least(0.85)
    for target, ours, limit, want in (
            (most, (13, 99, 1), (10, 10, 10), "met"), (most, (14, 14, 1), (10, 10, 10), "missed"),
            (least, (85, 85, 85), (100, 1, 999), "met"), (least, (84, 84, 999), (100, 100, 100), "missed"),
            (table.at_most(1.0, None), (1, 1, 1), None, "met"),
            (table.at_least(2000, None), (1999, 1999, 1999), None, "missed"), (None, (1, 1, 1), None, "")):
        r = judged(target, gives("a", ours), limit=limit and gives("b", limit))
        expect(f"{ours} beside {limit}, {target}", r.verdict, want)
    r = judged(most, gives("a", (3, 9, 5)), gives("p", (7, 7, 7)), gives("b", (10, 40, 2)))
    expect("median and range", (r.ours.median, r.ours.low, r.ours.high, r.limit.median, r.ratio), (5, 3, 9, 10, 0.5))
    expect("the line", table.line(r).split(), ["what", "us", "5", "(3-9)", "7", "(7-7)", "10", "(2-40)", "0.5",
                                               "<=", "1.3", "met"])


def not_measured():
    """Never met: whichever side is missing."""
    here, gone = (1, 1, 1), lambda p: p != "gone"
    absent = [bed.NotHere("no SPDK")] * 3
    for what, ours, peer, why in (
            ("ours not installed", gives("a", here, needs=("gone",)), gives("b", here), "gone not installed"),
            ("peer not installed", gives("a", here), gives("b", here, needs=("gone",)), "gone not installed"),
            ("no peer here", gives("a", here), gives("b", absent), "no SPDK"),
            ("a peer of nothing", gives("a", here), gives("b", (0, 0, 0)), "no figure")):
        r = judged(table.at_most(9, "peer"), ours, peer, installed=gone)
        expect(what, (r.verdict, r.ratio, why in r.reason), ("not measured", None, True))
        expect(f"{what}: ours is shown all the same", r.ours is None, what.startswith("ours"))
    order = []
    r = judged(table.at_least(0, "peer"), gives("a", (1, bed.Failed("it broke"), 1), order), gives("b", here))
    expect("a run that failed", (r.verdict, r.reason, r.ours, order), ("failed", "it broke", None, ["a", "a"]))


def turns():
    order = []
    a, b = gives("a", range(9), order), gives("b", range(9), order)
    table.measure(table.runs_of([table.Row("1", "us", a, None, b), table.Row("2", "us", a), table.Row("3", "us", b)]),
                  3, table.Samples(lambda _: True))
    expect("runs take turns, and rows share them", "".join(order), "ababab")


def ends():
    def one(verdict):
        return table.Result(table.Row("w", "u", None), verdict != "not measured", None, None, None, verdict, "")

    for words, noise, want in (("met", [], 0), ("met,not measured,", ["load"], 0), ("met,missed", [], 1),
                               ("met,missed", ["load"], 77), ("missed,failed", ["load"], 1), ("failed", [], 1),
                               ("not measured", [], 77)):
        status, said = table.status([one(v) for v in words.split(",")], noise)
        expect(f"the status of {words}, {noise}", status, want)
        expect(f"not quiet is said of {words}, {noise}", "not quiet" in said, want == 77 and bool(noise))
    quiet = {"others_before": 0.01, "others_meanwhile": 0.01, "others_after": 0, "stolen": 0.001,
             "low_priority": False, "load_average": 7.0}
    expect("a quiet machine", machine.noise(quiet), [])
    for key, value in (("others_before", 0.3), ("others_meanwhile", 0.3), ("others_after", 0.3), ("stolen", 0.05),
                       ("low_priority", True)):
        expect(f"{key} {value}: said once", len(machine.noise({**quiet, key: value})), 1)
        expect(f"{key} {value}: in words", "not quiet" in machine.in_words({**quiet, key: value}), True)


def as_json():
    r = judged(table.at_most(1.3), gives("a", (3, 9, 5)), limit=gives("b", (10, 40, 2)))
    said = json.loads(json.dumps(table.as_json(table.Group("g", "", []), r)))
    expect("JSON", (said["group"], said["ours"]["samples"], said["limit"]["run"], said["peer"], said["target"]["of"],
                    said["verdict"]), ("g", [3, 9, 5], "b", None, "limit", "met"))
    r = judged(table.at_most(1.3), gives("a", (1, 1, 1)), limit=gives("b", [bed.NotHere("none")]))
    said = json.loads(json.dumps(table.as_json(table.Group("g", "", []), r)))
    expect("JSON of what is not measured", (said["verdict"], said["ratio"], said["reason"], "median" in said["limit"]),
           ("not measured", None, "none", False))


LATENCY = """#, usec
1, 5.1
2, 1e1
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec] ...
 8       2000          9.93           487.16       44.39    	       46.41       	13.34  		88.93   		188.78
"""
BANDWIDTH = """ #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      24511            0.00               1531.53		   0.024505
"""
UCX = "                       20000      5.010     6.162     6.163        1.24       1.25      162294      162294\n"
CMTIME = "".join(f"{step}: {ms}.00 0.09 15.00 18.65\n" for step, ms in (
    ("create id    ", 10), ("resolve addr ", 50), ("resolve route", 50), ("create qp    ", 40), ("connect      ", 50),
    ("disconnect   ", 999)))


def parsed():
    got = field.parse_latency(LATENCY)
    expect("perftest's latencies", (got["p50"], got["p99.9"], round(got["tail"], 3), got["quantiles"]["100"]),
           (44.39, 188.78, 4.253, 10.0))
    expect("perftest's bandwidth", field.parse_bandwidth(BANDWIDTH), {"MiB/s": 1531.53, "M/s": 0.024505})
    expect("UCX", field.parse_ucx(UCX), {"p50": 5.01, "MiB/s": 1.25})
    expect("qperf", field.parse_qperf("tcp_lat:\n    latency  =  7.5 ms\n"), {"us": 7500.0})
    expect("cmtime", field.parse_cmtime(CMTIME, 500), {"/s": 2500.0})
    expect("SPDK", disks.parse_spdk("Total    :   1234.50   4.82   12.3\n"), {"IOPS": 1234.5})
    for name, parse in (("latency", field.parse_latency), ("bandwidth", field.parse_bandwidth), ("ucx", field.parse_ucx),
                        ("qperf", field.parse_qperf), ("cmtime", lambda said: field.parse_cmtime(said, 1)),
                        ("spdk", disks.parse_spdk)):
        fails(f"{name} of nothing", bed.Failed, lambda parse=parse: parse("it broke\n"))


class NoBed:
    """Rows can be listed without one."""
    def __getattr__(self, name):
        return name


def listed():
    """Each row has what its target divides by, and one name is one run."""
    groups = rows.groups(NoBed())
    names = [(g.name, r.what, r.unit) for g in groups for r in g.rows]
    expect("rows are named once", sorted(names), sorted(set(names)))
    for group, row in ((g, r) for g in groups for r in g.rows):
        if row.target and row.target.of:
            expect(f"{group.name}: {row.what} has a {row.target.of}", getattr(row, row.target.of) is not None, True)
    expect("there are rows", len(names) > 40, True)


def drawn():
    about = dict.fromkeys(("weft", "processor", "processors", "kernel", "date"), "<&>")
    samples = table.Samples(lambda _: True)
    runs = {name: table.Run(name, lambda: {"quantiles": dict.fromkeys(field.QUANTILES, 5.0)}) for name in
            ("send", "raw UDP")}
    sizes = {name: {size: table.Run(f"{name} {size}", lambda size=size: {"MiB/s": size * 2.0}) for size in (64, 4096)}
             for name in ("write", "raw UDP")}
    every = itertools.chain(runs.values(), *(by_size.values() for by_size in sizes.values()))
    table.measure(list(every), 2, samples)
    for what, latency, bandwidth in (("all", page.distributions(runs, samples), page.bandwidths(sizes, samples)),
                                     ("nothing", [], [])):
        words = [e.text for e in ET.fromstring(page.svg(latency, bandwidth, about)).iter() if e.text]
        for want in ("send", "write", "microseconds", "MiB/s", "size of a message", "99.9 %", "4 KiB"):
            expect(f"the page of {what} says {want}", want in words, what == "all")
        expect(f"the page of {what} says that it is not measured", any("not measured" in w for w in words), what != "all")
    samples.failed["write 64"] = "it broke"
    expect("what failed is not drawn", [p[0] for p in page.bandwidths(sizes, samples)[0].points], [4096])


for part in (verdicts, not_measured, turns, ends, as_json, parsed, listed, drawn):
    part()
tree.finish("bench", faults, seen)
