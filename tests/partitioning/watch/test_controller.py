"""The watch against streams of known load: how soon it acts, what it reaches, when it stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.planning.watched_streams import CHANNELS, HOT, LIMITS, MEAN, Stream


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
