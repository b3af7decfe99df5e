"""A table with a plan, at each step of its migration: tests copy it and leave it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from tests.support.placed import Placed, copied, placed, planned


@pytest.fixture(scope="package")
def planned_home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """The plan of run r1 is made."""
    home = placed(spark, tmp_path_factory.mktemp("placed"))
    planned(spark, home)
    return home


@pytest.fixture(scope="package")
def moved_home(
    spark: SparkSession, planned_home: Placed, tmp_path_factory: pytest.TempPathFactory
) -> Placed:
    """Rows have moved by the plan, and are not verified."""
    home = copied(planned_home, tmp_path_factory.mktemp("moved"))
    migrate(spark, home.migration("r1"))
    return home


@pytest.fixture(scope="package")
def sealed_home(
    spark: SparkSession, moved_home: Placed, tmp_path_factory: pytest.TempPathFactory
) -> Placed:
    """The table is sealed, and the epoch is not published."""
    home = copied(moved_home, tmp_path_factory.mktemp("sealed"))
    verify(spark, home.migration("r1"))
    return home


@pytest.fixture
def home(moved_home: Placed, tmp_path: Path) -> Placed:
    """A copy of its own for each test. Folders and files may begin elsewhere."""
    return copied(moved_home, tmp_path / "home")


@pytest.fixture
def migration(home: Placed) -> Migration:
    """Run r1 of the table."""
    return home.migration("r1")
