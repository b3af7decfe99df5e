"""A table with a key that three channels share, and a copy of it for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.migration.migrate import migrate
from tests.support.placed import (
    HEAVY,
    Placed,
    copied,
    placed,
    planned,
)
from tests.support.worlds.split_state import (
    finish,
    gated,
    parts,
    split,
    write,
)


@pytest.fixture(scope="package")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """Epoch 1 has HEAVY on channels 1 to 3, 3 being its home, with visits on each; as epoch 0 left
    it, it stood on 3."""
    home = placed(spark, tmp_path_factory.mktemp("split"))
    before = home.table.epoch().function
    (start,) = parts(spark, home)
    assert start == int(before.lookup([HEAVY])[0])
    shared = split(before, {start: 2.0, (start + 1) % 4: 1.0, (start + 2) % 4: 1.0})
    migration = gated(planned(spark, home, "split", shared))
    # It stays where it is: nothing moves, and nothing is written.
    assert migration.plan.bytes == 0.0 and len(migration.plan.moves) == 2
    record = migrate(spark, migration).tables["visits"]
    assert (record.rows, record.commits) == (0, [])
    finish(spark, home, migration)
    write(spark, home, {start: 100, (start + 1) % 4: 20, (start + 2) % 4: 3})
    return home


@pytest.fixture
def home(template: Placed, tmp_path: Path) -> Placed:
    return copied(template, tmp_path)
