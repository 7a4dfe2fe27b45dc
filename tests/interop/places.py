# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Places with little privilege: what starts a program there.

user_namespace() has them inside a user namespace that an ordinary user has made. A place makes of a
program's argv that of what starts it; build is weft's, scratch a directory where both may write.
"""
import json
import os
import subprocess
import uuid

import lab

LIMIT = ["prlimit", "--memlock=65536:65536", "--"]
SECCOMP = "/usr/share/containers/seccomp.json"  # podman's
# What a container has of the system it stands on: programs and libraries. The rest is its own.
LINKS = ("bin", "sbin", "lib", "lib64")
READ_ONLY = ("/usr", "/etc", "/sys")


def user_namespace():
    """What, put before a program, makes it root of a user namespace that an ordinary user has made."""
    user = lab.ordinary_user()
    holder = subprocess.Popen(
        [*user, "unshare", "-Urn", "--", "sh", "-c", "echo up && cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if holder.stdout.readline() != b"up\n":
        lab.skip("an ordinary user may not make a user namespace here")
    become = ["-S", "0", "-G", "0"] if user else ["--preserve-credentials"]
    # Who gets other rights loses what ended it with this script.
    return ["nsenter", "-t", str(holder.pid), "-U", *become, "--", "setpriv", "--pdeathsig",
            "KILL", "--"]


def userns(_, __, argv):
    return argv


def memlock(_, __, argv):
    return [*LIMIT, *argv]


def bwrap_argv(read_only, *more):
    """No capability, its own users, processes and mounts; the network is the host's. read_only: path
    inside -> path here."""
    given = [word for inside, path in read_only.items() for word in ("--ro-bind", path, inside)]
    links = [word for name in LINKS for word in ("--symlink", f"usr/{name}", f"/{name}")]
    return ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
            "--cap-drop", "ALL", "--die-with-parent", "--tmpfs", "/tmp", *given, *links, "--proc",
            "/proc", "--dev", "/dev", *more, "--", *LIMIT]


def bwrap(build, scratch, argv):
    read_only = {path: path for path in (*READ_ONLY, build)}
    return [*bwrap_argv(read_only, "--bind", scratch, scratch), *argv]


def pod(files, name, argv):
    """As that, with more of an image and as its user."""
    read_only = {**{path: path for path in READ_ONLY}, **files}
    return [*bwrap_argv(read_only, "--uid", "1000", "--gid", "1000", "--hostname", name,
                        "--setenv", "HOME", "/tmp"), *argv]


def seccomp():
    """What podman allows a container without capabilities, as crun is told it."""
    with open(SECCOMP, encoding="utf-8") as f:
        profile = json.load(f)
    rules = []
    for rule in profile["syscalls"]:
        only = rule.get("includes") or {}
        if only.get("caps") or "amd64" not in only.get("arches", ["amd64"]):
            continue
        kept = {k: rule[k] for k in ("names", "action", "args", "errnoRet") if rule.get(k)}
        rules.append(kept)
    return {"defaultAction": profile["defaultAction"], "syscalls": rules,
            "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
            "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]}


def crun(build, scratch, argv):
    """As that, started by what podman starts containers with; a user without a name, and podman's
    seccomp filter."""
    name = uuid.uuid4().hex
    bundle = f"{scratch}/{name}"
    os.makedirs(f"{bundle}/rootfs")
    for path in (bundle, f"{bundle}/rootfs"):  # where what is mounted gets its directories
        os.chmod(path, 0o777)
    for link in LINKS:
        os.symlink(f"usr/{link}", f"{bundle}/rootfs/{link}")
    none = {k: [] for k in ("bounding", "effective", "permitted", "inheritable", "ambient")}
    mounts = [{"destination": "/proc", "source": "proc", "type": "proc"},
              {"destination": "/dev", "source": "tmpfs", "type": "tmpfs"},
              {"destination": "/dev/pts", "source": "devpts", "type": "devpts",
               "options": ["newinstance", "ptmxmode=0666", "mode=0620"]},
              {"destination": "/dev/shm", "source": "shm", "type": "tmpfs"},
              {"destination": "/tmp", "source": "tmpfs", "type": "tmpfs"}]
    mounts += [{"destination": p, "source": p, "type": "bind", "options": ["rbind", how]}
               for p, how in [*((p, "ro") for p in (*READ_ONLY, build)), (scratch, "rw")]]
    one = [{"containerID": 4711, "hostID": 0, "size": 1}]
    config = {
        "ociVersion": "1.0.0",
        "root": {"path": "rootfs"},
        "hostname": "container",
        "process": {
            "user": {"uid": 4711, "gid": 4711}, "cwd": "/", "env": [],
            "args": ["/bin/sh", "-c", f'. {bundle}/env && exec "$@"', "sh", *argv],
            "capabilities": none, "noNewPrivileges": True,
            "rlimits": [{"type": "RLIMIT_MEMLOCK", "soft": 65536, "hard": 65536}],
        },
        "mounts": mounts,
        "linux": {
            # The network stays that of the host on which it is started.
            "namespaces": [{"type": t} for t in ("user", "pid", "mount", "ipc", "uts")],
            "uidMappings": one, "gidMappings": one, "seccomp": seccomp(),
        },
    }
    with open(f"{bundle}/config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    # It starts nothing where there are control groups of both kinds, though it is to use none.
    start = 'export -p > "$1/env" && mount -t tmpfs none /sys/fs/cgroup && shift && exec "$@"'
    return ["unshare", "--mount", "--", "sh", "-c", start, "sh", bundle, "crun",
            "--cgroup-manager=disabled", "--root", f"{scratch}/crun", "run", "-b", bundle, name]


PLACES = {"userns": userns, "memlock": memlock, "bwrap": bwrap, "crun": crun}


def put(host, place, build, scratch):
    """What runs on the host from here on, runs in the place; skips where nothing can."""
    if place in ("bwrap", "crun"):
        lab.need(place)
    if place == "crun" and not os.path.exists(SECCOMP):
        lab.skip("golang-github-containers-common is not installed")
    host.place = lambda argv: PLACES[place](build, scratch, argv)
    r = host.run("true")
    if r.returncode:
        lab.skip(f"{place} can start nothing here: {r.stderr.strip()}")
