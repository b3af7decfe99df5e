"""The generator: the same rows for a seed, Zipf's shares, and drift as asked for."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from partitioning.streams.alias_table import HEAD_RANKS
from partitioning.streams.zipf_stream import (
    PRESETS,
    Stream,
    key_of_rank,
    keys_of_window,
    zipf,
)
from tests.support.worlds.streams import ROWS, WANDERING, first_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    for low, high in [(0, 1), (1, 2), (2, 50), (50, HEAD_RANKS), (HEAD_RANKS, 1500), (1500, 4000)]:
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
