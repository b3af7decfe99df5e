"""Figures of a migration: the predicted and the measured cost, as one number for one thing.

A run's page, its report, the console and the metrics all take their figures from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isinf
from typing import NamedTuple

from evenkeel.registry.files.migration_records import MigrationRecord, Prediction
from evenkeel.render.formatting import bytes_text, count_text, seconds_text
from evenkeel.runs.timings import moved_bytes
from partitioning.planning.plan import Plan


class Figure(NamedTuple):
    """One figure of a migration; None: not known, or not there yet.

    Parameters
    ----------
    name : for machines
    title, note : for people
    predicted, measured : the numbers
    """

    name: str
    title: str
    note: str
    predicted: float | None
    measured: float | None

    def text(self, value: float | None) -> str:
        """Format one of its numbers."""
        if value is None:
            return "–"
        if self.name.startswith("bytes"):
            return bytes_text(value)
        return seconds_text(value) if self.name == "seconds" else count_text(value)

    @property
    def texts(self) -> tuple[str, str]:
        """The predicted and the measured number, formatted."""
        return self.text(self.predicted), self.text(self.measured)


def figures(
    plan: Plan, prediction: Prediction | None, migration: MigrationRecord | None
) -> list[Figure]:
    """Return what carrying out a plan was predicted to cost, and what it cost.

    Parameters
    ----------
    prediction : None: none could be made
    migration : None, or without tables: nothing was measured
    """
    tables = migration.tables.values() if migration else ()

    def total(each: Iterable[float]) -> float | None:
        return float(sum(each)) if tables else None

    rows = total(t.rows for t in tables)
    planned = sum(m.rows for m in plan.moves)
    moved = None if rows is None else moved_bytes(plan.bytes, planned, rows)
    written, files = total(t.bytes for t in tables), total(t.files for t in tables)
    made = total(len(t.commits) for t in tables)
    seconds = total(t.seconds if t.elapsed is None else t.elapsed for t in tables)
    p = prediction
    weight = "rows at the weight that the plan gave them"
    return [
        Figure("rows", "rows of state", "", planned, rows),
        Figure("bytes_moved", "bytes of state", weight, plan.bytes, moved),
        Figure("bytes_written", "bytes of files", "with footers", p and p.written, written),
        Figure("files", "files", "", p and p.files, files),
        Figure("commits", "commits", "of all state tables", p and p.commits, made),
        Figure(
            "seconds",
            "time",
            "first commit to last, waiting for the rate included",
            p and p.seconds,
            seconds,
        ),
    ]


def numbers(found: list[Figure]) -> dict[str, dict[str, float | None]]:
    """Return the figures as plain JSON values."""
    return {f.name: {"predicted": f.predicted, "measured": f.measured} for f in found}


def break_even(prediction: Prediction | None, horizon: int) -> tuple[str, bool]:
    """Say when a move has paid for itself, and whether that is within the horizon.

    Parameters
    ----------
    horizon : days within which it should
    """
    days = prediction and prediction.days
    if days is None:
        return "not known: windows and migrations must be measured first", True
    if isinf(days):
        return "it never pays: no window waits less for the fullest channel", False
    text = f"pays back after {count_text(days)} days"
    if days > horizon:
        return f"{text}; the horizon is {horizon}: it does not pay", False
    return f"{text}, within the horizon of {horizon}", True
