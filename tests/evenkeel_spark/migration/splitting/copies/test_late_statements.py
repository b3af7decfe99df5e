"""Statements that wake late: none takes a copy away, which no constraint would see."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.split_state import PartialMerge
from evenkeel_spark.tables.delta import commits, constraints
from evenkeel_spark.windows.window_merge import gather
from partitioning.errors import FenceError
from partitioning.moves.partial_rows import shared_keys
from tests.support.placed import (
    HEAVY,
    Crash,
    Placed,
    append,
    before_the_statement,
    copied,
    end_by,
)
from tests.support.splitting.copies import THREE, VALUE, build_side, carried_out, plan_to
from tests.support.worlds.split_state import START, split, whole

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("ended_by", ["roll_back", "repair"])
def test_a_late_merge_takes_no_copy_away(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    """No constraint sees what a statement of a job that was given up would delete."""
    migration = plan_to(spark, home, "whole", whole(home.table.epoch().function, START))
    before_the_statement(monkeypatch, lambda: end_by(spark, home, "whole", ended_by))
    with pytest.raises(FenceError, match="this run was rolled back"):
        migrate(spark, migration)
    assert home.constraints(spark, "ranks") == {"evenkeel_epoch_1"}
    assert build_side(spark, home) == dict.fromkeys(THREE, VALUE)


def test_a_late_gather_takes_no_copy_away(
    spark: SparkSession, template: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window makes one row of two, by the function of before their key was shared."""
    home, check = copied(template, tmp_path), constraints.check_unchanged
    before = home.table.epoch().function
    append(spark, home, before, {HEAVY: VALUE})

    def checking(*args: Any) -> None:
        check(*args)
        monkeypatch.undo()
        carried_out(spark, home, "split", split(before, THREE))

    monkeypatch.setattr(constraints, "check_unchanged", checking)
    gather(spark, home.table.spec, "ranks", before)
    assert build_side(spark, home) == dict.fromkeys(THREE, VALUE)


@pytest.mark.parametrize(("ended_by", "step"), [("roll_back", "moved back"), ("repair", "placed")])
def test_a_merge_that_wakes_before_the_end_takes_no_copy_away(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch, ended_by: str, step: str
) -> None:
    """It comes after the look that has found nothing to do, and before the table is sealed."""
    migration = plan_to(spark, home, "whole", whole(home.table.epoch().function, START))

    def at_ranks(point: str, what: Callable[[], object]) -> None:
        times = count()
        monkeypatch.setattr(
            "evenkeel_spark.runtime.crash_point.reached",
            lambda name: name == point and next(times) == 1 and what(),
        )

    def end() -> None:
        raise Crash

    at_ranks("unsealed", end)
    with pytest.raises(Crash):
        migrate(spark, migration)
    monkeypatch.undo()
    version, keys = home.version(spark, "ranks"), shared_keys(migration.before, migration.after)
    merge = PartialMerge(home.table.spec, "ranks", migration.after, keys).merge()

    def wake() -> None:
        app, meta = commits.app_id(home.table.spec.table), migration.meta("migrate")
        with commits.our_commit(spark, app, version, meta) as own:
            own.sql(merge)

    at_ranks(step, wake)
    end_by(spark, home, "whole", ended_by)
    assert home.constraints(spark, "ranks") == {"evenkeel_epoch_1"}
    assert build_side(spark, home) == dict.fromkeys(THREE, VALUE)
