# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The two ends of a case: weft, and the kernel's stack in a guest.

Both answer to the same calls, so that a case is written once and run in both directions; weft
answers to some more, so that its storage half can be beside the guests or in one of them.
"""
import os
import re
import shlex
import signal

from lab import Failed, last_line, state, until


class Weft:
    """In the namespace beside the guests, on its own RNIC: of iWARP where the kernel's is siw."""
    name = "weft"

    def __init__(self, lab, rdma):
        self.lab = lab
        self.address = {4: "192.168.77.1", 6: "fd77::1"}
        self.iwarp = rdma == "siw"
        self.weft = ("env", "WEFT_DEVICES=" + ("iwarp" if self.iwarp else "roce"), lab.weft)
        self.device = "weft_iw_br0" if self.iwarp else "weft_br0"
        self.wire = lab.wire

    def gid_index(self, family):
        """Of the address, on our device; of iWARP there is one, which is no address."""
        if self.iwarp:
            return 0
        text = self.lab.run_ok(*self.weft, "devices", self.device)
        want = "::ffff:" + self.address[4] if family == 4 else self.address[6]
        match = re.search(rf"gid (\d+) *: {re.escape(want)},", text)
        if not match:
            raise Failed(f"no GID {want} on {self.device}")
        return int(match[1])

    def start(self, command, timeout=120):
        return self.lab.start("timeout", timeout, *self.weft, "run", "--", *command.split())

    def listen(self, command, timeout=120, tcp=None, cm=None, says=None):
        """start() of a server, once it listens at that port or says so."""
        if says:
            command = f"stdbuf -oL {command}"
        server = self.start(command, timeout)
        if tcp:
            self.await_tcp(tcp)
        elif says:
            until(lambda: says in server.output or not server.running(), 20, f"'{says}'")
        else:
            self.await_cm(cm, server)
        return server

    def run(self, command, timeout=60, wrap=()):
        return self.lab.run(*wrap, *self.weft, "run", "--", *command.split(), timeout=timeout)

    def await_tcp(self, port):
        until(lambda: f":{port} " in self.lab.run_ok("ss", "-Hltn"), 20, f"TCP port {port} open")

    def await_cm(self, _port, server):
        """What weft listens on shows nowhere: wait until the server sleeps."""
        until(lambda: child_state(server.popen.pid) == "S", 20, "server at rest")

    def kill(self, name):
        """-9 to the programs of that name."""
        for pid in self.lab.pids():
            if comm(pid) == name:
                os.kill(pid, signal.SIGKILL)

    def die(self):
        """As if the power had failed: all of weft's at once, the broker first, nothing is said."""
        mine = [pid for pid in self.lab.pids() if comm(pid) == "weft"]
        for pid in sorted(mine, key=lambda pid: "broker" not in cmdline(pid)):
            os.kill(pid, signal.SIGKILL)

    # ---- the storage half

    def file(self, t, name):
        return t.file(name)

    def shell(self, script, timeout=60):
        return self.lab.run_ok("bash", "-c", script, timeout=timeout)

    def tool(self, *args, timeout=60):
        """What `weft ARGS` prints."""
        return self.lab.run_ok(*self.weft, *args, timeout=timeout)

    def start_tool(self, *args):
        return self.lab.start(*self.weft, *args)

    def serve(self, *args):
        """`weft serve ARGS`, once hosts can connect."""
        p = self.start_tool("serve", *args)
        until(lambda: "ready" in p.output or not p.running(), 20, "weft serve ready")
        if not p.running():
            raise Failed(f"weft serve: {last_line(p.output)}")
        return p


class InGuest:
    """What runs in a guest, and how to tell that it listens."""

    def __init__(self, lab, guest, rdma):
        self.lab, self.guest, self.rdma = lab, guest, rdma
        number = int(guest[1:]) + 1
        self.address = {4: f"192.168.77.{number}", 6: f"fd77::{number}"}
        self.device = f"{rdma}0"

    def prepare(self):
        self.lab.guest_ok(self.guest, f"lab-rdma {self.rdma}; modprobe -r brd\n"
                          "dmesg -n 8")  # all of it to the console, where it outlives the guest
        self.lab.new_log(self.guest)

    def file(self, _t, name):
        return f"/tmp/{name}"

    def shell(self, script, timeout=60):
        return self.lab.guest_ok(self.guest, script, timeout)

    def await_there(self, test, what):
        self.shell(f"for i in {{1..300}}; do {test} && exit; sleep 0.05; done; "
                   f"echo '{what} is not there' >&2; exit 1")

    def await_cm(self, port, _server):
        self.await_there(listening_cm(port), f"rdma_cm port {port}")


class WeftInGuest(InGuest):
    """The storage half on the system's rdma-core and a device of the kernel."""
    name = "weft"
    switch = ("--provider", "system")

    def tool(self, *args, timeout=60):
        return self.shell(shlex.join(["/opt/weft/weft", *map(str, args), *self.switch]), timeout)

    def start_tool(self, *args):
        command = shlex.join(["/opt/weft/weft", *map(str, args), *self.switch])
        return self.lab.guest_start(self.guest, command, 300)

    def serve(self, *args):
        p = self.start_tool("serve", *args)
        self.await_cm(4420, p)
        # The file is the same as ever, its libraries lie beside it: the switch alone turned it away.
        self.shell("m=/proc/$(pidof -s weft)/maps; grep -q '/usr/lib.*libibverbs.so.1' $m && "
                   "! grep -q /opt/weft/lib $m || { echo 'weft runs on its own rdma-core' >&2; exit 1; }")
        return p


class Kernel(InGuest):
    name = "Linux"
    wire = "/opt/weft/wire"

    def gid_index(self, family):
        return 0 if self.rdma == "siw" else 1 if family == 4 else 2

    def start(self, command, timeout=120):
        return self.lab.guest_start(self.guest, command, timeout)

    def listen(self, command, timeout=120, tcp=None, cm=None, says=None):
        if says:
            command, ready = f"stdbuf -oL {command}", f"grep -q '{says}' /proc/$$/fd/1"
        else:
            ready = listening_tcp(tcp) if tcp else listening_cm(cm)
        return self.lab.guest_start(self.guest, command, timeout, ready)

    def run(self, command, timeout=60, wrap=()):
        return self.lab.guest(self.guest, command, timeout)

    def kill(self, name):
        self.shell(f"pkill -9 -x {name}")

    def reboot(self):
        """The guest ends as if its power had failed; the next one takes its place on the wire.

        That one has booted the same kernel, so what the kernel hands out (queue pair numbers)
        begins anew, under the same addresses and the same GUID.
        """
        names = self.lab.names
        if self.guest == names[-1]:
            raise Failed("no guest is left to take the place of a rebooted one")
        old, self.guest = self.guest, names[names.index(self.guest) + 1]
        mac = self.lab.guest_ok(old, "cat /sys/class/net/eth0/address").strip()
        self.lab.power_off(old)
        self.shell(f"rdma link delete {self.device} 2>/dev/null; ip link set eth0 down\n"
                   f"ip addr flush dev eth0; ip link set eth0 address {mac} && ip link set eth0 up\n"
                   f"ip addr add {self.address[4]}/24 dev eth0\n"
                   f"ip addr add {self.address[6]}/64 dev eth0 nodad\n")
        self.prepare()


def listening_tcp(port):
    return f"grep -q ':{port:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6"


def listening_cm(port):
    return f"rdma resource show cm_id | grep -q 'src-addr [^ ]*:{port} '"


def comm(pid):
    return read(f"/proc/{pid}/comm").strip()


def cmdline(pid):
    return read(f"/proc/{pid}/cmdline").replace("\0", " ")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def child_state(pid):
    """Of the program that timeout(1), which start() begins with, is the parent of."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return state(f.read().split()[0])
    except (OSError, IndexError):
        return None


def finish(server, client, seconds, server_may_fail=False):
    """Waits for a client that ran to its end, then for the server."""
    if client.returncode:
        server.stop()
        # perftest says what went wrong first, and last that something did.
        told = re.search(r"^ *Failed status .*$", client.stdout + client.stderr, re.M)
        raise Failed(f"client: {told[0].strip() if told else last_line(client.stderr or client.stdout)} "
                     f"(status {client.returncode}); server: {last_line(server.output)}")
    status = server.wait(seconds)
    if status and not server_may_fail:
        raise Failed(f"server: {last_line(server.output)} (status {status})")
