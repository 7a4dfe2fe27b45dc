# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the rules have in common: the list of files, and a way to say what is wrong."""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A room and the rooms it may include from; a room may always include from itself. The order is
# the order of src/meson.build: nothing points upward.
CORES = ("wire", "rnic/cc", "rnic", "rnic/ib", "rnic/iwarp", "cm", "subnet", "nvmf/common", "nvmf/auth",
         "nvmf/target", "nvmf/host")
# In other rooms: files that know no clock and no lock either, so that the simulator can drive them.
PURE = ("engine/drive.c", "engine/lease.c", "engine/moment.c", "nvmf/tcp/rx.c", "nvmf/tcp/tls.c", "nvmf/tcp/tx.c")
ROOMS = {
    "base": (),
    "wire": ("base",),
    "rnic/cc": ("base",),
    "rnic": ("base", "wire", "rnic/cc"),
    "rnic/ib": ("base", "wire", "rnic/cc", "rnic"),
    "rnic/iwarp": ("base", "wire", "rnic/cc", "rnic"),
    "cm": ("base", "wire"),
    "subnet": ("base", "wire"),
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
    "port/raw": ("base", "wire", "port", "port/hop"),
    "port/pcap": ("base", "wire", "port"),
    "port/sim": ("base", "wire", "port"),
    "port/tcp": ("base",),
    "engine": ("base", "wire", "rnic/cc", "rnic", "port", "port/tcp"),
    "broker": ("base", "wire", "cm", "port", "port/hop", "port/local", "port/udp", "port/pcap"),
    "verbs": ("base", "wire", "rnic", "port", "port/local", "port/raw", "port/udp", "port/xdp", "port/pcap",
              "engine", "broker"),
    "iwcm": ("base", "wire", "cm"),
    "rdmacm": ("base", "wire", "rnic", "cm", "port/hop", "iwcm", "broker", "verbs"),
    "rsocket": ("base", "wire"),
    "sockets": ("base", "wire", "rsocket"),
    "nodes": ("base", "wire", "broker"),
    # The storage half stands on the standard verbs API: nothing of weft's own RNIC below it.
    "nvmf/transport": ("base", "wire", "nvmf/common", "nvmf/auth", "nvmf/target", "nvmf/host"),
    "nvmf/loop": ("base", "wire", "nvmf/common", "nvmf/target", "nvmf/host", "nvmf/transport"),
    "nvmf/tcp": ("base", "wire", "nvmf/common", "nvmf/auth", "nvmf/target", "nvmf/host", "nvmf/transport"),
    "nvmf/rdma": ("base", "wire", "nvmf/common", "nvmf/target", "nvmf/host", "nvmf/transport"),
    "fabric": ("base", "wire", "rnic/cc", "rnic", "port", "port/local", "port/sim", "port/pcap", "engine"),
    "fabric/net": ("base", "wire", "subnet", "rnic/cc", "rnic", "port", "engine", "fabric"),
    "fabric/traffic": ("base", "wire", "subnet", "rnic/cc", "rnic", "fabric", "fabric/net", "nvmf/common", "nvmf/auth",
                       "nvmf/target", "nvmf/host", "nvmf/transport", "nvmf/loop"),
    "fabric/scenario": ("base", "wire", "subnet", "rnic/cc", "rnic", "fabric", "fabric/net", "fabric/traffic"),
    # The library that <weft/nvmf.h> describes.
    "nvmf/lib": ("base", "wire", "nvmf/common", "nvmf/auth", "nvmf/host", "nvmf/transport", "nvmf/rdma",
                 "nvmf/tcp"),
}
ROOMS["ublk"] = ("base",)
ROOMS["mdns"] = ("base",)
ROOMS["doctor"] = ("base", "wire")
# On <weft/nvmf.h> alone.
ROOMS["nbdkit"] = ("base",)
ROOMS["fio"] = ()
ROOMS["cli"] = tuple(ROOMS)

# The verbs of a host stand on <weft/nvmf.h>. What else of the storage half they may see does no I/O
# and keeps no state, and the library has it not, for programs have no use for it:
SHARED_WITH_VERBS = {
    "nvmf/lib/uri.h": "a URI of the command line taken apart, with options that win over it",
    "nvmf/lib/identity.h": "by which name this host goes: show-hostnqn",
    "nvmf/auth/hash.h": "keys are made and wiped: gen-dhchap-key, gen-tls-key",
    "nvmf/auth/key.h": "keys are read from files and checked: check-dhchap-key",
    "nvmf/auth/psk.h": "identities of TLS are shown: check-tls-key",
}
# Of the target: weft serve, what shows its figures, and what is counted.
TARGET_SIDE = re.compile(r"cli/(serve\w*|live\w*|metrics\w*|counted|disks|disk_words|top_served|transports"
                         r"|seen_names|cmd_(serve|stat|top))\.[ch]")


def verb_faults(includes):
    """What the verbs of a host see that is not theirs, by whatever way; includes: by path from src/."""
    faults = []
    for path in sorted(p for p in includes if p.startswith("cli/") and not TARGET_SIDE.fullmatch(p)):
        ways = {path: path}
        for at in (todo := [path]):
            for name in includes.get(at, ()):
                if name not in ways:
                    ways[name] = f"{ways[at]} -> {name}"
                    todo += [name] if name.startswith("cli/") else []
        faults += [f"src/{way}: a host's verb stands on <weft/nvmf.h>" for name, way in ways.items()
                   if name.startswith("nvmf/") and name not in SHARED_WITH_VERBS]
    return faults


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


def symbols(objects):
    """Object -> (defined for others, defined for itself, undefined), of object files. All in one call,
    which loads nm's plugins of the compilers once: that is most of what it costs."""
    found = {o: (set(), set(), set()) for o in objects}
    # With a file's name before each line, also where there is one file.
    out = subprocess.run(["nm", "-A", "-P", *objects], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        obj, _, rest = line.rpartition(": ")
        name, kind = rest.split()[:2]
        others, itself, undefined = found[obj]
        (undefined if kind in "Uw" else others if kind.isupper() else itself).add(name)
    return found


def finish(rule, faults, looked_at):
    """Prints the faults and leaves. A rule that found nothing to look at has failed too."""
    for fault in faults:
        print(fault)
    if not looked_at:
        print(f"{rule}: found nothing to look at")
    print(f"{rule}: {looked_at} looked at, {len(faults)} faults")
    sys.exit(1 if faults or not looked_at else 0)
