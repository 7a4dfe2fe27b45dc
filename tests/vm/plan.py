# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What runs where: the guests of a section, conditions of the wire in it, and cases under each."""
from dataclasses import dataclass

from cases import ACTIVE, PASSIVE
from lab import Failed


@dataclass
class Condition:
    """MTUs of the two interfaces, the IP version, and what netem does to both ways."""
    name: str
    weft_mtu: int = 1500
    guest_mtu: int = 1500
    family: int = 4
    netem: str = ""
    kib: int = 4096  # how much a case that moves a file moves: less where each loss costs seconds
    piece: str = "256k"  # in commands of this size
    echo: bool = True  # does the guest answer echo requests?

    @property
    def plain(self):
        return self.weft_mtu == self.guest_mtu == 1500 and self.family == 4 and not self.netem

    def apply(self, lab):
        r = lab.run("ip", "link", "set", "br0", "mtu", self.weft_mtu)
        if r.returncode:
            raise Failed(f"br0: {r.stderr}")
        for guest in lab.names:
            lab.guest_ok(guest, f"ip link set eth0 mtu {self.guest_mtu}\n"
                         f"sysctl -qw net.ipv4.icmp_echo_ignore_all={int(not self.echo)}\n" +
                         self.shaping())

    def shaping(self):
        """For a guest: its way out, and through ifb0 its way in."""
        clear = ("tc qdisc del dev eth0 root 2>/dev/null; tc qdisc del dev eth0 ingress 2>/dev/null\n"
                 "ip link del ifb0 2>/dev/null\n")
        if not self.netem:
            return clear + "true\n"
        return clear + (
            "set -e; modprobe ifb numifbs=0; modprobe -a sch_netem act_mirred sch_ingress cls_matchall\n"
            "ip link add ifb0 mtu 65535 type ifb; ip link set ifb0 up\n"
            "tc qdisc add dev eth0 ingress\n"
            "tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0\n"
            f"tc qdisc add dev ifb0 root netem limit 10000 {self.netem}\n"
            f"tc qdisc add dev eth0 root netem limit 10000 {self.netem}\n")


@dataclass
class Section:
    """What one boot of guests serves, in order: (condition, which cases) and, if not all that a
    case has, in which directions."""
    title: str
    plan: list
    kernel: str = "6.1"  # as make-images has it
    guests: int = 1
    rdma: str = "rxe"  # the kernel's device
    provider: str = "weft"  # system: weft runs in the first guest, on the kernel's device there
    note: str = ""


PLAIN = Condition("IPv4, MTU 1500")


def lossy(c):
    return c.lossy or c.short


def harsh(c):
    """At a loss that takes everything else too long."""
    return c.short or c.lossy and (c.wire or c.cm)


def little_lost(c):
    return c.short or c.name.startswith("mkfs") or c.name in (
        "ib_send_bw", "ib_write_bw -R", "ib_read_bw", "ib_atomic_bw", "ib_send_lat -R")


def six(c):
    """perftest -R takes addresses of IPv4 alone."""
    return not c.four and (c.short or c.cm or "_pingpong" in c.name or
                           c.name in ("ib_write_bw", "ib_send_lat", "ib_atomic_bw"))


def mtu(c):
    return not c.refused and (c.short or "path MTU" in c.name or
                              c.name in ("ib_write_bw", "ib_read_bw"))


def jumbo(c):
    return mtu(c) or c.name in ("ib_send_bw", "ib_atomic_bw", "ib_send_lat -R")


def storage(c):
    """What weft does as target and host, whatever the RNIC."""
    return c.nvme and (c.short or c.lossy or c.provider)


def newer(c):
    """rxe of 6.12 cannot register more than 2 GiB in so small a guest."""
    return "2 GiB" not in c.name and not (c.newest or c.long or c.crash or c.panic or c.refused or c.sweep) and (
        c.nvme or c.tcp or c.short or c.lossy or c.wire or c.cm or c.newer or c.both or "_pingpong" in c.name)


def connecting(c):
    return c.nvme and (c.short or c.provider and "10 times" in c.name)


IWARP = ("rping", "ucmatose", "cmtime", "rstream", "riostream", "rcopy", "mkfs", "nvme reset", "target killed",
         "100 messages", "READs at once", "messages of 8 MiB", "messages of no bytes", "inline data",
         "a shared receive")


def iwarp(c):
    """What siw has: connections by rdma_cm, without atomics and immediate data."""
    return c.iwarp or c.name.startswith(IWARP) and not c.refused or \
        "-R" in c.name.split() and "atomic" not in c.name or storage(c)


SIW_NOTE = ("siw does not see a message that comes while it accepts ([siw.md](siw.md)): between two kernels "
            "`nvme connect` then waits for 60 s and fails. READs and WRITEs of no bytes are weft's way "
            "out of that.")

LARGER_GUEST = Condition("MTU 1500 at weft, 9000 in the guest", 1500, 9000)


SHORT = [Section("short", [(PLAIN, lambda c: c.short)]),
         Section("short, iWARP", [(PLAIN, lambda c: c.short and iwarp(c))], rdma="siw")]
LONG = [Section("long", [(Condition("IPv4, MTU 9000", 9000, 9000), lambda c: c.long and not c.newer)]),
        Section("long, iWARP", [(Condition("IPv4, MTU 9000", 9000, 9000), lambda c: "by iWARP of one" in c.name)], rdma="siw"),
        Section("long, a newer kernel", [(PLAIN, lambda c: c.long and c.newer)], kernel="6.12")]

PANIC = [Section("a guest that dies",
                 [(PLAIN, lambda c: c.panic), (PLAIN, lambda c: c.name.startswith("rping -C"))])]

PLAN = [
    Section("weft and the kernel", [
        (PLAIN, lambda c: not (c.sweep or c.crash or c.refused or c.newer or c.panic or c.long or c.iwarp)),
        (Condition("IPv6, MTU 1500", family=6), six),
        (Condition("IPv4, MTU 9000", 9000, 9000), jumbo),
        (Condition("MTU 9000 at weft, 1500 in the guest", 9000, 1500), mtu),
        (Condition("MTU 9000 at weft, 1500 in the guest, which answers no echo", 9000, 1500,
                   echo=False), lambda c: c.short, (ACTIVE,)),
        # Linux's CM asks for what its own interface carries; the other side can only refuse.
        (LARGER_GUEST, mtu, (ACTIVE,)),
        (LARGER_GUEST, lambda c: c.refused or "path MTU" in c.name or c.name == "ib_write_bw",
         (PASSIVE,)),
        (Condition("0.1 % of the packets lost", netem="loss 0.1%"), little_lost),
        (Condition("1 % of the packets lost", netem="loss 1%", kib=1024, piece="16k"),
         lambda c: lossy(c) and not c.wire),
        (Condition("5 % of the packets lost", netem="loss 5%", kib=64, piece="4k"), harsh),
        (Condition("5 % of the packets doubled", netem="duplicate 5%"), lossy),
        (Condition("1 % of the packets overtake others", netem="delay 1ms reorder 1%", kib=1024,
                   piece="16k"), lossy),
        (PLAIN, lambda c: c.sweep),
    ], note="Where packets are lost rxe repeats after 0.5 s (over rdma_cm 2 s and more) and takes notice of "
            "one NAK a message. Between two kernels, too, nvme-rdma gives a command up after 30 s at 1 % of "
            "loss and connects anew (fio at depth 16, in the same guests). Cases that move files move "
            "less there, and more time passes."),
    Section("weft and the kernel, one of them killed or rebooted",
            [(PLAIN, lambda c: c.crash)], guests=4),
    Section("weft and a newer kernel, one of them killed or rebooted",
            [(PLAIN, lambda c: c.crash and (c.nvme or c.tcp))], guests=4, kernel="6.12"),
    Section("weft on the system's rdma-core and rxe, against the kernel",
            [(PLAIN, storage)], guests=2, provider="system"),
    Section("weft on the system's rdma-core and siw, against the kernel",
            [(PLAIN, storage)], guests=2, provider="system", rdma="siw", note=SIW_NOTE),
    Section("weft on the system's rdma-core and siw, against a newer kernel",
            [(PLAIN, connecting)], guests=2, provider="system", rdma="siw", kernel="6.12", note=SIW_NOTE),
    Section("weft's iWARP and siw", [(PLAIN, iwarp)], rdma="siw"),
    Section("weft's iWARP and siw, one of them killed or rebooted",
            [(PLAIN, lambda c: c.crash and not c.tcp and not c.name.startswith("forged"))], guests=3, rdma="siw"),
    Section("weft's iWARP and siw of a newer kernel", [(PLAIN, iwarp)], rdma="siw", kernel="6.12"),
    Section("weft and a newer kernel", [(PLAIN, newer)], kernel="6.12"),
    Section("weft and the newest kernel", [(PLAIN, lambda c: c.short or c.newest)], kernel="backports"),
]
