"""Forgetting keys of Iceberg tables: their rows go, and nothing brings them back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.forgetting.meanwhile import check_none_forgotten_at
from evenkeel_spark.iceberg import maintain
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs import learn as learn_job
from evenkeel_spark.jobs import maintain as maintain_job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.windows.iceberg.snapshots import known_placed
from partitioning.errors import FenceError, InputError
from tests.conftest import World
from tests.support.iceberg.fed import NAMES, at, check, crash, day, one
from tests.support.iceberg.stages import Crash
from tests.support.iceberg.tables import both, placed, planned, rebalanced

pytestmark = pytest.mark.spark

KEYS = ["D001", "D007"]
MERGE_ON_READ = "('write.delete.mode' = 'merge-on-read')"


def without(world: World, keys: list[str]) -> World:
    """Delete the keys' events."""
    return world.write_events(world.events[~world.events["dest"].isin(keys)])


def live_keys(lake: SparkSession, name: str) -> set[str]:
    """Return the keys of all rows in data files of main, with those that are deleted there."""
    files = [r[0] for r in lake.sql(f"SELECT file_path FROM lake.db.{name}.files").collect()]
    return set().union(*(keys_in(f.removeprefix("file:")) for f in files if f.endswith("parquet")))


def keys_in(file: str | Path) -> list[str]:
    return pq.ParquetFile(file).read(columns=["dest"])["dest"].to_pylist()


def test_the_rows_go_with_the_files_that_hid_them(
    lake: SparkSession, kept: World, as_jobs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    learned, _ = learn(lake, kept.table, day(8))
    assert set(KEYS) <= set(learned.heavy_names)
    apply_window(lake, kept.table, day(8), day(10))
    rebalanced(lake, kept, "r1", capacities=(1, 1, 1, 0.3))
    # One of the keys is deleted by hand, and both were moved or merged: deletes hide their rows.
    lake.sql("DELETE FROM lake.db.totals WHERE dest = 'D007'")
    assert set(KEYS) <= live_keys(lake, "totals")
    heads = {name: one(lake, name).head() for name in NAMES}
    assert forget(lake, kept.table, KEYS, dry_run=True) == {"totals": 1, "seen": 2}
    assert {name: one(lake, name).head() for name in NAMES} == heads
    capsys.readouterr()
    asked = [f"--forget={key}" for key in KEYS]
    assert maintain_job.main(["--spec", kept.spec_path, *asked]) == 0
    said = capsys.readouterr().out
    assert "totals: 1 rows deleted" in said and "seen: 2 rows deleted" in said
    assert "sketches" in said and "older versions hold the rows until maintain runs after" in said
    for name in NAMES:
        assert live_keys(lake, name).isdisjoint(KEYS)
    assert forget(lake, kept.table, KEYS) == {"totals": 0, "seen": 0}
    left, _ = learn(lake, without(kept, KEYS).table, day(8))
    assert set(KEYS).isdisjoint(left.heavy_names) and len(left.heavy_names)
    apply_window(lake, kept.table, day(10), day(12))
    check(lake, kept, day(12))


@pytest.mark.parametrize("before", ["nothing", "killed", "deleted by hand"])
def test_no_file_has_the_keys_once_snapshots_have_gone(
    lake: SparkSession, kept: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """The two newest snapshots stay whatever their age; those must not have the rows either."""
    apply_window(lake, kept.table, day(8), day(10))
    if before == "killed":
        with pytest.raises(Crash), at("deleted", crash, 1):
            forget(lake, kept.table, KEYS)
    if before == "deleted by hand":
        for name in NAMES:
            lake.sql(f"ALTER TABLE lake.db.{name} SET TBLPROPERTIES {MERGE_ON_READ}")
            lake.sql(f"DELETE FROM lake.db.{name} WHERE dest IN ('D001', 'D007')")
    forget(lake, kept.table, KEYS)
    # A window trusts that this has moved no row, and does not trust a person.
    table, function = one(lake, "totals"), kept.table.epoch().function
    assert known_placed(table, table.head(), function) is (before != "deleted by hand")
    folder = tmp_path / "lake" / "db"
    assert any(set(KEYS) & set(keys_in(f)) for f in folder.rglob("*.parquet"))
    monkeypatch.setattr(maintain, "kept_for", lambda *_: timedelta(0))
    for what, step in maintain.steps(lake, kept.table):
        if what.endswith("snapshots"):
            step()
    files = list(folder.rglob("*.parquet"))
    assert files and not any(set(KEYS) & set(keys_in(f)) for f in files)


@pytest.mark.parametrize("point", ["branched", "merged"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_window_under_way_brings_no_key_back(
    lake: SparkSession, kept: World, point: str, number: int
) -> None:
    def leave() -> None:
        without(kept, KEYS)
        forget(lake, kept.table, KEYS)

    with (
        at(point, leave, number),
        pytest.raises(FenceError, match="a key was forgotten meanwhile. Run it again"),
    ):
        apply_window(lake, kept.table, day(8), day(10))
    for name in NAMES:
        assert set(KEYS).isdisjoint(live_keys(lake, name))
    apply_window(lake, kept.table, day(8), day(10))
    check(lake, kept, day(10))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("point", ["marked", "deleted"])
def test_forget_is_killed(lake: SparkSession, kept: World, point: str, number: int) -> None:
    without(kept, KEYS)
    with pytest.raises(Crash), at(point, crash, number):
        forget(lake, kept.table, KEYS)
    forget(lake, kept.table, KEYS)
    check(lake, kept, day(8))


@pytest.mark.parametrize("late", [False, True])
def test_a_learn_under_way_writes_no_name(
    lake: SparkSession, kept: World, as_jobs: None, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    what = "weigh" if late else "sketch_days"
    real = getattr(learn_job, what)

    def then(*args: Any) -> Any:
        found = real(*args)
        without(kept, KEYS)
        forget(lake, kept.table, KEYS)
        return found

    asked = ["--spec", kept.spec_path, "--run", "r", "--end", "2013-01-08"]
    with monkeypatch.context() as patch:
        patch.setattr(learn_job, what, then)
        assert learn_job.main(asked) == FenceError.exit_code
    run = kept.table.registry.run("r")
    assert not run.profile.exists() and "a key was forgotten meanwhile" in run.error.read().message
    assert learn_job.main(asked) == 0


def test_a_rebalance_under_way_goes_on_without_the_rows(lake: SparkSession, team: World) -> None:
    """Its branches have rows of the key. They are moved again from where main is now."""
    adopt(lake, team.table)
    migration = planned(lake, team, "r1", capacities=(1, 1, 1, 0.3))
    migrate(lake, migration)
    named = set(migration.run.profile.read().heavy_names)
    keys = sorted({r["dest"] for r in lake.table("lake.db.profiles").collect()} - named)
    wanted = keys[:2]
    before = both(lake)
    assert forget(lake, team.table, wanted)["profiles"] == 2
    verify(lake, migration)
    assert placed(lake, team)
    after = both(lake)
    for name, rows in after.items():
        assert rows == [r for r in before[name] if not set(wanted) & set(r)]


def test_what_keeps_older_snapshots_is_told(
    lake: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    adopt(lake, team.table)
    lake.sql("ALTER TABLE lake.db.orders CREATE TAG `of 2013`")
    lake.sql("ALTER TABLE lake.db.profiles SET TBLPROPERTIES ('gc.enabled' = 'false')")
    least = "'history.expire.min-snapshots-to-keep' = '50'"
    lake.sql(f"ALTER TABLE lake.db.orders SET TBLPROPERTIES ({least})")
    capsys.readouterr()
    forget(lake, team.table, KEYS)
    said = capsys.readouterr().out
    assert "orders: snapshots with the rows stay as long as there are of 2013" in said
    assert "orders: its newest 50 snapshots stay whatever their age, also with the rows" in said
    assert "profiles: older versions stay for ever, because the table says so" in said


def test_another_writer_is_first(
    lake: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that come while the keys' rows are deleted are deleted, too."""
    adopt(lake, team.table)
    table, real = one(lake, "orders"), type(one(lake, "orders")).write
    tried: list[str] = []

    def write(self: Any, meta: Any, statement: Callable[..., Any], conf: Any = None) -> None:
        if self.name == table.name:
            tried.append(self.name)
        if len(tried) == 2 and self.name == table.name:
            # The first is the commit without rows, and this is the one that deletes.
            lake.table(self.sql).where("dest = 'D001'").writeTo(self.sql).append()
            raise PySparkException("ValidationException: found conflicting files")
        real(self, meta, statement, conf)

    monkeypatch.setattr(type(table), "write", write)
    rows = lake.table(table.sql).where("dest IN ('D001', 'D007')").count()
    more = lake.table(table.sql).where("dest = 'D001'").count()
    assert forget(lake, team.table, KEYS)["orders"] == rows + more
    assert len(tried) == 4
    assert not lake.table(table.sql).where("dest IN ('D001', 'D007')").count()


def delete_by_equality(lake: SparkSession, table: IcebergTable, key: str) -> None:
    """Delete a key's rows as Flink does: by a file with the key, for all partitions."""
    java: Any = lake._jvm.org.apache.iceberg
    loaded = java.spark.Spark3Util.loadIcebergTable(lake._jsparkSession, table.sql)
    ids = lake.sparkContext._gateway.new_array(lake._jvm.int, 1)
    ids[0] = loaded.schema().findField("dest").fieldId()
    columns, spec = loaded.schema().select(["dest"]), java.PartitionSpec.unpartitioned()
    parquet, record = java.FileFormat.PARQUET, java.data.GenericRecord.create(columns)
    made = java.io.OutputFileFactory.builderFor(loaded, 1, 1).format(parquet).build()
    kind = record.getClass().getClassLoader().loadClass("org.apache.iceberg.data.Record")
    models, file = java.formats.FormatModelRegistry, made.newOutputFile(spec, None)
    writer = models.equalityDeleteWriteBuilder(parquet, kind, file).schema(columns).spec(spec)
    writer = writer.equalityFieldIds(ids).build()
    record.setField("dest", key)
    writer.write(record)
    writer.close()
    loaded.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    table.refresh()


def test_an_equality_delete_goes_with_the_key_in_it(
    lake: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = one(lake, "profiles")
    before = lake.table(table.sql).count()
    delete_by_equality(lake, table, "D001")
    assert lake.table(table.sql).count() == before - 1
    with pytest.raises(InputError, match="a streaming query wrote snapshot"):
        adopt(lake, team.table)
    monkeypatch.setattr("evenkeel_spark.iceberg.survey.STREAMING", 0)
    adopt(lake, team.table)
    delete_by_equality(lake, table, "D007")
    assert lake.table(table.sql).count() == before - 2
    assert "D007" in live_keys(lake, "profiles")
    forget(lake, team.table, KEYS)
    assert live_keys(lake, "profiles").isdisjoint(KEYS)
    assert lake.sql(f"SELECT 1 FROM {table.sql}.delete_files WHERE content = 2").isEmpty()
    assert lake.table(table.sql).count() == before - 2


def test_a_forget_whose_snapshot_has_expired_is_not_taken_for_none(
    lake: SparkSession, kept: World
) -> None:
    table = one(lake, "totals")
    since = table.head()
    check_none_forgotten_at(table, "totals", since, table.head())
    forget(lake, kept.table, KEYS)
    table.refresh()
    lake.createDataFrame([], lake.table(table.sql).schema).writeTo(table.sql).append()
    table.refresh()
    arguments = {"older_than": "TIMESTAMP '2100-01-01 00:00:00'", "retain_last": "1"}
    table.small_commit(lambda: table.call("expire_snapshots", arguments))
    table.refresh()
    with pytest.raises(FenceError, match="or those after it have expired: nobody can tell"):
        check_none_forgotten_at(table, "totals", since, table.head())
