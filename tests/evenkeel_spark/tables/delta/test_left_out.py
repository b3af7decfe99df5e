"""A spec that leaves out a state table of the epoch: no job goes on as if the table were not."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.tables.delta import preflight
from partitioning.errors import InputError
from tests.chaos.home import task
from tests.conftest import SPEC, World
from tests.support.worlds.windows import day, versions

pytestmark = pytest.mark.spark

MESSAGE = "state table 'seen'(, and the spec has not| is not in the spec, and nothing says)"

JOBS: dict[str, Callable[[SparkSession, Table], object]] = {
    "learn": lambda spark, table: learn(spark, table, day(8)),
    "apply_window": lambda spark, table: apply_window(spark, table, day(8), day(9)),
    "repair": repair,
    "forget": lambda spark, table: forget(spark, table, ["D000"]),
    "evolve": lambda spark, table: evolve(spark, table, Intent.of()),
}


@pytest.mark.parametrize("job", JOBS)
def test_no_job_goes_on_without_a_table_of_the_epoch(
    spark: SparkSession, world: World, job: str
) -> None:
    bootstrap(spark, world.with_seen().table, day(8))
    before = versions(spark, world)
    world.respec(state=SPEC["state"])
    with pytest.raises(InputError, match=MESSAGE):
        JOBS[job](spark, world.table)
    assert versions(spark, world.with_seen()) == before


def test_a_plan_that_lacks_the_table_moves_nothing(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap(spark, world.with_seen().table, day(8))
    world.respec(state=SPEC["state"])
    with monkeypatch.context() as patch:
        patch.setattr(preflight, "check_members", lambda *_: None)
        for name in ("learn", "decide", "plan", "validate_plan"):
            task(spark, world, name)
    before = versions(spark, world.with_seen())
    world.respec(state=SPEC["state"])
    with pytest.raises(InputError, match=MESSAGE):
        task(spark, world, "migrate")
    assert versions(spark, world.with_seen()) == before
    assert not world.table.registry.run("r1").migration.exists()


def test_a_table_that_is_lost_is_asked_for_until_a_person_says_that_it_has_left(
    spark: SparkSession, world: World
) -> None:
    bootstrap(spark, world.with_seen().table, day(8))
    shutil.rmtree(world.table.spec.state["seen"].path)
    world.respec(state=SPEC["state"])
    with pytest.raises(InputError, match=MESSAGE):
        learn(spark, world.table, day(8))
    evolve(spark, world.table, Intent.of((), ["seen"]))
    learn(spark, world.table, day(8))
