"""A table with a plan, and a copy of it for each test of the moving constraint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.migration.fence import Migration
from tests.support.placed import Placed, copied, placed, planned


@pytest.fixture(scope="package")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """A table and the plan of its run r1, which nobody changes."""
    home = placed(spark, tmp_path_factory.mktemp("placed"))
    planned(spark, home)
    return home


@pytest.fixture
def home(template: Placed, tmp_path: Path) -> Placed:
    """The test's own copy of the table."""
    return copied(template, tmp_path)


@pytest.fixture
def migration(home: Placed) -> Migration:
    """The plan of the test's own table."""
    return home.migration("r1")
