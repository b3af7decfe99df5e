"""A table whose state tables change, with a registry of its own."""

from __future__ import annotations

import pytest

from tests.conftest import World
from tests.support.state_tables import put_members


@pytest.fixture
def home(ready: World) -> World:
    """A table whose registry knows its own folders; that of `ready` has those of its original."""
    put_members(ready, "totals")
    return ready
