#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What systemd itself says of the units: it understands all of them, and how much they let the service do.

usage: units.py BUILD

systemd-analyze reads files alone: there is no need for a system that was booted by systemd.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

import lab

# Of 100, where 100 is a service without a sandbox; 21 when this was written.
EXPOSURE_MAX = 22
# What systemd finds that a service might do without, and this one cannot.
TAKEN = {
    "PrivateNetwork", "IPAddressDeny", "RestrictAddressFamilies_AF_INET_INET6", "RestrictAddressFamilies_AF_NETLINK",
    "RestrictAddressFamilies_AF_UNIX",
    "CapabilityBoundingSet_CAP_NET_ADMIN",  # the broker's, for nftables
    "DeviceAllow",                          # disks
    "RootDirectoryOrRootImage",             # images are where their owner has them
    "UserOrDynamicUser", "PrivateUsers",    # devices and /etc/weft are root's
    "PrivateDevices", "ProcSubset",
    "SystemCallFilter_resources",           # of these sched_setattr alone
}


def analyze(*argv):
    return subprocess.run(["systemd-analyze", *argv], capture_output=True, text=True, timeout=30)


def faults(unit):
    """What it does not understand of a unit, which for some of it is no failure."""
    r = analyze("verify", "--man=no", unit)
    said = [line for line in (r.stdout + r.stderr).splitlines() if "weft-serve" in line]
    return "\n".join(said) or (f"verify ends with {r.returncode}: {r.stderr}" if r.returncode else None)


def placed(unit, to, weft, more=""):
    """A copy, whose program is that of the build: none may be installed yet."""
    with open(unit, encoding="utf-8") as f:
        text, n = re.subn(r"^ExecStart=\S+", f"ExecStart={weft}", f.read(), flags=re.M)
    assert n == 1, f"{unit}: {n} times ExecStart="
    path = os.path.join(to, os.path.basename(unit))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("[Service]\n", "[Service]\n" + more))
    return path


def understood(unit, to, weft):
    return faults(placed(unit, to, weft))


def wrong_ones_are_found(unit, to, weft):
    """Or the case before would say nothing."""
    for more, word in (("ProtectSytem=strict\n", "ProtectSytem"), ("SystemCallFilter=@sytem\n", "@sytem")):
        said = faults(placed(unit, to, weft, more))
        if not said or word not in said:
            return f"{more.strip()}: {said}"
    said = faults(placed(unit, to, weft + "-not"))
    return None if said and "not executable" in said else f"a program that is not there: {said}"


def let_do(unit, to, weft):
    unit = placed(unit, to, weft)
    r = analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", unit)
    if r.returncode:
        return f"more than {EXPOSURE_MAX} of 100:\n{r.stdout}{r.stderr}"
    r = analyze("security", "--offline=yes", "--json=short", unit)
    found = {row["json_field"] for row in json.loads(r.stdout) if row["set"] is False and float(row["exposure"] or 0)}
    return f"it lets the service do more: {sorted(found - TAKEN)}" if found - TAKEN else None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    args = p.parse_args()
    if not shutil.which("systemd-analyze"):
        lab.skip("systemd-analyze is not installed (Debian's package systemd has it)")
    weft = os.path.join(os.path.abspath(args.build), "weft")
    report = lab.Report(args.build, "units")
    units = sorted(glob.glob(os.path.join(args.build, "systemd", "*.service")))
    with tempfile.TemporaryDirectory() as to:
        for unit in units:
            name = os.path.basename(unit)
            for what, case in (("understood", understood), ("wrong ones are found", wrong_ones_are_found),
                               ("what it lets the service do", let_do)):
                report.attempt(f"{name}: {what}", lambda path, case=case, unit=unit: case(unit, to, weft))
    if len(units) != 2:
        report.attempt("units", lambda path: f"{args.build}/systemd has {units}")
    report.finish()


if __name__ == "__main__":
    main()
