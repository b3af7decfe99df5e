"""Draw charts as SVG text: load of each channel, and imbalance against bytes moved.

The functions take plain data, so that a report and a web page draw the same chart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from evenkeel.render.formatting import byte_unit, bytes_text, count_text, imbalance_text
from evenkeel.render.vega import (
    AFTER,
    BEFORE,
    BOTTOM,
    FAIR,
    INK,
    LEFT,
    MUTED,
    PAPER,
    TOP,
    Spec,
    apart,
    draw,
    line_mark,
    text_mark,
    thin,
)

WIDE = 900
NARROW = 350
#: Chart width in pixels -> most channels drawn as bars. More are drawn as a curve by rank,
#: because bars would be too thin to see.
MOST_BARS = {WIDE: 64, NARROW: 24}
LOADS = "Load of each channel before and after, against its fair share"
# Width of one character of a label, in pixels, rounded up.
_GLYPH = 7


def loads_svg(
    names: Sequence[str],
    capacities: Sequence[float],
    before: Sequence[float],
    after: Sequence[float],
    *,
    width: int = WIDE,
) -> str:
    """Draw the load of each channel before (pale) and after (dark), and its fair share (red).

    Parameters
    ----------
    names : name of each channel, (N,)
    capacities : capacity weight of each channel after; 0 if it is closed or dropped, (N,)
    before, after : load of each channel, (N,), in any unit; the axis shows multiples of the mean
        load of an open channel
    width : WIDE or NARROW, in pixels
    """
    open_ = max(sum(c > 0 for c in capacities), 1)
    mean = sum(after) / open_ or 1.0
    mean_capacity = sum(capacities) / open_ or 1.0
    fair = [c / mean_capacity for c in capacities]
    old, new = [b / mean for b in before], [a / mean for a in after]
    if len(names) > MOST_BARS.get(width, MOST_BARS[WIDE]):
        return _ranked(old, new, fair, width)
    rows = [
        {
            "channel": i,
            "before": b,
            "after": a,
            "fair": f,
            "told": f"channel {name}: {count_text(x)} before, {count_text(y)} after "
            f"({imbalance_text(b)} and {imbalance_text(a)} of the mean)",
        }
        for i, (name, b, a, f, x, y) in enumerate(
            zip(names, old, new, fair, before, after, strict=True)
        )
    ]
    text = [_short(n) for n in names]
    longest = max(map(len, text)) * _GLYPH
    flat = longest + 6 < (width - LEFT) / len(rows)
    x = {
        "field": "channel",
        "type": "ordinal",
        "scale": {"paddingInner": 0.24, "paddingOuter": 0.12},
        "axis": {
            "title": "channel" if flat else None,
            "labelExpr": f"{_js(text)}[datum.value]",
            "labelAngle": 0 if flat else -90,
            "labelOverlap": False,
            "domain": False,
            "ticks": False,
        },
    }
    y = {"type": "quantitative", "scale": {"zero": True}, "axis": {"title": None, "tickCount": 5}}
    told = {"field": "told", "type": "nominal"}
    step = (width - LEFT) / len(rows)
    layers = [
        _bar("before", BEFORE, min(0.76 * step, 56), x, y, told),
        _bar("after", AFTER, min(0.38 * step, 28), x, y, told),
        {
            "mark": {"type": "tick", "color": FAIR, "thickness": 1.5, "size": step, "aria": False},
            "encoding": {"x": x, "y": {"field": "fair", **y}},
            "transform": [{"filter": "datum.fair > 0"}],
        },
    ]
    bottom = BOTTOM if flat else longest + 12
    chart: Spec = {"layer": layers, "data": {"values": rows}}
    return draw(chart, width, 250 - BOTTOM + bottom, told=LOADS, bottom=bottom)


def curve_svg(
    curve: Sequence[tuple[float, float]],
    bound: Sequence[tuple[float, float]],
    chosen: tuple[float, float],
    levels: Sequence[tuple[str, float]],
    *,
    width: int = WIDE,
) -> str:
    """Draw imbalance against bytes moved.

    Parameters
    ----------
    curve, bound : (bytes, imbalance) in order of bytes: what plans reach, and the lower bound
    chosen : (bytes, imbalance) of the plan
    levels : (label, imbalance) of horizontal lines: floor, aim, hashing alone
    width : WIDE or NARROW, in pixels
    """
    right, height = 104, 280
    curve = _through(curve, chosen)
    every = [*curve, *bound, chosen]
    top = max([i for _, i in every] + [v for _, v in levels])
    bottom = min([i for _, i in every] + [v for _, v in levels])
    margin = max((top - bottom) * 0.06, 0.004)
    low, high = max(bottom - margin, 0.0), top + margin
    most = max([b for b, _ in every] + [1.0]) * 1.02
    unit, scale = byte_unit(most)
    x = {
        "field": "bytes",
        "type": "quantitative",
        "scale": {"domain": [0, most / scale], "nice": False},
        "axis": {
            "title": f"state moved, {unit}",
            "tickCount": 8 if width >= WIDE else 4,
            "grid": False,
            "format": ",~r",
        },
    }
    y = {
        "field": "imbalance",
        "type": "quantitative",
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {"title": None, "tickCount": 6},
    }

    def points(line: Sequence[tuple[float, float]]) -> Spec:
        return {"values": [{"bytes": b / scale, "imbalance": i} for b, i in thin(line)]}

    layers: list[Spec] = []
    text = f"{imbalance_text(chosen[1])} for {bytes_text(chosen[0])}"
    plot = height - TOP - BOTTOM
    places = [(high - v) / (high - low) * plot for _, v in levels]
    for (label, value), place in zip(levels, apart(places, plot), strict=True):
        layers.append(
            {
                "data": {"values": [{"imbalance": value}]},
                "mark": {"type": "rule", "color": FAIR, "opacity": 0.75, "strokeDash": [2, 3]},
                "encoding": {"y": y, "description": {"value": f"{label} {imbalance_text(value)}"}},
            }
        )
        told = f"{label} {imbalance_text(value)}"
        layers.append(text_mark(told, width - LEFT - right, place, MUTED, "left", 6))
    if bound:
        layers.append(line_mark(points(bound), MUTED, x, y, "lower bound", dash=[5, 3]))
    if curve:
        layers.append(line_mark(points(curve), AFTER, x, y, "the curve", step=True))
    layers.append(
        {
            "data": points([chosen]),
            "mark": {
                "type": "point",
                "filled": True,
                "size": 90,
                "color": AFTER,
                "stroke": PAPER,
                "strokeWidth": 2,
                "opacity": 1,
            },
            "encoding": {"x": x, "y": y, "description": {"value": f"chosen: {text}"}},
        }
    )
    # The curve falls. To the right of the point the space above it is free. To the left the label
    # must stay above the curve at the label's far end, if the curve reaches that far.
    across = (width - LEFT - right) / most
    side, gap, over = "left", 8.0, chosen[1]
    if chosen[0] > most / 2:
        far = chosen[0] - (len(text) * _GLYPH + 12) / across
        left = [i for b, i in curve if b <= far]
        side, gap, over = "right", 4.0 if left else -8.0, max([*left[-1:], chosen[1]])
    place = max((high - over) / (high - low) * plot - 12, 4)
    layers.append(text_mark(text, chosen[0] * across, place, INK, side, gap, weight=600))
    told = f"Imbalance against bytes moved; chosen: {text}"
    return draw({"layer": layers}, width, height, told=told, right=right)


def _through(
    curve: Sequence[tuple[float, float]], chosen: tuple[float, float]
) -> list[tuple[float, float]]:
    """Return the curve, made to pass through the chosen point if that point is below it.

    One strategy traces the curve. A rollback or another strategy can reach a better point.
    """
    size, value = chosen
    before = [(b, i) for b, i in curve if b <= size]
    if not curve or (before and before[-1][1] <= value):
        return list(curve)
    return [*before, chosen, *((b, i) for b, i in curve if b > size and i < value)]


def _ranked(old: list[float], new: list[float], fair: list[float], width: int) -> str:
    """Draw load over fair share by rank, for more channels than fit as bars."""
    x = {
        "field": "rank",
        "type": "quantitative",
        "scale": {"domain": [1, len(fair)], "nice": False},
        "axis": {
            "title": "channels, fullest first",
            "grid": False,
            "format": ",d",
            "tickCount": 8 if width >= WIDE else 4,
        },
    }
    y = {
        "field": "share",
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": {"title": None, "tickCount": 5},
    }

    def ranks(loads: list[float]) -> Spec:
        shares = sorted((a / f for a, f in zip(loads, fair, strict=True) if f > 0), reverse=True)
        line = [(float(i), s) for i, s in enumerate(shares, 1)]
        return {"values": [{"rank": i, "share": s} for i, s in thin(line)]}

    layers = [
        {
            "data": {"values": [{"share": 1}]},
            "mark": {"type": "rule", "color": FAIR, "strokeWidth": 1.5},
            "encoding": {"y": y, "description": {"value": "fair share"}},
        },
        line_mark(ranks(old), BEFORE, x, y, "before", thick=2.5),
        line_mark(ranks(new), AFTER, x, y, "after", thick=2.5),
    ]
    return draw({"layer": layers}, width, 250, told=LOADS)


def _bar(field: str, color: str, size: float, x: Spec, y: Spec, told: Spec) -> Spec:
    return {
        "mark": {"type": "bar", "color": color, "width": size},
        "encoding": {"x": x, "y": {"field": field, **y}, "description": told},
    }


def _short(name: str) -> str:
    return name if len(name) <= 10 else f"{name[:9]}…"


def _js(values: Sequence[str]) -> str:
    """Return a Vega expression for a list of texts; JSON is valid Vega."""
    return json.dumps(list(values))
