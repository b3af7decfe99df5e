"""A team's own columns, writers and wide values in Iceberg tables that are adopted or made."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.iceberg.maintain import steps
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.release import release
from evenkeel_spark.iceberg.repair import repair
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.tables import filesystem
from evenkeel_spark.tables.iceberg.table import IcebergTable
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.iceberg.fed import one
from tests.support.iceberg.stages import meanwhile
from tests.support.iceberg.tables import both, placed, planned, rebalanced

pytestmark = pytest.mark.spark

#: Columns of these names that a team adds, by what it calls them: type and value.
THEIRS = {"channel": ("string", "'shop'"), "slot_2": ("int", "7")}


@pytest.mark.parametrize("names", [["channel"], ["slot_2"], ["slot_2", "channel"]])
def test_a_column_of_the_teams_own_is_not_taken_for_ours(
    lake: SparkSession, team: World, names: list[str]
) -> None:
    """A release has left its note, and the team has columns of these names since."""
    adopt(lake, team.table)
    release(lake, team.table, drop_columns=True)
    table = one(lake, "orders")
    # The table has partitions of its own, so our channel is still there.
    table.alter("DROP COLUMN channel")
    for name in names:
        kind, value = THEIRS[name]
        table.alter(f"ADD COLUMN {name} {kind}")
        lake.sql(f"UPDATE {table.sql} SET {name} = {value}")
    before = lake.table(table.sql).orderBy("dest", "at", "miles").collect()
    head = one(lake, "orders").head()
    listed = ", ".join(map(repr, names))
    for dry_run in (True, False):
        with pytest.raises(InputError, match=f"has a column {listed}, which Evenkeel would add"):
            adopt(lake, team.table, dry_run=dry_run)
    release(lake, team.table, drop_columns=True)
    table.refresh()
    assert lake.table(table.sql).orderBy("dest", "at", "miles").collect() == before
    assert table.head() == head
    for name in names:
        table.alter(f"RENAME COLUMN {name} TO sales_{name}")
    adopt(lake, team.table)
    assert placed(lake, team)
    for name in names:
        assert lake.table(table.sql).where(f"sales_{name} <> {THEIRS[name][1]}").isEmpty()


def test_a_column_that_a_release_has_left_is_taken_again(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    before = both(lake)
    release(lake, team.table)
    adopt(lake, team.table)
    assert placed(lake, team) and both(lake) == before
    release(lake, team.table, drop_columns=True)
    adopt(lake, team.table)
    assert placed(lake, team) and both(lake) == before


@pytest.mark.parametrize("how", ["stream", "flink"])
def test_a_stream_or_an_upsert_keeps_adoption_out(
    lake: SparkSession, team: World, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = one(lake, "profiles")
    if how == "stream":
        source = lake.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        rows = source.selectExpr("'new' AS dest", "CAST(value AS INT) AS most")
        check = str(team.folder / "checkpoint")
        write = rows.writeStream.trigger(once=True).option("checkpointLocation", check)
        write.toTable(table.sql).awaitTermination()
    else:
        # As Flink's committer says of itself.
        lake.conf.set("spark.sql.iceberg.snapshot-property.flink.job-id", "1")
        lake.sql(f"INSERT INTO {table.sql} VALUES ('new', 1)")
        lake.conf.unset("spark.sql.iceberg.snapshot-property.flink.job-id")
    with pytest.raises(InputError, match="a streaming query wrote snapshot .* s ago"):
        adopt(lake, team.table, dry_run=True)
    monkeypatch.setattr("evenkeel_spark.iceberg.survey.STREAMING", 0)
    adopt(lake, team.table, dry_run=True)
    table.set_properties({"write.upsert.enabled": "true"})
    with pytest.raises(InputError, match="has write.upsert.enabled: upserts would miss rows"):
        adopt(lake, team.table, dry_run=True)


def test_maintain_tells_of_keys_that_a_late_upsert_has_doubled(
    lake: SparkSession, team: World
) -> None:
    adopt(lake, team.table)
    table, epoch = one(lake, "profiles"), team.table.epoch()
    row = lake.table(table.sql).first()
    assert row is not None
    other = (row["channel"] + 1) % len(epoch.function.channels)
    late = lake.createDataFrame([{**row.asDict(), "channel": other}], lake.table(table.sql).schema)
    late.writeTo(table.sql).append()
    (place,) = (step for what, step in steps(lake, team.table) if what == "profiles, late rows")
    for _ in range(2):
        with pytest.raises(InputError, match="1 keys have several rows: a writer has routed by an"):
            place()
    with pytest.raises(InputError, match="1 keys have several rows: a writer has routed by an"):
        repair(lake, team.table)
    lake.sql(f"DELETE FROM {table.sql} WHERE dest = '{row['dest']}' AND channel = {other}")
    assert place() == "0 placed"


def test_verify_leaves_a_key_that_a_late_upsert_has_doubled_for_maintain(
    lake: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    adopt(lake, team.table)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    table = one(lake, "profiles")

    def land() -> None:
        table.refresh()
        row = lake.table(table.sql).first()
        assert row is not None
        other = (row["channel"] + 1) % 4
        columns = lake.table(table.sql).schema
        late = lake.createDataFrame([{**row.asDict(), "channel": other}], columns)
        late.writeTo(table.sql).append()

    with meanwhile("landed", land):
        verify(lake, migration)
    assert "late rows wait for maintain" in capsys.readouterr().out
    (place,) = (step for what, step in steps(lake, team.table) if what == "profiles, late rows")
    with pytest.raises(InputError, match="1 keys have several rows"):
        place()


NAMED = {
    "sort": ("WRITE LOCALLY ORDERED BY slot_0", "the sort order", "WRITE UNORDERED"),
    "partition": ("ADD PARTITION FIELD bucket(4, slot_0)", "the partition field", None),
}


@pytest.mark.parametrize("what", NAMED)
def test_columns_that_the_table_names_are_not_half_dropped(
    lake: SparkSession, team: World, what: str
) -> None:
    adopt(lake, team.table)
    table = one(lake, "profiles")
    statement, said, undo = NAMED[what]
    table.alter(statement)
    before = table.properties()
    for dry_run in (True, False):
        with pytest.raises(InputError, match=f"cannot drop column 'slot_0': it is named by {said}"):
            release(lake, team.table, drop_columns=True, dry_run=dry_run)
    table.refresh()
    assert table.properties() == before
    if undo is not None:
        table.alter(undo)
        release(lake, team.table, drop_columns=True)
    else:
        release(lake, team.table)


@pytest.mark.parametrize("files", [True, False])
def test_orc_files_are_refused(lake: SparkSession, team: World, files: bool) -> None:
    table, rows = one(lake, "profiles"), lake.table("lake.db.profiles")
    table.alter("SET TBLPROPERTIES ('write.format.default' = 'orc')")
    if files:
        rows.limit(1).writeTo(table.sql).append()
        table.alter("SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    head = one(lake, "profiles").head()
    for dry_run in (True, False):
        with pytest.raises(InputError, match="profiles.*has ORC files.*INSERT OVERWRITE"):
            adopt(lake, team.table, dry_run=dry_run)
    assert one(lake, "profiles").head() == head


def test_wide_values_are_weighed_and_moved(lake: SparkSession, fed: World) -> None:
    columns = {
        "trips": {"merge": "count"},
        "places": {"merge": "set", "of": "miles"},
        "many": {"merge": "hll", "of": "miles"},
    }
    fed.respec(state={"wide": {"path": "lake.db.wide", "format": "iceberg", "columns": columns}})
    bootstrap(lake, fed.table, date(2013, 1, 8))
    apply_window(lake, fed.table, date(2013, 1, 8), date(2013, 1, 10))
    profile, _ = learn(lake, fed.table, date(2013, 1, 10))
    files = lake.sql("SELECT * FROM lake.db.wide.files WHERE content = 0").toPandas()
    rows = IcebergTable(lake, "lake.db.wide").rows().count()
    share = rows / files["record_count"].sum()
    assert profile.bytes.sum() == pytest.approx(files["file_size_in_bytes"].sum() * share)
    # D000 has most events, so its row has the widest set.
    weights = dict(zip(profile.heavy_names, profile.heavy_bytes.tolist(), strict=True))
    assert weights["D000"] == max(weights.values()) > 1.2 * min(weights.values())
    rebalanced(lake, fed, "r1", capacities=(1, 1, 1, 0.3))
    assert fed.table.epoch().number == 1


def test_a_dry_run_tells_how_long_and_of_too_little_room(
    lake: SparkSession,
    team: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    adopt(lake, team.table, dry_run=True)
    said = capsys.readouterr().out
    keys = lake.table("lake.db.profiles").count()
    assert f"profiles: {keys} rows, {keys} keys, " in said and "orders: 3,000 rows, " in said
    assert "orders: a rewrite takes about 0 s on " in said
    assert "orders: a stream that reads this table stops at that snapshot" in said
    # New files go there, whatever room the old ones have.
    apart = str(team.folder / "apart")
    one(lake, "orders").set_properties({"write.data.path": apart})
    free = "evenkeel_spark.tables.filesystem.free_bytes"
    assert filesystem.free_bytes(lake, apart) > 10
    monkeypatch.setattr(free, lambda _, folder: 10 if folder == apart else 10**12)
    with pytest.raises(InputError, match="orders .*: a rewrite needs .* bytes, and 10 are free"):
        adopt(lake, team.table)
    assert not team.table.registry.numbers()


def test_columns_may_be_called_as_what_spark_tells_of_a_table(
    lake: SparkSession, team: World
) -> None:
    """Spark lists columns first, then the provider and the location, in one table."""
    table = one(lake, "orders")
    table.alter("ADD COLUMNS (Provider string, Location string)")
    table.refresh()
    assert table.details()["Provider"] == "iceberg"
    assert table.details()["Location"].endswith("/db/orders")
    adopt(lake, team.table)
    assert placed(lake, team)


def test_a_table_that_was_made_again_is_released_and_adopted(
    lake: SparkSession, team: World
) -> None:
    """It keeps the properties of Evenkeel, and loses columns and partitions."""
    adopt(lake, team.table)
    table = one(lake, "orders")
    rows = lake.table(table.sql).drop("slot_0", "channel").localCheckpoint()
    before = both(lake)
    rows.writeTo(table.sql).using("iceberg").tableProperty("format-version", "3").createOrReplace()
    with pytest.raises(InputError, match="release trips`, then `evenkeel adopt trips"):
        planned(lake, team, "r")
    # Columns that are brought back by hand are optional, and files are not by channel.
    table.alter("ADD COLUMNS (slot_0 int, channel int)")
    with pytest.raises(InputError, match="and partitions by nothing"):
        planned(lake, team, "r")
    table.alter("DROP COLUMNS (slot_0, channel)")
    release(lake, team.table)
    adopt(lake, team.table)
    assert placed(lake, team) and both(lake) == before
    assert "channel" in one(lake, "orders").partitions()


def test_a_second_column_of_a_slots_name_is_refused(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    one(lake, "profiles").alter("ADD COLUMN slot_9 int")
    with pytest.raises(InputError, match="expected one column slot_N, found slot_0, slot_9"):
        planned(lake, team, "r")
    one(lake, "profiles").alter("RENAME COLUMN slot_9 TO sales_slot")
    rebalanced(lake, team, "r")
    assert placed(lake, team)


def test_a_move_that_would_write_whole_files_is_refused(lake: SparkSession, team: World) -> None:
    adopt(lake, team.table)
    table = one(lake, "orders")
    migration = planned(lake, team, "r")
    heads = one(lake, "orders").head(), one(lake, "profiles").head()
    table.set_properties({"write.update.mode": "copy-on-write"})
    with pytest.raises(InputError, match="to be merge-on-read, found copy-on-write") as refused:
        migrate(lake, migration)
    assert (one(lake, "orders").head(), one(lake, "profiles").head()) == heads
    lake.sql(str(refused.value).split(". ")[-1])
    migrate(lake, migration)
    verify(lake, migration)
    assert placed(lake, team)
