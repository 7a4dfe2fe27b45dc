#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Bad input: each gets a clear error that names the object, with the right status; none crashes.

usage: badinput.py BUILD [--only REGEX]
"""
import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import lab

FAILED, USAGE = 1, 2
HERE = os.path.dirname(os.path.abspath(__file__))
NQN = "nqn.2026-11.org.weft:bad-input"
URI = f"nvme+rdma://127.0.0.1:4420/{NQN}?ns=1"


class Tester:
    def __init__(self, args):
        self.only = args.only
        self.weft = os.path.join(os.path.abspath(args.build), "weft")
        self.host, _ = lab.lab(1)
        self.report = lab.Report(args.build, "badinput")
        self.dir = tempfile.TemporaryDirectory()
        self.img = self.file("disk.img", 8 << 20)
        self.started = []

    def file(self, name, size):
        path = os.path.join(self.dir.name, name)
        with open(path, "wb") as f:
            f.truncate(size)
        return path

    def case(self, name, argv, status, pattern, before=None, seconds=15, lines=3):
        """Runs `weft ARGV` (or a whole command, if it is a tuple) and looks at how it fails."""
        if not re.search(self.only, name):
            return
        path = self.report.case(name)
        argv = list(argv) if isinstance(argv, tuple) else [self.weft, *argv]
        try:
            r = self.host.run(*argv, timeout=seconds, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            self.report.fail(name, path, f"still runs after {seconds} s")
            return
        if r.returncode != status:
            why = f"status {r.returncode}, not {status}: {r.stderr.strip()[:300]}"
        elif not re.search(pattern, r.stderr if status else r.stdout, re.I | re.M):
            why = f"does not say /{pattern}/: {(r.stderr if status else r.stdout).strip()[:300]!r}"
        elif status == FAILED and len(r.stderr.strip().splitlines()) > lines:
            why = f"a failure is a line or two, not {r.stderr!r}"
        elif before and before():
            why = before()
        else:
            self.report.ok(name, path, (r.stderr.strip().splitlines() or [""])[-1][:120])
            return
        self.report.fail(name, path, why)

    def verdict(self, name, fault):
        if re.search(self.only, name):
            self.report.attempt(name, lambda _: fault)

    def end(self, who, *programs):
        """Those of them that still run end in order when they are told to."""
        self.verdict(f"{who}: the end", lab.end_in_order(programs))

    def serve(self, *args, port=4420):
        log = os.path.join(self.dir.name, f"serve-{len(self.started)}.log")
        p = lab.Program(self.host, [self.weft, "serve", self.img, "--nqn", NQN, "--listen",
                                    f"rdma://127.0.0.1:{port}", *args], log)
        self.started.append(p)
        if not lab.until(lambda: p.says("nvme connect") or p.status() is not None, 10) \
                or p.status() is not None:
            print(f"weft serve does not come up:\n{p.output()}")
            sys.exit(1)
        return p


def usage(t, commands):
    t.case("no command", [], USAGE, "usage")
    t.case("unknown command", ["nosuch"], USAGE, "nosuch.*weft help")
    t.case("mistyped command", ["sevre"], USAGE, "did you mean 'serve'")
    t.case("nvme-cli's connect", ["connect", "-t", "tcp"], USAGE, "connects by itself.*weft attach")
    if not os.path.exists("/dev/ublk-control"):
        t.case("attach without ublk_drv", ["attach", f"nvme+tcp://127.0.0.1/{NQN}?ns=1"], 1,
               "there is no /dev/ublk-control: `modprobe ublk_drv`.*nbdkit weft")
    t.case("nvme-cli's disconnect", ["disconnect"], USAGE, "weft detach")
    t.case("an option that is no command", ["-x"], USAGE, "no option '-x'; a command comes first")
    t.case("help -h", ["-h"], 0, "serve")
    said = subprocess.run([os.path.join(lab.TOP, "scripts", "version"), "x"], check=True,
                          capture_output=True, text=True).stdout
    # Where this is no repository there is no commit; the tree may have been changed since the build.
    commit = "".join(rf" \({c}(-dirty)?\)" for c in re.findall(r"\((\w+)", said))
    t.case("--version", ["--version"], 0, rf"^weft \d+\.\d+\.\d+{commit}$")
    t.case("help of no command", ["help", "nosuch"], USAGE, "nosuch")
    for c in commands:
        t.case(f"{c} --help", [c, "--help"], 0, c)
        t.case(f"{c} -h", [c, "-h"], 0, c)
        t.case(f"help {c}", ["help", c], 0, c)
        if c != "run":
            t.case(f"{c} with an unknown option", [c, "--no-such-option"], USAGE, "no-such-option")


def helping(t):
    """What is a command's own stands under its own heading, apart from what all have."""
    for c, heading, option in (("read", "Which blocks:", "start-block"),
                               ("write", "Which blocks:", "start-block"),
                               ("bench", "The load:", "rwmixread")):
        t.case(f"{c} --help has {option} under {heading}", [c, "--help"], 0,
               rf"{heading}\n( .*\n)*? .*--{option}=")


def running(t):
    t.case("run without a program", ["run"], USAGE, "usage|program|command")
    t.case("run of what is not there", ["run", "--", "nosuchprogram"], 127, "nosuchprogram")
    t.case("run hands the status on", ["run", "--", "sh", "-c", "echo seven >&2; exit 7"], 7, "seven")


def serving(t):
    t.case("serve of nothing", ["serve"], USAGE, "usage|file|image")
    t.case("serve of a missing file", ["serve", "/nonexistent.img"], FAILED, "/nonexistent.img.*no such")
    long = "nqn." + "x" * 220
    for words in (["serve", t.img, "--nqn", long], ["serve", t.img, "--allow-host", long], ["id-ctrl", "-n", long],
                  ["id-ctrl", "-q", long]):
        t.case(f"{words[0]} {words[-2]} of 224 characters", words, USAGE, "224 characters.*at most 223")
    t.case("serve with keys of a host of 224 characters", ["serve", t.img, "--dhchap-secret", f"{long}=x"], FAILED, "at most 223")
    config = t.file("missing.json", 0)
    with open(config, "w", encoding="ascii") as f:
        f.write('{"subsystems":[{"nqn":"nqn.a:b","namespaces":[{"nsid":2,"enable":1,"device":{"path":"/nonexistent.img"}}]}]}')
    t.case("serve of a configuration with a missing file", ["serve", "-c", config], FAILED,
           r"missing.json: subsystems\[nqn.a:b\].namespaces\[2\].device.path: /nonexistent.img")
    with open(config, "w", encoding="ascii") as f:
        f.write('{"hosts":[{"nqn":"nqn.a:b","dhchap":{"key":"DHHC-1:00:gdBptlUQZJhRJWcp+9eKrCaEVRTxg81Lwu7sMWz4iI4Za/dH:",'
                '"hash":"sha256"}}]}')
    t.case("serve of a configuration with a hash that Linux does not know", ["serve", "-c", config], FAILED,
           r"missing.json: hosts\[0\].dhchap.hash: it is hmac\(sha256\)")
    t.case("serve of a directory", ["serve", t.dir.name], FAILED, t.dir.name)
    t.case("serve of an empty file", ["serve", t.file("empty.img", 0)], FAILED, "empty.img")
    t.case("serve of less than a block", ["serve", t.file("tiny.img", 100)], FAILED, "tiny.img")
    t.case("serve on an address not here", ["serve", t.img, "--listen", "rdma://192.0.2.1:4420"],
           FAILED, "192.0.2.1")
    t.case("serve by TCP on an address not here", ["serve", t.img, "--listen", "tcp://192.0.2.1:4420"],
           FAILED, "no interface of this machine has the address 192.0.2.1")
    t.case("serve by TCP on a port twice", ["serve", t.img, "-l", "tcp://127.0.0.1:4426", "-l",
           "tcp://127.0.0.1:4426"], FAILED, "127.0.0.1 port 4426 twice")
    t.case("serve on a port of 70000", ["serve", t.img, "--listen", "rdma://127.0.0.1:70000"],
           USAGE, "70000")
    t.case("serve on a strange transport", ["serve", t.img, "--listen", "carrier://127.0.0.1"],
           USAGE, "carrier")
    t.case("serve with a wrong NQN", ["serve", t.img, "--nqn", "x" * 300], USAGE, "nqn")
    t.case("serve of a second file that is missing", ["serve", t.img, "/nonexistent.img"], FAILED,
           "/nonexistent.img")
    t.case("serve of a word alone", ["serve", ",ro"], USAGE, "',ro' names no file")
    t.case("serve of a missing file, read-only", ["serve", "/nonexistent.img,ro"], FAILED,
           "/nonexistent.img: no such")
    t.case("serve of a file twice, once read-only", ["serve", t.img, t.img + ",ro"], FAILED,
           "disk.img: .*named twice")
    t.case("serve of a file twice", ["serve", t.img, t.img], FAILED, "disk.img.*named twice")


def connecting(t):
    t.case("a URI without sense", ["id-ctrl", "nvme+rdma://"], USAGE, "nvme\\+rdma|host")
    t.case("nobody listens", ["id-ctrl", "nvme+rdma://127.0.0.1:4999/" + NQN], FAILED, "127.0.0.1.*4999|4999")
    t.case("nobody listens by TCP", ["id-ctrl", "nvme+tcp://127.0.0.1:4999/" + NQN], FAILED,
           "127.0.0.1:4999: refused; does a target listen there for NVMe/TCP")
    t.case("no way there by TCP", ["id-ctrl", "nvme+tcp://192.0.2.1:4420/" + NQN], FAILED, "192.0.2.1")
    t.case("from an address that is none, by TCP", ["discover", "-t", "tcp", "127.0.0.1", "-w", "x"], FAILED,
           "'x' is no address that one could connect from; `ip address` shows")
    t.case("digests by RDMA", ["id-ctrl", "-G", "nvme+rdma://127.0.0.1/" + NQN], USAGE, "for TCP: nvme\\+tcp")
    t.case("no way there", ["id-ctrl", "nvme+rdma://192.0.2.1:4420/" + NQN], FAILED, "192.0.2.1")
    t.case("no way there by IPv6", ["id-ctrl", "nvme+rdma://[2001:db8::7]:4999/" + NQN], FAILED,
           r"to \[2001:db8::7\]:4999:")
    t.case("a name nobody knows", ["id-ctrl", "nvme+rdma://nosuch.invalid:4420/" + NQN], FAILED,
           "nosuch.invalid")
    server, brokers = t.serve(), t.host.brokers()

    def alive():
        """The one that was there at first, and its broker: another would have taken over unseen."""
        if server.status() is not None:
            return "the server has died"
        now = t.host.brokers()
        return None if now == brokers else f"the broker {brokers} has died, there is {now} now"

    t.case("another serve on its port", ["serve", t.file("b.img", 8 << 20), "--listen",
           "rdma://127.0.0.1:4420"], FAILED, "4420.*use|use.*4420", before=alive)
    t.case("serve everywhere while one address is served", ["serve", t.file("c.img", 8 << 20)],
           FAILED, "port 4420 is in use", before=alive)
    t.case("unknown NQN", ["id-ctrl", "nvme+rdma://127.0.0.1:4420/nqn.2026-11.org.weft:other"],
           FAILED, "org.weft:other", before=alive)
    t.case("from an address that is none", ["id-ns", URI, "-w", "nosense"], FAILED, "nosense",
           before=alive)
    t.case("from an address of another family", ["id-ns", URI, "-w", "::1"], FAILED, "127.*::1",
           before=alive)
    t.case("from an address not here", ["id-ns", URI, "-w", "192.0.2.1"], FAILED,
           "127.*192.0.2.1.*weft devices", before=alive)
    t.case("from an address that is here", ["id-ns", URI, "-w", "127.0.0.1"], 0, "nsze",
           before=alive)
    t.case("unknown namespace", ["id-ns", URI.replace("ns=1", "ns=99")], FAILED, "99|namespace",
           before=alive)
    t.case("cp to where there is no room", ["cp", t.file("large.img", 16 << 20), URI], FAILED,
           "large|namespace|fit|bytes", before=alive)
    t.case("cp of a missing file", ["cp", "/nonexistent.img", URI], FAILED, "/nonexistent.img",
           before=alive)
    t.case("cp into a missing directory", ["cp", URI, "/nonexistent/x.img"], FAILED, "/nonexistent/x",
           before=alive)
    out = os.path.join(t.dir.name, "out")
    where = ["-t", "rdma", "-a", "127.0.0.1", "-s", "4420", "-n", NQN, "-N", "1"]
    t.case("cp between two namespaces and -a", ["cp", URI, URI, *where], USAGE, "which of two",
           before=alive)
    t.case("cp that names no namespace at all", ["cp", "nvme+rdma:", out], USAGE, "which address",
           before=alive)
    t.case("cp with a namespace in its options", ["cp", "nvme+rdma:", out, "--size=4096", *where], 0,
           "copied", before=alive)
    t.case("read beyond the namespace", ["read", URI, "--start-block", "16383", "--block-count", "7",
           "--data-size", "4096", "--data", out], FAILED, "range|beyond|end", before=alive)
    # A verbs program that is no NVMe host.
    r = t.host.run(t.weft, "run", "--", "timeout", "20", "rping", "-c", "-a", "127.0.0.1", "-p",
                   "4420", "-C", "1")
    t.verdict("a peer that speaks no NVMe", alive() or
              (f"rping was let in: {r.stdout}" if r.returncode == 0 else None))
    r = t.host.run(sys.executable, os.path.join(HERE, "garbage.py"), "127.0.0.1", "20000", "1")
    r6 = t.host.run(sys.executable, os.path.join(HERE, "garbage.py"), "::1", "5000", "2")
    t.verdict("garbage on port 4791", alive() or
              ("nothing was sent" if "0" in (r.stdout.strip(), r6.stdout.strip()) else None))
    t.case("and the service goes on", ["id-ctrl", URI.split("?")[0]], 0, NQN, before=alive)
    server.process.terminate()
    t.verdict("the server ends at SIGTERM", None if server.wait(5) == 0 else
              f"status {server.status()} 5 s after SIGTERM")
    server = t.serve("--read-only")
    t.case("cp onto a read-only namespace", ["cp", t.img, URI], FAILED, "read.only|protect",
           before=alive)
    for address in ("127.0.0.1", "127.0.0.1:4420"):
        t.case(f"discover {address}", ["discover", address], 0, NQN, before=alive)
    t.case("discover nonsense", ["discover", "127.0.0.1:port"], USAGE, "no target.*port")
    server.process.send_signal(signal.SIGHUP)
    t.verdict("the server ends at SIGHUP", None if server.wait(5) == 0 else
              f"status {server.status()} 5 s after SIGHUP")


def few_descriptors(t):
    """Whatever it is that finds no descriptor, the message says that and what to do."""
    server = t.serve()
    limited = lambda n, *argv: ("sh", "-c", f'ulimit -n {n} && exec "$@"', "sh", t.weft, *argv)
    for n in range(4, 15):
        t.case(f"id-ns with {n} descriptors", limited(n, "id-ns", URI), FAILED,
               r"^weft: (?!.*no RDMA device).*too many open files; raise.*ulimit -n", lines=4)
    for n in (5, 9, 13, 17):
        t.case(f"serve with {n} descriptors", limited(n, "serve", t.file("e.img", 4096), "-l",
               "rdma://127.0.0.1:4427"), FAILED, "too many open files; raise.*ulimit -n",
               lines=4)
    t.end("a target, after those without descriptors", server)


def starved_broker(t):
    """A broker that may have few descriptors, by the limit of who starts it: who gets none from it is
    told whose limit it is, how much, and what to do."""
    limited = ("sh", "-c", 'ulimit -n 24 && exec "$@"', "sh")
    lab.until(lambda: not t.host.has_broker(), 30)  # the one before
    broker = lab.Program(t.host, [*limited, t.weft, "broker", "-f"],
                         os.path.join(t.dir.name, "starved.log"))
    lab.until(t.host.has_broker, 30)
    listen = lambda n: ["serve", t.file(f"s{n}.img", 4096), "-l", f"rdma://127.0.0.1:{4440 + n}"]
    others = [lab.Program(t.host, [t.weft, *listen(n)], os.path.join(t.dir.name, f"s{n}.log"))
              for n in range(4)]
    lab.until(lambda: all(p.says("nvme connect") or p.status() is not None for p in others), 30)
    t.case("serve by a broker without descriptors", listen(9), FAILED,
           r"no descriptors left \(limit 24\).*start `weft broker` with a higher", lines=4)
    t.end("targets of a broker without descriptors", *others)
    t.end("a broker without descriptors", broker)


def everywhere(t):
    """A target that listens on all addresses, and has many namespaces."""
    images = [t.file(f"many{n}.img", 4096) for n in range(69)]
    server = lab.Program(t.host, [t.weft, "serve", t.img, *images, "--nqn", NQN],
                         os.path.join(t.dir.name, "all.log"))
    lab.until(lambda: server.says("ready") or server.status() is not None, 10)
    t.case("serve on one address of a target on all", ["serve", t.file("d.img", 8 << 20),
           "--listen", "rdma://127.0.0.1"], FAILED, "port 4420 of 127.0.0.1 is in use")
    t.case("one of many namespaces, unknown", ["id-ns", URI.replace("ns=1", "ns=99")], FAILED,
           r"there are 1 to 70$")
    t.case("one of many namespaces, not said", ["id-ns", URI.split("?")[0]], FAILED, r"\(1 to 70\)")
    t.end("a target with many namespaces", server)
    for any_address, shown in (("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]"), ("0", "127.0.0.1")):
        server = t.serve("--listen", f"rdma://{any_address}:4430", port=4429)
        t.case(f"a target on {any_address} tells an address one can use", ["discover",
               f"nvme+rdma://{shown}:4430"], 0, rf"uri: +nvme\+rdma://{re.escape(shown)}:4430",
               before=lambda: None if f"{shown.strip('[]')} port 4430" in server.output() and
               f"\n  {any_address.strip('[]')} port" not in server.output() else server.output())
        t.end(f"a target on {any_address}", server)


def not_nvme(t):
    """The host against a listener that is no NVMe target."""
    server = lab.Program(t.host, [t.weft, "run", "--", "stdbuf", "-oL", "rping", "-s", "-d", "-a",
                                  "127.0.0.1", "-p", "4421"], os.path.join(t.dir.name, "rping.log"))
    lab.until(lambda: server.says("rdma_listen"), 10)
    time.sleep(0.2)
    t.case("a target that is none", ["id-ctrl", f"nvme+rdma://127.0.0.1:4421/{NQN}"], FAILED,
           "127.0.0.1|4421", seconds=30)
    server.kill()


def port_taken(t):
    """Another socket has UDP 4791, as a kernel rxe would."""
    if not lab.until(lambda: not t.host.has_broker(), 5):
        t.verdict("the broker ends after its last client", "it is still there after 5 s")
        return
    taker = lab.Program(t.host, [sys.executable, "-c",
                                 "import socket,time; s=socket.socket(socket.AF_INET6, socket.SOCK_DGRAM);"
                                 "s.bind(('::', 4791)); print('bound', flush=True); time.sleep(60)"],
                        os.path.join(t.dir.name, "taker.log"))
    lab.until(lambda: taker.says("bound"), 5)
    t.case("port 4791 is taken", ["devices"], FAILED, "4791")
    t.case("port 4791 is taken: serve", ["serve", t.img], FAILED, "4791")
    taker.kill()
    t.case("port 4791 is free again", ["devices"], 0, "weft_lo")


def other_user(t):
    """A broker that an ordinary user started is not trusted by another one."""
    name = "another user's broker"
    lab.until(lambda: not t.host.has_broker(), 5)
    as_user = lambda uid: ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--")
    r = t.host.run(*as_user(65534), t.weft, "--version")
    if r.returncode:
        t.report.skip(name, "cannot run the build as another user here")
        return
    first = lab.Program(t.host, [*as_user(65534), t.weft, "run", "--", "rping", "-s", "-d",
                                 "-a", "127.0.0.1"], os.path.join(t.dir.name, "user.log"))
    lab.until(t.host.has_broker, 5)
    t.case(name, (*as_user(65533), t.weft, "devices"), FAILED, "broker.*(user|uid|nobody|65534)")
    first.kill()
    lab.until(lambda: not t.host.has_broker(), 5)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    lab.need("rping", "stdbuf", "setpriv")
    t = Tester(args)
    with open(os.path.join(lab.TOP, "src", "cli", "commands.def"), encoding="utf-8") as f:
        commands = re.findall(r'^X\(\w+,\s*"([^"]+)"', f.read(), re.M)
    usage(t, commands)
    helping(t)
    running(t)
    serving(t)
    connecting(t)
    few_descriptors(t)
    starved_broker(t)
    everywhere(t)
    not_nvme(t)
    port_taken(t)
    other_user(t)
    for line in t.host.close():
        t.verdict("everything ends", f"still running: {line}")
    t.report.finish()


main()
