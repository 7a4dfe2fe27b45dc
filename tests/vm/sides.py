# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The two ends of a case: weft in the namespace, the kernel's stack in guest g1.

Both answer to the same calls, so that a case is written once and run in both directions.
"""
import re

from lab import Failed, last_line, until


class Weft:
    name = "weft"

    def __init__(self, lab):
        self.lab = lab
        self.address = {4: "192.168.77.1", 6: "fd77::1"}
        self.device = "weft_br0"

    def gid_index(self, family):
        """Of the address, on our device."""
        text = self.lab.run_ok(self.lab.weft, "devices", self.device)
        want = "::ffff:" + self.address[4] if family == 4 else self.address[6]
        match = re.search(rf"gid (\d+) *: {re.escape(want)},", text)
        if not match:
            raise Failed(f"no GID {want} on {self.device}")
        return int(match[1])

    def start(self, command, timeout=120):
        return self.lab.start("timeout", timeout, self.lab.weft, "run", "--", *command.split())

    def run(self, command, timeout=60, wrap=()):
        return self.lab.run(*wrap, self.lab.weft, "run", "--", *command.split(), timeout=timeout)

    def await_tcp(self, port):
        until(lambda: f":{port} " in self.lab.run_ok("ss", "-Hltn"), 20, f"TCP port {port} open")

    def await_cm(self, _port, server):
        """What weft listens on shows nowhere: wait until the server sleeps."""
        until(lambda: state(server.popen.pid) == "S", 20, "server at rest")


class Kernel:
    name = "Linux"

    def __init__(self, lab, guest="g1", number=1):
        self.lab, self.guest = lab, guest
        self.address = {4: f"192.168.77.{number + 1}", 6: f"fd77::{number + 1}"}
        self.device = "rxe0"
        self.ready = False

    def prepare(self):
        if not self.ready:
            self.lab.guest_ok(self.guest, "lab-rdma rxe; dmesg -C")
            self.ready = True

    def gid_index(self, family):
        return 1 if family == 4 else 2

    def start(self, command, timeout=120):
        return self.lab.guest_start(self.guest, f"timeout {timeout} {command}", timeout + 10)

    def run(self, command, timeout=60, wrap=()):
        return self.lab.guest(self.guest, command, timeout)

    def await_there(self, test, what):
        self.lab.guest_ok(self.guest, f"for i in {{1..300}}; do {test} && exit; sleep 0.05; done; "
                          f"echo '{what} is not there' >&2; exit 1")

    def await_tcp(self, port):
        self.await_there(f"ss -Hltn sport = :{port} | grep -q .", f"TCP port {port}")

    def await_cm(self, port, _server):
        self.await_there(f"rdma resource show cm_id | grep -q 'src-addr [^ ]*:{port} '",
                         f"rdma_cm port {port}")


def state(pid):
    """S, R, D, ... of the process that `vm ns` has become; its timeout(1) is the parent."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            child = f.read().split()
        with open(f"/proc/{child[0]}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return None


def finish(server, client, seconds, server_may_fail=False):
    """Waits for a client that ran to its end, then for the server."""
    if client.returncode:
        server.stop()
        raise Failed(f"client: {last_line(client.stderr or client.stdout)} "
                     f"(status {client.returncode}); server: {last_line(server.output)}")
    status = server.wait(seconds)
    if status and not server_may_fail:
        raise Failed(f"server: {last_line(server.output)} (status {status})")
