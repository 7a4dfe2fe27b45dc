#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The Debian packages: built, installed in a new system beside rdma-core and nbdkit, used there by an
ordinary user, upgraded, purged.

usage: package.py BUILD
"""
import argparse
import glob
import os
import shutil
import subprocess
import tempfile

import lab

NAMES = ("weft", "libweft-nvmf0", "libweft-nvmf-dev")

# What a user does, and what must be left when the package is gone. $1: the step.
INSIDE = r"""
set -e
fail() { echo "$*"; exit 1; }
case $1 in
use)
	dpkg -V libibverbs1 librdmacm1 weft libweft-nvmf0 libweft-nvmf-dev || fail "a package's files were changed"
	ldd /usr/bin/ibv_devinfo | grep -q "libibverbs.so.1 => /lib/" || fail "the system has another libibverbs"
	ldconfig -p | grep -q /weft/ && fail "the linker's cache knows weft's own libibverbs"
	cd /tmp
	# dd, not truncate(1), so that nothing else need be there
	dd if=/dev/urandom of=disk.img bs=64k count=16 2>/dev/null
	chown nobody disk.img
	setpriv --reuid=nobody --regid=nogroup --clear-groups sh -e -c '
		weft run -- ibv_devinfo | grep -q weft_lo
		weft run -- ibv_rc_pingpong -d weft_lo -g 0 >server 2>&1 & server=$!
		for i in 1 2 3 4 5 6 7 8 9 10; do
			sleep 0.5
			weft run -- ibv_rc_pingpong -d weft_lo -g 0 127.0.0.1 && break
		done
		wait $server
		weft serve disk.img -l rdma://127.0.0.1 -l tcp://127.0.0.1 -n nqn.2026-11.org.weft:package \
			>serve & serve=$!
		for i in 1 2 3 4 5 6 7 8 9 10; do grep -q ready serve && break; sleep 0.5; done
		weft cp --verify "nvme+rdma://127.0.0.1/nqn.2026-11.org.weft:package?ns=1" back.img
		for transport in rdma tcp; do
			[ $(nbdkit -U - weft "nvme+$transport://127.0.0.1/nqn.2026-11.org.weft:package?ns=1" \
				--run '"'nbdinfo --size \$uri'"') = 1048576 ]
		done
		kill $serve
		wait $serve
		cmp disk.img back.img' ;;
left)
	[ ! -e /usr/bin/weft ] || fail "/usr/bin/weft is left"
	[ ! -e /usr/lib/*/weft ] || fail "the libraries' directory is left"
	! find / -xdev \( -name '*weft-nvmf*' -o -name '*nbdkit-weft*' \) -not -name '*.deb' | grep . || fail "of the library"
	dpkg -V libibverbs1 librdmacm1 || fail "rdma-core's files were changed"
	ldd /usr/bin/ibv_devinfo | grep -q "libibverbs.so.1 => /lib/" || fail "rdma-core's are gone" ;;
esac
"""


def new_system(root):
    """A Debian like the one of this machine, with rdma-core's programs; why not, if not."""
    sources = [p for p in ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
               if os.path.exists(p)]
    r = subprocess.run(["mmdebstrap", "--mode=root", "--variant=apt", "--quiet",
                        "--include=ibverbs-utils,libibverbs1,libnbd-bin,librdmacm1,nbdkit", "bookworm", root,
                        *sources[:1]], capture_output=True, text=True, check=False)
    return None if r.returncode == 0 else r.stderr.strip().splitlines()[-1]


def chroot(root, log, *argv):
    """Runs a program in the new system, in a network of its own with loopback alone."""
    with open(log, "ab") as out:
        return subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
             'ip link set lo up; mount -t proc proc "$0/proc"; exec chroot "$0" "$@"', root, *argv], stdin=subprocess.DEVNULL,
            stdout=out, stderr=out, timeout=300, check=False).returncode


def apt(root, log, *argv):
    """As chroot(), with the network: what is installed needs its dependencies."""
    with open(log, "ab") as out:
        return subprocess.run(
            ["chroot", root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", *argv],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=300, check=False).returncode


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    args = p.parse_args()
    lab.need("mmdebstrap", "lintian", "dpkg-buildpackage", "unshare")
    if os.geteuid():
        lab.skip("only root can make a system to install it in")
    report = lab.Report(args.build, "package")

    def step(name, work):
        path = report.case(name)
        status = work(f"{path}/log")
        if status:
            report.fail(name, path, f"ends with {status}")
            report.finish()
        report.ok(name, path)

    def build(log):
        with open(log, "wb") as out:
            return subprocess.run([f"{lab.TOP}/scripts/deb"], env={**os.environ, "BUILD": args.build},
                                  stdout=out, stderr=out, check=False).returncode

    step("make deb", build)
    built = {os.path.basename(path).split("_")[0]: path for path in glob.glob(f"{args.build}/deb/*.deb")}
    packages = [f"/{name}.deb" for name in NAMES]
    with tempfile.TemporaryDirectory() as root:
        missing = new_system(root)
        if missing:
            lab.skip(f"no new system can be made: {missing}")
        for name in NAMES:
            shutil.copy(built[name], f"{root}/{name}.deb")
        with open(f"{root}/inside", "w", encoding="ascii") as f:
            f.write(INSIDE)
        step("update", lambda log: apt(root, log, "update"))
        step("install", lambda log: apt(root, log, "--no-install-recommends", "install",
                                        *packages))
        step("use", lambda log: chroot(root, log, "sh", "/inside", "use"))
        step("install again", lambda log: apt(root, log, "--reinstall", "install", *packages))
        step("purge", lambda log: apt(root, log, "purge", *NAMES))
        step("nothing is left", lambda log: chroot(root, log, "sh", "/inside", "left"))
    report.finish()


if __name__ == "__main__":
    main()
