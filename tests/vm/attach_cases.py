# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`weft attach` in the guest: a namespace of `weft serve` as a block device by ublk_drv, which Debian's Linux 6.1 is
built without."""
import cases
from cases import ACTIVE, PASSIVE
from lab import Failed, last_line
from nvme_cases import NQN, bracketed, export, serve, transport


def attached(t, script, options="", timeout=110):
    """$disk is the device, $attach the program's process; it ends in order, and the device with it. Memory that it has
    given back holds nothing that would pass for what was there."""
    p, image = serve(t)
    out = at(t, f"nvme+{transport(t)}://{bracketed(t.weft.address[t.family])}:4420/{NQN}?ns=1", script, options, timeout)
    if not p.running():
        raise Failed(f"weft serve ended: {last_line(p.output)}")
    return out, image


def at(t, uri, script, options="", timeout=110):
    return t.kernel.shell(f"""modprobe ublk_drv || exit 1
MALLOC_PERTURB_=165 /opt/weft/weft attach '{uri}' {options} >/tmp/attached 2>&1 & attach=$!
for i in {{1..200}}; do grep -q ^/dev/ublkb /tmp/attached && break; sleep 0.05; done
disk=$(sed -n 's/:.*//p' /tmp/attached); [ -b "$disk" ] || {{ cat /tmp/attached >&2; exit 1; }}
""" + script + """
kill $attach 2>/dev/null; wait $attach; status=$?
[ $status = 0 ] || { echo "weft attach ends with $status: $(cat /tmp/attached)" >&2; exit 1; }
[ ! -e $disk ] || { echo "$disk is still there" >&2; exit 1; }
""", timeout)


def case(name, **kwargs):
    return cases.case("weft attach: " + name, (PASSIVE,), tcp=True, newer=True, **kwargs)


FILE_SYSTEM = """set -e
mke2fs -q -t ext4 $disk; mount $disk /mnt
mkdir /mnt/bin; cp $(ls -d /usr/bin/* | head -150) /mnt/bin/
sync; (cd /mnt/bin && find . -type f | sort | xargs sha256sum) >/tmp/1; umount /mnt
echo 3 >/proc/sys/vm/drop_caches; mount $disk /mnt
(cd /mnt/bin && find . -type f | sort | xargs sha256sum) >/tmp/2; umount /mnt
cmp /tmp/1 /tmp/2; e2fsck -fn $disk >/dev/null
{discards}set +e
"""
DISCARDS = "blkdiscard $disk; cmp -n 1048576 $disk /dev/zero; blkdiscard -z -l 1048576 $disk; "


@case("mkfs.ext4, mount, files, sync, unmount, fsck, discards")
def file_system(t):
    attached(t, FILE_SYSTEM.replace("{discards}", DISCARDS))


@cases.case("weft attach: mkfs.ext4, mount, files, sync, unmount, fsck, at the kernel's target", (ACTIVE,), tcp=True, newer=True,
            silent=True)  # within the guest
def file_system_of_nvmet(t):
    at(t, export(t), FILE_SYSTEM.replace("{discards}", ""))
    t.kernel.shell("lab-nvmet clear")


@case("fio with 32 under way, verified; it lies in the image")
def verified(t):
    _, image = attached(t, """fio --name=v --filename=$disk --rw=randrw --bs=4k --size=16m --iodepth=32 --ioengine=libaio \
--direct=1 --verify=crc32c --do_verify=1 --verify_state_save=0 >/tmp/fio 2>&1 || { tail -3 /tmp/fio >&2; exit 1; }
dd if=/dev/urandom of=/tmp/r bs=1M count=4 2>/dev/null; dd if=/tmp/r of=$disk bs=1M oflag=direct 2>/dev/null
sha256sum </tmp/r >/lab/attach.sum
""")
    with open(f"{t.lab.share}/attach.sum", encoding="ascii") as f:
        want = f.read().split()[0]
    got = t.weft.shell(f"head -c 4194304 {image} | sha256sum").split()[0]
    if got != want:
        raise Failed("the image does not hold what the guest wrote")


@cases.case("weft attach by RDMA, on rxe: fio with 32 under way, verified", (PASSIVE,), newer=True)
def by_rdma(t):
    attached(t, """fio --name=v --filename=$disk --rw=randrw --bs=4k --size=16m --iodepth=32 --ioengine=libaio \
--direct=1 --verify=crc32c --do_verify=1 --verify_state_save=0 >/tmp/fio 2>&1 || { tail -3 /tmp/fio >&2; exit 1; }
""", "--provider system")


@case("told to end while its target is away", log_may_say=("I/O error",))
def away(t):
    """Without a limit to the reconnecting: what waits fails, and the device is gone in some seconds."""
    p, _ = serve(t)
    t.kernel.shell(f"""modprobe ublk_drv || exit 1
setsid /opt/weft/weft attach 'nvme+tcp://{bracketed(t.weft.address[t.family])}:4420/{NQN}?ns=1' --ctrl-loss-tmo=-1 \
>/tmp/attached 2>&1 </dev/null & echo $! >/tmp/attach.pid
for i in {{1..200}}; do grep -q ^/dev/ublkb /tmp/attached && exit 0; sleep 0.05; done; cat /tmp/attached >&2; exit 1""", 60)
    p.stop()
    t.kernel.shell("""attach=$(cat /tmp/attach.pid) disk=$(sed -n 's/:.*//p' /tmp/attached)
dd if=/dev/zero of=$disk bs=4096 count=1 oflag=direct 2>/dev/null & write=$!
sleep 2; kill -0 $write || { echo "a write has not waited" >&2; exit 1; }
kill $attach; for i in {1..150}; do kill -0 $attach 2>/dev/null || break; sleep 0.1; done
kill -0 $attach 2>/dev/null && { echo "it runs on: $(cat /tmp/attached)" >&2; exit 1; }
wait $write && { echo "the write has succeeded" >&2; exit 1; }
[ ! -e $disk ] || { echo "$disk is still there" >&2; exit 1; }""", 60)


@case("killed under load, detached, attached again with the same number", log_may_say=("I/O error",))
def killed(t):
    attached(t, f"""fio --name=w --filename=$disk --rw=randwrite --bs=4k --size=16m --iodepth=16 --ioengine=libaio \
--direct=1 --time_based --runtime=30 --allow_file_create=0 >/dev/null 2>&1 & load=$!
sleep 1; kill -9 $attach; wait $attach 2>/dev/null
/opt/weft/weft detach $disk || exit 1; [ ! -e $disk ] || exit 1; wait $load
/opt/weft/weft detach $disk 2>/tmp/again && exit 1; grep -q "there is no $disk" /tmp/again || {{ cat /tmp/again >&2; exit 1; }}
/opt/weft/weft attach 'nvme+tcp://{bracketed(t.weft.address[t.family])}:4420/{NQN}?ns=1' --id ${{disk#/dev/ublkb}} >/tmp/attached 2>&1 &
attach=$!
for i in {{1..200}}; do grep -q ^/dev/ublkb /tmp/attached && break; sleep 0.05; done
dd if=$disk of=/dev/null bs=1M count=16 iflag=direct 2>/dev/null || exit 1
/opt/weft/weft detach $disk || exit 1
""")
