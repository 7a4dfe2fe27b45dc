# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Unmodified verbs programs, one side on weft, the other on the kernel's rxe."""
from cases import case
from lab import Failed
from sides import finish


@case("rping -C 20 -S 3000, data verified", short=True)
def rping(t):
    where = t.passive.address[t.family]
    server = t.passive.start(f"rping -s -a {where} -C 20 -V -v -S 3000", 40)
    t.passive.await_cm(7174, server)
    client = t.active.run(f"rping -c -a {where} -C 20 -V -v -S 3000", 30)
    finish(server, client, 20, server_may_fail=True)  # its status says nothing
    for side, text in (("client", client.stdout), ("server", server.output)):
        if text.count("ping data: ") != 20:
            raise Failed(f"{side} saw {text.count('ping data: ')} of 20 pings")
