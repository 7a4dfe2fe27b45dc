# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The document that says of every program and option what became of it (docs/programs.md, programs-iwarp.md)."""
import collections
import json
import os
import re

import perftest

HEADS = {"roce": """# The field's programs on weft

Every program of Debian 12's `ibverbs-utils`, `rdmacm-utils` and `perftest` but perftest's `raw_ethernet_*`, unmodified, each
option tried. Server and client ran on loopback and as two hosts (network namespaces with a veth pair between them).
`tests/interop/programs.py BUILD one veth --write docs/programs.md` makes this page; `make check-long` runs the same cases, and
`make check` the quick ones among them. Beside the exit status of both ends it is looked at what they print: counts, figures,
what was compared. [The same on devices of iWARP](programs-iwarp.md).
""", "iwarp": """# The field's programs on weft's devices of iWARP

As on those of [RoCE](programs.md), with the cases that iWARP has: connections by rdma_cm; no datagrams, no UC and XRC, no multicast.
`tests/interop/programs.py BUILD one veth --devices iwarp --write docs/programs-iwarp.md` makes this page.
"""}


ALONE = ("ibv_devices", "ibv_devinfo", "ibv_asyncwatch")  # of no pair, and no Case
PLACES = {"one": "lo", "veth": "veth"}


def shown(case):
    """Program and options, without what says which device and whom to talk to."""
    words = case.options or case.client or case.server
    words = words.replace("{gid6}", "IPv6").replace("{server6}", "IPv6")
    words = " ".join(re.sub(r"( -[dgxsba])? \{(dev|gid|server)\}", "", words).split())
    program = case.server.split()[0]
    other = case.client.split()[0] if case.client else program
    pair = program if other == program else f"{program}, {other}"
    return pair, re.sub(r"\{file\}", "FILE", words.removeprefix(other)
                           .replace("{own}", "ADDRESS").replace("{own6}", "IPv6")).strip()


class Table:
    """What came of each case, by program and options, in the order they came.

    For a page it is kept beside the logs, so that one can be made of several runs of a part each.
    """

    def __init__(self, kept, anew):
        self.cells = collections.defaultdict(dict)  # (program, options) -> {where: "" or why not}
        self.kept = kept
        if kept and os.path.exists(kept) and not anew:
            with open(kept, encoding="utf-8") as f:
                for program, options, found in json.load(f):
                    self.cells[program, options] = found

    def keep(self, known):
        """Forgets what earlier runs noted of cases that are no more."""
        for key in list(self.cells):
            if key[0] not in ALONE and key not in known:
                del self.cells[key]

    def note(self, program, options, where, why=""):
        self.cells[program, options][where] = why
        if self.kept:
            with open(self.kept, "w", encoding="utf-8") as f:
                json.dump([[p, o, found] for (p, o), found in self.cells.items()], f)

    def verdict(self, program, options, notes):
        found = self.cells.get((program, options))
        if found is None:
            return ""
        whys = {w: why for w, why in found.items() if why}
        if not whys:
            return "ok" if len(found) > 1 else f"{PLACES[next(iter(found))]} ok"
        if len(whys) < len(found):
            return "; ".join(f"{PLACES[w]} {notes(why)}" for w, why in whys.items())
        return notes(next(iter(whys.values())))

    def write(self, path, devices):
        seen = []

        def notes(why):
            if why not in seen:
                seen.append(why)
            return f"no ({seen.index(why) + 1})"

        text = HEADS[devices] + "\n## ibverbs-utils and rdmacm-utils\n\n"
        text += "| program | runs with | does not |\n|---|---|---|\n"
        programs = list(dict.fromkeys(p for p, _ in self.cells if p not in perftest.PROGRAMS))
        for program in sorted(programs):
            good, bad = [], []
            for p, options in self.cells:
                if p == program:
                    v = self.verdict(p, options, notes)
                    name = f"`{options}`" if options else "no options"
                    if v.endswith("ok"):
                        good.append(name + (f" ({v.split()[0]})" if " " in v else ""))
                    else:
                        bad.append(f"{name}: {v}")
            text += f"| {program} | {', '.join(good)} | {', '.join(bad)} |\n"
        text += "\n## perftest\n\n"
        text += "| options | " + " | ".join(p[3:] for p in perftest.PROGRAMS) + " |\n"
        text += "|---|" + "---|" * len(perftest.PROGRAMS) + "\n"
        rows = dict.fromkeys(o for p, o in self.cells if p in perftest.PROGRAMS)
        for options in rows:
            text += f"| `{options}` | " + " | ".join(
                self.verdict(p, options, notes) for p in perftest.PROGRAMS) + " |\n"
        text += "\nAn empty field: the program has no such option, or other sizes were tried. "
        text += "`lo`, `veth`: tried there alone.\n"
        reasons = collections.defaultdict(list)
        for option, why in perftest.UNTRIED.items():
            reasons[why].append(f"`{option}`")
        text += "Not tried: " + "; ".join(f"{', '.join(o)} ({why})" for why, o in reasons.items())
        text += ".\n"
        if seen:
            text += "\n## Why not\n\n" + "".join(f"{i}. {why}\n" for i, why in enumerate(seen, 1))
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
