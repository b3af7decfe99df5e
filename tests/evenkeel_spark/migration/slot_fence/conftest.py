"""A table with `fence: slot` and a plan: tests copy it and leave it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.placed import Placed, copied, placed, planned


@pytest.fixture(scope="package")
def _slot_home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    home = placed(spark, tmp_path_factory.mktemp("placed"), fence="slot")
    planned(spark, home)
    return home


@pytest.fixture
def home(_slot_home: Placed, tmp_path: Path) -> Placed:
    """The plan of run r1 is made, and no row has moved."""
    return copied(_slot_home, tmp_path / "home")
