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
            env.update(LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=names)
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


CASES = (
    ("what the journal gets", Cases.what_the_journal_gets),
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
