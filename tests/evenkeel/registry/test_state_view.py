"""State has one row a key for its readers, whichever epoch its tables stand under."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.tables.delta import constraints
from partitioning.errors import FenceError
from tests.support.placed import HEAVY, KEYS, Placed, placed, planned
from tests.support.worlds.split_state import START, split, write

pytestmark = pytest.mark.spark
SHARED = {START: 2.0, 0: 1.0, 1: 1.0}


def counts(spark: SparkSession, table: Table, name: str) -> dict[str, list[int]]:
    """visits of each key, one a row."""
    found: dict[str, list[int]] = {}
    for row in table.state(name, spark=spark).collect():
        found.setdefault(row["key"], []).append(row["visits"])
    return found


@pytest.mark.slow
def test_one_row_a_key_while_copies_come_and_where_the_registry_is_older(
    spark: SparkSession, tmp_path: Path
) -> None:
    home: Placed = placed(spark, tmp_path / "home", ("visits", "ranks"), ("ranks",))
    was = int(HEAVY[1:])
    registry, older = tmp_path / "home/registry", tmp_path / "older"
    shutil.copytree(registry, older)
    migration = planned(spark, home, "r", split(home.table.epoch().function, SHARED))
    migrate(spark, migration)
    for _ in range(2):
        for name in home.names:
            found = counts(spark, home.table, name)
            assert found[HEAVY] == [was] and len(found) == KEYS
            assert all(len(rows) == 1 for rows in found.values())
        verify(spark, migration)
    publish(spark, migration)
    write(spark, home, {START: 100, 0: 20, 1: 3})
    assert counts(spark, home.table, "visits")[HEAVY] == [was + 123]
    shutil.rmtree(registry)
    older.rename(registry)
    back = Table(load_spec(home.spec_path))
    assert back.epoch().number == 0
    found = counts(spark, back, "visits")
    assert found[HEAVY] == [was + 123] and len(found) == KEYS
    assert counts(spark, back, "ranks")[HEAVY] == [was]
    with pytest.raises(FenceError, match="the registry is older than the table"):
        constraints.check_admits(spark, back.spec, back.epoch().function)
