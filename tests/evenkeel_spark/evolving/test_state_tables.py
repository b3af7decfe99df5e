"""State tables that join a spec whose epochs go on, and that leave it again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.epochs import Registry
from evenkeel_spark.evolving.changes import Intent, Kind
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.membership import known_tables
from partitioning.errors import FenceError, InputError
from tests.chaos.home import RIVAL, RUN, copied, dag
from tests.conftest import SEEN, SPEC, World
from tests.support.state_tables import drop_constraint
from tests.support.worlds.windows import day, rows

pytestmark = pytest.mark.spark

GONE = Intent.of((), ["seen"])
DDL = "channel int, slot int, dest string, latest timestamp"


def plan_digest(world: World) -> str:
    return str(read_plan(world.table.registry.run(RUN)).digest)


def test_a_state_table_joins_and_leaves(spark: SparkSession, ready: World) -> None:
    path = ready.with_seen().table.spec.state["seen"].path
    with pytest.raises(InputError, match="epoch 0 knows no state table 'seen'.*evenkeel evolve"):
        learn(spark, ready.table, day(8))
    (planned,) = evolve(spark, ready.table, Intent.of(), dry_run=True)
    assert planned.kind == Kind.add_table and "windows from 2013-01-08 on fill" in planned.meaning
    assert not Path(path).exists() and ready.table.registry.files.members() == []
    evolve(spark, ready.table, Intent.of())
    assert rows(spark, ready, "seen").empty
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}
    assert state.properties(spark, path)["evenkeel.columns"] == '{"latest": "max"}'
    assert evolve(spark, ready.table, Intent.of()) == []
    # An empty table can be learned from, and repaired.
    learn(spark, ready.table, day(8))
    drop_constraint(spark, path, "evenkeel_epoch_0")
    repair(spark, ready.table)
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}

    apply_window(spark, ready.table, day(8), day(10))
    assert dag(spark, ready, "learn", RUN)
    epoch = ready.table.epoch()
    assert epoch.number == 1 and set(epoch.tables) == {"totals", "seen"}
    days = ready.events[(ready.events["at"] >= "2013-01-08") & (ready.events["at"] < "2013-01-10")]
    latest = days.groupby("dest")["at"].max().dt.tz_localize(None)
    found = rows(spark, ready, "seen")
    assert found["latest"].to_dict() == latest.to_dict()
    assert (found["channel"] == epoch.lookup(found.index)).all()
    with pytest.raises(InputError, match="epoch 0 has no state table 'seen'"):
        ready.table.state("seen", 0, spark)

    ready.respec(state=SPEC["state"])
    with pytest.raises(InputError, match="'seen' is not in the spec, and nothing says"):
        evolve(spark, ready.table, Intent.of())
    (gone,) = evolve(spark, ready.table, GONE)
    assert gone.kind == Kind.drop_table and path in gone.meaning
    left = state.properties(spark, path)
    assert not [p for p in left if "evenkeel" in p]
    assert evolve(spark, ready.table, GONE) == []
    # It is like any other table now.
    spark.sql(f"UPDATE delta.`{path}` SET channel = 99")
    assert spark.read.format("delta").load(path).count() == len(found)
    apply_window(spark, ready.table, day(10), day(11))
    assert dag(spark, ready, "learn", RIVAL) and set(ready.table.epoch().tables) == {"totals"}

    with pytest.raises(InputError, match=f"{path}.*: expected an empty folder"):
        evolve(spark, ready.with_seen().table, Intent.of())
    ready.respec(state={**SPEC["state"], "seen": {**SEEN, "path": "state/again"}})
    assert [c.kind for c in evolve(spark, ready.table, Intent.of())] == [Kind.add_table]


def test_rows_of_before_are_written_as_any_writer_writes_them(
    spark: SparkSession, ready: World
) -> None:
    evolve(spark, ready.with_seen().table, Intent.of())
    path, epoch = ready.table.spec.state["seen"].path, ready.table.epoch()
    past = ready.events[ready.events["at"] < "2013-01-08"].groupby("dest")["at"].max()
    first = pd.DataFrame({"dest": past.index, "latest": past.to_numpy()})
    first["slot"] = epoch.lookup_slot(first["dest"].tolist())
    first["channel"] = epoch.lookup(first["dest"].tolist())
    written = spark.createDataFrame(first).selectExpr(
        "CAST(channel AS INT) channel", "CAST(slot AS INT) slot", "dest", "latest"
    )
    written.write.format("delta").mode("append").save(path)
    apply_window(spark, ready.table, day(8), day(10))
    every = ready.events[ready.events["at"] < "2013-01-10"].groupby("dest")["at"].max()
    found = rows(spark, ready, "seen")["latest"].to_dict()
    assert found == every.dt.tz_localize(None).to_dict()


@pytest.mark.parametrize("known_to", ["record", "epoch"])
def test_a_table_that_is_lost_is_missed_and_not_made_again(
    spark: SparkSession, ready: World, known_to: str
) -> None:
    evolve(spark, ready.with_seen().table, Intent.of())
    apply_window(spark, ready.table, day(8), day(9))
    if known_to == "epoch":
        assert dag(spark, ready, "learn", RUN)
    path = ready.table.spec.state["seen"].path
    shutil.rmtree(path)
    for name in (path, "state/elsewhere"):
        ready.respec(state={**SPEC["state"], "seen": {**SEEN, "path": name}})
        with pytest.raises(InputError, match="holds no state table, and 'seen' is known at"):
            evolve(spark, ready.table, Intent.of())
        with pytest.raises(InputError, match="holds no state table, and 'seen' is known at"):
            apply_window(spark, ready.table, day(9), day(10))
    assert not Path(path).exists()
    # Only a person can say that it is not coming back.
    (gone,) = evolve(spark, ready.respec(state=SPEC["state"]).table, GONE)
    assert "not touched" in gone.meaning
    assert [c.kind for c in evolve(spark, ready.with_seen().table, Intent.of())] == [Kind.add_table]


@pytest.mark.slow
def test_a_table_that_left_may_come_again_at_once_elsewhere(
    spark: SparkSession, ready: World
) -> None:
    evolve(spark, ready.with_seen().table, Intent.of())
    assert dag(spark, ready, "learn", RUN)
    evolve(spark, ready.respec(state=SPEC["state"]).table, GONE)
    ready.respec(state={**SPEC["state"], "seen": {**SEEN, "path": "state/again"}})
    assert [c.kind for c in evolve(spark, ready.table, Intent.of())] == [Kind.add_table]
    apply_window(spark, ready.table, day(8), day(9))


def test_a_copy_with_its_registry_leaves_the_tables_of_the_other(
    spark: SparkSession, ready: World, tmp_path: Path
) -> None:
    path = ready.with_seen().table.spec.state["seen"].path
    evolve(spark, ready.table, Intent.of())
    before = state.table_version(spark, path)
    copy = copied(ready, tmp_path / "copy").respec(state=SPEC["state"])
    with pytest.raises(InputError, match="has state table 'seen', and the spec has not"):
        learn(spark, copy.table, day(8))
    (gone,) = evolve(spark, copy.table, GONE)
    assert "not touched" in gone.meaning and path in gone.meaning
    learn(spark, copy.table, day(8))
    assert state.table_version(spark, path) == before
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}


def test_others_must_have_the_same_windows(spark: SparkSession, ready: World) -> None:
    evolve(spark, ready.with_seen().table, Intent.of())
    path = ready.table.spec.state["totals"].path
    apply_window(spark, ready.table, day(8), day(9))
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    third = {**SEEN, "path": "state/third"}
    ready.respec(state={**SPEC["state"], "seen": SEEN, "third": third})
    with pytest.raises(InputError, match="totals up to 2013-01-08, seen up to 2013-01-09"):
        evolve(spark, ready.table, Intent.of())
    ready.respec(state={"third": third})
    with pytest.raises(InputError, match="found no other table"):
        evolve(spark, ready.table, Intent.of((), ["totals", "seen"]))


@pytest.mark.parametrize("moved_by", ["constraint", "property"])
def test_a_table_that_somebody_took_the_guard_off_is_let_go_or_brought_back(
    spark: SparkSession, home: World, moved_by: str
) -> None:
    evolve(spark, home.with_seen().table, Intent.of())
    path = home.table.spec.state["seen"].path
    if moved_by == "constraint":
        drop_constraint(spark, path, "evenkeel_epoch_0")
    else:
        spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('evenkeel.table')")
        # Another path must not make it again: its rows would be lost.
        home.respec(state={**SPEC["state"], "seen": {**SEEN, "path": "state/elsewhere"}})
        with pytest.raises(InputError, match="holds no state table, and 'seen' is known at"):
            evolve(spark, home.table, Intent.of())
        with pytest.raises(InputError, match="has lost the properties of Evenkeel"):
            learn(spark, home.with_seen().table, day(8))
    (gone,) = evolve(spark, home.respec(state=SPEC["state"]).table, GONE)
    assert gone.kind == Kind.drop_table and evolve(spark, home.table, GONE) == []
    assert ("evenkeel.table" in state.properties(spark, path)) is False
    learn(spark, home.table, day(8))


@pytest.mark.slow
def test_a_table_that_has_left_is_its_owners_whatever_becomes_of_it(
    spark: SparkSession, home: World
) -> None:
    evolve(spark, home.with_seen().table, Intent.of())
    path = home.table.spec.state["seen"].path
    guarded = state.table_version(spark, path)
    assert dag(spark, home, "learn", RUN)
    evolve(spark, home.respec(state=SPEC["state"]).table, GONE)
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {guarded}")
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}
    assert evolve(spark, home.table, Intent.of()) == []
    assert dag(spark, home, "learn", RIVAL)
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}


def test_a_window_must_be_in_before_a_table_joins(spark: SparkSession, world: World) -> None:
    bootstrap(spark, world.table, None)
    with pytest.raises(InputError, match="totals up to None"):
        evolve(spark, world.with_seen().table, Intent.of())


def test_a_table_whose_record_was_lost_joins_again_with_its_rows(
    spark: SparkSession, ready: World
) -> None:
    path = ready.with_seen().table.spec.state["seen"].path
    evolve(spark, ready.table, Intent.of())
    apply_window(spark, ready.table, day(8), day(9))
    before = rows(spark, ready, "seen")
    ready.table.registry.files.member("seen").remove()
    with pytest.raises(InputError, match="knows no state table 'seen'"):
        apply_window(spark, ready.table, day(9), day(10))
    (joined,) = evolve(spark, ready.table, Intent.of())
    assert "it is there already" in joined.meaning and len(before)
    assert rows(spark, ready, "seen").equals(before)
    apply_window(spark, ready.table, day(9), day(10))

    ready.table.registry.files.member("seen").remove()
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('evenkeel.registry' = '/other')")
    with pytest.raises(InputError, match=f"{path}.*: expected an empty folder"):
        evolve(spark, ready.table, Intent.of())


@pytest.mark.slow
def test_a_table_that_comes_back_with_rows_of_an_earlier_epoch_is_repaired(
    spark: SparkSession, ready: World
) -> None:
    """The registry came back from before the table joined, and an epoch was published since."""
    evolve(spark, ready.with_seen().table, Intent.of())
    apply_window(spark, ready.table, day(8), day(9))
    before = rows(spark, ready, "seen")
    ready.table.registry.files.member("seen").remove()
    assert dag(spark, ready.respec(state=SPEC["state"]), "learn", RUN)
    ready.with_seen()
    with pytest.raises(FenceError, match="evenkeel repair"):
        evolve(spark, ready.table, Intent.of())
    repair(spark, ready.table)
    after = rows(spark, ready, "seen")
    assert len(before) and after.drop(columns="channel").equals(before.drop(columns="channel"))
    path = ready.table.spec.state["seen"].path
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_1"}


def test_an_epoch_published_between_two_looks_loses_no_table(
    spark: SparkSession, ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of a table that has joined is of the epoch before."""
    evolve(spark, ready.with_seen().table, Intent.of())
    registry, before = ready.table.registry, ready.table.registry.current()
    assert dag(spark, ready, "learn", RUN)
    looks, real = [before], Registry.current
    monkeypatch.setattr(Registry, "current", lambda self: looks.pop() if looks else real(self))
    assert set(known_tables(registry)) == {"totals", "seen"}


def test_names_decide_and_not_paths(spark: SparkSession, ready: World) -> None:
    evolve(spark, ready.with_seen().table, Intent.of())
    # A line of the spec was lost: one table has the path of the other.
    totals = {**SPEC["state"]["totals"], "path": "state/seen"}
    with pytest.raises(InputError, match="is the folder of state table 'seen', and the spec"):
        learn(spark, ready.respec(state={"totals": totals}).table, day(8))
    # Another name for the same folder is the same table.
    ready.respec(state={"totals": SPEC["state"]["totals"], "newest": SEEN})
    learn(spark, ready.table, day(8))
