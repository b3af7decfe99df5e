"""The condition of rows that move names what need not be read; a move keeps all columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from evenkeel_spark.migration.row_moves import LISTED_SLOTS, moved_sql, run_move, slot_ranges
from evenkeel_spark.tables.delta import commits, state
from partitioning.errors import DamagedError
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
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
#: Rows that have the value that came.
KEPT = {"size": "size = 'kept'", "odd": "odd.b = 2"}


def test_conditions_name_what_need_not_be_read() -> None:
    before = PartitioningFunction(KEY, numbered_channels(4), np.arange(64) % 4)
    assert moved_sql(before, before) is None
    sql = moved_sql(before, next_function(before, (4, 8, 9), None))
    assert sql is not None
    assert "channel IN (0, 1)" in sql and "slot IN (4, 8, 9)" in sql
    # Rows know 64 slots, whatever the function has: slot 68 is a part of slot 4.
    parts = moved_sql(before, next_function(before.refined(128), (4, 68, 70), None))
    assert parts is not None and "slot IN (4, 6)" in parts
    heavy = moved_sql(before, next_function(before, (), HEAVY))
    slot = int(hashes([HEAVY])[0] % 64)
    assert heavy is not None
    assert f"channel IN ({slot % 4})" in heavy
    # The condition of whole keys alone says nothing of split keys.
    none = np.empty(0, np.int64)
    assert heavy == moved_sql(before, next_function(before, (), HEAVY), shared=none)
    assert "NOT" not in heavy


@pytest.mark.parametrize("moved", [LISTED_SLOTS, LISTED_SLOTS + 1])
def test_rows_of_as_many_slots_as_are_listed_are_found(
    spark: SparkSession, tmp_path: Path, moved: int
) -> None:
    """Parquet looks for each slot of a list in a call of its own: long lists overflow the stack."""
    before = PartitioningFunction(KEY, numbered_channels(4), np.arange(4096) % 4)
    target = next_function(before, tuple(range(0, 4 * moved, 4)), None)
    names = {f"k{i}": i for i in range(300)}
    state_rows(spark, before, names).write.parquet(str(tmp_path / "rows"))
    sql = moved_sql(before, target)
    assert sql is not None
    found = spark.read.parquet(str(tmp_path / "rows")).where(sql).count()
    leave = before.lookup_hashes(hashes([*names])) != target.lookup_hashes(hashes([*names]))
    assert found == leave.sum() > 30


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


def append_with(spark: SparkSession, home: Placed, column: str, sql: str) -> None:
    """A writer whose row has one more column, or a field."""
    rows = state_rows(spark, home.table.registry.current().function, {"late": 1})
    wider = rows.withColumn(column, expr(sql)).write.format("delta").mode("append")
    wider.option("mergeSchema", True).save(home.path())


@pytest.fixture
def between(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], None], str], None]:
    """Let somebody else do something between the analysis of an UPDATE and its transaction.

    Or before the analysis, or after the UPDATE.
    """
    java, plain = cast(Any, spark)._jvm.org.apache.spark.sql, SparkSession.sql

    def interrupt(what: Callable[[], None], when: str) -> None:
        def interrupted(own: SparkSession, statement: str) -> DataFrame:
            if not statement.startswith("UPDATE"):
                return plain(own, statement)
            session = own._jsparkSession.sessionState()
            if when == "before":
                what()
            mode = java.execution.CommandExecutionMode.ALL()
            ready = session.executePlan(session.sqlParser().parsePlan(statement), mode)
            ready.analyzed()
            if when == "between":
                what()
            done = java.classic.Dataset.ofRows(own._jsparkSession, ready.commandExecuted())
            if when == "after":
                what()
            return DataFrame(done, own)

        monkeypatch.setattr(SparkSession, "sql", interrupted)

    return interrupt


@pytest.mark.parametrize(
    ("when", "column", "sql"),
    [
        ("between", "size", "'kept'"),
        ("between", "odd", "named_struct('a', 1, 'b', 2)"),
        ("before", "size", "'kept'"),
        ("after", "size", "'kept'"),
        ("between", "size", ""),
    ],
    ids=["column", "field", "before", "after", "no value"],
)
def test_an_update_that_did_not_know_a_column_is_told(
    spark: SparkSession, tmp_path: Path, between: Any, when: str, column: str, sql: str
) -> None:
    home = placed(spark, tmp_path)
    path, name = home.path(), state.sql_name(home.path())
    append_with(spark, home, "odd", "named_struct('a', 1)")

    def other() -> None:
        if sql:
            append_with(spark, home, column, sql)
        else:
            spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({column} STRING)")

    between(other, when)
    update = f"UPDATE {name} SET channel = channel WHERE visits > 0"
    with commits.our_commit(spark, "a", 1, {"digest": "d", "run": "r"}) as own:
        if when == "between" and sql:
            told = f"column '{column}' came in as version .* values of it are lost"
            with pytest.raises(DamagedError, match=told) as found:
                run_move(own, update, path, "here", lambda: None)
            version = int(re.findall(r"AS OF (\d+)", str(found.value))[0])
            kept = state.read_version(spark, path, version).where(KEPT[column]).count()
            assert (kept, state.read_newest(spark, path)[0].where(KEPT[column]).count()) == (1, 0)
        else:
            assert run_move(own, update, path, "here", lambda: None) is not None
            left = state.read_newest(spark, path)[0].where(KEPT[column]).count()
            assert left == bool(sql)
