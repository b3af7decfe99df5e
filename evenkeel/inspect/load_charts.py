"""Charts of load over windows: of a table its imbalance, of a channel its load."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from evenkeel.inspect.load_history import PastWindow
from evenkeel.render.charts import WIDE
from evenkeel.render.formatting import imbalance_text
from evenkeel.render.vega import AFTER, FAIR, LEFT, MUTED, Spec, draw

#: Windows with a label below the axis, by pixels of a label.
_LABEL = 84
#: Texts of points, for people who cannot see them.
_DESCRIBED = {"description": {"field": "text", "type": "nominal"}}


def windows_svg(
    windows: Sequence[PastWindow],
    values: Sequence[float | None],
    label: str,
    trigger: float | None = None,
    *,
    width: int = WIDE,
) -> str:
    """Draw a value of each window as a line, and a dashed line where a new epoch came.

    Parameters
    ----------
    windows : the oldest first; at least one
    values : of each window, 1 is perfect; None or infinite: no point is drawn
    label : text for people who cannot see the chart
    trigger : drawn as a level; None: none is

    Returns
    -------
    SVG text.
    """
    ends, step = [w.end for w in windows], max(1, -(-len(windows) * _LABEL // (width - LEFT)))
    x: Spec = {
        "field": "end",
        "type": "ordinal",
        "scale": {"domain": ends},
        "axis": {
            "title": "end of the window",
            "values": ends[::-1][::step][::-1],
            "labelAngle": 0,
            "labelOverlap": False,
            "ticks": False,
        },
    }
    y: Spec = {
        "field": "value",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": None, "tickCount": 5, "format": ",.6~r"},
    }
    layers = [*_epoch_layers(windows, x), _line_layer(windows, values, x, y)]
    if trigger is not None:
        level = {"values": [{"value": trigger, "text": f"trigger {trigger:g}"}]}
        mark = {"type": "rule", "color": FAIR, "strokeWidth": 1.25}
        layers.append({"data": level, "mark": mark, "encoding": {"y": y, **_DESCRIBED}})
    return draw({"layer": layers}, width, 200, label=label, right=30)


def _line_layer(
    windows: Sequence[PastWindow], values: Sequence[float | None], x: Spec, y: Spec
) -> Spec:
    points = [
        {"end": w.end, "value": v, "text": f"{w.end}: {imbalance_text(v)}, epoch {w.epoch}"}
        for w, v in zip(windows, values, strict=True)
        if v is not None and math.isfinite(v)
    ]
    return {
        "data": {"values": points},
        "mark": {
            "type": "line",
            "color": AFTER,
            "strokeWidth": 2,
            "point": {"color": AFTER, "size": 36},
        },
        "encoding": {"x": x, "y": y, **_DESCRIBED},
    }


def _epoch_layers(windows: Sequence[PastWindow], x: Spec) -> list[Spec]:
    """Return a dashed line, and its label, where a new epoch came."""
    came = [
        {"end": new.end, "text": f"epoch {new.epoch}"}
        for old, new in itertools.pairwise(windows)
        if old.epoch != new.epoch
    ]
    return [
        {
            "data": {"values": came},
            "mark": {"type": "rule", "color": MUTED, "strokeDash": [3, 3], "strokeWidth": 1},
            "encoding": {"x": x, **_DESCRIBED},
        },
        {
            "data": {"values": came},
            "mark": {"type": "text", "color": MUTED, "align": "left", "dx": 4, "aria": False},
            "encoding": {"x": x, "y": {"value": 8}, "text": {"field": "text", "type": "nominal"}},
        },
    ]
