# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""NVMe over RDMA: the kernel's host against `weft serve`, weft's host against the kernel's target."""
import hashlib
import os

import cases
from cases import ACTIVE, PASSIVE
from lab import Failed, until

NQN = "nqn.2026-11.org.weft:vm"
MIB = 1 << 20


def case(name, directions, **kwargs):
    return cases.case(name, directions, nvme=True, **kwargs)


def serve(t, mib=64, *options):
    """weft serve of a new image; its process and path."""
    image = t.file("disk.img")
    if not os.path.exists(image):
        with open(image, "wb") as f:
            f.truncate(mib * MIB)
    p = t.lab.start(t.lab.weft, "serve", image, "--nqn", NQN, "--listen",
                    f"rdma://{bracketed(t.weft.address[t.family])}:4420", *options)
    until(lambda: "ready" in p.output or not p.running(), 20, "weft serve ready")
    if not p.running():
        raise Failed(f"weft serve: {p.output.splitlines()[-1]}")
    return p, image


def bracketed(address):
    return f"[{address}]" if ":" in address else address


def export(t, mib=64):
    """A RAM disk of the guest on its nvmet; the URI."""
    address = t.kernel.address[t.family]
    t.lab.guest_ok(t.kernel.guest, "lab-nvmet clear 2>/dev/null; modprobe -rq brd\n"
                   f"modprobe brd rd_nr=1 rd_size={mib * 1024} && "
                   f"lab-nvmet export -t rdma -a {address} -n {NQN} -d /dev/ram0")
    return f"nvme+rdma://{bracketed(address)}:4420/{NQN}?ns=1"


def connect(t, options=""):
    """Shell lines that connect the guest to weft serve and set $disk."""
    return (f"modprobe nvme-rdma\n"
            f"nvme connect -t rdma -a {t.weft.address[t.family]} -s 4420 -n {NQN} {options} || exit 1\n"
            "for i in {1..100}; do disk=$(ls /dev/nvme*n1 2>/dev/null | head -1)\n"
            "[ -b \"$disk\" ] && break; sleep 0.05; done; [ -b \"$disk\" ] || exit 1\n")


DISCONNECT = f"nvme disconnect -n {NQN} >/dev/null\n"


def sha256(path, length):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read(length)).hexdigest()


@case("nvme discover and connect, 4 MiB written and read back", (PASSIVE,), short=True)
def kernel_host(t):
    p, image = serve(t)
    out = t.lab.guest_ok(
        t.kernel.guest,
        f"modprobe nvme-rdma; nvme discover -t rdma -a {t.weft.address[t.family]} -s 4420 "
        f"| grep -q 'subnqn: *{NQN}$' || {{ echo not in the discovery log >&2; exit 1; }}\n"
        + connect(t) +
        "dd if=/dev/urandom of=/tmp/r bs=1M count=4 2>/dev/null\n"
        "dd if=/tmp/r of=$disk bs=64k oflag=direct 2>/dev/null || exit 1\n"
        "dd if=$disk of=/tmp/r2 bs=256k count=16 iflag=direct 2>/dev/null || exit 1\n"
        "cmp /tmp/r /tmp/r2 || exit 1; sha256sum </tmp/r\n" + DISCONNECT, 90)
    if p.stop() not in (0, -15):
        raise Failed(f"weft serve: {p.output.splitlines()[-1]}")
    if out.split()[0] != sha256(image, 4 * MIB):
        raise Failed("the image does not hold what the guest wrote")


@case("weft discover and cp --verify, 4 MiB there and back", (ACTIVE,), short=True)
def weft_host(t):
    uri = export(t)
    out = t.lab.run_ok(t.lab.weft, "discover", "-t", "rdma", "-a", t.kernel.address[t.family])
    if NQN not in out:
        raise Failed("not in the discovery log")
    source, back = t.file("source"), t.file("back")
    with open(source, "wb") as f:
        f.write(os.urandom(4 * MIB))
    t.lab.run_ok(t.lab.weft, "cp", "--verify", source, uri)
    t.lab.run_ok(t.lab.weft, "cp", "--size", 4 * MIB, uri, back)
    there = t.lab.guest_ok(t.kernel.guest, "head -c 4194304 /dev/ram0 | sha256sum").split()[0]
    if not there == sha256(source, 4 * MIB) == sha256(back, 4 * MIB):
        raise Failed("what came back or lies in the guest differs from what was written")
