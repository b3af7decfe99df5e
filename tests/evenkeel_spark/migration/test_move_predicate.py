"""The condition of rows that move names what need not be read; a move keeps all columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from evenkeel_spark.migration.move_predicate import moved_sql, run_move, slot_ranges
from evenkeel_spark.tables.delta import commits, state
from partitioning.errors import DamagedError
from partitioning.function.function import PartitioningFunction, numbered_channels
from tests.support.placed import (
    HEAVY,
    KEY,
    Placed,
    hashes,
    next_function,
    placed,
    state_rows,
)

pytestmark = pytest.mark.spark


def test_conditions_name_what_need_not_be_read() -> None:
    before = PartitioningFunction(KEY, numbered_channels(4), np.arange(64) % 4)
    assert moved_sql(before, before) is None
    sql = moved_sql(before, next_function(before, (4, 8, 9), None))
    assert sql is not None
    assert "channel IN (0, 1)" in sql and "slot IN (4, 8, 9)" in sql
    heavy = moved_sql(before, next_function(before, (), HEAVY))
    slot = int(hashes([HEAVY])[0] % 64)
    assert heavy is not None
    assert f"channel IN ({slot % 4})" in heavy
    # Where nothing is split, the condition knows nothing of that.
    none = np.empty(0, np.int64)
    assert heavy == moved_sql(before, next_function(before, (), HEAVY), shared=none)
    assert "NOT" not in heavy


@pytest.mark.parametrize(
    ("slots", "most", "ranges"),
    [
        ([5], 3, [(5, 5)]),
        ([1, 2, 3], 3, [(1, 3)]),
        ([1, 2, 9, 20], 3, [(1, 2), (9, 9), (20, 20)]),
        ([1, 2, 9, 20], 2, [(1, 9), (20, 20)]),
        ([1, 2, 9, 20], 1, [(1, 20)]),
    ],
)
def test_ranges_hold_every_slot(slots: list[int], most: int, ranges: list[tuple[int, int]]) -> None:
    assert slot_ranges(np.array(slots), most) == ranges


def append_with_column(spark: SparkSession, home: Placed, column: str) -> None:
    """A writer whose rows have one more column."""
    rows = state_rows(spark, home.table.registry.current().function, {"late": 1})
    wider = rows.withColumn(column, lit("kept")).write.format("delta").mode("append")
    wider.option("mergeSchema", True).save(home.path())


def test_an_update_that_did_not_know_a_column_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, java = placed(spark, tmp_path), cast(Any, spark)._jvm.org.apache.spark.sql
    path, name = home.path(), state.sql_name(home.path())
    plain = SparkSession.sql

    def interrupted(own: SparkSession, statement: str) -> DataFrame:
        """Run a statement before whose transaction another writer adds a column."""
        made = own._jsparkSession.sessionState()
        mode = java.execution.CommandExecutionMode.ALL()
        ready = made.executePlan(made.sqlParser().parsePlan(statement), mode)
        ready.analyzed()
        append_with_column(spark, home, "size")
        done = java.classic.Dataset.ofRows(own._jsparkSession, ready.commandExecuted())
        return DataFrame(done, own)

    update = f"UPDATE {name} SET channel = channel WHERE visits > 0"
    meta = {"digest": "d", "run": "r"}
    monkeypatch.setattr(SparkSession, "sql", interrupted)
    with (
        commits.our_commit(spark, "a", 1, meta) as own,
        pytest.raises(DamagedError, match="column 'size' came in as version") as found,
    ):
        run_move(own, update, path, "here")
    monkeypatch.setattr(SparkSession, "sql", plain)
    version = int(re.findall(r"AS OF (\d+)", str(found.value))[0])
    kept = state.read_version(spark, path, version).where("size = 'kept'").count()
    assert (kept, state.read_newest(spark, path)[0].where("size = 'kept'").count()) == (1, 0)

    # A column that came before the statement, or after it, is kept.
    append_with_column(spark, home, "colour")
    with commits.our_commit(spark, "a", 2, meta) as own:
        assert run_move(own, update, path, "here") is not None
    assert state.read_newest(spark, path)[0].where("colour = 'kept'").count() == 1
