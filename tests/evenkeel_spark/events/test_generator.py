"""The generator: the same rows for a seed, Zipf's shares, and drift as asked for."""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from partitioning.errors import InputError
from partitioning.streams.alias_table import HEAD, alias, zipf_head
from partitioning.streams.zipf_stream import (
    PRESETS,
    Stream,
    key_of_rank,
    keys_of_window,
    rank_shares,
    zipf,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 50_000
SMALL = Stream(rows=ROWS, keys=5_000, windows=2, seed=3)
#: Standard errors that a sampled share may be off.
SIGMAS = 5


def rows_of(spark: SparkSession, stream: Stream, partitions: int | None = None) -> pd.DataFrame:
    """The rows, in order, with the window of each."""
    from evenkeel_spark.jobs.generate import transform

    rows = transform(spark, stream, partitions).toPandas()
    days = (pd.to_datetime(rows["day"]) - pd.Timestamp(stream.start)).dt.days
    return rows.assign(window=days // stream.days)


def share(rows: pd.DataFrame, window: int, key: int) -> float:
    """Rows of a key in a window over a window's rows."""
    return float(((rows["window"] == window) & (rows["key"] == key)).sum()) / ROWS


def near(wanted: float) -> Any:
    return pytest.approx(wanted, abs=SIGMAS * np.sqrt(wanted * (1 - wanted) / ROWS))


def first_key(stream: Stream, window: int = 0) -> int:
    return int(key_of_rank(stream, np.array([0]), window)[0])


@pytest.mark.parametrize("keys", [1, 2, 7, HEAD, HEAD + 1, 100_000])
@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 1.0001, 3.0])
def test_cells_hold_zipfs_shares(keys: int, z: float) -> None:
    ranks, cells = alias(zipf_head(keys, z)), min(keys, HEAD + 1)
    held = ranks.keep.copy()
    np.add.at(held, ranks.other, 1 - ranks.keep)
    exact = zipf(keys, z)
    wanted = np.append(exact[:HEAD], exact[HEAD:].sum())[:cells]
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


WANDERING = Stream(rows=2_000, keys=400, z=0.7, windows=200, wander=(0.4, 0.8), days=1, seed=6)


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


@pytest.mark.spark
def test_same_seed_same_rows_however_many_partitions(spark: SparkSession) -> None:
    stream = dataclasses.replace(SMALL, churn=0.3, hot=(1, 0.1))
    once, again = rows_of(spark, stream, 1), rows_of(spark, stream, 7)
    pd.testing.assert_frame_equal(once, again)
    assert len(once) == 2 * ROWS
    assert once["day"].is_monotonic_increasing
    assert once["day"].nunique() == 14
    assert once["day"].iloc[-1] == stream.start + timedelta(days=13)
    other = rows_of(spark, dataclasses.replace(stream, seed=4))
    assert (once["key"] != other["key"]).mean() > 0.9


@pytest.mark.spark
@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_shares_are_zipfs(spark: SparkSession, z: float) -> None:
    stream = dataclasses.replace(SMALL, z=z, windows=1)
    counts = np.bincount(rows_of(spark, stream)["key"], minlength=stream.keys)
    by_rank = counts[key_of_rank(stream, np.arange(stream.keys), 0)] / ROWS
    exact = zipf(stream.keys, z)
    # Single ranks, and stretches of head and tail.
    for low, high in [(0, 1), (1, 2), (2, 50), (50, HEAD), (HEAD, 1500), (1500, 4000)]:
        assert by_rank[low:high].sum() == near(exact[low:high].sum()), (low, high)
    # The very ends of the tail are reached, once in a while.
    if z == 0:
        assert (by_rank > 0).mean() > 0.99


@pytest.mark.spark
def test_without_churn_ranks_stay_and_with_it_they_move_as_numpy_says(spark: SparkSession) -> None:
    still = rows_of(spark, SMALL)
    p1 = zipf(SMALL.keys, 1.0)[0]
    assert [share(still, w, first_key(SMALL)) for w in (0, 1)] == [near(p1), near(p1)]
    moving = dataclasses.replace(SMALL, windows=3, churn=0.6)
    rows, plain = rows_of(spark, moving), rows_of(spark, dataclasses.replace(SMALL, windows=3))
    rank_of = np.argsort(key_of_rank(SMALL, np.arange(SMALL.keys), 0))
    ranks = rank_of[plain["key"].to_numpy()]
    for w in range(3):
        inside = (rows["window"] == w).to_numpy()
        wanted = key_of_rank(moving, ranks[inside], w)
        assert np.array_equal(rows["key"].to_numpy()[inside], wanted)


@pytest.mark.spark
def test_hot_key_gets_its_share_from_its_window_on(spark: SparkSession) -> None:
    stream = dataclasses.replace(SMALL, windows=3, hot=(1, 0.3))
    rows = rows_of(spark, stream)
    assert share(rows, 0, stream.hot_key) < 0.002
    assert [share(rows, w, stream.hot_key) for w in (1, 2)] == [near(0.3), near(0.3)]
    assert share(rows, 2, first_key(stream)) == near(0.7 * zipf(stream.keys, 1.0)[0])


@pytest.mark.spark
def test_vanished_key_is_gone_and_nobody_else_changes(spark: SparkSession) -> None:
    stream = dataclasses.replace(SMALL, windows=3, vanish=1)
    rows, whole = rows_of(spark, stream), rows_of(spark, dataclasses.replace(stream, vanish=None))
    gone = first_key(stream)
    assert stream.vanished_key == gone
    assert share(rows, 0, gone) > 0.1
    left = whole[(whole["window"] < 1) | (whole["key"] != gone)]
    pd.testing.assert_frame_equal(rows, left.reset_index(drop=True))


@pytest.mark.spark
@pytest.mark.parametrize(
    "stream",
    [
        dataclasses.replace(PRESETS["guo-zhou"], rows=500, seed=8),
        dataclasses.replace(
            WANDERING, windows=6, churn=0.3, hot=(2, 0.1), vanish=4, days=2, wander=(1.5, 1.0)
        ),
        dataclasses.replace(SMALL, keys=1_000_000, z=0.9, churn=0.2),
    ],
    ids=["guo-zhou", "all at once", "a long tail"],
)
def test_numpy_has_sparks_rows(spark: SparkSession, stream: Stream) -> None:
    rows = rows_of(spark, stream, 3)
    wanted = [keys_of_window(stream, w) for w in range(stream.windows)]
    assert np.array_equal(rows["key"].to_numpy(), np.concatenate(wanted))
    assert rows["window"].value_counts(sort=False).tolist() == [len(keys) for keys in wanted]


@pytest.mark.spark
def test_main_writes_few_files_and_refuses_a_full_folder(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from evenkeel_spark.jobs.generate import main

    out = tmp_path / "events"
    out.mkdir()
    asked = ["--preset", "hot", "--out", str(out), "--rows", "1e4", "--keys", "500"]
    asked += ["--hot", "1:0.5", "--zipf", "0.8", "--windows", "2", "--seed", "5"]
    assert main(asked) == 0
    written = spark.read.parquet(str(out))
    assert [(f.name, f.dataType.simpleString()) for f in written.schema] == [
        ("day", "date"),
        ("key", "bigint"),
    ]
    assert written.count() == 20_000
    assert len(list(out.glob("*.parquet"))) == 1
    capsys.readouterr()
    assert main(asked) == 2
    assert capsys.readouterr().err.count("is not empty") == 1


@pytest.mark.parametrize(
    "bad",
    [
        ["--preset", "none"],
        ["--rows", "many"],
        ["--rows", "1.5"],
        ["--rows", "nan"],
        ["--zipf", "4"],
        ["--hot", "1"],
        ["--hot", "1:x"],
        ["--hot", "9:0.1"],
        ["--vanish", "0"],
        ["--wander", "0.5"],
        ["--wander", "0.5:0.5"],  # of 10,000 keys
        ["--preset", "guo-zhou", "--wander", "0.5:2"],
    ],
)
def test_main_refuses_bad_values_in_one_line(
    bad: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from evenkeel_spark.jobs.generate import main

    assert main(["--out", str(tmp_path / "events"), *bad]) == 2
    message = capsys.readouterr().err
    assert message.startswith("evenkeel: error: ") and message.count("\n") == 1
    assert not (tmp_path / "events").exists()
