"""The watch in a streaming job: how soon it is even, and what its state is then."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.pipeline import watch_effect
from benchmarks.pipeline.watch_effect import DAY, DECLARED, ONSET, ROUNDED, Side, differences

pytestmark = [pytest.mark.spark, pytest.mark.slow]
#: Micro-batches: three after onset.
BATCHES = ONSET + 4


#: The micro-batch of onset, counted from the first of the stream.
AT = ONSET - DAY


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("effect")
    (made / "events").mkdir()
    watch_effect.write_events(made / "events", 9_000, 300, 0.4, BATCHES)
    return made


@pytest.fixture(scope="module")
def side(spark: SparkSession, folder: Path) -> Side:
    """A stream with daily runs and the watch."""
    watched = watch_effect.made(spark, folder, "watched")
    watch_effect.play(spark, watched, folder, BATCHES)
    return watched


def test_it_is_even_within_two_micro_batches_of_a_key_turning_hot(side: Side) -> None:
    ratios = watch_effect.imbalances(side.rows)
    assert len(ratios) == BATCHES - DAY
    assert ratios[AT] > 3, "nothing is skewed"
    assert ratios[AT + 2 :].max() < 1.15, ratios
    function = side.table.epoch().function
    assert function.strategy == "watch" and len(function.split) == 1


def test_the_state_is_what_all_events_make(spark: SparkSession, folder: Path, side: Side) -> None:
    # The last batch comes again, as after a kill: it counts once.
    last = BATCHES - 1
    again = spark.read.parquet(f"{folder}/events/{watch_effect.names(last)}")
    side.fold(spark, again, last - DAY)
    exact = watch_effect.expected(folder / "events", BATCHES)
    off = differences(side.result(spark), exact)
    bounds = {**ROUNDED, **DECLARED}
    assert all(part <= bounds.get(column, 0.0) for column, part in off.items()), off
    assert min(off[c] for c in DECLARED) > 0, "no key has as many ids as sketches estimate"
    # Where a row is counted twice, or a partial is lost, it shows.
    for column in ("n", "units", "paid", "ids"):
        assert differences(exact.assign(**{column: exact[column] * 1.5}), exact)[column] > 0.4
    assert differences(exact.iloc[1:], exact)["n"] == float("inf")
