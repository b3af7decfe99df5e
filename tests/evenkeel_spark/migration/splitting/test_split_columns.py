"""Columns of split keys: those without a merge, renamed, added or too full, half-way, too."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from evenkeel.registry.state_view import COLUMNS_PROPERTY
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.migration import table_migration
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.row_moves import run_move
from evenkeel_spark.migration.split_state import WRITTEN, PartialMerge
from evenkeel_spark.migration.table_migration import TableMigration
from evenkeel_spark.migration.throttle import Throttle
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.windows import window_merge
from partitioning.errors import DamagedError, GateError, InputError
from partitioning.function.hashing import KeyColumn, key_hash
from tests.support.placed import (
    HEAVY,
    Placed,
    copied,
    crashing_at,
    next_function,
    planned,
)
from tests.support.worlds.split_state import (
    HAD,
    START,
    others,
    parts,
    split,
    whole,
    write,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Look = Callable[[], None]


def test_a_column_without_a_merge_is_refused_before_anything_moves(
    spark: SparkSession, home: Placed
) -> None:
    migration = planned(spark, home, "whole", whole(home.table.epoch().function, 2))
    spark.sql(f"ALTER TABLE {state.sql_name(home.path())} ADD COLUMN note STRING")
    migration = planned(spark, home, "whole", whole(home.table.epoch().function, 2))
    with pytest.raises(InputError, match="has column 'note', of which the spec says no merge"):
        migrate(spark, migration)
    assert home.constraints(spark) == {"evenkeel_epoch_1"}


def broken_off(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch, owners: dict[int, float]
) -> Migration:
    """A migration that was killed as it had just begun."""
    migration = planned(spark, home, "r", split(home.table.epoch().function, owners))
    with crashing_at("unsealed", monkeypatch):
        migrate(spark, migration)
    return migration


@pytest.mark.parametrize(
    ("step", "value"), [("migrate", "kept"), ("window", "kept"), ("migrate", None)]
)
def test_values_that_a_merge_did_not_know_are_told(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch, step: str, value: Any
) -> None:
    """They come with a row, between the last look at the columns and the MERGE of partial rows."""
    spec, function = home.table.spec, home.table.epoch().function
    rows = spark.read.format("delta").load(home.path()).where(f"key = '{HEAVY}'").limit(1)

    def with_note() -> None:
        wider = rows.withColumn("note", lit(value).cast("string")).write.option("mergeSchema", True)
        wider.format("delta").mode("append").save(home.path())

    def interrupted(own: SparkSession, statement: str, path: str, where: str, check: Look) -> Any:
        def look() -> None:
            check()
            with_note()

        return run_move(own, statement, path, where, look)

    if step == "window":
        rows.write.format("delta").mode("append").save(home.path())
        monkeypatch.setattr(window_merge, "run_move", interrupted)
        told = partial(window_merge.gather, spark, spec, "visits", function)
    else:
        migration = planned(spark, home, "whole", whole(function, 2))
        monkeypatch.setattr(table_migration, "run_move", interrupted)
        told = partial(migrate, spark, migration)
    if value is None:
        # Fewer rows have none of it, and nothing is lost.
        told()
        return
    with pytest.raises(DamagedError, match="column 'note' came in as version .* lost") as found:
        told()
    version = int(re.findall(r"AS OF (\d+)", str(found.value))[0])
    before, after = (state.read_version(spark, home.path(), v) for v in (version, version + 1))
    assert [rows.where("note = 'kept'").count() for rows in (before, after)] == [1, 0]


def test_columns_of_a_key_have_any_name(spark: SparkSession, home: Placed, tmp_path: Path) -> None:
    """Here they have those that the MERGE of partial rows once had beside them."""
    names, part = ["_at", "_to", "_stays", "_anew"], home.table.spec.state["visits"]
    path = str(tmp_path / "named")
    spec = home.table.spec.model_copy(
        update={"key": names, "state": {"visits": part.model_copy(update={"path": path})}}
    )
    key = tuple(KeyColumn(name, "string") for name in names)
    shared = key_hash([["a"]] * 4, ["string"] * 4)
    function = replace(home.table.epoch().function.unsplit, key=key)
    (channel,) = function.lookup(*[["a"]] * 4).tolist()
    slot, columns = int(shared[0] % 64), ", ".join(f"'a' AS {name}" for name in names)
    other = (channel + 1) % 4
    spark.sql(
        f"SELECT explode(array({channel}, {other})) AS channel, {slot} AS slot, {columns}, "
        "5L AS visits"
    ).write.format("delta").save(path)
    merge = PartialMerge(spec, "visits", function, shared)
    assert spark.sql(merge.rows_to_move()).where(WRITTEN).count() == 1
    spark.sql(merge.merge())
    rows = spark.read.format("delta").load(path).collect()
    assert [(r["channel"], r["_to"], r["visits"]) for r in rows] == [(channel, "a", 10)]


def test_a_column_renamed_half_way_is_named_and_renamed_back(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = broken_off(spark, home, monkeypatch, {START: 1.0, 2: 1.0})
    path = state.sql_name(home.path())
    spark.sql(f"ALTER TABLE {path} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {path} RENAME COLUMN visits TO hits")
    with pytest.raises(InputError, match="expected column 'visits', found .*hits") as error:
        roll_back(spark, migration)
    # What to do is told as SQL.
    said = str(error.value)
    spark.sql(said[said.index("ALTER TABLE") : said.index("; then")])
    roll_back(spark, migration)
    assert home.constraints(spark) == {"evenkeel_epoch_1"}
    assert parts(spark, home) == HAD


def test_no_value_of_a_column_added_half_way_is_lost(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = broken_off(spark, home, monkeypatch, {**dict.fromkeys(HAD, 1.0), 2: 4.0})
    path = state.sql_name(home.path())
    spark.sql(f"ALTER TABLE {path} ADD COLUMN note STRING")
    write(spark, home, {2: 5})
    spark.sql(f"UPDATE {path} SET note = 'kept' WHERE key = '{HEAVY}' AND channel = 2")
    before = home.version(spark)
    with pytest.raises(InputError, match="has got column 'note'.*values would be lost"):
        roll_back(spark, migration)
    assert home.version(spark) == before
    plain = home.spec_path.read_text()
    spec = yaml.safe_load(plain)
    spec["state"]["visits"]["columns"]["note"] = {"merge": "max", "of": "note"}
    home.spec_path.write_text(yaml.safe_dump(spec))
    again = Placed(Table(load_spec(home.spec_path)), home.spec_path, home.names)
    roll_back(spark, again.migration("r"))
    home.spec_path.write_text(plain)
    assert home.constraints(spark) == {"evenkeel_epoch_1"}
    assert parts(spark, home) == {**HAD, START: HAD[START] + 5}
    rows = spark.sql(f"SELECT note FROM {path} WHERE key = '{HEAVY}' AND channel = {START}")
    assert rows.first()[0] == "kept"


def test_no_value_of_a_column_added_while_rows_are_weighed_is_lost(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = planned(spark, home, "whole", whole(home.table.epoch().function, 2))
    path, weigh = state.sql_name(home.path()), Throttle.admit
    versions: list[int] = []

    def meanwhile(self: Throttle, rows: DataFrame, name: str) -> None:
        weigh(self, rows, name)
        spark.sql(f"ALTER TABLE {path} ADD COLUMN note STRING")
        spark.sql(f"UPDATE {path} SET note = 'kept' WHERE key = '{HEAVY}'")
        versions.append(home.version(spark))

    monkeypatch.setattr(Throttle, "admit", meanwhile)
    with pytest.raises(InputError, match="has got column 'note'.*values would be lost"):
        migrate(spark, migration)
    assert [home.version(spark)] == versions
    assert parts(spark, home) == HAD


def test_partial_rows_are_not_added_up_by_another_merge_than_they_were_made_by(
    spark: SparkSession, home: Placed
) -> None:
    """60 by sum and 40 by sum are 100, and by max they would be 60."""
    path = state.sql_name(home.path())
    # Spark hides the property from SQL where its text has a word such as this one.
    made = '{"hourly": "sum", "visits": "sum"}'
    spark.sql(f"ALTER TABLE {path} SET TBLPROPERTIES ('{COLUMNS_PROPERTY}' = '{made}')")
    planned(spark, home, "whole", whole(home.table.epoch().function, 2))
    version, by_max = home.version(spark), merged_by(home, "max")
    with pytest.raises(InputError, match="made by merge sum, the spec says max"):
        migrate(spark, by_max.migration("whole"))
    with pytest.raises(InputError, match="made by merge sum, the spec says max"):
        by_max.table.state("visits", spark=spark)
    assert home.version(spark) == version
    migrate(spark, merged_by(home, "sum").migration("whole"))
    assert parts(spark, home) == {2: sum(HAD.values())}


def merged_by(home: Placed, merge: str) -> Placed:
    """The same table after the spec's merge was changed."""
    spec = yaml.safe_load(home.spec_path.read_text())
    spec["state"]["visits"]["columns"]["visits"] = {"merge": merge, "of": "id"}
    home.spec_path.write_text(yaml.safe_dump(spec))
    return Placed(Table(load_spec(home.spec_path)), home.spec_path, home.names)


def test_a_merge_that_the_columns_type_cannot_do_is_refused(
    spark: SparkSession, home: Placed
) -> None:
    again = merged_by(home, "hll")
    assert again.table.spec.state["visits"].columns["visits"].merge == "hll"
    broken = copied(home, home.spec_path.parent / "again")
    migration = planned(spark, broken, "whole", whole(broken.table.epoch().function, 2))
    with pytest.raises(InputError, match="column 'visits' is bigint, which hll does not merge"):
        migrate(spark, migration)
    shutil.rmtree(broken.spec_path.parent)


@pytest.mark.slow
def test_a_value_that_changes_as_partials_join_fails_the_gate(
    spark: SparkSession, home: Placed
) -> None:
    migration = planned(spark, home, "whole", whole(home.table.epoch().function, 2))
    migrate(spark, migration)
    meta = migration.meta("migrate")
    update = f"UPDATE {state.sql_name(home.path())} SET visits = visits + 1 WHERE key = '{HEAVY}'"
    with commits.our_commit(spark, "test", 1, meta) as own:
        own.sql(update)
    with pytest.raises(GateError, match="No split key's state changes when its partials"):
        verify(spark, migration)
    assert home.constraints(spark) == {migration.moving}


def test_a_check_of_the_teams_own_that_refuses_a_merged_row_is_named(
    spark: SparkSession, home: Placed
) -> None:
    path, total = state.sql_name(home.path()), sum(HAD.values())
    few = f"key <> '{HEAVY}' OR visits < {total}"
    spark.sql(f"ALTER TABLE {path} ADD CONSTRAINT few CHECK ({few})")
    migration = planned(spark, home, "whole", whole(home.table.epoch().function, 2))
    with pytest.raises(InputError, match="own constraint few refuses a row"):
        migrate(spark, migration)
    roll_back(spark, migration)
    assert home.constraints(spark) == {"evenkeel_epoch_1", "few"}
    assert parts(spark, home) == HAD


@pytest.mark.parametrize("late", [False, True], ids=["before", "half-way"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_an_overflow_is_named_and_loses_nothing(
    spark: SparkSession, home: Placed, ansi: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partial holds its visits, and the whole does not."""
    if late:
        # A writer comes once migrate has looked.
        monkeypatch.setattr(TableMigration, "check_merges", lambda self: None)
    caller = spark.newSession()
    caller.conf.set("spark.sql.ansi.enabled", ansi)
    write(spark, home, {START: 2**62, (START + 1) % 4: 2**62})
    had, rest = parts(spark, home), others(spark, home)
    assert had == {**HAD, START: HAD[START] + 2**62, (START + 1) % 4: 20 + 2**62}
    function = whole(next_function(home.table.epoch().function, heavy=None), START)
    migration = planned(spark, home, "joined", function)
    with pytest.raises(InputError, match="visits.* cannot hold a merged value .*is more than"):
        migrate(caller, migration)
    if late:
        # Whole keys had moved by then.
        assert home.constraints(spark) == {migration.moving}
        monkeypatch.undo()
        roll_back(caller, migration)
    assert home.constraints(spark) == {migration.old}
    assert parts(spark, home) == had and others(spark, home) == rest
