# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Hard cases on the wire: the program `wire` (tests/vm/wire) on both ends, the active one asking."""
import re

from cases import PASSIVE, case
from lab import Failed
from sides import finish

PORT = 18601


def wire(t, scenario, seconds=50):
    def command(side):
        return f"{side.wire} {scenario} {side.device} {side.gid_index(t.family)}"

    server = t.passive.start(command(t.passive), seconds + 10)
    t.passive.await_tcp(PORT)
    client = t.active.run(f"{command(t.active)} {t.passive.address[4]}", seconds)
    if client.returncode:  # the responder may know better why
        server.wait(seconds)
    finish(server, client, 20)
    return ", ".join(re.findall(r"^(.+), all as it should be", client.stdout, re.M))


def wire_cases():
    for scenario, name, more in (
            ("rnr", "receiver not ready: with and without a limit of retries", {}),
            ("psn-wrap", "PSNs that wrap around", {"lossy": True}),
            ("unsignaled", "100 messages, one completion", {"repeats": 0.2}),
            ("reads", "READs at once, taken up in the middle", {"lossy": True}),
            ("atomics", "atomics, executed once", {"lossy": True}),
            ("large", "messages of 8 MiB", {"repeats": 0.1}),
            ("too-long", "messages longer than 2 GiB", {}),
            ("zero", "messages of no bytes", {}),
            ("immediate", "immediate data, with and without payload", {}),
            ("solicited", "inline data, solicited events", {}),
            ("srq", "a shared receive queue and its events", {}),
            ("invalidate", "a memory window, invalidated by SEND", {}),
            ("invalidate-again", "a memory window, invalidated twice", {"directions": (PASSIVE,)}),
            ("errors", "access, length and request errors at both ends", {})):
        case(name, wire=True, **more)(lambda t, scenario=scenario: wire(t, scenario))

    # Half a million packets each way: minutes.
    case("messages of 2 GiB", wire=True, long=True, repeats=0.1)(lambda t: wire(t, "longest", 500))


wire_cases()
