"""A table's status where files are lost: every other part of it is still told."""

from __future__ import annotations

from evenkeel.inspect.status import table_status
from evenkeel.table import open_table
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
