#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The hard cases of the program `wire` (tests/vm/wire) between two wefts on iWARP, without a kernel's peer.

usage: wire_iwarp.py BUILD [--only WORD]
"""
import argparse
import os

import lab

SCENARIOS = ("unsignaled", "reads", "large", "zero", "solicited", "srq", "sizes", "order", "few-reads",
             "private-data", "denials", "endings")
PORT = 18601


class Bench:
    def __init__(self, build):
        self.weft, self.wire = (os.path.abspath(os.path.join(build, name)) for name in ("weft", "tests/vm/wire"))
        self.server, self.client = lab.lab(2)
        self.programs, self.path = [], None

    def start(self, host, name, *args):
        p = lab.Program(host, [self.weft, "run", "--devices", "iwarp", "--", self.wire, *args], f"{self.path}/{name}")
        self.programs.append(p)
        return p

    def ends(self, scenario):
        responder = self.start(self.server, "responder", scenario, "weft_iw_eth0", 0)
        assert lab.until(lambda: self.server.listens_on_tcp(PORT), 20), "the responder does not listen"
        return responder, self.start(self.client, "requester", scenario, "weft_iw_eth0", 0, self.server.address)

    def pair(self, scenario):
        ends = self.ends(scenario)
        for end in ends[::-1]:
            assert end.wait(50) == 0, " / ".join(f"{e.status()}: {e.output()[-200:].strip()}" for e in ends)
        return ends[1].output().splitlines()[-1]

    def killed(self):
        responder, requester = self.ends("killed")
        assert lab.until(lambda: requester.says("until it is killed"), 20), requester.output()
        requester.kill()
        assert responder.wait(10) == 0, responder.output()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("build")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.enter()
    b, report = Bench(args.build), lab.Report(args.build, "wire-iwarp")
    for scenario in SCENARIOS:
        if args.only in scenario:
            report.prove_and_end(scenario, b, lambda s=scenario: b.pair(s))
    if args.only in "killed":
        report.prove_and_end("killed", b, b.killed)
    report.everything_ends((b.server, b.client))
    report.finish()


if __name__ == "__main__":
    main()
