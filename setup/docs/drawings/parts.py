"""Draw who reads and writes what: jobs and people beside input, registry and state tables."""

from __future__ import annotations

from setup.docs.drawings.canvas import Canvas

#: x of the lane of each store, and what it holds.
STORES = (
    ("input", 380, "events", "c1"),
    ("registry", 570, "epochs, runs, sketches", "c2"),
    ("state tables", 770, "Delta or Iceberg", "c0"),
)
#: Who, where it runs, and what it does to each store: r, w, or both.
ACTORS = (
    ("learn", "Spark job", ("r", "rw", "r")),
    ("decide, plan, gates", "Airflow task", ("", "rw", "")),
    ("migrate, roll_back", "Spark job", ("", "rw", "rw")),
    ("verify, publish", "Spark job, Airflow task", ("", "rw", "rw")),
    ("apply_window", "Spark job", ("r", "rw", "rw")),
    ("your own writer", "your job", ("", "r", "rw")),
    ("your readers", "your job", ("", "r", "r")),
    ("pages and console", "Airflow, a shell", ("", "r", "")),
)
TOP, ROW = 132, 40


def draw() -> Canvas:
    """Return the drawing."""
    told = "A table of arrows: to the right an actor writes a store, to the left it reads it."
    height = TOP + ROW * len(ACTORS) + 44
    sheet = Canvas(900, height, "Who reads and writes what", told)
    sheet.text(28, 34, "Who reads and writes what", size=17, bold=True)
    sheet.text(28, 56, "No process keeps anything else.", "muted", size=12.5)
    bottom = TOP + ROW * len(ACTORS) - 18
    for name, x, holds, color in STORES:
        sheet.box(x - 8, 74, 16, bottom - 74, color, round=8, faint=0.25)
        sheet.box(x - 80, 66, 160, 44, color)
        sheet.text(x, 80, name, "paper", anchor="middle", bold=True)
        sheet.text(x, 98, holds, "paper", size=11.5, anchor="middle")
    for row, (who, where, does) in enumerate(ACTORS):
        y = TOP + ROW * row
        sheet.line([(28, y + 20), (872, y + 20)], "rule", thick=1)
        sheet.text(28, y - 7, who, bold=True, mono="," not in who and " " not in who)
        sheet.text(28, y + 9, where, "muted", size=11.5)
        for (_, x, _, color), what in zip(STORES, does, strict=True):
            _arrows(sheet, x, y, color, what)
    y = bottom + 30
    sheet.line([(28, y), (74, y)], "muted", thick=2.5, arrow=True)
    sheet.text(82, y, "writes", "muted", size=12)
    sheet.line([(198, y), (152, y)], "muted", thick=1.5, arrow=True)
    sheet.text(206, y, "reads", "muted", size=12)
    return sheet


def _arrows(sheet: Canvas, x: float, y: float, color: str, what: str) -> None:
    """Draw an arrow from the store for reading, one to it for writing."""
    if "w" in what:
        at = y - 6 if "r" in what else y
        sheet.line([(x - 58, at), (x - 10, at)], color, thick=2.5, arrow=True)
    if "r" in what:
        at = y + 6 if "w" in what else y
        sheet.line([(x - 10, at), (x - 58, at)], color, thick=1.5, arrow=True)
