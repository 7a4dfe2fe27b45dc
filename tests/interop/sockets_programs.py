#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Servers and clients of the field, unmodified from Debian's packages, by `weft run --sockets`.

usage: sockets_programs.py BUILD (one | veth)... [--full] [--only REGEX] [--write FILE]

one: on loopback. veth: two network namespaces. Without --full the quick ones, which keep `make
check` short. What is not installed is skipped; scripts/packages lists it. Logs of what failed
stay in BUILD/interop-logs.

Where data are to go by RDMA both run with --sockets=only, and where by TCP, because other processes
accept than the one that listens, with --sockets; the kernel's counters say whether it was so. With
one end alone under weft it is TCP.
"""
import argparse
import contextlib
import dataclasses
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import typing

import lab
from sockets_bench import ONLY, Bench, Failed, brokers, digest, expect

EITHER, PLAIN = ("--sockets",), ()
POSTGRES = "".join(sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1:])
PORT = 8700


@contextlib.contextmanager
def running(b, path, ready, *argv, end=signal.SIGTERM):
    """A server, until it is told to end; `ready` is what it says, or asks whether it is there."""
    # Apache ends its whole process group.
    server = lab.Program(b.server, ("setsid", *argv), f"{path}/server.log")
    there = ready if callable(ready) else lambda: server.says(ready)
    try:
        expect(lab.until(lambda: there() or server.status() is not None, 30)
               and server.status() is None, f"no server: {server.output()[-300:]}")
        yield server
        server.process.send_signal(end)
        expect(server.wait(20) is not None, "the server still runs 20 s after it was to end")
        # By itself, or by the signal: what it says when it handles it or not, or as a shell would.
        expect(server.status() in (0, -end, 128 + end),
               f"told to end, the server ends with {server.status()}: {server.output()[-300:]}")
    finally:
        server.kill()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def same(b, *paths):
    for path in paths:
        with open(b.blob, "rb") as f, open(path, "rb") as g:
            expect(digest(f.read()) == digest(g.read()),
                   f"{os.path.basename(path)} is not the same")


def fetch(b, path, how, port=PORT):
    """The file by curl, once and eight times at a time on one connection each, and by wget."""
    url, got = f"http://{b.to}:{port}/blob", os.path.join(b.scratch, "got")
    names = [f"{got}-{i}" for i in range(8)]
    b.ask(path, "curl", *b.argv(how, "curl", "-sS", "--fail", "--max-time", "60", "-o", got, url))
    b.ask(path, "curls", *b.argv(how, "curl", "-sS", "--fail", "--max-time", "60", "-Z",
                                 *(w for n in names for w in ("-o", n, url))))
    if shutil.which("wget"):
        names.append(f"{got}-wget")
        b.ask(path, "wget", *b.argv(how, "wget", "-q", "-T", "60", "-t", "1", "-O", names[-1], url))
    same(b, got, *names)


def nginx(workers, master="on"):
    def run(b, path, server, client):
        conf = write(f"{b.scratch}/nginx.conf", f"""
            user root; daemon off; master_process {master}; worker_processes {workers};
            pid {b.scratch}/nginx.pid; error_log stderr notice;
            events {{ worker_connections 200; }}
            http {{ access_log off; client_body_temp_path {b.scratch}/body;
                    proxy_temp_path {b.scratch}/proxy; fastcgi_temp_path {b.scratch}/fastcgi;
                    uwsgi_temp_path {b.scratch}/uwsgi; scgi_temp_path {b.scratch}/scgi;
                    sendfile on; tcp_nopush on;
                    server {{ listen {b.to}:{PORT}; root {b.scratch}; }} }}""")
        ready = "start worker process" if master == "on" else "using the"
        with running(b, path, ready, *b.argv(server, "/usr/sbin/nginx", "-c", conf,
                                             "-e", "stderr"), end=signal.SIGQUIT):
            fetch(b, path, client)
    return run


def apache(mpm):
    def run(b, path, server, client):
        mods = "/usr/lib/apache2/modules"
        conf = write(f"{b.scratch}/apache.conf", f"""
            LoadModule mpm_{mpm}_module {mods}/mod_mpm_{mpm}.so
            LoadModule authz_core_module {mods}/mod_authz_core.so
            ServerRoot {b.scratch}
            ServerName localhost
            PidFile {b.scratch}/apache.pid
            Mutex file:{b.scratch} default
            Listen {b.to}:{PORT}
            User www-data
            Group www-data
            DocumentRoot {b.scratch}
            ErrorLog {path}/error.log
            LogLevel info
            StartServers 3""")
        with running(b, path, lambda: "resuming normal" in read(f"{path}/error.log"),
                     *b.argv(server, "/usr/sbin/apache2", "-D", "FOREGROUND", "-f", conf)):
            fetch(b, path, client)
    return run


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def haproxy(b, path, server, client):
    """Between curl and a web server: its listener and its connections to the other."""
    conf = write(f"{b.scratch}/haproxy.cfg", f"""
global
    maxconn 200
defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend front
    bind {b.to}:{PORT}
    default_backend back
backend back
    server web {b.to}:{PORT + 1}
""")
    web = b.serve(path, "web", "Serving", *b.argv(
        server, "python3", "-u", "-m", "http.server", "-d", b.scratch, "--bind", b.to,
        str(PORT + 1)))
    try:
        with running(b, path, "Using epoll", *b.argv(
                server, "/usr/sbin/haproxy", "-db", "-V", "-f", conf)) as proxy:
            proxy.settle()
            fetch(b, path, client)
    finally:
        web.kill()


def as_postgres(*argv):
    return ("setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", *argv)


def postgres(b, path, server, client):
    """pgbench, whose sums have to be right, and the file as a large object."""
    data = f"{b.scratch}/pg"
    os.mkdir(data)
    shutil.chown(data, "postgres", "postgres")
    r = b.server.run(*as_postgres(f"{POSTGRES}/initdb", "-D", data, "-A", "trust", "--no-sync",
                                  "-U", "weft"), timeout=120)
    expect(not r.returncode, f"initdb: {r.stderr[-200:]}")
    with open(f"{data}/pg_hba.conf", "a", encoding="ascii") as f:
        f.write("host all all 0.0.0.0/0 trust\n")
    to = ("-h", b.to, "-p", str(PORT), "-U", "weft")
    sql = lambda name, text: b.ask(path, name, *b.argv(
        client, f"{POSTGRES}/psql", "-X", "-A", "-t", *to, "-d", "postgres", "-c", text))
    bench = lambda name, *words: b.ask(path, name, *b.argv(
        client, f"{POSTGRES}/pgbench", *to, *words, "postgres"), timeout=120)
    try:
        with running(b, path, "ready to accept connections", *b.argv(
                server, *as_postgres(f"{POSTGRES}/postgres", "-D", data, "-h", b.to,
                                     "-p", str(PORT), "-k", "", "-F")), end=signal.SIGINT):
            bench("init", "-i", "-q")
            out = bench("bench", "-c", "4", "-j", "2", "-t", "200")
            expect("800/800" in out, f"not all transactions were done: {out[-300:]}")
            sums = sql("sums", "select (select sum(abalance) from pgbench_accounts), "
                       "(select sum(delta) from pgbench_history), "
                       "(select count(*) from pgbench_history)").split("|")
            expect(sums[0] == sums[1] and sums[2].strip() == "800", f"sums: {sums}")
            out = sql("put", f"\\lo_import {b.blob}")
            number = re.search(r"lo_import (\d+)", out)
            expect(number, f"lo_import: {out}")
            sql("get", f"\\lo_export {number[1]} {b.scratch}/got")
            same(b, f"{b.scratch}/got")
            peer = sql("peer", "select inet_client_addr(), inet_server_addr()").strip()
            expect(peer == f"{b.client.address}|{b.to}", f"the server sees {peer}")
    finally:
        shutil.rmtree(data)


MEMCACHED = """
import hashlib, socket, sys, threading
def one(n):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 30)
    f = s.makefile("rwb")
    for i in range(20):
        value = hashlib.sha256(b"%d %d" % (n, i)).digest() * (1 + i * 100)
        f.write(b"set k%d-%d 0 0 %d\\r\\n%s\\r\\n" % (n, i, len(value), value)); f.flush()
        assert f.readline() == b"STORED\\r\\n"
        f.write(b"get k%d-%d\\r\\n" % (n, i)); f.flush()
        f.readline()
        assert f.read(len(value) + 7) == value + b"\\r\\nEND\\r\\n"
    done.append(n)
done = []
threads = [threading.Thread(target=one, args=(n,)) for n in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(done), "clients got what they had set")
"""


def memcached(b, path, server, client):
    with running(b, path, "server listening", *b.argv(
            server, "memcached", "-vv", "-u", "root", "-l", b.to, "-p", str(PORT), "-U", "0")):
        out = b.ask(path, "client", *b.argv(client, "python3", "-c", MEMCACHED, b.to, PORT))
        expect("16 clients" in out, "not all clients got what they had set")


def sshd(b, path, server, client):
    """A command, scp both ways, and who is there: what sshd logs, and tells the session."""
    for name in ("host", "user"):
        if not os.path.exists(f"{b.scratch}/{name}"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                            f"{b.scratch}/{name}"], check=True, stdin=subprocess.DEVNULL)
    shutil.copy(f"{b.scratch}/user.pub", f"{b.scratch}/authorized")
    conf = write(f"{b.scratch}/sshd.conf", f"""
HostKey {b.scratch}/host
AuthorizedKeysFile {b.scratch}/authorized
ListenAddress {b.to}:{PORT}
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
Subsystem sftp internal-sftp
""")
    known = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
             "BatchMode=yes", "-o", "LogLevel=ERROR", "-i", f"{b.scratch}/user", "-F", "none"]
    ssh = lambda name, *words: b.ask(path, name, *b.argv(
        client, "ssh", *known, "-p", PORT, f"root@{b.to}", *words))
    scp = lambda name, *words: b.ask(path, name, *b.argv(client, "scp", *known, "-P", PORT, *words))
    with running(b, path, "Server listening", *b.argv(
            server, "unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /run && mkdir /run/sshd && "
            'exec "$@"', "sh", "/usr/sbin/sshd", "-D", "-e", "-f", conf)) as daemon:
        session = ssh("session", "echo $SSH_CONNECTION").split()
        expect(session[:1] + session[2:] == [b.client.address, b.to, str(PORT)],
               f"the session is told {session}")
        scp("up", b.blob, f"root@{b.to}:{b.scratch}/up")
        scp("down", f"root@{b.to}:{b.blob}", f"{b.scratch}/down")
        same(b, f"{b.scratch}/up", f"{b.scratch}/down")
        expect(len(re.findall(rf"Accepted publickey for root from {b.client.address} port \d+",
                              daemon.output())) == 3, "sshd does not say from where")


def git(b, path, server, client):
    """A repository with the file in it, cloned and looked through."""
    top = f"{b.scratch}/git"
    shutil.rmtree(top, ignore_errors=True)
    os.mkdir(top)
    run = lambda *words: subprocess.run(
        ["git", "-c", "user.name=weft", "-c", "user.email=weft@example.org", *words], check=True,
        cwd=top, stdout=subprocess.DEVNULL)
    run("init", "-q")
    shutil.copy(b.blob, f"{top}/blob")
    run("add", "blob")
    run("commit", "-q", "-m", "a file")
    with running(b, path, "Ready to rumble", *b.argv(
            server, "/usr/lib/git-core/git-daemon", "--verbose", "--export-all", "--reuseaddr",
            f"--listen={b.to}", f"--port={PORT}", f"--base-path={b.scratch}", top)) as daemon:
        b.ask(path, "clone", *b.argv(client, "git", "clone", "-q", f"git://{b.to}:{PORT}/git",
                                     f"{top}/clone"))
        same(b, f"{top}/clone/blob")
        expect(f"Connection from {b.client.address}:" in daemon.output(),
               "the daemon does not say from where")


def rsync(b, path, server, client):
    conf = write(f"{b.scratch}/rsyncd.conf", f"""
use chroot = no
uid = root
gid = root
lock file = {b.scratch}/rsync.lock
[all]
    path = {b.scratch}
    read only = no
    hosts allow = {b.client.address}
""")
    copy = lambda name, *words: b.ask(path, name, *b.argv(
        client, "rsync", "--timeout=60", "--port", PORT, "--checksum", "--inplace", *words))
    with running(b, path, "listening on port", *b.argv(
            server, "rsync", "--daemon", "--no-detach", "--config", conf, "--address", b.to,
            "--port", PORT, "--log-file", "/dev/stderr")):
        copy("down", f"rsync://{b.to}/all/blob", f"{b.scratch}/down")
        copy("up", b.blob, f"rsync://{b.to}/all/up")
        same(b, f"{b.scratch}/up", f"{b.scratch}/down")


NODE = """
const http = require("http"), fs = require("fs"), [how, to, port, file] = process.argv.slice(1);
if (how === "serve") {
  http.createServer((q, a) => fs.createReadStream(file).pipe(a))
      .listen(+port, to, () => console.log("serving"));
} else {
  const hash = require("crypto").createHash, agent = new http.Agent({keepAlive: true});
  const get = () => new Promise((yes, no) => http.get({host: to, port, agent, path: "/"}, a => {
    const h = hash("sha256");
    a.on("data", d => h.update(d)).on("end", () => yes(h.digest("hex")));
  }).on("error", no));
  (async () => {
    const got = await Promise.all([1, 2, 3, 4].map(get));
    got.push(await get());
    console.log(...new Set(got));
    agent.destroy();
  })();
}
"""


def node(b, path, server, client):
    argv = lambda how, what: b.argv(how, "node", "-e", NODE, what, b.to, PORT, b.blob)
    with running(b, path, "serving", *argv(server, "serve")):
        out = b.ask(path, "client", *argv(client, "ask"))
        with open(b.blob, "rb") as f:
            expect(out.split() == [digest(f.read())], "what was fetched is not the file")


JAVA = """
import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.net.http.*;
import java.nio.file.*;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;

class Both {
  public static void main(String[] args) throws Exception {
    InetAddress to = InetAddress.getByName(args[1]);
    int port = Integer.parseInt(args[2]);
    Path file = Path.of(args[3]);
    if (args[0].equals("serve")) {
      HttpServer server = HttpServer.create(new InetSocketAddress(to, port), 8);
      server.createContext("/", q -> {
        q.sendResponseHeaders(200, Files.size(file));
        Files.copy(file, q.getResponseBody());
        q.close();
      });
      server.setExecutor(Executors.newFixedThreadPool(4));
      server.start();
      System.out.println("serving");
    } else {
      HttpClient client = HttpClient.newHttpClient();
      var ask = HttpRequest.newBuilder(URI.create("http://" + args[1] + ":" + port + "/")).build();
      byte[] want = Files.readAllBytes(file);
      var all = IntStream.range(0, 4).mapToObj(
          i -> client.sendAsync(ask, HttpResponse.BodyHandlers.ofByteArray())).toList();
      for (var answer : all)
        System.out.println(java.util.Arrays.equals(want, answer.get().body()));
    }
  }
}
"""


def java(b, path, server, client):
    """Its sockets are IPv6's, and the addresses that it names IPv4's in them."""
    source = write(f"{b.scratch}/Both.java", JAVA)
    argv = lambda how, what: b.argv(how, "java", source, what, b.to, PORT, b.blob)
    with running(b, path, "serving", *argv(server, "serve")):
        out = b.ask(path, "client", *argv(client, "ask"))
        expect(out.split() == ["true"] * 4, f"what was fetched is not the file: {out!r}")


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    packages: str  # what of Debian's, for the page
    needs: tuple  # programs
    run: typing.Callable
    rdma: bool = True
    quick: bool = False


CASES = (
    Case("nginx, a master and 2 workers", "nginx curl wget", ("/usr/sbin/nginx", "curl"), nginx(2),
         rdma=False, quick=True),
    Case("nginx, one process", "nginx curl wget", ("/usr/sbin/nginx", "curl"), nginx(1, "off"),
         quick=True),
    Case("Apache, mpm_prefork", "apache2-bin curl wget", ("/usr/sbin/apache2", "curl"),
         apache("prefork"), rdma=False),
    Case("Apache, mpm_event", "apache2-bin curl wget", ("/usr/sbin/apache2", "curl"),
         apache("event"), rdma=False),
    Case("HAProxy before http.server", "haproxy curl wget", ("/usr/sbin/haproxy", "curl"), haproxy),
    Case("PostgreSQL, pgbench, psql", "postgresql-15",
         (f"{POSTGRES}/postgres", f"{POSTGRES}/pgbench", f"{POSTGRES}/psql"), postgres),
    Case("memcached", "memcached", ("memcached",), memcached, quick=True),
    Case("sshd, ssh, scp", "openssh-server openssh-client", ("/usr/sbin/sshd", "ssh", "scp"), sshd),
    Case("git daemon, git clone", "git", ("git", "/usr/lib/git-core/git-daemon"), git,
         quick=True),
    Case("rsync, its daemon", "rsync", ("rsync",), rsync, quick=True),
    Case("Node.js, http", "nodejs", ("node",), node),
    Case("Java, HttpServer and HttpClient", "openjdk-17-jdk-headless", ("javac", "java"), java),
)

HEAD = """# TCP programs of the field over weft

Servers and clients, unmodified, by `weft run --sockets` (see [weft-run(1)](man/weft-run.1)): on loopback (`lo`), between two network
namespaces (`veth`), and with one end alone under weft. What is moved is compared, everything has to end by itself, and the kernel's
counters say whether anything went by TCP.
`tests/interop/sockets_programs.py BUILD one veth --full --write docs/sockets.md` makes this page; `make check-long` runs the same
cases, and `make check` the quick ones among them. iperf3, netcat, redis and servers made for the purpose are in
`tests/interop/sockets.py`, which `make check` runs.

| programs | versions | data go by | lo | veth | one end alone |
|---|---|---|---|---|---|
"""
FOOT = """
By TCP: these servers' workers accept from a listener that another process of theirs has made
([why](adr/0014-listeners-answer-late.md)).
"""


def versions(case):
    found = []
    for package in case.packages.split():
        r = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True,
                           text=True, check=False)
        if not r.returncode:
            found.append(f"{package} {re.split('[-+]', r.stdout.split(':')[-1])[0]}")
    return ", ".join(found)


def one_case(b, report, case, name, server, client, rdma):
    """What is wrong, or ""."""
    path, before, fault = report.case(name), b.tcp(), ""
    try:
        case.run(b, path, server, client)
        expect((b.tcp() == before) == rdma, "it went by TCP" if rdma else "no TCP was seen")
    except (Failed, OSError, subprocess.SubprocessError) as e:
        fault = str(e)
    if fault:
        report.fail(name, path, fault)
    else:
        report.ok(name, path)
    return fault


def run(args, where, table):
    b, report = None, lab.Report(args.build, f"sockets-programs-{where}")
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)  # servers that give up being root read files there
        b = Bench(args.build, ".", 1 if where == "one" else 2, scratch)
        with brokers(b, report.case("brokers")):
            for case in CASES:
                if not (args.full or case.quick) or not re.search(args.only, case.name):
                    continue
                missing = [p for p in case.needs if not shutil.which(p)]
                if missing:
                    report.skip(case.name, f"{', '.join(missing)} not installed "
                                "(scripts/setup --long installs it)")
                    continue
                if case.run is postgres and not can_be_postgres():
                    report.skip(case.name, "no right to be the user postgres here")
                    continue
                how = ONLY if case.rdma else EITHER
                cells = table.setdefault(case, {})
                cells[where] = one_case(b, report, case, case.name, how, how, case.rdma)
                for side, server, client in (("server", EITHER, PLAIN), ("client", PLAIN, EITHER)):
                    cells[f"alone {side} {where}"] = one_case(
                        b, report, case, f"{case.name}: the {side} alone", server, client, False)
        report.everything_ends((b.server, b.client))
    return report


def can_be_postgres():
    return not subprocess.run(as_postgres("true"), capture_output=True, check=False).returncode


def page(table):
    text = HEAD
    verdict = lambda why: f"no: {why}" if why else "ok"
    for case, cells in table.items():
        alone = [w for k, w in cells.items() if k.startswith("alone")]
        text += " | ".join(
            [f"| {case.name}", versions(case), "RDMA" if case.rdma else "TCP",
             *(verdict(cells[w]) if w in cells else "" for w in ("one", "veth")),
             verdict("; ".join(filter(None, alone))) if alone else ""]) + " |\n"
    return text + FOOT


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", nargs="+", choices=("one", "veth"))
    p.add_argument("--full", action="store_true", help="all programs instead of the quick ones")
    p.add_argument("--only", default="", help="programs whose name matches")
    p.add_argument("--write", metavar="FILE", help="a page of what came of them")
    args = p.parse_args()
    lab.enter()
    args.build = os.path.abspath(args.build)
    table = {}
    reports = [run(args, where, table) for where in args.where]
    if args.write:
        write(args.write, page(table))
    if not any(r.passed > 1 or r.failed for r in reports):
        lab.skip("no program of these is installed (scripts/setup --long installs them)")
    sys.exit(max(r.status() for r in reports))


main()
