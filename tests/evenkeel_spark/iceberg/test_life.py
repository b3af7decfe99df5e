"""A team's Iceberg tables from adoption to release, by the jobs themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.spec.parts import StateTable
from evenkeel_spark.iceberg import maintain as maintaining
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.iceberg.maintain import steps as maintain_steps
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.release import release
from evenkeel_spark.iceberg.repair import repair
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.tables.iceberg.checks import adopted_tables
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.table_properties import BEFORE_PROPERTY
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.iceberg.tables import NAMES, both, placed, planned

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_adopted_rebalanced_maintained_and_released(lake: SparkSession, team: World) -> None:
    before = both(lake)
    adopt(lake, team.table)
    assert both(lake) == before and placed(lake, team)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    assert team.table.epoch().number == 0 and placed(lake, team)
    verify(lake, migration)
    assert team.table.epoch().number == 1
    assert both(lake) == before and placed(lake, team)
    for _, step in maintain_steps(lake, team.table):
        step()
    assert both(lake) == before and placed(lake, team)
    release(lake, team.table, drop_columns=True)
    assert both(lake) == before
    for name in NAMES:
        table = IcebergTable(lake, f"lake.db.{name}")
        # Iceberg cannot list the files of orders, which have a partition of their own, without it.
        kept = ["channel"] if name == "orders" else []
        assert [c for c in table.schema().names if c == "channel" or c.startswith("slot")] == kept
        assert [p for p in table.properties() if "evenkeel" in p] == [BEFORE_PROPERTY for _ in kept]
        assert table.partitions() == (["day"] if name == "orders" else [])


def test_what_a_team_has_named_or_set_itself_stays(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    orders, mode = IcebergTable(lake, "lake.db.orders"), "write.update.mode"
    orders.alter("CREATE BRANCH evenkeel_test")
    orders.alter("CREATE TAG evenkeel_before_upgrade")
    orders.create_branch("evenkeel_window_0f", orders.head())
    for _ in range(4):
        lake.table("lake.db.orders").limit(1).writeTo("lake.db.orders").append()

    def left(least: str) -> int:
        """Remove snapshots as if all were old; how many are left."""
        orders.set_properties({"history.expire.min-snapshots-to-keep": least})
        maintaining._expire(orders, -1)
        return lake.sql("SELECT * FROM lake.db.orders.snapshots").count()

    every = lake.sql("SELECT * FROM lake.db.orders.snapshots").count()
    assert left("50") == every > 4
    orders.set_properties({"gc.enabled": "false"})
    assert left("1") == every
    assert maintaining._expire(orders, -1) == "all stay: gc.enabled is false"
    orders.set_properties({"gc.enabled": "true"})
    assert left("3") < every
    # Another job's branch is gone.
    assert orders.refs().keys() == {"main", "evenkeel_test", "evenkeel_before_upgrade"}
    assert repair(lake, team.table) == []
    release(lake, team.table)
    assert mode not in orders.properties()
    orders.set_properties({mode: "copy-on-write"})
    release(lake, team.table)
    assert orders.properties()[mode] == "copy-on-write"
    adopt(lake, team.table)
    assert orders.properties()[mode] == "merge-on-read"
    release(lake, team.table, drop_columns=True)
    assert orders.properties()[mode] == "copy-on-write"
    assert orders.refs().keys() == {"main", "evenkeel_test", "evenkeel_before_upgrade"}


def test_rolled_back_moves_no_row_of_main(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    heads = {name: IcebergTable(lake, f"lake.db.{name}").head() for name in NAMES}
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    roll_back(lake, migration)
    for name in NAMES:
        table = IcebergTable(lake, f"lake.db.{name}")
        table.refresh()
        assert table.refs() == {"main": heads[name]} and table.epoch() == 0
    migrate(lake, migration)
    verify(lake, migration)
    assert team.table.epoch().number == 1 and placed(lake, team)


def test_a_row_that_comes_beside_the_move_is_moved_too(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    epoch = team.table.epoch()
    rows = lake.table("lake.db.orders").where("channel = 3").limit(20).drop("slot_0", "channel")
    rows = rows.withColumn("slot_0", epoch.slot()).withColumn("channel", epoch.route())
    rows.withColumn("dest", F.col("dest")).writeTo("lake.db.orders").append()
    before = both(lake)
    verify(lake, migration)
    assert both(lake) == before and placed(lake, team)


class Died(BaseException):
    pass


def dying_at(point: str) -> Callable[[str], None]:
    def die(step: str) -> None:
        if step == point:
            raise Died

    return die


def test_a_value_that_a_team_sets_beside_a_killed_adoption_comes_back(
    lake: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, mode = IcebergTable(lake, "lake.db.orders"), "write.update.mode"
    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.runtime.crash_point.reached", dying_at("noted"))
        with pytest.raises(Died):
            adopt(lake, team.table)
    orders.set_properties({mode: "copy-on-write"})
    adopt(lake, team.table)
    assert orders.properties()[mode] == "merge-on-read"
    release(lake, team.table)
    assert orders.properties()[mode] == "copy-on-write"


def test_files_without_the_partition_are_written_again(
    lake: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a join would shuffle for as long as one of them is left."""
    adopt(lake, team.table)
    release(lake, team.table)
    orders = IcebergTable(lake, "lake.db.orders")
    orders.alter("DROP PARTITION FIELD channel")
    lake.table(orders.sql).limit(1).writeTo(orders.sql).append()
    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.runtime.crash_point.reached", dying_at("partitioned"))
        with pytest.raises(Died):
            adopt(lake, team.table)
    # The field is there again, and a file without it, too.
    found = {survey.name: survey.rewrites for survey in adopt(lake, team.table, dry_run=True)}
    assert found == {"orders": True, "profiles": False}
    adopt(lake, team.table)
    release(lake, team.table)
    assert not any(survey.rewrites for survey in adopt(lake, team.table, dry_run=True))


def test_maintain_keeps_the_order_of_a_team(lake: SparkSession, team: World) -> None:
    orders = IcebergTable(lake, "lake.db.orders")
    orders.alter("WRITE ORDERED BY at")
    adopt(lake, team.table)
    for _ in range(6):
        lake.table("lake.db.orders").where("channel = 0").limit(1).writeTo(orders.sql).append()
    (rewrite,) = (step for what, step in maintaining.steps(lake, team.table) if "orders, f" in what)
    orders.set_properties({"write.target-file-size-bytes": "1000"})
    assert rewrite() != "0 rewritten"
    orders.refresh()
    ids = {row[0] for row in lake.table("lake.db.orders.files").select("sort_order_id").collect()}
    assert orders.loaded().sortOrder().orderId() in ids - {0}


def test_one_table_that_leaves_alone_does_not_release_the_others(
    lake: SparkSession, team: World
) -> None:
    adopt(lake, team.table)
    parts = {n: {"path": p.path, "format": "iceberg", "rows": p.rows} for n, p in _state(team)}
    team.respec(state={"profiles": parts["profiles"]})
    assert release(lake, team.table) == ["profiles"]
    assert not team.table.registry.files.released.exists()
    team.respec(state=parts)
    assert release(lake, team.table) == ["orders"]
    with pytest.raises(InputError, match="was released on .* Run `evenkeel adopt trips`"):
        adopted_tables(lake, team.table.spec)


def test_a_spec_that_says_other_rows_is_not_adopted(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    parts = {n: {"path": p.path, "format": "iceberg", "rows": "one"} for n, p in _state(team)}
    team.respec(state=parts)
    with pytest.raises(InputError, match="is adopted with rows: many, the spec says rows: one"):
        adopt(lake, team.table)


def _state(team: World) -> list[tuple[str, StateTable]]:
    return [*team.table.spec.state.items()]
