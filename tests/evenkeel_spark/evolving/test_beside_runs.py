"""State tables that join or leave beside a run: it ends, or moves nothing."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.epochs import Registry
from evenkeel_spark.evolving import evolve as module
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.delta_tables import DeltaEvolving
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.evolving.joining import record_members
from evenkeel_spark.evolving.port import NewTable
from evenkeel_spark.evolving.state_tables import StateTables
from evenkeel_spark.migration import migrate as migrate_module
from evenkeel_spark.plans.approved_plan import Migration, approved_migration
from evenkeel_spark.plans.attempts import mark_started
from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import FenceError, InputError
from tests.chaos.home import PIPELINE, RUN, dag, task
from tests.conftest import SPEC, World
from tests.support.worlds.windows import day

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GONE = Intent.of((), ["seen"])
DDL = "channel int, slot int, dest string, latest timestamp"


def plan_digest(world: World) -> str:
    return str(read_plan(world.table.registry.run(RUN)).digest)


def test_a_run_that_has_started_since_is_seen_before_a_table_is_let_go(
    spark: SparkSession, home: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    evolve(spark, home.with_seen().table, Intent.of())
    path = home.table.spec.state["seen"].path
    home.respec(state=SPEC["state"])
    real = module._withdraw_plans

    def first_call(registry: Registry) -> None:
        real(registry)
        monkeypatch.undo()
        # An old process learns, plans and begins to migrate, with the spec as it was.
        for name in PIPELINE[:4]:
            task(spark, home.with_seen(), name)
        mark_started(approved_migration(home.table, RUN, read_plan(run).digest))
        home.respec(state=SPEC["state"])

    run = home.table.registry.run(RUN)
    monkeypatch.setattr(module, "_withdraw_plans", first_call)
    with pytest.raises(FenceError, match="begun to move state"):
        evolve(spark, home.table, GONE)
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}
    # The records are taken back, so the run may end; then the table can go.
    home.with_seen()
    for name in PIPELINE[4:]:
        task(spark, home, name)
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_1"}
    evolve(spark, home.respec(state=SPEC["state"]).table, GONE)
    assert constraints.our_constraints(spark, path) == set()


def test_a_run_that_starts_between_its_looks_moves_nothing_without_a_table_that_joined(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PIPELINE[:4]:
        task(spark, ready, name)
    real = migrate_module.mark_started

    def mark_then_join(migration: Migration) -> None:
        real(migration)
        evolved = World(ready.folder).with_seen().table
        path = evolved.spec.state["seen"].path
        new = NewTable("seen", StructType.fromDDL(DDL), {"at": "timestamp"}, day(8))
        DeltaEvolving(spark, evolved).create(new, migration.before)
        tables = StateTables([], {"seen": False}, {}, {}, day(8))
        record_members(evolved, tables, migration.before)
        assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}

    monkeypatch.setattr(migrate_module, "mark_started", mark_then_join)
    before = state.table_version(spark, ready.table.spec.state["totals"].path)
    with pytest.raises(InputError, match="has state table 'seen', and the spec has not"):
        migrate_module.migrate(spark, approved_migration(ready.table, RUN, plan_digest(ready)))
    assert state.table_version(spark, ready.table.spec.state["totals"].path) == before


def test_tables_that_change_while_rows_move_are_told_how_to_end_it(
    spark: SparkSession, ready: World
) -> None:
    for name in PIPELINE[:5]:
        task(spark, ready, name)
    ready.with_seen()
    with pytest.raises(FenceError, match="state moves|evenkeel_moving|begun to move"):
        evolve(spark, ready.table, Intent.of())
    with pytest.raises(FenceError, match="Set the state tables of the spec back until"):
        task(spark, ready, "verify")
    ready.respec(state=SPEC["state"])
    task(spark, ready, "verify")
    task(spark, ready, "publish")
    assert ready.table.epoch().number == 1
    evolve(spark, ready.with_seen().table, Intent.of())
    path = ready.table.spec.state["seen"].path
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_1"}


@pytest.mark.parametrize("again", [False, True], ids=["once", "and killed again"])
def test_a_table_that_never_joined_is_guarded_by_the_epoch_of_now(
    spark: SparkSession, home: World, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """A call was killed before the registry knew the table; then an epoch was published."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "record_members", die)
        with pytest.raises(KeyboardInterrupt):
            evolve(spark, home.with_seen().table, Intent.of())
    path = home.table.spec.state["seen"].path
    assert dag(spark, home.respec(state=SPEC["state"]), "learn", RUN)
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}
    home.with_seen()
    if again:
        with monkeypatch.context() as patch:
            patch.setattr(constraints, "drop_beside", die)
            with pytest.raises(KeyboardInterrupt):
                evolve(spark, home.table, Intent.of())
        assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0", "evenkeel_epoch_1"}
    evolve(spark, home.table, Intent.of())
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_1"}
    task(spark, home, "learn", "r2")
