# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the rules have in common: the list of files, and a way to say what is wrong."""
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A room and the rooms it may include from; a room may always include from itself. The order is
# the order of src/meson.build: nothing points upward.
CORES = ("wire", "rnic/cc", "rnic", "rnic/ib", "cm", "nvmf/common", "nvmf/auth",
         "nvmf/target", "nvmf/host")
# In other rooms: files that know no clock and no lock either, so that the simulator can drive them.
PURE = ("engine/drive.c", "engine/lease.c", "engine/moment.c", "nvmf/tcp/rx.c", "nvmf/tcp/tls.c", "nvmf/tcp/tx.c")
ROOMS = {
    "base": (),
    "wire": ("base",),
    "rnic/cc": ("base",),
    "rnic": ("base", "wire", "rnic/cc"),
    "rnic/ib": ("base", "wire", "rnic/cc", "rnic"),
    "cm": ("base", "wire"),
    "nvmf/common": ("base", "wire"),
    "nvmf/auth": ("base", "wire"),
    "nvmf/target": ("base", "wire", "nvmf/common", "nvmf/auth"),
    "nvmf/host": ("base", "wire", "nvmf/common", "nvmf/auth"),
    "store": ("base", "nvmf/common"),
    "config": ("base", "wire", "nvmf/common"),
    "port": ("base", "wire"),
    "port/hop": ("base", "wire"),
    "port/udp": ("base", "wire", "port"),
    "port/local": ("base", "wire", "port"),
    "port/xdp": ("base", "wire", "port", "port/hop"),
    "port/pcap": ("base", "wire", "port"),
    "port/sim": ("base", "wire", "port"),
    "engine": ("base", "wire", "rnic/cc", "rnic", "port"),
    "fabric": ("base", "wire", "rnic/cc", "rnic", "port", "port/local", "port/sim", "port/pcap", "engine"),
    "broker": ("base", "wire", "cm", "port", "port/hop", "port/local", "port/udp", "port/pcap"),
    "verbs": ("base", "wire", "rnic", "port", "port/local", "port/udp", "port/xdp", "port/pcap", "engine", "broker"),
    "rdmacm": ("base", "wire", "broker", "verbs"),
    "rsocket": ("base", "wire"),
    "sockets": ("base", "wire", "rsocket"),
    "nodes": ("base", "wire", "broker"),
    # The storage half stands on the standard verbs API: nothing of weft's own RNIC below it.
    "nvmf/transport": ("base", "wire", "nvmf/common", "nvmf/auth", "nvmf/target", "nvmf/host"),
    "nvmf/loop": ("base", "wire", "nvmf/common", "nvmf/target", "nvmf/host", "nvmf/transport"),
    "nvmf/tcp": ("base", "wire", "nvmf/common", "nvmf/auth", "nvmf/target", "nvmf/host", "nvmf/transport"),
    "nvmf/rdma": ("base", "wire", "nvmf/common", "nvmf/target", "nvmf/host", "nvmf/transport"),
    # The library that <weft/nvmf.h> describes.
    "nvmf/lib": ("base", "wire", "nvmf/common", "nvmf/auth", "nvmf/host", "nvmf/transport", "nvmf/rdma",
                 "nvmf/tcp"),
}
ROOMS["ublk"] = ("base",)
ROOMS["mdns"] = ("base",)
# On <weft/nvmf.h> alone.
ROOMS["nbdkit"] = ("base",)
ROOMS["fio"] = ()
ROOMS["cli"] = tuple(ROOMS)


def room_of(path):
    """The room of a path below src/, or None."""
    parts = path.split("/")
    for n in (2, 1):
        if len(parts) > n and "/".join(parts[:n]) in ROOMS:
            return "/".join(parts[:n])
    return None


def files(*suffixes, under=""):
    """Paths, relative to the top, of the project's own files with one of the suffixes."""
    git = subprocess.run(
        ["git", "-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True)
    if git.returncode == 0:
        names = [n for n in git.stdout.decode().split("\0") if n]
    else:  # an unpacked archive
        names = []
        for where, dirs, here in os.walk(TOP):
            dirs[:] = [d for d in dirs if d != ".git" and not d.startswith("build")]
            names += [os.path.relpath(os.path.join(where, f), TOP) for f in here]
    return sorted(n for n in set(names)
                  if n.startswith(under) and n.endswith(suffixes or ("",))
                  and os.path.isfile(os.path.join(TOP, n)))


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def finish(rule, faults, looked_at):
    """Prints the faults and leaves. A rule that found nothing to look at has failed too."""
    for fault in faults:
        print(fault)
    if not looked_at:
        print(f"{rule}: found nothing to look at")
    print(f"{rule}: {looked_at} looked at, {len(faults)} faults")
    sys.exit(1 if faults or not looked_at else 0)
