"""Whether a skew is better left to the daily run: what is to come, and what waiting costs."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

from partitioning.function.channels import numbered_channels
from partitioning.function.function import successor
from partitioning.moves.moves import moves_between
from partitioning.planning.decide import Pace
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, hashed_keys
from partitioning.watch.act_or_wait import (
    DECAY,
    Waiting,
    bytes_back,
    expected_load,
    weigh_waiting,
)
from partitioning.workload.profile import Floats, profile_of_keys

#: A Thursday.
TODAY = date(2026, 1, 29)
NOON = datetime(2026, 1, 29, 12, tzinfo=UTC)
BEFORE, AFTER = np.array([500.0, 100.0, 100.0, 100.0]), np.full(4, 200.0)


def days(load: dict[int, float]) -> dict[date, Floats]:
    """Load by days before today, even over the day."""
    return {TODAY - timedelta(days=back): np.full(24, v / 24) for back, v in load.items()}


def test_a_day_is_expected_to_be_like_the_same_weekday_was() -> None:
    known = days({7: 800.0, 14: 400.0, 1: 1e6, 3: 1e6})
    midnight = NOON.replace(hour=0) + timedelta(days=1)
    # Half of the day is left.
    assert expected_load(known, NOON, midnight, decay=1.0) == pytest.approx(300)
    assert expected_load(known, NOON, midnight, decay=0.5) == pytest.approx((800 + 200) / 1.5 / 2)
    # No Friday is known: as days are.
    both = expected_load(days({1: 10.0, 2: 30.0}), NOON, midnight + timedelta(days=1), decay=1.0)
    assert both == pytest.approx(10 + 20)
    assert expected_load({}, NOON, midnight) is None


def test_an_hour_is_expected_to_be_like_the_same_hour_was() -> None:
    shop = np.zeros(24)
    shop[9:18] = 100.0
    known = {TODAY - timedelta(days=7): shop, TODAY - timedelta(days=1): np.full(24, 1e6)}

    def to_come(hours: float, of: timedelta = timedelta(hours=12)) -> float | None:
        start = datetime(2026, 1, 29, tzinfo=UTC) + of
        return expected_load(known, start, start + timedelta(hours=hours))

    # At noon six busy hours are left, at half past five half of one; the night is quiet.
    assert to_come(12) == pytest.approx(600)
    assert to_come(6, timedelta(hours=17, minutes=30)) == pytest.approx(50)
    assert to_come(0.5, timedelta(hours=17, minutes=15)) == pytest.approx(50)
    assert to_come(8, timedelta(hours=1)) == 0
    # No Friday is known: its first hour is as that hour was on all days.
    weights = [DECAY ** (8 / 7), DECAY ** (2 / 7)]
    assert to_come(13) == pytest.approx(600 + 1e6 * weights[1] / sum(weights))
    # A day of which no hours are told is taken to be even.
    sketch = profile_of_keys(KEY, hashed_keys(5), np.full(5, 48.0), 64).sketch()
    assert sketch.by_hour().tolist() == [10.0] * 24
    assert replace(sketch, hours=shop).by_hour().tolist() == shop.tolist()


def test_waiting_is_weighed_against_moving_there_and_back() -> None:
    def weighed(batches: float = 10.0, **more: float) -> Waiting:
        asked = {
            "usual": 800.0,
            "load": None,
            "size": 1000.0,
            "seconds_per_load": 0.01,
            "pace": Pace(100.0, 2.0),
            "migration": 0.0,
        }
        asked |= {"back": 1000.0, **more}
        return weigh_waiting(BEFORE, AFTER, batches, **asked)

    # 300 more than needed on the fullest, 10 times; 1,000 bytes at 100 a second, twice.
    found = weighed()
    assert (found.saved, found.cost, found.cheaper) == (pytest.approx(30), 20, False)
    assert str(found).startswith("waiting for the daily run costs 30.0 s, more than the 20.0 s")
    assert weighed(batches=6.0).cheaper and "less than" in str(weighed(batches=6.0))
    # While state moves nothing is saved.
    assert weighed(migration=4.0).saved == pytest.approx(18)
    # Half as much comes as of late: the rest of the day is quiet.
    assert weighed(load=4000.0).saved == pytest.approx(15)
    # A load of 800 a batch is that, however fast the channels are that it is told over.
    slow = weigh_waiting(BEFORE * 2, AFTER * 2, 10.0, 800.0, 8000.0, 0.0, 0.01, Pace(100.0), 0, 0)
    assert slow.saved == pytest.approx(60)
    # To share a key moves nothing, its partials go back: 4,000 bytes.
    assert weighed(size=0.0, back=4000.0).cost == 2 + 40
    # Nothing moves, and still it takes its time.
    assert weighed(size=0.0, back=0.0).cost == 4
    assert not weighed(batches=math.inf).cheaper
    unknown = weigh_waiting(BEFORE, AFTER, 10.0, 800.0, None, 1000.0, None, None, 0, 0)
    assert not unknown.cheaper and "nothing is measured yet" in str(unknown)
    # What would not help is not worth anything, for ever.
    assert weigh_waiting(AFTER, BEFORE, math.inf, 800.0, None, 0.0, 1.0, Pace(1.0), 0, 0).cheaper


@pytest.mark.parametrize(("copy", "there", "back"), [(0.0, 0, 120), (30.0, 90, 30), (40.0, 120, 0)])
def test_partials_of_helpers_come_back_and_copies_do_not(copy, there, back) -> None:
    """A key of 40 bytes, shared by three helpers: what they have of it has the same columns."""
    profile = profile_of_keys(
        KEY, hashed_keys(5), np.ones(5), 64, threshold=0.5, state=np.full(5, 40.0)
    )
    profile = replace(profile, heavy_copy_bytes=np.full(5, copy))
    before, (key, other) = uniform(profile, None, numbered_channels(4)), profile.heavy[:2].tolist()
    shares = {key: dict.fromkeys(range(4), 1.0)}
    shared = successor(KEY, before, before.channels, before.slots, "x", None, {}, shares)
    assert sum(m.bytes for m in moves_between(before, shared, profile)) == there
    assert bytes_back(before, shared, profile) == back
    # A whole key's way back is the way there; what was shared before is on neither.
    away = (int(before.lookup_hashes(np.array([other]))[0]) + 1) % 4
    moved = successor(KEY, shared, before.channels, before.slots, "x", None, {other: away}, shares)
    assert bytes_back(shared, moved, profile) == 40
