#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Discovery by mDNS, with avahi-daemons of its own: what weft serve --mdns publishes and weft discover --mdns finds, with the
daemon gone and back, without one, with names that others have, and with what nobody should say.

usage: mdns.py BUILD [--full] [--only WORD]
"""
import argparse
import json
import os
import random
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time

import lab

DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
NQN = "nqn.2026-11.org.example:found"
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={bus}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow own="*"/><allow send_destination="*" eavesdrop="false"/>
<allow receive_sender="*"/><allow user="*"/></policy></busconfig>
"""
AVAHI = """[server]
host-name={name}
use-ipv4=yes
use-ipv6=yes
enable-dbus=yes
[publish]
publish-workstation=no
publish-hinfo=no
"""


class Lab:
    def __init__(self, args):
        self.weft = os.path.join(os.path.abspath(args.build), "weft")
        self.only = args.only
        self.left, self.right = lab.lab(2)
        self.report = lab.Report(args.build, "mdns")
        self.tmp = tempfile.TemporaryDirectory()
        self.programs, self.path = [], ""
        for h in (self.left, self.right):
            h.daemon = None
            self.bus(h)

    def file(self, name, text):
        path = os.path.join(self.tmp.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    # --- a host's daemons ---

    def bus(self, h):
        path = os.path.join(self.tmp.name, f"bus-{h.name}")
        h.env = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={path}"}
        h.bus = lab.Program(h, ["dbus-daemon", "--nofork", "--nopidfile", "--nosyslog", "--config-file",
                                self.file(f"{h.name}.conf", BUS.format(bus=path))], path + ".log")
        if not lab.until(lambda: os.path.exists(path) or h.bus.status() is not None, 10) or h.bus.status() is not None:
            lab.skip(f"no bus of our own can be had: {h.bus.output()[-300:]}")

    def avahi(self, h):
        """Its directory is one of its own; that of the bus is below another."""
        conf = self.file(f"avahi-{h.name}.conf", AVAHI.format(name=h.name))
        h.daemon = lab.Program(h, ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run && exec \"$@\"", "sh",
                                   "avahi-daemon", "-f", conf, "--no-drop-root", "--no-chroot", "--no-rlimits"],
                               os.path.join(self.tmp.name, f"avahi-{h.name}.log"), h.env)
        up = lab.until(lambda: h.daemon.says("Server startup complete") or h.daemon.status() is not None, 15)
        if not up or h.daemon.status() is not None:
            lab.skip(f"no avahi-daemon of our own can be had: {h.daemon.output()[-300:]}")

    def no_avahi(self, h, how=signal.SIGKILL):
        if h.daemon:
            h.daemon.process.send_signal(how)
            h.daemon.process.wait()
        h.daemon = None

    def close(self):
        for h in (self.left, self.right):
            self.no_avahi(h)
            h.bus.kill()

    # --- weft ---

    def serve(self, h, *argv, name="serve"):
        p = lab.Program(h, [self.weft, "serve", "mem:8m", "--mdns", "--control", f"{self.tmp.name}/{name}.sock", *argv],
                        f"{self.path}/{name}.log", h.env)
        self.programs.append(p)
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 10) or p.status() is not None:
            raise AssertionError(f"weft serve does not come up: {p.output()[-300:]}")
        return p

    def run(self, h, *argv, status=0, env=None):
        r = h.run(self.weft, *argv, timeout=60, env={**os.environ, **(env or h.env)})
        if r.returncode != status:
            raise AssertionError(f"weft {' '.join(argv)}: status {r.returncode}, not {status}: {r.stderr[-600:]}"
                                 f"{r.stdout[-300:]}")
        return r

    def list(self, h, *argv):
        return json.loads(self.run(h, "discover", "--mdns", "--list", "-o", "json", *argv).stdout)["services"]

    def finds(self, h, count, *argv):
        """Waits for so many services to be found; which."""
        found = []
        def enough():
            found[:] = self.list(h, *argv)
            return len(found) == count
        if not lab.until(enough, 30):
            raise AssertionError(f"{h.name} finds {found}, not {count}")
        return found

    def says(self, p, text, times=1):
        if not lab.until(lambda: p.output().count(text) >= times, 15):
            raise AssertionError(f"'{text}' is not said {times} times: {p.output()[-600:]}")

    def prove(self, name, function):
        if self.only in name:
            self.report.prove_and_end(name, self, lambda: function(self))


def same(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {got!r}, not {want!r}")


def everywhere(l):
    """A port on all addresses, by TCP and by RDMA; withdrawn when it ends."""
    p = l.serve(l.left, "-n", NQN, "-l", "tcp://:8009", "-l", "rdma://:4420")
    l.says(p, "published by mDNS as", 2)
    found = l.finds(l.right, 2)
    same("types", sorted((f["type"], f["trtype"], f["trsvcid"]) for f in found),
         [("_nvme-disc._tcp", "tcp", "8009"), ("_nvme-disc._udp", "rdma", "4420")])
    for f in found:
        same("where", (f["host"], f["interface"], f["subnqn"]), ("left.local", "eth0", DISCOVERY))
        same("addresses", sorted(f["traddr"]), sorted([l.left.address, l.left.address6]))
    if shutil.which("avahi-browse"):  # as others see it
        seen = l.right.run("avahi-browse", "-rtp", "_nvme-disc._udp", env={**os.environ, **l.right.env}).stdout
        if '"p=roce"' not in seen or f'"nqn={DISCOVERY}"' not in seen:
            raise AssertionError(f"avahi-browse sees {seen}")
    # On the machine itself it is one, and others' addresses come first.
    for f in l.finds(l.left, 2):
        same("the first address", f["traddr"][0] in (l.left.address, l.left.address6), True)
    out = l.run(l.right, "discover", "--mdns").stdout
    same("each is asked", out.count("Discovery Log Number of Records"), 2)
    uris = l.run(l.right, "connect-all", "--mdns", "-t", "tcp").stdout.split()
    same("what is offered", len(uris), 2)
    for uri in uris:
        l.run(l.right, "id-ns", f"{uri}?ns=1")
    same("it ends", lab.end_in_order([p]), None)
    l.finds(l.right, 0)
    l.run(l.right, "connect-all", "--mdns", status=1)


def one_address(l):
    """A listener on one of several addresses is published with that alone; one on loopback to nobody else."""
    l.left.ip("addr", "replace", "10.77.0.9/24", "dev", "eth0")
    p = l.serve(l.left, "-l", "tcp://10.77.0.9:8009", "-l", "tcp://127.0.0.1:4421")
    l.says(p, "published by mDNS as", 2)
    found = l.finds(l.right, 1)[0]
    same("it", (found["name"], found["traddr"], found["trsvcid"]), ("weft at 10.77.0.9, tcp 8009", ["10.77.0.9"], "8009"))
    here = sorted((f["traddr"][0], f["trsvcid"]) for f in l.finds(l.left, 2))
    same("on the machine itself", here, [("10.77.0.9", "8009"), ("127.0.0.1", "4421")])
    same("it ends", lab.end_in_order([p]), None)
    l.finds(l.right, 0)
    l.left.ip("addr", "del", "10.77.0.9/24", "dev", "eth0")


def changes(l):
    """Ports that come and go while it serves, and the name of the discovery subsystem."""
    doc = {"subsystems": [], "ports": []}
    conf = l.file("target.json", json.dumps(doc))
    control = f"{l.tmp.name}/changing.sock"
    p = lab.Program(l.left, [l.weft, "serve", "--config", conf, "--mdns", "--control", control],
                    f"{l.path}/serve.log", l.left.env)
    l.programs.append(p)
    l.says(p, "ready")
    same("before there is a port", l.list(l.right), [])
    l.run(l.left, "target", "-s", control, "create", "/ports/1", "trtype=tcp", "adrfam=ipv4", "traddr=0.0.0.0",
          "trsvcid=8009")
    found = l.finds(l.right, 1)[0]
    same("the port that came", (found["trsvcid"], found["subnqn"]), ("8009", DISCOVERY))
    l.file("target.json", json.dumps({"discovery": {"nqn": "nqn.2026-11.org.example:disc"}, "subsystems": [], "ports": [
        {"portid": 1, "addr": {"trtype": "tcp", "adrfam": "ipv4", "traddr": "0.0.0.0", "trsvcid": "8009"},
         "subsystems": [], "referrals": []}]}))
    p.process.send_signal(signal.SIGHUP)
    if not lab.until(lambda: [f["subnqn"] for f in l.list(l.right)] == ["nqn.2026-11.org.example:disc"], 15):
        raise AssertionError(f"the new name is not told: {l.list(l.right)}, {p.output()}")
    l.run(l.right, "discover", "--mdns")
    l.run(l.left, "target", "-s", control, "remove", "/ports/1")
    l.finds(l.right, 0)


def restarted(l):
    """The daemon is killed: that is said once, hosts are served, and when it is back so is what was published."""
    p = l.serve(l.left, "-n", NQN, "-l", "tcp://:8009")
    l.says(p, "published by mDNS as")
    l.no_avahi(l.left)
    l.says(p, "avahi-daemon does not answer")
    l.run(l.right, "id-ns", f"nvme+tcp://{l.left.address}:8009/{NQN}?ns=1")
    l.avahi(l.left)
    l.says(p, "published by mDNS as", 2)
    l.finds(l.right, 1)
    same("it is said once", p.output().count("does not answer"), 1)


def none_at_all(l):
    """Neither a daemon nor a bus: the service goes on, and it is said what is to be done."""
    l.no_avahi(l.left)
    p = l.serve(l.left, "-n", NQN, "-l", "tcp://:8009")
    l.says(p, "systemctl start avahi-daemon")
    l.run(l.right, "id-ns", f"nvme+tcp://{l.left.address}:8009/{NQN}?ns=1")
    r = l.run(l.left, "discover", "--mdns", status=1)
    if "systemctl start avahi-daemon" not in r.stderr:
        raise AssertionError(f"no next step: {r.stderr}")
    l.avahi(l.left)
    l.says(p, "published by mDNS as")
    nowhere = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={l.tmp.name}/nowhere"}
    l.run(l.left, "discover", "--mdns", status=1, env=nowhere)
    q = lab.Program(l.left, [l.weft, "serve", "mem:8m", "--mdns", "-l", "tcp://:4421", "--control", "none"],
                    f"{l.path}/nowhere.log", nowhere)
    l.programs.append(q)
    l.says(q, "avahi-daemon does not answer")
    same("it is said once", q.output().count("does not answer"), 1)


def hangs(l):
    """A daemon that is stopped holds up neither hosts nor the end."""
    p = l.serve(l.left, "-n", NQN, "-l", "tcp://:8009")
    l.says(p, "published by mDNS as")
    os.kill(l.left.daemon.pid, signal.SIGSTOP)
    try:
        l.run(l.left, "target", "-s", f"{l.tmp.name}/serve.sock", "create", "/ports/9", "trtype=tcp", "adrfam=ipv4",
              f"traddr={l.left.address}", "trsvcid=4429")
        l.run(l.right, "id-ns", f"nvme+tcp://{l.left.address}:8009/{NQN}?ns=1")
        begun = time.monotonic()
        same("it ends", lab.end_in_order([p]), None)
        if time.monotonic() - begun > 6:
            raise AssertionError("the end takes as long as the daemon hangs")
    finally:
        os.kill(l.left.daemon.pid, signal.SIGCONT)
    l.finds(l.right, 0)


def collision(l):
    """Two machines that call themselves the same."""
    first = l.serve(l.left, "-l", "tcp://:8009", name="first")
    l.says(first, "published by mDNS as")
    second = l.serve(l.right, "-l", "tcp://:8009", name="second")
    l.says(second, "is another's name on the network")
    l.says(second, "published by mDNS as")
    names = [f["name"] for f in l.finds(l.right, 2)]
    same("their names", names[1], f"{names[0]} #2")


# --- what nobody should say -----------------------------------------------------------------------

def labels(*names):
    return b"".join(bytes([len(n)]) + n for n in names) + b"\0"


def record(name, kind, data, cls=1):
    return name + struct.pack(">HHIH", kind, cls, 120, len(data)) + data


TYPE = labels(b"_nvme-disc", b"_tcp", b"local")


def instance(name):
    return bytes([len(name)]) + name + TYPE


def told(name, port=8009, txt=(b"p=tcp",), address=None, host=None):
    """The records of a service."""
    host = labels(host or b"h%08x" % random.getrandbits(32), b"local")
    text = b"".join(bytes([len(t)]) + t for t in txt) or b"\0"
    r = [record(TYPE, 12, instance(name)), record(instance(name), 33, struct.pack(">HHH", 0, 0, port) + host, 0x8001),
         record(instance(name), 16, text, 0x8001)]
    return r + ([record(host, 1, socket.inet_aton(address), 0x8001)] if address else [])


def announce(records):
    """By multicast, from the port of mDNS, again and again, as who is asked would: runs on the host that is to lie."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.77.0.1"))
    s.bind(("10.77.0.1", 5353))
    packets = [[]]
    for r in records:
        if sum(map(len, packets[-1])) + len(r) > 1300:
            packets.append([])
        packets[-1].append(r)
    while True:
        for p in packets:
            s.sendto(struct.pack(">HHHHHH", 0, 0x8400, 0, len(p), 0, 0) + b"".join(p), ("224.0.0.251", 5353))
            time.sleep(0.005)  # of what comes faster a busy machine's daemon loses some
        print("told", flush=True)
        time.sleep(0.5 if len(packets) < 10 else 60)  # avahi-daemon takes its time over many


def lie(l, what):
    """Left's daemon is no more, and right has forgotten what that has told of and not taken back."""
    l.no_avahi(l.left)
    l.no_avahi(l.right)
    l.avahi(l.right)
    p = lab.Program(l.left, [sys.executable, os.path.abspath(__file__), "--lie", what], f"{l.path}/{what}.log")
    l.programs.append(p)
    l.says(p, "told")
    return p


NASTY = [
    (b"\x1b[2J\x1b]0;gone\x07", {"txt": (b"p=carrier",)}),
    (b"newline\nin it", {"txt": (b"p=tcp", b"nqn=nqn.x\n\x1b[31m")}),
    (b"long NQN", {"txt": (b"p=tcp", b"nqn=nqn." + b"x" * 240)}),
    (b"NUL in it", {"txt": (b"nqn=nqn.a\0b", b"P=TCP")}),
    (b"no port", {"port": 0}),
    (b"loopback", {"address": "127.0.0.1"}),
    (b"multicast", {"address": "224.0.0.1"}),
    (b"any", {"address": "0.0.0.0"}),
    ("\u202eright to left".encode(), {"txt": (b"p=",)}),
    (b"l" * 63, {"txt": (b"=", b"p", b"p=fc", b"\xff" * 200)}),
]


def lies(kind):
    random.seed(7)
    good = told(b"good", txt=(b"P=tcp",), address="10.77.0.1")
    if kind == "nasty":
        return [r for name, how in NASTY for r in told(name, **{"address": "10.77.0.1", **how})] + good
    return [told(b"\x1b%d" % i)[0] for i in range(1000)] + good


def printable(what, text):
    bad = [c for c in text if not (" " <= c <= "~" or c == "\n")]
    if bad:
        raise AssertionError(f"{what} prints {bad[:5]!r}: {text!r}")


def hostile(l):
    lie(l, "nasty")
    p = l.serve(l.left, "-n", NQN, "-l", "tcp://:8009")
    found = {f["name"]: f for f in l.finds(l.right, len(NASTY) + 1)}
    same("those that can be asked", [n for n, f in found.items() if "fault" not in f], ["good"])
    for argv in (["--list"], []):
        r = l.run(l.right, "discover", "--mdns", *argv)
        printable(argv, r.stdout + r.stderr)
    same("the good one is asked", r.stdout.count("Discovery Log Number of Records"), 1)
    if not 1 < len(r.stderr.splitlines()) <= 9:
        raise AssertionError(f"complaints: {r.stderr}")
    same("the target serves", p.status(), None)
    renew(l)


def a_thousand(l):
    """A part is listed, the rest counted, in bounded time."""
    lie(l, "many")
    l.finds(l.right, 256)
    begun = time.monotonic()
    r = l.run(l.right, "discover", "--mdns", "--list", "-o", "json")
    if "more than 256 services" not in r.stderr or time.monotonic() - begun > 20:
        raise AssertionError(f"{time.monotonic() - begun} s, {r.stderr[-300:]}")
    printable("of many", r.stdout + r.stderr)
    renew(l)


def renew(l):
    """The right one has heard it all, and forgets it."""
    for p in l.programs:
        p.kill()
    l.no_avahi(l.right)
    l.avahi(l.right)
    l.avahi(l.left)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build", nargs="?")
    p.add_argument("--full", action="store_true", help="what takes longer, too")
    p.add_argument("--only", default="")
    p.add_argument("--lie", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.lie:
        announce(lies(args.lie))
        return
    lab.need("dbus-daemon", "avahi-daemon")
    lab.enter()
    l = Lab(args)
    l.avahi(l.left)
    l.avahi(l.right)
    cases = [("all addresses, two transports", everywhere), ("the daemon is killed", restarted),
             ("no daemon at all", none_at_all), ("a name that another has", collision), ("what nobody should say", hostile)]
    if args.full or args.only:
        cases += [("one address", one_address), ("ports that change", changes), ("a daemon that hangs", hangs),
                  ("a thousand services", a_thousand)]
    for name, function in cases:
        l.prove(name, function)
    l.close()
    l.report.everything_ends([l.left, l.right])
    l.report.finish()


if __name__ == "__main__":
    main()
