#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The commands that have blocks compared, zeroed, verified, copied and flushed, on what is served.

usage: blocks.py BUILD [--transport rdma|tcp]

Each is tried on an image, which is then looked at itself; and what is wrong gets a line that names
it and status 1, or 2 for wrong usage.
"""
import argparse
import json
import os
import sys
import tempfile

import lab

NQN = "nqn.2026-11.org.weft:blocks"
BLOCK = 512
BLOCKS = 8192


class Service:
    def __init__(self, build, transport):
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.host = lab.lab(1)[0]
        self.report = lab.Report(build, f"blocks-{transport}")
        self.tmp = tempfile.TemporaryDirectory()
        self.image = os.path.join(self.tmp.name, "disk.img")
        self.uri = f"nvme+{transport}://{self.host.address}/{NQN}"
        self.listen = f"{transport}://{self.host.address}"
        self.path = ""
        self.programs = []

    def fill(self):
        """Each block says which it is."""
        with open(self.image, "wb") as f:
            for i in range(BLOCKS):
                f.write(i.to_bytes(4, "little") * (BLOCK // 4))

    def block(self, i):
        with open(self.image, "rb") as f:
            f.seek(i * BLOCK)
            return f.read(BLOCK)

    def shows(self, i):
        b = self.block(i)
        if b != b[:4] * (BLOCK // 4):
            raise AssertionError(f"block {i} is mixed")
        return int.from_bytes(b[:4], "little")

    def serve(self, *options):
        self.fill()
        self.listen_to(["--block-size", str(BLOCK), *options])

    def listen_to(self, options):
        p = lab.Program(self.host, [self.weft, "serve", self.image, "--nqn", NQN, "-l", self.listen, *options],
                        f"{self.path}/serve.log")
        self.programs.append(p)
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 10):
            raise AssertionError("weft serve does not come up")

    def run(self, *argv, status=0, says=""):
        r = self.host.run(self.weft, argv[0], self.uri, *argv[1:], timeout=30)
        out = r.stdout + r.stderr
        if r.returncode != status or says not in out:
            raise AssertionError(f"weft {' '.join(argv)}: status {r.returncode}, not {status}, "
                                 f"or no '{says}': {out[-300:]}")
        return out

    def prove(self, name, function):
        self.report.prove_and_end(name, self, lambda: function(self))


def expect(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {got}, not {want}")


def zeroes(s):
    s.serve()
    s.run("write-zeroes", "--start-block", "10", "--block-count", "4",
          says="NVME Write Zeroes Success")
    s.run("write-zeroes", "--start-block", "100", "--block-count", "199", "-d", "-f")
    expect("around", [s.shows(i) for i in (9, 15, 99, 300)], [9, 15, 99, 300])
    expect("zeroes", [s.shows(i) for i in (10, 14, 100, 299)], [0] * 4)
    s.run("write-zeroes", "--start-block", str(BLOCKS), status=1, says="LBA Out of Range")
    s.run("write-zeroes", "--block-count", "65536", status=2, says="--block-count")


def many_zeroes(s):
    """What Identify says of the size of Write Zeroes is advice (ONCS has the command): more than that is zeroed, too."""
    s.fill()
    blocks, block = 70000, 4096
    with open(s.image, "r+b") as f:
        for i in (0, 30000, 65535, 65536):
            f.seek(i * block)
            f.write(b"x" * block)
        f.truncate(blocks * block)
    s.listen_to(["--block-size", str(block)])
    expect("advice", json.loads(s.run("nvm-id-ctrl", "-o", "json"))["wzsl"], 13)  # 4096 << 13: 32 MiB
    s.run("write-zeroes", "--block-count", "65535", says="NVME Write Zeroes Success")
    with open(s.image, "rb") as f:
        def at(i):
            f.seek(i * block)
            return f.read(block)
        expect("zeroes", [any(at(i)) for i in (0, 30000, 65535, 65536)], [False, False, False, True])


def ranges(s):
    s.serve()
    s.run("dsm", "-d", "--slbs", "16,800", "-b", "8,0x10", says="NVMe DSM: success")
    expect("given back", [s.shows(i) for i in (16, 23, 800, 815)], [0] * 4)
    expect("around", [s.shows(i) for i in (15, 24, 799, 816)], [15, 24, 799, 816])
    s.run("dsm", "-d", "--slbs", "1,2", "-b", "8", status=1, says="--slbs and --blocks")
    s.run("dsm", "-d", status=1, says="--slbs and --blocks")
    s.run("dsm", "-d", "--slbs", "1,x", "-b", "8", status=2, says="--slbs")
    s.run("dsm", "-d", "--slbs", "1", "-b", "0x100000000", status=2, says="--blocks")
    s.run("dsm", "-d", "--slbs", str(BLOCKS), "-b", "1", status=1, says="LBA Out of Range")


def copies(s):
    s.serve()
    s.run("copy", "--sdlba", "2000", "--slbs", "100,5", "-b", "7,0", says="NVMe Copy: success")
    expect("copied", [s.shows(i) for i in range(2000, 2010)],
           [*range(100, 108), 5, 2009])
    s.run("copy", "-d", "2004", "--slbs", "2000", "-b", "8", "-f")  # onto itself
    expect("moved", [s.shows(i) for i in range(2004, 2013)], [*range(100, 108), 5])
    s.run("copy", "--slbs", "0", "-b", "128", status=1, says="Command Size Limit Exceeded")
    s.run("copy", "--slbs", "0", "-b", "65536", status=1, says="up to 65535")
    s.run("copy", "--slbs", str(BLOCKS - 1), "-b", "1", status=1, says="LBA Out of Range")
    expect("untouched", s.shows(0), 0)


def verifies(s):
    s.serve()
    s.run("verify", "--block-count", str(BLOCKS - 1), says="NVME Verify Success")
    s.run("verify", "--block-count", str(BLOCKS), status=1, says="LBA Out of Range")
    s.run("verify", "-f", "-o", "json", says='"nsid"')
    s.run("flush", says="NVMe Flush: success")


def compares(s):
    s.serve()
    s.run("compare", "-d", s.image, says="compare: Success")
    other = os.path.join(s.tmp.name, "other")
    with open(other, "wb") as f:
        f.write(s.block(7) + b"\1" + s.block(8)[1:])
    s.run("compare", "-d", other, "--start-block", "7", "--block-count", "0")
    s.run("compare", "-d", other, "--start-block", "7", status=1, says="not what")
    with open(other, "ab") as f:
        f.write(b"x")
    s.run("compare", "-d", other, status=1, says="no whole number of blocks")
    s.run("compare", "-d", other, "-z", "100", status=1, says="no whole number of blocks")
    s.run("compare", "-d", s.image, "--start-block", "1", status=1, says="beyond the end")


def read_only(s):
    s.serve("--read-only")
    for argv in (["write-zeroes"], ["dsm", "-d", "--slbs", "1", "-b", "1"],
                 ["copy", "--slbs", "1", "-b", "1"]):
        s.run(*argv, status=1, says="Write Protected")
    s.run("compare", "-d", s.image)
    s.run("verify")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--transport", choices=("rdma", "tcp"), default="rdma")
    args = p.parse_args()
    lab.enter()
    s = Service(args.build, args.transport)
    for name, function in (("zeroes", zeroes), ("many zeroes", many_zeroes), ("ranges", ranges), ("copies", copies),
                           ("verifies", verifies), ("compares", compares),
                           ("read-only", read_only)):
        s.prove(name, function)
    s.report.everything_ends([s.host])
    s.report.finish()


if __name__ == "__main__":
    sys.exit(main())
