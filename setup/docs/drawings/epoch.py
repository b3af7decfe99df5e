"""Draw the life of an epoch: which constraints stand on a table, step by step."""

from __future__ import annotations

from evenkeel_spark.tables.delta.constraints import moving_name
from partitioning.function.sql import epoch_name
from setup.docs.drawings.canvas import Canvas

#: First twelve digits of a plan's digest, made up.
PLAN = "8c1f0a2b77de"
LEFT, STEP, TOP = 34, 139, 96
#: Name of each part of the time, and the step that happens in it.
PARTS = (
    ("at rest", "your jobs write"),
    ("about to start", "migrate"),
    ("moving", "migrate"),
    ("closed", "verify"),
    ("sealing", "verify"),
    ("at rest", "verify, publish"),
)


def draw() -> Canvas:
    """Return the drawing."""
    told = (
        "The old epoch's constraint, the moving constraint and the new epoch's one overlap in time."
    )
    sheet = Canvas(900, 416, "The life of an epoch", told)
    sheet.text(LEFT, 34, "From epoch 12 to epoch 13, on one state table", size=17, bold=True)
    for at, (name, step) in enumerate(PARTS):
        x = LEFT + at * STEP
        sheet.box(x, TOP - 32, STEP - 6, 244, "panel", faint=0.75)
        sheet.text(x + 12, TOP - 14, name, bold=True)
        sheet.text(x + 12, TOP + 5, step, "muted", size=12)
    bars = (
        (epoch_name(12), 0, 2, "c0"),
        (moving_name(13, PLAN), 1, 5, "c1"),
        (epoch_name(13), 4, 6, "c3"),
    )
    for row, (name, start, end, color) in enumerate(bars):
        x, y = LEFT + start * STEP + 6, TOP + 28 + 46 * row
        sheet.box(x, y, (end - start) * STEP - 18, 34, color)
        sheet.text(x + 12, y + 17, name, "paper", size=12, mono=True, bold=True)
    _writers(sheet)
    _ways_out(sheet)
    return sheet


def _writers(sheet: Canvas) -> None:
    """Say which rows the table takes in each part."""
    y = TOP + 188
    takes = (
        ("by 12", "c0"),
        ("by 12", "c0"),
        ("by 12 or 13", "c1"),
        ("by 13", "c3"),
        ("by 13", "c3"),
        ("by 13", "c3"),
    )
    for at, (text, color) in enumerate(takes):
        x = LEFT + at * STEP
        sheet.dot(x + 18, y, color, 5)
        sheet.text(x + 30, y, f"rows {text}", color, size=12, bold=True)


def _ways_out(sheet: Canvas) -> None:
    """Draw the way forward, and the way back that is open until the epoch is published."""
    right = LEFT + len(PARTS) * STEP - 6
    y = TOP + 236
    sheet.line([(LEFT, y), (right, y)], "c3", thick=2, arrow=True)
    sheet.text(
        LEFT,
        y + 18,
        "forward: a step that was killed starts again where its constraint says",
        size=12,
    )
    back = LEFT + (len(PARTS) - 1) * STEP + 60
    sheet.line([(back, y + 40), (LEFT, y + 40)], "red", thick=2, dash=True, arrow=True)
    sheet.text(
        LEFT, y + 58, "back: roll_back, from everywhere until epoch 13 is published", size=12
    )
    sheet.dot(back, y, "ink", 5)
    sheet.text(back, y + 18, "epoch.json: published", size=12, anchor="middle", bold=True)
