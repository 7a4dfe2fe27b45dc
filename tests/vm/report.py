# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""docs/interop.md: what a run of the matrix saw."""
import datetime

HEAD = """# weft and the Linux kernel on one wire

Written by `make interop` on {date} at commit {commit}; the cases took {minutes:.0f} minutes. The peer is Debian's kernel
in QEMU without KVM: {kernels}, each with its rxe or siw, its CM, and its hosts and
targets of NVMe: nvme-rdma and nvmet-rdma, nvme-tcp and nvmet-tcp, the newer one's with DH-HMAC-CHAP and, by tlshd, TLS.
Cases whose name begins with *NVMe/TCP* or *weft attach* go by TCP, with no RNIC on either side; all others go by RDMA.
*weft active* means that weft connects (for NVMe: is the host), *weft passive* that the kernel does; with `weft attach` it
is the guest's block layer that works, on a host of weft's there. Every case's packets are captured on the bridge. A case
passes only if tshark finds none malformed and the guest's kernel log has no complaint; by RDMA each RoCE packet has a
right ICRC and decodes and encodes to the same bytes, and every exchange of the connection manager runs to its end; by
TCP none is a terminate request. A guest that dies fails its case with its kernel's last words; the rest goes on in new
ones. Times are those of an emulated guest: good for nothing but an impression. [rxe.md](rxe.md) and [siw.md](siw.md)
have the points in which the kernel does otherwise than weft.

{passed} passed, {failed} failed, {skipped} skipped, and {kernel} ended three times by a fault of the kernel's that the packets
show: a sender that repeats a PSN has to repeat the packet, and rxe, after a NAK in the middle of a WRITE, now and then
sends it as another (between two kernels too: `ib_write_bw -q 4` fails at 1 % of loss one time in four); and it takes a
`retry_cnt` of seven for no limit, so that a program of the guest's waits for ever when the last ACK of a peer that has
ended was lost. Such a case runs again, and its row says so.
"""


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def summary(record, results):
    count = {v: sum(r.verdict == v for r in results) for v in ("ok", "FAIL", "skip", "kernel")}
    return HEAD.format(
        date=datetime.date.today(), commit=record.commit,
        minutes=sum(r.seconds for r in results) / 60,
        kernels=" and ".join(f"Linux {k}" for k in dict.fromkeys(record.kernels.values())),
        passed=count["ok"], failed=count["FAIL"], skipped=count["skip"],
        kernel=count["kernel"])


def rows(record, results, notes):
    section = condition = None
    for r in results:
        if r.section != section:
            section, condition = r.section, None
            kernel = record.kernels.get(section)
            yield f"\n## {section[0].upper()}{section[1:]}{f': Linux {kernel}' if kernel else ''}\n"
            if notes[section]:
                yield f"\n{notes[section]}\n"
        if r.condition != condition:
            condition = r.condition
            yield f"\n### {condition}\n\n| case | direction | result | seconds | seen |\n"
            yield "|---|---|---|---:|---|\n"
        yield (f"| {cell(r.case)} | {r.direction} | {r.verdict} | {r.seconds:.1f} "
               f"| {cell(r.note)} |\n")


def write(path, record, wanted, notes):
    results = [record.results[step] for step in wanted]
    with open(path, "w", encoding="utf-8") as f:
        f.write(summary(record, results) + "".join(rows(record, results, notes)))
