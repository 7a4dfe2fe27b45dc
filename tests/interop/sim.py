#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft sim as a user runs it: what it prints and writes, how it ends, and what tshark makes of its captures.

usage: sim.py BUILD
"""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import lab

INCAST = """about: Four senders <one> switch
duration: 2ms
topology: {hosts: 5}
switches: {buffer: 1MB, headroom: 100KB, alpha: 1/64, ecn_from: 5KB, ecn_all: 100KB}
traffic:
  - {kind: stream, from: 1-4, to: 0, bytes: 64KB}
  - {kind: flows, name: few, from: 1, to: 2, bytes: 10KB, count: 5}
expect:
  - {figure: dropped, at_most: 0}
  - {figure: pauses, at_least: 1}
"""


class Sim:
    def __init__(self, build, scratch):
        self.weft, self.scratch = os.path.join(build, "weft"), scratch

    def file(self, name, text):
        path = os.path.join(self.scratch, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def run(self, *args, status=0):
        r = subprocess.run([self.weft, "sim", *args], capture_output=True, text=True, timeout=120)
        if r.returncode != status:
            raise SystemExit(f"weft sim {' '.join(args)}: ends with {r.returncode}, not {status}\n{r.stdout}{r.stderr}")
        return r


def need(what, is_so):
    if not is_so:
        raise SystemExit(f"not so: {what}")


def prints(sim):
    path = sim.file("incast.yaml", INCAST)
    text = sim.run(path).stdout
    need("the text says what was met", re.search(r"expected: 2 of 2 met", text) and "stream" in text)
    first, second = (sim.run("-o", "json", path).stdout for _ in range(2))
    need("the same seed gives the same bytes", first == second)
    need("another seed gives others", first != sim.run("-o", "json", "--seed", "2", path).stdout)
    report = json.loads(first)
    need("JSON has the groups", [g["name"] for g in report["groups"]] == ["stream", "few"])
    need("a goodput of about 100 Gb/s", 60 < report["groups"][0]["goodput_gbps"] < 100)


def writes(sim):
    path = sim.file("incast.yaml", INCAST)
    page, tables = os.path.join(sim.scratch, "page.html"), os.path.join(sim.scratch, "csv")
    sim.run(path, "--html", page, "--csv", tables)
    with open(page, encoding="utf-8") as f:
        text = f.read()
    need("the page is one, and escaped", "<svg" in text and "&lt;one&gt;" in text and "<one>" not in text)
    need("it loads nothing", not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text))
    with open(os.path.join(tables, "flows.csv"), encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    need("five bounded messages, all done", len(rows) == 5)
    refused = sim.run(path, "--html", os.path.join(sim.scratch, "none", "page.html"), status=1)
    need("a page that cannot be written is named", "none/page.html" in refused.stderr)


def tshark(capture, *args):
    r = subprocess.run(["tshark", "-n", "-r", capture, *args], capture_output=True, text=True, timeout=120)
    need(f"tshark reads it: {r.stderr}", r.returncode == 0)
    return r.stdout.split("\n")[:-1]


def captures(sim):
    if not shutil.which("tshark"):
        lab.skip("no tshark")
    path = sim.file("incast.yaml", INCAST)
    capture = os.path.join(sim.scratch, "link.pcapng")
    sim.run(path, "--pcap", capture, "--link", "host1 -> switch0")
    need("nothing is malformed", not tshark(capture, "-Y", "_ws.malformed"))
    need("RDMA WRITEs", tshark(capture, "-Y", "infiniband.bth.opcode == 6"))
    need("acknowledgements", tshark(capture, "-Y", "infiniband.bth.opcode == 17"))
    need("notifications of congestion", tshark(capture, "-Y", "infiniband.bth.opcode == 129"))
    pauses = tshark(capture, "-Y", "macc", "-T", "fields", "-e", "macc.opcode")
    need("PFC frames", pauses and set(pauses) == {"0x0101"})
    need("good checksums of IP", not tshark(capture, "-o", "ip.check_checksum:TRUE", "-Y",
                                            "ip.checksum.status == 0"))
    times = [float(t) for t in tshark(capture, "-T", "fields", "-e", "frame.time_epoch")]
    need("in the order of their time, within the run", times == sorted(times) and 0 <= times[0] < times[-1] < .0021)
    wrong = sim.run(path, "--pcap", capture, "--link", "host1 -> host2", status=1)
    need("a link that is none is named, with one that is", "host1 -> host2" in wrong.stderr and "host0 ->" in wrong.stderr)


SUBNET = """duration: 200us
topology: {kind: dumbbell, hosts: 2}
infiniband: {lanes: 2}
hosts: {mtu: 1024}
traffic:
  - {kind: flows, from: 0, to: 3, bytes: 10KB, dscp: 8}
"""


def infiniband_captures(sim):
    if not shutil.which("tshark"):
        lab.skip("no tshark")
    capture = os.path.join(sim.scratch, "ib.pcapng")
    sim.run(sim.file("subnet.yaml", SUBNET), "--pcap", capture, "--link", "host3 -> switch1")
    need("nothing is malformed", not tshark(capture, "-Y", "_ws.malformed"))
    asked = tshark(capture, "-Y", "infiniband.mad.mgmtclass == 0x81", "-T", "fields", "-e", "infiniband.lrh.vl",
                   "-e", "infiniband.mad.attributeid", "-e", "infiniband.mad.method")
    need("SMPs in lane 15", asked and all(line.split("\t")[0] in ("15", "0xf", "0x0f") for line in asked))
    attributes = {int(line.split("\t")[1], 0) for line in asked}
    need("that ask for nodes and set ports, mappings and turns", {0x11, 0x15, 0x17, 0x18} <= attributes)
    data = tshark(capture, "-Y", "infiniband.reth", "-T", "fields", "-e", "infiniband.lrh.vl", "-e", "infiniband.lrh.sl",
                  "-e", "infiniband.lrh.dlid", "-e", "infiniband.lrh.slid")
    need("the first packet of a WRITE in its service level's lane", len(data) == 1 and [
        int(v, 0) for v in data[0].split("\t")[:2]] == [1, 1])
    back = tshark(capture, "-Y", "infiniband.bth.opcode == 17", "-T", "fields", "-e", "infiniband.lrh.slid",
                  "-e", "infiniband.lrh.dlid")
    there = data[0].split("\t")[2:]
    need("acknowledgements go the other way", back and all(line.split("\t") == there for line in back))


def ends(sim):
    missed = sim.file("missed.yaml", INCAST + "  - {figure: goodput, at_least: 500}\n")
    need("what is not met is told", "NOT MET" in sim.run(missed, status=1).stdout)
    wrong = sim.file("wrong.yaml", INCAST.replace("buffer", "bufer"))
    said = sim.run(wrong, status=1).stderr
    need("a wrong key is named with its line", re.search(r"wrong\.yaml:4: .*'bufer'.*'buffer'", said))
    need("a file that is not there is named", "none.yaml" in sim.run("none.yaml", status=1).stderr)
    sim.run(status=2)
    sim.run("a", "b", status=2)
    long = sim.file("long.yaml", INCAST.replace("duration: 2ms", "duration: 1000s"))
    with subprocess.Popen([sim.weft, "sim", long], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as p:
        time.sleep(1)
        p.send_signal(signal.SIGINT)
        said = p.communicate(timeout=30)[1]
    need("Ctrl-C ends it, and it says so", p.returncode == 130 and "stopped" in said)


def hosts_are_small(sim):
    """What a host that does nothing adds to the memory of a network of many."""
    def peak(hosts):
        path = sim.file("idle.yaml", "duration: 1us\n"
                        f"topology: {{kind: leaf-spine, leaves: 32, spines: 8, hosts: {hosts}}}\n"
                        "traffic: [{kind: stream, from: 1, to: 0}]\n")
        p = subprocess.Popen([sim.weft, "sim", path], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        need(f"{32 * hosts} hosts run", p.returncode == 0)
        return used.ru_maxrss

    each = (peak(32) - peak(2)) / (32 * 30)
    need(f"a host that does nothing takes 64 KiB at most: {each:.1f}", 8 < each <= 64)


def scenarios(sim):
    """Those of the repository can all be read; what they expect is for `make scenarios`."""
    directory = os.path.join(lab.TOP, "scenarios")
    names = [n for n in os.listdir(directory) if n.endswith(".yaml")]
    need("there are some", len(names) > 20)
    for name in ("ets", "incast-20", "loop-locks", "loop-flows", "storm", "storm-watchdog", "selective"):
        sim.run(os.path.join(directory, f"{name}.yaml"))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        sim = Sim(os.path.abspath(sys.argv[1]), scratch)
        for case in (prints, writes, ends, hosts_are_small, scenarios, captures, infiniband_captures):
            case(sim)
            print(f"{case.__name__}: as it should be", flush=True)


if __name__ == "__main__":
    main()
