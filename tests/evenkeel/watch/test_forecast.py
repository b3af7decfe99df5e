"""Whether the watch would act on a profile's load: by its own rule, folded over a whole day."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evenkeel.spec.loading import load_spec
from evenkeel.watch.forecast import spec_limits, too_heavy_to_move, would_act
from evenkeel.watch.state import WATCHED_SHARE, new_watch
from partitioning.function.function import PartitioningFunction
from partitioning.watch.mitigation import MicroBatch
from partitioning.workload.metrics import channel_loads, imbalance_of
from partitioning.workload.profile import Profile
from tests.support.cases.watch_state import heaviest
from tests.support.worlds.shop import Shop, words_profile

#: A watch that acts at once, one for which load has to wait for hours, and one that waits in vain.
WATCHES: list[dict[str, Any]] = [
    {},
    {"eta": 1.05, "tau": 0.1},
    {"eta": 20, "speed": 1},
    {"eta": 20, "speed": 3},
    {"every": 60, "eta": 12, "speed": 1.2},
]


def acts_within_a_day(shop: Shop, function: PartitioningFunction, profile: Profile) -> bool:
    """Fold every micro-batch of a day, each with the profile's load, as the watch itself does."""
    spec = load_spec(shop.spec)
    assert spec.watch is not None
    loads, heavy = channel_loads(function, profile), profile.heavy_load
    keys = {
        int(key): float(load)
        for key, load in zip(profile.heavy, heavy, strict=True)
        if load >= WATCHED_SHARE * loads.sum() / len(loads)
    }
    known = new_watch("batches", shop.registry.current(), spec.watch)
    for number in range(24 * 60 // spec.watch.every):
        batch = MicroBatch(number, function.epoch, loads, np.zeros(len(loads)), keys)
        limits = spec_limits(spec, spec.watch)
        known, _, decided = known.folded(batch, function, limits, spec.watch.speed)
        if decided:
            return True
    return False


@pytest.mark.parametrize("split", [None, {"by": "id"}])
@pytest.mark.parametrize("watch", WATCHES)
def test_it_is_the_watchs_own_rule(
    shop: Shop, watch: dict[str, Any], split: dict[str, str] | None
) -> None:
    more = {} if split is None else {"split": split, "strategy": "frontier"}
    shop.respec(watch=watch, **more)
    function, said = shop.registry.current().function, []
    for seed in range(12):
        profile = words_profile(seed)
        said.append(would_act(load_spec(shop.spec), function, profile))
        assert said[-1] == acts_within_a_day(shop, function, profile), seed
    if watch in ({"eta": 1.05, "tau": 0.1}, {"eta": 20, "speed": 1}):
        assert any(said)
    if watch == {"eta": 20, "speed": 3}:
        assert not any(said)


def test_no_watch_acts_nowhere_and_an_even_table_needs_none(shop: Shop) -> None:
    shop.respec(watch={"eta": 1.05, "tau": 0.1})
    uneven, profile = shop.registry.current().function, shop.profile
    assert imbalance_of(uneven, profile) > 1.1
    assert would_act(load_spec(shop.spec), uneven, profile)
    even = shop.publish("r", force=True).function
    assert imbalance_of(even, profile) < 1.05
    assert not would_act(load_spec(shop.spec), even, profile)
    shop.respec()
    assert not would_act(load_spec(shop.spec), uneven, profile)


@pytest.mark.parametrize("split", [None, {"by": "id"}])
@pytest.mark.parametrize("hot", [30.0, 400.0])
def test_a_key_that_no_channel_has_room_for_is_named_where_it_may_not_be_shared(
    shop: Shop, hot: float, split: dict[str, str] | None
) -> None:
    shop.respec(watch={}, **({} if split is None else {"split": split, "strategy": "frontier"}))
    spec, epoch = load_spec(shop.spec), shop.registry.current()
    assert spec.watch is not None
    key, home = heaviest(shop)
    loads = np.full(4, 100.0)
    loads[home] += hot
    batch = MicroBatch(0, epoch.number, loads, np.zeros(4), {key: hot})
    known, limits = new_watch("batches", epoch, spec.watch), spec_limits(spec, spec.watch)
    _, _, decided = known.folded(batch, epoch.function, limits, spec.watch.speed)
    assert bool(decided) == (hot == 400 and split is not None)
    said = too_heavy_to_move(spec, known, batch, epoch.function, limits, {key: "Anna"})
    why = ": all of Anna is more than has to go from its channel, and without `split` no key"
    assert said == (f"{why} is shared" if hot == 400 and split is None else "")
