"""Repair of all kinds of rows: added columns, adopted tables, NULLs, duplicates, overflows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel.registry import verdict
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.tables.declared_columns import declared
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.delta.constraint_commit import commit_constraints
from partitioning.errors import InputError
from tests.chaos.points import Fault, Stop, watched
from tests.support.placed import KEYS, Placed, copied, hashes, placed, planned
from tests.support.state_tables import drop_constraint

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """It has no constraint, and a tenth of its rows stand elsewhere."""
    home = placed(spark, tmp_path_factory.mktemp("placed"))
    drop_constraint(spark, home.path(), "evenkeel_epoch_0")
    sql(spark, home, "UPDATE {} SET channel = (channel + 1) % 4 WHERE slot < 6")
    return home


@pytest.fixture
def home(template: Placed, tmp_path: Path) -> Placed:
    return copied(template, tmp_path)


def sql(spark: SparkSession, home: Placed, statement: str) -> None:
    spark.sql(statement.replace("{}", state.sql_name(home.path())))


def totals(spark: SparkSession, home: Placed) -> dict[str, int]:
    """Visits by key, each on one row and where the epoch says."""
    function = home.table.epoch().function
    assert home.constraints(spark) == {constraints.epoch_name(function.epoch)}
    rows = home.rows(spark)
    assert [c for c, _ in rows.values()] == function.lookup(list(rows)).tolist()
    slots = spark.read.format("delta").load(home.path()).select("key", "slot").collect()
    assert all(r["slot"] == hashes([r["key"]])[0] % 64 for r in slots)
    return {k: n for k, (_, n) in rows.items()}


ALL = {f"k{i}": i for i in range(KEYS)}


def respec(home: Placed, **columns: dict[str, str]) -> Placed:
    spec = yaml.safe_load(home.spec_path.read_text())
    spec["state"]["visits"]["columns"].update(columns)
    home.spec_path.write_text(yaml.safe_dump(spec))
    return Placed(Table(load_spec(home.spec_path)), home.spec_path, home.names)


@pytest.mark.parametrize("made", [True, False], ids=["bootstrapped", "older"])
def test_no_value_of_an_added_column_is_lost(spark: SparkSession, home: Placed, made: bool) -> None:
    if made:
        kept = declared(home.table.spec.state["visits"])
        sql(spark, home, f"ALTER TABLE {{}} SET TBLPROPERTIES ('evenkeel.columns' = '{kept}')")
    sql(spark, home, "ALTER TABLE {} ADD COLUMN note STRING")
    sql(spark, home, "INSERT INTO {} SELECT (channel + 1) % 4, slot, key, 8, 'b' FROM {} "
        "WHERE key = 'k9'")  # fmt: skip
    sql(spark, home, "UPDATE {} SET note = 'a' WHERE key IN ('k9', 'k8') AND visits > 8")
    sql(spark, home, "UPDATE {} SET note = 'c' WHERE key = 'k8'")
    version = home.version(spark)
    with pytest.raises(InputError, match="has got column 'note'.*values would be lost") as error:
        repair(spark, home.table)
    assert home.version(spark) == version
    # What it says: name the column, run it again, take the column out again.
    assert "Name it under state in the spec, with a merge (such as max)" in str(error.value)
    named = respec(home, note={"merge": "max", "of": "note"})
    repair(spark, named.table)
    assert totals(spark, home) == {**ALL, "k9": 17}
    notes = spark.read.format("delta").load(home.path()).where("note IS NOT NULL").collect()
    assert {r["key"]: r["note"] for r in notes} == {"k9": "b", "k8": "c"}
    assert repair(spark, home.table) == []


def test_an_added_column_does_not_stop_a_repair_that_merges_nothing(
    spark: SparkSession, home: Placed
) -> None:
    sql(spark, home, "ALTER TABLE {} ADD COLUMN note STRING")
    sql(spark, home, "UPDATE {} SET note = key")
    repair(spark, home.table)
    assert totals(spark, home) == ALL
    assert spark.read.format("delta").load(home.path()).where("note = key").count() == KEYS


def test_a_renamed_column_is_named_before_the_first_change(
    spark: SparkSession, home: Placed
) -> None:
    sql(spark, home, "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    sql(spark, home, "ALTER TABLE {} RENAME COLUMN visits TO hits")
    version = home.version(spark)
    with pytest.raises(InputError, match="expected column 'visits', found .*hits") as error:
        repair(spark, home.table)
    assert home.version(spark) == version
    said = str(error.value)
    spark.sql(said[said.index("ALTER TABLE") : said.index("; then")])
    repair(spark, home.table)
    assert totals(spark, home) == ALL


@pytest.mark.parametrize("rows", ["many", "one"])
def test_an_adopted_table(spark: SparkSession, home: Placed, rows: str) -> None:
    spec = yaml.safe_load(home.spec_path.read_text())
    spec["state"]["visits"] = {"path": "state/visits", "rows": rows}
    home.spec_path.write_text(yaml.safe_dump(spec))
    home = Placed(Table(load_spec(home.spec_path)), home.spec_path, home.names)
    sql(spark, home, f"ALTER TABLE {{}} SET TBLPROPERTIES ('evenkeel.rows' = '{rows}')")
    sql(spark, home, "INSERT INTO {} SELECT (channel + 1) % 4, slot, key, 8 FROM {} "
        "WHERE key = 'k9'")  # fmt: skip
    sql(spark, home, "UPDATE {} SET slot = NULL, channel = NULL WHERE key = 'k8'")
    repair(spark, home.table)
    function = home.table.epoch().function
    found = spark.read.format("delta").load(home.path()).collect()
    assert sorted((r["key"], r["visits"]) for r in found) == sorted([*ALL.items(), ("k9", 8)])
    assert [r["channel"] for r in found] == function.lookup([r["key"] for r in found]).tolist()
    assert home.constraints(spark) == {"evenkeel_epoch_0"}


def test_rows_without_a_slot_or_a_channel(spark: SparkSession, home: Placed) -> None:
    sql(spark, home, "UPDATE {} SET slot = NULL WHERE key IN ('k1', 'k2')")
    sql(spark, home, "UPDATE {} SET channel = NULL WHERE key IN ('k2', 'k3')")
    sql(spark, home, "UPDATE {} SET channel = -1 WHERE key = 'k4'")
    sql(spark, home, "UPDATE {} SET channel = 77, slot = -5 WHERE key = 'k5'")
    sql(spark, home, "INSERT INTO {} SELECT NULL, NULL, key, 100 FROM {} WHERE key = 'k6'")
    repair(spark, home.table)
    assert totals(spark, home) == {**ALL, "k6": 106}


def test_more_keys_with_several_rows_than_are_listed(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenkeel_spark.migration.placement.MAX_LISTED_KEYS", 50)
    sql(spark, home, "INSERT INTO {} SELECT (channel + 1) % 4, slot, key, 8 FROM {} "
        "WHERE visits < 400")  # fmt: skip
    repair(spark, home.table)
    assert totals(spark, home) == {k: n + 8 * (n < 400) for k, n in ALL.items()}


def test_an_overflow_names_the_key_before_the_first_change(
    spark: SparkSession, home: Placed
) -> None:
    sql(spark, home, f"INSERT INTO {{}} SELECT (channel + 1) % 4, slot, key, {2**63 - 1}L FROM "
        "{} WHERE key = 'k9'")  # fmt: skip
    sql(spark, home, "INSERT INTO {} SELECT (channel + 1) % 4, slot, key, 8 FROM {} "
        "WHERE key IN ('k5', 'k6', 'k11')")  # fmt: skip
    version = home.version(spark)
    with pytest.raises(InputError, match="cannot hold a merged value") as error:
        repair(spark, home.table)
    assert home.version(spark) == version
    assert "key key = 'k9'" in str(error.value) and "UPDATE or DELETE" in str(error.value)
    sql(spark, home, f"DELETE FROM {{}} WHERE key = 'k9' AND visits = {2**63 - 1}L")
    repair(spark, home.table)
    assert totals(spark, home) == {**ALL, **{k: ALL[k] + 8 for k in ("k5", "k6", "k11")}}


def test_two_runs_that_were_both_decided_to_publish(spark: SparkSession, home: Placed) -> None:
    from evenkeel_spark.tables.delta import commits

    for run in ("r1", "r2"):
        migration = planned(spark, home, run)
        with commits.our_commit(spark, None, None, migration.meta("migrate")) as own:
            own.sql(f"UPDATE {state.sql_name(home.path())} SET visits = visits WHERE key = 'k1'")
        verdict.settle(migration.run, migration.plan.digest, 1, verdict.PUBLISH)
    repair(spark, home.table)
    assert home.table.epoch().plan_digest == home.migration("r2").plan.digest
    assert totals(spark, home) == ALL
    assert repair(spark, home.table) == []


def test_a_constraint_put_without_a_scan_stops_rows_from_then_on(
    spark: SparkSession, home: Placed
) -> None:
    path, name = home.path(), "evenkeel_epoch_0"
    rule = constraints.rule(home.table.epoch().function)
    assert constraints.put(spark, path, name, rule, set())
    assert not constraints.put(spark, path, name, rule, {name})
    with pytest.raises(Exception, match=name):
        sql(spark, home, "INSERT INTO {} VALUES (3, 0, 'x', 1)")
    assert constraints.put(spark, path, name, f"{rule} AND slot < 9", {name})
    history = spark.sql(f"DESCRIBE HISTORY {state.sql_name(path)} LIMIT 2").collect()
    assert [r["operation"] for r in history] == ["SET TBLPROPERTIES", "ADD CONSTRAINT"]
    with pytest.raises(Exception, match="and had .* when it was looked at"):
        commit_constraints(spark, path, {"evenkeel_other"}, lambda _: {})


#: What each table of the kill tests is: its spec's part and what is done to it by hand.
KINDS = ("several", "adopted", "added")


def prepared(spark: SparkSession, home: Placed, kind: str) -> Placed:
    more = ", 'b'" if kind == "added" else ""
    if kind == "adopted":
        spec = yaml.safe_load(home.spec_path.read_text())
        spec["state"]["visits"] = {"path": "state/visits", "rows": "many"}
        home.spec_path.write_text(json.dumps(spec))
        sql(spark, home, "ALTER TABLE {} SET TBLPROPERTIES ('evenkeel.rows' = 'many')")
        return Placed(Table(load_spec(home.spec_path)), home.spec_path, home.names)
    if kind == "added":
        sql(spark, home, "ALTER TABLE {} ADD COLUMN note STRING")
        home = respec(home, note={"merge": "max", "of": "note"})
    sql(spark, home, "INSERT INTO {} SELECT (channel + 1) % 4, slot, key, 8" + more
        + " FROM {} WHERE key = 'k9'")  # fmt: skip
    return home


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_each_point(spark: SparkSession, home: Placed, tmp_path: Path, kind: str) -> None:
    home = prepared(spark, home, kind)
    kept = copied(home, tmp_path / "kept")

    def stop() -> None:
        raise Stop

    seen, at = 1, 0
    while at < seen:
        # Killed at one point, then at the next of what is left, and then it ends.
        one = copied(kept, tmp_path / f"at{at}")
        fault = Fault(at, stop)
        with watched(fault), pytest.raises(Stop):
            repair(spark, one.table)
        after = Fault()
        with watched(after):
            repair(spark, one.table)
        seen = max(seen, at + len(after.seen))
        if kind == "adopted":
            assert one.constraints(spark) == {"evenkeel_epoch_0"} and len(one.rows(spark)) == KEYS
        else:
            assert totals(spark, one) == {**ALL, "k9": 17}
        at += 1
        if not after.seen:
            break
    assert at >= 6
    assert repair(spark, one.table) == []
