# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What is measured: one run of a program of the field on one build of weft, over loopback in a
network namespace of its own, gives one figure."""
import json
import os
import re
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "interop"))
sys.dont_write_bytecode = True
import lab  # noqa: E402

TO = "127.0.0.1"
NQN = "nqn.2026-11.org.weft:bench"
REDIS = "/usr/bin/redis-check-rdb"  # the server, by whichever name; redis-tools has it
TCP = ()


def say_load():
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"note: other programs are running (load average {load:.1f}); what follows is "
              f"measured beside them", flush=True)


class Rdma:
    """Programs on verbs."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.host, _ = lab.lab(1)
        self.logs = tempfile.TemporaryDirectory()
        self.memory = tempfile.TemporaryDirectory(dir="/dev/shm")
        info = self.host.run(*self.weft("ibv_devinfo", "-v", "-d", "weft_lo"))
        gid = re.search(r"GID\[\s*(\d+)\]:\s*::ffff:127\.0\.0\.1", info.stdout)
        if not gid:
            sys.exit(f"bench: no device weft_lo with 127.0.0.1:\n{info.stdout}{info.stderr}")
        self.device = ["-d", "weft_lo", "-x", gid[1]]

    def weft(self, *argv):
        return [os.path.join(self.build, "weft"), "run", "--", *argv]

    def raw(self, program, *args):
        r = self.host.run(os.path.join(self.build, "bench", program), *args)
        if r.returncode == 77:
            lab.skip(r.stdout.strip().removeprefix("SKIP: "))
        if r.returncode:
            sys.exit(f"bench: {program}: {r.stderr}")
        return r.stdout

    def perftest(self, column, *argv):
        """One run of server and client; the figure in a column of the last line of the table."""
        log = os.path.join(self.logs.name, "perftest")
        argv = self.weft(*argv, *self.device, "-F")
        server = lab.Program(self.host, argv, log + "-server")
        try:
            if not lab.until(lambda: self.host.listens_on_tcp(18515), 10):
                sys.exit(f"bench: the server does not come up:\n{server.output()}")
            client = lab.Program(self.host, [*argv, "127.0.0.1"], log + "-client")
            status = client.wait(120)
            client.kill()
            lines = [l.split() for l in client.output().splitlines() if re.match(r"\s*\d+\s+\d+\s", l)]
            if status or not lines:
                sys.exit(f"bench: {' '.join(argv)} ended with {status}:\n{client.output()}")
            server.wait(10)
            return float(lines[-1][column])
        finally:
            server.kill()

    def nvme(self, *options):
        """Random reads of a target with a file in memory: commands per second."""
        weft = os.path.join(self.build, "weft")
        image = os.path.join(self.memory.name, "image")
        with open(image, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, 256 << 20)
        server = lab.Program(self.host, [weft, "serve", image, "--nqn", NQN, "--listen",
                                         f"rdma://{TO}:4420"],
                             os.path.join(self.logs.name, "serve"))
        try:
            if not lab.until(lambda: server.says("ready"), 10):
                sys.exit(f"bench: weft serve does not come up:\n{server.output()}")
            r = self.host.run(weft, "bench", f"nvme+rdma://{TO}/{NQN}", "-o", "json", "--runtime",
                              "2", *options)
            if r.returncode:
                sys.exit(f"bench: weft bench {' '.join(options)}: {r.stderr}")
            return json.loads(r.stdout)["read"]["iops"]
        finally:
            server.kill()

    def close(self):
        self.host.close()
        self.logs.cleanup()
        self.memory.cleanup()


class Sockets:
    """TCP programs: over `weft run --sockets`, or the kernel's TCP by TCP for how."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.rdma = (os.path.join(self.build, "weft"), "run", "--sockets=only", "--")
        self.host, _ = lab.lab(1)
        self.scratch = tempfile.TemporaryDirectory()

    def path(self, name):
        return os.path.join(self.scratch.name, name)

    def serve(self, ready, *argv):
        server = lab.Program(self.host, argv, self.path("server"))
        if not lab.until(lambda: server.says(ready), 15):
            sys.exit(f"bench: the server does not come up:\n{server.output()}")
        return server

    def ask(self, *argv):
        r = self.host.run(*argv, timeout=120)
        if r.returncode:
            sys.exit(f"bench: {' '.join(argv)} ended with {r.returncode}:\n{r.stdout}{r.stderr}")
        return r.stdout

    def iperf3(self, how):
        server = self.serve("Server listening", *how, "iperf3", "--forceflush", "-s", "-1")
        try:
            out = json.loads(self.ask(*how, "iperf3", "-c", TO, "-t", "2", "-J"))
            return out["end"]["sum_received"]["bits_per_second"] / 1e6
        finally:
            server.kill()

    def connects(self, how, threads, requests):
        program = os.path.join(self.build, "bench", "connects")
        server = self.serve("serving", *how, program, "serve", TO, "7000")
        try:
            return float(self.ask(*how, program, "ask", TO, "7000", str(requests), str(threads)))
        finally:
            server.kill()

    def redis(self, how, clients, requests):
        server = self.serve("Ready to accept", *how, "bash", "-c",
                            f'cd {self.scratch.name}; exec -a redis-server {REDIS} "$@"', "redis",
                            "--port", "6379", "--bind", TO, "--protected-mode", "no", "--save", "")
        try:
            out = self.ask(*how, "redis-benchmark", "-h", TO, "-t", "get", "-n", str(requests),
                           "-c", str(clients), "--csv")
            return float(re.search(r'"GET","([\d.]+)"', out)[1])
        finally:
            server.kill()

    def close(self):
        self.host.close()
        self.scratch.cleanup()
