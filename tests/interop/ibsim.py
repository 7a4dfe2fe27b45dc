#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The subnet manager on a fabric of ibsim, judged by the field's tools and measured against opensm.

usage: ibsim.py BUILD HELPERS [--only WORD]

Of each net a file is made for ibsim. Our manager (subnet_umad.c) brings it up; iblinkinfo then says whether every link
is active, ibnetdiscover which LIDs there are, ibroute and smpquery what stands in tables, and ibtracert goes the way
of each pair of adapters. opensm does the same on another ibsim with the same net, and no way of ours is longer than
its own.
"""
import argparse
import contextlib
import glob
import os
import re
import subprocess
import sys
import tempfile

import lab

PRELOAD = glob.glob("/usr/lib/*/umad2sim/libumad2sim.so")


class Net:
    """links: pairs of (node, port); switches: ports of each; roots: those that are up most."""

    def __init__(self, name, roots):
        self.name, self.roots, self.ports, self.links, self.hosts = name, roots, {}, [], []

    def switch(self, name, ports):
        self.ports[name] = iter(range(1, ports + 1))
        setattr(self, "size_" + name, ports)

    def join(self, a, b):
        if a not in self.ports:
            self.hosts.append(a)
        self.links.append([(n, next(self.ports[n]) if n in self.ports else 1) for n in (a, b)])

    def text(self):
        out = []
        for node in [*self.ports, *self.hosts]:
            kind, ports = ("Switch", getattr(self, "size_" + node)) if node in self.ports else ("Hca", 1)
            out.append(f'{kind}\t{ports} "{node}"')
            for link in self.links:
                for (here, port), (peer, its) in (link, link[::-1]):
                    if here == node:
                        out.append(f'[{port}]\t"{peer}"[{its}]')
            out.append("")
        return "\n".join(out)


def leaf_spine():
    net = Net("leaf-spine", [f"Spine{i}" for i in range(3)])
    for i in range(3):
        net.switch(f"Spine{i}", 8)
    for i in range(4):
        net.switch(f"Leaf{i}", 8)
        for k in range(3):
            net.join(f"Leaf{i}", f"Spine{k}")
            net.join(f"Host{i}{k}", f"Leaf{i}")
    return net


def ring():
    net = Net("ring", ["Ring0"])
    for i in range(5):
        net.switch(f"Ring{i}", 4)
    for i in range(5):
        net.join(f"Ring{i}", f"Ring{(i + 1) % 5}")
        net.join(f"Host{i}", f"Ring{i}")
    return net


def fat_tree():
    net = Net("fat-tree", [f"Core{i}" for i in range(4)])
    for i in range(4):
        net.switch(f"Core{i}", 4)
    for pod in range(4):
        for i in range(2):
            net.switch(f"Middle{pod}{i}", 4)
            net.switch(f"Edge{pod}{i}", 4)
            for k in range(2):
                net.join(f"Middle{pod}{i}", f"Core{2 * i + k}")
        for i in range(2):
            for k in range(2):
                net.join(f"Edge{pod}{i}", f"Middle{pod}{k}")
                net.join(f"Host{pod}{i}{k}", f"Edge{pod}{i}")
    return net


class Fabric:
    """An ibsim of its own. Its sockets have abstract names, which a network namespace keeps apart."""

    def __init__(self, net, directory, helper):
        self.net, self.directory, self.helper = net, directory, helper
        path = os.path.join(directory, net.name + ".net")
        with open(path, "w", encoding="ascii") as f:
            f.write(net.text())
        self.env = {**os.environ, "IBSIM_SOCKNAME": f"weft{os.getpid()}", "SIM_HOST": net.hosts[0],
                    "OSM_TMP_DIR": directory, "OSM_CACHE_DIR": directory}
        self.log = open(os.path.join(directory, "ibsim.log"), "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(["ibsim", "-s", path], env=self.env, stdin=subprocess.PIPE, stdout=self.log,
                                        stderr=subprocess.STDOUT, text=True, preexec_fn=lab.die_with_parent)
        if not lab.until(lambda: "simulator ready" in self.said() or self.process.poll() is not None, 20) \
                or self.process.poll() is not None:
            raise RuntimeError(f"ibsim does not run: {self.said()}")

    def said(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    def tell(self, command):
        """To its console, which answers with its prompt."""
        prompts = self.said().count("sim>")
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        lab.until(lambda: self.said().count("sim>") > prompts, 5)

    def end(self):
        self.process.terminate()
        self.process.wait(10)
        self.log.close()

    def run(self, *argv, status=(0,)):
        r = subprocess.run([str(a) for a in argv], env={**self.env, "LD_PRELOAD": PRELOAD[0]}, capture_output=True,
                           text=True, timeout=60, preexec_fn=lab.die_with_parent)
        if r.returncode not in status:
            raise RuntimeError(f"{' '.join(map(str, argv))}: status {r.returncode}: {r.stdout[-500:]}{r.stderr[-500:]}")
        return r.stdout

    # ---- managers

    def ours(self, routing, roots=(), status=(0,)):
        return self.run(self.helper, routing, *(f"{guid:#x}" for guid in roots), status=status)

    def theirs(self, routing, roots=()):
        guids = os.path.join(self.directory, "roots")
        with open(guids, "w", encoding="ascii") as f:
            f.writelines(f"{guid:#x}\n" for guid in roots)
        self.run("opensm", "--once", "-R", routing, *(["-a", guids] if roots else []),
                 "-f", os.path.join(self.directory, "opensm.log"))

    # ---- judges

    def nodes(self):
        """By name: GUID of a switch or of an adapter's port, and LID."""
        text, found = self.run("ibnetdiscover"), {}
        for guid, name, lid in re.findall(r'^Switch\s+\d+ "S-(\w+)"\s+# "(\w+)" .*? lid (\d+) ', text, re.M):
            found[name] = int(guid, 16), int(lid)
        for name, guid, lid in re.findall(r'^Ca\s.*?# "(\w+)"\n\[1\]\((\w+)\).*?# lid (\d+) ', text, re.M):
            found[name] = int(guid, 16), int(lid)
        return found

    def states(self):
        """How many ends of links are in which state."""
        counts = {}
        for state, physical in re.findall(r"==\([^=]*?(\w+)/\s*(\w+)\)==>", self.run("iblinkinfo")):
            counts[state, physical] = counts.get((state, physical), 0) + 1
        return counts

    def traced(self, lids):
        """Of each pair of adapters the ports of switches by which the way leads out, in order: ibtracert's word."""
        ways = {}
        for a, b in ((a, b) for a in self.net.hosts for b in self.net.hosts if a != b):
            text = self.run("ibtracert", lids[a][1], lids[b][1])
            hops = re.findall(r'^\[(\d+)\] -> (\w+) port \{\w+\}\[\d+\] lid \d+-\d+ "(\w+)"', text, re.M)
            if not hops or hops[-1][2] != b or {kind for _, kind, _ in hops[:-1]} - {"switch"}:
                raise RuntimeError(f"ibtracert from {a} to {b}: {text}")
            ways[a, b] = [(name, int(port)) for (_, _, name), (port, _, _) in zip(hops, hops[1:])]
        return ways

    def ways(self, lids):
        """The same, by the tables that ibroute reads."""
        tables = {name: {int(lid, 16): int(port) for lid, port in
                         re.findall(r"^0x(\w+) (\d+) :", self.run("ibroute", lids[name][1]), re.M)}
                  for name in self.net.ports}
        peers = dict([*map(tuple, self.net.links), *(tuple(link[::-1]) for link in self.net.links)])
        ways = {}
        for a, b in ((a, b) for a in self.net.hosts for b in self.net.hosts if a != b):
            way, at = ways.setdefault((a, b), []), peers[a, 1][0]
            while at in tables:
                way.append((at, tables[at].get(lids[b][1])))
                if len(way) > len(tables) or way[-1] not in peers:
                    raise AssertionError(f"the way from {a} to {b} leads nowhere: {way}")
                at = peers[way[-1]][0]
            same(at, b, f"where the way from {a} ends")
        return ways


@contextlib.contextmanager
def fabric(net, helper):
    with tempfile.TemporaryDirectory(prefix="weft-ibsim-") as directory:
        f = Fabric(net, directory, helper)
        try:
            yield f
        finally:
            f.end()


def has_circle(ways):
    """Can links come to wait for each other in a circle?"""
    after = {}
    for way in ways.values():
        for one, other in zip(way, way[1:]):
            after.setdefault(one, set()).add(other)
    done, in_hand = set(), set()

    def comes_round(at):
        if at in in_hand:
            return True
        if at in done:
            return False
        in_hand.add(at)
        found = any(comes_round(n) for n in after.get(at, ()))
        in_hand.discard(at)
        done.add(at)
        return found

    return any(comes_round(at) for at in list(after))


def same(got, expected, what):
    if got != expected:
        raise AssertionError(f"{what}: {got}, not {expected}")


def check_up(f, links):
    """Every link is active at both ends, and all have LIDs of their own."""
    states = f.states()
    # iblinkinfo shows an adapter's link with the adapter, and with its switch.
    same(states.get(("Active", "LinkUp")), 2 * links, "ends of links that are active")
    same(sorted({s for s, _ in states} - {"Down"}), ["Active"], "states")
    nodes = f.nodes()
    same(sorted(nodes), sorted([*f.net.ports, *f.net.hosts]), "nodes")
    same(len({lid for _, lid in nodes.values()} - {0}), len(nodes), "LIDs")
    return nodes


def check_tables(f, nodes):
    """What the others' tools read in a switch, its first link, and an adapter."""
    switch, host = next(iter(f.net.ports)), f.net.hosts[0]
    text = f.run("ibroute", nodes[switch][1])
    same(int(re.search(r"^(\d+) valid lids dumped", text, re.M)[1]), len(nodes), f"LIDs in the table of {switch}")
    info = f.run("smpquery", "portinfo", nodes[switch][1], 1)
    lanes = int(re.search(r"^OperVLs:\.*VL0-(\d)", info, re.M)[1]) + 1
    same(re.search(r"^NeighborMTU:\.*(\d+)", info, re.M)[1], re.search(r"^MtuCap:\.*(\d+)", info, re.M)[1],
         "the MTU of a link")
    same(re.search(r"^HoqLife:\.*(\d+)", info, re.M)[1], "18", "HoqLife")
    table = f.run("smpquery", "sl2vl", nodes[switch][1], 1)
    rows = re.findall(r"^ports: in\s+(\d+), out\s+\d+: \|(.*)\|$", table, re.M)
    wired = {port for link in f.net.links for node, port in link if node == switch} - {1}
    same([[int(vl) for vl in row.split("|")] for port, row in rows if int(port) in wired],
         [[sl % 8 % lanes for sl in range(16)]] * len(wired), "lanes of service levels")
    text = f.run("smpquery", "vlarb", nodes[host][1], 1)
    turns = {which: [(int(w)) for w in re.findall(r"0x(\w+)", weights, re.I)]
             for which, weights in re.findall(r"^# (Low|High) priority.*?^WEIGHT: (.*?)$", text, re.M | re.S)}
    same([turns.get("Low", [])[:4], sum(int(str(w), 16) for w in turns.get("High", []))], [[1, 2, 3, 4], 64], "turns")


def minhop(net, helper):
    with fabric(net, helper) as f:
        f.ours("minhop")
        nodes = check_up(f, len(net.links))
        check_tables(f, nodes)
        ours = f.ways(nodes)
        same(f.traced(nodes), ours, "ways that ibtracert goes")
        f.ours("minhop")
        same(f.nodes(), nodes, "LIDs after another manager")
    same(has_circle(ours), net.name == "ring", "a circle of shortest ways")
    with fabric(net, helper) as f:
        f.theirs("minhop")
        nodes = f.nodes()
        theirs = f.ways(nodes)
        f.ours("minhop")
        same(check_up(f, len(net.links)), nodes, "LIDs after opensm")
    same({pair for pair, way in ours.items() if len(way) != len(theirs[pair])}, set(), "ways not as short as opensm's")


def updn(net, helper):
    found = {}
    for who in ("ours", "theirs"):
        with fabric(net, helper) as f:
            roots = [0x200000 + list(net.ports).index(name) for name in net.roots]
            getattr(f, who)("updn", roots)
            nodes = check_up(f, len(net.links))
            same([nodes[name][0] for name in net.roots], roots, "GUIDs of roots")
            found[who] = f.ways(nodes)
            if who == "ours":
                f.ours("updn")
                same(has_circle(f.ways(nodes)), False, "a circle with roots of its own choice")
    same(has_circle(found["ours"]), False, "a circle of ways up and down")
    same({pair for pair, way in found["ours"].items() if len(way) > len(found["theirs"][pair])}, set(),
         "ways longer than opensm's")


def unlink(net, helper):
    """A link goes, and comes back; the console of ibsim does it."""
    (a, a_port), _ = gone = next(link for link in net.links if all(node in net.ports for node, _ in link))
    with fabric(net, helper) as f:
        f.ours("minhop")
        nodes = check_up(f, len(net.links))
        f.tell(f'Unlink "{a}"[{a_port}]')
        f.ours("minhop")
        same(check_up(f, len(net.links) - 1), nodes, "LIDs without a link")
        ways = f.ways(nodes)
        same([pair for pair, way in ways.items() for hop in way if hop in gone], [], "ways over the link that is gone")
        f.tell(f'ReLink "{a}"[{a_port}]')
        f.ours("minhop")
        same(check_up(f, len(net.links)), nodes, "LIDs with the link again")
        f.ways(nodes)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("--only", default="", help="what the case's name has in it")
    args = p.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    lab.need("ibsim", "opensm", "ibnetdiscover", "iblinkinfo", "ibtracert", "ibroute", "smpquery")
    helper = os.path.join(args.helpers, "subnet_umad")
    if not PRELOAD:
        lab.skip("ibsim's libumad2sim.so is not here")
    if not os.path.exists(helper):
        lab.skip("libibumad-dev was not there when weft was built (scripts/setup installs it)")
    lab.enter()
    failed = 0
    for net in (leaf_spine(), ring(), fat_tree()):
        for case in (minhop, updn, unlink):
            name = f"{case.__name__} {net.name}"
            if args.only not in name:
                continue
            try:
                case(net, helper)
                print(f"ok   {name}", flush=True)
            except (AssertionError, RuntimeError, subprocess.TimeoutExpired) as e:
                failed += 1
                print(f"FAIL {name}: {e}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
