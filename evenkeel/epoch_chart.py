"""A picture of a table's past: imbalance by hashing alone, before and after each epoch, floor."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.charts import WIDE
from evenkeel.drawing import AFTER, BEFORE, FAIR, MUTED, Spec, draw, line_mark, thin
from partitioning.plan import Plan


def epochs_svg(plans: Sequence[Plan], *, width: int = WIDE) -> str:
    """Imbalance against the epoch, from the plans that led to each, oldest first."""
    lines = [
        ("hashing alone", MUTED, [5, 3], lambda p: p.imbalance_hashing),
        ("before", BEFORE, None, lambda p: p.imbalance_before),
        ("after", AFTER, None, lambda p: p.imbalance_after),
        ("floor", FAIR, [2, 3], lambda p: p.floor),
    ]
    first, last = plans[0].function.epoch, plans[-1].function.epoch
    x: Spec = {
        "field": "epoch",
        "type": "quantitative",
        "scale": {"domain": [first, max(last, first + 1)], "nice": False},
        "axis": {"title": "epoch", "grid": False, "format": "d", "tickMinStep": 1},
    }
    y: Spec = {
        "field": "imbalance",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": None, "tickCount": 5},
    }
    layers = []
    for told, color, dash, value in lines:
        points = thin([(float(p.function.epoch), value(p)) for p in plans])
        data = {"values": [{"epoch": e, "imbalance": i} for e, i in points]}
        layers.append(line_mark(data, color, x, y, told, dash=dash, thick=2.5))
    return draw({"layer": layers}, width, 220, told="Imbalance of each epoch")
