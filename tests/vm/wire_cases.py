# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Hard cases on the wire: the program `wire` (tests/vm/wire) on both ends, the active one asking."""
import re

from cases import PASSIVE, case
from lab import Failed
from sides import finish

PORT = 18601
ASKED_FOR = {"log_may_say": ("non-flush error status",)}  # the errors of a case, which 6.12 tells of


def wire(t, scenario, seconds=50):
    def command(side):
        return f"{side.wire} {scenario} {side.device} {side.gid_index(t.family)}"

    server = t.passive.listen(command(t.passive), seconds + 10, tcp=PORT)
    client = t.active.run(f"{command(t.active)} {t.passive.address[4]}", seconds)
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
    case("messages of 2 GiB", wire=True, long=True, repeats=0.1)(lambda t: wire(t, "longest", 500))


wire_cases()
