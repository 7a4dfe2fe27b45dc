# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft's instruments in a guest: the doctor with a kernel that is ill, and is mended by what the doctor says to type; and the
simulator on another machine, which is to give the same bytes."""
import json
import os
import re

import cases
from cases import PASSIVE
from lab import TOP, Failed, until

WEFT = "/opt/weft/weft"
# The interfaces of the guests cut and join no packets, and their machine is an emulated one.
THE_LABS_OWN = {"offloads", "clock", "governor", "c-states", "softnet", "nvme", "rmem", "udp-drops", "peer-rmem"}
RULES = "table inet ill {{\nchain c {{\ntype filter hook {0};\n{1}\n}}\n}}"


def case(name, **kwargs):
    return cases.case(name, (PASSIVE,), silent=True, both=True, log_may_say=("rxe0: ",), **kwargs)


def look(t, *words):
    """What is wrong in the guest, by check."""
    said = t.kernel.shell(f"{WEFT} doctor -o json {' '.join(words)}; status=$?; [ $status = 0 -o $status = 3 -o $status = 4 ]")
    return {f["check"]: f for f in json.loads(said)["findings"] if f["severity"] in ("warning", "error")}


def need(found, names):
    """These are found, and nothing else but what is the lab's own."""
    if set(found) - THE_LABS_OWN | names & set(found) != names:
        raise Failed(f"found {sorted(found)}, not {sorted(names)}: " + "; ".join(f["seen"] for f in found.values()))


def type_it(t, finding):
    """What is to be typed, by root."""
    line = re.sub(r"\bsudo ", "", finding["mend"])
    t.kernel.shell(line)
    return line.split("#")[0].strip()


def without_rxe(t):
    t.kernel.shell("rdma link delete rxe0 2>/dev/null; modprobe -r rdma_rxe")


def with_rxe(t):
    t.kernel.shell("lab-rdma rxe")


@case("weft doctor: rxe has the port, and has it after its device is gone")
def doctor_rxe(t):
    try:
        found = look(t)
        # What it counted while others were proved is true, and theirs.
        found.pop("rnic-counters", None)
        need(found, {"rxe", "port-4791"})
        t.kernel.shell("rdma link delete rxe0")
        left = look(t)
        need(left, {"port-4791"})
        typed = type_it(t, left["port-4791"])
        need(look(t), set())
        with_rxe(t)
        typed += f"; {type_it(t, found['port-4791'])}"
        need(look(t), set())
        with_rxe(t)
        typed += f"; {type_it(t, found['rxe'])}"
        need(look(t), set())
    finally:
        with_rxe(t)
    return typed


@case("weft doctor: small socket buffers")
def doctor_buffers(t):
    room = t.kernel.shell("cat /proc/sys/net/core/rmem_max").strip()
    without_rxe(t)
    try:
        t.kernel.shell("echo 65536 >/proc/sys/net/core/rmem_max")
        found = look(t)
        need(found, {"rmem"})
        typed = type_it(t, found["rmem"])
        if "rmem" in look(t):
            raise Failed(f"it is small still after: {typed}")
    finally:
        t.kernel.shell(f"echo {room} >/proc/sys/net/core/rmem_max")
        with_rxe(t)
    return typed


@case("weft doctor: the way to weft, which is well, too narrow, barred, and without marks")
def doctor_way(t):
    peer = ("--peer", t.weft.address[4])
    t.weft.die()
    broker = t.weft.start_tool("broker", "-f")
    without_rxe(t)
    try:
        until(lambda: "@weft-broker" in t.weft.shell("cat /proc/net/unix"), 20, "broker ready")
        need(look(t, *peer), set())
        for hook, rule, check in (
                ("input priority 0", "udp dport 4791 drop", "peer"),
                ("prerouting priority -150", "udp dport 4791 ip ecn set not-ect", "ecn-path"),
                ("prerouting priority -150", "udp dport 4791 ip dscp set 0", "dscp-path")):
            t.weft.shell(f"nft '{RULES.format(hook, rule)}'")
            try:
                need(look(t, *peer), {check})
            finally:
                t.weft.shell("nft delete table inet ill")
        t.kernel.shell("ip link set eth0 mtu 9000")
        found = look(t, *peer)
        need(found, {"path-mtu"})
        return found["path-mtu"]["seen"]
    finally:
        t.kernel.shell(f"ip link set eth0 mtu {t.condition.guest_mtu}")
        with_rxe(t)
        broker.stop()


@case("weft sim: the same bytes as on this machine")
def same_bytes(t):
    same = []
    for name in ("two-flows", "ib-lanes", "datagrams", "nvme"):
        with open(os.path.join(TOP, "scenarios", f"{name}.yaml"), encoding="utf-8") as f:
            text = f.read()
        # An emulated processor takes a minute for what takes another a second or two.
        text = re.sub(r"^duration: .*", "duration: 1ms", text, flags=re.M)
        text = re.sub(r"^warmup: .*", "warmup: 200us", text, flags=re.M).split("expect:")[0]
        with open(f"{t.lab.share}/scenario.yaml", "w", encoding="utf-8") as f:
            f.write(text)
        script = ("set -e; d=$(mktemp -d); trap 'rm -r $d' EXIT; cd $d; cp {1}/scenario.yaml .\n"
                  "{0} sim -o json --html page.html --csv tables --seed 7 scenario.yaml >figures.json 2>told\n"
                  "sha256sum figures.json page.html tables/*; stat -c %s figures.json")
        here = t.weft.shell(script.format(t.lab.weft, t.lab.share))
        there = t.kernel.shell(script.format(WEFT, "/lab"), 120)
        if here != there:
            raise Failed(f"{name}: {here} is not {there}")
        same.append(f"{name} {here.split()[-1]} bytes")
    return ", ".join(same)
