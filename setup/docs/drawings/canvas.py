"""A sheet of paper for drawings: boxes, text and arrows as SVG, in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

#: Name of each colour, on light and on dark paper. Text has a contrast of 4.5 or more on `paper`.
COLORS = {
    "paper": ("#fbfaf7", "#151b1f"),
    "panel": ("#f1eee6", "#1e272c"),
    "rule": ("#d3cdbf", "#3a474e"),
    "ink": ("#1c282d", "#ece9e2"),
    "muted": ("#5d6a70", "#9fadb4"),
    "red": ("#b4442c", "#ee8a73"),
    "c0": ("#0f5c6e", "#56bccf"),
    "c1": ("#8a5a00", "#e0ac4e"),
    "c2": ("#7a3b78", "#cf93cc"),
    "c3": ("#3c6b2f", "#8fc77e"),
}
_FONT = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"
_MONO = "ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"


class Canvas:
    """Collect the shapes of one drawing; `svg` writes it.

    Colours are names of `COLORS`. Places and sizes are pixels from the top left.
    """

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self.width, self.height = width, height
        self.title, self.description = title, description
        self.shapes: list[str] = []
        self.heads: set[str] = set()

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "panel",
        *,
        line: str | None = None,
        round: float = 6,
        faint: float = 1,
    ) -> None:
        """Draw a box; `faint` is its opacity, 0 to 1."""
        stroke = f' class="f-{fill} s-{line}"' if line else f' class="f-{fill}"'
        shade = f' opacity="{faint:g}"' if faint < 1 else ""
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round:g}"'
            f"{stroke}{shade}/>"
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        color: str = "ink",
        *,
        size: float = 13,
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        """Write one line; y is its middle."""
        kind = "m" if mono else "t"
        weight = ' font-weight="600"' if bold else ""
        self.shapes.append(
            f'<text x="{x:g}" y="{y + size * 0.35:g}" class="{kind} f-{color}" font-size="{size:g}"'
            f' text-anchor="{anchor}"{weight}>{escape(text)}</text>'
        )

    def line(
        self,
        points: Sequence[tuple[float, float]],
        color: str = "muted",
        *,
        thick: float = 1.5,
        dash: bool = False,
        arrow: bool = False,
    ) -> None:
        """Draw straight lines through points; `arrow` gives the end a head."""
        way = " L".join(f"{x:.5g} {y:.5g}" for x, y in points)
        self._path(f"M{way}", color, thick, dash, arrow)

    def curve(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        color: str = "muted",
        *,
        thick: float = 1.5,
        arrow: bool = False,
    ) -> None:
        """Draw a curve that leaves and arrives level."""
        (x1, y1), (x2, y2) = start, end
        middle = (x1 + x2) / 2
        way = f"M{x1:g} {y1:g} C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}"
        self._path(way, color, thick, False, arrow)

    def dot(self, x: float, y: float, color: str, radius: float = 4) -> None:
        """Draw a dot."""
        self.shapes.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="f-{color}"/>')

    def _path(self, way: str, color: str, thick: float, dash: bool, arrow: bool) -> None:
        more = ' stroke-dasharray="5 4"' if dash else ""
        if arrow:
            self.heads.add(color)
            more += f' marker-end="url(#{color})"'
        self.shapes.append(
            f'<path d="{way}" fill="none" class="s-{color}" stroke-width="{thick:g}"{more}/>'
        )

    def svg(self) -> str:
        """Return the drawing as SVG text."""
        heads = "".join(
            f'<marker id="{color}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
            f' markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0 0 L8 4 L0 8 z" class="f-{color}"/></marker>'
            for color in sorted(self.heads)
        )
        light, dark = (
            "".join(
                f".f-{name}{{fill:{values[at]}}}.s-{name}{{stroke:{values[at]}}}"
                for name, values in COLORS.items()
            )
            for at in (0, 1)
        )
        shapes = "\n".join(self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}"'
            f' width="{self.width}" height="{self.height}" role="img"'
            ' aria-labelledby="title desc">\n'
            f'<title id="title">{escape(self.title)}</title>\n'
            f'<desc id="desc">{escape(self.description)}</desc>\n'
            f"<style>.t{{font-family:{_FONT}}}.m{{font-family:{_MONO}}}{light}"
            f"@media (prefers-color-scheme: dark){{{dark}}}</style>\n"
            f"<defs>{heads}</defs>\n"
            f'<rect width="{self.width}" height="{self.height}" rx="10" class="f-paper"/>\n'
            f"{shapes}\n</svg>\n"
        )
