"""Draw a migration over time: load of each channel, commit by commit, in the real safe order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partitioning.function.channels import numbered_channels
from partitioning.moves.moves import moves_between
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.hashing import consistent
from partitioning.streams.zipf_stream import zipf_profile
from partitioning.workload.metrics import channel_loads
from partitioning.workload.profile import Floats
from setup.docs.drawings.canvas import Canvas

CHANNELS = 6
LEFT, RIGHT, TOP, BOTTOM = 70, 700, 92, 330


@dataclass(frozen=True)
class Course:
    """The loads while a migration goes on.

    loads : each channel's load over the mean after so many moves, (moves + 1, N)
    moved : part of all state that has moved by then, (moves + 1,)
    """

    loads: Floats
    moved: Floats


def course() -> Course:
    """Return the course of a real plan on a made-up stream."""
    profile = zipf_profile(4000, 0.9, seed=3, slots=256, threshold=0.004)
    before = consistent(profile, None, numbered_channels(CHANNELS))
    after = frontier(profile, before, before.channels, max_imbalance=1.02)
    moves = moves_between(before, after, profile)
    state = profile.bytes.sum()
    loads = [channel_loads(before, profile)]
    moved = [0.0]
    for move in moves:
        now = loads[-1].copy()
        now[move.source] -= move.load
        now[move.target] += move.load
        loads.append(now)
        moved.append(moved[-1] + move.bytes)
    return Course(np.array(loads) / loads[0].mean(), np.array(moved) / state)


def draw() -> Canvas:
    """Return the drawing."""
    found = course()
    first, last = found.loads[0].max(), found.loads[-1].max()
    told = f"The fullest channel falls from {first:.2f} to {last:.2f} times the mean, move by move."
    sheet = Canvas(900, 410, "A migration over time", told)
    sheet.text(28, 34, "Load of six channels while rows move", size=17, bold=True)
    sheet.text(
        28, 56, "1 is the mean. Any step can be the last before a crash.", "muted", size=12.5
    )
    low, high = np.floor(found.loads.min() * 10) / 10, np.ceil(first * 10) / 10
    steps = len(found.loads) - 1

    def place(step: float, load: float) -> tuple[float, float]:
        up = (load - low) / (high - low)
        return LEFT + step / steps * (RIGHT - LEFT), BOTTOM - up * (BOTTOM - TOP)

    for tick in np.arange(low, high + 0.05, 0.1):
        sheet.line([place(0, tick), place(steps, tick)], "rule", thick=1)
        sheet.text(LEFT - 10, place(0, tick)[1], f"{tick:.1f}", "muted", size=12, anchor="end")
    sheet.line([place(0, first), place(steps, first)], "red", dash=True)
    sheet.text(
        RIGHT + 12,
        place(0, first)[1],
        f"limit {first:.2f}: no channel",
        "red",
        size=12.5,
        bold=True,
    )
    sheet.text(RIGHT + 12, place(0, first)[1] + 17, "ever has more", "red", size=12.5, bold=True)
    fullest = int(found.loads[0].argmax())
    order = [c for c in range(CHANNELS) if c != fullest] + [fullest]
    for channel in order:
        line = [place(0, found.loads[0, channel])]
        for step in range(1, steps + 1):
            line += [
                place(step, found.loads[step - 1, channel]),
                place(step, found.loads[step, channel]),
            ]
        chosen = channel == fullest
        sheet.line(line, "c0" if chosen else "muted", thick=3 if chosen else 1.25)
        sheet.dot(*line[0], "c0" if chosen else "muted", 4 if chosen else 2.5)
    _foot(sheet, found, place(steps, last)[1], last)
    return sheet


def _foot(sheet: Canvas, found: Course, y: float, last: float) -> None:
    """Write what it ends at, and what it has moved."""
    sheet.text(RIGHT + 12, y - 8, f"fullest: {last:.2f}", "c0", size=12.5, bold=True)
    sheet.text(RIGHT + 12, y + 9, f"{found.moved[-1]:.0%} of state moved", "muted", size=12.5)
    steps = len(found.loads) - 1
    for step in range(0, steps + 1, max(1, round(steps / 6))):
        x = LEFT + step / steps * (RIGHT - LEFT)
        sheet.text(x, BOTTOM + 18, str(step), "muted", size=12, anchor="middle")
    sheet.text((LEFT + RIGHT) / 2, BOTTOM + 40, "moves done", "muted", size=12.5, anchor="middle")
    sheet.text(
        28,
        392,
        "The order is that of safe_order, for a Zipf stream of 4,000 keys (z = 0.9). Without "
        "a limit all of it is one commit.",
        "muted",
        size=12,
    )
