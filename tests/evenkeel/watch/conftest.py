"""The shop that the watch looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cases.watch_state import ASKED
from tests.support.worlds.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Under epoch 0, watched; the profile of run r may be split by ROW."""
    made = Shop(tmp_path)
    made.respec(**ASKED)
    return made
