"""Draw a run: its steps from events to the next epoch, and the stores that they read and write."""

from __future__ import annotations

from typing import NamedTuple

from setup.docs.drawings.canvas import Canvas

#: Colours of what runs in Spark, and of what runs in Airflow itself.
SPARK, AIRFLOW = "c0", "c2"
#: Each step, where it runs, and what else it may lead to.
STEPS = (
    ("learn", SPARK, ""),
    ("decide", AIRFLOW, "or skip"),
    ("plan", AIRFLOW, ""),
    ("validate_plan", AIRFLOW, "a gate"),
    ("approve", AIRFLOW, "a person"),
    ("migrate", SPARK, ""),
    ("verify", SPARK, "a gate"),
    ("publish", AIRFLOW, ""),
    ("report", AIRFLOW, ""),
)
#: Rows of the drawing: the steps, the way back, the stores, and the job beside the flow.
CHAIN, BACK, STORE, BESIDE = 132, 196, 268, 340
#: Half the height of the box of a step, and of a store.
HALF, TALL = 17, 24
#: Width of a letter, and room beside a name.
LETTER, ROOM, GAP = 7.3, 16, 31
#: Left and right of each store.
STORES = (
    ("input", "events", 28, 150, "c1"),
    ("registry", "sketches, runs, epochs", 190, 450, "c3"),
    ("state tables", "one partition a channel", 490, 872, "c3"),
)


class Box(NamedTuple):
    """Hold the place of a step's box: its left, its width and the middle of its height."""

    x: float
    width: float
    y: float

    @property
    def middle(self) -> float:
        """The middle of its width."""
        return self.x + self.width / 2


def draw() -> Canvas:
    """Return the drawing."""
    told = "A chain of steps in the order of a run, with arrows to the stores below it."
    sheet = Canvas(900, 392, "A run, from events to the next epoch", told)
    sheet.text(28, 34, "A run, from events to the next epoch", size=17, bold=True)
    sheet.text(28, 56, "The spec says when and how. Airflow starts each step.", "muted", size=12.5)
    _legend(sheet)
    boxes = _steps(sheet)
    for name, holds, left, right, color in STORES:
        middle = (left + right) / 2
        sheet.box(left, STORE - TALL, right - left, 2 * TALL, "panel", line=color)
        sheet.text(middle, STORE - 9, name, color, anchor="middle", bold=True)
        sheet.text(middle, STORE + 10, holds, "muted", size=11.5, anchor="middle")
    # Each goes straight up or down, so no two cross.
    learn, migrate, verify = (boxes[name] for name in ("learn", "migrate", "verify"))
    _between(sheet, learn.middle, "c1", up=True)
    _between(sheet, boxes["plan"].middle, "c3")
    _between(sheet, migrate.middle, "c3")
    # Each of three steps leads to the way back.
    back = _box(sheet, "roll_back", SPARK, verify.middle - 42, BACK)
    left, right = migrate.x + migrate.width - 8, boxes["publish"].x + 8
    below_chain, bar = CHAIN + HALF, CHAIN + HALF + 12
    ends = [(left, below_chain), (left, bar), (right, bar), (right, below_chain)]
    sheet.line(ends, "red", dash=True)
    down = [(verify.middle, below_chain), (verify.middle, BACK - HALF)]
    sheet.line(down, "red", dash=True, arrow=True)
    sheet.text(right + 8, bar + 4, "if one fails", "red", size=11.5)
    sheet.line([(back.middle, BACK + HALF), (back.middle, STORE - TALL)], "red", arrow=True)
    beside = _box(sheet, "apply_window", SPARK, 270, BESIDE)
    below = STORE + TALL
    sheet.line([(89, below), (89, BESIDE), (beside.x, BESIDE)], "c1", arrow=True)
    end = beside.x + beside.width
    sheet.line([(end, BESIDE), (686, BESIDE), (686, below)], "c3", arrow=True)
    sheet.text(end + 14, BESIDE - 11, "adds each window of events", "muted", size=11.5)
    return sheet


def _steps(sheet: Canvas) -> dict[str, Box]:
    """Draw the chain of steps, and return the box of each."""
    boxes: dict[str, Box] = {}
    x = 28.0
    for name, where, other in STEPS:
        box = boxes[name] = _box(sheet, name, where, x, CHAIN)
        if other:
            sheet.text(box.middle, CHAIN - HALF - 10, other, "muted", size=11.5, anchor="middle")
        x += box.width + GAP
        if name != STEPS[-1][0]:
            sheet.line([(box.x + box.width, CHAIN), (x, CHAIN)], "ink", arrow=True)
    return boxes


def _box(sheet: Canvas, name: str, color: str, x: float, y: float) -> Box:
    width = LETTER * len(name) + ROOM
    sheet.box(x, y - HALF, width, 2 * HALF, color)
    sheet.text(x + width / 2, y, name, "paper", size=12, anchor="middle", mono=True)
    return Box(x, width, y)


def _between(sheet: Canvas, x: float, color: str, up: bool = False) -> None:
    """Draw an arrow between a step and the store below it."""
    way = [(x, CHAIN + HALF), (x, STORE - TALL)]
    sheet.line(way[::-1] if up else way, color, thick=2, arrow=True)


def _legend(sheet: Canvas) -> None:
    for x, color, text in ((660, SPARK, "a Spark job"), (770, AIRFLOW, "an Airflow task")):
        sheet.box(x, 50, 12, 12, color, round=3)
        sheet.text(x + 18, 56, text, "muted", size=12)
