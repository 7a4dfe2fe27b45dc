# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""perftest's programs, all but raw_ethernet_*: services and sizes."""
import re

from cases import Case, rows

MGID = "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:9"  # its default may not leave the host
SIZES_ALL = [2 ** n for n in range(1, 24)]  # -a


def measured(program, options, **kwargs):
    """A case whose client must print a figure for every size that was asked for."""
    size = re.search(r"-s (\d+)", options)
    sizes = [int(size[1])] if size else [8] if "atomic" in program else SIZES_ALL
    manager = "-R" in options.split()
    line = f"{program} -F -d {{dev}} -x {{gid}} {options}"
    fields = {"tcp": not manager, "ready": "Waiting for client to connect",
              "timeout": 120 if "-a" in options.split() else 60, "want": rows(sizes)}
    return Case(f"{program} {options}", line, line + " {server}", options=options,
                **{**fields, **kwargs})


def sizes_cases():
    """program, then: options of the quick set, of the full set; each by socket and by -R."""
    table = (
        ("ib_send_bw", ["-a -n 20", "-s 65536 -n 1000 -e -q 8"],
         ["-a -n 50 -q 8", "-s 1 -n 1000", "-s 65536 -n 1000 -e", "-s 65536 -n 500 -b",
          "-s 4096 -n 1000 -Q 1", "-s 4096 -n 1000 -l 8", "-s 512 -n 1000 -I 64",
          "-s 4096 -n 1000 -r 1 -t 1", "-s 4096 -D 2"]),
        ("ib_send_lat", ["-a -n 10", "-s 8 -n 500 -e"],
         ["-a -n 200", "-s 1 -n 1000", "-s 8 -n 1000 -I 0", "-s 65536 -n 300 -e"]),
        ("ib_write_bw", ["-a -n 20"],
         ["-a -n 50 -q 8", "-s 1 -n 1000", "-s 65536 -n 500 -b", "-s 65536 -n 500 -q 8",
          "-s 4096 -n 1000 -l 8", "-s 4096 -D 2", "-s 64 -n 2000 -I 64"]),
        ("ib_write_lat", ["-a -n 10"], ["-a -n 200", "-s 1 -n 1000"]),
        ("ib_read_bw", ["-a -n 20"],
         ["-a -n 50 -q 8", "-s 1 -n 1000", "-s 65536 -n 500 -e", "-s 65536 -n 500 -b",
          "-s 65536 -n 500 -o 1", "-s 4096 -D 2"]),
        ("ib_read_lat", ["-a -n 10"],
         ["-a -n 200", "-s 1 -n 1000", "-s 4096 -n 500 -e"]),
        ("ib_atomic_bw", ["-n 1000"],
         ["-n 1000 -q 8", "-n 1000 -A CMP_AND_SWAP", "-n 1000 -e", "-n 500 -b"]),
        ("ib_atomic_lat", ["-n 500"],
         ["-n 500 -A CMP_AND_SWAP", "-n 500 -e"]),
    )
    for program, quick_options, full_options in table:
        for options in quick_options + full_options:
            for manager in ("", " -R"):
                yield measured(program, options + manager, quick=options in quick_options)


def service_cases():
    """What is not RC, and shared receive queues."""
    for quick, program, options in (
            (True, "ib_send_lat", "-c UD -s 8 -n 500"),
            (False, "ib_send_lat", "-c UD -s 1024 -n 500 -e"),
            (True, "ib_send_bw", "-c UD -s 1024 -n 300"),
            (False, "ib_send_bw", f"-c UD -g -M {MGID} -s 1024 -n 300"),
            (False, "ib_send_lat", f"-c UD -g -M {MGID} -s 8 -n 300"),
            (True, "ib_send_lat", "-c UC -s 65536 -n 300"),
            (True, "ib_send_bw", "-c UC -s 4096 -n 300"),
            (True, "ib_write_bw", "-c UC -s 65536 -n 500"),
            (False, "ib_send_bw", "-c UC -s 65536 -n 1000"),
            (False, "ib_send_bw", "-c UD -s 1024 -n 10000"),
            (False, "ib_write_lat", "-c UC -s 8 -n 500"),
            (False, "ib_write_bw", "-c UC -s 65536 -n 500 -q 4"),
            (True, "ib_send_bw", "--use-srq -s 65536 -n 500 -q 4"),
            (False, "ib_send_bw", "--use-srq -s 64 -n 1000"),
            (False, "ib_send_bw", "--use-srq -s 65536 -n 500 -q 2 -R"),
            (True, "ib_send_bw", "-c XRC -s 65536 -n 500 -q 4"),
            (True, "ib_send_lat", "-c XRC -s 8 -n 500"),
            (True, "ib_write_bw", "-c XRC -s 65536 -n 500"),
            (False, "ib_send_bw", "-c XRC -s 65536 -n 500 -b"),
            (False, "ib_send_bw", "-c XRC -s 65536 -n 500 -q 4 --use-srq"),
            (False, "ib_send_lat", "-c XRC -s 65536 -n 300 -e"),
            (False, "ib_write_lat", "-c XRC -s 8 -n 500"),
            (True, "ib_read_bw", "-c XRC -s 65536 -n 500"),
            (False, "ib_read_lat", "-c XRC -s 8 -n 500"),
            (False, "ib_atomic_bw", "-c XRC -n 500"),
            (False, "ib_atomic_lat", "-c XRC -n 500")):
        yield measured(program, options, quick=quick, timeout=90)


def all_cases():
    yield from sizes_cases()
    yield from service_cases()
