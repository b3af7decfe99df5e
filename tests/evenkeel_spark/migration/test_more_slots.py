"""A table whose slots are split: one whole run, what comes before and after it, and kills in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.jobs import learn
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration, approved_migration
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import key_hash
from partitioning.function.sql import channel_sql
from tests.chaos.points import stopped
from tests.conftest import SPEC, World, some_events

pytestmark = pytest.mark.spark

OLD, NEW, HOT = 64, 128, "D000"
#: Capacities of a run: the slots of channel 2 go to all others.
DRAINED = (1, 1, 0, 1)


def day(number: int) -> date:
    return date(2013, 1, number)


def learned(world: World, run: str, end: int) -> None:
    assert learn.main(["--spec", world.spec_path, "--run", run, "--end", f"{day(end)}"]) == 0


def planned(world: World, run: str, end: int, **asked: object) -> Migration:
    """Learn, decide, plan and pass the gate."""
    learned(world, run, end)
    params = Params.of({"force": True, **asked})
    steps.decide(world.spec_path, run, params)
    digest = steps.plan(world.spec_path, run, params)
    steps.validate_plan(world.spec_path, run)
    return approved_migration(world.table, run, digest)


def finish(spark: SparkSession, world: World, migration: Migration) -> None:
    migrate(spark, migration)
    verify(spark, migration)
    publish(spark, migration)
    steps.publish(world.spec_path, migration.run.name)
    assert steps.report(world.spec_path, migration.run.name)


def check(spark: SparkSession, world: World, end: int) -> None:
    """The state is what pandas makes of the events before a day, where the epoch puts it."""
    table, events = world.table, world.events
    grouped = events[events["at"] < f"{day(end)}"].groupby("dest")
    found = table.state("totals", spark=spark).toPandas().set_index("dest").sort_index()
    assert (found["trips"] == grouped.size()).all() and len(found) == grouped.ngroups
    assert (found["miles"] == grouped["miles"].sum()).all()
    assert (found["slot"] == key_hash([list(found.index)], ["string"]) % OLD).all()
    path, epoch = table.spec.state["totals"].path, table.epoch()
    assert constraints.is_sealed(spark, table.spec, path, epoch.function)
    rows = spark.read.format("delta").load(path)
    assert rows.where(f"NOT ({constraints.rule(epoch.function)})").isEmpty()
    whole = rows.toPandas()
    whole = whole[whole["dest"] != HOT]
    assert (whole["channel"] == epoch.lookup(whole["dest"].tolist(), row=[0] * len(whole))).all()


@pytest.fixture(scope="module")
def few(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Epoch 1 with heavy keys and a split one, and windows of nine days; slots are to be split."""
    made = World(tmp_path_factory.mktemp("few"))
    Path(made.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
    pinned = {f"D00{i}": str(i % 4) for i in range(1, 6)}
    made.respec(max_imbalance=1.001, split={"by": "id", "worth": 0}, options={"pinned": pinned})
    events = some_events()
    made.write_events(
        events.assign(id=events.index, dest=events["dest"].where(events.index % 2 > 0, HOT))
    )
    bootstrap(spark, made.table, day(8))
    finish(spark, made, planned(made, "r1", 8, capacities=(1, 1, 1, 0.5)))
    function = made.table.epoch().function
    assert len(function.explicit_keys) and len(function.split) == 1
    apply_window(spark, made.table, day(8), day(10))
    return made.respec(slots=NEW, options={})


@pytest.fixture(scope="module")
def ready_to_move(few: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = copied(few, tmp_path_factory.mktemp("planned") / "home")
    planned(made, "r2", 10, capacities=DRAINED)
    return made


def copied(world: World, folder: Path) -> World:
    shutil.copytree(world.folder, folder)
    return World(folder)


def of_run(world: World, run: str = "r2") -> Migration:
    digest = steps.read_plan(world.table.registry.run(run)).digest
    return approved_migration(world.table, run, digest)


def append(
    spark: SparkSession, world: World, function: PartitioningFunction, keys: list[str]
) -> bool:
    """Whether the table takes these keys' rows, placed by a function."""
    path = world.table.spec.state["totals"].path
    ours = spark.read.format("delta").load(path).where("dest <> 'D000'").limit(1)
    rows = ours.drop("dest").crossJoin(spark.createDataFrame([(k,) for k in keys], "dest string"))
    slots = dict(zip(keys, (key_hash([keys], ["string"]) % OLD).tolist(), strict=True))
    rows = rows.withColumn("channel", F.expr(channel_sql(function.unsplit)))
    cases = " ".join(f"WHEN '{k}' THEN {s}" for k, s in slots.items())
    rows = rows.withColumn("slot", F.expr(f"CAST(CASE dest {cases} END AS INT)"))
    write = rows.select(*ours.columns).write.format("delta").mode("append")
    with suppress(*SPARK_ERRORS):
        write.save(path)
        return True
    return False


@pytest.fixture(scope="module")
def many(spark: SparkSession, few: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Epoch 2 has split the slots. Until then all went by the epoch in force."""
    world = copied(few, tmp_path_factory.mktemp("many") / "home")
    apply_window(spark, world.table, day(10), day(11))
    check(spark, world, 11)
    finish(spark, world, planned(world, "r2", 11, capacities=DRAINED))
    check(spark, world, 11)
    return world


def test_a_run_writes_only_rows_that_change_their_channel(spark: SparkSession, many: World) -> None:
    migration, table = of_run(many), many.table
    old, new, plan = migration.before, table.epoch().function, migration.plan
    assert (len(new.slots), new.row_slots, new.parent) == (NEW, OLD, old.digest)
    assert (new.slots[:OLD] != new.slots[OLD:]).any(), "no slot has parted"
    assert any(m.kind == "slot" and m.item >= OLD for m in plan.moves)
    rows = spark.read.format("delta").load(table.spec.state["totals"].path)
    keys = [r["dest"] for r in rows.where(f"dest <> '{HOT}'").collect()]
    hashes = key_hash([keys], ["string"])
    moving = int((old.lookup_hashes(hashes) != new.lookup_hashes(hashes)).sum())
    assert sum(m.rows for m in plan.moves if m.kind != "share") == moving
    # And the rows of the split key, one a channel.
    made = migration.run.migration.read().tables["totals"]
    assert made.rows is not None and moving <= made.rows <= moving + 4
    assert made.bytes < plan.state_bytes


def test_writers_and_windows_go_by_the_new_epoch(
    spark: SparkSession, many: World, tmp_path: Path
) -> None:
    world = copied(many, tmp_path / "home")
    table, path = world.table, world.table.spec.state["totals"].path
    old, new = (table.epoch(n).function for n in (1, 2))
    names = [f"N{i}" for i in range(400)]
    at = key_hash([names], ["string"])
    gone = (old.lookup_hashes(at) != new.lookup_hashes(at)).tolist()
    assert not append(spark, world, old, [n for n, g in zip(names, gone, strict=True) if g][:20])
    assert append(spark, world, old, [n for n, g in zip(names, gone, strict=True) if not g][:20])
    assert append(spark, world, new, [n for n, g in zip(names, gone, strict=True) if g][:20])
    spark.sql(f"DELETE FROM delta.`{path}` WHERE dest LIKE 'N%'")
    apply_window(spark, table, day(11), day(13))
    check(spark, world, 13)
    # The state of the epoch before is read by that epoch's function.
    before = table.state("totals", 1, spark=spark).toPandas()
    assert before["dest"].is_unique and len(before) > 50


def test_what_comes_later_keeps_the_slots(spark: SparkSession, many: World, tmp_path: Path) -> None:
    """A repair, a way back, a run that splits slots again, and a deletion."""
    world = copied(many, tmp_path / "home")
    path, old = world.table.spec.state["totals"].path, world.table.epoch(1).function
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT {constraints.epoch_name(2)}")
    wrong = f"UPDATE delta.`{path}` SET slot = slot + {OLD}, channel = 3 - channel"
    spark.sql(f"{wrong} WHERE dest <> '{HOT}'")
    repair(spark, world.table)
    check(spark, world, 11)
    back = steps_back(world, "r3", 11, 1)
    finish(spark, world, back)
    hashes = key_hash([[f"N{i}" for i in range(1000)]], ["string"])
    assert (back.after.lookup_hashes(hashes) == old.lookup_hashes(hashes)).all()
    assert len(back.after.slots) == NEW
    check(spark, world, 11)
    world.respec(slots=3 * NEW)
    finish(spark, world, planned(world, "r4", 11, capacities=(1, 0.5, 1, 1)))
    function = world.table.epoch().function
    assert (len(function.slots), function.row_slots, function.epoch) == (3 * NEW, OLD, 4)
    check(spark, world, 11)
    forget(spark, world.table, [HOT, "D001"])
    apply_window(spark, world.table, day(11), day(12))
    rows = world.table.state("totals", spark=spark).where(f"dest IN ('{HOT}', 'D001')")
    events = world.events.set_index("at").loc["2013-01-11"]
    later = events[events["dest"].isin([HOT, "D001"])]
    assert {r["dest"]: r["trips"] for r in rows.collect()} == later.groupby("dest").size().to_dict()


def steps_back(world: World, run: str, end: int, to: int) -> Migration:
    learned(world, run, end)
    digest = steps.plan_rollback(world.spec_path, run, to)
    steps.validate_plan(world.spec_path, run)
    return approved_migration(world.table, run, digest)


@pytest.mark.parametrize("fence", ["key", "slot"])
def test_a_run_that_is_rolled_back_leaves_the_slots_of_before(
    spark: SparkSession, few: World, ready_to_move: World, tmp_path: Path, fence: str
) -> None:
    world = copied(few if fence == "slot" else ready_to_move, tmp_path / "home")
    if fence == "slot":
        world.respec(fence="slot")
        repair(spark, world.table)
        planned(world, "r2", 10, capacities=DRAINED)
    migration, old = of_run(world), world.table.epoch().function
    migrate(spark, migration)
    late = [f"L{i}" for i in range(40)]
    assert append(spark, world, migration.after, late)
    assert append(spark, world, old, [f"E{i}" for i in range(40)])
    roll_back(spark, migration)
    assert world.table.epoch().number == 1
    path = world.table.spec.state["totals"].path
    rows = spark.read.format("delta").load(path)
    assert rows.where("dest RLIKE '^[LE]'").count() == 80
    assert rows.where(f"NOT ({constraints.rule(old)})").isEmpty()
    spark.sql(f"DELETE FROM delta.`{path}` WHERE dest RLIKE '^[LE]'")
    check(spark, world, 10)
    # The same plan may be tried again.
    finish(spark, world, of_run(world))
    assert len(world.table.epoch().function.slots) == NEW
    check(spark, world, 10)


def test_slots_that_are_no_multiple_are_one_error_and_change_nothing(
    spark: SparkSession, many: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = copied(many, tmp_path / "home")
    path = world.table.spec.state["totals"].path
    version, runs = state.table_version(spark, path), world.table.registry.store.names("runs")
    for slots, said in (
        (OLD, "has slots = 128, the spec says 64, which is no multiple"),
        (3 * OLD, "has slots = 128, the spec says 192, which is no multiple"),
        (100, "the spec says 100, which is no multiple"),
        (None, "has slots = 64, the spec gives none, which means 4096"),
        (1 << 21, "slots"),
    ):
        world.respec(slots=slots)
        if slots is None:
            spec = Path(world.spec_path)
            spec.write_text(spec.read_text().replace("slots: null\n", ""))
        capsys.readouterr()
        assert learn.main(["--spec", world.spec_path, "--run", "r9"]) == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1 and said in lines[0], lines
    with pytest.raises(InputError, match="slots: must be 1,048,576 or less"):
        _ = world.table
    world.respec(slots=NEW)
    assert state.table_version(spark, path) == version
    assert {*world.table.registry.store.names("runs")} <= {*runs, "r9"}
    check(spark, world, 11)
    # One that is, is told of.
    world.respec(slots=3 * NEW)
    capsys.readouterr()
    learned(world, "r9", 11)
    assert "slots: 128 are to be 384; no row is rewritten for it" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("killed", [migrate, roll_back, verify, publish])
def test_a_run_that_is_killed_at_each_of_its_writes_goes_on(
    spark: SparkSession, ready_to_move: World, tmp_path: Path, killed: Callable[..., object]
) -> None:
    """Each time one point later, so that what is done already passes no points."""
    world, at = copied(ready_to_move, tmp_path / "home"), 0
    for step in (migrate, roll_back) if killed == roll_back else (migrate, verify, publish):
        while step == killed and len(stopped(lambda: killed(spark, of_run(world)), at)) > at:
            at += 1
        step(spark, of_run(world))
    assert at > 5, at
    assert world.table.epoch().number == (1 if killed == roll_back else 2)
    check(spark, world, 10)
