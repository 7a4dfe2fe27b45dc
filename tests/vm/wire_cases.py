# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Hard cases on the wire: the program `wire` (tests/vm/wire) on both ends, the active one asking."""
import re
import time

from cases import PASSIVE, case
from lab import Failed, last_line, until
from sides import finish

PORT = 18601
ASKED_FOR = {"log_may_say": ("non-flush error status",)}  # the errors of a case, which 6.12 tells of


def commands(t, scenario):
    """Of the responder and the requester."""
    there, here = (f"{side.wire} {scenario} {side.device} {side.gid_index(t.family)}" for side in (t.passive, t.active))
    return there, f"{here} {t.passive.address[4]}"


def wire(t, scenario, seconds=50):
    responder, requester = commands(t, scenario)
    server = t.passive.listen(responder, seconds + 10, tcp=PORT)
    client = t.active.run(requester, seconds)
    if client.returncode:  # the responder may know better why
        server.wait(seconds)
    finish(server, client, 20)
    return ", ".join(re.findall(r"^(.+), all as it should be", client.stdout, re.M))


def wire_cases():
    for scenario, name, more in (
            ("rnr", "receiver not ready: with and without a limit of retries",
             {"repeats": 0.9, **ASKED_FOR}),
            ("psn-wrap", "PSNs that wrap around", {"lossy": True}),
            ("unsignaled", "100 messages, one completion", {"repeats": 0.2, "lossy": True}),
            ("reads", "READs at once, taken up in the middle", {"lossy": True}),
            ("atomics", "atomics, executed once", {"lossy": True}),
            ("large", "messages of 8 MiB", {"repeats": 0.1}),
            ("too-long", "messages longer than 2 GiB", {}),
            ("zero", "messages of no bytes", {"lossy": True}),
            ("immediate", "immediate data, with and without payload", {"lossy": True}),
            ("solicited", "inline data, solicited events", {"lossy": True}),
            ("srq", "a shared receive queue and its events", {"lossy": True}),
            ("invalidate", "a memory window, invalidated by SEND", ASKED_FOR),
            ("invalidate-again", "a memory window, invalidated twice",
             {"directions": (PASSIVE,), **ASKED_FOR}),
            ("errors", "access, length and request errors at both ends", ASKED_FOR),
            ("atomic-write", "ATOMIC WRITE, and one that is refused", {"newer": True, **ASKED_FOR})):
        case(name, wire=True, **more)(lambda t, scenario=scenario: wire(t, scenario))

    # Half a million packets each way: minutes.
    case("messages of 2 GiB, by iWARP of one", wire=True, long=True, repeats=0.1)(lambda t: wire(t, "longest", 500))


def iwarp_cases():
    for scenario, name in (
            ("sizes", "WRITEs, READs and SENDs of all sizes round a segment's"),
            ("order", "a fenced SEND of what a READ brings, completions in order"),
            ("few-reads", "more READs than the peer takes at once"),
            ("private-data", "private data of each length, accepted and rejected"),
            ("denials", "access and length faults, and what is told of them"),
            ("endings", "connections that end in each way")):
        case(name, iwarp=True)(lambda t, scenario=scenario: wire(t, scenario))


def both_running(t, scenario):
    responder, requester = commands(t, scenario)
    server = t.passive.listen(responder, 60, tcp=PORT)
    return server, t.active.start(requester, 60)


@case("the cable is out for three seconds", iwarp=True)
def cable(t):
    port = "tap" + t.kernel.guest[1:]
    server, client = both_running(t, "steady")
    time.sleep(2)
    t.lab.run_ok("ip", "link", "set", port, "nomaster")
    time.sleep(3)
    t.lab.run_ok("ip", "link", "set", port, "master", "br0")
    client.wait(60)
    server.wait(20)
    said = re.search(r"^(.+), all as it should be", client.output, re.M)
    if not said:
        raise Failed(f"client: {last_line(client.output)}; server: {last_line(server.output)}")
    return said[1]


@case("the program at the other end is killed", iwarp=True)
def killed(t):
    server, client = both_running(t, "killed")
    until(lambda: "until it is killed" in client.output, 30, "connected")
    t.active.kill("wire")
    if server.wait(20):
        raise Failed(f"server: {last_line(server.output)}")


def with_settings(t, settings):
    """siw's settings are constants, which the guests' module can be told; without, as it is."""
    t.kernel.shell(f"rdma link delete siw0; rmmod siw; insmod /opt/siw.ko {settings} && lab-rdma siw")


@case("MPA with a CRC that the kernel asks for, of revision 1, and peer to peer", iwarp=True)
def start_up(t):
    seen = []
    try:
        for settings in ("mpa_crc_required=1 mpa_crc_strict=1", "mpa_version=1", "mpa_version=1 mpa_crc_required=1",
                         "peer_to_peer=1", "peer_to_peer=1 mpa_crc_required=1"):
            with_settings(t, settings)
            try:
                wire(t, "order")
            except Failed as e:
                raise Failed(f"{settings}: {e}") from None
            seen.append(settings.replace("=1", ""))
    finally:
        with_settings(t, "")
    return ", ".join(seen)


@case("segments of 76 bytes from the kernel", iwarp=True)
def small_segments(t):
    """Shorter than the shortest that RFC 5044 allows for (section 3). siw takes none of ours in which a CRC is in two (docs/siw.md)."""
    def shortest(*setting):
        t.lab.run_ok("ip", "route", "change", "192.168.77.0/24", "dev", "br0", *setting)

    try:
        shortest("advmss", "88")  # of which TCP's timestamps take 12
        return ", ".join(filter(None, (wire(t, scenario) for scenario in ("sizes", "few-reads"))))
    finally:
        shortest()


@case("a port mapper (iwpmd) where the kernel's TCP ports are its own", iwarp=True)
def port_mapper(t):
    """weft asks the kernel's, and the kernel weft's broker, where the port is."""
    def datagrams():
        said = t.kernel.shell("grep ^Udp: /proc/net/snmp | tail -1").split()
        return int(said[1]), int(said[4])  # in, out

    try:
        with_settings(t, "port_map=1")
        t.kernel.shell("/opt/iwpmd; for i in {1..100}; do grep -q :0F5F /proc/net/udp && exit; sleep 0.1; done; exit 1")
        before = datagrams()
        said = wire(t, "order")
        came, went = (now - then for now, then in zip(datagrams(), before))
        # A request, its acceptance, an acknowledgement.
        want = (2, 1) if t.active is t.weft else (1, 2)
        if came < want[0] or went < want[1]:
            raise Failed(f"the kernel's port mapper heard {came} datagrams and said {went}, not {want}")
    finally:
        t.kernel.shell("pkill -x iwpmd; true")
        with_settings(t, "")
    return said


wire_cases()
iwarp_cases()
