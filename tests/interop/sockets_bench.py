# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Two hosts, a file to move between them, and what the tests of `weft run --sockets` ask of both."""
import contextlib
import hashlib
import os

import lab

FILE_BYTES = 20_000_000


class Failed(AssertionError):
    pass


def expect(condition, why):
    if not condition:
        raise Failed(why)


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Bench:
    def __init__(self, build, helpers, hosts, scratch):
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.helpers = os.path.abspath(helpers)
        self.server, self.client = lab.lab(hosts)
        self.to = self.server.address
        self.scratch = scratch
        self.blob = os.path.join(scratch, "blob")
        with open(self.blob, "wb") as f:
            f.write(os.urandom(FILE_BYTES))

    def tcp(self):
        """Segments sent and connections opened, of both namespaces."""
        total = 0
        for host in {self.server, self.client}:
            names, values = [l.split()[1:] for l in host.read("snmp").splitlines()
                             if l.startswith("Tcp:")]
            counters = dict(zip(names, map(int, values)))
            total += counters["OutSegs"] + counters["ActiveOpens"]
        return total

    def argv(self, how, *words):
        return [self.weft, "run", *how, "--", *words]

    def serve(self, path, name, ready, *argv):
        program = lab.Program(self.server, argv, f"{path}/{name}.log")
        if not lab.until(lambda: program.says(ready) or program.status() is not None, 15) \
                or program.status() is not None:
            program.kill()
            raise Failed(f"{name} does not come up: {program.output()[-300:]}")
        return program

    def ask(self, path, name, *argv, timeout=60, status=0):
        program = lab.Program(self.client, argv, f"{path}/{name}.log")
        try:
            expect(program.wait(timeout) is not None, f"{name} still runs after {timeout} s")
            expect(program.status() == status, f"{name} ended with {program.status()}")
            return program.output()
        finally:
            program.kill()


ONLY = ("--sockets=only",)


@contextlib.contextmanager
def brokers(b, path):
    """On both hosts, so that who asks there in vain by RDMA alone is refused: without one it takes a
    minute to see that nobody answers."""
    expect(lab.until(lambda: not b.server.has_broker() and not b.client.has_broker(), 30),
           "a broker without clients does not end")
    started = [lab.Program(h, [b.weft, "broker", "-f"], f"{path}/broker-{h.name}")
               for h in {b.server, b.client}]
    try:
        expect(lab.until(lambda: b.server.has_broker() and b.client.has_broker(), 10), "no broker")
        yield
    finally:
        for broker in started:
            broker.process.terminate()
            expect(broker.wait(10) == 0, f"a broker ended with {broker.status()}")
