"""Whether to act within the day: what a straggler costs until the daily run comes, against moving
now. What is to come is foretold by the sketches of past days.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

import numpy as np

from partitioning.decide import Pace
from partitioning.function import PartitioningFunction
from partitioning.metrics import placements
from partitioning.moves import moves_between
from partitioning.profile import Floats, Profile

#: What a day counts against the same weekday a week after it.
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
    days: Mapping[date, float], start: datetime, end: datetime, decay: float = DECAY
) -> float | None:
    """Load that is to come from `start` to `end`: of each day of that span what the same weekday
    has had, the one of k weeks before weighing decay^k; where none is known, what days have had.

    A day's load is taken to come evenly: sketches are of days. To tell its hours apart they would
    have to be of hours.

    Parameters
    ----------
    days : load by day, of days before `start`; decay : over 0, to 1

    Returns
    -------
    None where no day is known
    """
    if not days:
        return None
    total, day = 0.0, start.date()
    while day <= end.date():
        begins = datetime(day.year, day.month, day.day, tzinfo=start.tzinfo)
        span = min(end, begins + timedelta(days=1)) - max(start, begins)
        total += _like(days, day, decay) * (span / timedelta(days=1))
        day += timedelta(days=1)
    return total


def _like(days: Mapping[date, float], day: date, decay: float) -> float:
    """Load of a day like this one."""
    same = {d: load for d, load in days.items() if d.weekday() == day.weekday()}
    known = same or days
    weights = {d: decay ** ((day - d).days / 7) for d in known}
    return sum(known[d] * w for d, w in weights.items()) / sum(weights.values())


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
    """Whether a skew is better left to the daily run.

    Until then, who gets what is expected to stay as the last batches had it, and as much to come
    as `load` says.

    Parameters
    ----------
    before, after : float64 (N,): forecast of a batch's load of each channel, over its speed, as
        things are and mitigated
    batches : until the daily run; infinite: there is none
    usual : load of a batch, as the last ones had it
    load : that all of them are expected to bring; None: as the last ones did
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
    """Bytes that will move as what `function` has spread goes back to where `current` has it.

    A helper's partial is taken to weigh then what one of an owner of now does: its rows have the
    same columns. Copies are only deleted.

    Parameters
    ----------
    profile : what state weighs now; it must list the explicit and split keys of both
    """
    had, has = (
        np.bincount(placements(f, profile.heavy)[0], minlength=len(profile.heavy))
        for f in (current, function)
    )
    then = replace(profile, heavy_bytes=profile.heavy_bytes / had * has)
    return float(sum(m.bytes for m in moves_between(function, current, then)))
