#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft serve --metrics: what hosts did is what the page says, by TCP and by RDMA; whoever asks slowly or wrongly harms
nobody; weft stat says the same.

usage: metrics.py BUILD [--only WORD]
"""
import argparse
import json
import os
import re
import resource
import socket
import time

import lab

SUBSYSTEM = "nqn.2026-11.org.example:figures"
HOST = 'nqn.2026-11.org.example:a"quoted"host'
PORT = 9420
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def http(request, seconds=5):
    with socket.create_connection(("127.0.0.1", PORT), timeout=seconds) as s:
        s.sendall(request)
        said = b""
        while more := s.recv(65536):
            said += more
    return said.decode()


def parse(text):
    """{(name, frozenset of labels): value}; raises ValueError where it is not of the form."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# "):
            continue
        m = SAMPLE.match(line)
        if not m:
            raise ValueError(f"no sample: {line!r}")
        labels = frozenset((k, v.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\"))
                           for k, v in LABEL.findall(m[2] or ""))
        if (m[1], labels) in found:
            raise ValueError(f"twice: {line!r}")
        found[m[1], labels] = float(m[3])
    return found


def scrape():
    head, _, body = http(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").partition("\r\n\r\n")
    if " 200 " not in head.splitlines()[0] or "text/plain; version=0.0.4" not in head:
        raise RuntimeError(f"the page is not to be had: {head!r}")
    return parse(body)


def total(page, name, **labels):
    want = set(labels.items())
    return sum(v for (n, has), v in page.items() if n == name and want <= has)


def page_that(shows):
    """The page, once it shows that: it is made once a second at most, and in a fiftieth of the time, of
    which making it takes more on a machine that has other things to do."""
    page = {}

    def is_new():
        page.clear()
        page.update(scrape())
        return shows(page)
    lab.until(is_new, 15, 0.3)
    return page


class Service:
    def __init__(self, weft, host, transport, path):
        self.weft, self.host, self.transport = weft, host, transport
        self.program = lab.Program(host, [
            weft, "serve", "mem:64m", "-n", SUBSYSTEM, "-l", f"{transport}://127.0.0.1:4420",
            "--allow-host", HOST, "--metrics", f"127.0.0.1:{PORT}"], f"{path}/serve.log")
        if not lab.until(lambda: self.program.says("ready"), 10):
            raise RuntimeError(f"weft serve does not come up: {self.program.output()}")

    def run(self, verb, *options, nsid=1, nqn=SUBSYSTEM, who=HOST, to=False):
        uri = f"nvme+{self.transport}://127.0.0.1:4420/{nqn}?ns={nsid}"
        words = [*options, uri] if to else [uri, *options]
        return self.host.run(self.weft, verb, "-q", who, *words, timeout=30)

    def end(self):
        return lab.end_in_order([self.program])


def counts(s, path):
    data = f"{path}/data"
    with open(data, "wb") as f:
        f.write(os.urandom(16384))
    before = scrape()
    if total(before, "weft_nvmf_commands_total"):
        return "commands are counted before there were any"
    for _ in range(3):
        r = s.run("read", "--block-count", "7", "-z", "4096", "-d", "/dev/null")
        if r.returncode:
            return f"read: {r.stderr}"
    r = s.run("write", "--block-count", "31", "-z", "16384", "-d", data)
    if r.returncode:
        return f"write: {r.stderr}"
    page = page_that(lambda page: total(page, "weft_nvmf_commands_total", opcode="write"))
    at = {"subsystem": SUBSYSTEM, "host": HOST}
    for name, labels, want in (
            ("weft_nvmf_commands_total", {"nsid": "1", "opcode": "read"}, 3),
            ("weft_nvmf_data_bytes_total", {"nsid": "1", "opcode": "read"}, 3 * 4096),
            ("weft_nvmf_commands_total", {"nsid": "1", "opcode": "write"}, 1),
            ("weft_nvmf_data_bytes_total", {"nsid": "1", "opcode": "write"}, 16384),
            ("weft_nvmf_commands_total", {"opcode": "connect"}, 8),
            ("weft_nvmf_command_duration_seconds_count", {"nsid": "1", "opcode": "read"}, 3),
            ("weft_nvmf_command_duration_seconds_bucket", {"opcode": "read", "le": "+Inf"}, 3),
            ("weft_nvmf_command_errors_total", {"opcode": "read"}, 0),
            ("weft_nvmf_connections", {}, 0)):
        got = total(page, name, **at, **labels)
        if got != want:
            return f"{name} {labels}: {got}, not {want}"
    return None


def errors(s, path):
    """A disk in memory of which there is none left; and who does not come in."""
    with open(f"{path}/data", "wb") as f:
        f.write(os.urandom(64 << 20))
    with open(f"/proc/{s.program.pid}/status", encoding="ascii") as f:
        data = int(re.search(r"VmData:\s+(\d+)", f.read())[1]) << 10
    hard = resource.prlimit(s.program.pid, resource.RLIMIT_DATA)[1]
    resource.prlimit(s.program.pid, resource.RLIMIT_DATA, (data + (16 << 20), hard))
    r = s.run("cp", f"{path}/data", to=True)
    resource.prlimit(s.program.pid, resource.RLIMIT_DATA, (hard, hard))
    os.unlink(f"{path}/data")
    if not r.returncode or "Capacity Exceeded" not in r.stderr:
        return f"there was memory: {r.stderr!r}"
    error = {"host": HOST, "nsid": "1", "opcode": "write", "status": "Capacity Exceeded"}
    page = page_that(lambda page: total(page, "weft_nvmf_command_errors_total", **error))
    got = total(page, "weft_nvmf_command_errors_total", **error)
    all_of_them = total(page, "weft_nvmf_target_errors_total")
    if not 1 <= got <= all_of_them:
        return f"the error is counted {got} times, of {all_of_them}"
    r = s.run("id-ns", who="nqn.2026-11.org.example:stranger")
    if not r.returncode:
        return "a host came in that may not"
    r = s.run("id-ns", nqn="nqn.2026-11.org.example:other")
    reasons = "Connect Invalid Host", "Connect Invalid Parameters"
    page = page_that(lambda page: all(total(page, "weft_nvmf_connects_failed_total", reason=r) for r in reasons))
    for reason in reasons:
        got = total(page, "weft_nvmf_connects_failed_total", reason=reason)
        if got != 1:
            return f"{reason}: {got} times: " + str([k for k in page if "failed" in k[0]])
    return None


def stat_agrees(s, _):
    r = s.host.run(s.weft, "stat", "-o", "json", str(s.program.pid))
    served = json.loads(r.stdout)["processes"][0]["served"]
    mine = [h for h in served if h["host"] == HOST and h["subsystem"] == SUBSYSTEM]
    if len(mine) != 1:
        return f"weft stat shows {served}"
    page = scrape()
    for c in mine[0]["commands"]:
        got = total(page, "weft_nvmf_commands_total", host=HOST, opcode=c["opcode"],
                    nsid=str(c["nsid"] or ""))
        if got != c["commands"]:
            return f"{c}, but {got} on the page"
    text = s.host.run(s.weft, "stat").stdout
    reads = next(c for c in mine[0]["commands"] if c["opcode"] == "read" and c["nsid"] == 1)
    buckets = [reads[f"bucket_{b:02}"] for b in range(21)]
    line = re.search(r"^ +read, namespace 1 .*half within ([\d.]+) (ns|µs|ms|s), 99 % within ([\d.]+) (ns|µs|ms|s)$", text, re.M)
    if HOST not in text or not line:
        return f"weft stat: {text}"
    for part, said, unit in ((0.5, *line.groups()[:2]), (0.99, *line.groups()[2:])):
        bound = next(b for b in range(21) if sum(buckets[:b + 1]) >= part * sum(buckets))
        want = 2 ** (12 + bound) / {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
        if abs(float(said) / want - 1) > 0.01:
            return f"{part} of {buckets} within {said} {unit}: {text}"
    missing = [q for q in mine[0]["queues"] if f"queue {q['qid']}, controller {q['cntlid']} " not in text]
    return f"not shown: {missing}: {text}" if missing else None


def top_shows(s, path):
    """What a host does at present with a namespace, in the words of both."""
    uri = f"nvme+{s.transport}://127.0.0.1:4420/{SUBSYSTEM}?ns=1"
    bench = lab.Program(s.host, [s.weft, "bench", uri, "-q", HOST, "--rw", "randread", "--bs", "4k", "--runtime", "4",
                                 "-o", "json"], f"{path}/bench.log")
    time.sleep(1)  # two looks, a second apart, are within its four
    said = s.host.run(s.weft, "top", "-n", "2", str(s.program.pid)).stdout
    if bench.wait(30) != 0:
        return f"bench: {bench.output()[-300:]}"
    line = re.search(rf"\b{s.program.pid} 1 +\S*{re.escape(HOST[-12:])} at \S*{re.escape(SUBSYSTEM[-12:])} +(\d+) +([\d.]+) "
                     r"(MiB|KiB) +- +[\d.]+ \S+ +-$", said, re.M)
    if not line:
        return f"weft top: {said}"
    read = float(line[2]) * {"KiB": 1024, "MiB": 1 << 20}[line[3]]
    if not 0.9 < read / (int(line[1]) * 4096) < 1.1:
        return f"not 4 KiB each: {line[0]}"
    return None


def of_queues(s, path):
    """Each queue of a host that is there by itself: commands, times and errors."""
    uri = f"nvme+{s.transport}://127.0.0.1:4420/{SUBSYSTEM}?ns=1"
    bench = lab.Program(s.host, [s.weft, "bench", uri, "-q", HOST, "--rw", "randread", "--bs", "4k", "-i", "2", "--iodepth",
                                 "2", "--runtime", "6"], f"{path}/bench.log")
    name, at = "weft_nvmf_queue_command", {"host": HOST, "subsystem": SUBSYSTEM, "transport": s.transport}
    page = page_that(lambda page: all(total(page, name + "_duration_seconds_count", queue=q, **at) > 1 for q in "12"))
    seen = json.loads(s.host.run(s.weft, "stat", "-o", "json", str(s.program.pid)).stdout)["processes"][0]["served"]
    if bench.wait(30) != 0:
        return f"bench: {bench.output()[-300:]}"
    for q in "012":
        done = total(page, name + "s_total", queue=q, **at)
        buckets = sorted((float(dict(has)["le"]), v) for (n, has), v in page.items()
                         if n == name + "_duration_seconds_bucket" and {("queue", q), *at.items()} <= has)
        values = [v for _, v in buckets]
        if (len(values) != 8 or values != sorted(values) or not 0 < values[-1] <= done
                or values[-1] != total(page, name + "_duration_seconds_count", queue=q, **at)):
            return f"queue {q}: {done} commands, {buckets}"
        if total(page, name + "_errors_total", queue=q, **at):
            return f"queue {q} has errors"
    mine = [q for h in seen if h["host"] == HOST and h["subsystem"] == SUBSYSTEM for q in h["queues"]]
    if sorted(q["qid"] for q in mine if q["latency_ns"] and q["bucket_00"] <= q["commands"]) != [0, 1, 2]:
        return f"weft stat: {mine}"
    return None


def wrong_requests(_, __):
    for request, want in ((b"GET / HTTP/1.0\r\n\r\n", " 200 "), (b"GET /no HTTP/1.0\r\n\r\n", " 404 "),
                          (b"POST /metrics HTTP/1.0\r\nContent-Length: 1\r\n\r\nx", " 405 "),
                          (b"HEAD /metrics HTTP/1.0\r\n\r\n", " 200 "),
                          (b"GET /" + b"x" * 20000 + b" HTTP/1.0\r\n\r\n", " 4")):
        try:
            said = http(request)
        except ConnectionResetError:
            continue
        if said and want not in said.splitlines()[0]:
            return f"{request[:40]} got {said[:80]!r}"
    scrape()
    return None


def slow(s, _):
    """Clients that send a byte now and then take what places there are, but not for long, and I/O goes on."""
    slow_ones = []
    for _ in range(40):
        c = socket.create_connection(("127.0.0.1", PORT), timeout=2)
        c.setblocking(False)
        slow_ones.append(c)
    begun = time.monotonic()
    while time.monotonic() - begun < 40:
        for c in slow_ones:
            try:
                c.send(b"G")
            except OSError:
                pass
        r = s.run("read", "--block-count", "7", "-z", "4096", "-d", "/dev/null")
        if r.returncode:
            return f"I/O fails meanwhile: {r.stderr}"
        try:
            scrape()
            if time.monotonic() - begun > 3:
                break
        except (OSError, RuntimeError, IndexError):
            pass
        time.sleep(0.5)
    else:
        return "the page is not to be had again within 40 s"
    for c in slow_ones:
        c.close()
    return None


def in_use(s, _):
    for at, said, status in ((f"127.0.0.1:{PORT}", "port is in use", 1), ("127.0.0.1", "ADDRESS:PORT", 2), ("9420", "ADDRESS:PORT", 2),
                             ("nowhere.example:1", "ADDRESS:PORT", 2), ("192.0.2.1:9", "no interface", 1)):
        r = s.host.run(s.weft, "serve", "mem:1m", "-l", "tcp://127.0.0.1:4421", "--metrics", at, timeout=10)
        if r.returncode != status or said not in r.stderr or len(r.stderr.splitlines()) != status:
            return f"--metrics {at}: status {r.returncode}, {r.stderr!r}"
    return None


p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("build")
p.add_argument("--only", default="")
args = p.parse_args()
lab.enter()
weft = os.path.join(os.path.abspath(args.build), "weft")


host, _ = lab.lab(1)
lab.libc.setns(os.open(f"/proc/{host.holder.pid}/ns/net", os.O_RDONLY), 0)
report = lab.Report(args.build, "metrics")
if "recognized" in host.run(weft, "serve", "--metrics", "x", "mem:1m").stderr or \
        "without libmicrohttpd" in host.run(weft, "serve", "--metrics", "x", "mem:1m").stderr:
    lab.skip("this weft has no --metrics")
for transport in ("tcp", "rdma"):
    cases = [("counts", counts), ("errors", errors), ("weft stat", stat_agrees), ("weft top", top_shows),
             ("queues", of_queues)]
    if transport == "tcp":
        cases += [("wrong requests", wrong_requests), ("slow clients", slow), ("the port", in_use)]
    service = None
    for what, case in cases:
        name = f"{transport}: {what}"
        path = report.case(name)
        if not service:
            service = Service(weft, host, transport, path)
        report.attempt(name, lambda path, case=case: case(service, path))
    fault = service.end()
    report.attempt(f"{transport}: the end", lambda _, fault=fault: fault)
report.finish()
