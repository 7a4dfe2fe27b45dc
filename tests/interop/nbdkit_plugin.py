#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""nbdkit with weft's plugin before weft serve, used by libnbd's and qemu's programs: there and back over
both transports, several connections, zeroes and trims, a target that dies under a copy, and what is told
of what cannot be.

usage: nbdkit_plugin.py BUILD
"""
import argparse
import os
import shutil
import subprocess
import tempfile
import time

import lab

NQN = "nqn.2026-11.org.weft:nbdkit"
SIZE = 8 << 20
LIMIT = 60


class Exports:
    def __init__(self, build):
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.plugin = os.path.join(os.path.abspath(build), "lib", "nbdkit-weft-plugin.so")
        self.tmp = tempfile.TemporaryDirectory()
        self.host, _ = lab.lab(1)
        self.report = lab.Report(build, "nbdkit-plugin")
        self.programs, self.path = [], ""
        self.disk, self.other = self.file("disk", bytes(SIZE)), self.file("other", bytes(SIZE // 2))
        self.socket = self.file("socket")

    def file(self, name, content=None):
        path = os.path.join(self.tmp.name, name)
        if content is not None:
            with open(path, "wb") as f:
                f.write(content)
        return path

    def content(self, path):
        with open(path, "rb") as f:
            return f.read()

    def check(self, condition, why):
        if not condition:
            raise AssertionError(why)

    def start(self, *argv):
        p = lab.Program(self.host, list(argv), f"{self.path}/{len(self.programs)}.log")
        self.programs.append(p)
        return p

    def serve(self, *options):
        p = self.start(self.weft, "serve", self.disk, self.other, "--nqn", NQN,
                       "-l", "tcp://127.0.0.1", "-l", "rdma://127.0.0.1", *options)
        self.check(lab.until(lambda: p.says("ready") or p.status() is not None, 20)
                   and p.status() is None, f"weft serve does not come up: {p.output()}")
        return p

    def uri(self, transport="tcp", ns=1):
        return f"nvme+{transport}://127.0.0.1/{NQN}" + (f"?ns={ns}" if ns else "")

    def nbdkit(self, *parameters):
        """Its status where it ends at once, or the program that runs."""
        pid = self.file("pid")
        for path in (pid, self.socket):
            if os.path.exists(path):
                os.unlink(path)
        p = self.start("nbdkit", "-f", "-P", pid, "-U", self.socket, self.plugin, *parameters)
        lab.until(lambda: os.path.exists(pid) or p.status() is not None, 20)
        return p

    def nbd(self, name=""):
        return f"nbd+unix:///{name}?socket={self.socket}"

    def up(self, *parameters):
        p = self.nbdkit(*parameters)
        self.check(p.status() is None, f"nbdkit does not come up: {p.output()}")
        return p

    def run(self, *argv, status=0):
        r = self.host.run(*argv, timeout=LIMIT)
        self.check(r.returncode == status, f"{' '.join(argv)}: {r.returncode}: {r.stderr.strip()}")
        return r

    def there_and_back(self, transport):
        self.serve()
        self.up(self.uri(transport), "queues=3")
        new, back = self.file("new", os.urandom(SIZE)), self.file("back")
        self.run("nbdcopy", "--flush", "--connections=4", "--requests=16", new, self.nbd())
        self.check(self.content(self.disk) == self.content(new), "the disk has not what was written")
        self.run("nbdcopy", self.nbd(), back)
        self.check(self.content(back) == self.content(new), "not what was written comes back")

    def by_qemu(self, transport):
        """Its block layer: an image of qcow2 there and back, and what only qemu asks for in its way."""
        if not shutil.which("qemu-io"):
            raise lab.Skip("qemu-utils is not installed (scripts/setup installs it)")
        self.serve()
        self.up(self.uri(transport))
        new, image = self.file("new", os.urandom(SIZE)), self.file("image.qcow2")
        self.run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", new, image)
        self.run("qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", image, self.nbd())
        self.check(self.content(self.disk) == self.content(new), "the disk has not what the image holds")
        self.run("qemu-img", "compare", "-f", "qcow2", "-F", "raw", image, self.nbd())
        self.run("qemu-io", "-f", "raw", "-c", "write -P 0x5a 4096 65536", "-c", "write -f -P 0x33 1M 4096",
                 "-c", "write -z 128k 64k", "-c", "discard 2M 1M", "-c", "flush", "-c", "read -P 0x5a 4096 65536",
                 "-c", "read -P 0 128k 64k", "-c", "read -P 0x33 1M 4096", "-c", "read -P 0 2M 1M", self.nbd())
        disk, was = self.content(self.disk), bytearray(self.content(new))
        was[4096:4096 + 65536], was[1 << 20:(1 << 20) + 4096] = b"\x5a" * 65536, b"\x33" * 4096
        was[128 << 10:192 << 10], was[2 << 20:3 << 20] = bytes(64 << 10), bytes(1 << 20)
        self.check(disk == was, "what qemu-io wrote is not where it belongs")

    def by_nbdfuse(self):
        """A file that is the namespace."""
        if not shutil.which("nbdfuse") or not os.path.exists("/dev/fuse") or os.geteuid() != 0:
            raise lab.Skip("nbdfuse needs root, /dev/fuse and Debian's package nbdfuse")
        self.serve()
        self.up(self.uri())
        at = self.file("fuse")
        os.mkdir(at)
        fuse = self.start("nbdfuse", at, self.nbd())
        self.check(lab.until(lambda: os.path.exists(f"{at}/nbd") or fuse.status() is not None, 10), fuse.output())
        try:
            new = self.file("new", os.urandom(1 << 20))
            self.run("dd", f"if={new}", f"of={at}/nbd", "bs=64k", "conv=notrunc,fsync")
            self.check(self.content(f"{at}/nbd")[:1 << 20] == self.content(new), "it reads back otherwise")
            self.check(self.content(self.disk)[:1 << 20] == self.content(new), "the disk has not what was written")
        finally:
            subprocess.run(["umount", at], check=False)
            fuse.wait(10)

    def cache_is_lost(self, transport):
        """The disk has a cache that dies with it, and the target is killed, too: what was written with FUA, or before a
        Flush that was completed, is there; the rest would be if the test could not fail."""
        below, step = self.file("below"), 64 << 10  # of which the cache's blocks are
        self.file("disk", bytes(SIZE))
        server = self.start("nbdkit", "-f", "-U", below, "--filter=cache", "file", self.disk)
        self.check(lab.until(lambda: os.path.exists(below), 10), server.output())
        target = self.start(self.weft, "serve", f"nbd+unix:///?socket={below}", "--nqn", NQN, "-l", f"{transport}://127.0.0.1")
        self.check(lab.until(lambda: target.says("ready") or target.status() is not None, 20), target.output())
        self.up(self.uri(transport))
        host = self.start("/usr/bin/python3", "-c", f"""
import nbd, time
h = nbd.NBD(); h.connect_uri('{self.nbd()}')
for i in range(40):
    h.pwrite(bytes([i + 1]) * 4096, i * {step})
    if i % 5 == 4: h.flush()
for i in range(40, 60): h.pwrite(bytes([i + 1]) * 4096, i * {step}, nbd.CMD_FLAG_FUA)
for i in range(60, 100): h.pwrite(bytes([i + 1]) * 4096, i * {step})
print('written', flush=True)
time.sleep(60)""")
        self.check(lab.until(lambda: host.says("written") or host.status() is not None, LIMIT) and host.status() is None,
                   host.output())
        for p in (server, target):
            p.kill()
        disk = self.content(self.disk)
        there = [i for i in range(100) if disk[i * step:i * step + 4096] == bytes([i + 1]) * 4096]
        gone = [i for i in range(60) if i not in there]
        self.check(not gone, f"promised and not there: {gone}")
        self.check(len(there) < 100, "the cache has lost nothing")
        host.kill()
        os.unlink(below)
        return f"{len(there)} of 100 there, 60 promised"

    def zeroes(self):
        self.serve()
        self.up(self.uri())
        self.file("disk", b"\xff" * SIZE)
        self.shell("h.zero(4096, 4096)", "h.zero(8192, 65536, nbd.CMD_FLAG_NO_HOLE)",
                   "h.trim(1048576, 1048576)", "h.trim(4096, 4194304, nbd.CMD_FLAG_FUA)",
                   "h.pwrite(b'x' * 512, 512, nbd.CMD_FLAG_FUA)", "h.flush()")
        disk = self.content(self.disk)
        want = bytearray(b"\xff" * SIZE)
        for at, n in ((4096, 4096), (65536, 8192), (1048576, 1048576), (4194304, 4096)):
            want[at:at + n] = bytes(n)
        want[512:1024] = b"x" * 512
        self.check(disk == want, "zeroes are not where they belong")

    def shell(self, *commands, status=0, name=""):
        # That of Debian's: others do not see its modules.
        first = f"import nbd; h = nbd.NBD(); h.connect_uri('{self.nbd(name)}')"
        return self.run("/usr/bin/python3", "-c", "\n".join((first, *commands)), status=status)

    def exports(self):
        self.serve()
        self.up(self.uri(ns=None))
        said = self.run("nbdinfo", "--list", self.nbd()).stdout
        self.check('export="1"' in said and 'export="2"' in said, said)
        self.check(self.run("nbdinfo", "--size", self.nbd("2")).stdout.strip() == str(SIZE // 2), "size")
        for name, word in (("", "several"), ("7", "no namespace 7"), ("disk", "namespace's ID")):
            self.run("nbdinfo", "--size", self.nbd(name), status=1)
            self.check(self.programs[-1].says(word),
                       f"export '{name}': {self.programs[-1].output()[-400:]}")

    def read_only(self):
        self.serve("--read-only")
        self.up(self.uri())
        self.check("is_read_only: true" in self.run("nbdinfo", self.nbd()).stdout, "it can be written")

    def odd(self):
        """A client that does not heed the block size hears of it; nothing of it is written."""
        self.serve()
        nbdkit = self.up(self.uri())
        before = self.content(self.disk)
        self.shell("h.set_strict_mode(0)", "h.pwrite(b'x' * 100, 0)", status=1)
        self.check(nbdkit.says("--filter=blocksize"), nbdkit.output())
        self.check(self.content(self.disk) == before, "it was written")
        self.shell("h.pread(512, 0)")

    def dies(self, transport):
        """The target dies in the middle and comes back: the copy waits, and is whole."""
        serve = self.serve()
        nbdkit = self.up(self.uri(transport))
        new = self.file("new", os.urandom(SIZE))
        copy = self.start("nbdcopy", "--flush", "--request-size=4096", new, self.nbd())
        self.check(lab.until(lambda: self.content(self.disk)[:4096] == self.content(new)[:4096], 10),
                   "nothing is written")
        serve.kill()
        middle = copy.status() is None
        self.programs.remove(serve)
        self.serve()
        self.check(copy.wait(LIMIT) == 0, f"the copy fails: {copy.output()} {nbdkit.output()}")
        self.check(self.content(self.disk) == self.content(new), "the copy is not whole")
        return "" if middle else "the copy was over before"

    def gone(self):
        """Without its target a request fails after ctrl-loss-tmo, not with it; who comes later gets a
        connection anew."""
        serve = self.serve()
        nbdkit = self.up(self.uri(), "ctrl-loss-tmo=1")
        up, again = self.file("up"), self.file("again")
        # Its PID file is there before its connection. A client that stays does not go on by another: what is there may be
        # another disk then.
        old = self.start("/usr/bin/python3", "-c", "\n".join((
            "import nbd, os, time; h = nbd.NBD()", f"h.connect_uri('{self.nbd()}')", "h.pread(512, 0)",
            f"open('{up}', 'w').close()", f"while not os.path.exists('{again}'): time.sleep(0.05)", "h.pread(512, 0)")))
        self.check(lab.until(lambda: os.path.exists(up), 20), old.output())
        serve.kill()
        self.programs.remove(serve)
        self.shell("h.pread(512, 0)", status=1)
        self.check(nbdkit.status() is None, nbdkit.output())
        self.serve()
        self.shell("h.pread(512, 0)")
        self.file("again", b"")
        self.check(old.wait(20) == 1 and nbdkit.says("open it again"), nbdkit.output())

    def another_disk(self):
        """Behind the namespace's ID, when the target comes back: nothing is read from it, or written to it."""
        serve = self.serve()
        nbdkit = self.up(self.uri())
        new, reads = self.file("new", bytes(SIZE)), self.file("reads")
        old = self.start("/usr/bin/python3", "-c", "\n".join((
            "import nbd, os, time; h = nbd.NBD()", f"h.connect_uri('{self.nbd()}')", "h.pread(512, 0)",
            f"open('{reads}', 'w').close()", "while True: h.pwrite(b'x' * 512, 0)")))
        self.check(lab.until(lambda: os.path.exists(reads), 20), old.output())
        serve.kill()
        self.programs.remove(serve)
        disk, self.disk = self.disk, new
        self.serve()
        self.disk = disk
        self.check(old.wait(20) == 1 and nbdkit.says("another disk has its number"), nbdkit.output())
        self.check(self.content(new) == bytes(SIZE), "it was written")

    def gone_at_the_end(self):
        """What may be lost with a target that is away, or has been given up, is told."""
        for seconds, away in ((60, 1), (1, 4)):
            serve = self.serve()
            nbdkit = self.up(self.uri(), f"ctrl-loss-tmo={seconds}")
            self.shell("h.pwrite(b'x' * 512, 0)")
            serve.kill()
            self.programs.remove(serve)
            time.sleep(away)
            self.check(not lab.end_in_order([nbdkit]), f"nbdkit does not end: {nbdkit.output()}")
            self.check(nbdkit.says("not flushed may be lost: "), nbdkit.output())
            self.programs.remove(nbdkit)

    def by_tls(self):
        """By a key of TLS that comes of authentication."""
        r = self.host.run(self.weft, "gen-dhchap-key")
        key = self.file("host.key", r.stdout.encode())
        server = self.serve("-l", "tcp+tls://127.0.0.1:4421?treq=not-required", "--dhchap-secret", key)
        self.up(self.uri().replace("127.0.0.1", "127.0.0.1:4421"), f"dhchap-secret=+{key}", "concat=true")
        self.run("nbdinfo", "--size", self.nbd())
        self.check(server.says("by TLS"), server.output())

    def by_tls_key(self):
        """By a key of TLS of the host's own, also where the URI does not speak of it; without it, not in plain."""
        r = self.host.run(self.weft, "gen-tls-key")
        key = self.file("tls.key", r.stdout.encode())
        server = self.serve("-l", "tcp+tls://127.0.0.1:4421", "--tls-key", key)
        plain = self.uri().replace("127.0.0.1", "127.0.0.1:4421")
        for n, uri in enumerate((plain, plain.replace("nvme+tcp:", "nvme+tcp+tls:"))):
            seen = server.output().count("by TLS")
            nbdkit = self.up(f"tls-key=+{key}", f"uri={uri}")
            self.run("nbdinfo", "--size", self.nbd())
            self.check(server.output().count("by TLS") > seen, server.output())
            self.check(not lab.end_in_order([nbdkit]), f"nbdkit does not end: {nbdkit.output()}")
        seen = server.output().count("by TLS")
        nbdkit = self.up(f"tls-key=+{key}", f"uri={plain}", "tls-identity=0", "ctrl-loss-tmo=-1")
        self.run("nbdinfo", "--size", self.nbd())
        self.check(server.output().count("by TLS") > seen, server.output())
        self.check(not lab.end_in_order([nbdkit]), f"nbdkit does not end: {nbdkit.output()}")
        p = self.nbdkit(plain.replace("nvme+tcp:", "nvme+tcp+tls:"))
        self.check(p.wait(10) == 1 and p.says("TLS takes a key"), f"without a key: {p.output()}")
        # A target that knows it otherwise.
        p = self.nbdkit(f"tls-key=+{key}", f"uri={plain}", "tls-compat=true")
        self.check(p.wait(10) == 1 and p.says("TLS fails"), f"as older nvme-cli has it: {p.output()}")

    def says_why(self):
        self.serve()
        said = []
        for parameters, word in (((self.uri() + "0",), "no namespace 10"),
                                 (("nvme+tcp://127.0.0.1:1/nqn.a:b",), "refused"),
                                 (("nvme+tcp://127.0.0.1/nqn.2026-11.org.weft:not",), "no subsystem"),
                                 (("nvme+carrier-pigeon://127.0.0.1/nqn.a:b",), "rdma tcp"),
                                 ((self.uri(), "queues=65"), "1 to 64"),
                                 ((self.uri(), "colour=red"), "colour"),
                                 ((self.uri(), "dhchap-secret=none"), "dhchap-secret"),
                                 ((self.uri(), "concat=true"), "takes a DH-HMAC-CHAP key"),
                                 ((self.uri(), "tls-identity=2"), "0 to 1"),
                                 ((), "uri=")):
            p = self.nbdkit(*parameters)
            self.check(p.wait(10) == 1, f"{parameters}: ends with {p.status()}: {p.output()}")
            self.check(p.says(word), f"{parameters}: {p.output()}")
            said.append(p.output().strip().splitlines()[0])
        return "; ".join(said)

    def prove(self, name, function, *args):
        self.report.prove_and_end(name, self, lambda: function(*args))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    args = p.parse_args()
    lab.enter()
    e = Exports(args.build)
    missing = [n for n in ("nbdkit", "nbdcopy", "nbdsh") if not shutil.which(n)]  # the last: python3-libnbd
    if missing or not os.path.exists(e.plugin):
        lab.skip(f"{', '.join(missing)} not installed (scripts/setup installs it)" if missing else
                 "weft was built without nbdkit-plugin-dev")
    for transport in ("tcp", "rdma"):
        e.prove(f"there and back by {transport}", e.there_and_back, transport)
        e.prove(f"qemu's block layer by {transport}", e.by_qemu, transport)
    e.prove("a file by nbdfuse", e.by_nbdfuse)
    for transport in ("tcp", "rdma"):
        e.prove(f"a disk's cache is lost, by {transport}", e.cache_is_lost, transport)
    e.prove("zeroes and trims", e.zeroes)
    e.prove("namespaces are exports", e.exports)
    e.prove("a read-only namespace", e.read_only)
    e.prove("requests that are no blocks", e.odd)
    for transport in ("tcp", "rdma"):
        e.prove(f"the target dies under a copy by {transport}", e.dies, transport)
    e.prove("the target goes for longer than it is waited for", e.gone)
    e.prove("another disk is there when the target is back", e.another_disk)
    e.prove("the target is gone at the end", e.gone_at_the_end)
    e.prove("by TLS", e.by_tls)
    e.prove("by TLS with a key", e.by_tls_key)
    e.prove("what cannot be is named", e.says_why)
    e.report.everything_ends([e.host])
    e.report.finish()


if __name__ == "__main__":
    main()
