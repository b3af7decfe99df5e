"""Turn a Vega-Lite chart (a dict) into SVG text for a page; vl-convert draws it offline.

The result does not depend on the host: sizes are fixed here, and text takes the page's font.
Colours are CSS variables of the page, with a fallback each, so that a chart follows light and
dark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from markupsafe import escape

#: Points of a line at most; the eye cannot separate more.
MAX_POINTS = 400
#: A line with more points than this is drawn without dots.
MAX_DOTS = 40
#: Margins of every picture, in pixels.
LEFT, BOTTOM, TOP = 46, 40, 12
#: Least distance between two labels, in pixels.
LABEL_GAP = 15
#: Width of one character of a label, in pixels, rounded up.
GLYPH = 7

# Vega needs real colours, and the page has CSS variables. Each colour here stands for one variable
# and must be used for nothing else.
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
# Vega puts a host before each link.
_LINK = re.compile(
    r'<a xlink:href="https://vega\.github\.io/vega-datasets/([^"]*)">'
    r"(<path [^>]*><title>([^<]*)</title>)"
)
_LAYOUT = re.compile(r'\b(?:d|transform|[xy]2?)="[^"]*"')

Spec = dict[str, Any]


def line_mark(
    data: Spec,
    color: str,
    x: Spec,
    y: Spec,
    label: str,
    *,
    step: bool = False,
    dash: list[int] | None = None,
    thick: float = 2,
    points: int = 0,
) -> Spec:
    """Return the layer of a line through the points of `data`.

    Parameters
    ----------
    label : text for people who cannot see the line
    step : draw steps, because each value holds until the next
    thick : width in pixels
    points : number of points; dots are drawn if it is over 0 and at most `MAX_DOTS`
    """
    mark: Spec = {"type": "line", "color": color, "strokeWidth": thick, "clip": False}
    if step:
        mark["interpolate"] = "step-after"
    if dash:
        mark |= {"strokeDash": dash, "strokeWidth": 1.25}
    if 0 < points <= MAX_DOTS:
        mark["point"] = {"color": color, "size": 36, "strokeDash": [1, 0], "opacity": 1}
    return {
        "data": data,
        "mark": mark,
        "encoding": {"x": x, "y": y, "description": {"value": label}},
    }


def text_mark(
    text: str, x: float, y: float, color: str, align: str, gap: float, *, weight: int = 400
) -> Spec:
    """Return the layer of a text at (x, y), in pixels, moved `gap` pixels to the right."""
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
    """Return at most MAX_POINTS points of a line, with its first and last."""
    if len(line) <= MAX_POINTS:
        return list(line)
    stride = (len(line) - 1) / (MAX_POINTS - 1)
    return [line[round(i * stride)] for i in range(MAX_POINTS)]


def apart(places: Sequence[float], limit: float) -> list[float]:
    """Move labels apart until none covers another; places are in pixels from the top."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for above, here in pairwise(order):
        moved[here] = max(moved[here], moved[above] + LABEL_GAP)
    for here, above in pairwise(reversed(order)):
        moved[here] = min(moved[here], limit)
        moved[above] = min(moved[above], moved[here] - LABEL_GAP)
    return moved


def draw(
    spec: Spec, width: int, height: int, *, label: str, right: int = 0, bottom: int = BOTTOM
) -> str:
    """Draw a chart as SVG that takes the page's font and colours, with titles on hover.

    Parameters
    ----------
    width, height, right, bottom : size of the chart and of two margins, in pixels
    label : text for people who cannot see the chart
    """
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
        # Fixed, because the layout must not depend on the host's fonts.
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
    return _own(_svg(json.dumps(whole)), width, height, label)


@lru_cache(maxsize=128)  # Drawing takes most of the time of a page.
def _svg(chart: str) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart, vl_version="5.20"))


def _own(svg: str, width: int, height: int, label: str) -> str:
    body = svg[svg.index(">") + 1 :]
    body = re.sub(r' (?:font-family|pointer-events|aria-roledescription)="[^"]*"', "", body)
    # Vega names a group after its marks: without any it would be an image without a name.
    body = re.sub(r'(<g class="mark-[^"]*") role="graphics-symbol"(?=/?>)', r"\1", body)
    body = re.sub(r'<path [^>]*\bd=""[^>]*/>', "", body)
    for color, variable in _VARIABLES.items():
        # CSS variables work in styles, not in attributes.
        body = re.sub(rf'\b(fill|stroke)="{color}"', rf'style="\1:{variable}"', body)
    body = re.sub(r'style="([^"]*)"([^>]*) style="([^"]*)"', r'style="\1;\3"\2', body)
    body = re.sub(r'<path aria-label="([^"]*)"([^>]*)/>', r"<path\2><title>\1</title></path>", body)
    body = _LAYOUT.sub(_rounded, body)
    body, links = _LINK.subn(r'<a href="\1" aria-label="\3">\2', body)
    # Screen readers do not announce the inside of an image, so a chart with links is a group.
    role = "group" if links else "img"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="{role}" aria-label="{escape(label)}">{body}'
    )


def _rounded(match: re.Match[str]) -> str:
    """Round coordinates to two decimals: half the size, the same picture."""
    return re.sub(r"-?\d+\.\d{3,}", lambda n: f"{float(n.group()):.2f}", match.group())
