#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft stat, top and trace: what running processes have counted is seen from outside, of each queue pair, too: under
losses it says so on the side where they show; with whatever broker; and to nobody whom it does not
concern.

usage: sight.py BUILD
"""
import argparse
import json
import os
import re
import shutil
import signal

import lab

NQN = "nqn.2026-11.org.example:stat"
UDP = "WEFT_PORT=udp"  # where packets are to be lost


class Stat:
    def __init__(self, weft, host):
        self.weft, self.host = weft, host

    def run(self, *options, before=()):
        return self.host.run(*before, self.weft, "stat", *options, timeout=30)

    def json(self, *options, before=()):
        r = self.run("-o", "json", *options, before=before)
        if r.returncode or r.stderr:
            raise RuntimeError(f"stat -o json: status {r.returncode}: {r.stderr.strip()}")
        return json.loads(r.stdout)["processes"]

    def of(self, pid):
        return next(iter(self.json(str(pid))), None)

    def start(self, path, name, *words):
        return lab.Program(self.host, words, f"{path}/{name}.log")


def nothing(stat, _):
    r = stat.run()
    if r.returncode or not re.fullmatch("no process.* uses weft here\n", r.stdout):
        return f"status {r.returncode}, said {r.stdout!r} {r.stderr!r}"
    if stat.json() != [] or stat.host.has_broker():
        return "there is something, or a broker was started"
    for words, status, said in ((["-o", "xml"], 2, "not 'xml'"), (["1", "2"], 2, "one process"),
                                (["weft_nowhere"], 1, "no device 'weft_nowhere'"),
                                (["4194303"], 1, "no process 4194303"),
                                ([str(os.getpid())], 1, "does not use weft")):
        r = stat.run(*words)
        if r.returncode != status or said not in r.stderr or r.stdout:
            return f"{words}: status {r.returncode}, said {r.stderr!r}"
    return None


def lose(host):
    """From now on, of what is for queue pairs of programs, not of brokers (byte 5, the slot), one
    datagram in fifty."""
    return host.run("nft", "add table inet lossy; "
                    "add chain inet lossy in { type filter hook input priority 0; }; "
                    "add rule inet lossy in udp dport 4791 @th,104,8 != 0 numgen random mod 50 0 drop"
                    ).returncode == 0


def heal(host):
    host.run("nft", "delete table inet lossy")


def start_disk(stat, path):
    image = os.path.join(path, "disk.img")
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    serve = stat.start(path, "serve", "env", UDP, stat.weft, "serve", image, "-l", f"rdma://{stat.host.address}",
                       "-n", NQN)
    lab.until(lambda: serve.says("nvme connect") or serve.status() is not None, 10)
    bench = stat.start(path, "bench", "env", UDP, stat.weft, "bench",
                       f"nvme+rdma://{stat.host.address}/{NQN}?ns=1", "--rw", "randrw", "--bs", "64k",
                       "--iodepth", "8", "--runtime", "600", "--yes")  # until it is killed
    return serve, bench


def core(p):
    return p["counters"]["core"]


def sums_differ(p, *names):
    """Is the core's figure what its queue pairs have? They go on meanwhile, so: not less, by far."""
    return [n for n in names
            if sum(q[n] for q in p["queue_pairs"]) < core(p)[n] * 0.5 - 10]


def disk(stat, path):
    if not shutil.which("nft") or not lose(stat.host):
        raise lab.Skip("nft cannot drop packets here")
    heal(stat.host)
    serve, bench = start_disk(stat, path)
    try:
        # Its queues are connected: the admin queue, and one for data.
        if not lab.until(lambda: len((stat.of(serve.pid) or {"queue_pairs": []})["queue_pairs"]) == 2
                         if serve.status() is None else True, 15, 0.2):
            return f"the service's queue pairs: {stat.run(str(serve.pid)).stdout}"
        before = stat.of(bench.pid)
        if not lab.until(lambda: core(stat.of(bench.pid))["tx_packets"] >
                         core(before)["tx_packets"] + 100, 15, 0.2):
            return "nothing moves"
        lose(stat.host)
        lab.until(lambda: core(stat.of(bench.pid))["tx_retransmit"] > 10 and
                  core(stat.of(serve.pid))["tx_retransmit"] > 10, 30, 0.5)
        heal(stat.host)
        host, target = stat.of(bench.pid), stat.of(serve.pid)
        for name in ("tx_retransmit", "rx_packets", "tx_bytes"):
            if not core(host)[name] or not core(target)[name]:
                return f"{name} stays 0 under losses: {core(host)} {core(target)}"
        if not core(target)["rx_out_of_sequence"] and not core(host)["rx_out_of_sequence"]:
            return "no packet came out of sequence, though some were lost"
        if not host["counters"]["port"]["rx_batches"]:
            return f"the port: {host['counters']['port']}"
        faults = sums_differ(host, "tx_packets", "tx_bytes", "tx_retransmit", "rx_packets")
        if faults:
            return f"the queue pairs have not what the core has: {faults}"
        ends = lambda p: {(q["qpn"], q["peer_qpn"]) for q in p["queue_pairs"] if q["state"] == "RTS"}
        if not ends(host) or ends(host) != {(b, a) for a, b in ends(target)}:
            return f"the ends differ: {ends(host)} {ends(target)}"
        q = max(host["queue_pairs"], key=lambda q: q["tx_bytes"])
        if (q["type"], q["peer"], q["own"]) != ("RC", "127.0.0.1", "127.0.0.1") or \
                not q["srtt_ns"] or not q["window"]:
            return f"a queue pair: {q}"
        if not host["counters"]["host"]["writes"] or not target["counters"]["target"]["written_bytes"]:
            return f"NVMe: {host['counters']['host']} {target['counters']['target']}"
        if not any("broker" in p["counters"] and p["counters"]["cm"]["rx_mads"] for p in stat.json()):
            return "the broker is not there"
        return views(stat, bench.pid) or top(stat, bench.pid) or trace(stat, bench.pid) or \
            broker_ends(stat, bench.pid) or bench_tells(stat, stat.host.address)
    finally:
        heal(stat.host)
        bench.kill()
        serve.kill()


def bench_tells(stat, address):
    """What weft bench says of its own RNIC: under losses, and without."""
    words = [stat.weft, "bench", f"nvme+rdma://{address}/{NQN}?ns=1", "--rw", "randwrite", "--bs", "64k",
             "--iodepth", "8", "--runtime", "1", "--yes"]
    lose(stat.host)
    for _ in range(10):  # a busy machine sends little in a second, and may lose nothing
        lossy = stat.host.run(*words, "-o", "json")
        rnic = json.loads(lossy.stdout).get("rnic", {})
        if rnic.get("retransmits"):
            break
    heal(stat.host)
    text = stat.host.run(*words).stdout
    told = sum(rnic.get(name, 0) for name in ("naks_received", "sacks_received", "probes"))
    if not rnic.get("retransmits") or not told or \
            not rnic["tx_packets"] > rnic["retransmits"]:
        return f"bench under losses: {lossy.stdout} {lossy.stderr}"
    if not re.search(r"^packets\n +sent +: \d+\n +received +: \d+\n +sent again *: \d+$", text, re.M):
        return f"bench: {text}"
    return None


def views(stat, pid):
    """The same as text, by device, and again and again."""
    text = stat.run(str(pid)).stdout
    if not re.search(r"^ +tx_packets +: \d+ packets$", text, re.M) or \
            not re.search(r"^  queue pair 0x[0-9a-f]{6}  RC RTS  to 0x[0-9a-f]{6} of 127.0.0.1$", text,
                          re.M) or re.search(r": 0 ", text):
        return f"the text: {text}"
    if not re.search(r": 0 ", stat.run("-a", str(pid)).stdout):
        return "-a shows no zeros"
    if "Packets sent." not in stat.run("-v", str(pid)).stdout:
        return "-v explains nothing"
    of_lo = [p for p in stat.json("weft_lo") if p["queue_pairs"]]
    if len(of_lo) != 2:
        return f"by device: {of_lo}"
    if stat.host.run("ip", "link", "add", "none", "type", "dummy").returncode == 0 and \
            "uses weft on weft_none" not in stat.run("weft_none").stdout:
        return f"by a device without addresses: {stat.run('weft_none').stdout}"
    r = stat.run("-w1", "--count", "2", str(pid))
    rates = [int(n) for n in re.findall(r"tx_packets +: \d+ packets, (\d+)/s", r.stdout)]
    if r.stdout.count("core") != 2 or not any(rates):
        return f"watched: {r.stdout}"
    return None


def top(stat, pid):
    """Lines for a file, a screen for a terminal; the busiest queue pair is the first."""
    r = stat.host.run(stat.weft, "top", "-n", "2", str(pid), timeout=30)
    rows = [l.split() for l in r.stdout.splitlines()]
    if r.returncode or rows[0][:3] != ["TIME", "PID", "NAME/QUEUE"] or \
            sum(row[1:3] == [str(pid), "weft"] for row in rows) != 2:
        return f"top: status {r.returncode}: {r.stdout} {r.stderr}"
    busiest = max(stat.of(pid)["queue_pairs"], key=lambda q: q["tx_bytes"])
    if rows[2][1:5] != [str(pid), f"{busiest['qpn']:06x}", "RC", "127.0.0.1"] or \
            not {"KiB", "MiB", "GiB"} & set(rows[2]):
        return f"top shows first {rows[2]}"
    r = stat.host.run("script", "-qec", f"stty cols 76 rows 12; NO_COLOR=1 {stat.weft} top -n 1",
                      "/dev/null", timeout=30)
    shown = re.sub(r"\033\[[HJK]", "", r.stdout).splitlines()
    if not any(f"{pid} weft" in l for l in shown) or len(shown) > 13 or \
            any(len(l.rstrip()) > 76 for l in shown):
        return f"top on a terminal of 76 columns: {r.stdout!r}"
    return why_dropped(stat, pid)


def why_dropped(stat, pid):
    """Strangers' packets to a queue pair: in its line and in its process's."""
    qpn = max(stat.of(pid)["queue_pairs"], key=lambda q: q["tx_bytes"])["qpn"]
    forger = lab.Program(stat.host, ["python3", os.path.join(os.path.dirname(__file__), "forge.py"),
                                     "strays", stat.host.address, "127.0.0.9", "200", "600", str(qpn)],
                         f"{os.devnull}")
    if not lab.until(lambda: core(stat.of(pid))["rx_drop_flow"] or forger.status() is not None, 10):
        return "nothing is dropped"
    shown = stat.host.run(stat.weft, "top", "-n", "1", str(pid), timeout=30).stdout
    forger.kill()
    for name in (f"{pid} weft", f"{pid} +{qpn:06x}"):
        row = re.search(rf"^\S+ +{name} .*$", shown, re.M)
        why = re.search(r"rx_drop_flow (\d+)", row.group() if row else "")
        if not why or not int(why.group(1)):
            return f"why packets were dropped: {shown}"
    return None


def trace(stat, pid):
    def run(*words):
        return stat.host.run(stat.weft, "trace", *words, timeout=30)
    r = run("-n", "2000", str(pid))
    events = [l.split() for l in r.stdout.splitlines()]
    if r.returncode or len(events) != 2000 or not {"rx", "tx"} <= {e[2] for e in events} or \
            [e[0] for e in events] != sorted(e[0] for e in events):
        back = [b for a, b in zip(events, events[1:]) if b[0] < a[0]]
        return f"trace: status {r.returncode}, {len(events)} events, back in time {back}: " \
               f"{r.stdout[:2000]} {r.stderr}"
    if not re.search(r"0x[0-9a-f]{6} rx +RC_\w+ psn \d+, \d+ bytes$", r.stdout, re.M):
        return f"trace shows no packet: {r.stdout}"
    busiest = max(stat.of(pid)["queue_pairs"], key=lambda q: q["tx_bytes"])
    r = run("-n", "5", "-e", "tx,completion", "-q", str(busiest["qpn"]), str(pid))
    if {tuple(l.split()[1:3]) for l in r.stdout.splitlines()} - \
            {(f"0x{busiest['qpn']:06x}", e) for e in ("tx", "completion")}:
        return f"more than was asked for: {r.stdout}"
    lose(stat.host)
    r = run("-n", "1", "-e", "rewind,probe,rx_verdict", str(pid))
    heal(stat.host)
    if r.returncode or len(r.stdout.splitlines()) != 1:
        return f"losses: status {r.returncode}: {r.stdout} {r.stderr}"
    for words, status, said in (([], 2, "which process"), (["-e", "nothing", "1"], 2, "no event 'nothing'"),
                                ([str(os.getpid())], 1, "does not use weft")):
        r = run(*words)
        if r.returncode != status or said not in r.stderr or r.stdout:
            return f"{words}: status {r.returncode}, said {r.stderr!r}"
    return None


def broker_ends(stat, pid):
    before = stat.of(pid)
    for broker in stat.host.brokers():
        os.kill(broker, signal.SIGKILL)
    if not lab.until(lambda: core(stat.of(pid))["tx_packets"] > core(before)["tx_packets"] + 100, 15,
                     0.2):
        return "without its broker it counts no more"
    if {q["qpn"] for q in stat.of(pid)["queue_pairs"]} != {q["qpn"] for q in before["queue_pairs"]}:
        return "it begins anew without its broker"
    return None


def perftest(stat, path):
    if not shutil.which("ib_send_bw"):
        raise lab.Skip("perftest is not installed")
    words = [stat.weft, "run", "--", "stdbuf", "-oL", "ib_send_bw", "-F", "-D", "600", "-s", "4096",
             "-u", "20"]  # a busy machine may hold either up for long
    server = stat.start(path, "server", *words)
    lab.until(lambda: server.says("Waiting for client"), 10)
    server.settle()
    client = stat.start(path, "client", *words, stat.host.address)
    try:
        if not lab.until(lambda: core(stat.of(client.pid))["tx_bytes"] > 1 << 20
                         if stat.json() and client.pid in {p["pid"] for p in stat.json()} else False,
                         15, 0.2):
            return f"nothing moves: {stat.run().stdout} {client.output()}"
        if not lab.until(lambda: core(stat.of(server.pid))["rx_bytes"] > 1 << 20, 5, 0.2):
            return "the receiver counts nothing"
        # A process that is held up does not answer, and is seen nevertheless.
        os.kill(server.pid, signal.SIGSTOP)
        stopped = stat.of(server.pid)
        os.kill(server.pid, signal.SIGCONT)
        if not stopped or stopped["comm"] != "ib_send_bw":
            return f"stopped: {stopped}"
        nobody = lab.ordinary_user()
        if nobody:
            r = stat.run(str(client.pid), before=nobody)
            if r.returncode != 1 or "not yours to look into" not in r.stderr or r.stdout:
                return f"another user is shown {r.stdout!r} {r.stderr!r}"
            if stat.json(before=nobody):
                return f"another user is shown {stat.run(before=nobody).stdout}"
        client.kill()
        if stat.run(str(client.pid)).returncode != 1:
            return "one that was killed is still there"
    finally:
        client.kill()
        server.kill()
    return None


ECHO = """
import socket, sys
def words(s, n):
    got = b""
    while len(got) < n:
        got += s.recv(n - len(got))
    return got
if sys.argv[1] == "serve":
    l = socket.create_server(("127.0.0.1", 7777))
    print("listens", flush=True)
    s = l.accept()[0]
    s.sendall(words(s, 100000))
    s.recv(1)
else:
    s = socket.create_connection(("127.0.0.1", 7777))
    s.sendall(bytes(100000))
    words(s, 100000)
    print("done", flush=True)
    s.recv(1)
"""


def socket_counts(stat):
    counts = [p["counters"]["rsocket"] for p in stat.json() if "rsocket" in p["counters"]]
    return sorted((c["sent_bytes"], c["received_bytes"], c["connected"], c["accepted"]) for c in counts)


def sockets(stat, path):
    """What sockets count, on both sides of a connection of plain TCP programs."""
    words = [stat.weft, "run", "--sockets=only", "--", "python3", "-c", ECHO]
    server = stat.start(path, "server", *words, "serve")
    lab.until(lambda: server.says("listens"), 10)
    client = stat.start(path, "client", *words, "connect")
    try:
        if not lab.until(lambda: client.says("done"), 15):
            return f"no connection: {client.output()} {server.output()}"
        # What has arrived may not be counted yet by who sent it.
        if not lab.until(lambda: socket_counts(stat) == [(100000, 100000, 0, 1), (100000, 100000, 1, 0)], 5,
                         0.2):
            return f"sockets count {socket_counts(stat)}"
    finally:
        client.kill()
        server.kill()
    return None


MANY = """
import ctypes, time
v = ctypes.CDLL("libibverbs.so.1")
P, I = ctypes.c_void_p, ctypes.c_int
class InitAttr(ctypes.Structure):
    _fields_ = [("context", P), ("send_cq", P), ("recv_cq", P), ("srq", P),
                ("cap", ctypes.c_uint32 * 5), ("type", I), ("sig_all", I)]
for name, args in (("ibv_get_device_list", [P]), ("ibv_open_device", [P]), ("ibv_alloc_pd", [P]),
                   ("ibv_create_cq", [P, I, P, P, I]), ("ibv_create_qp", [P, P])):
    f = getattr(v, name)
    f.restype, f.argtypes = P, args
ctx = v.ibv_open_device(P.from_address(v.ibv_get_device_list(None)))
pd, cq = v.ibv_alloc_pd(ctx), v.ibv_create_cq(ctx, 16, None, None, 0)
a = InitAttr(None, cq, cq, None, (1, 1, 1, 1, 0), 2, 0)
qps = [v.ibv_create_qp(pd, ctypes.byref(a)) for _ in range(4103)]
print("made" if all(qps) else "not made", flush=True)
time.sleep(60)
"""


def many(stat, path):
    """More queue pairs than are shown one by one."""
    p = stat.start(path, "many", stat.weft, "run", "--", "python3", "-c", MANY)
    try:
        if not lab.until(lambda: p.says("made"), 30) or p.says("not"):
            return f"no queue pairs: {p.output()}"
        seen = stat.of(p.pid)
        if len(seen["queue_pairs"]) != 4096 or seen["queue_pairs_unseen"] != 7:
            return f"{len(seen['queue_pairs'])} and {seen['queue_pairs_unseen']} not seen"
        if not stat.run(str(p.pid)).stdout.endswith("\n  7 more queue pairs, not shown one by one\n"):
            return f"stat says nothing of the others: {stat.run(str(p.pid)).stdout[-300:]}"
        shown = stat.host.run(stat.weft, "top", "-n", "1", str(p.pid), timeout=30).stdout
        if not re.search(rf"{p.pid} +and 7 more queue pairs$", shown, re.M):
            return f"nor top: {shown}"
    finally:
        p.kill()
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    lab.need("script")
    report = lab.Report(args.build, "sight")
    host, _ = lab.lab(1)
    stat = Stat(os.path.abspath(f"{args.build}/weft"), host)
    for name, case in (("nothing uses weft", nothing), ("a disk, under losses", disk),
                       ("perftest", perftest), ("sockets", sockets),
                       ("many queue pairs", many)):
        if args.only in name:
            report.attempt(name, lambda path, case=case: case(stat, path))
    report.everything_ends([host])
    report.finish()


if __name__ == "__main__":
    main()
