#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Devices of iWARP beside those of RoCE: which there are, and who is reached by which.

usage: iwarp.py BUILD
"""
import json
import os
import signal
import socket
import struct
import sys

import lab

NQN = "nqn.2026-11.org.weft:kinds"
PORT = 4477


class Bench:
    def __init__(self, build):
        self.weft = os.path.abspath(os.path.join(build, "weft"))
        self.server, self.client = lab.lab(2)
        self.report = lab.Report(build, "iwarp")

    def on(self, host, devices, *argv, **kwargs):
        return host.run("env", f"WEFT_DEVICES={devices}", self.weft, *argv, **kwargs)

    def devices(self, path):
        """Their names, in the order that was asked for; and what nobody knows is told."""
        for kinds, wanted in (("", ["weft_eth0", "weft_lo"]), ("roce", ["weft_eth0", "weft_lo"]),
                              ("iwarp", ["weft_iw_eth0", "weft_iw_lo"]),
                              ("roce,iwarp", ["weft_eth0", "weft_lo", "weft_iw_eth0", "weft_iw_lo"]),
                              ("iwarp,roce", ["weft_iw_eth0", "weft_iw_lo", "weft_eth0", "weft_lo"])):
            r = self.on(self.client, kinds, "run", "--", "ibv_devices")
            seen = [line.split()[0] for line in r.stdout.splitlines() if "weft_" in line]
            assert seen == wanted, f"{kinds!r}: {seen}"
        r = self.on(self.client, "roce,opa", "run", "--", "ibv_devices")
        assert "'opa' is unknown: roce, iwarp" in r.stderr, r.stderr
        r = self.on(self.client, "", "run", "--devices", "opa", "ibv_devices")
        assert r.returncode == 2 and "roce, iwarp, or both" in r.stderr, r.stderr
        r = self.on(self.client, "roce", "run", "--devices", "iwarp", "ibv_devinfo")
        assert "iWARP" in r.stdout and "InfiniBand" not in r.stdout, r.stdout

    def one_service(self, path):
        """weft serve at one address, with hosts of both kinds at a time."""
        image = f"{path}/disk.img"
        with open(image, "wb") as f:
            f.truncate(4 << 20)
        serve = lab.Program(self.server, ["env", "WEFT_DEVICES=roce,iwarp", self.weft, "serve", image, "--nqn",
                                          NQN, "--listen", f"rdma://{self.server.address}:{PORT}"],
                            f"{path}/serve.log")
        try:
            assert lab.until(lambda: serve.says("ready"), 10), "the target is not ready"
            uri = f"nvme+rdma://{self.server.address}:{PORT}/{NQN}?ns=1"
            source, back = f"{path}/source", f"{path}/back"
            with open(source, "wb") as f:
                f.write(os.urandom(1 << 20))
            for out, home in (("roce", "iwarp"), ("iwarp", "roce"), ("iwarp", "iwarp")):
                for kind, words in ((out, (source, uri)), (home, ("--size", "1M", uri, back))):
                    r = self.on(self.client, kind, "cp", *words)
                    assert r.returncode == 0, f"{kind}: {r.stderr}"
                with open(source, "rb") as a, open(back, "rb") as b:
                    assert a.read() == b.read(), f"what {out} wrote is not what {home} read"
                os.unlink(back)
            for kinds, wanted, seen in (("", "iwarp", "iWARP"), ("iwarp", "roce", "RC"),
                                        ("roce,iwarp", "iwarp", "iWARP")):
                self.chosen(path, serve, kinds, f"{uri}&transport={wanted}", [f"{seen} RTS"] * 2)
            serve.process.send_signal(signal.SIGTERM)
            assert serve.wait(10) == 0, serve.status()
        finally:
            serve.kill()

    def chosen(self, path, serve, kinds, uri, wanted):
        """The URI says more than WEFT_DEVICES."""
        bench = lab.Program(self.client, ["env", f"WEFT_DEVICES={kinds}", self.weft, "bench", uri, "--runtime", "60"],
                            f"{path}/chosen.log")
        try:
            assert lab.until(lambda: self.queue_pairs(serve) == wanted, 15), \
                f"{kinds} {uri}: {self.queue_pairs(serve)}: {bench.output()[-300:]}"
        finally:
            bench.kill()

    def a_port_of_tcp(self, path):
        """What TCP has already iWARP cannot have, and says so; RoCE has ports of its own."""
        holder = lab.Program(self.server, ["python3", "-c", "import socket, time; s = socket.create_server("
                                           f"('{self.server.address}', {PORT})); print('listens', flush=True); "
                                           "time.sleep(60)"], f"{path}/holder.log")
        try:
            assert lab.until(lambda: holder.says("listens"), 10), "the port is not held"
            r = self.on(self.server, "iwarp", "serve", "mem:1M", "--nqn", NQN, "--listen",
                        f"rdma://{self.server.address}:{PORT}", timeout=20)
            assert r.returncode == 1 and f"port {PORT} of {self.server.address} is in use" in r.stderr, r.stderr
        finally:
            holder.kill()

    def queue_pairs(self, process):
        """Type and state of each, as weft stat has them."""
        r = self.server.run(self.weft, "stat", "-o", "json", process.pid, timeout=30)
        return [f"{q['type']} {q['state']}" for p in json.loads(r.stdout)["processes"]
                for q in p["queue_pairs"]] if r.returncode == 0 else r.stderr

    def killed(self, path):
        """A process that dies leaves nothing behind: its peer is told, and its port is free."""
        disk = f"{path}/disk"  # which the next one serves, too
        with open(disk, "wb") as f:
            f.truncate(1 << 20)
        serve = ["env", "WEFT_DEVICES=iwarp", self.weft, "serve", disk, "--nqn", NQN, "--listen",
                 f"rdma://{self.server.address}:{PORT}"]
        uri = f"nvme+rdma://{self.server.address}:{PORT}/{NQN}?ns=1"
        first = lab.Program(self.server, serve, f"{path}/first.log")
        bench = second = None
        try:
            assert lab.until(lambda: first.says("ready"), 10), "the target is not ready"
            bench = lab.Program(self.client, ["env", "WEFT_DEVICES=iwarp", self.weft, "bench", uri, "--runtime",
                                              "4", "--ctrl-loss-tmo", "30", "--reconnect-delay", "1"],
                                f"{path}/bench.log")
            # With its queue for I/O: one that comes up for the first time gives up.
            assert lab.until(lambda: self.queue_pairs(first) == ["iWARP RTS"] * 2, 15), self.queue_pairs(first)
            first.process.kill()
            first.wait(10)
            second = lab.Program(self.server, serve, f"{path}/second.log")
            assert lab.until(lambda: second.says("ready"), 10), "the port is not free"
            assert lab.until(lambda: second.says("connected:"), 20), "the host has not come back"
            assert bench.wait(30) == 0, bench.output()[-300:]
        finally:
            for p in (first, second, bench):
                if p:
                    p.kill()


    def port_mapper(self, path):
        """Who listens by iWARP is found by those who ask iwpmd's way (iwarp_pm.h), and by them alone
        where the program has the port of TCP itself."""
        def ask(address, port):
            """Type and port of what is answered; None: there is no mapper."""
            request = struct.pack(">BBHHHQ16s16s16s", 4, 0, 0, port, 1, 0x1122334455667788,
                                  socket.inet_aton(self.client.address), socket.inet_aton(address), b"")
            code = ("import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                    "s.settimeout(5); s.connect((sys.argv[1], 3935)); s.send(bytes.fromhex(sys.argv[2])); "
                    "print(s.recv(100).hex())")
            r = self.client.run("python3", "-c", code, address, request.hex(), timeout=20)
            if r.returncode:
                assert "ConnectionRefusedError" in r.stderr, r.stderr
                return None
            answer = bytes.fromhex(r.stdout.strip())
            assert len(answer) == 48 and answer[6:48] == request[6:48], r.stdout
            return answer[0] >> 4, struct.unpack(">H", answer[4:6])[0]

        accept, reject = 1, 3
        assert ask(self.server.address, PORT) is None, "there is a mapper where nobody listens by iWARP"
        target = lab.Program(self.server, ["env", "WEFT_DEVICES=roce,iwarp", self.weft, "serve", "mem:1M", "--nqn",
                                           NQN, "--listen", f"rdma://{self.server.address}:{PORT}"],
                             f"{path}/target.log")
        plain = beside = None
        try:
            assert lab.until(lambda: target.says("ready"), 10), "the target is not ready"
            assert ask(self.server.address, PORT) == (accept, PORT)
            assert ask(self.server.address, PORT + 1) == (reject, PORT + 1)

            web = ["python3", "-u", "-m", "http.server", "-d", path, "--bind", self.server.address]
            beside = lab.Program(self.server, ["env", "WEFT_DEVICES=iwarp", self.weft, "run", "--sockets", "--",
                                               *web, "8000"], f"{path}/beside.log")
            assert lab.until(lambda: beside.says("Serving"), 10), beside.output()
            answer = ask(self.server.address, 8000)
            assert answer and answer[0] == accept and answer[1] not in (0, 8000), answer
            listed = self.server.run(self.weft, "list").stdout
            assert f"{self.server.address}:8000 " in listed, listed
            get = ["python3", "-c", "import urllib.request as u, sys; print(u.urlopen(sys.argv[1]).status)"]
            r = self.on(self.client, "iwarp", "run", "--sockets=only", "--", *get, f"http://{self.server.address}:8000/")
            assert r.stdout.strip() == "200", r.stderr
            r = self.client.run(*get, f"http://{self.server.address}:8000/")
            assert r.stdout.strip() == "200", r.stderr

            # Another broker in the place of one that is killed goes on with it.
            for pid in self.server.brokers():
                os.kill(pid, signal.SIGKILL)
            assert lab.until(lambda: ask(self.server.address, PORT) == (accept, PORT), 10)
            assert lab.until(lambda: ask(self.server.address, 8000) == answer, 10)

            # A server that knows nothing of RDMA hears nothing of it.
            plain = lab.Program(self.server, [*web, "8001"], f"{path}/plain.log")
            assert lab.until(lambda: plain.says("Serving"), 10), plain.output()
            r = self.on(self.client, "iwarp", "run", "--sockets", "--", *get, f"http://{self.server.address}:8001/")
            assert r.stdout.strip() == "200", r.stderr
            assert plain.output().count('"') == 2, f"it heard more than one request: {plain.output()}"
        finally:
            for p in (target, beside, plain):
                if p:
                    p.kill()


def main():
    build = sys.argv[1]
    lab.enter()
    b = Bench(build)
    b.report.prove("devices of each kind", b.devices)
    b.report.prove("one service, hosts of both kinds", b.one_service)
    b.report.prove("a port that TCP has", b.a_port_of_tcp)
    b.report.prove("a target that is killed", b.killed)
    b.report.prove("a port mapper", b.port_mapper)
    b.report.everything_ends((b.server, b.client))
    b.report.finish()


if __name__ == "__main__":
    main()
