"""Write the page of a backtest: one HTML file with charts that loads nothing from other hosts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from evenkeel.backtest.console import LEGEND, TABLE_COLUMNS, later, means
from evenkeel.backtest.scoring import Score
from evenkeel.render.charts import NARROW, WIDE
from evenkeel.render.formatting import imbalance_text, percent_text, template
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
    thin,
)
from partitioning.errors import InputError

_RIGHT, _HEIGHT = 130, 320
_PLOT = _HEIGHT - TOP - BOTTOM


def write_page(path: str, scores: Sequence[Score], title: str) -> None:
    """Write the page of these scores to `path`; an existing file is replaced.

    Means are over all hashes. The lines over the windows are those of the first hash.

    Raises
    ------
    InputError : the file cannot be written
    """
    parts = []
    for count in dict.fromkeys(s.channels for s in scores):
        own = [s for s in scores if s.channels == count]
        first = [s for s in own if s.salt == own[0].salt]
        parts.append(
            {
                "channels": count,
                "windows": len({s.window for s in own}),
                "lines": {"wide": lines_svg(first), "narrow": lines_svg(first, width=NARROW)},
                "costs": {"wide": costs_svg(own), "narrow": costs_svg(own, width=NARROW)},
                "rows": means(own),
            }
        )
    legend = LEGEND.format(windows=parts[0]["windows"])
    page = template("backtest.html.j2").render(
        title=title, parts=parts, columns=TABLE_COLUMNS, legend=legend
    )
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", path, "Give a file in a folder that exists"
        ) from error


def lines_svg(scores: Sequence[Score], *, width: int = WIDE) -> str:
    """Draw the imbalance on each next window, one line per strategy, the best one dark.

    Parameters
    ----------
    scores : scores with the same number of channels
    width : WIDE or NARROW, in pixels
    """
    groups = _by_strategy(scores)
    best = min(groups, key=lambda name: np.mean([s.imbalance for s in groups[name]]))
    floors = [s.floor for s in next(iter(groups.values()))]
    low, high = _range([*(s.imbalance for s in scores), *floors])
    last = max(len(floors) - 1, 1)
    x = {
        "field": "window",
        "type": "quantitative",
        "scale": {"domain": [0, last], "nice": False},
        "axis": {"title": "window", "grid": False, "tickMinStep": 1, "tickCount": 8, "format": "d"},
    }
    y = _imbalance_axis(low, high)

    def data(values: Sequence[float]) -> Spec:
        points = thin([(float(i), v) for i, v in enumerate(values)])
        return {"values": [{"window": i, "imbalance": v} for i, v in points]}

    layers = [line_mark(data(floors), FAIR, x, y, "floor", dash=[2, 3])]
    for name in sorted(groups, key=lambda name: name == best):
        values = [s.imbalance for s in groups[name]]
        color, thick = (AFTER, 2.5) if name == best else (MUTED, 1.0)
        text = f"{name}: mean {imbalance_text(float(np.mean(values)))}"
        layers.append(line_mark(data(values), color, x, y, text, thick=thick))
    ends = {"floor": floors[-1]} | {name: group[-1].imbalance for name, group in groups.items()}
    places = apart([_place(value, low, high) for value in ends.values()], _PLOT)
    for name, place in zip(ends, places, strict=True):
        color, weight = (AFTER, 600) if name == best else (MUTED, 400)
        layers.append(
            text_mark(name, width - LEFT - _RIGHT, place, color, "left", 6, weight=weight)
        )
    return draw({"layer": layers}, width, _HEIGHT, label="Imbalance over the windows", right=_RIGHT)


def costs_svg(scores: Sequence[Score], *, width: int = WIDE) -> str:
    """Draw mean imbalance on the next window against the mean share of load moved.

    The parameters are those of `lines_svg`.
    """
    points = {
        name: (
            float(np.mean([s.moved for s in later(group)])) * 100,
            float(np.mean([s.imbalance for s in group])),
        )
        for name, group in _by_strategy(scores).items()
    }
    low, high = _range([v for _, v in points.values()])
    most = max(max(m for m, _ in points.values()) * 1.02, 1.0)
    x = {
        "field": "moved",
        "type": "quantitative",
        "scale": {"domain": [0, most], "nice": False},
        "axis": {"title": "load moved per window, %", "grid": False, "tickCount": 4},
    }
    y = _imbalance_axis(low, high)
    layers: list[Spec] = []
    across = (width - LEFT - _RIGHT) / most
    places = _places([(m * across, _place(v, low, high)) for m, v in points.values()])
    for (name, (moved, value)), place in zip(points.items(), places, strict=True):
        text = f"{name}: {imbalance_text(value)} for {percent_text(moved / 100)}"
        layers.append(
            {
                "data": {"values": [{"moved": moved, "imbalance": value}]},
                "mark": {
                    "type": "point", "filled": True, "size": 70, "color": AFTER, "opacity": 1
                },
                "encoding": {"x": x, "y": y, "description": {"value": text}},
            }
        )  # fmt: skip
        layers.append(text_mark(name, moved * across, place, MUTED, "left", 8))
    return draw(
        {"layer": layers}, width, _HEIGHT, label="Imbalance against load moved", right=_RIGHT
    )


def _by_strategy(scores: Sequence[Score]) -> dict[str, list[Score]]:
    names = dict.fromkeys(s.strategy for s in scores)
    return {name: [s for s in scores if s.strategy == name] for name in names}


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of the values, widened by a factor at both ends."""
    low, high = min(values), max(values)
    margin = max((high / low) ** 0.05, 1.005)
    return low / margin, high * margin


def _place(value: float, low: float, high: float) -> float:
    """Return the pixels from the top of the plot, on a logarithmic scale."""
    return math.log(high / value) / math.log(high / low) * _PLOT


def _places(points: Sequence[tuple[float, float]]) -> list[float]:
    """Return the heights of labels of points (x, y), moved apart where points are close."""
    places = [y for _, y in points]
    order = sorted(range(len(points)), key=points.__getitem__)
    ends = [i for i in range(1, len(order)) if points[order[i]][0] - points[order[i - 1]][0] > 75]
    for start, end in pairwise([0, *ends, len(order)]):
        near = order[start:end]
        for i, place in zip(near, apart([places[i] for i in near], _PLOT), strict=True):
            places[i] = place
    return places


def _imbalance_axis(low: float, high: float) -> Spec:
    return {
        "field": "imbalance",
        "type": "quantitative",
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"title": None, "tickCount": 6, "format": ".3~f"},
    }
