"""Forgetting keys: no row, no live file and no line of the history has them; other rows stay."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from evenkeel.registry.files.records import Membership
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.forgetting.keys import WantedKeys
from evenkeel_spark.jobs import maintain as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.tables.delta import state
from partitioning.errors import FenceError, InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from tests.conftest import SPEC, World
from tests.support.placed import HEAVY, crashing_at, placed, planned

pytestmark = pytest.mark.spark

KEYS = ["D000", "D007"]


def rows(spark: SparkSession, world: World) -> dict[str, tuple[object, ...]]:
    path = world.table.spec.state["totals"].path
    return {r["dest"]: tuple(r) for r in spark.read.format("delta").load(path).collect()}


def physical_keys(spark: SparkSession, world: World) -> set[str]:
    """Return the keys of all rows in live files, with those that deletion vectors hide."""
    path = world.table.spec.state["totals"].path
    files = [Path(path) / r.path for r in state.files(spark, path).collect()]
    return {k for f in files for k in pq.ParquetFile(f).read(columns=["dest"])["dest"].to_pylist()}


def test_the_rows_go_with_the_files_that_hid_them(
    spark: SparkSession, ready: World, capsys: pytest.CaptureFixture[str]
) -> None:
    table, path = ready.table, ready.table.spec.state["totals"].path
    learned, _ = learn(spark, table, date(2013, 1, 8))
    apply_window(spark, table, date(2013, 1, 8), date(2013, 1, 9))
    # One of the keys is deleted by hand: a deletion vector hides its row in a live file.
    spark.sql(f"DELETE FROM delta.`{path}` WHERE dest = 'D007'")
    assert "D007" in physical_keys(spark, ready) and "D007" not in rows(spark, ready)
    before, version = rows(spark, ready), state.table_version(spark, path)
    names = {n for s in Path(table.registry.url).rglob("sketches/*/*.npz") for n in named(s)}
    assert set(KEYS) <= names

    assert forget(spark, table, KEYS, dry_run=True) == {"totals": 1}
    assert state.table_version(spark, path) == version and rows(spark, ready) == before
    capsys.readouterr()
    asked = [f"--forget={key}" for key in KEYS]
    assert job.main(["--spec", ready.spec_path, *asked]) == 0
    said = capsys.readouterr().out
    assert "totals: 1 rows deleted" in said and "sketches" in said

    assert rows(spark, ready) == {k: v for k, v in before.items() if k not in KEYS}
    assert physical_keys(spark, ready).isdisjoint(KEYS)
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").where(f"version > {version}")
    commits = [str(row) for row in history.collect()]
    assert len(commits) >= 2 and not any(key in line for key in KEYS for line in commits)
    names = {n for s in Path(table.registry.url).rglob("sketches/*/*.npz") for n in named(s)}
    assert names and names.isdisjoint(KEYS)
    assert forget(spark, table, KEYS) == {"totals": 0}
    # The next window folds as always.
    apply_window(spark, table, date(2013, 1, 9), date(2013, 1, 10))
    # Days whose events are gone by now still count.
    ready.write_events(ready.events[ready.events["at"] >= "2013-01-04"])
    left, _ = learn(spark, table, date(2013, 1, 8))
    np.testing.assert_array_equal(left.load, learned.load)


def named(sketch: Path) -> list[str]:
    from evenkeel.registry.store import Store
    from partitioning.workload.profile import Sketch

    return list(Sketch.from_bytes(Store(str(sketch.parent)).read(sketch.name)).heavy_names)


def test_composite_keys_with_nulls_and_separators_go(
    spark: SparkSession, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    people = [("a@b", None), ("a@b", "null"), ("a | b", "DE"), ("a", "b,DE"), ("Smith, John", "DE")]
    events = world.events.iloc[:500]
    who = [people[i % 5] for i in range(len(events))]
    events = events.assign(dest=[p[0] for p in who], land=[p[1] for p in who])
    table = world.write_events(events).respec(key=["dest", "land"], null_keys="keep").table
    bootstrap(spark, table, date(2013, 1, 15))
    learn(spark, table, date(2013, 1, 4))

    def there() -> set[tuple[str, str | None]]:
        found = spark.read.format("delta").load(table.spec.state["totals"].path)
        return {(r["dest"], r["land"]) for r in found.collect()}

    assert there() == set(people)
    for unsure in ("a@b | null", "a | b,DE"):
        with pytest.raises(InputError, match="could mean"):
            forget(spark, table, [unsure])
    assert forget(spark, table, ['["a@b", null]']) == {"totals": 1}
    assert forget(spark, table, ["Smith, John | DE", '["a | b", "DE"]']) == {"totals": 2}
    assert there() == {("a@b", "null"), ("a", "b,DE")}
    files = list(Path(table.registry.url).rglob("sketches/*/*.npz"))
    assert {n for s in files for n in named(s)} == {'["a@b", "null"]', '["a", "b,DE"]'}
    capsys.readouterr()
    assert forget(spark, table, ["nobody,DE"]) == {"totals": 0}
    assert "there was nothing of these keys" in capsys.readouterr().out


def test_keys_are_sought_as_plans_write_them_however_they_are_typed(spark: SparkSession) -> None:
    """An error, or a sentence of the watch, has a key's text."""
    key, channels = (KeyColumn("who", "string"), KeyColumn("tag", "binary")), numbered_channels(2)
    function = PartitioningFunction(key, channels, np.arange(4) % 2, strategy="uniform")
    wanted = WantedKeys.of(spark, ['["a@b",null]', "c | DEADBEEF"], function)
    assert {'["a@b", null]', "c | deadbeef"} <= wanted.texts


def test_maintain_has_no_dry_run(
    spark: SparkSession, ready: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job.main(["--spec", ready.spec_path, "--dry-run"]) == 2
    assert "--dry-run: goes with --forget alone" in capsys.readouterr().err


def test_while_a_run_goes_back_its_constraint_may_refuse(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = placed(spark, tmp_path)
    migration = planned(spark, home)
    migrate(spark, migration)
    with crashing_at("closed", monkeypatch):
        roll_back(spark, migration)
    before = home.rows(spark)
    # It has moved with others, which are not back yet.
    moved = migration.before.lookup(list(before)) != migration.after.lookup(list(before))
    key = next(k for k, m in zip(before, moved.tolist(), strict=True) if m and k != HEAVY)
    with pytest.raises(FenceError, match="rows move just now. Let the run end, then forget again"):
        forget(spark, home.table, [key])
    assert home.rows(spark) == before
    roll_back(spark, migration)
    assert forget(spark, home.table, [key]) == {"visits": 1}


def test_while_state_moves_only_keys_that_no_plan_names_can_be_forgotten(
    spark: SparkSession, tmp_path: Path
) -> None:
    home = placed(spark, tmp_path)
    migration = planned(spark, home)
    migrate(spark, migration)
    before = home.rows(spark)
    with pytest.raises(FenceError, match="names a key to forget, and it has begun to move state"):
        forget(spark, home.table, ["k3", HEAVY])
    assert home.rows(spark) == before
    # One key has moved with its slot, the other stands where it stood.
    moved = migration.before.lookup(list(before)) != migration.after.lookup(list(before))
    went = next(k for k, m in zip(before, moved.tolist(), strict=True) if m and k != HEAVY)
    stayed = next(k for k, m in zip(before, moved.tolist(), strict=True) if not m)
    assert forget(spark, home.table, [went, stayed]) == {"visits": 2}
    verify(spark, migration)
    publish(spark, migration)
    assert home.rows(spark) == {k: v for k, v in before.items() if k not in (went, stayed)}


def test_a_table_that_is_half_left_is_let_go_first(spark: SparkSession, ready: World) -> None:
    """It may come back, with rows of the key."""
    evolve(spark, ready.with_seen().table, Intent.of())
    path, function = ready.table.spec.state["seen"].path, ready.table.epoch().function
    ready.table.registry.files.member("seen").write(
        Membership(epoch=0, function=function.digest, path=path, left=True, guarded=True)
    )
    ready.respec(state=SPEC["state"])
    before = rows(spark, ready)
    with pytest.raises(FenceError, match="'seen' has left, and may still come back.*evolve trips"):
        forget(spark, ready.table, ["D001"])
    assert rows(spark, ready) == before
    evolve(spark, ready.table, Intent.of())
    assert forget(spark, ready.table, ["D001"]) == {"totals": 1}
