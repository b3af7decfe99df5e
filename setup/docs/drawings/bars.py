"""Draw a chart for each page of docs/benchmarks, from the figures that stand on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from setup.docs.drawings.canvas import Canvas

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "benchmarks"
LEFT, WIDTH, ROW = 28, 560, 46


@dataclass(frozen=True)
class Chart:
    """What a chart shows.

    Parameters
    ----------
    page : name of the page
    title, subtitle : what is measured, and in which unit
    bars : label -> pattern that finds the figure on the page
    line : a value that all are compared with, and what it is; None: no line
    ours : label of the one bar that stands out; empty: all are alike
    """

    page: str
    title: str
    subtitle: str
    bars: dict[str, str]
    line: tuple[float, str] | None = None
    ours: str = ""

    def figures(self) -> dict[str, float]:
        """Return the figure of each bar, as the page has it.

        Raises
        ------
        ValueError : a pattern finds nothing
        """
        text, found = (FOLDER / f"{self.page}.md").read_text(), {}
        for label, pattern in self.bars.items():
            match = re.search(pattern, text)
            if match is None:
                raise ValueError(f"{self.page}.md has nothing like {pattern}")
            found[label] = float(match[1])
        return found

    def draw(self) -> Canvas:
        """Return the chart."""
        found = self.figures()
        said = ", ".join(f"{name} {value:g}" for name, value in found.items())
        sheet = Canvas(760, 92 + ROW * len(found), self.title, said)
        sheet.text(LEFT, 32, self.title, size=17, bold=True)
        sheet.text(LEFT, 54, self.subtitle, "muted")
        ends = [0.0, *found.values(), *([self.line[0]] if self.line else [])]
        scale = WIDTH / (max(ends) - min(ends))
        zero = LEFT - min(ends) * scale
        for row, (name, value) in enumerate(found.items()):
            y, start = 84 + ROW * row, zero + min(value, 0) * scale
            color = "c0" if self.ours in ("", name) else "muted"
            sheet.text(
                LEFT, y + 2, name, "ink" if name == self.ours else "muted", bold=name == self.ours
            )
            sheet.box(start, y + 12, max(abs(value) * scale, 1.5), 18, color, round=3)
            sheet.text(zero + max(value, 0) * scale + 8, y + 21, f"{value:g}", color, bold=True)
        if self.line is not None:
            value, name = self.line
            x = zero + value * scale
            sheet.line([(x, 74), (x, 74 + ROW * len(found))], "red", dash=True)
            sheet.text(x - 6, 70, name, "red", size=12, anchor="end")
        return sheet


_LESS = r"[^|]*\|[^|]*\| ([-+][\d.]+)"
_REWRITE = r"UPDATE over a full rewrite \|[^|]*\| ([\d.]+)"
CHARTS = (
    Chart(
        "skew",
        "Rows of the slowest task, over the mean of all tasks",
        "A stateful job over 1M Zipf keys (z = 0.9) on 16 tasks. All but Evenkeel hash the keys.",
        {
            "groupBy(key): plain hashing": r"\| ([\d.]+) by `groupBy\(key\)`",
            "repartition(16, key): the same hash": r"`repartition\(16, key\)` has ([\d.]+) in rows",
            "adaptive execution: the same hash (it splits joins only)": (
                r", ([\d.]+) by adaptive execution \| 2026-11-27, 1 core \| same"
            ),
            "Evenkeel": r"Zipf 0\.9, 16 channels: rows[^|]*\|[^|]*\| ([\d.]+) \(2\)",
        },
        (1, "1: every task has the same"),
        ours="Evenkeel",
    ),
    Chart(
        "moving",
        "Time of our UPDATE, over that of a full rewrite of the table",
        "Less is better. At 20M rows it is one run, at 5M the median of pairs.",
        {
            "20M rows, 10% of the slots": rf"20M rows of 2 GB, 10% of slots: {_REWRITE}",
            "20M rows, 1% of the slots": rf"20M rows, 1% of slots: {_REWRITE}",
            "5M rows, 10% of the slots": rf"5M rows, 10% of slots: {_REWRITE}",
            "5M rows, 1% of the slots": rf"5M rows, 1% of slots: {_REWRITE}",
        },
        (1, "1: a full rewrite"),
    ),
    Chart(
        "routing",
        "Time of ours, over that of the plain job",
        "Less is better. Routing is beside a plain hash, learning beside a plain count by key.",
        {
            "routing, string keys, 500 of them pinned": r"string keys \|[^|]*\| \D*([\d.]+)",
            "routing, bigint keys": r"bigint keys \|[^|]*\| \D*([\d.]+)",
            "routing with 20 split keys, the slower": r"20 split keys.*? to ([\d.]+) \(1\)",
            "learning a day": r"groupBy\(key\)\.count\(\)` \|[^|]*\| \D*([\d.]+) \(1\)",
            "learning the newest day of 28, beside that day alone": r"1\.2 \| ([\d.]+) \(of 5",
            "reading state with split keys, the slowest": r"1\.45 to ([\d.]+) \(5\)",
        },
        (1, "1: the plain job"),
    ),
    Chart(
        "splitting",
        "Excess of the fullest of 100 channels over the mean, in percent",
        "10,000 Zipf keys, some of them split. 0 is perfect.",
        {
            "100M unseen rows, the worst of five streams": r"at most ([\d.]+)%, and",
            "the same, by the shares of the function": r"%, and ([\d.]+)% by the shares",
            "500,000 unseen rows, the worst of five streams": r"3\.3 to ([\d.]+)%",
            "500,000 rows: what chance alone explains": r"of which ([\d.]+) is chance",
        },
    ),
    Chart(
        "airflow",
        "Seconds of a run that are neither Spark nor planning",
        "A run of the flights, in an Airflow of four processes.",
        {
            "before and between tasks": r"between tasks ([\d.]+) s",
            "gates": r"gate ([\d.]+) s",
            "report": r"report ([\d.]+) s",
            "publishing": r"publishing ([\d.]+) s",
            "approval": r"approval ([\d.]+) s",
        },
    ),
    Chart(
        "frontier",
        "CPU seconds of a plan that is as even as it gets",
        "One core. Less is better.",
        {
            "75,000 items, 1,000 channels": r"75,000 items x 1,000[^|]*\|[^|]*\| ([\d.]+) s",
            "100,000 items, 1,000 channels": r"100,000 items x 1,000[^|]*\|[^|]*\| ([\d.]+) s",
            "375,000 items, 5,000 channels": r"375,000 items x 5,000[^|]*\|[^|]*\| ([\d.]+) s",
            "1M items, 10 channels": r"1M items x 10 [^|]*\|[^|]*\| ([\d.]+) s",
            "1M items, 100 channels": r"1M items x 100 [^|]*\|[^|]*\| ([\d.]+) s",
        },
    ),
    Chart(
        "unseen",
        "Imbalance and moved load: the planner, less a reference that knows every key",
        "Means over windows that nobody has seen. Below 0 the planner is better.",
        {
            "words, 10 channels": rf"words, N = 10{_LESS}",
            "retail stock by week, 10 channels": rf"retail stock, week, N = 10{_LESS}",
            "flights by aircraft and day, 10 channels": rf"flights tailnum, day, N = 10{_LESS}",
            "IRC users, 20 channels": rf"irc users, N = 20{_LESS}",
        },
    ),
)
DRAWINGS: dict[str, Callable[[], Canvas]] = {chart.page: chart.draw for chart in CHARTS}
