#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""libfabric's own tests (fabtests), unmodified, under `weft run`: its set "quick", and between two hosts
"standard", over the verbs provider's connections and over RDM endpoints on top of them.

What is run, and what its authors leave out for a provider, is read from fabtests' own runfabtests.sh
and its lists. Debian has no package of them: both are built from the source of its libfabric.

usage: fabtests.py BUILD (one | veth) [--only WORD]
"""
import errno
import os
import re
import shlex

import debian_source
import lab

COMMANDS = (
    "./autogen.sh",
    # Nothing else than what is tested, so that it takes two minutes and not ten.
    "./configure --prefix={prefix} --disable-static --enable-only --enable-verbs --enable-rxm",
    "make -j{jobs} install",
    "cd fabtests && ./autogen.sh && ./configure --prefix={prefix} --with-libfabric={prefix}",
    "make -C fabtests -j{jobs} install",
)
PROVIDERS = {"verbs": "verbs/verbs", "verbs;ofi_rxm": "ofi_rxm/ofi_rxm"}  # -> list of exclusions
# set -> of one program, or of a server and a client
SETS = {"unit": 1, "neg_unit": 1, "functional": 2, "short": 2, "standard": 2}
NOT_THERE = (errno.ENODATA, errno.ENOSYS)  # how they say that a provider has no such thing

# Faults of libfabric's, not of weft's: provider, command, why.
LEFT_OUT = (
    ("verbs", "fi_msg_sockets", "fi_connect() resolves an address that the endpoint has resolved "
     "before, which Linux refuses with EINVAL, too"),
    ("verbs;ofi_rxm", "-o writedata", "the verbs provider takes a write with immediate data for a "
     "message when its receive is of a shared queue"),
)
# rxm has a shared queue because without, it posts to a connection's that it has just closed if the last
# message and the end come together, and dies: mended after libfabric 2.6 ("prov/rxm: fix the msg_ep
# use-after-free at connection teardown").
ENVIRONMENT = {"FI_OFI_RXM_USE_SRX": "1"}


def read(prefix, name):
    with open(f"{prefix}/{name}", encoding="utf-8") as f:
        return f.read()


def commands(prefix, kind):
    """The lines of runfabtests.sh's array."""
    found = re.search(rf"^{kind}_tests=\($(.*?)^\)$", read(prefix, "bin/runfabtests.sh"),
                      re.M | re.S)
    return re.findall(r'^\t"(.*)"$', found[1], re.M)


def exclusions(prefix, provider):
    lines = read(prefix, f"share/fabtests/test_configs/{PROVIDERS[provider]}.exclude").splitlines()
    return [re.compile(l) for l in lines if l.strip() and not l.startswith("#")]


class Fabtests:
    def __init__(self, prefix, weft, hosts):
        self.prefix, self.weft, self.hosts = prefix, weft, hosts

    def start(self, host, line, log, *more):
        program, *args = shlex.split(line)
        return lab.Program(host, [self.weft, "run", "--", f"{self.prefix}/bin/{program}", *args,
                                  *more], log, env=ENVIRONMENT)

    def alone(self, line, provider, path):
        address = self.hosts[0].address
        line = line.replace("SERVER_ADDR", address).replace("GOOD_ADDR", address)
        p = self.start(self.hosts[0], line, f"{path}/test.log", "-p", provider)
        status = p.wait(120)
        p.kill()
        return (status,)

    def pair(self, line, provider, path):
        server, client = self.hosts
        s = self.start(server, line, f"{path}/server.log", "-p", provider, "-s", server.address)
        c = None
        try:
            s.settle(at_most=1)  # most of them poll, and never sleep
            c = self.start(client, line, f"{path}/client.log", "-p", provider, "-s",
                           client.address, server.address)
            return c.wait(120), s.wait(10)
        finally:
            s.kill()
            if c:
                c.kill()


def case(tests, report, kind, line, provider):
    name = f"{provider} {kind}: {line}"
    for of, command, why in LEFT_OUT:
        if provider == of and command in line:
            return report.skip(name, why)
    path = report.case(name)
    run = tests.alone if SETS[kind] == 1 else tests.pair
    status = run(line, provider, path)
    if kind == "neg_unit":  # of a fabric that nobody has
        status = (0,) if status == (errno.ENODATA,) else status
    if all(s in NOT_THERE for s in status):
        report.skip(name, "the provider has no such thing")
    elif any(status):
        report.fail(name, path, f"it ends with {', '.join(map(str, status))}")
    else:
        report.ok(name, path)


def main():
    args = lab.arguments(__doc__)
    prefix = debian_source.built(args.build, "fabtests", "libfabric", COMMANDS)
    lab.enter()
    weft = os.path.join(os.path.abspath(args.build), "weft")
    hosts = lab.lab(2)  # libfabric has no connections on loopback
    tests = Fabtests(prefix, weft, hosts if args.where == "veth" else (hosts[0], hosts[0]))
    report = lab.Report(args.build, f"fabtests-{args.where}")
    for provider in PROVIDERS:
        excluded = exclusions(prefix, provider)
        for kind in [*SETS][:-1 if args.where == "one" else None]:
            done, of = (report.passed, len(report.failed)), 0
            for line in commands(prefix, kind):
                name = f"{provider} {kind}: {line}"
                if args.only in name and not any(e.search(line) for e in excluded):
                    case(tests, report, kind, line, provider)
                    of += 1
            # A provider that is not there says the same as one that lacks something.
            if of > 1 and done == (report.passed, len(report.failed)):
                report.attempt(f"{provider} {kind}", lambda _, of=of: f"none of {of} was there to be tried")
    report.everything_ends(hosts)
    report.finish()


if __name__ == "__main__":
    main()
