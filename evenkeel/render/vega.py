"""Drawing: a Vega-Lite chart becomes SVG text that belongs to the page it stands in.

Nothing depends on the host: sizes are fixed here, text takes the page's own font, and colours are
the page's CSS variables (with a fallback each), so that a picture follows light and dark. The
chart is a plain dict; vl-convert draws it, without network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from markupsafe import escape

#: Points of a line: more cannot be told apart.
MOST_POINTS = 400
#: A line of more points has no dots.
MOST_DOTS = 40
#: Margins of every picture, in pixels.
LEFT, BOTTOM, TOP = 46, 40, 12
#: Labels stand so far apart at least, in pixels.
LABEL_GAP = 15

# Vega needs colours, the page has variables: each stands for one, and is written nowhere else.
BEFORE, AFTER, FAIR = "#0ba001", "#0ba002", "#0ba003"
INK, MUTED, RULE, PAPER = "#0ba004", "#0ba005", "#0ba006", "#0ba007"
_VARIABLES = {
    BEFORE: "var(--before,#cbbfa6)",
    AFTER: "var(--after,#0f5c6e)",
    FAIR: "var(--fair,#b4442c)",
    INK: "var(--ink,currentColor)",
    MUTED: "var(--muted,currentColor)",
    RULE: "var(--rule,#8884)",
    PAPER: "var(--paper,#fff)",
}
_LAYOUT = re.compile(r'\b(?:d|transform|[xy]2?)="[^"]*"')

Spec = dict[str, Any]


def line_mark(
    data: Spec,
    color: str,
    x: Spec,
    y: Spec,
    told: str,
    *,
    step: bool = False,
    dash: list[int] | None = None,
    thick: float = 2,
    points: int = 0,
) -> Spec:
    """A line through the points of `data`, in steps where each value holds until the next; with
    dots on it where it has `points`, and few."""
    mark: Spec = {"type": "line", "color": color, "strokeWidth": thick, "clip": False}
    if step:
        mark["interpolate"] = "step-after"
    if dash:
        mark |= {"strokeDash": dash, "strokeWidth": 1.25}
    if 0 < points <= MOST_DOTS:
        mark["point"] = {"color": color, "size": 36, "strokeDash": [1, 0], "opacity": 1}
    return {
        "data": data,
        "mark": mark,
        "encoding": {"x": x, "y": y, "description": {"value": told}},
    }


def text_mark(
    text: str, x: float, y: float, color: str, align: str, gap: float, *, weight: int = 400
) -> Spec:
    """Text at a place in pixels, `gap` to the right of it."""
    return {
        "data": {"values": [{"text": text}]},
        "mark": {
            "type": "text",
            "align": align,
            "baseline": "middle",
            "dx": gap,
            "color": color,
            "fontWeight": weight,
            "aria": False,
        },
        "encoding": {
            "text": {"field": "text", "type": "nominal"},
            "x": {"value": x},
            "y": {"value": y},
        },
    }


def thin(line: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most MOST_POINTS of a line, the first and the last among them."""
    if len(line) <= MOST_POINTS:
        return list(line)
    stride = (len(line) - 1) / (MOST_POINTS - 1)
    return [line[round(i * stride)] for i in range(MOST_POINTS)]


def apart(places: Sequence[float], limit: float) -> list[float]:
    """Places of labels (pixels from the top), moved apart until none covers another."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for above, here in pairwise(order):
        moved[here] = max(moved[here], moved[above] + LABEL_GAP)
    for here, above in pairwise(reversed(order)):
        moved[here] = min(moved[here], limit)
        moved[above] = min(moved[above], moved[here] - LABEL_GAP)
    return moved


def draw(
    spec: Spec, width: int, height: int, *, told: str, right: int = 0, bottom: int = BOTTOM
) -> str:
    """Draw, and make the result the page's own: its font, its colours, titles to hover over.
    `told` says what it shows to those who cannot see it."""
    axis = {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 400,
        "gridColor": RULE,
        "domainColor": RULE,
        "tickColor": RULE,
        "titlePadding": 8,
    }
    whole = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": width - LEFT - right,
        "height": height - TOP - bottom,
        # Fixed, so that the layout does not hang on the metrics of the host's fonts.
        "autosize": {"type": "none"},
        "padding": {"left": LEFT, "right": right, "top": TOP, "bottom": bottom},
        "background": None,
        "config": {
            "view": {"stroke": None},
            "axis": axis,
            "axisY": {"domain": False, "ticks": False, "title": None},
            "text": {"fontSize": 12},
        },
        **spec,
    }
    return _own(_svg(json.dumps(whole)), width, height, told)


@lru_cache(maxsize=128)  # A page is asked for again and again, and drawing is most of its time.
def _svg(chart: str) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart, vl_version="5.20"))


def _own(svg: str, width: int, height: int, told: str) -> str:
    body = svg[svg.index(">") + 1 :]
    body = re.sub(r' (?:font-family|pointer-events|aria-roledescription)="[^"]*"', "", body)
    body = re.sub(r'<path [^>]*\bd=""[^>]*/>', "", body)
    for color, variable in _VARIABLES.items():
        # Attributes do not take variables, styles do.
        body = re.sub(rf'\b(fill|stroke)="{color}"', rf'style="\1:{variable}"', body)
    body = re.sub(r'style="([^"]*)"([^>]*) style="([^"]*)"', r'style="\1;\3"\2', body)
    body = re.sub(r'<path aria-label="([^"]*)"([^>]*)/>', r"<path\2><title>\1</title></path>", body)
    body = _LAYOUT.sub(_rounded, body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(told)}">{body}'
    )


def _rounded(match: re.Match[str]) -> str:
    """Coordinates with two decimals at most: half the size, the same picture."""
    return re.sub(r"-?\d+\.\d{3,}", lambda n: f"{float(n.group()):.2f}", match.group())
