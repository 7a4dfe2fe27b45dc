#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""kill -9 of the brokers in the middle of everything: nothing that runs ends, and what is new comes.

usage: brokerless.py BUILD (one | veth) [--rounds N]

Between kills run, and go on running: a target under load with verification, a churn of connections,
perftest over plain verbs, a TCP program over --sockets. After each kill, without a restart of
anything: a new connection to the target that has run all along, and a new pair of rping; what was
disconnected after a kill is told to the other side.
"""
import argparse
import glob
import json
import os
import re
import signal
import tempfile
import time

import lab

NQN = "nqn.2026-11.org.weft:brokerless"
CONNECT_SECONDS = 10
TAKEOVER_SECONDS = 5


class Load:
    """Everything that runs through the kills. name -> (program, whether it ends by itself)"""

    def __init__(self, weft, hosts, path, scratch, dev, seconds):
        target, host = hosts
        run = [weft, "run", "--", "stdbuf", "-oL"]
        disk = f"{scratch}/disk.img"
        with open(disk, "wb") as f:
            f.truncate(64 << 20)
        self.uri = f"nvme+rdma://{target.address}/{NQN}?ns=1"
        start = lambda h, name, argv: lab.Program(h, argv, f"{path}/{name}.log",
                                                  env={"WEFT_LOG": "info"})
        self.serve = start(target, "serve",
                           [weft, "serve", disk, "-l", f"rdma://{target.address}", "-n", NQN])
        lab.until(lambda: self.serve.says("nvme connect") or self.serve.status() is not None, 10)
        self.ends = {"bench": start(host, "bench", [
            weft, "bench", self.uri, "--rw", "randrw", "--verify", "--yes", "--iodepth", "8",
            "--runtime", seconds, "--size", "32M"])}
        servers = {
            "rping": [*run, "rping", "-s", "-a", target.address, "-p", "7480", "-C", "1000000000"],
            # By itself it gives up after half a second, in which a busy machine may not run its peer.
            "write": [*run, "ib_write_bw", "-u", "18", "-d", dev, "-F", "-D", seconds, "-s", "4096",
                      "-p", "7481"],
            "iperf3": [weft, "run", "--sockets", "--", "iperf3", "-s", "-1", "-p", "7482"],
        }
        self.ending = {n: start(target, f"{n}-server", argv) for n, argv in servers.items()}
        lab.until(lambda: target.listens_on_tcp(7481), 10)
        self.ending["rping"].settle()
        self.rping = start(host, "rping-client",
                           [*run, "rping", "-c", "-v", "-a", target.address, "-p", "7480",
                            "-C", "1000000000"])
        self.ends["write"] = start(host, "write-client", [
            *run, "ib_write_bw", "-u", "18", "-d", dev, "-F", "-D", seconds, "-s", "4096", "-p", "7481",
            target.address])
        self.ends["iperf3"] = start(host, "iperf3-client", [
            weft, "run", "--sockets", "--", "iperf3", "-c", target.address, "-p", "7482",
            "-t", seconds])

    def running(self):
        return {**self.ends, **self.ending, "serve": self.serve, "rping client": self.rping}

    def ended(self):
        return [n for n, p in self.running().items() if p.status() is not None]

    def stop(self):
        for p in self.running().values():
            p.kill()


def kill_brokers(hosts):
    """Kills those that run; waits for others. What went wrong, or None."""
    hosts = list(dict.fromkeys(hosts))
    old = {h: h.brokers() for h in hosts}
    for h in hosts:
        for pid in old[h]:
            os.kill(pid, signal.SIGKILL)
    for h in hosts:
        if not old[h]:
            return f"{h.name} had no broker"
        if not lab.until(lambda h=h: h.has_broker() and set(h.brokers()) - set(old[h]),
                         TAKEOVER_SECONDS):
            return f"{h.name} has no new broker after {TAKEOVER_SECONDS} s"
    return None


def new_connections(weft, load, hosts, port):
    """To the target that has run all along, and between programs that are new."""
    target, host = hosts
    r = host.run(weft, "id-ctrl", "--timeout", CONNECT_SECONDS, load.uri,
                 timeout=CONNECT_SECONDS + 10)
    if r.returncode:
        return f"a new connection to the target: {r.stderr.strip()}"
    server = lab.Program(target, [weft, "run", "--", "rping", "-s", "-a", target.address, "-p",
                                  port, "-C", "5"], f"{load.serve.log}.{port}")
    server.settle()
    r = host.run(weft, "run", "--", "rping", "-c", "-a", target.address, "-p", port, "-C", "5",
                 timeout=CONNECT_SECONDS + 10)
    status = server.wait(CONNECT_SECONDS)
    server.kill()
    return None if r.returncode == 0 and status is not None and status >= 0 else \
        f"a new rping: client {r.returncode}, server {status}: {r.stderr.strip()}"


def namespace_ends(weft, hosts, path):
    """The broker belongs to the PID namespace of its first user, as of a pod, and ends with it."""
    target, host = hosts
    rping = lambda port, *more: ["run", "--", "rping", "-s", "-a", target.address, "-p", port, *more]
    if not lab.until(lambda: not target.has_broker(), 15):
        return "the last broker does not end"
    first = lab.Program(target, ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh",
                                 "-c", " ".join([weft, *rping("7601")]) + " & sleep 2"],
                        f"{path}/first.log")
    if not lab.until(target.has_broker, 2):
        return "no broker comes up in the PID namespace"
    old = target.brokers()
    server = lab.Program(target, [weft, *rping("7602", "-C", "5")], f"{path}/server.log")
    if first.wait(10) is None or not lab.until(lambda: set(old).isdisjoint(target.brokers()), 5):
        server.kill()
        return "the first broker outlives its PID namespace"
    r = host.run(weft, "run", "--", "rping", "-c", "-a", target.address, "-p", "7602", "-C", "5",
                 timeout=CONNECT_SECONDS + 10)
    status = server.wait(CONNECT_SECONDS)
    server.kill()
    return None if r.returncode == 0 and status is not None and status >= 0 else \
        f"client {r.returncode}, server {status}: {r.stderr.strip()}"


# Brokers that are killed as they begin, one for each file; then those that are none.
STILLBORN = """#!/bin/sh
for f in {dir}/kill-*; do
    [ -e "$f" ] && rm "$f" && kill -9 $$
done
exec {weft} "$@"
"""
SERVER = """
import socket, sys
s = socket.create_server((sys.argv[1], 7700))
print("serving", flush=True)
while True:
    conn, _ = s.accept()
    conn.sendall(conn.recv(100))
    conn.close()
"""
CLIENT = """
import socket, sys
s = socket.create_connection((sys.argv[1], 7700), 15)
s.sendall(b"here")
sys.exit(s.recv(100) != b"here")
"""


def stillborn(weft, hosts, path):
    """Whoever has lost its broker goes on looking for one, though it listens only, which no other
    thread of its does anything for. As many as are tried at once, and more."""
    target, host = hosts
    path = os.path.abspath(path)  # a broker works in the root directory
    script = f"{path}/broker"
    with open(script, "w", encoding="ascii") as f:
        f.write(STILLBORN.format(dir=path, weft=weft))
    os.chmod(script, 0o755)
    if not lab.until(lambda: not target.has_broker(), 15):
        return "the last broker does not end"
    run = [weft, "run", "--sockets=only", "--", "python3", "-c"]
    server = lab.Program(target, [*run, SERVER, target.address], f"{path}/server.log",
                         env={"WEFT_BROKER": script})
    try:
        if not lab.until(lambda: server.says("serving"), 10):
            return f"no server: {server.output()}"
        for count in (1, 6):
            for n in range(count):
                with open(f"{path}/kill-{n}", "w", encoding="ascii"):
                    pass
            for pid in target.brokers():
                os.kill(pid, signal.SIGKILL)
            if not lab.until(lambda: not glob.glob(f"{path}/kill-*"), 15):
                return f"of {count} brokers not all were begun"
            r = host.run(*run, CLIENT, target.address, timeout=30)
            if r.returncode:
                return f"after {count} brokers that died as they began: {r.stderr.strip()}"
    finally:
        server.kill()
    return None


# A broker that is not to be, for which there is a file; or one with so few descriptors.
POOR = """#!/bin/sh
[ -e {dir}/none ] && exit 1
[ -e {dir}/limit ] && ulimit -n $(cat {dir}/limit)
exec {weft} "$@"
"""


def poor_broker(weft, path):
    script = f"{path}/broker"
    with open(script, "w", encoding="ascii") as f:
        f.write(POOR.format(dir=path, weft=weft))
    os.chmod(script, 0o755)
    return script


def cpu_seconds(pid):
    """Its own, and of those that it has started and that have ended."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        ticks = f.read().rsplit(")", 1)[1].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def lost(weft, hosts, path):
    """A target whose event channel is lost, because there is no other broker or that has no place for
    it: who comes by TCP notices nothing, it is told once, and the end is soon. A broker that can be
    had later has the target again."""
    target, host = hosts
    path = os.path.abspath(path)
    script = poor_broker(weft, path)
    for name, content in (("none", ""), ("limit", "12")):
        if not lab.until(lambda: not target.has_broker(), 15):
            return "the last broker does not end"
        serve = lab.Program(target, [weft, "serve", "mem:1m", "-l", f"rdma://{target.address}",
                                     "-l", f"tcp://{target.address}", "-n", NQN],
                            f"{path}/{name}.log", env={"WEFT_BROKER": script, "WEFT_LOG": "info"})
        try:
            if not lab.until(lambda: serve.says("nvme connect"), 15):
                return f"no target: {serve.output()}"
            with open(f"{path}/{name}", "w", encoding="ascii") as f:
                f.write(content)
            for pid in target.brokers():
                os.kill(pid, signal.SIGKILL)
            if not lab.until(lambda: serve.says("no RDMA host is heard"), 15):
                return f"{name}: it does not say so: {serve.output()}"
            before, used = time.monotonic(), cpu_seconds(serve.pid)
            while time.monotonic() < before + 3:
                begun = time.monotonic()
                r = host.run(weft, "id-ctrl", f"nvme+tcp://{target.address}/{NQN}", timeout=30)
                took = time.monotonic() - begun
                if r.returncode or took > 2:
                    return f"{name}: by TCP it takes {took:.1f} s: {r.stderr} (the service: {serve.status()})"
            if cpu_seconds(serve.pid) - used > 1:
                return f"{name}: it is busy doing nothing"
            if serve.output().count("no RDMA host is heard") != 1:
                return f"{name}: it is told more than once: {serve.output()}"
            if name == "none":
                os.unlink(f"{path}/{name}")
                r = host.run(weft, "id-ctrl", f"nvme+rdma://{target.address}/{NQN}", timeout=30)
                if r.returncode or "heard again" not in serve.output():
                    return f"no broker comes back: {r.stderr}{serve.output()}"
            serve.process.send_signal(signal.SIGTERM)
            if serve.wait(4) != 0:
                return f"{name}: it ends with {serve.status()}: {serve.output()}"
        finally:
            serve.kill()
    return None


def connections(weft, host, pid):
    """How many queue pairs of a process there are peers for."""
    r = host.run(weft, "stat", "-o", "json", str(pid), timeout=30)
    processes = json.loads(r.stdout)["processes"] if r.returncode == 0 else []
    return sum(q["state"] == "RTS" for p in processes for q in p["queue_pairs"])


def lost_by_host(weft, hosts, path):
    """The same of a host: it works on, sleeps between its commands, and connects again when its target
    comes anew."""
    target, host = hosts
    path = os.path.abspath(path)
    script = poor_broker(weft, path)
    if not lab.until(lambda: not target.has_broker() and not host.has_broker(), 15):
        return "the last broker does not end"
    with open(f"{path}/disk", "wb") as f:
        f.truncate(1 << 20)
    serve = [weft, "serve", f"{path}/disk", "-l", f"rdma://{target.address}", "-n", NQN]
    env = {"WEFT_BROKER": script, "WEFT_LOG": "info"}
    served = lab.Program(target, serve, f"{path}/serve.log", env=env)

    def load(name, seconds):
        return lab.Program(host, [weft, "bench", f"nvme+rdma://{target.address}/{NQN}", "--rate-iops=20",
                                  f"--runtime={seconds}", "-k", "3", "-o", "json"], f"{path}/{name}.log", env=env)

    benches = []
    try:
        if not lab.until(lambda: served.says("ready"), 15):
            return f"no target: {served.output()}"
        benches = [load("short", 8), load("long", 20)]
        # Each with its queue for I/O: who is still about to connect may as well give up.
        if not lab.until(lambda: connections(weft, target, served.pid) == 4, 15):
            return f"no hosts: {served.output()}"
        with open(f"{path}/none", "w", encoding="ascii"):
            pass
        for pid in {*target.brokers(), *host.brokers()}:
            os.kill(pid, signal.SIGKILL)
        time.sleep(1)
        used = cpu_seconds(benches[1].pid)
        time.sleep(3)
        used = cpu_seconds(benches[1].pid) - used
        if used > 0.75:
            return f"it is busy doing nothing: {used:.1f} s of 3"
        if benches[0].wait(30) != 0:
            return f"it fails: {benches[0].output()}"
        done = int(re.search(r'"total_ios": (\d+)', benches[0].output())[1])
        if done < 120:
            return f"it stands still: {done} commands of 160"
        os.unlink(f"{path}/none")
        served.kill()
        served = lab.Program(target, serve, f"{path}/again.log", env=env)
        if benches[1].wait(60) != 0 or not served.says("connected:"):
            return f"it does not come back: {benches[1].output()}{served.output()}"
    finally:
        for p in (served, *benches):
            p.kill()
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", choices=["one", "veth"])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only-lost", action="store_true", help="of an event channel that is lost, and no more")
    args = p.parse_args()
    lab.enter()
    lab.need("rping", "ib_write_bw", "iperf3")
    weft = os.path.join(os.path.abspath(args.build), "weft")
    hosts = lab.lab(1 if args.where == "one" else 2)
    dev = "weft_lo" if args.where == "one" else "weft_eth0"
    report = lab.Report(args.build, f"brokerless-{args.where}")
    if args.only_lost:
        for case in lost, lost_by_host:
            report.attempt(f"an event channel is {case.__name__.replace('_', ' ')}",
                           lambda path, case=case: case(weft, hosts, path))
        report.everything_ends(hosts)
        report.finish()
        return
    seconds = 4 + 4 * args.rounds
    path = report.case("load")
    scratch = tempfile.TemporaryDirectory()
    load = Load(weft, hosts, path, scratch.name, dev, seconds)
    time.sleep(2)
    fault = f"ended before anything was done: {load.ended()}" if load.ended() else None
    kills = dict.fromkeys(load.running(), 0)  # that each lived through: slow rounds outlast some
    for n in range(args.rounds):
        begun = time.monotonic()
        fault = fault or kill_brokers(hosts) or new_connections(weft, load, hosts, str(7500 + n))
        time.sleep(max(0, 2 - (time.monotonic() - begun)))
        ended = load.ended()
        for name in kills:
            kills[name] += name not in ended
        gone = [n for n in ended if n not in load.ends]
        if not fault and gone:
            fault = f"ended after a kill: {gone}"
    if not fault:
        # Those told to end do so in good order; the other side of rping hears of it.
        for name, program in load.ends.items():
            status = program.wait(seconds + 30)
            if status != 0:
                fault = fault or f"{name} ended with status {status}"
        load.rping.kill()
        if load.ending["rping"].wait(20) is None:
            fault = fault or "rping's server is not told that its client has gone"
        load.serve.process.send_signal(signal.SIGTERM)
        if load.serve.wait(10) != 0:
            fault = fault or f"serve ends with {load.serve.status()}"
        # However busy it is with packets.
        for name, program in load.running().items():
            said = program.output().count("goes on")
            if not fault and (said < kills[name] or kills[name] < args.rounds / 2):
                fault = f"{name} says {said} times that another broker goes on, {kills[name]} did"
        for p in (load.serve, load.ending["write"]):
            if not fault and re.search(r"lost [1-9]", p.output()):
                fault = f"{p.log} has lost something"
    load.stop()
    for name, case in (("the first user's PID namespace ends", namespace_ends),
                       ("brokers die as they begin", stillborn),
                       ("an event channel is lost", lost),
                       ("an event channel is lost by a host", lost_by_host)):
        report.attempt(name, lambda path, case=case: case(weft, hosts, path))
    left = [f"{h.name}: {line}" for h in dict.fromkeys(hosts) for line in h.close()]
    if not fault and left:
        fault = f"left behind: {left}"
    if fault:
        report.fail("load", path, fault)
    else:
        report.ok("load", path, f"{args.rounds} kills")
    report.finish()


if __name__ == "__main__":
    main()
