"""A table whose build side has a copy of a key for each of its three owners."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.verify import verify
from tests.support.placed import Placed, copied, placed
from tests.support.raw_json import read_json
from tests.support.splitting.copies import THREE, VALUE, build_side, each, plan_to
from tests.support.worlds.split_state import START, split


@pytest.fixture(scope="package")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """Partials in `visits` and a build side in `ranks`; HEAVY stands whole on START."""
    return placed(spark, tmp_path_factory.mktemp("copies"), ("visits", "ranks"), ("ranks",))


@pytest.fixture(scope="package")
def shared(
    spark: SparkSession, template: Placed, tmp_path_factory: pytest.TempPathFactory
) -> Placed:
    """Epoch 1 shares HEAVY by START, 0 and 1."""
    home = copied(template, tmp_path_factory.mktemp("shared"))
    assert build_side(spark, home) == {START: VALUE}
    migration = plan_to(spark, home, "split", split(home.table.epoch().function, THREE))
    # Two copies come, and nothing else moves.
    assert migration.plan.bytes == pytest.approx(2 * each(spark, home))
    assert sum(m.rows for m in migration.plan.moves) == 2
    tables = migrate(spark, migration).tables
    assert (tables["visits"].rows, tables["visits"].bytes) == (0, 0)
    assert (tables["ranks"].rows, len(tables["ranks"].commits)) == (2, 1)
    assert tables["ranks"].bytes > 0
    version = home.version(spark, "ranks")
    # Again, there is nothing to do, and no commit is made.
    migrate(spark, migration)
    assert home.version(spark, "ranks") == version
    verify(spark, migration)
    publish(spark, migration)
    told = read_json(migration.run, "gate_tables.json")
    assert told["success"] and told["warnings"] == 0
    assert "Every owner of a split key has its copy" in json.dumps(told)
    return home


@pytest.fixture
def home(shared: Placed, tmp_path: Path) -> Placed:
    return copied(shared, tmp_path)
