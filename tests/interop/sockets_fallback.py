#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A program under `weft run --sockets` among hosts that know nothing of weft: it cannot tell.

usage: sockets_fallback.py BUILD HELPERS (one | veth) [--only REGEX]

What a program sees of its connections is compared with what the same program sees on plain TCP,
and the time that it takes is bounded.
"""
import argparse
import contextlib
import re
import tempfile
import time

import lab
from sockets_bench import Bench, Failed, expect

REDIS = "/usr/bin/redis-check-rdb"  # the server, by whichever name; redis-tools has it
PORT, NOBODY = 7000, 7001
SOCKETS = ("--sockets",)

SERVER = f"""
import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128
with Server((sys.argv[1], {PORT}), Echo) as server:
    print("serving", flush=True)
    server.serve_forever()
"""

# One line for each call's answer, and "took SECONDS" for each connection.
CLIENT = """
import errno, select, signal, socket, sys, time
TO, PORT, HOW = sys.argv[1], int(sys.argv[2]), sys.argv[3]
name = lambda rc: errno.errorcode.get(rc, rc)
def connect(s):
    rc = s.connect_ex((TO, PORT))
    print("connect", name(rc), flush=True)
    return rc
def echo(s):
    s.setblocking(True)
    try:
        s.sendall(b"hello")
        print("echo", s.recv(5, socket.MSG_WAITALL), s.getpeername(), flush=True)
    except OSError as e:
        print("no echo:", name(e.errno), flush=True)
def wait(s, poller):
    if HOW == "select":
        r, w, x = select.select([s], [s], [s], 10)
        print("select", bool(r), bool(w), bool(x), flush=True)
    elif HOW == "epoll":
        print("epoll", [hex(e) for _, e in poller.poll(10)], flush=True)
    else:
        print("poll", [hex(e) for _, e in poller.poll(10000)], flush=True)
def blocking(s):
    for i in range(3):
        connect(s)
    echo(s)
def nonblocking(s):
    poller = select.epoll() if HOW == "epoll" else select.poll()
    poller.register(s, select.POLLOUT)
    s.setblocking(False)
    if connect(s) == errno.EINPROGRESS:
        wait(s, poller)
    if HOW == "error":
        print("SO_ERROR", name(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), flush=True)
    for i in range(4):
        if connect(s) == errno.EINPROGRESS:
            wait(s, poller)
    echo(s)
def interrupted(s):
    # connect() ends with EINTR, and the connection comes about.
    signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        rc = s.connect_ex((TO, PORT))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except ZeroDivisionError:
        pass
    poller = select.poll()
    poller.register(s, select.POLLOUT)
    print("poll", [hex(e) for _, e in poller.poll(10000)], flush=True)
    echo(s)
for i in range(3):
    begun = time.monotonic()
    with socket.socket() as s:
        {"block": blocking, "interrupt": interrupted}.get(HOW, nonblocking)(s)
    print(f"took {time.monotonic() - begun:.3f}", flush=True)
"""
HOWS = ("block", "poll", "select", "epoll", "error", "interrupt")


class Fallback(Bench):
    def plain_server(self, path):
        return self.serve(path, "server", "serving", "python3", "-c", SERVER, self.to)

    def client_says(self, path, how, port, weft):
        argv = ["python3", "-c", CLIENT, self.to, port, how]
        out = self.ask(path, f"{how}-{port}-{'weft' if weft else 'tcp'}",
                       *(self.argv(SOCKETS, *argv) if weft else argv))
        took = [float(t) for t in re.findall(r"took ([\d.]+)", out)]
        return re.sub(r"took [\d.]+\n", "", out), took


@contextlib.contextmanager
def filtered(host, what):
    """What comes there for RDMA is dropped, or refused otherwise than by a closed port."""
    rules = ("add table inet t; add chain inet t in { type filter hook input priority 0; }; "
             f"add rule inet t in udp dport 4791 {what}")
    r = host.run("nft", rules)
    if r.returncode:
        raise Failed(f"nft: {r.stderr}")
    try:
        yield
    finally:
        host.run("nft", "delete table inet t")


def no_broker(b):
    """Whatever was remembered of the other host is forgotten with it."""
    expect(lab.until(lambda: not b.server.has_broker() and not b.client.has_broker(), 30),
           "a broker without clients does not end")


def same_as_tcp(how):
    """The first connection may take a moment, the others none."""
    def run(b, path):
        no_broker(b)
        server = b.plain_server(path)
        try:
            # Whether a refusal or the signal is first is chance.
            for port in (PORT,) if how == "interrupt" else (PORT, NOBODY):
                tcp, _ = b.client_says(path, how, port, False)
                weft, took = b.client_says(path, how, port, True)
                expect(weft == tcp, f"port {port}: with weft\n{weft}instead of\n{tcp}")
                expect(took[0] < 3, f"the first took {took[0]} s")
                expect(min(took[1:]) < 0.25 and max(took) < 3, f"later ones took {took[1:]} s")
        finally:
            server.kill()
    return run


def unanswered(what, how="block"):
    def run(b, path):
        with filtered(b.server, what):
            same_as_tcp(how)(b, path)
    return run


def redis(b, path):
    no_broker(b)
    server = b.serve(path, "server", "Ready to accept", "bash", "-c",
                     f'cd {b.scratch}; exec -a redis-server {REDIS} "$@"', "redis",
                     "--port", "6379", "--bind", b.to, "--protected-mode", "no", "--save", "")
    try:
        for _ in range(2):
            out = b.ask(path, "ping", *b.argv(SOCKETS, "redis-cli", "-h", b.to, "ping"),
                        timeout=10)
            expect("PONG" in out, f"redis-cli says {out}")
        out = b.ask(path, "bench", *b.argv(SOCKETS, "redis-benchmark", "-h", b.to, "-t", "get",
                                           "-n", "1000", "-c", "20", "--csv"), timeout=20)
        expect('"GET"' in out, f"redis-benchmark says {out}")
    finally:
        server.kill()


UNTIL = """
import errno, socket, sys, time
s = socket.socket()
print("asking", flush=True)
while rc := s.connect_ex((sys.argv[1], int(sys.argv[2]))):
    assert rc == errno.ECONNREFUSED, errno.errorcode[rc]
    time.sleep(0.05)
s.sendall(b"hello")
print(s.recv(5, socket.MSG_WAITALL))
"""


def until_there(how):
    """Who is refused tries again with the same number until somebody listens."""
    def run(b, path):
        no_broker(b)
        client = lab.Program(b.client, b.argv(SOCKETS, "python3", "-c", UNTIL, b.to, str(PORT)),
                             f"{path}/client.log")
        try:
            expect(lab.until(lambda: client.says("asking"), 15), "the client does not begin")
            time.sleep(0.5)
            argv = ("python3", "-c", SERVER, b.to)
            server = b.serve(path, "server", "serving", *(b.argv(how, *argv) if how else argv))
            try:
                expect(client.wait(15) == 0 and client.says("hello"),
                       f"the client ended with {client.status()}")
            finally:
                server.kill()
        finally:
            client.kill()
    return run


LATE = f"""
import socket, sys, time
listener = socket.create_server((sys.argv[1], {PORT}))
print("serving", flush=True)
while True:
    time.sleep(0.6)
    conn, _ = listener.accept()
    with conn:
        conn.sendall(conn.recv(5, socket.MSG_WAITALL))
"""
ASK = f"""
import socket, sys
with socket.create_connection((sys.argv[1], {PORT})) as s:
    s.sendall(b"hello")
    print(s.recv(5, socket.MSG_WAITALL))
"""


def slow(b, path):
    """A peer that is there but slow is waited for: no TCP."""
    no_broker(b)
    server = b.serve(path, "server", "serving",
                     *b.argv(SOCKETS, "python3", "-c", LATE, b.to))
    try:
        before = b.tcp()
        for i in range(5):
            out = b.ask(path, f"client-{i}", *b.argv(SOCKETS, "python3", "-c", ASK, b.to))
            expect("hello" in out, f"the client says {out}")
        expect(b.tcp() == before, "it went over TCP")
    finally:
        server.kill()


def weft_comes(b, path):
    """Where there was no weft, and now is: as soon as anything is heard from there."""
    no_broker(b)
    keeper = lab.Program(b.client, [b.weft, "broker", "-f"], f"{path}/broker")
    try:
        expect(lab.until(b.client.has_broker, 10), "no broker")
        server = b.plain_server(path)
        with filtered(b.server, "drop"):
            b.ask(path, "before", *b.argv(SOCKETS, "python3", "-c", ASK, b.to))
        server.kill()
        server = b.serve(path, "weft-server", "serving",
                         *b.argv(SOCKETS, "python3", "-c", LATE, b.to))
        try:
            before = b.tcp()
            b.ask(path, "remembered", *b.argv(SOCKETS, "python3", "-c", ASK, b.to))
            expect(b.tcp() > before, "it is not remembered that nobody was there")
            # Refused, but from there.
            lab.Program(b.server, b.argv(SOCKETS, "python3", "-c", ASK, b.client.address),
                        f"{path}/back").wait(20)
            before = b.tcp()
            b.ask(path, "after", *b.argv(SOCKETS, "python3", "-c", ASK, b.to))
            expect(b.tcp() == before, "it goes on by TCP")
        finally:
            server.kill()
    finally:
        keeper.process.terminate()
        expect(keeper.wait(10) == 0, f"the broker ended with {keeper.status()}")


def cases(where):
    for how in HOWS:
        yield f"a host without weft: {how}", same_as_tcp(how)
    if where == "veth":
        yield "a host that answers nothing", unanswered("drop")
        yield "a host that answers nothing: interrupt", unanswered("drop", "interrupt")
        yield "a host that forbids it", unanswered("reject with icmp type admin-prohibited")
        yield "weft comes later", weft_comes
    yield "redis without weft", redis
    yield "until somebody listens, without weft", until_there(())
    yield "until somebody listens, with weft", until_there(SOCKETS)
    yield "a server that is slow, with weft", slow


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("where", choices=("one", "veth"))
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    lab.need("redis-cli", "redis-benchmark", "python3", "bash", "nft")
    report = lab.Report(args.build, f"sockets-fallback-{args.where}")
    with tempfile.TemporaryDirectory() as scratch:
        b = Fallback(args.build, args.helpers, 1 if args.where == "one" else 2, scratch)
        for name, run in cases(args.where):
            if re.search(args.only, name):
                report.prove(name, lambda path, run=run: run(b, path))
        report.everything_ends((b.server, b.client))
    report.finish()


main()
