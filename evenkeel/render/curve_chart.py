"""The chart of a plan's curve: imbalance against bytes moved, with the point that was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenkeel.render.charts import WIDE
from evenkeel.render.formatting import byte_unit, bytes_text, imbalance_text
from evenkeel.render.vega import (
    AFTER,
    BOTTOM,
    FAIR,
    GLYPH,
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
    low, high = _heights([i for _, i in every] + [v for _, v in levels])
    most = max([b for b, _ in every] + [1.0]) * 1.02
    unit, scale = byte_unit(most)
    x, y = _curve_axes(most / scale, unit, low, high, 8 if width >= WIDE else 4)

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
        shown = f"{label} {imbalance_text(value)}"
        layers.append(text_mark(shown, width - LEFT - right, place, MUTED, "left", 6))
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
    across = (width - LEFT - right) / most
    layers.append(
        _point_label(text, curve, chosen, across, most, lambda v: (high - v) / (high - low) * plot)
    )
    about = f"Imbalance against bytes moved; chosen: {text}"
    return draw({"layer": layers}, width, height, label=about, right=right)


def _heights(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis that shows these values, with a margin on both sides."""
    top, bottom = max(values), min(values)
    margin = max((top - bottom) * 0.06, 0.004)
    return max(bottom - margin, 0.0), top + margin


def _curve_axes(most: float, unit: str, low: float, high: float, ticks: int) -> tuple[Spec, Spec]:
    """Return the axes of bytes, from 0 to `most` in `unit`, and of imbalance."""
    x: Spec = {
        "field": "bytes",
        "type": "quantitative",
        "scale": {"domain": [0, most], "nice": False},
        "axis": {
            "title": f"state to move, {unit}",
            "tickCount": ticks,
            "grid": False,
            "format": ",~r",
        },
    }
    y: Spec = {
        "field": "imbalance",
        "type": "quantitative",
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {"title": None, "tickCount": 6},
    }
    return x, y


def _point_label(
    text: str,
    curve: Sequence[tuple[float, float]],
    chosen: tuple[float, float],
    across: float,
    most: float,
    down: Callable[[float], float],
) -> Spec:
    """Place the label of the chosen point.

    Parameters
    ----------
    text : of the label
    curve : (bytes, imbalance) in order of bytes
    chosen : (bytes, imbalance) of the point
    across : pixels for each byte
    most : bytes at the right end
    down : maps an imbalance to pixels from the top
    """
    # The curve falls. To the right of the point the space above it is free. To the left the label
    # must stay above the curve at the label's far end, if the curve reaches that far.
    side, gap, over = "left", 8.0, chosen[1]
    if chosen[0] > most / 2:
        far = chosen[0] - (len(text) * GLYPH + 12) / across
        left = [i for b, i in curve if b <= far]
        side, gap, over = "right", 4.0 if left else -8.0, max([*left[-1:], chosen[1]])
    place = max(down(over) - 12, 4)
    return text_mark(text, chosen[0] * across, place, INK, side, gap, weight=600)


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
