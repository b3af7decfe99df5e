"""Notes of the windows in a state table, and states of which no commit tells."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.windows import window_notes
from partitioning.errors import InputError
from tests.conftest import SPEC, World, some_events
from tests.support.worlds.windows import (
    applied_twice,
    day,
    exact,
    forget_history,
    restore,
    sql_name,
    versions,
)

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("forgets", [False, True])
def test_a_state_that_began_empty_asks_for_its_first_window(
    spark: SparkSession, tmp_path: Path, forgets: bool
) -> None:
    world = World(tmp_path)
    Path(world.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
    world.write_events(some_events())
    bootstrap(spark, world.table)
    empty = versions(spark, world)["totals"]
    apply_window(spark, world.table, day(1), day(6))
    apply_window(spark, world.table, day(6), day(8))
    restore(spark, world, empty)
    if forgets:
        forget(spark, world.table, ["nobody"])
    with pytest.raises(InputError, match="Go on with --start 2013-01-01, or give --allow-gap"):
        apply_window(spark, world.table, day(8), day(9))
    applied_twice(spark, world, 1, 8)
    exact(spark, world, "2013-01-08")


def test_a_note_beside_a_forget_is_made_all_the_same(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_history(spark, Path(ready.table.spec.state["totals"].path))
    real = window_notes.note

    def late(*args: Any) -> None:
        monkeypatch.undo()
        forget(spark, ready.table, ["nobody"])
        real(*args)

    monkeypatch.setattr(window_notes, "note", late)
    window_notes.hold_until(spark, ready.table, day(8), ["totals"])
    applied_twice(spark, ready, 8, 12)
    exact(spark, ready, "2013-01-12")


def test_a_note_of_maintain_outlives_the_history_before_it(
    spark: SparkSession, ready: World
) -> None:
    apply_window(spark, ready.table, day(8), day(10))
    far = time.time() + ready.table.spec.keep * 0.6 * window_notes.DAY_SECONDS
    window_notes.renew(spark, ready.table, far)
    spark.sql(f"ALTER TABLE {sql_name(ready)} SET TBLPROPERTIES ('later' = 'yes')")
    path = Path(ready.table.spec.state["totals"].path)
    noted = versions(spark, ready)["totals"] - 1
    logs = sorted((path / "_delta_log").glob("*.json"))
    assert [int(f.stem) for f in logs[-2:]] == [noted, noted + 1]
    kept = {f.name: f.read_text() for f in logs[-2:]}
    forget_history(spark, path)
    for name, text in kept.items():
        (path / "_delta_log" / name).write_text(text)
    with pytest.raises(InputError, match="would count events twice"):
        apply_window(spark, ready.table, day(9), day(11))
    applied_twice(spark, ready, 10, 12)
    exact(spark, ready, "2013-01-12")
