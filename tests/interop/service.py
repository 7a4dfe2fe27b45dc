#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft serve under a service manager: what the journal gets, what the manager is told, sockets that it hands over.

usage: service.py BUILD [--only WORD]

This script is the manager: it does what sd-daemon(3), sd_notify(3) and sd_listen_fds(3) say of one.
"""
import argparse
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

import lab

NQN = "nqn.2026-11.org.weft:service"


class Service:
    """weft serve with its standard error a journal's stream."""

    def __init__(self, weft, path, *argv, env=None, fds=(), names="", both=True):
        self.path = path
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.journal, self.text = ours, ""
        ours.setblocking(False)
        st = os.fstat(theirs.fileno())
        env = {**os.environ, "JOURNAL_STREAM": f"{st.st_dev}:{st.st_ino}", **(env or {})}
        command = ["exec", weft, "serve", *argv]
        if fds:
            env.update(LISTEN_FDS=env.get("N", str(len(fds))), LISTEN_FDNAMES=names)
            command.insert(0, "LISTEN_PID=$$")

        def child():
            lab.die_with_parent()
            # From 3 on, out of each other's way.
            for to, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in fds], 3):
                os.dup2(fd, to, inheritable=True)

        self.out = open(f"{path}/stdout", "w+b")
        self.process = subprocess.Popen(
            ["sh", "-c", " ".join(command[:1 + bool(fds)]) + ' "$@"', "sh", *command[1 + bool(fds):]],
            stdin=subprocess.DEVNULL, stdout=theirs if both else self.out, stderr=theirs, env=env,
            preexec_fn=child, close_fds=False)
        theirs.close()

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        try:
            while more := self.journal.recv(65536):
                self.text += more.decode()
        except BlockingIOError:
            pass
        return self.text

    def stdout(self):
        self.out.seek(0)
        return self.out.read().decode()

    def until(self, text, seconds=20, times=1):
        if not lab.until(lambda: self.log().count(text) >= times or self.process.poll() is not None, seconds) or \
                self.log().count(text) < times:
            raise AssertionError(f"the journal does not get '{text}': {self.log()[-800:]}")

    def end(self, status=0):
        self.process.terminate()
        got = self.process.wait(20)
        if got != status:
            raise AssertionError(f"it ends with {got}: {self.log()[-800:]}")
        return self.log()


class Manager:
    """Who is told: every message, in order."""

    def __init__(self, name):
        self.name, self.told = name, []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name[0] == "@" else name)
        self.socket.setblocking(False)

    def count(self, text):
        try:
            while True:
                self.told.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            pass
        return sum(text in m for m in self.told)

    def until(self, text, times=1):
        if not lab.until(lambda: self.count(text) >= times, 20):
            raise AssertionError(f"the manager is not told '{text}': {[m for m in self.told if 'WATCHDOG' not in m]}")


def listener(address, port, both=False):
    v6 = ":" in address
    s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if v6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
    s.bind((address, port))
    s.listen()
    return s


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().decode().split("\0")
    except OSError:
        return []


def same(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


def lines_have_priorities(text):
    for line in text.splitlines():
        if not re.match(r"<[3-7]>\S", line):
            raise AssertionError(f"a line without its priority: {line!r}")


class Cases:
    def __init__(self, build):
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.tmp = tempfile.TemporaryDirectory()
        self.path, self.services = "", []

    def start(self, *argv, **options):
        s = Service(self.weft, self.path, *argv, **options)
        self.services.append(s)
        return s

    def host(self, *argv, fails=None):
        r = subprocess.run([self.weft, *argv], capture_output=True, text=True, timeout=60, check=False)
        if bool(r.returncode) != bool(fails) or (fails and fails not in r.stderr):
            raise AssertionError(f"weft {' '.join(argv)} ended with {r.returncode}: {r.stderr[-300:]}")
        return r.stdout

    def file(self, name, size=8 << 20):
        path = os.path.join(self.tmp.name, name)
        with open(path, "wb") as f:
            f.truncate(size)
        return path

    def config(self, doc):
        path = os.path.join(self.tmp.name, "target.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(doc, f)
        return path

    def document(self, *ports, path="mem:8m"):
        return {"subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"},
                                "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": path}}]}],
                "ports": [{"portid": n, "subsystems": [NQN],
                           "addr": {"trtype": "tcp", "adrfam": family, "traddr": address, "trsvcid": str(port)}}
                          for n, (family, address, port) in enumerate(ports, 1)]}

    # --- the journal

    def what_the_journal_gets(self):
        """From the start to the end, each thing once and with its priority."""
        image = self.file("disk.img")
        doc = self.document(("ipv4", "127.0.0.1", 4420), path=image)
        s = self.start("--config", self.config(doc))
        s.until("<6>ready")
        uri = f"nvme+tcp://127.0.0.1/{NQN}?ns=1"
        self.host("id-ns", uri)
        s.until("<6>gone: ")
        self.host("id-ctrl", f"nvme+tcp://127.0.0.1/{NQN}x", fails="x")
        s.until("<4>refused: ")
        doc["ports"].append(self.document(("ipv4", "127.0.0.1", 4421))["ports"][0] | {"portid": 7})
        doc["subsystems"][0]["namespaces"] = [{"nsid": 2, "enable": 1, "device": {"path": "mem:4m"}}]
        self.config(doc)
        s.process.send_signal(signal.SIGHUP)
        s.until("read again, 3 changes")
        with open(self.config(doc), "w", encoding="utf-8") as f:
            f.write("{")
        s.process.send_signal(signal.SIGHUP)
        s.until("nothing has changed")
        log = s.end()
        lines_have_priorities(log)
        for line in (f"<6>subsystem {NQN}: added", f"<6>namespace 1 of {NQN}: added: {image}",
                     "<6>port 1: added: tcp://127.0.0.1:4420, 1 subsystem",
                     f"<6>namespace 1 of {NQN}: removed: {image}", f"<6>namespace 2 of {NQN}: added: mem:4m",
                     "<6>port 7: added: tcp://127.0.0.1:4421, 1 subsystem", "<6>ready", "<6>ending at SIGTERM",
                     "<6>ended"):
            same(log.splitlines().count(line), 1, f"lines '{line}'")
        for words in ("begins with", "<6>connected: ", "<4>refused: ", "<4>weft: "):
            same(log.count(words), 1, f"lines with '{words}'")

    def only_standard_error_is_the_journal(self):
        """What a host needs to connect is printed as ever, and the lines go to the journal alone."""
        s = self.start("mem:8m", "-l", "tcp://127.0.0.1", "-n", NQN, "-o", "json", both=False)
        s.until("<6>ready")
        self.host("id-ctrl", f"nvme+tcp://127.0.0.1/{NQN}")
        s.until("<6>connected: ")
        s.end()
        same(json.loads(s.stdout())["nqn"], NQN, "what is printed")

    # --- the manager

    def what_the_manager_is_told(self, name):
        """From ready to the end, by a socket of a path or an abstract one."""
        image = self.file("disk.img")
        doc = self.document(("ipv4", "127.0.0.1", 4420), path=image)
        manager = Manager(name)
        s = self.start("--config", self.config(doc), env={
            "NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000000"})
        manager.until("READY=1")
        same("ready" in s.log(), True, "hosts can connect then")
        manager.until("STATUS=subsystems: 1, namespaces: 1, hosts' controllers: 0")
        bench = subprocess.Popen([self.weft, "bench", f"nvme+tcp://127.0.0.1/{NQN}?ns=1", "--rw", "randread",
                                  "--runtime", "4"],
                                 stdout=subprocess.DEVNULL, preexec_fn=lab.die_with_parent)
        manager.until("STATUS=subsystems: 1, namespaces: 1, hosts' controllers: 1")
        before = manager.count("WATCHDOG=1")
        time.sleep(2)
        beats = manager.count("WATCHDOG=1") - before
        if not 2 <= beats <= 5:
            raise AssertionError(f"{beats} signs of life in two seconds under load, where 4 are due")
        same(bench.wait(20), 0, "the bench's status")
        doc["subsystems"][0]["namespaces"].append({"nsid": 2, "enable": 1, "device": {"path": "mem:1m"}})
        self.config(doc)
        ready = manager.count("READY=1")
        s.process.send_signal(signal.SIGHUP)
        manager.until("RELOADING=1\nMONOTONIC_USEC=")
        manager.until("READY=1", times=ready + 1)
        manager.until("STATUS=subsystems: 1, namespaces: 2, hosts' controllers: 0")
        reloading = next(m for m in manager.told if m.startswith("RELOADING"))
        age = time.monotonic() - int(reloading.rpartition("=")[2]) / 1e6
        if not 0 <= age < 20:
            raise AssertionError(f"{reloading!r} was {age} s ago")
        before = manager.count("WATCHDOG=1")
        time.sleep(2)
        beats = manager.count("WATCHDOG=1") - before
        if not 2 <= beats <= 5:
            raise AssertionError(f"{beats} signs of life in two idle seconds, where 4 are due")
        s.end()
        manager.until("STOPPING=1")
        manager.until("EXTEND_TIMEOUT_USEC=")
        order = [manager.told.index(m) for m in ("READY=1", "STOPPING=1")]
        same(order, sorted(order), "the order")

    def a_manager_that_listens_no_more(self):
        """Its socket is full, or gone: the service serves."""
        manager = Manager(f"{self.tmp.name}/notify2")
        s = self.start("mem:8m", "-l", "tcp://127.0.0.1", "-n", NQN, env={
            "NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "2000"})
        s.until("<6>ready")
        time.sleep(0.5)  # more than the socket takes
        self.host("id-ctrl", f"nvme+tcp://127.0.0.1/{NQN}")
        manager.socket.close()
        os.unlink(manager.name)
        self.host("id-ctrl", f"nvme+tcp://127.0.0.1/{NQN}")
        s.end()
        s = self.start("mem:8m", "-l", "tcp://127.0.0.1", env={"NOTIFY_SOCKET": "notify"})
        s.until("NOTIFY_SOCKET=notify: no path")
        s.until("<6>ready")
        s.end()

    def children_are_not_the_service(self):
        """The broker that RDMA starts has neither the manager's address nor the sockets."""
        manager = Manager(f"{self.tmp.name}/notify3")
        with listener("127.0.0.1", 4420) as tcp:
            s = self.start("mem:8m", "-n", NQN, "-l", "rdma://127.0.0.1", "-l", "tcp://127.0.0.1:4420", env={
                "NOTIFY_SOCKET": manager.name}, fds=[tcp.fileno()])
            s.until("<6>ready")
            self.host("id-ctrl", f"nvme+rdma://127.0.0.1/{NQN}")
            brokers = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                       if pid != s.pid and command(pid)[1:2] == ["broker"] and
                       os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")]
            same(len(brokers), 1, "brokers here")
            with open(f"/proc/{brokers[0]}/environ", encoding="utf-8") as f:
                env = f.read()
            if any(name in env for name in ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID")):
                raise AssertionError(f"the broker has {env!r}")
            inode = f"socket:[{os.fstat(tcp.fileno()).st_ino}]"
            if inode in lab.open_files(brokers[0]):
                raise AssertionError("the broker has the socket")
            s.end()

    # --- sockets that are handed over

    def sockets_that_are_configured(self):
        """What the configuration says is listened on by the sockets that are there, and by one that is not."""
        doc = self.document(("ipv4", "127.0.0.1", 4420), ("ipv6", "::1", 4420), ("ipv4", "127.0.0.1", 4421))
        with listener("127.0.0.1", 4420) as a, listener("::1", 4420) as b, listener("127.0.0.1", 9420) as c, \
                listener("127.0.0.1", 4499) as d, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
            u.bind(("127.0.0.1", 4790))
            s = self.start("--config", self.config(doc), "--metrics", "127.0.0.1:9420",
                           fds=[x.fileno() for x in (a, b, c, d, u)], names="nvme:nvme6:m:stray:roce")
            s.until("<6>ready")
            for where in ("127.0.0.1", "[::1]", "127.0.0.1:4421"):
                self.host("id-ctrl", f"nvme+tcp://{where}/{NQN}")
            with socket.create_connection(("127.0.0.1", 9420), timeout=5) as http:
                http.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                same(b" 200 " in http.recv(4096), True, "the page is there")
            for words in ("socket 4 (stray) that was handed over, 127.0.0.1:4499: nothing that is served",
                          "socket 5 (roce) that was handed over, 127.0.0.1:4790: it is none"):
                same(s.log().count(words), 1, words)
            # A port that goes and comes again has its socket again.
            ports = doc["ports"]
            doc["ports"] = ports[2:]
            self.config(doc)
            s.process.send_signal(signal.SIGHUP)
            s.until("read again, 2 changes")
            doc["ports"] = ports
            self.config(doc)
            s.process.send_signal(signal.SIGHUP)
            s.until("read again, 2 changes", times=2)
            self.host("id-ctrl", f"nvme+tcp://127.0.0.1/{NQN}")
            s.end()

    def sockets_instead_of_listen(self):
        """Where nothing is said, they are what is listened on."""
        with listener("0.0.0.0", 4420) as a, listener("::", 4420) as b, listener("127.0.0.1", 9421) as c:
            s = self.start("mem:8m", "-n", NQN, fds=[x.fileno() for x in (a, b, c)], names="x:y:metrics")
            s.until("<6>ready")
            for where in ("127.0.0.1", "[::1]"):
                self.host("id-ctrl", f"nvme+tcp://{where}/{NQN}")
            with socket.create_connection(("127.0.0.1", 9421), timeout=5) as http:
                http.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                same(b" 200 " in http.recv(4096), True, "the page is there")
            s.end()

    def on_the_systems_library(self):
        """It starts anew for that, and has what was handed over all the same; a key by a pipe, too."""
        m = Manager(f"@weft-test-system-{os.getpid()}")
        ours, theirs = os.pipe()
        with listener("127.0.0.1", 4420) as a:
            # What is said on descriptor 4 is read once.
            s = self.start("mem:8m", "-n", NQN, "-l", "tcp://127.0.0.1:4420", "--provider", "system",
                           "--dhchap-secret", "/dev/fd/4", fds=[a.fileno(), ours],
                           env={"N": "1", "NOTIFY_SOCKET": m.name})
            os.write(theirs, b"DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:\n")
            os.close(theirs)
            if not lab.until(lambda: m.count("READY=1") or s.process.poll() is not None, 20) or not m.count("READY=1"):
                if "install rdma-core" in s.log():
                    raise lab.Skip("the system has no rdma-core")
                raise AssertionError(f"the manager is not told that it is ready: {s.log()[-800:]}")
            same("in use" in s.log(), False, s.log())
            s.end()
        os.close(ours)

    def sockets_that_cannot_be(self):
        """One for both families is refused with what to do; those of another process are none."""
        with listener("::", 4420, both=True) as a:
            s = self.start("mem:8m", "-n", NQN, fds=[a.fileno()])
            same(s.process.wait(10), 1, "its status")
            same("<3>weft: the socket of port 4420 that was handed over takes IPv6 and IPv4" in s.log(), True, s.log())
        with listener("::", 9421, both=True) as a:
            s = self.start("mem:8m", "-n", NQN, "-l", "tcp://127.0.0.1:4420", "--metrics", "[::]:9421",
                           fds=[a.fileno()], names="metrics")
            same(s.process.wait(10), 1, "its status")
            same("BindIPv6Only=ipv6-only" in s.log(), True, s.log())
        s = self.start("mem:8m", "-n", NQN, "-l", "tcp://127.0.0.1:4420", env={"LISTEN_FDS": "3", "LISTEN_PID": "1"})
        s.until("<6>ready")
        s.end()
        with listener("127.0.0.1", 4420) as a:
            for fds in ("2", "x", "1000"):
                s = self.start("mem:8m", "-n", NQN, "-l", "tcp://127.0.0.1:4420", fds=[a.fileno()], env={"N": fds})
                same(s.process.wait(10), 1, "its status")
                same("<3>weft: LISTEN_FDS: " in s.log(), True, s.log())


CASES = (
    ("what the journal gets", Cases.what_the_journal_gets),
    ("a manager at a path", lambda c: c.what_the_manager_is_told(f"{c.tmp.name}/notify1")),
    ("a manager at an abstract name", lambda c: c.what_the_manager_is_told(f"@weft-test-{os.getpid()}")),
    ("a manager that listens no more", Cases.a_manager_that_listens_no_more),
    ("children are not the service", Cases.children_are_not_the_service),
    ("sockets that are configured", Cases.sockets_that_are_configured),
    ("sockets instead of --listen", Cases.sockets_instead_of_listen),
    ("on the system's library", Cases.on_the_systems_library),
    ("sockets that cannot be", Cases.sockets_that_cannot_be),
    ("standard error alone is the journal", Cases.only_standard_error_is_the_journal),
)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    host, _ = lab.lab(1)
    lab.libc.setns(os.open(f"/proc/{host.holder.pid}/ns/net", os.O_RDONLY), 0)
    report, cases = lab.Report(args.build, "service"), Cases(args.build)

    def work(path, case):
        cases.path, cases.services = path, []
        try:
            return case(cases)
        finally:
            for s in cases.services:
                if s.process.poll() is None:
                    s.process.kill()
                    s.process.wait()
                with open(f"{path}/journal", "a", encoding="utf-8") as f:
                    f.write(s.log())

    for name, case in CASES:
        if args.only in name:
            report.prove(name, lambda path, case=case: work(path, case))
    report.finish()


main()
