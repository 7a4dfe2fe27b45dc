#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""libfabric's programs, unmodified, under `weft run`: its verbs provider finds the devices, and
talks over connections, over RDM endpoints on top of them, and over datagrams.

It has connections on no loopback device: on one host they are over another interface's, also
when its programs are told 127.0.0.1. Datagrams it has on all devices.

usage: libfabric.py BUILD (one | veth)
"""
import argparse
import os

import lab

PORT = 47592  # fi_pingpong's own
# provider, endpoint -> what fi_info shows of it
ENDPOINTS = {
    ("verbs", "msg"): ("FI_EP_MSG", "FI_PROTO_RDMA_CM_IB_RC"),
    ("verbs;ofi_rxm", "rdm"): ("FI_EP_RDM", "FI_PROTO_RXM"),
    ("verbs", "dgram"): ("FI_EP_DGRAM", "FI_PROTO_IB_UD"),
}


def finds_devices(weft, host):
    """Asked for everything, it has each kind of endpoint on the device."""
    out = host.run(weft, "run", "--", "fi_info", "-p", "verbs", timeout=30).stdout
    blocks = out.split("provider: ")
    for (provider, _), want in ENDPOINTS.items():
        words = [f"{provider}\n", *(f": {w}\n" for w in want), "domain: weft_eth0"]
        if not any(b.startswith(words[0]) and all(w in b for w in words[1:]) for b in blocks):
            return f"fi_info -p verbs has no {' '.join(want)} of {provider} on weft_eth0:\n{out}"
    return None


def talk(weft, hosts, address, options, path):
    run = [weft, "run", "--", "fi_pingpong", "-I", "20", "-c", *options]
    server = lab.Program(hosts[0], run, f"{path}/server.log")
    client = None
    try:
        if not lab.until(lambda: hosts[0].listens_on_tcp(PORT) or server.status() is not None, 10):
            return "the server does not listen"
        client = lab.Program(hosts[1], [*run, address], f"{path}/client.log")
        status = client.wait(60), server.wait(10)
        if status != (0, 0):
            return f"client and server end with {status}"
        return None if client.says("usec/xfer") else "the client gives no figures"
    finally:
        server.kill()
        if client:
            client.kill()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("where", choices=["one", "veth"])
    args = p.parse_args()
    lab.enter()
    lab.need("fi_info", "fi_pingpong")
    weft = os.path.join(os.path.abspath(args.build), "weft")
    hosts = lab.lab(2)  # loopback alone has no interface that it would take
    server, client = hosts[0], hosts[0] if args.where == "one" else hosts[1]
    report = lab.Report(args.build, f"libfabric-{args.where}")

    report.attempt("fi_info -p verbs", lambda path: finds_devices(weft, server))
    for provider, endpoint in ENDPOINTS:
        for address in (server.address, "127.0.0.1")[:2 if args.where == "one" else 1]:
            options = ["-p", provider, "-e", endpoint]
            report.attempt(f"{provider} {endpoint} {address}", lambda path, o=options, a=address:
                           talk(weft, (server, client), a, o, path))
    report.everything_ends(hosts)
    report.finish()


if __name__ == "__main__":
    main()
