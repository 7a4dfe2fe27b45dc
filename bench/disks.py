# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""NVMe over Fabrics: weft's target and host over RDMA and TCP, SPDK's over TCP, one under the other's,
each side on a processor of its own where there are two; and what weft's target takes while nobody
asks it anything."""
import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import time

from bed import TO, Failed, NotHere, lab

NQN = "nqn.2026-11.org.weft:bench"
MIB = 256
SECONDS = 1
PORT, SPDK_PORT = 4420, 4500
SPDK_TARGET_MIB, SPDK_HOST_MIB = 600, 300
# A host has two connections: for the admin queue and for one of I/O.
HOSTS_IDLE, IDLE_SECONDS = 50, 2


def processors():
    """One for the target, one for the host."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[-1], cpus[0]


# ---- weft ----------------------------------------------------------------------------------------

@contextlib.contextmanager
def weft_serves(bed, transport="rdma"):
    """A disk that has its memory: reads of blocks that were never written would not leave the cache,
    writes would wait for pages."""
    with bed.serving("ready", "taskset", "-c", processors()[0], bed.weft, "serve", f"mem:{MIB}m", "--nqn",
                     NQN, "--listen", f"{transport}://{TO}:{PORT}") as server:
        bed.ask(bed.weft, "bench", f"nvme+{transport}://{TO}:{PORT}/{NQN}", "--rw", "write", "--bs", "1m",
                "--size", f"{MIB}m", "--yes")
        yield server


def weft_asks(bed, uri, rw, size, depth, *options):
    """Its figures, and the processor's seconds that it took."""
    said = json.loads(bed.ask(
        "taskset", "-c", processors()[1], bed.weft, "bench", uri, "-o", "json", "--runtime", SECONDS,
        "--rw", rw, "--bs", size, "--iodepth", depth, "--yes", *options))
    job = said["jobs"][0]
    return job[rw.removeprefix("rand")], (job["usr_cpu"] + job["sys_cpu"]) / 1e5 * job["job_runtime"]


def weft(bed, transport, rw, size, depth, *options):
    with weft_serves(bed, transport) as server:
        before = cpu_ns(server.pid)
        io, used = weft_asks(bed, f"nvme+{transport}://{TO}:{PORT}/{NQN}", rw, size, depth, *options)
        used += (cpu_ns(server.pid) - before) / 1e9
    return {"IOPS": io["iops"], "s/M": used * 1e6 / io["total_ios"]}


def cpu_ns(pid):
    """Of all its threads."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as f:
            total += int(f.read().split()[0])
    return total


def connections(bed, pid):
    listed = json.loads(bed.ask(bed.weft, "list", "-o", "json"))
    return sum(p["connections"] for p in listed["processes"] if p["pid"] == pid)


def idle(bed):
    """Hosts that have connected and wait for what they shall write."""
    with weft_serves(bed) as server, contextlib.ExitStack() as hosts:
        argv = bed.host.inside([bed.weft, "write", f"nvme+rdma://{TO}/{NQN}", "--start-block", "0",
                                "--block-count", "0"])
        for _ in range(HOSTS_IDLE):
            p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, preexec_fn=lab.die_with_parent)
            hosts.callback(p.wait)
            hosts.callback(p.kill)
        if not lab.until(lambda: connections(bed, server.pid) == 2 * HOSTS_IDLE, 60, 0.2):
            raise Failed(f"of {2 * HOSTS_IDLE} connections there are {connections(bed, server.pid)}")
        server.settle()
        begun, before = time.monotonic(), cpu_ns(server.pid)
        time.sleep(IDLE_SECONDS)
        used = cpu_ns(server.pid) - before
        return {"%": used / 1e9 / (time.monotonic() - begun) * 100}


# ---- SPDK ----------------------------------------------------------------------------------------

def spdk_memory(mib):
    """Huge pages, by which it is a tenth faster, where the machine has set some aside (CONTRIBUTING.md)."""
    with open("/proc/meminfo", encoding="ascii") as f:
        free = re.search(r"^HugePages_Free:\s+(\d+)[\s\S]*^Hugepagesize:\s+2048 kB", f.read(), re.M)
    if free and int(free[1]) * 2 >= mib:
        return ["-s", str(mib)]
    return ["--no-huge", "-s", "900"]


class Spdk:
    """Its target polls: so it is stopped while others are measured."""

    def __init__(self, bed):
        self.bed, self.target = bed, None
        self.directory = os.environ.get("WEFT_SPDK", "")

    def why_not(self):
        if not self.directory:
            return "no SPDK (WEFT_SPDK=DIR, see CONTRIBUTING.md)"
        missing = [p for p in ("build/bin/spdk_nvme_perf", "scripts/rpc.py")
                   if not os.path.exists(os.path.join(self.directory, p))]
        return f"WEFT_SPDK={self.directory} has no {', '.join(missing)}" if missing else ""

    def _binary(self, name):
        return os.path.join(self.directory, "build/bin", name)

    def _start(self):
        name = "spdk_tgt" if os.path.exists(self._binary("spdk_tgt")) else "nvmf_tgt"
        sock = os.path.join(self.bed.scratch, "spdk.sock")
        self.target = lab.Program(
            self.bed.host, [self._binary(name), *spdk_memory(SPDK_TARGET_MIB), "-m", hex(1 << processors()[0]),
                            "--disable-cpumask-locks", "-r", sock],
            os.path.join(self.bed.scratch, "spdk"))
        self.bed.ends.callback(self.target.kill)

        def rpc(*argv):
            return subprocess.run(["python3", f"{self.directory}/scripts/rpc.py", "-s", sock, *argv],
                                  capture_output=True, text=True, timeout=60, check=False)

        if not lab.until(lambda: self.target.status() is not None or
                         rpc("framework_wait_init").returncode == 0, 60, 0.5) or \
                self.target.status() is not None:
            raise Failed(f"{name} does not start: {self.target.output()[-300:]}")
        for argv in (("nvmf_create_transport", "-t", "TCP"),
                     ("bdev_malloc_create", "-b", "disk", str(MIB), "512"),
                     ("nvmf_create_subsystem", NQN, "-a", "-s", "WEFT", "-m", "8"),
                     ("nvmf_subsystem_add_ns", NQN, "disk"),
                     ("nvmf_subsystem_add_listener", NQN, "-t", "TCP", "-a", TO, "-s",
                      str(SPDK_PORT))):
            r = rpc(*argv)
            if r.returncode:
                raise Failed(f"rpc.py {argv[0]}: {(r.stdout + r.stderr)[-300:]}")
        self._asks(SPDK_PORT, "write", 131072, 16)  # as ours: its disk has its memory

    @contextlib.contextmanager
    def _serves(self):
        if self.why_not():
            raise NotHere(self.why_not())
        if self.target is None:
            self._start()
        self.target.process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.target.process.send_signal(signal.SIGSTOP)

    def _asks(self, port, rw, size, depth):
        return parse_spdk(self.bed.ask(
            self._binary("spdk_nvme_perf"), *spdk_memory(SPDK_HOST_MIB), "-c", hex(1 << processors()[1]), "-t",
            SECONDS, "-w", rw, "-o", size, "-q", depth, "-r",
            f"trtype:TCP adrfam:IPv4 traddr:{TO} trsvcid:{port} subnqn:{NQN}"))

    def perf(self, rw, size, depth):
        with self._serves():
            figures = self._asks(SPDK_PORT, rw, size, depth)
        # Both poll all the time.
        return figures | {"s/M": 2e6 / figures["IOPS"]}

    def of_weft(self, rw, size, depth):
        """Its host of weft's target."""
        if self.why_not():
            raise NotHere(self.why_not())
        with weft_serves(self.bed, "tcp"):
            return self._asks(PORT, rw, size, depth)

    def to_weft(self, rw, size, depth):
        """Its target under weft's host."""
        with self._serves():
            io, _ = weft_asks(self.bed, f"nvme+tcp://{TO}:{SPDK_PORT}/{NQN}", rw, size, depth, "--poll")
        return {"IOPS": io["iops"]}


def parse_spdk(said):
    total = re.search(r"^Total\s+:\s+([\d.]+)", said, re.M)
    if not total:
        raise Failed(f"spdk_nvme_perf has no figures: {said[-300:]}")
    return {"IOPS": float(total[1])}
