"""Adopting a team's own tables: nothing lost, all epochs work on them, and out again."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.runs.params import Params
from evenkeel_spark.adoption import adopt as adopting
from evenkeel_spark.adoption import release as releasing
from evenkeel_spark.adoption import rewrite
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.jobs import adopt as job
from evenkeel_spark.jobs import learn, maintain, migrate
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.migration.fence import approved_migration
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import EvenkeelError, FenceError, InputError
from tests.conftest import DAYS, FIRST_DAY, World
from tests.support.worlds.team_tables import both, content, placed, run

pytestmark = pytest.mark.spark


def test_adopted_tables_are_rebalanced_and_released_with_every_row(
    spark: SparkSession, team: World
) -> None:
    before = both(spark, team)
    adopt(spark, team.table)
    assert team.table.registry.numbers() == [0]
    assert both(spark, team) == before and placed(spark, team)
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    run(spark, team, "r2")
    assert team.table.registry.numbers() == [0, 1, 2]
    assert both(spark, team) == before and placed(spark, team)
    read = team.table.state("orders", spark=spark)
    assert read.count() == len(before["orders"]) and "channel" not in read.columns
    rows = team.table.snapshot(spark).rows
    assert rows["orders"].count() == len(before["orders"])
    assert maintain.main(["--spec", team.spec_path]) == 0
    assert repair(spark, team.table) == []
    assert both(spark, team) == before
    assert release(spark, team.table, drop_columns=True) == ["orders", "profiles"]
    assert both(spark, team) == before
    for name, partitions in (("orders", ["day"]), ("profiles", [])):
        path = str(team.folder / name)
        assert not [p for p in state.properties(spark, path) if "evenkeel" in p]
        detail = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
        assert detail["partitionColumns"] == partitions
        assert not {"slot", "channel"} & set(state.schema(spark, path).fieldNames())
    assert release(spark, team.table, drop_columns=True) == []


def test_a_dry_run_tells_and_changes_nothing(
    spark: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(team.folder.rglob("*"))
    assert job.main(["--spec", team.spec_path, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "orders: 3,000 rows, " in said and "keys" not in said.split("orders: 3,000")[1][:9]
    assert "profiles: 200 rows, 200 keys" in said or "profiles: 1" in said
    assert "give partitions: [day]" in said
    assert "dry run: nothing was changed" in said
    assert sorted(team.folder.rglob("*")) == before


def test_partitions_of_the_team_stay_below_channel(spark: SparkSession, team: World) -> None:
    spec = yaml.safe_load(Path(team.spec_path).read_text())
    spec["state"]["orders"]["partitions"] = ["day"]
    team.respec(state=spec["state"])
    before = both(spark, team)
    adopt(spark, team.table)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{team.folder / 'orders'}`").first()
    assert detail["partitionColumns"] == ["channel", "day"]
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    assert both(spark, team) == before and placed(spark, team)


def test_an_append_during_the_rewrite_is_not_lost(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real, times = both(spark, team), adopting.change, []

    def late(own, path, version, *args, **kwargs):
        if not times:
            times.append(version)
            more = spark.read.format("delta").load(str(team.folder / "orders")).limit(3)
            more.write.format("delta").mode("append").save(str(team.folder / "orders"))
        real(own, path, version, *args, **kwargs)

    monkeypatch.setattr(adopting, "change", late)
    adopt(spark, team.table)
    found = content(spark, team, "orders")
    assert len(found) == len(before["orders"]) + 3
    assert set(found) == set(before["orders"]) and placed(spark, team)


def test_who_never_pauses_is_asked_to_and_nothing_is_changed(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = adopting.change

    def late(own, path, version, *args, **kwargs):
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('a' = '{version}')")
        real(own, path, version, *args, **kwargs)

    monkeypatch.setattr(adopting, "change", late)
    before = both(spark, team)
    with pytest.raises(FenceError, match="others wrote during each of 3 rewrites"):
        adopt(spark, team.table)
    assert both(spark, team) == before
    # Writers may route already; the tables take their rows without.
    assert team.table.registry.numbers() == [0]
    assert "channel" not in state.schema(spark, str(team.folder / "orders")).fieldNames()


@pytest.mark.parametrize("at", ["before the first", "between", "before the epoch"])
def test_one_that_died_is_gone_on_with(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    class Died(BaseException):
        pass

    def die(*args: Any, **kwargs: Any) -> None:
        raise Died

    real, done = adopting.change, []

    def once(own, path, *args, **kwargs):
        if len(done) == {"before the first": 0, "between": 1}.get(at, 9):
            die()
        real(own, path, *args, **kwargs)
        done.append(path)

    before = both(spark, team)
    with monkeypatch.context() as patch:
        patch.setattr(adopting, "change", once)
        if at == "before the epoch":
            patch.setattr(adopting, "_publish", die)
        with pytest.raises(Died):
            adopt(spark, team.table)
    assert team.table.registry.numbers() == ([] if at == "before the epoch" else [0])
    assert len(adopt(spark, team.table)) == 2 - len(done)
    assert adopt(spark, team.table) == []
    assert both(spark, team) == before and placed(spark, team)


def test_what_was_half_adopted_can_be_released(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = both(spark, team), adopting.change

    def once(own, path, *args, **kwargs):
        assert "profiles" not in path, "the second table is never adopted"
        real(own, path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(adopting, "change", once)
        with pytest.raises(AssertionError, match="never adopted"):
            adopt(spark, team.table)
    assert release(spark, team.table) == ["orders"]
    rows = spark.read.format("delta").load(str(team.folder / "orders"))
    # The columns stay, and nobody is refused any more.
    rows.limit(1).withColumn("channel", F.lit(77)).write.format("delta").mode("append").save(
        str(team.folder / "orders")
    )
    assert len(content(spark, team, "orders")) == len(before["orders"]) + 1
    assert release(spark, team.table, drop_columns=True) == ["orders"]
    assert "slot" not in state.schema(spark, str(team.folder / "orders")).fieldNames()


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
    with pytest.raises(FenceError, match="evenkeel_moving_1_abc: state is moving"):
        release(spark, team.table)
    repair(spark, team.table)
    assert release(spark, team.table, dry_run=True) == ["orders", "profiles"]
    assert release(spark, team.table) == ["orders", "profiles"]


def test_a_migrate_that_wakes_after_release_leaves_no_constraint(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt(spark, team.table)
    path = next(iter(team.table.spec.state.values())).path
    real = constraints.add

    def late(own: SparkSession, at: str, name: str, rule: str) -> None:
        monkeypatch.setattr(constraints, "add", real)
        release(spark, team.table)
        real(own, at, name, rule)

    arguments = ["--spec", team.spec_path, "--run", "one"]
    assert learn.main(arguments) == 0
    steps.decide(team.spec_path, "one", asked := Params(force=True))
    digest = steps.plan(team.spec_path, "one", asked)
    steps.validate_plan(team.spec_path, "one")
    monkeypatch.setattr(constraints, "add", late)
    assert migrate.main([*arguments, "--digest", digest]) != 0
    assert constraints.our_constraints(spark, path) == set()


def test_state_of_our_own_is_not_released(spark: SparkSession, ready: World) -> None:
    before = {n: state.table_version(spark, p.path) for n, p in ready.table.spec.state.items()}
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
    with pytest.raises(FenceError, match=f"{name}: state is moving"):
        release(spark, team.table, drop_columns=drop)
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0", name}
    assert state.properties(spark, path)[state.TABLE_PROPERTY] == "trips"


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
    spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{state.TABLE_PROPERTY}')")
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT evenkeel_epoch_0")
    with pytest.raises(InputError, match="has lost the properties of Evenkeel") as error:
        repair(spark, team.table)
    statement, command = advice(error)
    assert command == "`evenkeel repair trips`"
    spark.sql(statement)
    assert len(repair(spark, team.table)) == 1
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"} and placed(spark, team)


def sql(text: str):
    return lambda spark, team: spark.sql(text.format(team.folder))


def spec_change(**changes: Any):
    return lambda spark, team: team.respec(**changes)


def other_registry(spark: SparkSession, team: World) -> None:
    adopt(spark, team.table)
    team.respec(registry="elsewhere")


WRONG = {
    "null keys": (
        sql("INSERT INTO delta.`{}/profiles` VALUES (NULL, 1)"),
        r"profiles .*: 1 rows have a null in the key \(dest\)",
    ),
    "duplicates": (
        sql("INSERT INTO delta.`{0}/profiles` SELECT * FROM delta.`{0}/profiles` LIMIT 2"),
        r"expected one row a key, found \d+ rows of \d+ keys.*rows: many",
    ),
    "taken": (
        sql("ALTER TABLE delta.`{}/orders` ADD COLUMN Channel INT"),
        "has a column 'Channel', which Evenkeel would add",
    ),
    "a map": (
        sql("ALTER TABLE delta.`{}/orders` ADD COLUMN m MAP<STRING, INT>"),
        "column 'm' is map<string,int>",
    ),
    "append-only": (
        sql("ALTER TABLE delta.`{}/orders` SET TBLPROPERTIES ('delta.appendOnly' = 'true')"),
        "is append-only",
    ),
    "no such column": (
        spec_change(
            state={"orders": {"path": "orders", "rows": "many", "partitions": ["nothing"]}}
        ),
        "there is no column 'nothing'",
    ),
    "no table": (
        spec_change(state={"orders": {"path": "nowhere", "rows": "many"}}),
        "expected a Delta table, found nothing",
    ),
    "another registry": (other_registry, "is adopted as a table of 'trips' with registry"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_adopted_is_one_error_and_nothing_is_changed(
    spark: SparkSession, team: World, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    change, message = WRONG[what]
    change(spark, team)
    before = {p: state.table_version(spark, str(team.folder / p)) for p in ("orders", "profiles")}
    for arguments in ([], ["--dry-run"]):
        with pytest.raises(EvenkeelError, match=message):
            adopt(spark, team.table, dry_run=bool(arguments))
        assert job.main(["--spec", team.spec_path, *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 2
    for name, version in before.items():
        assert state.table_version(spark, str(team.folder / name)) == version
    assert team.table.registry.numbers() == []


def test_a_stream_that_still_writes_is_refused(spark: SparkSession, team: World) -> None:
    path, folder = str(team.folder / "orders"), team.folder
    source = str(folder / "source")
    spark.read.format("delta").load(path).limit(2).write.format("delta").save(source)
    query = (
        spark.readStream.format("delta").load(source).writeStream.format("delta")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True).start(path)
    )  # fmt: skip
    query.awaitTermination()
    with pytest.raises(InputError, match="a streaming query wrote version 1"):
        adopt(spark, team.table)


def test_jobs_for_state_of_our_own_refuse(spark: SparkSession, team: World) -> None:
    for act in (
        lambda: bootstrap(spark, team.table),
        lambda: apply_window(spark, team.table, FIRST_DAY.date(), FIRST_DAY.date()),
    ):
        with pytest.raises(InputError, match=r"the team's own \(`rows`\)"):
            act()


def test_state_of_our_own_is_not_adopted(spark: SparkSession, ready: World) -> None:
    with pytest.raises(InputError, match="Run bootstrap; or give `rows`"):
        adopt(spark, ready.table)


def test_tables_with_mapped_columns_and_comments_keep_them(
    spark: SparkSession, team: World
) -> None:
    path = str(team.folder / "profiles")
    for change in (
        "ALTER COLUMN most COMMENT 'the longest'",
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "RENAME COLUMN most TO longest",
    ):
        spark.sql(f"ALTER TABLE delta.`{path}` {change}")
    before = both(spark, team)
    adopt(spark, team.table)
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    assert both(spark, team) == before and placed(spark, team)
    assert state.schema(spark, path)["longest"].metadata["comment"] == "the longest"


def test_two_at_once_adopt_once(spark: SparkSession, team: World) -> None:
    before, errors = both(spark, team), list[BaseException]()

    def work() -> None:
        try:
            adopt(spark.newSession(), team.table)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One of the two may find the table adopted by the other in its second look.
    assert all(isinstance(e, EvenkeelError) for e in errors) and len(errors) <= 1
    adopt(spark, team.table)
    assert both(spark, team) == before and placed(spark, team)
    assert team.table.registry.numbers() == [0]


def test_days_are_still_there(spark: SparkSession, team: World) -> None:
    first = str(team.folder / "orders")
    adopt(spark, team.table)
    old = spark.read.format("delta").option("versionAsOf", 0).load(first)
    assert old.count() == len(team.events) and "slot" not in old.columns
    assert team.events["at"].dt.date.nunique() == DAYS


def test_rewriting_fails_on_top_of_another_version(spark: SparkSession, team: World) -> None:
    path = str(team.folder / "profiles")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE dest = 'D000'")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('x' = 'y')")
    with pytest.raises(rewrite.MetadataChangedException):
        rewrite.change(spark, path, 1, rewrite.Layout(properties={"a": "b"}))
