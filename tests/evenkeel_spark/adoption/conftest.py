"""The team's tables that tests of adoption start from: made once, and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.adoption.adopt import adopt
from tests.conftest import World
from tests.support.worlds.team_tables import make_team


@pytest.fixture(scope="session")
def _team(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_team(spark, tmp_path_factory.mktemp("team"))


@pytest.fixture(scope="session")
def _adopted(spark: SparkSession, _team: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("adopted"))
    shutil.copytree(_team.folder, made.folder, dirs_exist_ok=True)
    adopt(spark, made.table)
    return made


@pytest.fixture
def team(_team: World, tmp_path: Path) -> World:
    """Return two tables that Evenkeel did not make, and their spec."""
    shutil.copytree(_team.folder, tmp_path, dirs_exist_ok=True)
    return World(tmp_path)


@pytest.fixture
def adopted(_adopted: World, tmp_path: Path) -> World:
    """Return the same, adopted under epoch 0: a copy of tables and registry."""
    shutil.copytree(_adopted.folder, tmp_path, dirs_exist_ok=True)
    return World(tmp_path)
