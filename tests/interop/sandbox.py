#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft serve works with what the units of systemd leave it.

usage: sandbox.py BUILD [--only WORD]

systemd need not run here (where it can, booted.py has it). What it would do to the service is done to it otherwise: the system calls, address families and
memory that may be executed by a seccomp filter of the same sets, which kills where systemd's refuses; capabilities and
privileges by prctl(2); files by bubblewrap.
"""
import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import lab

NQN = "nqn.2026-11.org.weft:sandbox"
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITIES = {"CAP_NET_ADMIN": 12}
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
ALLOW, KILL, EPERM_ERROR = 0x7FFF0000, 0x80000000, 0x00050001
EQUAL, MASKED_EQUAL = 4, 7
PROT_EXEC, PROT_WRITE, NAMESPACES = 4, 2, 0x7E020000


def settings(unit):
    """{name: [values]} of its [Service]."""
    found = {}
    with open(unit, encoding="utf-8") as f:
        for line in f:
            name, is_setting, value = line.strip().partition("=")
            if is_setting and not line.startswith("#"):
                found.setdefault(name, []).append(value)
    return found


def members(name):
    """The system calls of a name or, from @ on, of a set."""
    if not name.startswith("@"):
        return {name}
    said = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
    calls = set()
    for word in (line.split("#")[0].strip() for line in said.splitlines()[1:]):
        calls |= members(word) if word and word != name else set()
    return calls


def allowed(service):
    calls = members("@default")  # which systemd always leaves
    for value in service["SystemCallFilter"]:
        named = set().union(*(members(word) for word in value.lstrip("~").split()))
        calls = calls - named if value.startswith("~") else calls | named
    return calls


# ---- inside -----------------------------------------------------------------------------------------------------


class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def filter_calls(calls, families):
    lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(lib.seccomp_init(ctypes.c_uint32(KILL)))

    def rule(action, name, *compare):
        number = lib.seccomp_syscall_resolve_name(name.encode())
        if number >= 0 and lib.seccomp_rule_add_array(context, ctypes.c_uint32(action), number, len(compare),
                                                     (Compare * len(compare))(*compare)):
            sys.exit(f"no rule for {name}")
        return number >= 0

    known = 0
    for name in calls - {"socket", "mmap", "mprotect", "pkey_mprotect", "unshare", "setns", "clone", "clone3"}:
        known += rule(ALLOW, name)
    for family in families:
        rule(ALLOW, "socket", Compare(0, EQUAL, FAMILIES[family], 0))
    # MemoryDenyWriteExecute=: memory is written or executed, and what was the one does not become the other.
    for prot in (0, PROT_WRITE):
        rule(ALLOW, "mmap", Compare(2, MASKED_EQUAL, PROT_WRITE | PROT_EXEC, prot))
    rule(ALLOW, "mmap", Compare(2, MASKED_EQUAL, PROT_WRITE | PROT_EXEC, PROT_EXEC))
    for name in ("mprotect", "pkey_mprotect"):
        rule(ALLOW, name, Compare(2, MASKED_EQUAL, PROT_EXEC, 0))
    # RestrictNamespaces=; of clone3 nobody can look at the flags, and systemd refuses it, too.
    rule(ALLOW, "clone", Compare(0, MASKED_EQUAL, NAMESPACES, 0))
    rule(0x00050026, "clone3")  # ENOSYS
    if known < 100 or lib.seccomp_load(context):
        sys.exit(f"the filter of {known} calls does not load: {os.strerror(ctypes.get_errno())}")


def inside(calls, families, capabilities, argv):
    for capability in range(64):
        if capability not in capabilities:
            lab.libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    lab.libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.umask(0o077)
    filter_calls(calls, families)
    os.execv(argv[0], argv)


# ---- outside ----------------------------------------------------------------------------------------------------


class Sandbox:
    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.weft = os.path.join(self.build, "weft")
        self.service = settings(os.path.join(self.build, "systemd", "weft-serve.service"))
        self.tmp = tempfile.TemporaryDirectory()
        self.path, self.host, self.programs = "", None, []

    def file(self, name, size=8 << 20):
        path = os.path.join(self.tmp.name, name)
        with open(path, "wb") as f:
            f.truncate(size)
        return path

    def settings_are_those_that_are_tried(self):
        """What the cases below stand for."""
        for name, value in (("NoNewPrivileges", "yes"), ("MemoryDenyWriteExecute", "yes"), ("RestrictNamespaces", "yes"),
                            ("ProtectSystem", "strict"), ("PrivateTmp", "yes"), ("UMask", "0077")):
            if self.service.get(name) != [value]:
                raise AssertionError(f"{name}={self.service.get(name)}, not {value}")

    def serve(self, *argv):
        words = [sys.executable, os.path.abspath(__file__), self.build, "--inside",
                 json.dumps([sorted(allowed(self.service)), self.service["RestrictAddressFamilies"][0].split(),
                             [CAPABILITIES[c] for c in self.service["CapabilityBoundingSet"][0].split()]])]
        place = ["bwrap", "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--tmpfs", "/home",
                 "--bind", self.tmp.name, self.tmp.name, "--die-with-parent"]
        p = lab.Program(self.host, [*place, *words, self.weft, "serve", *argv],
                        f"{self.path}/serve-{len(self.programs)}.log")
        self.programs.append(p)
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 20) or p.status() is not None:
            raise AssertionError(f"it does not come up, status {p.status()}: {p.output()[-500:]}")
        return p

    def run(self, *argv):
        r = self.host.run(self.weft, *argv)
        if r.returncode:
            raise AssertionError(f"weft {' '.join(argv)}: {r.stderr[-300:]}")
        return r.stdout

    def end(self, p):
        """By its child, for bubblewrap stands before it."""
        pids = self.host.weft("serve")
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        if not pids or p.wait(20) != 0:
            raise AssertionError(f"it ends with {p.status()}: {p.output()[-500:]}")

    def works(self, transport):
        """A file past the cache and through it, a disk in memory and an NBD server's; a reload, figures, a host that works."""
        at = f"{self.tmp.name}/nbd-{transport}"
        nbd = lab.Program(self.host, ["nbdkit", "-f", "-U", at, "memory", "8m"],
                          f"{self.path}/nbdkit.log") if shutil.which("nbdkit") else None
        if nbd and not lab.until(lambda: os.path.exists(at), 10):
            raise AssertionError(f"nbdkit does not come up: {nbd.output()}")
        paths = [self.file("a.img"), "mem:8m"] + ([f"nbd+unix:///?socket={at}"] if nbd else [])
        doc = {"subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"}, "namespaces": [
            {"nsid": n, "enable": 1, "device": {"path": path}} for n, path in enumerate(paths, 1)]}],
            "ports": [{"portid": 1, "subsystems": [NQN], "addr": {
                "trtype": transport, "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "4420"}}]}
        config = os.path.join(self.tmp.name, "target.json")
        with open(config, "w", encoding="utf-8") as f:
            json.dump(doc, f)
        p = self.serve("--config", config, "--direct", "--metrics", "127.0.0.1:9420")
        uri = f"nvme+{transport}://127.0.0.1/{NQN}?ns="
        for n in range(1, len(paths) + 1):
            self.run("bench", uri + str(n), "--rw", "randrw", "--bs", "16k", "--iodepth", "8", "--runtime", "1", "--verify",
                     "--yes")
        for verb in (["flush"], ["write-zeroes", "--start-block", "0", "-c", "7"], ["verify", "--start-block", "0", "-c", "7"],
                     ["dsm", "--ad", "--slbs", "0", "-b", "8"]):
            self.run(verb[0], uri + "1", *verb[1:])
        os.truncate(self.file("a.img"), 16 << 20)
        with open(config, "w", encoding="utf-8") as f:
            doc["subsystems"][0]["namespaces"].append({"nsid": 9, "enable": 1, "device": {"path": self.file("b.img")}})
            json.dump(doc, f)
        for pid in self.host.weft("serve"):
            os.kill(pid, signal.SIGHUP)
        if not lab.until(lambda: p.says("read again, 1 change"), 10):
            raise AssertionError(f"the configuration is not read again: {p.output()[-500:]}")
        self.run("id-ns", uri + "9")
        self.end(p)
        if nbd:
            nbd.process.terminate()
            nbd.wait(10)

    def is_confined(self):
        """What is refused is refused: else the cases above say nothing."""
        outside = os.path.join(os.path.dirname(self.tmp.name), f"weft-outside-{os.getpid()}")
        script = ("import os, socket, sys\n"
                  "try: open(sys.argv[1], 'w')\n"
                  "except OSError: print('read-only', flush=True)\n"
                  "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n")
        words = json.dumps([sorted(allowed(self.service)), self.service["RestrictAddressFamilies"][0].split(), []])
        r = self.host.run("bwrap", "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", sys.executable,
                          os.path.abspath(__file__), self.build, "--inside", words, sys.executable, "-c", script, outside)
        if "read-only" not in r.stdout or r.returncode not in (-signal.SIGSYS, 128 + signal.SIGSYS):
            raise AssertionError(f"it is not confined: {r.returncode}, {r.stdout!r}, {r.stderr[-300:]!r}")


def main():
    if sys.argv[2:3] == ["--inside"]:
        calls, families, capabilities = json.loads(sys.argv[3])
        inside(set(calls), families, capabilities, sys.argv[4:])
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.need("systemd-analyze", "bwrap")
    lab.enter()
    report, box = lab.Report(args.build, "sandbox"), Sandbox(args.build)
    box.host, _ = lab.lab(1)

    def work(path, case):
        box.path = path
        try:
            return case()
        finally:
            for program in box.programs:
                program.kill()

    for name, case in (("what is tried is what is set", box.settings_are_those_that_are_tried),
                       ("what is refused", box.is_confined),
                       ("serving by TCP", lambda: box.works("tcp")), ("serving by RDMA", lambda: box.works("rdma"))):
        if args.only in name:
            report.prove(name, lambda path, case=case: work(path, case))
    report.finish()


main()
