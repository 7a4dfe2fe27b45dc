# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The table: runs in turn, round after round, medians with their ranges, a ratio, a target, a verdict.

Nothing here knows what is measured. A run gives figures by name; a row takes one of them for each of
its sides, so that rows may share a run, and the runs of a group of rows take turns: A B C A B C ...
"""
import statistics
from collections import namedtuple

from bed import Failed, NotHere

Run = namedtuple("Run", "name work needs", defaults=[()])  # needs: programs that must be there
Side = namedtuple("Side", "run figure")
# of: what is divided by what is asked for, "peer" or "limit"; None: our figure itself is judged.
Target = namedtuple("Target", "of sign value")
Row = namedtuple("Row", "what unit ours peer limit target", defaults=[None, None, None])
Group = namedtuple("Group", "name about rows")

MET, MISSED, NOT_MEASURED, FAILED, NO_TARGET = "met", "missed", "not measured", "failed", ""
VERDICTS = (MET, MISSED, NOT_MEASURED, FAILED)
SIDES = ("ours", "peer", "limit")


def at_most(value, of="limit"):
    return Target(of, "<=", value)


def at_least(value, of="limit"):
    return Target(of, ">=", value)


class Samples:
    """What each run gave in each round, or why it gave nothing."""

    def __init__(self, installed):
        self.installed = installed  # whether a program is
        self.figures, self.absent, self.failed = {}, {}, {}

    def why_not(self, run):
        return self.failed.get(run.name) or self.absent.get(run.name)

    def take(self, run):
        missing = [p for p in run.needs if not self.installed(p)]
        if missing:
            self.absent[run.name] = f"{', '.join(missing)} not installed (scripts/setup --long installs it)"
        if self.why_not(run):
            return
        try:
            self.figures.setdefault(run.name, []).append(run.work())
        except NotHere as e:
            self.absent[run.name] = str(e)
        except Failed as e:
            self.failed[run.name] = " ".join(str(e).split())

    def of(self, side):
        """None: there are none to go by."""
        if side is None or self.why_not(side.run) or side.run.name not in self.figures:
            return None
        return [figures[side.figure] for figures in self.figures[side.run.name]]


def runs_of(rows):
    """Each once, in the order of the rows."""
    return list({side.run.name: side.run for row in rows for side in row[2:5] if side}.values())


def measure(runs, rounds, samples):
    """In turn. What another group had need not be run again."""
    todo = [run for run in runs if run.name not in samples.figures]
    for _ in range(rounds):
        for run in todo:
            samples.take(run)


class Figure(namedtuple("Figure", "median low high samples")):
    @classmethod
    def of(cls, samples):
        return samples and cls(statistics.median(samples), min(samples), max(samples), samples)


Result = namedtuple("Result", "row ours peer limit ratio verdict reason")


def ratio_to(row):
    """The side that the row's ratio is to: what its target says, or the one it has."""
    if row.target:
        return row.target.of
    return next((name for name in ("limit", "peer") if getattr(row, name)), None)


def judge(row, samples):
    """met or missed is said only where both sides of the ratio were measured."""
    sides = {name: Figure.of(samples.of(getattr(row, name))) for name in SIDES}
    other = ratio_to(row)
    ratio = None
    if other and sides["ours"] and sides[other] and sides[other].median:
        ratio = sides["ours"].median / sides[other].median
    judged = ratio if other else sides["ours"] and sides["ours"].median
    needed = [getattr(row, name) for name in ("ours", other) if name]
    failed = [samples.failed[s.run.name] for s in needed if s.run.name in samples.failed]
    if failed:
        verdict, reason = FAILED, failed[0]
    elif judged is None:
        why = [samples.why_not(s.run) for s in needed]
        verdict, reason = NOT_MEASURED, next(filter(None, why), "no figure to divide by")
    elif row.target is None:
        verdict, reason = NO_TARGET, ""
    else:
        met = judged <= row.target.value if row.target.sign == "<=" else judged >= row.target.value
        verdict, reason = MET if met else MISSED, ""
    return Result(row, *sides.values(), ratio, verdict, reason)


def status(results, noise):
    """What the table ends with, and in words. noise: why the machine was not quiet.

    1: a target is missed on a quiet machine, or a run failed; 77, as of a test that cannot be judged:
    targets are missed on a machine that is not quiet, or nothing was measured."""
    count = {v: sum(r.verdict == v for r in results) for v in VERDICTS}
    words = ", ".join(f"{n} {v}" for v, n in count.items())
    if count[FAILED]:
        return 1, words
    if count[MISSED] and noise:
        return 77, f"{words}: but the machine was not quiet, so that what is missed says little"
    if count[MISSED]:
        return 1, words
    if not any(r.ours for r in results):
        return 77, f"{words}: nothing was measured"
    return 0, words


# ---- in words --------------------------------------------------------------------------------

def short(x):
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def cell(figure):
    if not figure:
        return "-"
    return f"{short(figure.median)} ({short(figure.low)}-{short(figure.high)})"


LINE = "  {:36} {:10} {:23} {:23} {:23} {:>6} {:>8}  {}"


def head():
    return LINE.format("what", "unit", "ours", "peer", "limit", "ratio", "target", "met or missed")


def line(result):
    row = result.row
    target = f"{row.target.sign} {row.target.value:g}" if row.target else "-"
    ratio = "-" if result.ratio is None else short(result.ratio)
    verdict = f"{result.verdict}: {result.reason}" if result.reason else result.verdict or "-"
    return LINE.format(row.what, row.unit, *(cell(getattr(result, s)) for s in SIDES), ratio, target, verdict)


def as_json(group, result):
    row = result.row
    said = {"group": group.name, "what": row.what, "unit": row.unit, "ratio": result.ratio,
            "ratio_to": ratio_to(row),
            "target": row.target and {"of": row.target.of or "ours", "sign": row.target.sign,
                                      "value": row.target.value},
            "verdict": result.verdict or "no target", "reason": result.reason}
    for name in SIDES:
        side, figure = getattr(row, name), getattr(result, name)
        said[name] = side and {"run": side.run.name, "figure": side.figure,
                               **(figure._asdict() if figure else {})}
    return said
