"""Draw the pictures of docs/papers into docs/img, from the figures in the pages.

python -m benchmarks.papers.pictures
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.papers.pages import DOCS, figures, text
from evenkeel.render.vega import (
    AFTER,
    BOTTOM,
    FAIR,
    LEFT,
    MUTED,
    TOP,
    Spec,
    apart,
    draw,
    line_mark,
    text_mark,
)

WIDTH, HEIGHT, RIGHT = 560, 300, 130
INNER, PLOT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
Point = tuple[float, float]
#: (m, b) that the paper gives at LLL, as far as it gives both.
GEDIK = {"scan, redist: paper": (1.23, 1.32), "readj: paper": (1.34, 1.2)}


def main() -> None:
    """Draw every picture whose figures exist."""
    pages = text()
    for name, draws in _DRAWN.items():
        if found := figures(name, pages):
            file = DOCS / "img" / "papers" / f"{name}.svg"
            file.write_text(draws(found.splitlines()))


def _gedik(lines: Sequence[str]) -> str:
    """Draw balance against migration, all resources linear."""
    points: dict[str, Point] = dict(GEDIK)
    heads = next(line for line in lines if "b_s" in line).split()
    for line in lines:
        if line[:14].strip() == "LLL":
            name, values = line[14:25].strip(), line[25:].split()
            points[name] = (float(values[heads.index("m")]), float(values[heads.index("b")]))
    title = "state moved, over the new channel's share (logarithmic)"
    return _points(points, title, "Gedik's balance b against migration m, all resources linear")


def _guo_zhou(lines: Sequence[str]) -> str:
    """Draw variance against state moved a window."""
    points: dict[str, Point] = {}
    for line in itertools.takewhile(str.strip, lines[2:]):
        name, variance, _, _, _, _, moved, _, _, *rest = line.split()
        theirs = " ".join(rest)
        if float(moved.rstrip("%")) > 0:
            points[name] = (float(moved.rstrip("%")), float(variance))
        if published := re.match(r"([\d.e]+) \(\d+\), ([\d.]+)%", theirs):
            points[f"{name}: paper"] = (float(published[2]), float(published[1]))
    title = "state moved a window, percent (both logarithmic)"
    return _points(points, title, "Guo and Zhou: variance of the loads against state moved")


def _points(points: Mapping[str, Point], title: str, told: str) -> str:
    """Draw named points, both scales logarithmic."""
    x = _axis("across", title, points.values(), 0)
    y = _axis("up", None, points.values(), 1)
    layers: list[Spec] = []
    places = apart([_place(b, y) for _, b in points.values()], PLOT)
    low, high = x["scale"]["domain"]
    for (name, (a, b)), place in zip(points.items(), places, strict=True):
        color = AFTER if name == "frontier" else FAIR if "paper" in name else MUTED
        layers.append(
            {
                "data": {"values": [{"across": a, "up": b}]},
                "mark": {"type": "point", "filled": True, "size": 70, "color": color, "opacity": 1},
                "encoding": {"x": x, "y": y, "description": {"value": f"{name}: {a:g}, {b:g}"}},
            }
        )
        across = math.log(a / low) / math.log(high / low) * INNER
        layers.append(text_mark(name, across, place, color, "left", 8))
    return _drawn(layers, told)


def _rivetti(lines: Sequence[str]) -> str:
    """Draw lambda over the number of channels."""
    start = next(i for i, line in enumerate(lines) if "Fig. 14" in line) + 2
    counts = [float(k) for k in re.findall(r"k = (\d+)", lines[start])]
    curves = {}
    for line in lines[start + 1 :]:
        name, *values = line.split()
        curves[name] = [float(v) for v in values[::2]]  # means, beside the worst
    return _lines(
        curves, counts, "k", "channels; lambda in percent, logarithmic, Zipf-2", "frontier"
    )


def _reshape(lines: Sequence[str]) -> str:
    """Draw iterations with the threshold fixed and adapted."""
    start = next(i for i, line in enumerate(lines) if "tau" in line and "fixed  ratio" in line)
    rows = [line.split() for line in lines[start + 1 :]]
    rows = rows[: next(i for i, row in enumerate(rows) if not row)]
    curves = {name: [float(row[at]) for row in rows] for name, at in (("fixed", 1), ("adapted", 3))}
    taus = [float(row[0]) for row in rows]
    return _lines(curves, taus, "tau", "threshold tau; iterations, logarithmic", "adapted")


def _forecast(lines: Sequence[str]) -> str:
    """Draw the next window's imbalance over churn."""
    churns = [float(c) for c in re.findall(r"(\d+)%", lines[1])]
    curves = {line[:20].strip(): [float(v) for v in re.findall(r"\d\.\d{3}", line)]
              for line in lines[2:]}  # fmt: skip
    title = "ranks that swap between windows, percent; next window's imbalance"
    return _lines(curves, churns, "churn", title, "frontier, forecast")


def _flexd(lines: Sequence[str]) -> str:
    """Draw lambda over the skew, 10 channels."""
    skews = [1.0, 1.5, 2.0, 2.5, 3.0]
    curves = {}
    start = next(i for i, line in enumerate(lines) if "10 channels" in line)
    for line in lines[start + 3 :]:
        values = re.findall(r"([\d.]+)%", line)
        if len(values) != len(skews):
            break
        # Values near 0 are drawn at the foot of a logarithmic scale.
        curves[line[:20].strip()] = [max(float(v), 0.1) for v in values]
    shown = ("uniform", "dkg", "pkg", "pstream", "dalton", "flexd")
    curves = {name: curves[name] for name in shown if name in curves}
    return _lines(
        curves, skews, "z", "skew z; lambda in percent, logarithmic, 10 channels", "flexd"
    )


def _flexd_time(lines: Sequence[str]) -> str:
    """Draw lambda over time at z = 2, of those that the paper draws."""
    start = next(i for i, line in enumerate(lines) if line.startswith("z = 2 "))
    windows = [float(n) for n in re.findall(r" (\d+)(?= )", lines[start][20:])]
    curves = {}
    for line in lines[start + 1 : start + 4]:
        values = re.findall(r"([\d.]+)%", line)
        curves[line[:20].strip()] = [max(float(v), 0.1) for v in values[: len(windows)]]
    title = "window of 10,000 rows, z = 2; lambda in percent, logarithmic"
    return _lines(curves, windows, "window", title, "flexd")


def _throughput(lines: Sequence[str]) -> str:
    """Draw throughput over the skew."""
    start = next(i for i, line in enumerate(lines) if "z =" in line)
    skews = [float(z) for z in re.findall(r"z = ([\d.]+)", lines[start])]
    curves = {}
    for line in lines[start + 1 :]:
        values = re.findall(r"[\d.]+", line[20:])
        if len(values) < len(skews) or line.startswith("  "):
            break
        curves[line[:20].strip()] = [float(v) for v in values[: len(skews)]]
    title = "skew z; thousand rows a second of 10 channels, logarithmic"
    return _lines(curves, skews, "z", title, "frontier, splitting")


def _dicer(lines: Sequence[str]) -> str:
    """Draw overload at percentiles."""
    marks = [int(p) for p in re.findall(r"p(\d+)", lines[1])]
    curves = {}
    for line in lines[2:]:
        values = re.findall(r"([\d.]+)%", line)
        if len(values) >= len(marks):
            curves[line[:16].strip()] = [float(v) for v in values[: len(marks)]]
    title = "percentile of the rounds; overload in percent, logarithmic"
    return _lines(curves, list(map(float, marks)), "p", title, "frontier")


def _lines(
    curves: Mapping[str, Sequence[float]], xs: Sequence[float], field: str, title: str, best: str
) -> str:
    points = [(x, v) for values in curves.values() for x, v in zip(xs, values, strict=True)]
    x = _axis(field, title, points, 0, logarithmic=False)
    y = _axis("value", None, points, 1)
    layers: list[Spec] = []
    ends = [_place(values[-1], y) for values in curves.values()]
    for (name, values), place in zip(curves.items(), apart(ends, PLOT), strict=True):
        color = AFTER if name == best else MUTED
        data = {"values": [{field: a, "value": v} for a, v in zip(xs, values, strict=True)]}
        thick = 2.5 if name == best else 1.0
        layers.append(line_mark(data, color, x, y, name, thick=thick))
        layers.append(text_mark(name, INNER, place, color, "left", 6))
    return _drawn(layers, title)


def _axis(
    field: str, title: str | None, points: Iterable[Point], at: int, *, logarithmic: bool = True
) -> Spec:
    values = [p[at] for p in points]
    low, high = min(values), max(values)
    domain = [low / 1.15, high * 1.15] if logarithmic else [low, high]
    kind = "log" if logarithmic else "linear"
    axis: Spec = {"title": title, "tickCount": 5, "grid": at == 1, "format": ".3~f"}
    if logarithmic:
        steps = (1, 2, 5) if high < 100 * low else (1,)
        ticks = [s * 10.0**e for e in range(-3, 6) for s in steps]
        axis["values"] = [v for v in ticks if domain[0] <= v <= domain[1]]
    scale = {"type": kind, "domain": domain, "nice": False}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def _place(value: float, axis: Spec) -> float:
    """Return the distance from the top of the plot, in pixels."""
    low, high = axis["scale"]["domain"]
    return math.log(high / value) / math.log(high / low) * PLOT


def _drawn(layers: list[Spec], told: str) -> str:
    svg = draw({"layer": layers}, WIDTH, HEIGHT, label=told, right=RIGHT)
    # No page around it gives it a font, and a colour that can be read on light and dark.
    return svg.replace("<svg ", '<svg font-family="sans-serif" color="#768390" ', 1)


_DRAWN = {
    "gedik": _gedik,
    "rivetti": _rivetti,
    "guo_zhou": _guo_zhou,
    "flexd": _flexd,
    "flexd_time": _flexd_time,
    "throughput": _throughput,
    "reshape": _reshape,
    "dicer": _dicer,
    "forecast": _forecast,
}

if __name__ == "__main__":
    main()
