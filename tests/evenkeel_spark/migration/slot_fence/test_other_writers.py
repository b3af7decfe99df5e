"""A table with `fence: slot` moves and goes back while a program without Spark writes it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.tables.delta import commits, state
from partitioning.function.function import PartitioningFunction
from tests.support import delta_rs
from tests.support.delta_rs import ALL, epoch_of, visits
from tests.support.placed import MOVED, Placed, crashing_at, meanwhile

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def new_keys(function: PartitioningFunction, moved: bool, prefix: str = "new") -> list[str]:
    """Five keys that no row has, whose slots move, or do not."""
    keys = [f"{prefix}{i}" for i in range(500)]
    inside = np.isin(epoch_of(function).lookup_slot(keys), MOVED)
    return [key for key, here in zip(keys, inside, strict=True) if here == moved][:5]


def test_late_rows_are_swept_although_the_application_has_cached_the_table(
    spark: SparkSession, home: Placed
) -> None:
    """A stream that keeps its state cached may call `meet`."""
    migration = home.migration("r1")
    migrate(spark, migration)
    cached = spark.read.format("delta").load(home.path()).cache()
    try:
        cached.count()
        late = dict.fromkeys(new_keys(migration.before, True), 1)
        delta_rs.append(home.path(), epoch_of(migration.before), late)
        verify(spark, migration)
        publish(spark, migration)
    finally:
        cached.unpersist()
    assert visits(spark, home, migration.after) == {**ALL, **late}


def test_rows_come_before_while_and_after_others_move(spark: SparkSession, home: Placed) -> None:
    migration = home.migration("r1")
    old, new = map(epoch_of, (migration.before, migration.after))
    stays, moves, later, last = (
        new_keys(migration.before, moved, prefix)
        for moved, prefix in ((False, "a"), (True, "a"), (True, "b"), (True, "c"))
    )
    delta_rs.append(home.path(), old, dict.fromkeys([*stays, *moves], 1))
    delta_rs.refused(home.path(), new, dict.fromkeys(later, 2))
    migrate(spark, migration)
    # Rows may come by both while others move.
    delta_rs.append(home.path(), old, dict.fromkeys(later, 2))
    delta_rs.append(home.path(), new, dict.fromkeys(last, 3))
    verify(spark, migration)
    publish(spark, migration)
    stale = dict.fromkeys(new_keys(migration.before, True, "d"), 4)
    delta_rs.refused(home.path(), old, stale)
    delta_rs.append(home.path(), home.table.epoch(), stale)
    added = {**dict.fromkeys([*stays, *moves], 1), **dict.fromkeys(later, 2)}
    added |= {**dict.fromkeys(last, 3), **stale}
    assert visits(spark, home, migration.after) == {**ALL, **added}
    # A writer's commits carry the number of rows as a number, where Delta has a text.
    assert {c.operation for c in commits.history_since(spark, home.path(), 1)} >= {"WRITE"}
    assert repair(spark, home.table) == []


def test_rows_go_back_with_the_others(spark: SparkSession, home: Placed) -> None:
    migration = home.migration("r1")
    old, new = map(epoch_of, (migration.before, migration.after))
    by_old, by_new = (dict.fromkeys(new_keys(migration.before, True, p), 1) for p in "ab")
    migrate(spark, migration)
    delta_rs.append(home.path(), old, by_old)
    delta_rs.append(home.path(), new, by_new)
    roll_back(spark, migration)
    assert visits(spark, home, migration.before) == {**ALL, **by_old, **by_new}
    delta_rs.refused(home.path(), new, dict.fromkeys(new_keys(migration.before, True, "c"), 1))


def test_a_writer_that_read_the_table_before_its_fence_changed_fails(
    spark: SparkSession, home: Placed
) -> None:
    """Its row would be admitted before and after, so Delta's own conflict has to tell."""
    migration = home.migration("r1")
    old = epoch_of(migration.before)
    stays = dict.fromkeys(new_keys(migration.before, False), 1)
    handle = DeltaTable(home.path())
    migrate(spark, migration)
    with pytest.raises(CommitFailedError, match="Metadata changed"):
        delta_rs.append(handle, old, stays)
    handle = DeltaTable(home.path())
    verify(spark, migration)
    with pytest.raises(CommitFailedError, match="Metadata changed"):
        delta_rs.append(handle, old, stays)
    handle = DeltaTable(home.path())
    delta_rs.append(home.path(), old, stays)
    # Rows alone are no conflict.
    delta_rs.append(handle, old, dict.fromkeys(new_keys(migration.before, False, "b"), 1))


def test_while_no_row_may_be_out_of_place_only_those_who_know_the_hash_write(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = home.migration("r1")
    new, row = epoch_of(migration.after), dict.fromkeys(new_keys(migration.before, False), 1)
    migrate(spark, migration)
    seen = []

    def write() -> None:
        delta_rs.refused(home.path(), new, row, delta_rs.UNKNOWN)
        seen.append(home.constraints(spark))

    with meanwhile("measured", write, monkeypatch):
        verify(spark, migration)
    assert seen == [{migration.moving}]
    delta_rs.append(home.path(), new, row)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["unsealing", "moved", "closed", "measured", "sealing"])
def test_killed_anywhere_it_ends_or_goes_back(
    spark: SparkSession, home: Placed, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = home.migration("r1")
    old, rows = epoch_of(migration.before), {}
    with crashing_at(step, monkeypatch):
        migrate(spark, migration)
        verify(spark, migration)
    if step in ("unsealing", "moved"):
        rows = dict.fromkeys(new_keys(migration.before, True), 1)
        delta_rs.append(home.path(), old, rows)
    if step in ("moved", "measured"):
        roll_back(spark, migration)
        assert visits(spark, home, migration.before) == {**ALL, **rows}
        return
    migrate(spark, migration)
    verify(spark, migration)
    publish(spark, migration)
    assert visits(spark, home, migration.after) == {**ALL, **rows}


def test_what_delta_rs_writes_beside_rows_leaves_ours(spark: SparkSession, home: Placed) -> None:
    """Its checkpoint has our transaction ids and deletion vectors, and it compacts by them."""
    migration = home.migration("r1")
    migrate(spark, migration)
    app = commits.app_id("people")
    spent = state.python_dict(spark, state.snapshot(spark, home.path()).transactions())[app]
    DeltaTable(home.path()).create_checkpoint()
    last = json.loads((Path(home.path()) / "_delta_log" / "_last_checkpoint").read_text())
    assert last["version"] == home.version(spark)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    snapshot = state.snapshot(spark, home.path())
    assert state.python_dict(spark, snapshot.transactions())[app] == spent
    assert state.files(spark, home.path()).where("deleted > 0").count() > 0
    assert {k: n for k, (_, n) in home.rows(spark).items()} == ALL
    assert DeltaTable(home.path()).optimize.compact()["numFilesRemoved"] > 0
    verify(spark, migration)
    publish(spark, migration)
    assert visits(spark, home, migration.after) == ALL


def test_delta_rs_cannot_evaluate_the_fence_over_the_key(
    spark: SparkSession, moved_home: Placed
) -> None:
    """When this fails, `fence: key` admits such writers, and docs/how-to/write.md is to say so."""
    migration = moved_home.migration("r1")
    rows = dict.fromkeys(new_keys(migration.before, False), 1)
    delta_rs.refused(moved_home.path(), epoch_of(migration.before), rows, delta_rs.UNKNOWN)


def test_a_full_vacuum_by_delta_rs_takes_deletion_vectors_that_are_in_use(
    spark: SparkSession, home: Placed
) -> None:
    """When this fails, docs/how-to/write.md need not warn of it any more."""
    migrate(spark, home.migration("r1"))
    assert state.files(spark, home.path()).where("deleted > 0").count() > 0
    found = DeltaTable(home.path()).vacuum(0, enforce_retention_duration=False, full=True)
    assert [file for file in found if file.startswith("deletion_vector_")]
