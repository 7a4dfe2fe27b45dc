# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""perftest's programs, all but raw_ethernet_*: services and sizes, and every option of --help."""
import functools
import re
import subprocess

from cases import Case, rows

MGID = "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:9"  # its default may not leave the host
SIZES_ALL = [2 ** n for n in range(1, 24)]  # -a
BANDWIDTH = ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw")
LATENCY = ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_atomic_lat")
PROGRAMS = BANDWIDTH + LATENCY


@functools.cache
def options_of(program):
    """The options that its --help names: the short name, or the long one where that is all."""
    out = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=10).stdout
    found = {}
    for line in out.splitlines():
        m = re.match(r"\s+(?:-(\w)(?:, )?)?\s*(?:--([\w-]+))?", line)
        if m and (m[1] or m[2]):
            found[m[1] and "-" + m[1] or "--" + m[2]] = line.strip()
    return found


def measured(program, options, **kwargs):
    """A case whose client must print a figure for every size that was asked for."""
    size = re.search(r"-s (\d+)", options)
    sizes = [int(size[1])] if size else [8] if "atomic" in program else SIZES_ALL
    manager = "-R" in options.split()
    line = f"{program} -F -d {{dev}} -x {{gid}} {options}"
    fields = {"tcp": not manager, "ready": "Waiting for client to connect",
              "timeout": 240 if "-a" in options.split() else 60, "want": rows(sizes)}
    return Case(f"{program} {options}", line, line + " {server}", options=options,
                **{**fields, **kwargs})


def sizes_cases():
    """program, then: options of the quick set, of the full set; each by socket and by -R.

    A sweep of all sizes takes long, for perftest measures the processor's speed before each of
    them, longer the busier the machine is. The quick set sweeps once with each program: on
    loopback and connected by socket for bandwidth, between two hosts and by -R for latency.
    """
    table = (
        ("ib_send_bw", ["-a -n 20", "-s 65536 -n 1000 -e -q 8"],
         ["-a -n 50 -q 8", "-s 1 -n 1000", "-s 65536 -n 1000 -e", "-s 65536 -n 500 -b",
          "-s 4096 -n 1000 -Q 1", "-s 4096 -n 1000 -l 8", "-s 512 -n 1000 -I 64",
          "-s 4096 -n 1000 -r 1 -t 1", "-s 4096 -D 2"]),
        ("ib_send_lat", ["-a -n 10", "-s 8 -n 500 -e", "-s 65536 -n 300 -e"],
         ["-a -n 200", "-s 1 -n 1000", "-s 8 -n 1000 -I 0"]),
        ("ib_write_bw", ["-a -n 20", "-s 65536 -n 500 -q 8"],
         ["-a -n 50 -q 8", "-s 1 -n 1000", "-s 65536 -n 500 -b",
          "-s 4096 -n 1000 -l 8", "-s 4096 -D 2", "-s 64 -n 2000 -I 64"]),
        ("ib_write_lat", ["-a -n 10", "-s 1 -n 1000"], ["-a -n 200"]),
        ("ib_read_bw", ["-a -n 20", "-s 65536 -n 500 -e"],
         ["-a -n 50 -q 8", "-s 1 -n 1000", "-s 65536 -n 500 -b",
          "-s 65536 -n 500 -o 1", "-s 4096 -D 2"]),
        ("ib_read_lat", ["-a -n 10", "-s 1 -n 1000"],
         ["-a -n 200", "-s 4096 -n 500 -e"]),
        ("ib_atomic_bw", ["-n 1000"],
         ["-n 1000 -q 8", "-n 1000 -A CMP_AND_SWAP", "-n 1000 -e", "-n 500 -b"]),
        ("ib_atomic_lat", ["-n 500"],
         ["-n 500 -A CMP_AND_SWAP", "-n 500 -e"]),
    )
    for program, quick_options, full_options in table:
        for options in quick_options + full_options:
            for manager in ("", " -R"):
                quick = options in quick_options
                if quick and "-a" in options.split():
                    quick = "veth" if manager and program in LATENCY else \
                        "one" if not manager and program in BANDWIDTH else False
                yield measured(program, options + manager, quick=quick)


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
            # By time: who counts messages waits for each one, and of so many, on a machine with more
            # to do, some are lost.
            (False, "ib_send_bw", "-c UC -s 65536 -D 2"),
            (False, "ib_send_bw", "-c UD -s 1024 -D 2"),
            (False, "ib_write_lat", "-c UC -s 8 -n 500"),
            (False, "ib_write_bw", "-c UC -s 65536 -n 500 -q 4"),
            (True, "ib_send_bw", "--use-srq -s 65536 -n 500 -q 4"),
            (False, "ib_send_bw", "--use-srq -s 64 -n 1000"),
            (False, "ib_send_bw", "--use-srq -s 65536 -n 500 -q 2 -R"),
            (False, "ib_send_bw", "--use-srq -s 65536 -n 500 -R"),
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


# What these options need is not there; the programs say so themselves.
NO_DC = (r"Unable to create QP", "a transport of mlx5 adapters alone")
NO_SRD = (r"Unable to create QP|trying to query EFA device|SRD connection only possible",
          "a transport of EFA adapters alone")
NO_ODP = (r"ODP does not support ATOMICS", "the program takes no atomics with on-demand paging")
NO_RAW = (r"only valid for RawEth", "for raw Ethernet queue pairs alone, says the program")
NO_PORT_2 = (r"Unable to query port 2", "a device of weft's has one port")
NO_HUGE = (r"Please configure hugepages", "the machine has no huge pages set aside")
NO_COUNTERS = (r"Unable to access performance counters",
               "counters are read from `/sys/class/infiniband`, where weft has none")
NO_OLD = (r"not compatible with versions older", "perftest 4.5 refuses, whatever the device")
NO_LIMIT = (r"Rate limiter cann't be executed", "the program limits no atomics")
NO_PACING = (r"only supported for Raw Ethernet", NO_RAW[1])

# The options of --help, and how each is tried: with the size and the number of iterations that
# BASE says, where it does not say itself.
BASE = {"bw": "-s 4096 -n 96", "lat": "-s 64 -n 96"}
OPTIONS = (
    ("-i", "-i 1"),
    ("-p", "-p 18600"),
    ("-m", "-m 256"), ("-m", "-m 1024"),
    ("-N", "-N"),
    ("-Q", "-Q 1"),
    ("-l", "-l 8"),
    ("-o", "-o 1"),
    ("-I", "-I 64"),
    ("--use-srq", "--use-srq"),
    ("-X", "-e -X 0"),
    ("-f", "-D 3 -f 1"),
    ("-r", "-r 8"),
    ("-t", "-t 16"),
    ("-S", "-S 3"),
    ("-T", "-R -T 32"),
    ("-u", "-u 18"),
    ("-w", "-w 0.001"), ("-y", "-y 0.000001"),
    ("-z", "-z"),
    ("-L", "-L 3", NO_RAW),
    ("-C", "-C"), ("-H", "-H"), ("-U", "-U"),
    ("-O", "-O", NO_PORT_2),
    ("-W", "-W counters/port_xmit_data", NO_COUNTERS),
    ("-c", "-c DC", NO_DC), ("-c", "-c SRD", NO_SRD),
    # Without -M it is a group of interface-local scope (ff01::), whose packets leave no IP host.
    ("-M", "-c UD -g -M 255:18:0:0:0:0:0:0:0:0:0:0:0:0:0:9 -s 1024"),
    ("--recv_post_list", "--recv_post_list 8"),
    ("--out_json", "--out_json --out_json_file={file}.json"),
    ("--cpu_util", "-D 2 --cpu_util"),
    ("--dlid", "--dlid 0"),
    ("--dont_xchg_versions", "--dont_xchg_versions", NO_OLD),
    ("--force-link", "--force-link Ethernet"),
    ("--inline_recv", "--inline_recv 64"),
    ("--ipv6", "--ipv6 -R"),
    ("--source_ip", "--source_ip {own}"),
    ("--mmap", "--mmap {file} --mmap-offset 4096"),
    ("--mr_per_qp", "--mr_per_qp -q 2"),
    ("--odp", "--odp", NO_ODP),
    ("--output", "--output bandwidth"), ("--output", "--output message_rate"),
    ("--output", "--output latency"),
    ("--use_old_post_send", "--use_old_post_send"),
    # Without -Q 1 it waits for completions that it has not asked for, on rxe as well.
    ("--perform_warm_up", "--perform_warm_up -Q 1"),
    ("--pkey_index", "--pkey_index 0"),
    ("--report-both", "-b --report-both"),
    ("--report_gbits", "--report_gbits"),
    ("--report-per-port", "-O -D 2 --report-per-port", NO_PORT_2),
    ("--reversed", "--reversed"),
    ("--run_infinitely", "-D 1 --run_infinitely"),
    ("--retry_count", "-R --retry_count 3"),
    ("--tclass", "--tclass 32"),
    ("--use_hugepages", "--use_hugepages", NO_HUGE),
    ("--wait_destroy", "--wait_destroy 1"),
    ("--disable_pcie_relaxed", "--disable_pcie_relaxed"),
    ("--rate_limit", "--rate_limit 10"),
    ("--rate_limit_type", "--rate_limit 1 --rate_limit_type SW", NO_LIMIT),
    ("--rate_units", "--rate_limit 100 --rate_limit_type SW --rate_units M", NO_LIMIT),
    ("--burst_size", "--rate_limit 1 --rate_limit_type SW --burst_size 4", NO_LIMIT),
    ("--typical_pkt_size", "--rate_limit 1 --rate_limit_type PP --typical_pkt_size 64", NO_PACING),
    ("--latency_gap", "--latency_gap 10"),
    ("--log_dci_streams", "-c DC --log_dci_streams 1", NO_DC),
    ("--aes_block_size", "--aes_block_size 512"),
)
# What --help has and nothing here tries.
UNTRIED = {
    "-h": "prints the options",
    "-V": "prints the version",
    "--aes_xts": "encryption by mlx5 adapters", "--encrypt_on_tx": "encryption by mlx5 adapters",
    "--sig_before": "encryption by mlx5 adapters",
    "--credentials_path": "encryption by mlx5 adapters",
    "--data_enc_key_app_path": "encryption by mlx5 adapters",
    "--data_enc_keys_number": "encryption by mlx5 adapters",
    "--kek_path": "encryption by mlx5 adapters",
    "--log_active_dci_streams": "queue pairs of mlx5 adapters",
}


def figure_alone(client, _):
    """What --output leaves of the report."""
    return None if re.search(r"^\s*\d+\.\d+\s*$", client, re.M) else "no figure"


def options_cases():
    for program in PROGRAMS:
        known = options_of(program)
        kind = program.rsplit("_", 1)[1]
        for option, tried, *refused in OPTIONS:
            other = option == "--output" and ("latency" in tried) != (kind == "lat")
            if option not in known or other:
                continue
            words = tried.split()
            size, count = BASE[kind].split(" -n ")
            line = tried
            if "-s" not in words and "atomic" not in program:
                line += " " + size
            if "-D" not in words and "-n" not in words:
                line += " -n " + count
            case = measured(program, line, refused=refused[0] if refused else None,
                            timeout=30)
            case.options = tried
            if option == "-z":  # ends as soon as it has its peer's last message
                case.tcp = False
                case.repeat = 5 if program == "ib_write_bw" else 1
            if option == "-M":  # it takes groups of IPv6 alone, and loopback has no route to them
                case.veth = True
                case.server = case.server.replace("{gid}", "{gid6}")
                case.client = case.client.replace("{gid}", "{gid6}")
            if option == "--output":
                case.want = figure_alone
            if option == "--run_infinitely":
                case.stop_s = 4
            yield case


def forgotten():
    """Options of --help that no case has and UNTRIED does not name."""
    tried = {}
    for case in all_cases():
        program, *words = case.server.split()
        tried.setdefault(program, set()).update(w.split("=")[0] for w in words if w[0] == "-")
    return [(p, o) for p in PROGRAMS for o in options_of(p)
            if o not in tried[p] and o not in UNTRIED]


def all_cases():
    yield from sizes_cases()
    yield from service_cases()
    yield from options_cases()
