"""Draw charts as SVG text: load of each channel, and imbalance against bytes moved.

The functions take plain data, so that a report and a web page draw the same chart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from evenkeel.render.formatting import count_text, imbalance_text
from evenkeel.render.vega import (
    AFTER,
    BEFORE,
    BOTTOM,
    FAIR,
    GLYPH,
    INK,
    LEFT,
    PAPER,
    Spec,
    draw,
    line_mark,
    thin,
)

#: Pixels of a chart on a desk screen, and on a phone.
WIDE = 900
NARROW = 350
#: Chart width in pixels -> most channels drawn as bars. More are drawn as a curve by rank,
#: because bars would be too thin to see.
MAX_BARS = {WIDE: 64, NARROW: 24}
LOADS = "Load of each channel before and after, against its fair share"


def loads_svg(
    names: Sequence[str],
    capacities: Sequence[float],
    before: Sequence[float],
    after: Sequence[float],
    *,
    width: int = WIDE,
    links: Sequence[str] = (),
) -> str:
    """Draw the load of each channel before (pale) and after (dark), and its fair share (red).

    Parameters
    ----------
    names : name of each channel, (N,)
    capacities : capacity weight of each channel after; 0 if it is closed or dropped, (N,)
    before, after : load of each channel, (N,), in any unit; the axis shows multiples of the mean
        load of an open channel
    width : WIDE or NARROW, in pixels
    links : address behind each bar; none, or too few: the other bars are no links
    """
    open_ = max(sum(c > 0 for c in capacities), 1)
    mean = sum(after) / open_ or 1.0
    mean_capacity = sum(capacities) / open_ or 1.0
    fair = [c / mean_capacity for c in capacities]
    old, new = [b / mean for b in before], [a / mean for a in after]
    if len(names) > MAX_BARS.get(width, MAX_BARS[WIDE]):
        return _ranked(old, new, fair, width)
    rows = _bar_rows(names, (before, after), (old, new, fair), links)
    return _bars(rows, [_short(n) for n in names], width, linked=bool(links))


def _bar_rows(
    names: Sequence[str],
    loads: tuple[Sequence[float], Sequence[float]],
    shares: tuple[list[float], list[float], list[float]],
    links: Sequence[str],
) -> list[Spec]:
    """Return the values of each channel's bars.

    Parameters
    ----------
    loads : before and after, in any unit
    shares : before, after and fair, as multiples of the mean
    """
    rows: list[Spec] = [
        {
            "channel": i,
            "before": b,
            "after": a,
            "fair": f,
            "number": f"{a:.2f}",
            "description": f"channel {name}: {count_text(x)} before, {count_text(y)} after "
            f"({imbalance_text(b)} and {imbalance_text(a)} of the mean)",
        }
        for i, (name, b, a, f, x, y) in enumerate(zip(names, *shares, *loads, strict=True))
    ]
    for row, link in zip(rows, links, strict=False):
        row["link"] = link
    return rows


def _bars(rows: list[Spec], text: list[str], width: int, *, linked: bool) -> str:
    """Draw two bars a channel, with a mark at its fair share; `text` is below each."""
    longest = max(map(len, text)) * GLYPH
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
    y: Spec = {
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": {"title": None, "tickCount": 5},
    }
    description = {"field": "description", "type": "nominal"}
    step = (width - LEFT) / len(rows)
    top = max((max(row["before"], row["after"], row["fair"]) for row in rows), default=1.0)
    y["scale"]["domainMax"] = top * 1.08
    layers: list[Spec] = [
        _bar("before", BEFORE, min(0.76 * step, 56), x, y, description),
        _bar("after", AFTER, min(0.38 * step, 28), x, y, description),
        {
            "mark": {"type": "tick", "color": FAIR, "thickness": 1.5, "size": step, "aria": False},
            "encoding": {"x": x, "y": {"field": "fair", **y}},
            "transform": [{"filter": "datum.fair > 0"}],
        },
    ]
    if step > 5 * GLYPH:
        # Each dark bar carries its number where there is room for it. A pale bar may be behind the
        # number, or the line of the fair share: an edge of paper keeps it readable.
        number = {"field": "number", "type": "nominal"}
        at = {"x": x, "y": {"field": "after", **y}, "text": number}
        edge = {"stroke": PAPER, "strokeWidth": 3, "strokeJoin": "round"}
        text_of = {"type": "text", "baseline": "bottom", "dy": -4, "color": INK, "aria": False}
        layers.append({"mark": text_of | edge, "encoding": at})
    if linked:
        layers[1]["encoding"]["href"] = {"field": "link", "type": "nominal"}
    bottom = BOTTOM if flat else longest + 12
    chart: Spec = {"layer": layers, "data": {"values": rows}}
    return draw(chart, width, 250 - BOTTOM + bottom, label=LOADS, bottom=bottom)


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
    return draw({"layer": layers}, width, 250, label=LOADS)


def _bar(field: str, color: str, size: float, x: Spec, y: Spec, description: Spec) -> Spec:
    return {
        "mark": {"type": "bar", "color": color, "width": size},
        "encoding": {"x": x, "y": {"field": field, **y}, "description": description},
    }


def _short(name: str) -> str:
    return name if len(name) <= 10 else f"{name[:9]}…"


def _js(values: Sequence[str]) -> str:
    """Return a Vega expression for a list of texts; JSON is valid Vega."""
    return json.dumps(list(values))
