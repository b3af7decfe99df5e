"""Charts of a table's past: the imbalance of each epoch, and the bytes that its plan moves."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.inspect.past_plan import PastPlan
from evenkeel.render.charts import WIDE
from evenkeel.render.formatting import byte_unit, bytes_text
from evenkeel.render.vega import AFTER, BEFORE, FAIR, LEFT, MUTED, Spec, draw, line_mark, thin

#: Most epochs that are labelled below the axis. With more, labels overlap at the usual width.
MAX_TICKS = 12


def epochs_svg(plans: Sequence[PastPlan], *, width: int = WIDE) -> str:
    """Draw imbalance against epoch: by hashing alone, before, after, and the floor.

    Parameters
    ----------
    plans : that led to each epoch, oldest first; at least one
    width : of the picture, pixels

    Returns
    -------
    SVG text.
    """
    lines = [
        ("hashing alone", MUTED, [5, 3], lambda p: p.imbalance_hashing),
        ("before", BEFORE, None, lambda p: p.imbalance_before),
        ("after", AFTER, None, lambda p: p.imbalance_after),
        ("floor", FAIR, [2, 3], lambda p: p.floor),
    ]
    x = _epochs(plans, None)
    y: Spec = {
        "field": "imbalance",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": None, "tickCount": 5},
    }
    layers = []
    for label, color, dash, value in lines:
        points = thin([(float(p.epoch), value(p)) for p in plans])
        data = {"values": [{"epoch": e, "imbalance": i} for e, i in points]}
        layers.append(line_mark(data, color, x, y, label, dash=dash, thick=2.5, points=len(plans)))
    return draw({"layer": layers}, width, 200, label="Imbalance of each epoch")


def planned_svg(plans: Sequence[PastPlan], *, width: int = WIDE) -> str:
    """Draw the bytes that the plan of each epoch moves, below `epochs_svg` and on its axis."""
    unit, scale = byte_unit(max(p.bytes for p in plans))
    rows = [
        {
            "epoch": p.epoch,
            "planned": p.bytes / scale,
            "text": f"epoch {p.epoch}: {bytes_text(p.bytes)} planned to move",
        }
        for p in plans
    ]
    first, last = plans[0].epoch, plans[-1].epoch
    step = (width - LEFT) / (last - first + 1)
    y: Spec = {
        "field": "planned",
        "type": "quantitative",
        "scale": {"zero": True},
        "axis": {"title": None, "tickCount": 3, "format": ",~r"},
    }
    chart: Spec = {
        "data": {"values": rows},
        "mark": {"type": "bar", "color": AFTER, "width": max(min(0.5 * step, 28), 1)},
        "encoding": {
            "x": _epochs(plans, f"epoch; bars: state that the plan moves, {unit}"),
            "y": y,
            "description": {"field": "text", "type": "nominal"},
        },
    }
    return draw(chart, width, 130, label="State that the plan of each epoch moves")


def _epochs(plans: Sequence[PastPlan], title: str | None) -> Spec:
    first, last = plans[0].epoch, plans[-1].epoch
    return {
        "field": "epoch",
        "type": "quantitative",
        "scale": {"domain": [first - 0.5, last + 0.5], "nice": False},
        "axis": {"title": title, "grid": False, "format": "d", "values": _ticks(first, last)},
    }


def _ticks(first: int, last: int) -> list[int]:
    """List the epochs to label below the axis: the last one, and back from it in even steps."""
    step = -(-(last - first + 1) // MAX_TICKS)
    return list(range(last, first - 1, -step))
