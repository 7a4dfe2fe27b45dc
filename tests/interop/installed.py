#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""An installed tree, staged by DESTDIR, does its work for an ordinary user; no broker runs before.

usage: installed.py BUILD
"""
import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile

import lab

NQN = "nqn.2026-11.org.weft:installed"
COUNT = """
#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	if (devices && devices[0])
		puts(ibv_get_device_name(devices[0]));
	return 0;
}
"""


def elves(top):
    """ELF files below top."""
    for where, _, names in os.walk(top):
        for path in (os.path.join(where, n) for n in names):
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    if f.read(4) == b"\x7fELF":
                        yield path


def planted(paths):
    """Where a library is looked for below the working directory, if anywhere."""
    for path in paths:
        out = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True,
                             check=True).stdout
        for runpath in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", out):
            for entry in runpath.split(":"):
                if not entry.startswith(("$ORIGIN", "/")):
                    return f"{path}: RUNPATH has {entry!r}"
    return None


def stage(build, to):
    """The directory of the installed program, or None and why."""
    r = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"],
                       env={**os.environ, "DESTDIR": to}, capture_output=True, text=True,
                       check=False)
    found = glob.glob(f"{to}/**/bin/weft", recursive=True)
    return (os.path.dirname(found[0]), None) if r.returncode == 0 and found else \
        (None, r.stdout + r.stderr)


def pingpong(host, user, weft, path):
    server = lab.Program(host, [*user, weft, "run", "--", "ibv_rc_pingpong", "-d", "weft_lo", "-g",
                                "0", "-n", "100"], f"{path}/server.log")
    if not lab.until(lambda: host.listens_on_tcp(18515) or server.status() is not None, 10):
        server.kill()
        return "the pingpong's server does not listen"
    client = lab.Program(host, [*user, weft, "run", "--", "ibv_rc_pingpong", "-d", "weft_lo", "-g",
                                "0", "-n", "100", "127.0.0.1"], f"{path}/client.log")
    status = client.wait(20), server.wait(20)
    client.kill()
    server.kill()
    return None if status == (0, 0) else f"pingpong ends with {status}"


def serve(host, user, weft, path):
    with tempfile.TemporaryDirectory() as scratch:
        disk = f"{scratch}/disk.img"
        with open(disk, "wb") as f:
            f.truncate(1 << 20)
        os.chmod(scratch, 0o755)
        os.chmod(disk, 0o666)
        target = lab.Program(host, [*user, weft, "serve", disk, "-l", "rdma://127.0.0.1", "-n",
                                    NQN], f"{path}/serve.log")
        lab.until(lambda: target.says("ready") or target.status() is not None, 10)
        r = host.run(*user, weft, "id-ns", f"nvme+rdma://127.0.0.1/{NQN}?ns=1", timeout=30)
        target.process.send_signal(signal.SIGTERM)
        status = target.wait(10)
        target.kill()
    return None if r.returncode == 0 and status == 0 else \
        f"id-ns ends with {r.returncode}, serve with {status}: {r.stderr.strip()}"


def demo(top, host, user, weft, path):
    """The demo as it is, on the installed program: from a copy, for its user may not look in here."""
    for name in ("scripts", "src", "docs"):
        shutil.copytree(f"{lab.TOP}/{name}", f"{top}/{name}")
    shutil.copy(f"{lab.TOP}/README.md", top)
    p = lab.Program(host, [*user, f"{top}/scripts/demo", "--small"], f"{path}/demo.log",
                    env={"WEFT": weft, "WEFT_DEMO_INSIDE": "netns", "TMPDIR": "/tmp"})
    status = p.wait(60)
    p.kill()
    return None if status == 0 else f"the demo ends with {status}"


def linked(top, host, user):
    """A program that is linked by pkg-config has weft's devices without `weft run`."""
    (where,) = glob.glob(f"{top}/**/pkgconfig", recursive=True)
    env = {**os.environ, "PKG_CONFIG_PATH": where, "PKG_CONFIG_SYSROOT_DIR": top}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "weft"], env=env, text=True,
                           capture_output=True, check=True).stdout.split()
    # Where it is staged is not where it will be.
    flags = [f"-Wl,-rpath,{top}{f[11:]}" if f.startswith("-Wl,-rpath,/") and
             not f.startswith(f"-Wl,-rpath,{top}") else f for f in flags]
    subprocess.run(["cc", "-x", "c", "-o", f"{top}/count", "-", *flags], input=COUNT, text=True,
                   check=True)
    r = host.run(*user, f"{top}/count", timeout=30)
    return None if r.stdout.startswith("weft_lo") else f"no device: {r.returncode} {r.stdout}"


def installed(top):
    return [os.path.join(where, n) for where, _, names in os.walk(top) for n in names]


def uninstall(build):
    """What is taken away is what is there, whatever was installed where since."""
    with tempfile.TemporaryDirectory() as scratch:
        first, second = (f"{scratch}/{name}" for name in ("first", "second"))
        for to in (first, second):
            _, wrong = stage(build, to)
            if wrong:
                return wrong
        before = installed(second)
        r = subprocess.run(["make", "-C", lab.TOP, "uninstall", f"BUILD={build}", f"DESTDIR={first}"],
                           capture_output=True, text=True, check=False)
        if r.returncode or os.listdir(first):
            return f"left: {os.listdir(first)}; {r.stdout}{r.stderr}"
        return None if before and installed(second) == before else "more than that"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    args = p.parse_args()
    build = os.path.abspath(args.build)
    lab.enter()
    lab.need("ibv_rc_pingpong", "readelf", "setpriv", "pkg-config", "cc", "make")
    # What would lead the program back to the build tree.
    for name in ("WEFT_BROKER", "LD_LIBRARY_PATH"):
        os.environ.pop(name, None)
    user = lab.ordinary_user()
    host, _ = lab.lab(1)
    report = lab.Report(build, "installed")
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        path = report.case("install")
        programs, wrong = stage(build, top)
        for shell in ("bash-completion/completions/weft", "zsh/site-functions/_weft"):
            if not wrong and not os.path.isfile(f"{programs}/../share/{shell}"):
                wrong = f"share/{shell} is not installed"
        if not wrong:
            wrong = planted([f"{build}/weft", *elves(f"{build}/lib"), *elves(top)])
        if wrong:
            report.fail("install", path, wrong)
            report.finish()
        report.ok("install", path)
        weft = f"{programs}/weft"
        for name, work in (("pingpong", lambda path: pingpong(host, user, weft, path)),
                           ("serve", lambda path: serve(host, user, weft, path)),
                           ("demo", lambda path: demo(top, host, user, weft, path)),
                           ("pkg-config", lambda _: linked(top, host, user)),
                           ("uninstall", lambda _: uninstall(build))):
            # The next has no broker to begin with, either.
            report.attempt(name, lambda path, work=work: work(path) or
                           (None if lab.until(lambda: not host.has_broker(), 15) else
                            "the broker does not end"))
        report.everything_ends((host,))
    report.finish()


if __name__ == "__main__":
    main()
