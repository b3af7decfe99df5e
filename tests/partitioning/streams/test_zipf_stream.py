"""Streams by a Zipf law: shares, keys of windows, churn, hot and vanished keys; by NumPy alone."""

from __future__ import annotations

import dataclasses
import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from partitioning.errors import InputError
from partitioning.streams.alias_table import HEAD_RANKS, alias, zipf_head
from partitioning.streams.zipf_stream import (
    PRESETS,
    Stream,
    key_of_rank,
    keys_of_window,
    rank_shares,
    zipf,
)
from tests.support.worlds.streams import ROWS, WANDERING, first_key


@pytest.mark.parametrize("keys", [1, 2, 7, HEAD_RANKS, HEAD_RANKS + 1, 100_000])
@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 1.0001, 3.0])
def test_cells_hold_zipfs_shares(keys: int, z: float) -> None:
    ranks, cells = alias(zipf_head(keys, z)), min(keys, HEAD_RANKS + 1)
    held = ranks.keep.copy()
    np.add.at(held, ranks.other, 1 - ranks.keep)
    exact = zipf(keys, z)
    wanted = np.append(exact[:HEAD_RANKS], exact[HEAD_RANKS:].sum())[:cells]
    assert held / cells == pytest.approx(wanted, rel=1e-6, abs=1e-12)


def test_keys_of_a_window_are_a_permutation() -> None:
    stream = Stream(keys=3_000, windows=4, churn=0.2, seed=9)
    ranks = np.arange(stream.keys)
    by_window = [key_of_rank(stream, ranks, w) for w in range(4)]
    for keys in by_window:
        assert np.array_equal(np.sort(keys), ranks)
    for before, after in pairwise(by_window):
        assert (before != after).mean() == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_streams(preset: str) -> None:
    stream = PRESETS[preset]
    assert zipf_head(stream.keys, stream.z).sum() == pytest.approx(1)
    assert 0 <= stream.hot_key < stream.keys


@pytest.mark.parametrize(
    ("preset", "digest"),
    [
        ("small", "f1ede0bdeb0bd1fa"),
        ("gedik", "1ff2bf96787137bc"),
        ("gedik-low-skew", "972504dcede53451"),
        ("dkg", "351036f32eaee20d"),
        ("dkg-trace", "6c45b67328654ab2"),
        ("flexd", "351036f32eaee20d"),  # dkg's, but for the rows
        ("guo-zhou", "806a62781257a4a4"),
        ("guo-zhou-synthetic", "f9129f21799c3f8b"),
        ("drift", "e63dd6036f7825c0"),
        ("hot", "a48f8ae08d9e16b6"),
        ("vanish", "c27ac89afbd6ef5a"),
    ],
)
def test_presets_rows_stay_what_they_were(preset: str, digest: str) -> None:
    """1,000 rows a window. Most were taken from Spark's rows, before there was another face."""
    stream = dataclasses.replace(PRESETS[preset], rows=1_000)
    keys = np.concatenate([keys_of_window(stream, w) for w in range(stream.windows)])
    assert hashlib.sha256(keys.astype("<i8").tobytes()).hexdigest()[:16] == digest


def test_the_first_key_of_dkgs_trace_has_a_fifth() -> None:
    stream = PRESETS["dkg-trace"]
    assert zipf(stream.keys, stream.z)[0] == pytest.approx(0.2, abs=1e-4)


def drift_of(stream: Stream) -> Any:
    """d of each window and rank, from the shares: less its mean, which shares do not tell."""
    log = np.log(rank_shares(stream) / zipf(stream.keys, stream.z))
    return log - log.mean(axis=1, keepdims=True)


def test_shares_wander_as_ar1_from_zipfs() -> None:
    drift = drift_of(WANDERING)
    assert drift[0] == pytest.approx(0, abs=1e-9)
    steps = drift[1:] - 0.8 * drift[:-1]
    assert steps.std() == pytest.approx(0.4, rel=0.02)
    assert (steps[1:] * steps[:-1]).mean() / steps.var() == pytest.approx(0, abs=0.02)
    assert (steps[:, 1:] * steps[:, :-1]).mean() / steps.var() == pytest.approx(0, abs=0.02)
    # Normal: a third is beyond one standard deviation, 4.6% beyond two.
    for far, part in [(1, 0.317), (2, 0.0455)]:
        assert (np.abs(steps) > far * 0.4).mean() == pytest.approx(part, rel=0.05)
    # Where it hovers: sigma / sqrt(1 - phi^2).
    assert drift[30:].std() == pytest.approx(0.4 / 0.6, rel=0.03)
    walk = drift_of(dataclasses.replace(WANDERING, wander=(0.4, 1.0)))
    assert walk[-1].std() == pytest.approx(0.4 * np.sqrt(199), rel=0.1)
    assert np.array_equal(rank_shares(WANDERING), rank_shares(WANDERING))
    other = drift_of(dataclasses.replace(WANDERING, seed=7))
    assert np.corrcoef(other[50], drift[50])[0, 1] == pytest.approx(0, abs=0.2)


def test_shares_that_do_not_wander_are_zipfs_in_every_window() -> None:
    shares = rank_shares(dataclasses.replace(WANDERING, wander=None))
    assert np.array_equal(shares, np.tile(zipf(400, 0.7), (200, 1)))
    assert rank_shares(dataclasses.replace(WANDERING, wander=(0.0, 0.5))) == pytest.approx(shares)


def test_rows_come_by_the_shares_of_their_window() -> None:
    stream = dataclasses.replace(WANDERING, windows=20, rows=ROWS)
    shares = rank_shares(stream)
    keys = key_of_rank(stream, np.arange(stream.keys), 0)
    for window in (0, 7, 19):
        counts = np.bincount(keys_of_window(stream, window), minlength=stream.keys)[keys]
        wanted = shares[window] * ROWS
        assert ((counts - wanted) ** 2 / wanted).mean() == pytest.approx(1, abs=0.4)  # chi-square


def test_a_vanished_key_that_wandered_is_the_heaviest_of_the_window_before() -> None:
    stream = dataclasses.replace(WANDERING, windows=12, vanish=11, rows=ROWS)
    before = np.bincount(keys_of_window(stream, 10), minlength=stream.keys)
    assert stream.vanished_key == before.argmax() != first_key(stream)
    assert stream.vanished_key not in keys_of_window(stream, 11)


@pytest.mark.parametrize(
    "bad",
    [
        {"rows": 0},
        {"keys": 0},
        {"keys": 2**31 + 1},
        {"z": -0.1},
        {"z": float("nan")},
        {"z": 3.1},
        {"windows": 0},
        {"seed": -1},
        {"churn": 1.5},
        {"days": 0},
        {"windows": 2, "hot": (2, 0.1)},
        {"windows": 2, "hot": (1, 1.1)},
        {"windows": 2, "vanish": 0},
        {"windows": 2, "vanish": 2},
        {"windows": 1, "vanish": 1},
        {"keys": 100, "wander": (-0.1, 0.5)},
        {"keys": 100, "wander": (float("nan"), 0.5)},
        {"keys": 100, "wander": (0.1, 1.1)},
        {"keys": 1025, "wander": (0.1, 0.5)},
        {"keys": 1024, "windows": 129, "wander": (0.1, 0.5)},
    ],
)
def test_bad_values_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Stream(**bad)


def test_vanished_key_is_the_heaviest_one_of_the_window_before() -> None:
    drifting = Stream(keys=1_000, windows=4, churn=0.5, vanish=3)
    assert drifting.vanished_key == first_key(drifting, 2)
    # p1 is .13 of what is left.
    assert dataclasses.replace(drifting, hot=(2, 0.4)).vanished_key == drifting.hot_key
    assert dataclasses.replace(drifting, hot=(2, 0.01)).vanished_key == first_key(drifting, 2)
    assert dataclasses.replace(drifting, hot=(3, 0.4)).vanished_key == first_key(drifting, 2)
