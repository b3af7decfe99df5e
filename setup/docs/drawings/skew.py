"""Draw the slowest task of a skewed job, from the figures of its page."""

from __future__ import annotations

import re
from pathlib import Path

from setup.docs.drawings.canvas import Canvas

PAGE = Path(__file__).resolve().parents[3] / "docs" / "benchmarks" / "skew.md"


def figures() -> dict[str, float]:
    """Return rows of the slowest task over the mean, as the page has them."""
    text = PAGE.read_text()
    ours = re.search(
        r"Zipf 0\.9, 16 channels: rows, slowest task over mean.*?\| ([\d.]+) \(2\)", text
    )
    theirs = re.search(r"`repartition\(16, key\)` has ([\d.]+) in rows", text)
    adaptive = re.search(r"Adaptive execution has ([\d.]+)\s", text)
    assert ours and theirs and adaptive
    return {
        "adaptive execution": float(adaptive[1]),
        "repartition(16, key): plain hashing": float(theirs[1]),
        "Evenkeel": float(ours[1]),
    }


def draw() -> Canvas:
    """Return the chart."""
    found = figures()
    said = ", ".join(f"{name} {value:g}" for name, value in found.items())
    sheet = Canvas(760, 250, "Rows of the slowest task over the mean", said)
    sheet.text(28, 32, "Rows of the slowest task, over the mean of all tasks", size=17, bold=True)
    sheet.text(
        28, 54, "A stateful job over 1M Zipf keys (z = 0.9) on 16 tasks. 1 is perfect.", "muted"
    )
    left, scale = 28, 240
    for row, (name, value) in enumerate(found.items()):
        y, ours = 84 + 46 * row, name == "Evenkeel"
        sheet.text(left, y + 2, name, "ink" if ours else "muted", bold=ours)
        sheet.box(left, y + 12, value * scale, 18, "c0" if ours else "muted", round=3)
        sheet.text(
            left + value * scale + 8, y + 21, f"{value:.3f}", "c0" if ours else "ink", bold=True
        )
    sheet.line([(left + scale, 74), (left + scale, 216)], "red", dash=True)
    sheet.text(left + scale + 6, 80, "1: every task has the same", "red", size=12)
    sheet.text(left, 234, "make bench ARGS=skewed_job", "muted", size=12, mono=True)
    return sheet
