"""What binds the watch: closed channels, capacities, copies, prices and budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import MicroBatch, Weights
from tests.support.planning.watched_streams import CHANNELS, HOT, KEYS, LIGHT, LIMITS, MEAN, Stream


def test_state_that_cannot_be_merged_moves_whole() -> None:
    # Two keys of one channel turn hot, with 1 and 2 channels' worth.
    stream = Stream(replace(LIMITS, splitting=False))
    for _ in range(5):
        keys = dict.fromkeys(range(KEYS), LIGHT) | {HOT: 2 * MEAN, HOT + CHANNELS: MEAN}
        loads = np.zeros(CHANNELS)
        for key, came in keys.items():
            (channel,) = stream.weights[key]
            loads[channel] += came
        batch = MicroBatch(stream.watch.last + 1, 0, loads, loads, keys)
        homes = {k: next(iter(w)) for k, w in stream.weights.items()}
        stream.watch, decided = stream.watch.fold(batch, 0, stream.limits, homes)
        stream.weights |= decided
    # The one that fits, and no more: the other alone is more than what must go.
    assert stream.weights[HOT] == {HOT: 1.0}
    assert set(stream.weights[HOT + CHANNELS]) != {HOT}
    assert HOT not in stream.watch.spread
    assert not any(m.helpers for m in stream.watch.spread.values())


@pytest.mark.parametrize(("first", "second"), [(1.5, 3.0), (3.0, 6.0), (3.0, 12.0)])
def test_a_key_that_is_hot_is_not_handed_back_as_another_channel_is_fuller(
    first: float, second: float
) -> None:
    """Copies are few: the second key's channels stay far over the mean."""
    stream = Stream(replace(LIMITS, copies=2, calm=1.1, memory=5)).run([first] * 10)
    assert HOT in stream.watch.spread
    for _ in range(60):
        stream.run([1.0], at={HOT: first, HOT + 1: second})
        assert HOT in stream.watch.spread


@pytest.mark.parametrize("closed", range(6))
@pytest.mark.parametrize("hot", [1.5, 4.0])
def test_closed_channels_count_for_nothing(closed: int, hot: float) -> None:
    open_ = np.arange(CHANNELS) < CHANNELS - closed
    loads = np.where(open_, MEAN, 0.0)
    loads[0] += hot * MEAN
    batch = MicroBatch(0, 0, loads, np.where(open_, loads, np.inf), {HOT: (hot + 0.05) * MEAN})
    watch = Controller(Threshold(MEAN / 2, 0, math.inf, left=0))
    limits = replace(LIMITS, calm=1.1, catch_up=False)
    _, decided = watch.fold(batch, 0, limits, {HOT: 0})
    assert len(decided[HOT]) > 1 and max(decided[HOT]) < CHANNELS - closed


def test_keys_that_moved_whole_go_back_too() -> None:
    stream = Stream(replace(LIMITS, splitting=False, memory=4, calm=1.1)).run([1.0] * 30)
    gone = {k for k, weights in stream.weights.items() if set(weights) != {k % CHANNELS}}
    assert len(gone) == 10 == len(stream.changes) and stream.even[-1] == pytest.approx(4 / 3)
    stream.run([0.0] * 10)
    assert stream.watch.spread == {} and stream.weights == Stream().weights
    assert len(stream.changes) == 20 and stream.even[-1] == pytest.approx(1)


def test_of_keys_that_cool_down_together_one_alone_may_go_home() -> None:
    pair = (HOT, HOT + 1)
    stream = Stream(replace(LIMITS, memory=4, calm=1.1)).run([4.0] * 10, at=pair)
    assert set(pair) <= set(stream.watch.spread)
    together, stream.limits = stream.limits, replace(stream.limits, only=frozenset())
    stream.run([0.0] * 20, at=pair)
    shared, begun = set(stream.watch.spread), len(stream.changes)
    stream.limits = replace(together, only=frozenset([HOT]))
    stream.run([0.0] * 2, at=pair)
    assert set(stream.watch.spread) == shared - {HOT}
    assert {key for _, key in stream.changes[begun:]} == {HOT}
    stream.limits = together
    assert stream.run([0.0] * 20, at=pair).watch.spread == {}


def test_tau_adapts_at_most_so_often() -> None:
    """Algorithm 1: down to the gap where that can be forecast, up where it cannot."""
    random = np.random.default_rng(0)
    noise = random.normal(0, 0.02 * MEAN, 200)

    def met(tau: float, lower: float, upper: float, hot: Iterable[float]) -> Stream:
        found = Stream()
        found.watch = Controller(Threshold(tau, lower, upper, step=MEAN / 2, left=3))
        return found.run(hot)

    # The gap is a channel's load and a half, foretold to a few hundredths: it begins at once, and
    # tau is that gap from then on.
    sure = met(50 * MEAN, MEAN / 2, MEAN, [1.5 + n / MEAN for n in noise[:8]])
    assert sure.changes[0] == (1, HOT)
    # In two batches it waits for half of a load twice, and has the newest.
    gap = 1.5 * MEAN + 2 * 0.5 * MEAN
    assert sure.watch.threshold.tau == pytest.approx(gap, rel=0.05)
    assert sure.watch.threshold.left == 2
    # Never foretold as well as is asked: it waits for 50 loads.
    assert not met(50 * MEAN, 1e-9, MEAN, [1.5 + n / MEAN for n in noise[:8]]).changes
    # Foretold badly, it begins as tau says, which is raised for the next: three times at most.
    unsure = met(MEAN / 10, 0.0, MEAN / 10, [])
    for key in range(CHANNELS):
        unsure.run([0.0, 4.0, 0.0, 4.0], at=(key,))
    assert unsure.watch.iterations > 3
    assert unsure.watch.threshold.left == 0
    assert unsure.watch.threshold.tau == pytest.approx(MEAN / 10 + 3 * MEAN / 2)


def test_a_batch_is_folded_once_and_one_of_an_older_epoch_says_nothing() -> None:
    watch = Controller(Threshold(MEAN, 0, math.inf, left=0))
    loads = np.full(CHANNELS, MEAN) + np.eye(CHANNELS)[HOT] * 4 * MEAN
    batch = MicroBatch(0, 1, loads, loads, {HOT: 4 * MEAN})
    late, decided = watch.fold(replace(batch, epoch=0), 1, LIMITS, {HOT: HOT})
    assert decided == {} and late == replace(watch, last=0)
    seen, decided = watch.fold(batch, 1, LIMITS, {HOT: HOT})
    assert set(decided) == {HOT} and seen.iterations == 1
    assert seen.fold(batch, 1, LIMITS, {HOT: HOT}) == (seen, {})
    # A daily run is under way: it is only looked at.
    held, decided = watch.fold(batch, 1, LIMITS, {HOT: HOT}, under_way=True)
    assert decided == {} and len(held.sample) == 1 and held.spread == {}


def test_channels_get_as_they_are_fast_and_a_key_has_no_more_copies_than_allowed() -> None:
    speeds = np.array([1.0, 1, 1, 1, 2, 1, 1, 1])
    # The last one is closed: no load, and it takes no part.
    loads = np.where(np.arange(CHANNELS) == HOT, 5 * MEAN, MEAN) * speeds
    loads[-1] = 0.0
    waiting = loads / speeds
    waiting[-1] = np.inf
    batch = MicroBatch(0, 0, loads, waiting, {HOT: 4 * MEAN})
    watch = Controller(Threshold(MEAN, 0, math.inf, left=0))
    limits = replace(LIMITS, speeds=speeds, catch_up=False)
    _, decided = watch.fold(batch, 0, limits, {HOT: HOT})
    weights = decided[HOT]
    assert set(weights) == set(range(7))
    # The load is even over speed: the fast channel has twice what others have.
    after = loads - np.eye(CHANNELS)[HOT] * 4 * MEAN
    after[list(weights)] += 4 * MEAN * np.array(list(weights.values())) / sum(weights.values())
    assert (after / speeds)[:7] == pytest.approx(np.full(7, 12 * MEAN / 8))
    _, few = watch.fold(batch, 0, replace(limits, copies=3), {HOT: HOT})
    assert len(few[HOT]) == 3


def test_moving_must_pay_and_begins_early() -> None:
    loads = np.full(CHANNELS, MEAN) + np.eye(CHANNELS)[HOT] * 4 * MEAN
    batch = MicroBatch(0, 0, loads, loads, {HOT: 4 * MEAN})
    watch = Controller(Threshold(MEAN, 0, math.inf, left=0))

    def decided(tau: float, **limits: Any) -> dict[int, Weights]:
        asked = replace(LIMITS, **limits)
        return replace(watch, threshold=replace(watch.threshold, tau=tau)).fold(
            batch, 0, asked, {HOT: HOT}
        )[1]

    # The gap is 4 means; 12 come a batch.
    assert decided(4 * MEAN) and not decided(4.1 * MEAN)
    # While state moves for half a batch, 2 more come: tau may be 6 for them to be tau apart then.
    assert decided(5.9 * MEAN, migration=lambda n: 0.5)
    assert not decided(6.1 * MEAN, migration=lambda n: 0.5)
    # The input ends after 3 batches: moving for so long is in vain.
    assert decided(MEAN, left=36 * MEAN, migration=lambda n: 1.0)
    assert not decided(MEAN, left=36 * MEAN, migration=lambda n: 3.0)
    # Each helper more costs time: fewer are taken.
    few = decided(MEAN, left=36 * MEAN, migration=lambda n: 0.4 * n)
    many = decided(MEAN, left=36 * MEAN)
    assert 1 <= len(few[HOT]) < len(many[HOT])


def test_no_more_help_than_the_budget_pays_for_and_copies_take_their_time() -> None:
    loads = np.full(CHANNELS, MEAN) + np.eye(CHANNELS)[HOT] * 4 * MEAN
    batch = MicroBatch(0, 0, loads, loads, {HOT: 4 * MEAN})
    watch = Controller(Threshold(MEAN, 0, math.inf, left=0))

    def helpers(copy: float, partial: float, budget: float | None, **limits: Any) -> int:
        asked = replace(LIMITS, left=36 * MEAN, **limits)
        asked = asked.affording(copy, partial, budget, lambda size: size / 100)
        decided = watch.fold(batch, 0, asked, {HOT: HOT})[1]
        return len(decided[HOT]) if decided else 0

    free = helpers(0, 0, 0)
    assert free == helpers(0, 10, None) > 3
    # Each hands back 10 bytes, or gets 1: the budget pays for two, or three.
    assert helpers(0, 10, 29) == 2 and helpers(1, 0.5, 3.5) == 3
    assert helpers(0, 10, 1000) == free and helpers(0, 10, 29, copies=2) == 1
    # It pays for none: then all is held against it as it was.
    assert helpers(0, 10, 9) == free
    # A copy that takes .4 batches each; and one that takes longer than there is load.
    assert 1 <= helpers(40, 0, None) < free and helpers(400, 0, None) == 0
