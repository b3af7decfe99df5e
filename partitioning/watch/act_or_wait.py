"""Whether to act within the day: the cost of waiting for the daily run, against moving now.

The load to come is forecast from the sketches of past days, hour by hour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

import numpy as np

from partitioning.function.function import PartitioningFunction
from partitioning.moves.moves import moves_between
from partitioning.planning.decide import Pace
from partitioning.workload.metrics import placements
from partitioning.workload.profile import Floats, Profile

#: Weight of a day relative to the same weekday one week later. A larger value trusts old weeks
#: more.
DECAY = 0.85


@dataclass(frozen=True)
class Waiting:
    """The answer and what it rests on; None where unmeasured: then waiting is not weighed.

    Parameters
    ----------
    saved : seconds less that all channels wait for the fullest until the daily run; infinite: there
        is none
    cost : seconds of moving state, there and back
    """

    saved: float | None
    cost: float | None

    @property
    def cheaper(self) -> bool:
        """Whether waiting is."""
        return self.saved is not None and self.cost is not None and self.saved <= self.cost

    def __str__(self) -> str:
        if self.saved is None or self.cost is None:
            return "waiting for the daily run is not weighed: nothing is measured yet"
        if math.isinf(self.saved):
            return "no daily run is to come"
        better = "less" if self.cheaper else "more"
        return (
            f"waiting for the daily run costs {self.saved:.1f} s, {better} than the "
            f"{self.cost:.1f} s of moving there and back"
        )


def expected_load(
    days: Mapping[date, Floats], start: datetime, end: datetime, decay: float = DECAY
) -> float | None:
    """Return the load that is expected from `start` to `end`.

    Each hour of that span is expected to have what the same hour of the same weekday had. The one k
    weeks before has weight decay^k. If no such weekday is known, all days stand in for it.

    Parameters
    ----------
    days : float64 (24,): load of each hour, by day, of days before `start`
    decay : over 0, to 1

    Returns
    -------
    load, in the unit of `days`; None where no day is known
    """
    if not days:
        return None
    total, hour = 0.0, start.replace(minute=0, second=0, microsecond=0)
    like = dict[date, Floats]()
    while hour < end:
        day, ends = hour.date(), hour + timedelta(hours=1)
        if day not in like:
            like[day] = _like(days, day, decay)
        part = (min(end, ends) - max(start, hour)) / timedelta(hours=1)
        total += float(like[day][hour.hour]) * part
        hour = ends
    return total


def _like(days: Mapping[date, Floats], day: date, decay: float) -> Floats:
    """Return the load of each hour of a day like this one, float64 (24,)."""
    same = {d: hours for d, hours in days.items() if d.weekday() == day.weekday()}
    known = same or days
    weights = [decay ** ((day - d).days / 7) for d in known]
    return np.average(list(known.values()), axis=0, weights=weights)


def weigh_waiting(
    before: Floats,
    after: Floats,
    batches: float,
    usual: float,
    load: float | None,
    size: float,
    seconds_per_load: float | None,
    pace: Pace | None,
    migration: float,
    back: float,
) -> Waiting:
    """Compare leaving a skew to the daily run with moving state now.

    Until the daily run, each channel is expected to get what the last batches brought it, scaled to
    `load`.

    Parameters
    ----------
    before, after : float64 (N,): forecast of each channel's load in a batch, over its speed,
        unchanged and mitigated
    batches : batches until the daily run; infinite: there is none
    usual : load of a batch, the mean of the last ones
    load : load expected of all those batches; None: as the last ones had
    size, back : bytes of state to move, there and back
    seconds_per_load, pace : measured, as in `decide.Policy`
    migration : batches that pass until state has moved
    """
    if seconds_per_load is None or pace is None:
        return Waiting(None, None)
    each = float(before.max() - after.max()) * seconds_per_load
    if load is not None and math.isfinite(batches) and usual * batches > 0:
        each *= load / (usual * batches)
    left = max(batches - migration, 0.0)
    saved = each * left if each > 0 else 0.0
    return Waiting(saved, pace.seconds(size) + pace.seconds(back))


def bytes_back(
    current: PartitioningFunction, function: PartitioningFunction, profile: Profile
) -> float:
    """Return the bytes that move when shared keys go back to where `current` has them.

    A helper's partial row is taken to weigh what an owner's does now, because its rows have the
    same columns. Copies are only deleted.

    Parameters
    ----------
    current, function : the function before the mitigation, and the one with it
    profile : what state weighs now; it must list the explicit and split keys of both
    """
    had, has = (
        np.bincount(placements(f, profile.heavy)[0], minlength=len(profile.heavy))
        for f in (current, function)
    )
    then = replace(profile, heavy_bytes=profile.heavy_bytes / had * has)
    return float(sum(m.bytes for m in moves_between(function, current, then)))
