"""Jobs on tables with `fence: slot`: made, adopted, applied, evolved, rebalanced, released."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Epoch, TableVersion
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import DamagedError, FenceError
from partitioning.function.hashing import key_hash
from partitioning.function.sql import channel_sql
from tests.conftest import SPEC, World, some_events
from tests.support.cases.bootstrapped import END, rows
from tests.support.state_tables import drop_constraint
from tests.support.worlds.team_tables import make_team, placed, run
from tests.support.worlds.windows import put

pytestmark = pytest.mark.spark


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> World:
    world = World(tmp_path)
    Path(world.spec_path).write_text(yaml.safe_dump({**SPEC, "fence": "slot"}, sort_keys=False))
    world.write_events(some_events())
    assert bootstrap(spark, world.table, END)
    return world


def with_a_heavy_key(spark: SparkSession, world: World, key: str) -> None:
    """Publish an epoch in which a key has a channel of its own beside its slot's."""
    old, path = world.table.epoch().function, world.table.spec.state["totals"].path
    h = key_hash([[key]], ["string"])
    owner = (old.lookup_hashes(h) + 1) % 4
    function = replace(old, explicit_keys=h, explicit_channels=owner, epoch=1, parent=old.digest)
    drop_constraint(spark, path, "evenkeel_epoch_0")
    spark.sql(f"UPDATE delta.`{path}` SET channel = {channel_sql(function)}")
    rule = constraints.fence_rule(world.table.spec, function)
    constraints.add(spark, path, constraints.epoch_name(1), rule)
    version = TableVersion(path, state.table_version(spark, path))
    world.table.registry.publish(function, {"totals": version})


def test_a_window_waits_for_a_repair_of_a_row_out_of_place(
    spark: SparkSession, made: World
) -> None:
    table, path = made.table, made.table.spec.state["totals"].path
    with_a_heavy_key(spark, made, "D000")
    slot_channel = int(made.table.epoch(0).lookup(["D000"])[0])
    before = rows(spark, path)["trips"].sum()
    put(spark, path, "D000", [slot_channel], trips=5)
    until = END + timedelta(days=1)
    with pytest.raises(FenceError, match="out of place.*evenkeel repair trips"):
        apply_window(spark, table, END, until)
    repair(spark, table)
    assert rows(spark, path)["trips"].sum() == before + 5
    apply_window(spark, table, END, until)
    day = made.events[(made.events["at"].dt.date >= END) & (made.events["at"].dt.date < until)]
    found = rows(spark, path)
    assert found["trips"].sum() == before + 5 + len(day)
    assert (found["channel"] == table.epoch().lookup(found["dest"])).all()


def test_columns_follow_the_spec(spark: SparkSession, made: World) -> None:
    (before,) = constraints.of(spark, made.table.spec.state["totals"].path).values()
    assert "xxhash64" not in before
    columns = SPEC["state"]["totals"]["columns"]
    made.with_columns({**columns, "most": {"merge": "max", "of": "miles"}})
    assert evolve(spark, made.table, Intent.of())
    path = made.table.spec.state["totals"].path
    assert "most" in spark.read.format("delta").load(path).columns
    (after,) = constraints.of(spark, path).values()
    assert constraints.same_sql(before, after)


def test_a_bootstrap_that_was_broken_off_under_another_fence_is_refused(
    spark: SparkSession, made: World
) -> None:
    shutil.rmtree(made.folder / "registry" / "epochs")
    made.respec(fence="key")
    with pytest.raises(DamagedError, match="another constraint evenkeel_epoch_0"):
        bootstrap(spark, made.table, END)
    made.respec(fence="slot")
    assert bootstrap(spark, made.table, END)


def profiles(epoch: Epoch, keys: Iterable[str]) -> pa.Table:
    keys = list(keys)
    return pa.table(
        {
            "dest": keys,
            "most": pa.array(np.full(len(keys), 7), pa.int32()),
            "slot": epoch.lookup_slot(keys),
            "channel": epoch.lookup(keys),
        }
    )


def test_an_adopted_table_is_written_by_delta_rs_before_and_after_a_rebalance(
    spark: SparkSession, tmp_path: Path
) -> None:
    team = make_team(spark, tmp_path).respec(fence="slot")
    adopt(spark, team.table)
    path, old = team.table.spec.state["profiles"].path, team.table.epoch()
    keys = [f"N{i}" for i in range(200)]
    write_deltalake(path, profiles(old, keys[:100]), mode="append")
    # Channel 3 is drained, so its slots move.
    names = [{"name": str(c), "capacity": float(c < 3)} for c in range(4)]
    run(spark, team.respec(channels=names), "one")
    now = team.table.epoch()
    assert placed(spark, team)
    moved = [k for k in keys[100:] if old.lookup([k]) != now.lookup([k])]
    assert moved
    with pytest.raises(DeltaError, match="Invalid data found"):
        write_deltalake(path, profiles(old, moved), mode="append")
    write_deltalake(path, profiles(now, keys[100:]), mode="append")
    assert placed(spark, team)
    assert set(keys) <= set(spark.read.format("delta").load(path).toPandas()["dest"])
    # Adopted again, its rows are in place, and it gets the same constraint.
    before = constraints.of(spark, path)
    assert release(spark, team.table) and not constraints.our_constraints(spark, path)
    adopt(spark, team.table)
    assert constraints.of(spark, path).keys() == before.keys()
    assert constraints.is_sealed(spark, team.table.spec, path, now.function)
