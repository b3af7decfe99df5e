"""Which windows may come next where a table was brought back: no day is left out of it alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.windows.applied_windows import Applied
from evenkeel_spark.windows.next_window import waiting
from evenkeel_spark.windows.window_commits import Days
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.windows import day, restore, rows, versions

#: What commits tell of a table, newest first: (first day, day after the last) in January. A
#: bootstrap of an empty table is `MADE`.
Told = list[tuple[int | None, int]]


MADE = (None, 0)


def of_january(number: int) -> date:
    return date(2026, 1, number) if number else date.min


@dataclass(frozen=True)
class Tables:
    """Tables that hold what their commits tell."""

    told: Mapping[str, Told]

    def applied(self, name: str) -> Applied:
        newest = self.told[name][0]
        return Applied(None if newest == MADE else of_january(newest[1]), 1, 1)

    def windows(self, name: str) -> Iterator[Days]:
        for began, ended in self.told[name]:
            yield (None if began is None else of_january(began)), of_january(ended)


def asked(told: Mapping[str, Told], start: int, end: int, allow_gap: bool = False) -> list[str]:
    """Return the tables that a window waits for."""
    table: Any = SimpleNamespace(
        spec=SimpleNamespace(state={name: SimpleNamespace(path=name) for name in told}),
        registry=SimpleNamespace(files=SimpleNamespace(window_ends=list)),
    )
    tables: Any = Tables(told)
    return [*waiting(tables, table, of_january(start), of_january(end), allow_gap)]


@pytest.mark.parametrize(
    ("ahead", "days", "first"),
    [
        ([(7, 10), (5, 7), (None, 5)], (7, 10), "--start 2026-01-05 --end 2026-01-07"),
        # Commits tell no older windows.
        ([(7, 10)], (7, 10), "--start 2026-01-05 --end 2026-01-07"),
        ([(7, 10), (None, 10)], (10, 12), "--start 2026-01-05 --end 2026-01-07"),
        ([(9, 10), (None, 8), (7, 8)], (10, 12), "--start 2026-01-05 --end 2026-01-07"),
        # The table that is ahead has a gap of its own.
        ([(9, 10), (None, 8)], (9, 10), "--start 2026-01-05 --end 2026-01-08"),
        ([(9, 10), (6, 8), (None, 6)], (9, 10), "--start 2026-01-05 --end 2026-01-06"),
    ],
)
@pytest.mark.parametrize("allow_gap", [False, True])
def test_no_day_is_left_out_of_one_table_that_another_may_have(
    ahead: Told, days: tuple[int, int], first: str, allow_gap: bool
) -> None:
    told = {"ahead": ahead, "back": [(None, 5)]}
    with pytest.raises(InputError, match=f"Run this first: {first}(?! --allow)"):
        asked(told, *days, allow_gap)
    # The advice is taken.
    start, end = (int(part[-2:]) for part in first.split()[1::2])
    assert asked(told, start, end) == ["back"]


def test_days_that_every_table_lacks_may_be_left_out() -> None:
    told: dict[str, Told] = {"ahead": [(7, 10), (None, 5)], "back": [(None, 5)]}
    with pytest.raises(InputError, match="Give --allow-gap, as another state table has this"):
        asked(told, 7, 10)
    with pytest.raises(InputError, match="--start 2026-01-07 --end 2026-01-10 --allow-gap"):
        asked(told, 10, 12)
    assert asked(told, 7, 10, allow_gap=True) == ["back"]


@pytest.mark.parametrize(
    ("ahead", "days", "first"),
    [
        # Its first window is known: `bootstrap` has made it empty.
        ([(10, 12), (8, 10), MADE], (10, 12), "--start 2026-01-08 --end 2026-01-10"),
        ([(10, 12), (8, 10), MADE], (12, 14), "--start 2026-01-08 --end 2026-01-10"),
        # A note of `maintain` says what the window before it said.
        ([(10, 12), (None, 10), (8, 10), MADE], (10, 12), "--start 2026-01-08 --end 2026-01-10"),
        # Commits tell of a window of before, and not whether it was the first.
        ([(10, 12), (8, 10)], (10, 12), "--start DAY --end 2026-01-10 --allow-gap, "),
        ([(12, 14), (8, 10), (None, 8)], (12, 14), "--start DAY --end 2026-01-08 --allow-gap, "),
    ],
)
@pytest.mark.parametrize("allow_gap", [False, True])
def test_a_table_that_is_empty_again_lacks_no_day_that_another_has(
    ahead: Told, days: tuple[int, int], first: str, allow_gap: bool
) -> None:
    told = {"ahead": ahead, "back": [MADE]}
    with pytest.raises(InputError, match=f"Run this first: {first}"):
        asked(told, *days, allow_gap)


def test_a_table_that_is_empty_again_gets_what_the_other_has_from_its_first_day_on() -> None:
    told: dict[str, Told] = {"ahead": [(10, 12), (8, 10), MADE], "back": [MADE]}
    assert asked(told, 8, 10) == ["back"]
    with pytest.raises(InputError, match="is not in ahead"):
        asked(told, 6, 8)
    # Nothing tells whether there was a day before: a person says that there was none.
    for kept in ([(10, 12), (8, 10)], [(10, 12), (8, 10), (None, 8)], [(None, 12)]):
        told = {"ahead": kept, "back": [MADE]}
        with pytest.raises(InputError, match="ahead may have days before 2026-01-08.*--allow-gap"):
            asked(told, 8, 10)
        assert asked(told, 8, 10, allow_gap=True) == ["back"]


@pytest.mark.spark
def test_a_table_that_was_restored_to_empty_gets_each_window_that_the_other_has(
    spark: SparkSession, world: World
) -> None:
    table = world.with_seen().table
    bootstrap(spark, table)
    before = versions(spark, world)["seen"]
    apply_window(spark, table, day(8), day(10))
    apply_window(spark, table, day(10), day(12))
    whole = rows(spark, world, "seen")
    restore(spark, world, before, "seen")
    # The registry was brought back without it.
    table.registry.files.window(day(10)).remove()
    for allow_gap in (False, True):
        with pytest.raises(InputError, match="--start 2013-01-08 --end 2013-01-10"):
            apply_window(spark, table, day(10), day(12), allow_gap)
    apply_window(spark, table, day(8), day(10))
    apply_window(spark, table, day(10), day(12))
    assert rows(spark, world, "seen").equals(whole)


@pytest.mark.spark
def test_a_table_that_was_restored_gets_each_window_that_the_other_has(
    spark: SparkSession, world: World
) -> None:
    table = world.with_seen().table
    bootstrap(spark, table, day(8))
    before = versions(spark, world)["seen"]
    apply_window(spark, table, day(8), day(10))
    apply_window(spark, table, day(10), day(12))
    whole = rows(spark, world, "seen")
    restore(spark, world, before, "seen")
    with pytest.raises(InputError, match="totals has days between .* --start 2013-01-08 --end"):
        apply_window(spark, table, day(10), day(12), allow_gap=True)
    apply_window(spark, table, day(8), day(10))
    apply_window(spark, table, day(10), day(12))
    assert rows(spark, world, "seen").equals(whole)
