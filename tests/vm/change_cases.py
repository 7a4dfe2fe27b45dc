# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a target serves changes under a host that works on it: namespaces come, are resized and go beside the one that is
in use, and the host hears of it by events; the port goes, and comes back."""
import json
import os
import time

import cases
from cases import ACTIVE, PASSIVE
from lab import Failed, last_line, until
from nvme_cases import DISCONNECT, MIB, NQN, connect, export, random_file, sha256, transport

PATIENCE = 110  # seconds: an emulated guest on a busy machine now and then stands still for a minute
CONFIGFS = f"/sys/kernel/config/nvmet/subsystems/{NQN}"


def case(name, directions, **kwargs):
    """By RDMA and by TCP."""
    def note(function):
        cases.case(name, directions, nvme=True, **kwargs)(function)
        return cases.case("NVMe/TCP: " + name, directions, tcp=True, **kwargs)(function)
    return note


# ---- the kernel's host -----------------------------------------------------------------------------

def serve(t):
    """weft serve of a document, with one namespace; what runs `weft target` on it."""
    image, config = t.weft.file(t, "disk.img"), t.weft.file(t, "config.json")
    t.weft.shell(f"truncate -s 32M {image}")
    with open(config, "w", encoding="utf-8") as f:
        json.dump({"subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"},
                                   "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": image}}]}],
                   "ports": [{"portid": 1, "subsystems": [NQN],
                              "addr": {"trtype": transport(t), "adrfam": f"ipv{t.family}",
                                       "traddr": t.weft.address[t.family], "trsvcid": "4420"}}]}, f)
    p = t.weft.serve("--config", config)

    def target(verb, nsid, *how):
        t.weft.tool("target", "-s", p.popen.pid, verb, f"/subsystems/{NQN}/namespaces/{nsid}", *how)
    return p, target


# On the mounted file system, until /tmp/go is gone; rounds are lines of /tmp/rounds, what is wrong is in /tmp/broken.
LOAD = """mke2fs -q -t ext4 $disk && mount $disk /mnt || exit 1
head -c 1M /dev/urandom >/mnt/before; sha256sum </mnt/before >/tmp/before; sync
: >/tmp/go; rm -f /tmp/broken /tmp/done; : >/tmp/rounds; dmesg -C
(while [ -e /tmp/go ]; do
  fio --name=v --filename=/mnt/v --size=1m --bs=16k --iodepth=4 --ioengine=libaio --direct=1 --rw=randwrite \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_state_save=0 >/tmp/fio.out 2>&1 ||
    { tail -3 /tmp/fio.out >/tmp/broken; break; }
  echo >>/tmp/rounds
done; : >/tmp/done) >/dev/null 2>&1 &
"""

# What it has seen: verified without a break, on one association, and the file system is whole.
LOOKED_AT = """rm /tmp/go; for i in {1..1000}; do [ -e /tmp/done ] && break; sleep 0.1; done
[ -e /tmp/done ] && [ ! -e /tmp/broken ] || { cat /tmp/broken /tmp/fio.out >&2; exit 1; }
echo 3 >/proc/sys/vm/drop_caches; sha256sum </mnt/before | cmp - /tmp/before || exit 1
disk=$(findmnt -no SOURCE /mnt); umount /mnt && e2fsck -fn $disk >/tmp/fsck 2>&1 || { tail -3 /tmp/fsck >&2; exit 1; }
dmesg | grep -E 'econnect|EXT4-fs (error|warning)|rror recovery' >&2 && exit 1
[ "$(wc -l </tmp/rounds)" -ge 2 ] || { echo "only $(wc -l </tmp/rounds) rounds" >&2; exit 1; }
echo "$(wc -l </tmp/rounds) rounds, $(dmesg | grep -c 'rescanning namespaces') rescans"
"""


# The disk that has a namespace's number: its own number is another. Not those of single paths (nvme0c0n1).
BY_NUMBER = """shopt -s extglob nullglob
of() { for d in /sys/block/nvme+([0-9])n*; do
  read n 2>/dev/null <$d/nsid && [ "$n" = $1 ] && { disk=${d##*/}; return; }
done; disk=; }
"""


@case("namespaces are added, resized and removed under a mounted neighbour", (PASSIVE,), both=True)
def kernel_host(t):
    p, target = serve(t)

    def sees(nsid, mib):
        """By itself: nobody asks it to look. mib 0: that it is gone."""
        t.kernel.shell(BY_NUMBER + f"""end=$((SECONDS + {PATIENCE - 10})); while [ $SECONDS -lt $end ]; do
s=0; of {nsid}; [ ! "$disk" ] || read s <"/sys/block/$disk/size"
[ $s = {mib * 2048} ] && exit 0; sleep 0.1; done 2>/dev/null
echo "namespace {nsid} has $s sectors, not {mib * 2048}" >&2; exit 1""", PATIENCE)

    def works(nsid, mib):
        """Its last piece, if it has so many MiB."""
        t.kernel.shell(BY_NUMBER + f"""head -c 64k /dev/urandom >/tmp/p; of {nsid}; n={mib * 16 - 1}
for i in {{1..100}}; do [ -b /dev/$disk ] && break; sleep 0.1; done
dd if=/tmp/p of=/dev/$disk bs=64k seek=$n count=1 oflag=direct 2>/dev/null || exit 1
dd if=/dev/$disk bs=64k skip=$n count=1 of=/tmp/p2 iflag=direct 2>/dev/null && cmp /tmp/p /tmp/p2""", PATIENCE)

    grows = t.weft.file(t, "grows.img")
    t.weft.shell(f"truncate -s 4M {grows}")
    try:
        t.kernel.shell(connect(t, f"-k {PATIENCE}", PATIENCE) + LOAD, 2 * PATIENCE)
        target("create", 2, "path=mem:4m", "enable=0")
        target("create", 3, f"path={grows}")
        sees(3, 4)
        sees(2, 0)  # it would have come with the third
        target("enable", 2)
        sees(2, 4)
        works(2, 4)
        target("resize", 2, "8m")
        sees(2, 8)
        works(2, 8)
        t.weft.shell(f"truncate -s 6M {grows}")
        target("resize", 3)
        sees(3, 6)
        works(3, 6)
        target("resize", 2, "2m")
        sees(2, 2)
        target("disable", 2)
        sees(2, 0)
        target("remove", 3)
        sees(3, 0)
        target("enable", 2)
        sees(2, 2)
        target("remove", 2)
        sees(2, 0)
        seen = t.kernel.shell(LOOKED_AT, 2 * PATIENCE)
    finally:
        t.kernel.shell("rm -f /tmp/go; ! mountpoint -q /mnt || umount -l /mnt\n" + DISCONNECT)
    if not p.running():
        raise Failed(f"weft serve ended: {last_line(p.output)}")
    return seen.strip()


# ---- weft's host -----------------------------------------------------------------------------------

class Bench:
    """A load on the namespace of a URI, each block that is read checked, until it is told to end."""

    def __init__(self, t, uri, *options):
        self.p = t.weft.start_tool("bench", uri, "--rw", "randrw", "--verify", "--yes", "--bs", "16k", "--iodepth", 4,
                                   "--size", "2m", "--rate-iops", 200, "--runtime", 6 * PATIENCE, "--timeout", PATIENCE,
                                   "-o", "json", *options)
        time.sleep(1)
        self.at_work()

    def at_work(self):
        if not self.p.running():
            raise Failed(f"bench: {last_line(self.p.output)}")

    def end(self):
        """Its figures."""
        self.at_work()
        self.p.stop(2)
        found = json.loads(self.p.output[self.p.output.index("{"):])
        job = found["jobs"][0]
        if job["error"] or not job["read"]["total_ios"] or not job["write"]["total_ios"]:
            raise Failed(f"bench: {self.p.output[:200]}")
        return found


@case("namespaces are added, resized and removed beside weft bench --verify; the library is told", (ACTIVE,), both=True)
def weft_host(t):
    uri = export(t)
    watch = t.lab.start(os.path.join(t.lab.build, "tests", "vm", "watch"), uri)
    first = f"1={64 * MIB}"

    def told(*namespaces):
        """By the last line, that these are there besides."""
        want = " ".join(("there:", first, *(f"{nsid}={mib * MIB}" for nsid, mib in namespaces)))
        until(lambda: watch.output.endswith(want + "\n") or not watch.running(), PATIENCE, f"watch says '{want}'")
        if not watch.running():
            raise Failed(f"watch: {last_line(watch.output)}")

    def at(nsid, script):
        t.kernel.shell(f"n={CONFIGFS}/namespaces/{nsid}; set -e\n{script}", PATIENCE)

    def works(nsid, mib):
        there = uri.replace("ns=1", f"ns={nsid}")
        source, back = random_file(t, "source", mib * MIB), t.weft.file(t, "back")
        t.weft.tool("cp", "--verify", source, there, timeout=PATIENCE)
        t.weft.tool("cp", there, back, timeout=PATIENCE)
        if sha256(t.weft, source, mib * MIB) != sha256(t.weft, back, mib * MIB):
            raise Failed(f"namespace {nsid}: what was read is not what was written")

    told()
    bench = Bench(t, uri)
    try:
        for nsid, mib in ((2, 1), (3, 2)):
            at(nsid, f"truncate -s {mib}M /tmp/ns{nsid}; mkdir $n; echo -n /tmp/ns{nsid} >$n/device_path\n"
               "echo 1 >$n/buffered_io; echo 1 >$n/enable")
            told(*((2, 1), (3, 2))[:nsid - 1])
        works(2, 1)
        at(2, "truncate -s 3M /tmp/ns2; echo 1 >$n/revalidate_size")
        told((2, 3), (3, 2))
        works(2, 3)
        at(3, "echo 0 >$n/enable")
        told((2, 3))
        at(3, "echo 1 >$n/enable")
        told((2, 3), (3, 2))
        at(2, "rmdir $n")
        told((3, 2))
        at(3, "rmdir $n")
        told()
        found, events = bench.end(), watch.output.count("changed:")
        status = watch.stop()
    finally:
        t.kernel.shell("lab-nvmet clear; rm -f /tmp/ns[23]")
    if found["reconnects"] or "reconnecting" in watch.output:
        raise Failed("an association was lost")
    if status:
        raise Failed(f"watch ends with {status}: {last_line(watch.output)}")
    return f"{events} events"


@case("nvmet's subsystem leaves its port and returns, then the port goes and comes: weft's host waits and goes on", (ACTIVE,))
def port_goes(t):
    uri = export(t)
    bench = Bench(t, uri, "--keep-alive-tmo", 5, "--ctrl-loss-tmo", PATIENCE)

    def back(times):
        until(lambda: bench.p.output.count("connected to ") >= times or not bench.p.running(), PATIENCE,
              f"connected again {times} times")
        bench.at_work()

    # nvmet ends the controllers, and nobody is let in; then nobody listens.
    port = "/sys/kernel/config/nvmet/ports/1"
    link = f"ln -s {CONFIGFS} {port}/subsystems/{NQN}"
    t.kernel.shell(f"rm {port}/subsystems/{NQN}; sleep 2; {link}", PATIENCE)
    back(1)
    t.kernel.shell(f"rm {port}/subsystems/{NQN} && rmdir {port} && sleep 3 && mkdir {port} && cd {port} || exit 1\n"
                   f"echo {transport(t)} >addr_trtype; echo ipv{t.family} >addr_adrfam\n"
                   f"echo {t.kernel.address[t.family]} >addr_traddr; echo 4420 >addr_trsvcid; {link}", PATIENCE)
    back(2)
    found = bench.end()
    return f"{found['reconnects']} reconnects"
