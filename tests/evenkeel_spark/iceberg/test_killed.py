"""Jobs on Iceberg tables that are killed at any step: what runs next brings all in order.

A dry pass lists the steps, so a new crash point is tested by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evenkeel.registry.verdict import PUBLISH, newest_attempt
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.iceberg.release import release
from evenkeel_spark.tables.table_properties import BEFORE_PROPERTY
from tests.support.iceberg.stages import NAMES, Case, Rows, Stages, crash, reached

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Job = Callable[[Case], object]
#: Ends one case: the rows before, and the number of jobs of the sequence that had ended.
Ending = Callable[[Stages, Rows, int], None]
AMOUNTS = [
    "some",
    pytest.param("all", marks=pytest.mark.slow),
    pytest.param("writes", marks=pytest.mark.slow),
]


def adopt_job(case: Case) -> object:
    return adopt(case.spark, case.world.table)


def release_job(case: Case) -> object:
    return release(case.spark, case.world.table, drop_columns=True)


def migrate_job(case: Case) -> object:
    return case.migrate()


def verify_job(case: Case) -> object:
    return case.verify()


def roll_back_job(case: Case) -> object:
    return case.roll_back()


def repair_job(case: Case) -> object:
    return case.repair()


RUN = (migrate_job, verify_job)


def run(stages: Stages, *jobs: Job) -> Case:
    """Run jobs, each in a process of its own."""
    for job in jobs:
        job(stages.anew())
    return stages.anew()


def killed_at_each_step(
    stages: Stages,
    stage: str,
    jobs: tuple[Job, ...],
    endings: list[Ending],
    amount: str,
    prepare: Callable[[], Any] | None = None,
) -> None:
    """Kill a sequence of jobs at each step, and end it in each way.

    Parameters
    ----------
    amount : some: every other step in one way; all: each step in each way; writes: after each
        write, in one way
    """
    writes = amount == "writes"
    before = stages.back(stage).rows()
    counts = [reached(lambda job=job: job(stages.anew()), writes) for job in jobs]
    assert all(counts), "a job without steps"
    number = 0
    for ended, points in enumerate(counts):
        for at, point in enumerate(points):
            number += 1
            way = number // 2 % len(endings) if amount == "some" else number % len(endings)
            if amount == "some" and number % 2:
                continue
            for ending in endings if amount == "all" else [endings[way]]:
                stages.back(stage)
                try:
                    run(stages, *jobs[:ended])
                    crash(lambda job=jobs[ended]: job(stages.anew()), at, writes)
                    ending(stages, before, ended)
                except BaseException as error:
                    error.add_note(f"killed at step {at} ({point}) of {jobs[ended].__name__}")
                    error.add_note(f"ended by {ending.__name__}")
                    raise


def published(stages: Stages) -> bool:
    """Whether the run r1 is decided to publish."""
    migration = stages.anew().migration("r1")
    return newest_attempt(migration.run, migration.plan.digest).verdict == PUBLISH


def in_order(stages: Stages, before: Rows, epoch: int) -> None:
    """See that all is in order, and that other jobs run."""
    case = stages.anew()
    case.check(before, epoch)
    assert case.repair(dry_run=True) == []
    case.maintain()
    case.check(before, epoch)


# A run: migrate and verify


def run_again(stages: Stages, before: Rows, ended: int) -> None:
    run(stages, *RUN[ended:])
    in_order(stages, before, 1)


def run_rolled_back(stages: Stages, before: Rows, _: int) -> None:
    epoch = int(published(stages))
    case = run(stages, roll_back_job)
    assert case.rows() == before and case.world.table.epoch().number == epoch
    assert case.misplaced() == 0
    assert [case.table(name).epoch() for name in NAMES] == [epoch, epoch]
    run(stages, *RUN)
    in_order(stages, before, 1)


def run_repaired(stages: Stages, before: Rows, _: int) -> None:
    epoch = int(published(stages))
    run(stages, repair_job).check(before, epoch)
    run(stages, *RUN)
    in_order(stages, before, 1)


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_run_is_killed(stages: Stages, amount: str) -> None:
    stages.go("planned")
    ways = [run_again, run_rolled_back, run_repaired]
    killed_at_each_step(stages, "planned", RUN, ways, amount)


def test_another_run_follows_one_that_was_killed_and_repaired(stages: Stages) -> None:
    before = stages.go("verified").rows()
    run(stages, repair_job).check(before, 0)
    case = stages.anew()
    case.plan("r2", (1, 0.3, 1, 1))
    case.migrate("r2")
    case.verify("r2")
    in_order(stages, before, 1)


# A rollback


def rolled_back_again(stages: Stages, before: Rows, _: int) -> None:
    run(stages, roll_back_job).check(before, 0)
    run(stages, *RUN)
    in_order(stages, before, 1)


@pytest.mark.parametrize("stage", ["migrated", "verified"])
@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_rollback_is_killed(stages: Stages, amount: str, stage: str) -> None:
    stages.go(stage)
    ways = [rolled_back_again, run_repaired]
    killed_at_each_step(stages, stage, (roll_back_job,), ways, amount)


# Adoption and release


def adopted_again(stages: Stages, before: Rows, _: int) -> None:
    run(stages, adopt_job)
    in_order(stages, before, 0)


def released_and_adopted(stages: Stages, before: Rows, _: int) -> None:
    released(stages, before)
    adopted_again(stages, before, 0)


def released(stages: Stages, before: Rows, _: int = 0) -> None:
    case = run(stages, release_job)
    assert case.rows() == before
    for name in NAMES:
        table = case.table(name)
        assert table.epoch() is None
        # It may be left to a table with partitions of its own, with a note that it is Evenkeel's.
        left = [c for c in table.schema().names if c == "channel"]
        assert not left or name == "orders"
        assert list(table.refs()) == ["main"]
        ours = [p for p in table.properties() if "evenkeel" in p or p == "write.update.mode"]
        assert ours == [BEFORE_PROPERTY for _ in left]
        assert case.spark.sql(f"SELECT file_path FROM lake.db.{name}.files").collect()
        assert table.partitions() == (["day"] if name == "orders" else [])


@pytest.mark.parametrize("amount", AMOUNTS)
def test_an_adoption_is_killed(stages: Stages, amount: str) -> None:
    ways = [adopted_again, released_and_adopted]
    killed_at_each_step(stages, "team", (adopt_job,), ways, amount)


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_release_is_killed(stages: Stages, amount: str) -> None:
    stages.go("adopted")
    ways = [released, adopted_again]
    killed_at_each_step(stages, "adopted", (release_job,), ways, amount)


def test_a_release_keeps_the_channel_where_files_need_it_and_comes_back(stages: Stages) -> None:
    before = stages.go("adopted").rows()
    released(stages, before)
    case = stages.anew()
    assert "channel" in case.table("orders").schema().names
    assert "channel" not in case.table("profiles").schema().names
    # It is done: a second one finds nothing.
    assert release_job(case) == []
    rows = case.spark.table("lake.db.orders").drop("channel")
    rows.writeTo("lake.db.orders").append()
    twice = {**before, "orders": sorted(before["orders"] * 2)}
    released_and_adopted(stages, twice, 0)
    case = stages.anew()
    rows = case.spark.table("lake.db.orders").drop("slot_0")
    with pytest.raises(Exception, match="slot_0"):
        rows.writeTo("lake.db.orders").append()
    released(stages, twice)
