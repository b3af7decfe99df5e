"""What windows and migrations have cost, as measured by those that ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenkeel.registry.epochs import Registry
from evenkeel.registry.store import shaped
from evenkeel.runs.params import Throttling
from partitioning.planning.decide import Pace
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Profile

#: How many of the newest are asked.
NEWEST = 8
#: Epochs that are looked at for them.
LOOKED_AT = 64


def seconds_per_load(registry: Registry, profile: Profile) -> float | None:
    """Seconds that a channel takes for one unit of load, from `windows/*.json`; None: unmeasured.

    Windows measure seconds and rows; the profile says how much load a row of input is.
    """
    seconds, rows = 0.0, 0
    for name in registry.store.names("windows")[-NEWEST:]:
        where = registry.store.path(f"windows/{name}")
        window = shaped(registry.store.read_json(f"windows/{name}"), where, channels=list)
        for channel in window["channels"]:
            measured = shaped(channel, where, seconds=int | float, rows=int)
            seconds, rows = seconds + measured["seconds"], rows + measured["rows"]
    load = float(profile.load.sum())
    if not rows or not seconds or not load or not profile.events:
        return None
    return seconds / rows * profile.events / load


def pace(registry: Registry, before: int | None = None) -> Pace | None:
    """How fast state moves, from the newest epochs' migrations: their bytes over their seconds, and
    no less than the quickest of them took; None: unmeasured.

    Parameters
    ----------
    before : only migrations to epochs below this number count; None: all
    """
    measured = _migrations(registry, before)
    size, seconds = sum(b for b, _ in measured), sum(s for _, s in measured)
    if not size or not seconds:
        return None
    return Pace(size / seconds, min(s for _, s in measured))


def migrated(data: Any, where: str) -> dict[str, Any]:
    """What migration.json holds: bytes and seconds of each table; DamagedError for all else."""
    for table in shaped(data, where, tables=dict)["tables"].values():
        shaped(table, where, bytes=int | float, seconds=int | float)
    return dict(data)


def _migrations(registry: Registry, before: int | None) -> list[tuple[float, float]]:
    """Bytes written and seconds taken of each of the newest migrations that wrote any."""
    found: list[tuple[float, float]] = []
    known = [n for n in registry.numbers() if before is None or n < before]
    for number in reversed(known[-LOOKED_AT:]):
        if len(found) == NEWEST:
            break
        kept = registry.archive(number)
        if kept.exists("migration.json"):
            moved = migrated(kept.read_json("migration.json"), kept.path("migration.json"))
            tables = moved["tables"].values()
            seconds = sum(float(t["seconds"]) for t in tables)
            size = sum(float(t["bytes"]) for t in tables)
            # To share a key may move nothing, and then says nothing of how fast state moves.
            found += [(size, seconds)] if size else []
    return found


@dataclass(frozen=True)
class Price:
    """What a plan costs in time, by what windows and migrations took so far; None: unmeasured.

    seconds : that moving takes, as for `decide`
    saved : that each window waits less for the fullest channel
    windows : after so many the move has paid for itself; infinite where it saves nothing
    rate : bytes of state that earlier migrations wrote in a second
    limit : seconds that the limits on bytes and rows a second make of it at least; 0: no limit
    """

    seconds: float | None = None
    saved: float | None = None
    windows: float | None = None
    rate: float | None = None
    limit: float = 0.0


def price(
    registry: Registry, plan: Plan, profile: Profile | None, limits: Throttling | None = None
) -> Price:
    """Predict what a plan costs and saves, from migrations before it.

    Later ones, its own among them, change nothing: what an approver saw stays what the page says.

    Parameters
    ----------
    limits : what the migration is held to; None: nothing
    """
    measured = pace(registry, plan.function.epoch)
    seconds = measured and measured.seconds(plan.bytes)
    limit = 0.0
    if limits is not None:
        limit = max(0.0, *limits.seconds(sum(m.rows for m in plan.moves), plan.bytes))
    if limit:
        seconds = max(seconds or 0.0, limit)
    per_load = seconds_per_load(registry, profile) if profile is not None else None
    saved = windows = None
    if per_load is not None:
        fair = sum(plan.loads_before) / len(plan.function.channels)
        saved = (plan.imbalance_before - plan.imbalance_after) * fair * per_load
    if seconds is not None and saved is not None:
        windows = seconds / saved if saved > 0 else float("inf")
    return Price(seconds, saved, windows, measured and measured.bytes_per_second, limit)
