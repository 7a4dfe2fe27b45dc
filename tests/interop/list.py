#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft list: every process that uses weft is in it, with what it listens on and whom it is connected
to, for as long as it lives, and for nobody whom it does not concern.

usage: list.py BUILD
"""
import argparse
import json
import os
import re

import lab

NQN = "nqn.2026-11.org.example:list"
GONE_SECONDS = 5


class Lister:
    def __init__(self, weft, host):
        self.weft, self.host = weft, host

    def run(self, *options, before=()):
        return self.host.run(*before, self.weft, "list", *options, timeout=30)

    def json(self, before=()):
        r = self.run("-o", "json", before=before)
        if r.returncode or r.stderr:
            raise RuntimeError(f"list -o json: status {r.returncode}: {r.stderr.strip()}")
        return json.loads(r.stdout)

    def processes(self, before=()):
        return self.json(before)["processes"]

    def of(self, pid):
        return next((p for p in self.processes() if p.get("pid") == pid), None)

    def connected(self, pid, count, seconds=15):
        """Its entry, once it has so many connections that are established."""
        def look():
            p = self.of(pid)
            return p and sum(i["state"] == "ESTABLISHED" for i in p["ids"]) == count and p
        return lab.until(look, seconds, 0.1)


def no_broker(lister, _):
    r = lister.run()
    if r.returncode or not re.fullmatch("nothing uses weft here: no broker runs .*\n", r.stdout):
        return f"status {r.returncode}, said {r.stdout!r} {r.stderr!r}"
    if lister.json() != {"processes": [], "without_broker": []}:
        return f"says {lister.json()}"
    if lister.run("-v").returncode or lister.host.has_broker():
        return "it starts a broker"
    return None


def bad_usage(lister, _):
    for words, said in ((["-o", "xml"], "not 'xml'"), (["all"], "unexpected argument 'all'")):
        r = lister.run(*words)
        if r.returncode != 2 or said not in r.stderr or r.stdout:
            return f"{words}: status {r.returncode}, said {r.stderr!r}"
    return None


def start_disk(lister, path):
    image = os.path.join(path, "disk.img")
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    weft, host = lister.weft, lister.host
    serve = lab.Program(host, [weft, "serve", image, "-l", f"rdma://{host.address}", "-n", NQN],
                        f"{path}/serve.log")
    lab.until(lambda: serve.says("nvme connect") or serve.status() is not None, 10)
    bench = lab.Program(host, [weft, "bench", f"nvme+rdma://{host.address}/{NQN}?ns=1", "--rw",
                               "randread", "--bs", "4k", "--runtime", "60"], f"{path}/bench.log")
    return serve, bench, image


def disk(lister, path):
    serve, bench, image = start_disk(lister, path)
    try:
        if not lister.connected(serve.pid, 2) or not lister.connected(bench.pid, 2):
            return f"not connected: {lister.run('-v').stdout}"
        target, user = lister.of(serve.pid), lister.of(bench.pid)
        listens = [i for i in target["ids"] if i["state"] == "LISTEN"]
        if [(i["local_address"], i["local_port"], i["ps"]) for i in listens] != \
                [("127.0.0.1", 4420, "tcp")]:
            return f"the service listens at {listens}"
        if listens[0]["service_id"] != "0x0000000001061144":
            return f"the service ID is {listens[0]['service_id']}"
        if (target["listeners"], target["connections"], user["listeners"],
                user["connections"]) != (1, 2, 0, 2):
            return f"counts: {target} {user}"
        ends = lambda p, a, b: sorted((i[f"{a}_port"], i[f"{b}_port"], i["qpn"], i["remote_qpn"])
                                      for i in p["ids"] if i["state"] == "ESTABLISHED")
        back = sorted((b, a, d, c) for a, b, c, d in ends(user, "local", "remote"))
        if ends(target, "local", "remote") != back:
            return f"two ends of one connection differ: {target} {user}"
        if {i["qpn"] >> 16 for i in user["ids"]} != set(user["slots"]) or user["devices"] != ["weft_lo"]:
            return f"slots or devices: {user}"
        if target["comm"] != "weft" or f"serve {image}" not in target["command"]:
            return f"says of the service {target['command']}"
        if lister.json()["broker"]["pid"] not in lister.host.brokers():
            return "the broker's pid is another"
        table = lister.run().stdout
        row = re.compile(rf"^ *{serve.pid} +\S+ +weft_lo +127\.0\.0\.1:4420 +2 +127\.0\.0\.1 +\S*weft "
                         rf"serve {re.escape(image)} ", re.M)
        if not re.match(r"broker: pid \d+ of \S+, since ", table) or not row.search(table) or \
                not re.search(r"^ *PID +USER +DEVICES +LISTENS +CONNS +PEERS +COMMAND$", table, re.M):
            return f"the table: {table}"
        if not re.search(r"^    ESTABLISHED +127\.0\.0\.1:4420 +127\.0\.0\.1:\d+ +weft_lo +qp "
                         r"0x[0-9a-f]{6} to 0x[0-9a-f]{6}$", lister.run("-v").stdout, re.M):
            return f"-v: {lister.run('-v').stdout}"
        # Who is killed is not there any more, and its peer is connected no longer.
        bench.kill()
        if not lab.until(lambda: not lister.of(bench.pid), GONE_SECONDS):
            return "who was killed is still there"
        if not lab.until(lambda: lister.of(serve.pid)["connections"] == 0, 20):
            return f"the service still has {lister.of(serve.pid)}"
        serve.kill()
        if not lab.until(lambda: lister.processes() == [], GONE_SECONDS):
            return "the service was killed, and is still there"
    finally:
        bench.kill()
        serve.kill()
    return None


def tcp_alone(lister, path):
    """A service by NVMe/TCP has no broker."""
    serve = lab.Program(lister.host, [lister.weft, "serve", "mem:16m", "-l", f"tcp://{lister.host.address}", "-n", NQN],
                        f"{path}/serve.log")
    lab.until(lambda: serve.says("ready") or serve.status() is not None, 10)
    try:
        listed = lister.json()
        if listed["processes"] or [(p["pid"], p["comm"], p["serves"]) for p in listed["without_broker"]] != \
                [(serve.pid, "weft", True)]:
            return f"says {listed}"
        text = lister.run().stdout
        if "nothing uses RDMA here" not in text or not re.search(rf"^ *{serve.pid} +\S+ +\S*weft serve mem:16m ", text, re.M):
            return f"says {text}"
    finally:
        serve.kill()
    if lister.json()["without_broker"]:
        return "the service was killed, and is still there"
    return None


def perftest(lister, path):
    words = [lister.weft, "run", "--", "stdbuf", "-oL", "ib_write_bw", "-R", "-F", "-D", "30"]
    server = lab.Program(lister.host, words, f"{path}/server.log")
    lab.until(lambda: server.says("Waiting for client"), 10)
    server.settle()
    listens = (lister.of(server.pid) or {"ids": []})["ids"]
    client = lab.Program(lister.host, [*words, lister.host.address], f"{path}/client.log")
    try:
        if [(i["state"], i["local_address"], i["local_port"]) for i in listens] != \
                [("LISTEN", "0.0.0.0", 18515)]:
            return f"before a client is there: {listens}"
        # One that it measures by, one that the two agree by.
        both = [lister.connected(p.pid, 2) for p in (server, client)]
        if not all(both):
            return f"not connected: {lister.run('-v').stdout}"
        if [p["comm"] for p in both] != ["ib_write_bw"] * 2:
            return f"names: {both}"
    finally:
        client.kill()
        server.kill()
    return None


def rping(lister, path, port, before=(), shell=None):
    words = ["rping", "-s", "-P", "-a", "0.0.0.0", "-p", port]
    if shell:
        words = ["bash", "-c", shell, *words]
    return lab.Program(lister.host, [*before, lister.weft, "run", "--", *words],
                       f"{path}/rping-{port}.log")


def ports(processes):
    return sorted(i["local_port"] for p in processes for i in p["ids"] if i["state"] == "LISTEN")


def users(lister, path):
    """An ordinary user beside root, at root's broker."""
    nobody = lab.ordinary_user()
    if not nobody:
        raise lab.Skip("there is no other user here")
    root = rping(lister, path, "7601")
    other = None
    try:
        lab.until(lambda: ports(lister.processes()) == [7601], 10)
        other = rping(lister, path, "7602", before=nobody)
        lab.until(lambda: ports(lister.processes()) == [7601, 7602] or other.says("does not serve"),
                  10)
        if other.says("does not serve"):
            can = lister.host.run("nft", "list", "tables").returncode == 0
            if can:
                return "root's broker does not serve others, and nf_tables is there"
            raise lab.Skip("no other user is served here")
        own = lister.processes(before=nobody)
        if ports(own) != [7602] or [p["uid"] for p in own] != [lab.NOBODY]:
            return f"an ordinary user is told of {own}"
        r = lister.run("-v", before=nobody)
        if "7601" in r.stdout or str(root.pid) in re.findall(r"^ *(\d+) ", r.stdout, re.M) or \
                "root sees all" not in r.stdout:
            return f"an ordinary user sees {r.stdout}"
        if ports(lister.processes()) != [7601, 7602]:
            return f"root is told of {lister.processes()}"
        other.kill()
        if not lab.until(lambda: lister.processes(before=nobody) == [], GONE_SECONDS):
            return "who was killed is still there"
        none = lister.run(before=nobody).stdout
        if "no process of yours" not in none or "these are your own" in none:
            return f"with none of its own a user sees {none}"
    finally:
        root.kill()
        if other:
            other.kill()
    return None


def users_broker(lister, path):
    """Root asks a user's broker; another user is told whose it is."""
    nobody = lab.ordinary_user()
    if not nobody:
        raise lab.Skip("there is no other user here")
    server = rping(lister, path, "7603", before=nobody)
    try:
        if not lab.until(lambda: ports(lister.processes()) == [7603], 10):
            return f"root sees {lister.run().stdout}"
        if lister.json()["broker"]["uid"] != lab.NOBODY:
            return f"the broker is {lister.json()['broker']}"
        r = lister.run(before=["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--"])
        if r.returncode != 1 or r.stdout or "whom we do not trust" not in r.stderr:
            return f"another user: status {r.returncode}, {r.stdout!r} {r.stderr!r}"
    finally:
        server.kill()
    return None


PID_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]


def pid_namespaces(lister, path):
    """The broker outside of a PID namespace, and then within."""
    outside = rping(lister, path, "7604")
    lab.until(lambda: ports(lister.processes()) == [7604], 10)
    inside = rping(lister, path, "7605", before=PID_NAMESPACE)
    try:
        if not lab.until(lambda: ports(lister.processes()) == [7604, 7605], 10):
            return f"at first: {lister.run().stdout}"
        # The broker sees down: it knows both by its own numbers.
        if any(p.get("comm") != "rping" for p in lister.processes()):
            return f"not named: {lister.processes()}"
        listed = lister.processes(before=PID_NAMESPACE)
        if {p.get("pid_of_broker_namespace") for p in listed} != \
                {p["pid"] for p in lister.processes()} or any("pid" in p for p in listed):
            return f"from within another PID namespace: {listed}"
        r = lister.run(before=PID_NAMESPACE)
        if "PIDs are as the broker sees them" not in r.stdout or "rping" in r.stdout:
            return f"from within another PID namespace: {r.stdout}"
    finally:
        inside.kill()
        outside.kill()
    if not lab.until(lambda: not lister.host.has_broker(), 15):
        return "the broker stays"
    inside = rping(lister, path, "7606", before=PID_NAMESPACE)
    lab.until(lambda: ports(lister.processes()) == [7606], 10)
    outside = rping(lister, path, "7607")
    try:
        if not lab.until(lambda: ports(lister.processes()) == [7606, 7607], 10):
            return f"with a broker within: {lister.run().stdout}"
        # It does not see up.
        unseen = [p for p in lister.processes() if "pid_of_broker_namespace" not in p]
        if ports(unseen) != [7607] or "pid" in unseen[0]:
            return f"with a broker within: {lister.processes()}"
        r = lister.run()
        if not re.search(r"^ *\? .*:7607 ", r.stdout, re.M) or "PID ?: of another" not in r.stdout:
            return f"with a broker within: {r.stdout}"
    finally:
        outside.kill()
        inside.kill()
    return None


def odd_name(lister, path):
    """A program may call itself anything; what is printed is text."""
    server = rping(lister, path, "7608", shell='name=$(printf "a\\033[2Jb\\302\\233\\377\\303\\251"); '
                                               'exec -a "$name" "$0" "$@"')
    try:
        if not lab.until(lambda: ports(lister.processes()) == [7608], 10):
            return f"does not listen: {server.output()} {lister.run().stdout}"
        said = lister.processes()[0]["command"]
        if not said.startswith("a?[2Jb???\u00e9 "):
            return f"the name is {said!r}"
        if "\033" in lister.run().stdout:
            return "an escape sequence gets through"
    finally:
        server.kill()
    return None


def narrow(lister, path):
    """On a terminal a line is no longer than that; elsewhere it is whole."""
    server = rping(lister, path, "7609")
    try:
        if not lab.until(lambda: ports(lister.processes()) == [7609], 10):
            return f"does not listen: {lister.run().stdout}"
        whole = lister.run().stdout
        if not re.search("rping -s -P -a 0.0.0.0 -p 7609$", whole, re.M):
            return f"not whole: {whole}"
        r = lister.host.run("script", "-qec", f"stty cols 76; NO_COLOR=1 {lister.weft} list",
                            "/dev/null", timeout=30)
        rows = [l.rstrip() for l in r.stdout.splitlines() if "rping" in l]
        if len(rows) != 1 or len(rows[0]) > 76 or "\033" in r.stdout:
            return f"on a terminal of 76 columns: {r.stdout!r}"
        if len(rows[0]) == len([l for l in whole.splitlines() if "rping" in l][0]):
            return f"nothing was cut: {rows}"
    finally:
        server.kill()
    return None


CASES = [
    ("no broker", no_broker),
    ("bad usage", bad_usage),
    ("a disk and its host", disk),
    ("a service by TCP alone", tcp_alone),
    ("perftest", perftest),
    ("users at root's broker", users),
    ("a user's broker", users_broker),
    ("PID namespaces", pid_namespaces),
    ("odd names", odd_name),
    ("a narrow terminal", narrow),
]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    args = p.parse_args()
    lab.enter()
    lab.need("rping", "ib_write_bw", "script")
    host, _ = lab.lab(1)
    lister = Lister(os.path.join(os.path.abspath(args.build), "weft"), host)
    report = lab.Report(args.build, "list")
    for name, work in CASES:
        report.attempt(name, lambda path, work=work: work(lister, path) if
                       lab.until(lambda: not host.has_broker(), 15) else
                       "the last case's broker stays")
    report.everything_ends([host])
    report.finish()


if __name__ == "__main__":
    main()
