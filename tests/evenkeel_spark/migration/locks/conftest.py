"""The test's own copy of a table with a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel_spark.migration.fence import Migration
from tests.support.placed import Placed, copied


@pytest.fixture
def home(planned_home: Placed, tmp_path: Path) -> Placed:
    """The test's own copy of the table."""
    return copied(planned_home, tmp_path)


@pytest.fixture
def migration(home: Placed) -> Migration:
    """The plan of the test's own table."""
    return home.migration("r1")
