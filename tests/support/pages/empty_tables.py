"""A table that has no profile yet, in place of the site's."""

from __future__ import annotations

from pathlib import Path

import pytest

from partitioning.function.function import successor
from tests.support.worlds.shop import KEY, Shop


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A table with epoch 0 and nothing else."""
    made = Shop(tmp_path)
    made.registry.store.remove_folder("runs")
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    return made


def another_epoch(shop: Shop) -> None:
    """Publish an epoch that places every key as the current one does."""
    now = shop.registry.current()
    function = now.function
    same = successor(KEY, function, function.channels, function.slots, "x")
    shop.registry.publish(same, now.tables)
