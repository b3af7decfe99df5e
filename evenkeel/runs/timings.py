"""Measured costs of windows and migrations."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.run_files import EpochFiles
from partitioning.planning.decide import Pace
from partitioning.workload.profile import Profile

#: Newest windows or migrations to average over. More: estimates react more slowly.
NEWEST = 8
#: Newest epochs to search for them. More of them cost one read each.
SEARCHED_EPOCHS = 64


def seconds_per_load(registry: Registry, profile: Profile) -> float | None:
    """Return the seconds that a channel takes for one unit of load; None: not measured.

    `windows/*.json` have seconds and rows. The profile says how much load a row of input is.
    """
    seconds, rows = 0.0, 0
    for end in registry.files.window_ends()[-NEWEST:]:
        for channel in registry.files.window(end).read().channels:
            seconds, rows = seconds + channel.seconds, rows + channel.rows
    load = float(profile.load.sum())
    if not rows or not seconds or not load or not profile.events:
        return None
    return seconds / rows * profile.events / load


@dataclass(frozen=True)
class MigrationCost:
    """Measured cost of one migration.

    Parameters
    ----------
    moved : bytes of state that changed their channel, by the weights of the plan
    written : bytes of files, with their footers
    seconds : that its commits took
    commits, files : of all state tables
    """

    moved: float
    written: float
    seconds: float
    commits: int
    files: int


def pace(registry: Registry) -> Pace | None:
    """Return how fast state moves, by the newest migrations; None: unmeasured.

    It is the bytes of state that they moved over their seconds, and no less than the quickest of
    them took. They wrote more than that: files have footers.
    """
    measured = migrations(registry)
    if not measured:
        return None
    rate = sum(m.moved for m in measured) / sum(m.seconds for m in measured)
    return Pace(rate, min(m.seconds for m in measured))


def migrations(registry: Registry, before: int | None = None) -> list[MigrationCost]:
    """Read what the newest migrations that moved state have cost.

    Parameters
    ----------
    before : only migrations to epochs below this number count; None: all
    """
    found: list[MigrationCost] = []
    known = [n for n in registry.numbers() if before is None or n < before]
    for number in reversed(known[-SEARCHED_EPOCHS:]):
        if len(found) == NEWEST:
            break
        one = _measured(registry.archive(number))
        # A plan that only splits a key may move nothing, and then shows no rate.
        found += [one] if one is not None and one.moved and one.seconds else []
    return found


def moved_bytes(plan_bytes: float, plan_rows: float, rows: float) -> float:
    """Return the bytes of state that rows weigh, at the weight that their plan gave a row."""
    return plan_bytes * rows / plan_rows if plan_rows else plan_bytes


def _measured(kept: EpochFiles) -> MigrationCost | None:
    """Read what the migration to an epoch has cost; None: the epoch keeps no record of one."""
    record = kept.migration.find()
    if record is None:
        return None
    tables = record.tables.values()
    written = moved = float(sum(t.bytes for t in tables))
    plan = kept.plan_summary.find() if written else None
    if plan is not None:
        planned = sum(m.rows for m in plan.moves)
        moved = moved_bytes(plan.bytes, planned, sum(t.rows for t in tables))
    return MigrationCost(
        moved,
        written,
        sum(t.seconds for t in tables),
        commits=sum(len(t.commits) for t in tables),
        files=sum(t.files for t in tables),
    )
