"""Prices of rows of state, some of which are far wider than others."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.events.state_weights import weigh
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.tables.delta import commits, row_size, state
from evenkeel_spark.tables.delta.row_size import size_rows
from evenkeel_spark.tables.rows.row_size import WIDTH
from partitioning.errors import FenceError
from tests.support.placed import (
    HEAVY,
    KEY,
    MOVED,
    SLOTS,
    Placed,
    crashing_at,
    hashes,
    one_row_a_key,
    placed,
    planned,
    state_rows,
)

pytestmark = pytest.mark.spark

#: Members of a set in a slot that moves, beside one elsewhere.
MEMBERS = 1000


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """State with a set a key: large ones in a slot that `planned` moves, and of its heavy key."""
    made = placed(spark, tmp_path_factory.mktemp("wide"))
    spec = yaml.safe_load(made.spec_path.read_text())
    spec["state"]["visits"]["columns"]["ids"] = {"merge": "set", "of": "id"}
    made.spec_path.write_text(yaml.safe_dump(spec, sort_keys=False))
    rows, wide = spark.read.format("delta").load(made.path()), F.col("key") == HEAVY
    count = F.when(wide | (F.col(state.SLOT) == MOVED[0]), MEMBERS).otherwise(1)
    ids = F.transform(F.sequence(F.lit(1), count), lambda i: F.xxhash64(F.col("key"), i))
    # More than one file a channel, as in a table that has been at work.
    rows.withColumn("ids", ids).repartition(3).write.format("delta").mode("overwrite").option(
        "mergeSchema", True
    ).save(made.path())
    return Placed(Table(load_spec(made.spec_path)), made.spec_path, made.names)


@pytest.fixture(scope="module")
def apart(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """State in a file a slot; in an eighth of them, the largest ones, every row has a large set,
    and no other has any."""
    made = placed(spark, tmp_path_factory.mktemp("apart"))
    spec = yaml.safe_load(made.spec_path.read_text())
    spec["state"]["visits"]["columns"]["ids"] = {"merge": "set", "of": "id"}
    made.spec_path.write_text(yaml.safe_dump(spec, sort_keys=False))
    function, wide = made.table.epoch().function, F.col(state.SLOT) % 8 == 7
    rows = state_rows(spark, function, {f"k{i}": i for i in range(SLOTS * 400)})
    ids = F.transform(F.sequence(F.lit(1), F.lit(100)), lambda i: F.xxhash64(F.col("key"), i))
    rows = rows.withColumn("ids", F.when(wide, ids)).repartitionById(SLOTS, state.SLOT)
    rows.write.format("delta").mode("overwrite").option("mergeSchema", True).save(made.path())
    return Placed(Table(load_spec(made.spec_path)), made.spec_path, made.names)


def priced(spark: SparkSession, home: Placed) -> tuple[float, float]:
    """What a plan says that wide rows, and the others, take."""
    weight = weigh(spark, home.table.spec, home.table.epoch().function, hashes([]))
    wide = np.arange(SLOTS) % 8 == 7
    return float(weight.bytes[wide].sum()), float(weight.bytes[~wide].sum())


@pytest.mark.parametrize("most", [row_size.FILES, 16])
def test_files_of_wide_rows_say_nothing_of_narrow_ones(
    spark: SparkSession, apart: Placed, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(row_size, "FILES", most)
    files = state.files(spark, apart.path()).orderBy(F.desc("size")).collect()
    assert len(files) == SLOTS
    wide = float(sum(f["size"] for f in files[: SLOTS // 8]))
    narrow = float(sum(f["size"] for f in files)) - wide
    assert wide > 5 * narrow
    assert priced(spark, apart) == pytest.approx((wide, narrow), rel=0.1)


def test_a_column_that_was_renamed_is_priced_as_before(
    spark: SparkSession, apart: Placed, tmp_path: Path
) -> None:
    spec = yaml.safe_load(apart.spec_path.read_text())
    visits = spec["state"]["visits"]
    visits["path"] = str(shutil.copytree(apart.path(), tmp_path / "visits"))
    visits["columns"]["members"] = visits["columns"].pop("ids")
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    name = state.sql_name(visits["path"])
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN ids TO members")
    renamed = load_spec(tmp_path / "t.yaml").state["visits"]
    assert state.read_newest(spark, renamed.path)[0].columns[-1] == "members"
    assert size_rows(spark, renamed) == size_rows(spark, apart.table.spec.state["visits"])
    assert size_rows(spark, renamed).byte > 0


def test_files_without_statistics_make_no_row_dearer(spark: SparkSession, tmp_path: Path) -> None:
    home = placed(spark, tmp_path)
    table, function = home.table, home.table.epoch().function

    def each() -> float:
        weight = weigh(spark, table.spec, function, hashes([]))
        return float(weight.bytes.sum() / weight.rows.sum())

    before, other = each(), spark.newSession()
    other.conf.set("spark.databricks.delta.stats.collect", "false")
    rows = other.read.format("delta").load(home.path())
    for mode in ("append", "overwrite"):
        rows.coalesce(1).write.format("delta").mode(mode).save(home.path())
        known = state.files(spark, home.path()).where("rows IS NOT NULL").count()
        assert (known > 0) == (mode == "append")
        assert 0 < each() < 1.3 * before


@pytest.mark.slow
def test_hidden_rows_do_not_change_the_prices_of_others(spark: SparkSession, apart: Placed) -> None:
    wide, narrow = priced(spark, apart)
    for _ in range(3):
        spark.sql(
            f"UPDATE {state.sql_name(apart.path())} SET visits = visits + 1 "
            f"WHERE {state.SLOT} % 8 < 7 AND visits % 2 = 0"
        )
    again = priced(spark, apart)
    assert again[0] == pytest.approx(wide, rel=0.05)
    assert again[1] == pytest.approx(narrow, rel=0.25)


def test_a_plan_prices_rows_by_how_wide_they_are(spark: SparkSession, home: Placed) -> None:
    spec, function = home.table.spec, home.table.epoch().function
    weight = weigh(spark, spec, function, hashes([HEAVY]))
    mean = weight.bytes.sum() / weight.rows.sum()
    each = weight.bytes / weight.rows
    assert each[MOVED[0]] > 20 * mean > 40 * each[1]
    assert weight.key_bytes[0] == pytest.approx(each[MOVED[0]], rel=0.02)
    # The same as what is read before a batch.
    rows = spark.read.format("delta").load(home.path()).where(f"{state.SLOT} = {MOVED[0]}")
    width = F.octet_length(F.col("ids").cast("string")).alias(WIDTH)
    priced = size_rows(spark, spec.state["visits"]).times(rows.select(width))
    assert priced == pytest.approx(weight.bytes[MOVED[0]])


@pytest.mark.slow
def test_a_budget_holds_where_what_moves_is_wide(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch, before = home.table.epoch(), home.version(spark)
    weight = weigh(spark, home.table.spec, epoch.function, hashes([HEAVY]))
    size = float(weight.bytes[list(MOVED)].sum() + weight.key_bytes.sum())
    rows = float(weight.rows[list(MOVED)].sum() + 1)
    mean = rows * weight.bytes.sum() / weight.rows.sum()
    assert size > 4 * mean
    profile = weight.onto(one_row_a_key(spark, home).sketch(), KEY)
    tight = planned(spark, home, budget=size / 2)
    with pytest.raises(FenceError, match="bytes are to move by now"):
        migrate(spark, tight)
    assert home.version(spark) == before
    migration = planned(spark, home, "r2", profile=profile, budget=size * 1.05)
    # Gone on with after a batch of wide rows: the next is weighed as before.
    with crashing_at("batch moved", monkeypatch):
        migrate(spark, migration)
    record = migrate(spark, migration).tables["visits"]
    assert migration.plan.bytes == pytest.approx(size)
    assert record.rows == rows and len(record.commits) > 1
    assert record.bytes == pytest.approx(size, rel=0.1)
    written = sum(c.bytes for c in commits.history_since(spark, home.path(), before))
    assert written == record.bytes <= size * 1.05
