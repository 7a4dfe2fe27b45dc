# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Programs of which Debian has the source, but no package for the release that tests run on: fetched
by apt, which checks it, and built once in the build directory. The machine's own apt lists stay as they
are.
"""
import fcntl
import os
import subprocess
import tarfile

import lab

SUITE = "trixie"  # a release: what is in it stays
MIRROR = "http://deb.debian.org/debian"


def fetch(package, into, suite):
    """The path of its upstream tarball, or skips the test with apt's own words."""
    lab.need("apt-get")
    state = os.path.join(into, "apt")
    os.makedirs(f"{state}/lists/partial", exist_ok=True)
    os.makedirs(f"{state}/cache/archives/partial", exist_ok=True)
    with open(f"{state}/list", "w", encoding="ascii") as f:
        f.write("deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
                f"{MIRROR} {suite} main\n")
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={state}/list",
           "-o", "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State::lists={state}/lists",
           "-o", f"Dir::Cache={state}/cache", "-o", "Acquire::Retries=3",
           "-o", "Acquire::http::Timeout=20"]
    # Only the tarball: what Debian adds to it is about packages.
    for argv in (["update", "--error-on=any"], ["source", "--tar-only", "--download-only", package]):
        r = subprocess.run([*apt, *argv], cwd=into, capture_output=True, text=True, timeout=300,
                           check=False)
        if r.returncode:
            said = [l for l in r.stderr.splitlines() if l.startswith("E: ")] or ["no word of why"]
            lab.skip(f"Debian {suite}'s source of {package} cannot be had: apt-get: {said[0]}")
    return next(os.path.join(into, name) for name in os.listdir(into)
                if ".orig.tar." in name and not name.endswith(".asc"))


def built(build, name, package, commands, suite=SUITE):
    """The prefix that commands, run in the source's directory, have installed it to. Before lab.enter():
    there is no network in a namespace of our own."""
    home = os.path.join(os.path.abspath(build), "debian-source", name)
    prefix, done = os.path.join(home, "prefix"), os.path.join(home, "done")
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(done):
            return prefix
        lab.need("make", "autoreconf", "libtoolize")
        with tarfile.open(fetch(package, home, suite)) as tar:
            top = os.path.join(home, tar.getnames()[0].split("/")[0])
            tar.extractall(home)
        with open(os.path.join(home, "build.log"), "wb") as log:
            for command in commands:
                command = command.format(prefix=prefix, jobs=len(os.sched_getaffinity(0)))
                if subprocess.run(["sh", "-c", command], cwd=top, stdout=log,
                                  stderr=subprocess.STDOUT, check=False).returncode:
                    raise SystemExit(f"{name}: {command!r} fails, see {log.name}")
        with open(done, "w", encoding="ascii"):
            return prefix
