"""Draw a split key: its events, its partial rows, and what a reader merges."""

from __future__ import annotations

import numpy as np

from partitioning.function.hashing import key_hash
from partitioning.function.split import Split
from setup.docs.drawings.canvas import Canvas

KEY = "teapot"
EVENTS = 40
#: Share of the key's events that each owner is to have.
SHARES = {0: 0.5, 1: 0.3, 3: 0.2}
TOP = 100


def counts() -> dict[int, int]:
    """Return how many of the events each owner gets, by the real function."""
    (h,) = key_hash([[KEY]], ["string"]).tolist()
    split = Split.of({h: SHARES})
    rows = key_hash([np.full(EVENTS, h), np.arange(1, EVENTS + 1)], ["bigint", "bigint"])
    owners = split.pick(np.zeros(EVENTS, dtype=np.int64), rows)
    return {channel: int((owners == channel).sum()) for channel in SHARES}


def draw() -> Canvas:
    """Return the drawing."""
    told = (
        "Events of one key go to three channels by weight. Each has a partial row. A reader merges."
    )
    sheet = Canvas(900, 400, "A split key and its partial rows", told)
    heads = ((28, "events of one key"), (300, "owners"), (480, "partial rows"), (730, "a reader"))
    for x, head in heads:
        sheet.text(x, 34, head, size=17, bold=True)
    notes = (
        (28, "half of the table's load"),
        (300, "by weight"),
        (480, "in the state table"),
        (730, 'state("sales")'),
    )
    for x, note in notes:
        sheet.text(x, 56, note, "muted", size=12, mono=x == 730)
    found = counts()
    for at in range(EVENTS):
        sheet.box(28 + 24 * (at % 8), TOP + 36 * (at // 8) + 18, 18, 18, "ink", round=3, faint=0.55)
    for row, (channel, share) in enumerate(SHARES.items()):
        _owner(sheet, TOP + 84 * row + 24, channel, share, found[channel])
    middle = TOP + 84 + 24
    sheet.box(730, middle - 34, 142, 68, "panel", line="ink")
    sheet.text(744, middle - 12, f"{KEY}", mono=True, bold=True)
    sheet.text(744, middle + 12, f"units = {sum(found.values())}", mono=True, bold=True)
    sheet.text(
        28, 350, f"The hash of each event's id decides: {EVENTS} orders of {KEY}, one unit each."
    )
    sheet.text(
        28,
        374,
        "An event that is read again goes to the same owner. Whole keys have one row, as ever.",
        "muted",
        size=12.5,
    )
    return sheet


def _owner(sheet: Canvas, y: float, channel: int, share: float, units: int) -> None:
    """Draw one owner with its partial row; lines are as thick as its share."""
    color, thick = f"c{channel}", 1 + 8 * share
    sheet.curve((226, TOP + 108), (294, y), color, thick=thick, arrow=True)
    sheet.box(300, y - 26, 120, 52, color)
    sheet.text(360, y - 8, f"channel {channel}", "paper", anchor="middle", bold=True)
    sheet.text(360, y + 11, f"weight {share:g}", "paper", size=12, anchor="middle")
    sheet.line([(422, y), (474, y)], color, thick=thick, arrow=True)
    sheet.box(480, y - 26, 170, 52, "panel", line=color)
    sheet.text(494, y - 9, f"channel={channel}/ {KEY}", color, size=12, mono=True, bold=True)
    sheet.text(494, y + 11, f"units = {units}", size=12, mono=True)
    sheet.curve((652, y), (724, TOP + 108), color, arrow=True)
