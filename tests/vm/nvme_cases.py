# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""NVMe over RDMA and TCP: the kernel's host against `weft serve`, weft's host against the kernel's target."""
import json

import cases
from cases import ACTIVE, PASSIVE
from lab import Failed, last_line

NQN = "nqn.2026-11.org.weft:vm"
MIB = 1 << 20


def case(name, directions, **kwargs):
    return cases.case(name, directions, nvme=True, **kwargs)


def by_tcp(name, directions, **kwargs):
    """The same, or another, by TCP."""
    return cases.case("NVMe/TCP: " + name, directions, tcp=True, **kwargs)


def transport(t):
    return "tcp" if t.tcp else "rdma"


def serve(t, mib=64, *options, tls=False, query=""):
    """weft serve of a new image, or of the case's earlier one; its process and path."""
    image = t.weft.file(t, "disk.img")
    if "disk" not in t.more:
        t.weft.shell(f"rm -f {image}; truncate -s {mib}M {image}")
        t.more["disk"] = image
    p = t.weft.serve(image, "--nqn", NQN, "--listen",
                     f"{transport(t)}{'+tls' if tls else ''}://{bracketed(t.weft.address[t.family])}:4420{query}", *options)
    return p, image


def bracketed(address):
    return f"[{address}]" if ":" in address else address


def export(t, mib=64):
    """A RAM disk of the guest on its nvmet; the URI."""
    address = t.kernel.address[t.family]
    t.kernel.shell("lab-nvmet clear 2>/dev/null; modprobe -rq brd\n"
                   f"sed 's/rdma/{transport(t)}/' $(which lab-nvmet) >/tmp/lab-nvmet\n"
                   f"modprobe brd rd_nr=1 rd_size={mib * 1024} && "
                   f"bash /tmp/lab-nvmet export {address} {NQN} /dev/ram0")
    return f"nvme+{transport(t)}://{bracketed(address)}:4420/{NQN}?ns=1"


def connect(t, options="", patience=30):
    """Shell lines that connect the guest to weft serve and set $disk."""
    return (f"modprobe nvme-{transport(t)}; echo {patience} >/sys/module/nvme_core/parameters/io_timeout\n"
            f"nvme disconnect -n {NQN} >/dev/null 2>&1\n"
            f"nvme connect -t {transport(t)} -a {t.weft.address[t.family]} -s 4420 -n {NQN} {options} || exit 1\n"
            "for i in {1..100}; do disk=$(ls /dev/nvme*n1 2>/dev/null | head -1)\n"
            "[ -b \"$disk\" ] && break; sleep 0.05; done; [ -b \"$disk\" ] || exit 1\n")


DISCONNECT = f"nvme disconnect -n {NQN} >/dev/null\n"


def sha256(side, path, length):
    return side.shell(f"head -c {length} {path} | sha256sum").split()[0]


def random_file(t, name, length):
    path = t.weft.file(t, name)
    t.weft.shell(f"head -c {length} /dev/urandom >{path}")
    return path


# Where packets are lost rxe may take longer than Linux waits for a command. Then the kernel's
# read-ahead, which it never tries twice, fails and says so; nothing that was asked for does.
LATE = ("timeout", "op 0x0:(READ)")


@case("nvme discover and connect, a file written and read back", (PASSIVE,), short=True,
      log_may_say_if_lost=LATE)
def kernel_host(t):
    p, image = serve(t)
    length = t.condition.kib * 1024
    out = t.kernel.shell(
        f"modprobe nvme-{transport(t)}; nvme discover -t {transport(t)} "
        f"-a {t.weft.address[t.family]} -s 4420 "
        f"| grep -q 'subnqn: *{NQN}$' || {{ echo not in the discovery log >&2; exit 1; }}\n"
        + connect(t) +
        f"head -c {length} /dev/urandom >/tmp/r\n"
        f"dd if=/tmp/r of=$disk bs={t.condition.piece} oflag=direct 2>/dev/null || exit 1\n"
        f"dd if=$disk of=/tmp/r2 bs={t.condition.piece} count={length}B iflag=direct 2>/dev/null || "
        "exit 1\n"
        "cmp /tmp/r /tmp/r2 || exit 1; sha256sum </tmp/r\n" + DISCONNECT, 90)
    if p.stop() not in (0, -15):
        raise Failed(f"weft serve: {last_line(p.output)}")
    if out.split()[0] != sha256(t.weft, image, length):
        raise Failed("the image does not hold what the guest wrote")
    return f"{t.condition.kib} KiB"


def same_records(t, address):
    """What nvme-cli makes of a discovery log as JSON, and weft: the same but for what only one of them has a name for."""
    argv = f"discover -t {transport(t)} -a {address} -s 4420 -o json"
    theirs = json.loads(t.kernel.shell(f"modprobe nvme-{transport(t)}; nvme {argv}"))["records"]
    ours = json.loads(t.weft.tool(*argv.split()))["records"]
    if len(ours) != len(theirs):
        raise Failed(f"{len(ours)} records, nvme-cli has {len(theirs)}")
    for a, b in zip(ours, theirs):
        differs = {key: (a.get(key), b[key]) for key in b if a.get(key) != b[key]}
        if differs:
            raise Failed(f"a record of weft's and of nvme-cli's: {differs}")


@case("nvme discover and weft discover as JSON, of both targets", (PASSIVE,))
def discovered_alike(t):
    serve(t)
    same_records(t, t.weft.address[t.family])
    export(t)
    same_records(t, t.kernel.address[t.family])
    t.kernel.shell("lab-nvmet clear")


@case("weft discover and cp --verify, a file there and back", (ACTIVE,), short=True)
def weft_host(t):
    uri = export(t)
    out = t.weft.tool("discover", "-t", transport(t), "-a", t.kernel.address[t.family])
    if NQN not in out:
        raise Failed("not in the discovery log")
    length = t.condition.kib * 1024
    source, back = random_file(t, "source", length), t.weft.file(t, "back")
    t.weft.tool("cp", "--verify", "--bs", t.condition.piece, source, uri)
    t.weft.tool("cp", "--size", length, "--bs", t.condition.piece, uri, back)
    there = sha256(t.kernel, "/dev/ram0", length)
    if not there == sha256(t.weft, source, length) == sha256(t.weft, back, length):
        raise Failed("what came back or lies in the guest differs from what was written")
    return f"{t.condition.kib} KiB"


# ---- the kernel's host: what a user does with a disk ---------------------------------------------

def on_disk(t, script, timeout=90, p=None, options=""):
    """weft serve, connected in the guest; the script has $disk."""
    if p is None:
        p, _ = serve(t)
    # Where packets are lost rxe may stop for good, until the host's patience ends and it starts anew.
    connected = connect(t, "-c 1", 10) if t.condition.netem else connect(t, options)
    out = t.kernel.shell(connected + "PATH=/opt/weft:$PATH\n" + script + DISCONNECT, timeout)
    if not p.running():
        raise Failed(f"weft serve ended: {last_line(p.output)}")
    return out


@case("mkfs.ext4, mount, files, sync, unmount, fsck, blkdiscard", (PASSIVE,),
      log_may_say_if_lost=LATE)
def file_system(t):
    files = 30 if t.condition.netem else 150
    on_disk(t, f"""set -e
mke2fs -q -t ext4 $disk; mount $disk /mnt
mkdir /mnt/bin; cp $(ls -d /usr/bin/* | head -{files}) /mnt/bin/
sync; (cd /mnt/bin && find . -type f | sort | xargs sha256sum) >/tmp/1; umount /mnt
echo 3 >/proc/sys/vm/drop_caches; mount $disk /mnt
(cd /mnt/bin && find . -type f | sort | xargs sha256sum) >/tmp/2; umount /mnt
cmp /tmp/1 /tmp/2; e2fsck -fn $disk >/dev/null
blkdiscard $disk; cmp -n 1048576 $disk /dev/zero; blkdiscard -z -l 1048576 $disk; set +e
""", 110)


# Block size, depth, bytes of each kind.
LOADS = (("512", 1, "256k"), ("4k", 16, "4m"), ("128k", 64, "8m"), ("1m", 4, "8m"))
SMALL_LOADS = (("512", 1, "8k"), ("4k", 4, "64k"), ("64k", 4, "256k"))


def loads(t):
    return LOADS if t.condition.kib >= 4096 else SMALL_LOADS


def shown(some):
    return ", ".join(f"{bs} x{depth}" for bs, depth, _ in some)


@case("fio --verify=crc32c, random, depth 1 to 64, 512 B to 1 MiB", (PASSIVE,), lossy=True,
      log_may_say_if_lost=LATE)
def fio(t):
    lines = "".join(f"""fio --name=v --filename=$disk --rw=randrw --bs={bs} --iodepth={depth} --size={size} \
    --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 --do_verify=1 >/tmp/fio.out 2>&1 ||
    {{ grep -E -m1 'err|verify' /tmp/fio.out >&2; exit 1; }}
""" for bs, depth, size in loads(t))
    on_disk(t, lines, 150)
    return shown(loads(t))


# What nvme-cli may be asked for and weft does not have, or not so, and the status to be given.
REFUSED = {
    "INVALID_OPCODE": (0x6001, (
        "format $disk -f", "sanitize $c -a 2", "create-ns $c -s 100 -c 100 -f 0",
        "delete-ns $c -n 1", "attach-ns $c -n 1 -c 1", "fw-commit $c -s 1 -a 1",
        "security-recv $c -p 1 -s 0 -t 0 -x 16", "device-self-test $c -n 1 -s 1",
        "resv-report $disk")),
    "INVALID_LOG": (0x6109, ("get-log $c -i 0xfe -l 16", "self-test-log $c")),
    "INVALID_FIELD": (0x6002, ("get-feature $c -f 0x55",)),
    "COPY_SIZE": (0x6183, ("copy $disk --sdlba=0 --slbs=0 --blocks=200",)),
    "LBA_RANGE": (0x6080, ("verify $disk -s 99999999 -c 0","read $disk -s 99999999 -c 0 -z 512",
                           "write-zeroes $disk -s 99999999 -c 0")),
    "READ_ERROR": (0x6281, ("read $disk -s 9000 -c 0 -z 512", "verify $disk -s 8900 -c 200")),
    "COMPARE_FAILED": (0x6285, ("compare $disk -s 0 -c 0 -z 512 -d /bin/true",)),
}


@case("nvme-cli: what there is, and the status of what there is not (format, sanitize, ...)", (PASSIVE,))
def admin(t):
    refused = "".join(f"refused {status:#x} {command}\n" for status, commands in REFUSED.values()
                      for command in commands)
    on_disk(t, """c=${disk%n1}; set -e
for a in "id-ctrl $c" "id-ns $disk" "ns-descs $disk" "smart-log $c" "list-ns $c" "error-log $c" \
  "effects-log $c" "get-feature $c -f 7" "flush $disk" "write-zeroes $disk -s 0 -c 7" \
  "dsm $disk -d -s 0 -b 8" "compare $disk -s 0 -c 0 -z 512 -d /tmp/zero" "ns-rescan $c"; do
  head -c 512 /dev/zero >/tmp/zero
  nvme $a >/tmp/out 2>&1 || { echo "$a: $(tail -1 /tmp/out)" >&2; exit 1; }
done
head -c 8192 /dev/urandom >/tmp/data; dd if=/tmp/data of=$disk bs=4k oflag=direct 2>/dev/null
b=$(blockdev --getss $disk); n=$((4096 / b - 1))
for a in "verify $disk -s 0 -c 1000" "copy $disk --sdlba=$((20480 / b)) --slbs=$((4096 / b)),0 --blocks=$n,$n" \
  "supported-log-pages $c" "get-feature $c -f 0x16" "get-feature $disk -n 1 -f 0x84" "write-uncor $disk -s 9000 -c 0"; do
  nvme $a >/tmp/out 2>&1 || { echo "$a: $(tail -1 /tmp/out)" >&2; exit 1; }
done
dd if=$disk of=/tmp/copy bs=4k skip=5 count=2 iflag=direct 2>/dev/null
{ tail -c 4096 /tmp/data; head -c 4096 /tmp/data; } | cmp - /tmp/copy
nvme set-feature $disk -n 1 -f 0x84 -v 1 >/dev/null; nvme write-zeroes $disk -s 0 -c 0 >/dev/null 2>&1 && exit 1
nvme set-feature $disk -n 1 -f 0x84 -v 0 >/dev/null; nvme write-zeroes $disk -s 0 -c 0 >/dev/null; set +e
refused() { s=$1; shift; nvme "$@" >/tmp/out 2>&1 && { echo "$*: not refused" >&2; exit 1; }
  grep -q "($s)" /tmp/out || { echo "$*: not $s but $(tail -1 /tmp/out)" >&2; exit 1; }; }
""" + refused)
    t.kernel.shell(connect(t) + "nvme write-zeroes $disk -s 9000 -c 0 >/dev/null && "
                   "nvme read $disk -s 9000 -c 0 -z 512 >/dev/null || exit 1\n" + DISCONNECT)
    return f"{sum(len(commands) for _, commands in REFUSED.values())} refused"


@case("a read-only namespace is a read-only disk", (PASSIVE,))
def read_only(t):
    p, _ = serve(t, 64, "--read-only")
    on_disk(t, """[ "$(blockdev --getro $disk)" = 1 ] || { echo "not read-only" >&2; exit 1; }
dd if=$disk of=/dev/null bs=64k count=16 iflag=direct 2>/dev/null || exit 1
nvme write-zeroes $disk -s 0 -c 0 >/tmp/out 2>&1 && { echo "it was written to" >&2; exit 1; }
grep -q "(0x6020)" /tmp/out || { cat /tmp/out >&2; exit 1; }
""", p=p)


@case("nvme reset while reading and writing", (PASSIVE,), log_may_say=("timeout",))
def reset(t):
    on_disk(t, """fio --name=v --filename=$disk --rw=randrw --bs=4k --iodepth=8 --size=8m --loops=3 \
  --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 >/tmp/fio.out 2>&1 & f=$!
for i in 1 2 3; do sleep 0.7; nvme reset ${disk%n1} || exit 1; done
wait $f || { tail -3 /tmp/fio.out >&2; exit 1; }
""", 110)


@case("target killed and started again: the host reconnects", (PASSIVE,),
      log_may_say=("I/O error", "timeout", "Buffer I/O", "rxe0: "))
def restart(t):
    comes_back(t, lambda: serve(t)[0], connect(t, "-k 5 -c 1"))


def comes_back(t, begin, join):
    """The target is killed and begun anew: the kernel's host has what it wrote, and goes on."""
    p = begin()
    t.kernel.shell(join + "dd if=/dev/urandom of=/tmp/r bs=1M count=2 2>/dev/null\n"
                   "dd if=/tmp/r of=$disk bs=64k oflag=direct 2>/dev/null; echo $disk >/tmp/disk", 120)
    p.stop(9)
    p = begin()
    t.kernel.shell("""disk=$(cat /tmp/disk); c=${disk#/dev/}; s=/sys/class/nvme/${c%n1}/state
for i in {1..400}; do [ "$(cat $s)" = live ] && [ $i -gt 60 ] && break; sleep 0.1; done
[ "$(cat $s)" = live ] || { echo "state $(cat $s)" >&2; exit 1; }
timeout 60 dd if=$disk of=/tmp/r2 bs=64k count=32 iflag=direct 2>/dev/null || exit 1
cmp /tmp/r /tmp/r2 || exit 1
fio --name=v --filename=$disk --rw=randrw --bs=16k --iodepth=8 --size=2m --ioengine=libaio --direct=1 --verify=crc32c \
  --verify_fatal=1 >/tmp/fio.out 2>&1 || { tail -3 /tmp/fio.out >&2; exit 1; }
""" + DISCONNECT, 140)
    if not p.running():
        raise Failed(f"weft serve ended: {last_line(p.output)}")


@case("nvme connect and disconnect, 10 times", (PASSIVE,), provider=True)
def connects(t):
    serve(t)
    t.kernel.shell("for i in {1..10}; do (\n" + connect(t) + DISCONNECT + ") || exit 1; done\n", 150)


# ---- weft's host ---------------------------------------------------------------------------------

@case("weft id-ctrl, id-ns, write, read", (ACTIVE,), provider=True)
def weft_tools(t):
    uri = export(t)
    if "Linux" not in t.weft.tool("id-ctrl", uri):
        raise Failed("id-ctrl does not name the model")
    t.weft.tool("id-ns", uri)
    data, back = random_file(t, "data", 512 * 300), t.weft.file(t, "back")
    t.weft.tool("write", uri, "--start-block", 7, "-d", data)
    t.weft.tool("read", uri, "--start-block", 7, "-z", 512 * 300, "-d", back)
    if sha256(t.weft, data, MIB) != sha256(t.weft, back, MIB):
        raise Failed("read differs from what was written")


@case("weft connects and disconnects, 10 times", (ACTIVE,), provider=True)
def weft_connects(t):
    uri = export(t)
    for _ in range(10):
        t.weft.tool("id-ctrl", uri)


@case("weft bench --verify, random, depth 1 to 64, 512 B to 1 MiB", (ACTIVE,), lossy=True)
def weft_bench(t):
    uri = export(t)
    for bs, depth, size in loads(t):
        out = t.weft.tool("bench", uri, "--rw", "randrw", "--verify", "--yes", "--bs", bs,
                          "--iodepth", depth, "--size", size, timeout=90)
        if "every block read was right" not in out:
            raise Failed("bench does not say verified")
    return shown(loads(t))


# ---- by TCP ---------------------------------------------------------------------------------------

by_tcp("discover and connect, a file written and read back", (PASSIVE,), short=True,
       log_may_say_if_lost=LATE)(kernel_host)
by_tcp("nvme discover and weft discover as JSON, of both targets", (PASSIVE,))(discovered_alike)
by_tcp("weft discover and cp --verify, a file there and back", (ACTIVE,), short=True)(weft_host)
by_tcp("mkfs.ext4, mount, files, sync, unmount, fsck, blkdiscard", (PASSIVE,),
       log_may_say_if_lost=LATE)(file_system)
by_tcp("fio --verify=crc32c, random, depth 1 to 64, 512 B to 1 MiB", (PASSIVE,),
       log_may_say_if_lost=LATE)(fio)
by_tcp("nvme-cli: what there is, and the status of what there is not", (PASSIVE,))(admin)
by_tcp("nvme reset while reading and writing", (PASSIVE,), log_may_say=("timeout",))(reset)
by_tcp("target killed and started again: the host reconnects", (PASSIVE,),
       log_may_say=("I/O error", "timeout", "Buffer I/O"))(restart)
by_tcp("weft bench --verify, random, depth 1 to 64, 512 B to 1 MiB", (ACTIVE,))(weft_bench)

DIGESTS = ("-g", "-G", "-g -G")


@by_tcp("with digests of headers, of data, of both; and without SQ flow control", (PASSIVE,))
def kernel_digests(t):
    p, _ = serve(t)
    for options in DIGESTS + ("-D", "-g -G -D"):
        on_disk(t, """fio --name=v --filename=$disk --rw=randrw --bs=16k --iodepth=8 --size=2m \
  --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 >/tmp/fio.out 2>&1 ||
  { tail -3 /tmp/fio.out >&2; exit 1; }
""", p=p, options=options.replace("-D", "--disable-sqflow"))


@by_tcp("weft bench --verify with digests of headers, of data, of both", (ACTIVE,))
def weft_digests(t):
    uri = export(t)
    for options in DIGESTS:
        out = t.weft.tool("bench", uri, "--rw", "randrw", "--verify", "--yes", "--bs", "16k", "--iodepth", 8,
                          "--size", "2m", *options.split(), timeout=90)
        if "every block read was right" not in out:
            raise Failed("bench does not say verified")


@by_tcp("nvme discover --persistent: its controller stays, and reads the log again", (PASSIVE,))
def stays(t):
    serve(t)
    t.kernel.shell(f"""modprobe nvme-tcp; where="-t tcp -a {t.weft.address[t.family]} -s 4420"
nvme discover --persistent $where -k 4 >/tmp/log || exit 1
grep -q 'eflags: *explicit discovery connections' /tmp/log || {{ cat /tmp/log >&2; exit 1; }}
c=$(grep -l discovery /sys/class/nvme/*/subsysnqn | head -1); c=${{c%/subsysnqn}}
[ -n "$c" ] || {{ echo "no controller stays" >&2; exit 1; }}
sleep 9
[ "$(cat $c/state)" = live ] || {{ echo "it is $(cat $c/state)" >&2; exit 1; }}
nvme discover -d ${{c##*/}} $where >/tmp/log && grep -q 'subnqn: *{NQN}$' /tmp/log || {{ cat /tmp/log >&2; exit 1; }}
nvme disconnect -d ${{c##*/}} >/dev/null; nvme discover $where >/dev/null
""", 60)
