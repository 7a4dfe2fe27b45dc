#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""TCP programs of the field over RDMA, by `weft run --sockets` and by Debian's librspreload.

usage: sockets.py BUILD HELPERS (one | veth) [--devices iwarp] [--only REGEX]

With --sockets=only nothing may have gone by TCP: the kernel's own counters of the namespaces say
so after every case, whatever the programs believe. On devices of iWARP, where all goes by TCP,
--sockets=only has to suffice for that.
"""
import argparse
import glob
import os
import re
import signal
import tempfile
import time

import lab
from sockets_bench import FILE_BYTES, ONLY, Bench, brokers, digest, expect

REDIS = "/usr/bin/redis-check-rdb"  # the server, by whichever name; redis-tools has it


def nc(b, path):
    got = os.path.join(b.scratch, "got")
    server = b.serve(path, "server", "Listening", "sh", "-c",
                     f'exec "$@" > {got}', "sh", *b.argv(ONLY, "nc", "-n", "-v", "-l", b.to, "9000"))
    try:
        b.ask(path, "client", "sh", "-c", f'exec "$@" < {b.blob}', "sh",
              *b.argv(ONLY, "nc", "-n", "-N", b.to, "9000"))
        expect(server.wait(15) == 0, f"the server ended with {server.status()}")
    finally:
        server.kill()
    with open(b.blob, "rb") as f, open(got, "rb") as g:
        expect(digest(f.read()) == digest(g.read()), "what arrived is not what was sent")


def iperf(options, how=ONLY, prefix=()):
    def run(b, path):
        server = b.serve(path, "server", "Server listening",
                         *b.argv(how, *prefix, "iperf3", "--forceflush", "-s", "-1"))
        try:
            out = b.ask(path, "client", *b.argv(how, *prefix, "iperf3", "-c", b.to, *options))
            expect("iperf Done." in out, "the client is not done")
            rates = re.findall(r"([\d.]+) [KMG]?bits/sec.*(?:sender|receiver)", out)
            expect(len(rates) >= 2 and all(float(r) > 0 for r in rates), f"rates: {rates}")
            expect(server.wait(15) == 0, f"the server ended with {server.status()}")
        finally:
            server.kill()
    return run


def redis(b, path):
    server = b.serve(path, "server", "Ready to accept", *b.argv(
        ONLY, "bash", "-c", f'cd {b.scratch}; exec -a redis-server {REDIS} "$@"', "redis",
        "--port", "6379", "--bind", b.to, "--protected-mode", "no", "--save", ""))
    try:
        cli = lambda *words, **kw: b.ask(path, words[0], *b.argv(
            ONLY, "redis-cli", "-h", b.to, *words), **kw)
        out = b.ask(path, "benchmark", *b.argv(
            ONLY, "redis-benchmark", "-h", b.to, "-t", "set,get", "-n", "20000", "-c", "50",
            "--csv"))
        expect(re.search(r'"SET","[\d.]+"', out) and re.search(r'"GET","[\d.]+"', out),
               "no figures")
        with open(b.blob, "rb") as f:
            text = f.read(1_000_000).hex()
        with open(f"{b.scratch}/text", "w", encoding="ascii") as f:
            f.write(text)
        expect("OK" in b.ask(path, "put", "sh", "-c", f'exec "$@" < {b.scratch}/text', "sh",
                             *b.argv(ONLY, "redis-cli", "-h", b.to, "-x", "set", "blob")), "set")
        expect(cli("get", "blob").strip().strip('"') == text, "redis gives other data back")
        # A child of the server that has nothing to do with its connections.
        cli("bgsave")
        expect(lab.until(lambda: server.says("DB saved"), 10), "no background save")
        expect("PONG" in cli("ping"), "no answer after a fork")
        cli("shutdown", "nosave")
        expect(server.wait(15) == 0, f"the server ended with {server.status()}")
    finally:
        server.kill()


def python(b, path):
    server = b.serve(path, "server", "Serving", *b.argv(
        ONLY, "python3", "-u", "-m", "http.server", "-d", b.scratch, "--bind", b.to, "8000"))
    try:
        out = b.ask(path, "client", *b.argv(ONLY, "python3", "-c", f"""
import concurrent.futures, hashlib, urllib.request
def get(_):
    return hashlib.sha256(urllib.request.urlopen("http://{b.to}:8000/blob").read()).hexdigest()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(*set(pool.map(get, range(4))))"""))
    finally:
        server.kill()
    with open(b.blob, "rb") as f:
        expect(out.split() == [digest(f.read())], "what was fetched is not the file")


ASYNC = """
import asyncio, sys
async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def client(n, to):
    reader, writer = await asyncio.open_connection(to, 8100)
    sent = bytes([n]) * 300000
    writer.write(sent)
    got = await reader.readexactly(len(sent))
    writer.write_eof()
    assert got == sent and not await reader.read(), n
    writer.close()
async def main(to):
    server = await asyncio.start_server(serve, to, 8100)
    if sys.argv[1] == "serve":
        print("serving", flush=True)
        await server.serve_forever()
async def clients(to):
    await asyncio.gather(*(client(n, to) for n in range(40)))
    print("all came back")
asyncio.run((main if sys.argv[1] == "serve" else clients)(sys.argv[2]))
"""


def asyncio_echo(b, path):
    server = b.serve(path, "server", "serving",
                     *b.argv(ONLY, "python3", "-c", ASYNC, "serve", b.to))
    try:
        out = b.ask(path, "client", *b.argv(ONLY, "python3", "-c", ASYNC, "ask", b.to))
        expect("all came back" in out, "not all echoes came back")
    finally:
        server.kill()


FORKS = """
import hashlib, os, signal, socket, socketserver, sys, threading
HOW, TO, PORT = sys.argv[1], sys.argv[2], 8300
class Echo(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    def handle(self):
        assert self.request.getpeername() == self.client_address, self.request.getpeername()
        assert self.request.getsockname() == (TO, PORT), self.request.getsockname()
        while data := self.rfile.read1(65536):
            self.wfile.write(data)
class Forking(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64
def inetd():
    listener = socket.create_server((TO, PORT))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("serving", flush=True)
    while True:
        conn, _ = listener.accept()
        if not os.fork():
            os.dup2(conn.fileno(), 0)
            os.dup2(conn.fileno(), 1)
            os.execvp("cat", ["cat"])
        conn.close()
def prefork():
    listener = socket.create_server((TO, PORT))
    if not os.fork():
        print("serving", flush=True)
        listener.accept()
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
def ask(n):
    sent = bytes([n]) * 300000 if n % 2 else b"hello, %d" % n
    with socket.create_connection((TO, PORT)) as s:
        got = b""
        writer = threading.Thread(target=lambda: (s.sendall(sent), s.shutdown(socket.SHUT_WR)))
        writer.start()
        while data := s.recv(65536):
            got += data
        writer.join()
    came[n] = got == sent
if HOW == "serve":
    with Forking((TO, PORT), Echo) as server:
        print("serving", flush=True)
        server.serve_forever()
elif HOW in ("inetd", "prefork"):
    globals()[HOW]()
else:
    came = {}
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(came) == 16 and all(came.values()), came
    print("all came back")
"""


def forks(how):
    """A process for each connection, which the child alone reads and writes."""
    def run(b, path):
        server = b.serve(path, "server", "serving", *b.argv(ONLY, "python3", "-c", FORKS, how, b.to))
        try:
            for i in range(3):
                out = b.ask(path, f"client-{i}", *b.argv(ONLY, "python3", "-c", FORKS, "ask", b.to))
                expect("all came back" in out, "not all echoes came back")
            # The children end, as does what the server has for them.
            tasks = f"/proc/{server.pid}/task"
            expect(lab.until(lambda: len(os.listdir(tasks)) <= 4, 10),
                   f"{len(os.listdir(tasks))} threads are left")
        finally:
            server.kill()
    return run


def relayed(b, path):
    """Several threads accept and fork; what they set before is the child's."""
    argv = b.argv(ONLY, f"{b.helpers}/fork_relay")
    server = b.serve(path, "server", "serving", *argv, "serve", b.to, "8400", "3")
    try:
        for i in range(2):
            out = b.ask(path, f"client-{i}", *argv, "ask", b.to, "8400", "24")
            expect("all came back" in out, "not all echoes came back")
        tasks = f"/proc/{server.pid}/task"
        expect(lab.until(lambda: len(os.listdir(tasks)) <= 7, 10),
               f"{len(os.listdir(tasks))} threads are left")
    finally:
        server.kill()


def child_listens(b, path):
    """A listener is its process's: a child that accepts from it is told so, and what to do."""
    server = lab.Program(b.server, b.argv(ONLY, "python3", "-c", FORKS, "prefork", b.to),
                         f"{path}/server.log")
    try:
        expect(server.wait(20) == 1, f"the server ended with {server.status()}")
        expect("let the child call listen() itself" in server.output(), "no word of the reason")
    finally:
        server.kill()


ACCEPTORS = {  # tests/interop/workers.c
    "accept": "children accept from their parent's listener",
    "poll": "children poll their parent's listener",
    "epoll": "children have their parent's listener in epoll sets",
    "late": "clients are there before the children that accept",
    "reuseport": "listeners of several processes on one port",
    "daemon": "who called listen() exits, and its grandchild accepts",
    "activate": "a program started with the listener when somebody comes",
    "spawn": "a program spawned with the listener",
    "pass-listener": "a listener passed to other processes",
    "exec": "a listener over exec",  # who gets it knows nothing of a broker
}


def free(b, port):
    """Workers end a moment after the one that was killed, and hold its port until then."""
    expect(lab.until(lambda: not b.server.listens_on_tcp(port), 10), f"port {port} stays taken")


def acceptors(how, address=None):
    """Somebody else accepts than who listens: by TCP, and in no time."""
    def run(b, path):
        argv = b.argv(("--sockets",), f"{b.helpers}/workers")
        server = lab.Program(b.server, [*argv, "serve", how, address or b.to, "8500"],
                             f"{path}/server.log")
        try:
            expect(lab.until(lambda: server.says("serving"), 15), "the server does not come up")
            if how == "daemon":
                time.sleep(2)  # the broker has left with who called listen()
            for i in range(2):
                out = b.ask(path, f"client-{i}", *argv, "ask", b.to, "8500", "8")
                expect("all came back" in out, "not all answers came")
            said = server.output().count("its connections come by TCP")
            claimed = how in ("accept", "poll", "epoll", "late", "daemon")
            expect(said == claimed, f"it is said {said} times that connections come by TCP")
        finally:
            server.kill()
            for daemon in re.findall(r"daemon (\d+)", server.output()):
                os.kill(int(daemon), signal.SIGKILL)
            free(b, 8500)
    return run


def handed_on(how, address=None):
    """Connections in other processes than the one that accepted them: over RDMA."""
    def run(b, path):
        argv = b.argv(ONLY, f"{b.helpers}/workers")
        server = b.serve(path, "server", "serving", *argv, "serve", how, address or b.to, "8600")
        try:
            for i in range(2):
                out = b.ask(path, f"client-{i}", *argv, "ask", b.to, "8600", "8")
                expect("all came back" in out, "not all answers came")
        finally:
            server.kill()
            free(b, 8600)
    return run


SLOW = """
import signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
def ask():
    with socket.create_connection((sys.argv[2], 8900)) as s:
        s.sendall(b"hello")
        assert s.recv(5, socket.MSG_WAITALL) == b"hello"
        print("it came back")
def answer():
    conn, _ = listener.accept()
    with conn:
        conn.sendall(conn.recv(5, socket.MSG_WAITALL))
if sys.argv[1] == "ask":
    ask()
else:
    listener = socket.create_server((sys.argv[2], 8900))
    if sys.argv[1] == "serve":
        print("serving", flush=True)
        signal.sigwait([signal.SIGUSR1])
        while True:
            answer()
    with socket.create_connection((sys.argv[2], 8900)) as s:
        s.sendall(b"hello")
        answer()
        assert s.recv(5, socket.MSG_WAITALL) == b"hello"
        print("it came back")
"""


def with_itself(b, path):
    """In one thread: it cannot accept before it has connected."""
    out = b.ask(path, "client", *b.argv(ONLY, "python3", "-c", SLOW, "both", b.client.address))
    expect("it came back" in out, "it did not come back")


def slow(b, path):
    """Who comes while the server is at something else comes by TCP; who comes later does not."""
    argv = b.argv(("--sockets",), "python3", "-c", SLOW)
    server = b.serve(path, "server", "serving", *argv, "serve", b.to)
    try:
        before = b.tcp()
        early = lab.Program(b.client, [*argv, "ask", b.to], f"{path}/early.log")
        came = lab.until(lambda: b.tcp() > before, 30)
        os.kill(server.pid, signal.SIGUSR1)
        status = early.wait(30)
        early.kill()
        expect(came and status == 0, f"by TCP: {came}; the early one ended with {status}")
        time.sleep(0.3)
        before = b.tcp()
        b.ask(path, "late", *argv, "ask", b.to)
        expect(b.tcp() == before, "it goes on by TCP")
    finally:
        server.kill()


def epoll_threads(how):
    def run(b, path):
        argv = b.argv(ONLY, f"{b.helpers}/epoll_threads")
        server = b.serve(path, "server", "serving", *argv, "server", how, b.to, "8200", "16")
        try:
            out = b.ask(path, "client", *argv, "client", b.to, "8200", "16", "300")
            expect("all came back" in out, "not all echoes came back")
            expect(server.wait(15) == 0, f"the server ended with {server.status()}")
        finally:
            server.kill()
    return run


def refused(b, path):
    with brokers(b, path):
        out = b.ask(path, "client", *b.argv(ONLY, "nc", "-n", "-v", b.to, "9"), status=1)
    expect("refused" in out, f"nobody listens, and nc says: {out}")


def fallback(b, path):
    """One end over --sockets, the other plain: TCP, either way."""
    for name, server_how, client_how in (("client", (), ("--sockets",)),
                                         ("server", ("--sockets",), ())):
        server = b.serve(path, f"{name}-server", "Serving", *b.argv(
            server_how, "python3", "-u", "-m", "http.server", "-d", b.scratch,
            "--bind", b.to, "8000"))
        try:
            out = b.ask(path, name, *b.argv(client_how, "python3", "-c", f"""
import urllib.request
print(len(urllib.request.urlopen("http://{b.to}:8000/blob", timeout=20).read()))"""))
            expect(out.strip() == str(FILE_BYTES), f"with the {name} alone on RDMA: {out}")
        finally:
            server.kill()


def librspreload():
    found = glob.glob("/usr/lib/*/rsocket/librspreload.so")
    return ("env", f"LD_PRELOAD={found[0]}") if found else None


def cases():
    yield "nc", nc, False
    for options in ("-t 1", "-t 1 -P 4", "-t 1 -R", "-t 1 --bidir", "-n 5M -l 1000"):
        yield f"iperf3 {options}", iperf(options.split()), False
    yield "redis", redis, False
    yield "python http.server", python, False
    yield "python asyncio", asyncio_echo, False
    yield "threads in one epoll set", epoll_threads("shared"), False
    yield "threads with a set each", epoll_threads("own"), False
    yield "a forked child for each connection", forks("serve"), False
    yield "a program for each connection", forks("inetd"), False
    yield "threads that fork", relayed, False
    yield "a child accepts", child_listens, False
    yield "a connection over exec", handed_on("exec-connection"), False
    yield "a connection over exec, of IPv4 at ::", handed_on("exec-connection", "::"), False
    yield "a connection passed on", handed_on("pass-connection"), False
    yield "a connection passed on, of IPv4 at ::", handed_on("pass-connection", "::"), False
    yield "a connection in use before the fork", handed_on("used-connection"), False
    for how, name in ACCEPTORS.items():
        yield name, acceptors(how), how != "reuseport" or None
    yield "a program that connects to itself", with_itself, False
    yield "a server that is slow to accept", slow, True
    yield "nobody listens", refused, False
    for options in ("-t 1", "-t 1 -R"):
        yield (f"librspreload iperf3 {options}",
               librspreload() and iperf(options.split(), (), librspreload()), False)
    yield "one end alone", fallback, True


def one(bench, run, by_tcp, path, iwarp):
    if not run:
        raise lab.Skip("librspreload.so is not installed")
    if iwarp and by_tcp:
        raise lab.Skip("about TCP, which cannot be told from iWARP here")
    if iwarp:
        by_tcp = None
    before = bench.tcp()
    run(bench, path)
    expect(by_tcp is None or (bench.tcp() > before) == by_tcp,
           "no TCP was seen" if by_tcp else "it went over TCP")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("where", choices=("one", "veth"))
    p.add_argument("--devices", choices=("roce", "iwarp"), default="roce", help="on which")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    lab.need("nc", "iperf3", "redis-cli", "redis-benchmark", "python3", "bash")
    iwarp = args.devices == "iwarp"
    os.environ["WEFT_DEVICES"] = args.devices
    report = lab.Report(args.build, f"sockets-{'iwarp-' * iwarp}{args.where}")
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(args.build, args.helpers, 1 if args.where == "one" else 2, scratch)
        for name, run, by_tcp in cases():
            if re.search(args.only, name):
                report.prove(name, lambda path, run=run, by_tcp=by_tcp:
                             one(bench, run, by_tcp, path, iwarp))
        report.everything_ends((bench.server, bench.client))
    report.finish()


main()
