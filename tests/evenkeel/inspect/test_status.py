"""A table's status where files are lost: every other part of it is still told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evenkeel.inspect.status import table_status
from evenkeel.table import open_table
from partitioning.planning.aims import MIN_GAIN, most_by_chance
from tests.support.worlds.shop import Shop


def test_a_lost_epoch_file_is_a_problem_and_no_exception(shop: Shop) -> None:
    shop.registry.store.write("epochs/00000001/plan.json", b"{}")
    now = table_status(open_table(shop.spec))
    assert now.epoch is None and now.unreadable
    assert any("epoch 1 was published" in problem for problem in now.problems)
    assert len(now.problems) == len({*now.problems})


def test_a_table_that_nobody_bootstrapped_is_not_unreadable(shop: Shop) -> None:
    shop.registry.store.remove_folder("epochs")
    shop.registry.store.remove_folder("runs")
    now = table_status(open_table(shop.spec))
    assert not now.unreadable and len(now.problems) == 2


def test_a_rebalance_is_wanted_over_trigger_chance_and_floor(shop: Shop) -> None:
    shop.learn("r")
    shop.respec(trigger=1.02, max_imbalance=None)
    now = table_status(open_table(shop.spec))
    assert now.learned is not None and now.epoch is not None
    for chance, trigger in ((0.0, 1.02), (0.5, 1.02), (0.0, 9.0)):
        profile = replace(now.learned.profile, chance=chance)
        shop.respec(trigger=trigger, max_imbalance=None)
        table = open_table(shop.spec)
        found = replace(now, table=table, learned=replace(now.learned, profile=profile))
        assert found.floor is not None
        least = found.floor + MIN_GAIN
        by_chance = most_by_chance(profile, len(now.epoch.function.channels))
        assert found.limit == pytest.approx(max(trigger, by_chance, least))
    assert replace(now, learned=None).limit == 1.02
