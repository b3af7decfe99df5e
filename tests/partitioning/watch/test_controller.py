"""The watch against streams of known load: how soon it acts, what it reaches, when it stops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Limits, MicroBatch, Weights
from partitioning.workload.profile import Floats

CHANNELS, KEYS, HOT = 8, 160, 3
#: Load of each key but the hot one, which has 0 to 4 channels' worth beside it.
LIGHT = 100.0 * CHANNELS / KEYS
MEAN = LIGHT * KEYS / CHANNELS
LIMITS = Limits(eta=MEAN)


@dataclass
class Stream:
    """Keys on channels that work off twice a mean load a batch, watched."""

    limits: Limits = LIMITS
    watch: Controller = field(
        default_factory=lambda: Controller(Threshold(MEAN, 0, math.inf, left=0))
    )
    weights: dict[int, Weights] = field(
        default_factory=lambda: {k: {k % CHANNELS: 1.0} for k in range(KEYS)}
    )
    waiting: Floats = field(default_factory=lambda: np.zeros(CHANNELS))
    changes: list[tuple[int, int]] = field(default_factory=list)  # batch, key
    even: list[float] = field(default_factory=list)  # imbalance of each batch

    def run(self, hot: Iterable[float], at: Iterable[int] = (HOT,), **more: Any) -> Stream:
        """Batches in which each key of `at` has so many channels' worth beside, or that many times
        what `at` says of it."""
        times = at if isinstance(at, Mapping) else dict.fromkeys(at, 1.0)
        for load in hot:
            keys = dict.fromkeys(range(KEYS), LIGHT)
            for key, share in times.items():
                keys[key] += load * share * MEAN
            loads = np.zeros(CHANNELS)
            for key, came in keys.items():
                whole = sum(self.weights[key].values())
                for channel, weight in self.weights[key].items():
                    loads[channel] += came * weight / whole
            self.even.append(float(loads.max() / loads.mean()))
            self.waiting = np.maximum(self.waiting + loads - 2 * MEAN, 0.0)
            number = self.watch.last + 1
            # What has come in this batch has waited, too.
            batch = MicroBatch(number, 0, loads, self.waiting + loads, keys)
            homes = {k: next(iter(w)) for k, w in self.weights.items() if len(w) == 1}
            shared = {k for k, now in self.watch.spread.items() if now.helpers}
            self.watch, decided = self.watch.fold(batch, 0, self.limits, homes, **more)
            whole = {k for k in decided if k not in shared and len(decided[k]) == 1}
            assert all(decided[k].keys() != self.weights[k].keys() for k in whole), "in vain"
            self.weights |= decided
            self.changes += [(number, key) for key in decided]
        return self


def test_a_hot_key_is_met_at_once_shared_and_handed_back() -> None:
    stream = Stream().run([0.0] * 5)
    assert stream.changes == [] and stream.even[-1] == pytest.approx(1)
    # One key with a third of all load: its channel has 5 times what others have.
    stream.run([4.0] * 10)
    assert stream.changes[0] == (5, HOT), "not in the first batch that shows it"
    assert {key for _, key in stream.changes} == {HOT}
    assert stream.even[5] == pytest.approx(5 * 8 / 12)
    assert stream.even[-1] == pytest.approx(1, abs=0.01)
    owners = stream.weights[HOT]
    assert 2 <= len(owners) <= CHANNELS and stream.watch.spread[HOT].catching == 0
    assert stream.waiting.max() == 0, "helpers have not caught up"
    # First the helpers took it all.
    assert len(stream.changes) == 2
    # It cools down: it goes home once that has shown for as long as is remembered.
    stream.run([0.0] * 40)
    assert stream.weights[HOT] == {HOT % CHANNELS: 1.0}
    assert stream.watch.spread == {} and len(stream.changes) == 3
    assert stream.even[-1] == pytest.approx(1)


def test_without_a_first_phase_it_shares_at_once() -> None:
    stream = Stream(replace(LIMITS, catch_up=False)).run([4.0] * 10)
    assert stream.changes[0] == (0, HOT) and len(stream.weights[HOT]) > 1
    assert stream.even[1] == pytest.approx(1, abs=0.01)
    # What waits at the home is not made up for.
    assert stream.watch.spread[HOT].catching == 0
    assert stream.even[-1] == pytest.approx(1, abs=0.01)


def test_keys_that_turn_hot_together_are_made_even_and_handed_back_together() -> None:
    pair = (HOT, HOT + 1)
    stream = Stream(replace(LIMITS, copies=2, calm=1.1)).run([4.0] * 10, at=pair)
    assert stream.changes[:4] == [(0, HOT), (0, HOT + 1), (1, HOT), (1, HOT + 1)]
    # Each shares with one channel, and whole keys go from all four to the others.
    assert stream.even[-1] < 1.05
    assert [stream.watch.spread[key].catching for key in pair] == [0, 0]
    stream.run([0.0] * 40, at=pair)
    assert stream.watch.spread == {} and stream.even[-1] == pytest.approx(1)
    assert stream.weights == Stream().weights, "what made room for them has not gone back"
    assert stream.changes[-2:] == [(29, HOT), (29, HOT + 1)]


@pytest.mark.parametrize("beside", [True, False], ids=["beside", "instead"])
@pytest.mark.parametrize("where", [1, CHANNELS], ids=["on a helper", "on the same home"])
@pytest.mark.parametrize("copies", [None, 3])
def test_a_key_that_turns_hot_while_another_is_shared_is_met_as_soon(
    beside: bool, where: int, copies: int | None
) -> None:
    second = HOT + where
    stream = Stream(replace(LIMITS, copies=copies, calm=1.1)).run([4.0] * 25)
    begun = len(stream.changes)
    stream.run([4.0] * 60, at=(HOT, second) if beside else (second,))
    assert stream.changes[begun] == (25, second), "not in the first batch that shows it"
    if copies is None:
        assert max(stream.even[26:]) < 1.12
    else:
        # Whole keys make room, as tau asks; and once who is behind catches up.
        assert max(stream.even[26:29]) < 0.7 * stream.even[25]
        assert np.median(stream.even[29:]) < 1.3 < stream.even[25] / 2
    assert stream.watch.spread[second].catching == 0
    assert (HOT in stream.watch.spread) == beside, "what is cold is not handed back, or what is hot"
    assert_calm(stream)
    stream.run([0.0] * 100)
    assert stream.watch.spread == {} and stream.weights == Stream().weights


def test_a_key_that_turns_hot_while_another_catches_up_does_not_wait_for_it() -> None:
    """It takes part of what the other's home has yet to work off for its own, as load beside it."""
    for where in (1, CHANNELS):
        stream = Stream(replace(LIMITS, calm=1.1)).run([4.0] * 2)
        assert stream.watch.spread[HOT].catching == 1
        stream.run([4.0] * 20, at=(HOT, HOT + where))
        begun = min(number for number, key in stream.changes if key == HOT + where)
        assert begun <= 3, "not within two batches"
        assert max(stream.even[4:]) < 1.12
        assert stream.watch.spread[HOT + where].catching == 0
        assert_calm(stream)


def test_catching_up_lasts_as_long_as_the_watch_remembers() -> None:
    """And not only as long as moves are counted."""
    stream = Stream(replace(LIMITS, memory=40, within=20))
    stream.waiting[HOT] = 100 * MEAN
    stream.run([1.5] * 35)
    assert stream.changes == [(0, HOT)] and stream.watch.spread[HOT].catching == 1
    stream.run([1.5] * 6)
    assert stream.changes[1:] == [(40, HOT)] and stream.watch.spread[HOT].catching == 0


def test_what_waits_of_the_past_moves_nothing_more() -> None:
    """Loads are even, and as much as is worked off: what is behind stays so."""
    stream = Stream(replace(LIMITS, calm=1.1)).run([4.0] * 20)
    stream.waiting = stream.waiting + np.eye(CHANNELS)[0] * 10 * MEAN
    before = list(stream.changes)
    stream.run([4.0] * 3)
    assert {key for _, key in stream.changes[len(before) :]} <= {HOT}


FLIPS: dict[str, Callable[[int], float]] = {
    "every batch": lambda i: 4.0 * (i % 2),
    "every third": lambda i: 4.0 * (i % 3 == 0),
    "every tenth": lambda i: 4.0 * (i // 10 % 2),
}


@pytest.mark.parametrize("flips", FLIPS)
def test_a_load_that_flips_moves_no_key_more_than_twice_in_twenty(flips: str) -> None:
    stream = Stream().run(FLIPS[flips](i) for i in range(200))
    assert_calm(stream)
    idle = Stream(replace(LIMITS, moves=0)).run(FLIPS[flips](i) for i in range(200))
    assert idle.changes == []
    assert np.mean(stream.even) < np.mean(idle.even)


@given(st.lists(st.sampled_from([0.0, 1.0, 4.0, 20.0]), min_size=40, max_size=80))
def test_whatever_comes_no_key_moves_more_than_twice_in_twenty(hot: list[float]) -> None:
    assert_calm(Stream().run(hot))


@settings(deadline=None, max_examples=40)
@given(
    st.sets(st.integers(0, 2 * CHANNELS - 1), min_size=2, max_size=4),
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, 4.0]), st.integers(1, 25)), max_size=4),
    st.sampled_from([None, 2, 3]),
    st.sampled_from([1, 5, 20]),
)
def test_however_many_keys_turn_hot_together(
    keys: set[int], phases: list[tuple[float, int]], copies: int | None, memory: int
) -> None:
    stream = Stream(replace(LIMITS, copies=copies, memory=memory, calm=1.1))
    for load, batches in phases:
        for _ in range(batches):
            before = stream.watch
            decided = len(stream.changes)
            stream.run([load], at=sorted(keys))
            # One way is weighed for all: either they begin, or they go on.
            begun = stream.watch.keys_placed_since(before)
            assert begun in (set(), {key for _, key in stream.changes[decided:]})
    assert_calm(stream)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 2 * CHANNELS - 1), max_size=3), st.integers(1, 25)),
        min_size=2,
        max_size=6,
    ),
    st.sampled_from([None, 2, 3]),
    st.sampled_from([1, 4, 20]),
    st.sampled_from([1.0, 1.1]),
    st.booleans(),
)
def test_whichever_keys_turn_hot_one_after_another(
    phases: list[tuple[set[int], int]], copies: int | None, memory: int, calm: float, split: bool
) -> None:
    limits = replace(LIMITS, copies=copies, memory=memory, calm=calm, splitting=split)
    stream = Stream(limits)
    for keys, batches in phases:
        stream.run([4.0] * batches, at=sorted(keys))
    assert_calm(stream)
    stream.run([0.0] * 150)
    assert not any(now.helpers for now in stream.watch.spread.values()), "it never ends"
    assert stream.even[-1] < 1.3


def assert_calm(stream: Stream) -> None:
    for key in {key for _, key in stream.changes}:
        at = [number for number, k in stream.changes if k == key]
        assert all(late - early >= 20 for early, late in zip(at, at[2:], strict=False)), at


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
