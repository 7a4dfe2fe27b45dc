# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The page: how latencies are distributed, and bandwidth over the size of a message, as one SVG."""
import math
import statistics
from collections import namedtuple
from xml.sax.saxutils import escape

from table import Figure

WIDTH, HEIGHT = 1000, 940
LEFT, RIGHT, PLOT_HEIGHT = 90, 220, 330  # right of the plot is the legend
TOPS = (80, 530)
INK, GRID = "#1a1a1a", "#d5d5d5"
COLOURS = ("#0b5394", "#b45309", "#2e7d32", "#7b1fa2", "#9f1239")
RAW_COLOURS = ("#1a1a1a", "#6b6b6b")  # dashed: what weft is beside

# One axis: what it says, its ticks as (value, words), how a value is placed, 0 to 1.
Axis = namedtuple("Axis", "title ticks place")
Line = namedtuple("Line", "name raw points")  # points: x, y, lowest and highest y


# ---- what is drawn -------------------------------------------------------------------------------

def distributions(runs, samples):
    """Of each run: the median over the rounds of each quantile."""
    lines = []
    for name, run in runs.items():
        rounds = [f["quantiles"] for f in samples.figures.get(run.name, []) if f["quantiles"]]
        points = []
        for q in rounds[0] if rounds else ():
            if float(q) < 100:
                us = [r[q] for r in rounds]
                points.append((float(q), statistics.median(us), min(us), max(us)))
        if points and not samples.why_not(run):
            lines.append(Line(name, name.startswith("raw"), points))
    return lines


def bandwidths(by_name, samples):
    lines = []
    for name, by_size in by_name.items():
        points = []
        for size, run in by_size.items():
            figure = Figure.of(samples.why_not(run) is None and
                               [f["MiB/s"] for f in samples.figures.get(run.name, [])])
            if figure:
                points.append((size, figure.median, figure.low, figure.high))
        if points:
            lines.append(Line(name, name.startswith("raw"), points))
    return lines


# ---- axes ----------------------------------------------------------------------------------------

def nines(percent):
    """Each further nine is as far: 0, 90, 99, 99.9."""
    return -math.log10(1 - percent / 100)


def percentiles(title):
    ticks = [(p, f"{p:g} %") for p in (0, 50, 90, 99, 99.9, 99.99)]
    return Axis(title, ticks, lambda p: nines(p) / nines(99.99))


def logarithmic(title, values, base, words):
    low = math.floor(math.log(min(values), base) + 1e-9)
    high = max(math.ceil(math.log(max(values), base) - 1e-9), low + 1)
    # Of powers of two every other is enough.
    ticks = [(base ** n, words(base ** n)) for n in range(low, high + 1, 2 if base == 2 else 1)]
    return Axis(title, ticks, lambda v: (math.log(v, base) - low) / (high - low))


def bytes_in_words(n):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= unit:
            return f"{n // unit} {name}"
    return f"{n} B"


# ---- the drawing ---------------------------------------------------------------------------------

def text(x, y, words, size=13, anchor="start", turn="", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
            f'{turn} fill="{INK}">{escape(words)}</text>')


def stroke(x1, y1, x2, y2, colour, width=1.0):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>')


def panel(top, title, x, y, lines):
    right, bottom = WIDTH - RIGHT, top + PLOT_HEIGHT

    def at(px, py):
        return LEFT + x.place(px) * (right - LEFT), bottom - y.place(py) * PLOT_HEIGHT

    yield text(LEFT, top - 18, title, 16, weight="bold")
    for value, words in x.ticks:
        tick = LEFT + x.place(value) * (right - LEFT)
        yield stroke(tick, top, tick, bottom, GRID)
        yield text(tick, bottom + 18, words, anchor="middle")
    for value, words in y.ticks:
        tick = bottom - y.place(value) * PLOT_HEIGHT
        yield stroke(LEFT, tick, right, tick, GRID)
        yield text(LEFT - 8, tick + 4, words, anchor="end")
    yield stroke(LEFT, bottom, right, bottom, INK, 1.5)
    yield stroke(LEFT, top, LEFT, bottom, INK, 1.5)
    yield text((LEFT + right) / 2, bottom + 42, x.title, 14, "middle")
    middle = top + PLOT_HEIGHT / 2
    yield text(24, middle, y.title, 14, "middle", f' transform="rotate(-90 24 {middle:.1f})"')
    colours = {False: iter(COLOURS * len(lines)), True: iter(RAW_COLOURS * len(lines))}
    for i, line in enumerate(lines):
        colour, dashes = next(colours[line.raw]), ' stroke-dasharray="7 4"' if line.raw else ""
        where = " ".join("{:.1f},{:.1f}".format(*at(px, py)) for px, py, *_ in line.points)
        yield (f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        for px, py, low, high in line.points:
            (cx, cy), (_, below), (_, above) = at(px, py), at(px, low), at(px, high)
            yield stroke(cx, below, cx, above, colour)
            yield f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="2.5" fill="{colour}"/>'
        row = top + 14 + 22 * i
        yield (f'<line x1="{right + 16}" y1="{row}" x2="{right + 46}" y2="{row}" stroke="{colour}" '
               f'stroke-width="2"{dashes}/>')
        yield text(right + 54, row + 4, line.name)


def latency_panel(lines):
    if not lines:
        return [text(LEFT, TOPS[0], "latency: not measured", 16)]
    us = [v for line in lines for point in line.points for v in point[1:]]
    return panel(TOPS[0], "Latency of 8 B, half the round trip",
                 percentiles("share of the messages that took at most so long"), logarithmic("microseconds", us, 10, lambda v: f"{v:g}"), lines)


def bandwidth_panel(lines):
    if not lines:
        return [text(LEFT, TOPS[1], "bandwidth: not measured", 16)]
    sizes = [point[0] for line in lines for point in line.points]
    rates = [v for line in lines for point in line.points for v in point[1:]]
    return panel(TOPS[1], "Bandwidth, ours and raw UDP in packets of the same size",
                 logarithmic("size of a message", sizes, 2, bytes_in_words),
                 logarithmic("MiB/s", rates, 10, lambda v: f"{v:g}"), lines)


def svg(latency, bandwidth, about):
    """latency, bandwidth: Lines; about: what machine.about() says."""
    parts = [text(LEFT, 34, f"{about['weft']}, {about['processor']}, {about['processors']} processors, Linux "
                  f"{about['kernel']}, {about['date']}", 12),
             *latency_panel(latency), *bandwidth_panel(bandwidth),
             text(LEFT, HEIGHT - 14, "Medians of the rounds; the upright strokes are their ranges.", 12)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n")
