"""Adopted tables: writers that do not route, release beside a migration, tables brought back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel.inspect.half_moved import mark_moving
from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from evenkeel_spark.adoption import release as releasing
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.jobs import adopt as job
from evenkeel_spark.jobs import learn, migrate
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.plans.approved_plan import approved_migration
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.table_properties import TABLE_PROPERTY
from partitioning.errors import FenceError, InputError, UnderWayError
from tests.conftest import World
from tests.support.raw_json import write_json
from tests.support.worlds.team_tables import both, placed, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_writer_that_does_not_route_is_refused_and_one_that_does_gets_in(
    spark: SparkSession, team: World
) -> None:
    adopt(spark, team.table)
    path, epoch = str(team.folder / "profiles"), team.table.epoch()
    new = spark.createDataFrame([("NEW", 7)], "dest string, most int")
    wrong = new.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route() + 1)
    for rows, why in ((new, "channel"), (wrong, constraints.epoch_name(0))):
        with pytest.raises(Exception, match=why):
            rows.write.format("delta").mode("append").save(path)
    routed = new.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route())
    routed.write.format("delta").mode("append").save(path)
    assert placed(spark, team)


def test_release_waits_for_a_migration(spark: SparkSession, team: World) -> None:
    adopt(spark, team.table)
    path = str(team.folder / "orders")
    constraints.add(
        spark, path, "evenkeel_moving_1_abc", constraints.rule(team.table.epoch().function)
    )
    with pytest.raises(FenceError, match="evenkeel_moving_1_abc: state moves"):
        release(spark, team.table)
    repair(spark, team.table)
    assert release(spark, team.table, dry_run=True) == ["orders", "profiles"]
    assert release(spark, team.table) == ["orders", "profiles"]


def test_release_of_some_tables_waits_for_a_run_that_moves_others(
    spark: SparkSession, team: World
) -> None:
    """The run needs all of its tables to end, forward or back."""
    adopt(spark, team.table)
    registry = team.table.registry
    moving = registry.run("r1")
    write_json(moving, "migration.json", {"digest": "d" * 64, "epoch": 1, "tables": {}})
    mark_moving(registry, moving)
    path = str(team.folder / "profiles")
    team.respec(state={"profiles": {"path": path, "rows": "one"}})
    with pytest.raises(UnderWayError, match="run r1 is moving rows"):
        release(spark, team.table)
    registry.files.moving("r1").remove()
    assert release(spark, team.table) == ["profiles"]


def test_a_migrate_that_wakes_after_release_leaves_no_constraint(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt(spark, team.table)
    path = next(iter(team.table.spec.state.values())).path
    real, woken = constraints.put, []

    def late(*given: Any) -> bool:
        monkeypatch.setattr(constraints, "put", real)
        with pytest.raises(UnderWayError, match="run one is moving rows"):
            release(spark, team.table)
        roll_back(spark, approved_migration(team.table, "one", digest))
        release(spark, team.table)
        woken.append(given)
        return real(*given)

    arguments = ["--spec", team.spec_path, "--run", "one"]
    assert learn.main(arguments) == 0
    steps.decide(team.spec_path, "one", asked := Params(force=True))
    digest = steps.plan(team.spec_path, "one", asked)
    steps.validate_plan(team.spec_path, "one")
    monkeypatch.setattr(constraints, "put", late)
    assert migrate.main([*arguments, "--digest", digest]) != 0
    assert woken
    assert constraints.our_constraints(spark, path) == set()


@pytest.mark.parametrize("edited", [False, True])
def test_state_of_our_own_is_not_released(spark: SparkSession, ready: World, edited: bool) -> None:
    before = {n: state.table_version(spark, p.path) for n, p in ready.table.spec.state.items()}
    if edited:
        # The spec calls the table the team's own, and the table knows better.
        ready.respec(state={"totals": {"path": "state/totals", "rows": "many"}})
        with pytest.raises(InputError, match="Evenkeel made it.*Leave its `columns` in the spec"):
            adopt(spark, ready.table)
    for drop in (True, False):
        with pytest.raises(InputError, match="a split key counts several times"):
            release(spark, ready.table, drop_columns=drop)
    assert job.main(["--spec", ready.spec_path, "--release", "--drop-columns"]) == 2
    for name, part in ready.table.spec.state.items():
        assert state.table_version(spark, part.path) == before[name]


@pytest.mark.parametrize("drop", [False, True])
def test_a_migration_that_begins_before_the_release_keeps_its_fence(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch, drop: bool
) -> None:
    adopt(spark, team.table)
    path, name = str(team.folder / "orders"), "evenkeel_moving_1_abc"
    real = releasing.say

    def late(line: str) -> None:
        """The tables were found at rest, and nothing is released yet."""
        if line.startswith("orders: loses"):
            rule = constraints.rule(team.table.epoch().function)
            constraints.add(spark, path, name, rule)
        real(line)

    monkeypatch.setattr(releasing, "say", late)
    with pytest.raises(FenceError, match=f"{name}: state moves"):
        release(spark, team.table, drop_columns=drop)
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0", name}
    assert state.properties(spark, path)[TABLE_PROPERTY] == "trips"


def advice(error: pytest.ExceptionInfo[InputError]) -> list[str]:
    """The commands that an error names."""
    return re.findall(r"ALTER TABLE .*?\)|`evenkeel [^`]+`", str(error.value))


def test_a_table_brought_back_to_before_its_adoption_is_adopted_again(
    spark: SparkSession, team: World
) -> None:
    before = both(spark, team)
    adopt(spark, team.table)
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    spark.sql(f"RESTORE TABLE delta.`{team.folder / 'orders'}` TO VERSION AS OF 0")
    version = state.table_version(spark, str(team.folder / "profiles"))
    with pytest.raises(InputError, match="brought back to before Evenkeel took it") as error:
        repair(spark, team.table)
    assert advice(error) == ["`evenkeel adopt trips`", "`evenkeel repair trips`"]
    assert learn.main(["--spec", team.spec_path, "--run", "r2"]) == 2
    (survey,) = adopt(spark, team.table, dry_run=True)
    assert survey.name == "orders"
    assert [s.name for s in adopt(spark, team.table)] == ["orders"]
    assert adopt(spark, team.table) == []
    assert state.table_version(spark, str(team.folder / "profiles")) == version
    assert repair(spark, team.table) == []
    assert both(spark, team) == before and placed(spark, team)
    run(spark, team, "r3")
    assert team.table.registry.numbers() == [0, 1, 2]
    assert both(spark, team) == before and placed(spark, team)
    # So are tables that were released: their registry goes on.
    release(spark, team.table, drop_columns=True)
    assert len(adopt(spark, team.table)) == 2
    assert both(spark, team) == before and placed(spark, team)


def test_a_table_brought_back_while_rows_move_leads_to_rest(
    spark: SparkSession, team: World
) -> None:
    before = both(spark, team)
    adopt(spark, team.table)
    arguments = ["--spec", team.spec_path, "--run", "one"]
    assert learn.main(arguments) == 0
    steps.decide(team.spec_path, "one", asked := Params(force=True, capacities=(1, 1, 1, 0.3)))
    digest = steps.plan(team.spec_path, "one", asked)
    steps.validate_plan(team.spec_path, "one")
    assert migrate.main([*arguments, "--digest", digest]) == 0
    spark.sql(f"RESTORE TABLE delta.`{team.folder / 'orders'}` TO VERSION AS OF 0")
    with pytest.raises(InputError, match="evenkeel adopt trips"):
        roll_back(spark, approved_migration(team.table, "one", digest))
    adopt(spark, team.table)
    repair(spark, team.table)
    assert team.table.registry.numbers() == [0]
    assert both(spark, team) == before and placed(spark, team)


def test_a_table_that_lost_its_property_by_hand_gets_it_back(
    spark: SparkSession, team: World
) -> None:
    adopt(spark, team.table)
    path = str(team.folder / "profiles")
    spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{TABLE_PROPERTY}')")
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT evenkeel_epoch_0")
    with pytest.raises(InputError, match="has lost the properties of Evenkeel") as error:
        repair(spark, team.table)
    statement, command = advice(error)
    assert command == "`evenkeel repair trips`"
    spark.sql(statement)
    assert len(repair(spark, team.table)) == 1
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"} and placed(spark, team)
