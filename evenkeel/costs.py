"""What windows and migrations have cost, as measured by those that ran."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.epochs import Registry
from evenkeel.store import RESTORE
from partitioning.decide import Pace
from partitioning.errors import DamagedError
from partitioning.plan import Plan
from partitioning.profile import Profile

#: How many of the newest are asked.
NEWEST = 8


def seconds_per_load(registry: Registry, profile: Profile) -> float | None:
    """Seconds that a channel takes for one unit of load, from `windows/*.json`; None: unmeasured.

    Windows measure seconds and rows; the profile says how much load a row of input is.
    """
    names = registry.store.names("windows")[-NEWEST:]
    channels = [c for n in names for c in registry.store.read_json(f"windows/{n}")["channels"]]
    seconds = sum(float(c["seconds"]) for c in channels)
    rows = sum(int(c["rows"]) for c in channels)
    load = float(profile.load.sum())
    if not rows or not seconds or not load or not profile.events:
        return None
    return seconds / rows * profile.events / load


def pace(registry: Registry) -> Pace | None:
    """How fast state moves, from the newest epochs' migrations: their bytes over their seconds, and
    no less than the quickest of them took; None: unmeasured."""
    measured = _migrations(registry)
    size, seconds = sum(b for b, _ in measured), sum(s for _, s in measured)
    if not size or not seconds:
        return None
    return Pace(size / seconds, min(s for _, s in measured))


def _migrations(registry: Registry) -> list[tuple[float, float]]:
    """Bytes written and seconds taken of each of the newest migrations."""
    found = []
    for number in registry.numbers()[-NEWEST:]:
        name = f"epochs/{number:08d}/migration.json"
        if registry.store.exists(name):
            try:
                tables = registry.store.read_json(name)["tables"].values()
                size = sum(float(t["bytes"]) for t in tables)
                found.append((size, sum(float(t["seconds"]) for t in tables)))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                where = registry.store.path(name)
                raise DamagedError("not a record of a migration", where, RESTORE) from error
    return found


@dataclass(frozen=True)
class Price:
    """What a plan costs in time, by what windows and migrations took so far; None: unmeasured.

    seconds : that moving takes, as for `decide`
    saved : that each window waits less for the fullest channel
    windows : after so many the move has paid for itself; infinite where it saves nothing
    rate : bytes of state that earlier migrations moved in a second
    """

    seconds: float | None = None
    saved: float | None = None
    windows: float | None = None
    rate: float | None = None


def price(registry: Registry, plan: Plan, profile: Profile | None) -> Price:
    """Predict what a plan costs and saves, from earlier runs."""
    measured = pace(registry)
    seconds = measured and measured.seconds(plan.bytes)
    per_load = seconds_per_load(registry, profile) if profile is not None else None
    saved = windows = None
    if per_load is not None:
        fair = sum(plan.loads_before) / len(plan.function.channels)
        saved = (plan.imbalance_before - plan.imbalance_after) * fair * per_load
    if seconds is not None and saved is not None:
        windows = seconds / saved if saved > 0 else float("inf")
    return Price(seconds, saved, windows, measured and measured.bytes_per_second)
