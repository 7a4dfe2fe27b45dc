# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""docs/interop.md: what a run of the matrix saw."""
import datetime
import subprocess

from lab import TOP

HEAD = """# weft and the Linux kernel on one wire

Written by `make interop` on {date}, commit {commit}, in {minutes:.0f} minutes. The peer is Linux {kernel} (Debian's
kernel in QEMU without KVM: rxe, its CM, nvme-rdma, nvmet-rdma). *weft active* means that weft connects (for NVMe: is
the host), *weft passive* that the kernel does. Every case's packets are captured on the bridge; a case passes only if
each packet has a right ICRC and decodes and encodes to the same bytes, tshark finds none malformed, and the guest's
kernel log has no complaint. Times are those of an emulated guest: good for nothing but an impression.

{passed} passed, {failed} failed, {skipped} skipped.
"""


def commit():
    r = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty"],
                       capture_output=True, text=True, check=False)
    return r.stdout.strip() or "unknown"


def cell(text):
    return text.replace("|", "\\|")


def write(path, kernel, results, seconds):
    count = {v: sum(r.verdict == v for r in results) for v in ("ok", "FAIL", "skip")}
    out = [HEAD.format(date=datetime.date.today(), commit=commit(), minutes=seconds / 60,
                       kernel=kernel, passed=count["ok"], failed=count["FAIL"],
                       skipped=count["skip"])]
    condition = None
    for r in results:
        if r.verdict == "skip":
            continue
        if r.condition != condition:
            condition = r.condition
            out.append(f"\n## {condition}\n\n| case | direction | result | seconds | seen |\n"
                       "|---|---|---|---:|---|\n")
        out.append(f"| {cell(r.case)} | {r.direction} | {r.verdict} | {r.seconds:.1f} "
                   f"| {cell(r.note)} |\n")
    if count["skip"]:
        out.append(f"\n{count['skip']} cases were skipped because the time was up.\n")
    with open(path, "w", encoding="utf-8") as f:
        f.write("".join(out))
