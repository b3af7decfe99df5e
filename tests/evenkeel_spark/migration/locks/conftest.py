"""The test's own copy of a table with a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.placed import Placed, copied


@pytest.fixture
def home(planned_home: Placed, tmp_path: Path) -> Placed:
    """The test's own copy of the table."""
    return copied(planned_home, tmp_path)
