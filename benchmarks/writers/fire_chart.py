"""Draw how long each commit of the writer took, before, during and after a migration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.writers.busy_writer import Commit
from evenkeel.render.vega import AFTER, FAIR, LEFT, MUTED, Spec, draw, text_mark

WIDTH, HEIGHT, RIGHT = 720, 300, 70
_COLORS = {"append": AFTER, "MERGE": FAIR}


def fire_chart(made: Sequence[Commit], steps: Mapping[str, float], start: float) -> str:
    """Return a chart as SVG: each commit by when it began and how long it took.

    A commit whose first try was lost or refused has no filling.

    Parameters
    ----------
    made : commits of the writer
    steps : what the migration begins, and when (Unix seconds)
    start : Unix seconds that are 0 on the chart
    """
    took = [c.ended - c.began for c in made]
    last = max(c.began for c in made) - start
    x = _axis("began", "seconds; a commit takes seconds (logarithmic)", [0.0, last], "linear")
    y = _axis("took", None, [min(took) / 1.15, max(took) * 1.15], "log")
    layers: list[Spec] = []
    for name, at in steps.items():
        across = (at - start) / last * (WIDTH - LEFT - RIGHT)
        mark = {"type": "rule", "color": MUTED, "strokeDash": [4, 3]}
        layers.append(
            {
                "data": {"values": [{}]},
                "mark": mark,
                "encoding": {
                    "x": {"value": across},
                    "description": {"value": f"{name} begins at {at - start:.0f} s"},
                },
            }
        )
        layers.append(text_mark(name, across, 8, MUTED, "left", 4))
    for row, (kind, color) in enumerate(_COLORS.items()):
        for is_free in (True, False):
            values = [
                {"began": c.began - start, "took": c.ended - c.began}
                for c in made
                if c.kind == kind and (not c.conflicts + c.refusals) is is_free
            ]
            if not values:
                continue
            told = f"{kind}, {'the first try' if is_free else 'tried again'}: {len(values)} commits"
            layers.append(
                {
                    "data": {"values": values},
                    "mark": {"type": "point", "filled": is_free, "color": color, "opacity": 1},
                    "encoding": {"x": x, "y": y, "description": {"value": told}},
                }
            )
        layers.append(text_mark(kind, WIDTH - LEFT - RIGHT, 30 + 18 * row, color, "left", 8))
    label = "Seconds of each commit of a writer, beside a migration"
    svg = draw({"layer": layers}, WIDTH, HEIGHT, label=label, right=RIGHT)
    # No page around it gives it a font, and a colour that can be read on light and dark.
    return svg.replace("<svg ", '<svg font-family="sans-serif" color="#768390" ', 1)


def _axis(field: str, title: str | None, domain: Sequence[float], kind: str) -> Spec:
    axis: Spec = {"title": title, "tickCount": 6, "grid": kind == "log", "format": ".3~f"}
    if kind == "log":
        ticks = [s * 10.0**e for e in range(-2, 4) for s in (1, 2, 5)]
        axis["values"] = [v for v in ticks if domain[0] <= v <= domain[1]]
    scale = {"type": kind, "domain": list(domain), "nice": False}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}
