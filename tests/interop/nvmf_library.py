#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A program that is built with libweft-nvmf as it is installed: examples/nvmf_verify.c, by pkg-config,
for an ordinary user; over TCP and RDMA, several controllers at a time, targets that are killed and
come back.

usage: nvmf_library.py BUILD
"""
import argparse
import glob
import os
import signal
import subprocess
import tempfile

import installed
import lab

NQN = "nqn.2026-11.org.weft:library"


class Library:
    def __init__(self, build, top):
        self.host, _ = lab.lab(1)
        self.user = lab.ordinary_user()
        self.top, self.path = top, ""
        programs, wrong = installed.stage(build, top)
        if wrong:
            raise AssertionError(wrong)
        self.weft = f"{programs}/weft"
        self.disk = f"{top}/disk.img"
        self.programs = []

    def start(self, name, argv, env=None):
        p = lab.Program(self.host, [*self.user, *argv], f"{self.path}/{len(self.programs)}-{name}.log", env)
        self.programs.append(p)
        return p

    def kill_all(self):
        for p in self.programs:
            p.kill()
        self.programs = []

    def built(self, path):
        """By what pkg-config says, with nothing of the source tree but the example."""
        (where,) = glob.glob(f"{self.top}/**/pkgconfig", recursive=True)
        self.libdir = os.path.dirname(where)
        env = {**os.environ, "PKG_CONFIG_PATH": where, "PKG_CONFIG_SYSROOT_DIR": self.top}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "weft-nvmf"], env=env, text=True,
                               capture_output=True, check=True).stdout.split()
        for standard in ("-std=c11", "-std=gnu17"):
            r = subprocess.run(["cc", standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o",
                                f"{self.top}/nvmf_verify", f"{lab.TOP}/examples/nvmf_verify.c", *flags],
                               capture_output=True, text=True, check=False)
            if r.returncode:
                return r.stderr
        return None

    def serve(self):
        p = self.start("serve", [self.weft, "serve", self.disk, "-n", NQN, "-l", "tcp://127.0.0.1", "-l",
                                 "rdma://127.0.0.1"])
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 10) or p.status() is not None:
            raise AssertionError(f"weft serve does not come up: {p.output()[-300:]}")
        return p

    def verify(self, rounds, *transports):
        return self.start("verify", [f"{self.top}/nvmf_verify", str(rounds),
                                     *(f"nvme+{t}://127.0.0.1/{NQN}?ns={1 + i}" for i, t in enumerate(transports))],
                          {**os.environ, "LD_LIBRARY_PATH": self.libdir})

    def ends_well(self, p, seconds=60):
        status = p.wait(seconds)
        if status != 0 or not p.says("verified"):
            raise AssertionError(f"it ends with {status}: {p.output()[-400:]}")

    def disks(self, n):
        """One disk for each controller, so that none sees what another has written."""
        for i in range(n):
            with open(f"{self.top}/disk{i}.img", "wb") as f:
                f.truncate(2 << 20)
            os.chmod(f"{self.top}/disk{i}.img", 0o666)
        self.disk = f"{self.top}/disk0.img"
        self.more = [f"{self.top}/disk{i}.img" for i in range(1, n)]

    def one(self, path, transport):
        self.path = path
        self.disks(1)
        target = self.serve()
        self.ends_well(self.verify(20, transport))
        target.process.send_signal(signal.SIGTERM)
        return None if target.wait(10) == 0 else "the target does not end"

    def killed(self, path, transport):
        """What was written and answered is there when the target is; requests are sent again."""
        self.path = path
        self.disks(1)
        target = self.serve()
        p = self.verify(400, transport)
        for i in range(3):
            if not lab.until(lambda n=i: p.output().count(": live") == n + 1 or p.status() is not None, 20):
                return f"it is not live for the {i + 1}. time: {p.output()[-300:]}"
            if p.status() is not None:
                return f"it was over before the target was killed: {p.output()[-300:]}"
            target.kill()
            if not lab.until(lambda n=i: p.output().count("reconnecting: ") == n + 1, 40):
                return f"it does not notice: {p.output()[-300:]}"
            target = self.serve()
        self.ends_well(p, 120)
        return None

    def several(self, path):
        self.path = path
        self.disks(4)
        self.start_many()
        self.ends_well(self.verify(20, "tcp", "rdma", "tcp", "rdma"))
        return None

    def start_many(self):
        p = self.start("serve", [self.weft, "serve", self.disk, *self.more, "-n", NQN, "-l", "tcp://127.0.0.1",
                                 "-l", "rdma://127.0.0.1"])
        if not lab.until(lambda: p.says("ready"), 10):
            raise AssertionError(f"weft serve does not come up: {p.output()[-300:]}")

    def refused(self, path):
        """One line that says what failed and what to do."""
        self.path = path
        for transport in ("tcp", "rdma"):
            p = self.verify(1, transport)
            if p.wait(20) != 1 or "does a target listen there" not in p.output():
                return f"{transport}: {p.output()[-300:]}"
        return None


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    args = p.parse_args()
    build = os.path.abspath(args.build)
    lab.enter()
    lab.need("setpriv", "pkg-config", "cc")
    for name in ("WEFT_BROKER", "LD_LIBRARY_PATH"):
        os.environ.pop(name, None)
    report = lab.Report(build, "nvmf-library")
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        library = Library(build, top)

        def case(name, work):
            def one(path):
                try:
                    return work(path)
                finally:
                    library.kill_all()
            report.attempt(name, one)

        case("built by pkg-config", library.built)
        case("nobody there", library.refused)
        for transport in ("tcp", "rdma"):
            case(f"{transport}", lambda path, t=transport: library.one(path, t))
            case(f"{transport}, target killed", lambda path, t=transport: library.killed(path, t))
        case("four controllers", library.several)
        report.everything_ends((library.host,))
    report.finish()


if __name__ == "__main__":
    main()
