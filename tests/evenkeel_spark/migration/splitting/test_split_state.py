"""State of split keys: partials that stay, join, and are conserved, whatever comes between."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.rows.checksums import changed_values, duplicate_keys
from evenkeel_spark.tables.spark_errors import CONFLICTS
from partitioning.errors import FenceError, InputError
from partitioning.function.sql import channel_sql
from tests.support.placed import (
    HEAVY,
    KEYS,
    Placed,
    crashing_at,
    meanwhile,
    planned,
)
from tests.support.raw_json import read_json, write_json
from tests.support.state_tables import drop_constraint
from tests.support.worlds.split_state import (
    HAD,
    HASH,
    START,
    finish,
    gated,
    others,
    parts,
    split,
    whole,
    write,
)

pytestmark = pytest.mark.spark


def test_the_table_admits_partials_on_owners_alone(spark: SparkSession, home: Placed) -> None:
    assert parts(spark, home) == HAD
    for nowhere in ((START + 3) % 4, -1, constraints.NO_CHANNEL):
        with pytest.raises(Exception, match="evenkeel_epoch_1"):
            write(spark, home, {nowhere: 1})
    # What an older Evenkeel wrote, which admitted -1, is no other epoch's.
    path, function = home.table.spec.state["visits"].path, home.table.epoch().function
    sql = constraints.rule(function)
    older = sql.replace("`channel`, NULL)", "`channel`, -1)")
    assert older != sql
    drop_constraint(spark, path, "evenkeel_epoch_1")
    constraints.add(spark, path, "evenkeel_epoch_1", older)
    constraints.check_admits(spark, home.table.spec, function)


def test_repair_joins_partials_that_stand_on_no_owner(spark: SparkSession, home: Placed) -> None:
    """And a whole key's that stand on two channels, of which no function that is known says so."""
    kept, name = others(spark, home), state.sql_name(home.path())
    drop_constraint(spark, home.path(), "evenkeel_epoch_1")
    spark.sql(
        f"UPDATE {name} SET channel = {(START + 3) % 4} WHERE key = '{HEAVY}' AND visits = 20"
    )
    spark.sql(
        f"INSERT INTO {name} SELECT (channel + 1) % 4, slot, key, 8 FROM {name} WHERE key = 'k9'"
    )
    repair(spark, home.table)
    assert home.constraints(spark) == {"evenkeel_epoch_1"}
    assert parts(spark, home) == {START: 127, (START + 2) % 4: 3}
    assert others(spark, home) == kept - Counter({("k9", 9): 1}) + Counter({("k9", 17): 1})


@pytest.mark.slow
def test_an_owner_that_leaves_joins_the_home_and_goes_on_being_counted(
    spark: SparkSession, home: Placed
) -> None:
    kept = others(spark, home)
    leaner = split(home.table.epoch().function, {START: 1.0, (START + 1) % 4: 3.0})
    migration = gated(planned(spark, home, "leaner", leaner))
    assert leaner.split.homes.tolist() == [0]
    # Two shares change; of the state, only the partial of the channel that goes moves.
    assert sum(m.rows for m in migration.plan.moves) == pytest.approx(1 / 3)
    record = migrate(spark, migration).tables["visits"]
    assert record.rows == 1 and record.bytes > 0 and len(record.commits) == 1
    assert parts(spark, home) == {3: 107, 0: 23}
    finish(spark, home, migration)
    measured = read_json(migration.run, "gate_tables.json")
    assert measured["success"] and measured["warnings"] == 0
    assert "No split key's state changes when its partials are merged" in json.dumps(measured)
    assert others(spark, home) == kept


@pytest.mark.slow
def test_whole_again_and_split_anew(spark: SparkSession, home: Placed) -> None:
    migration = gated(planned(spark, home, "whole", whole(home.table.epoch().function, 2)))
    migrate(spark, migration)
    finish(spark, home, migration)
    assert parts(spark, home) == {2: 130}
    # From a channel that is none of its owners: its one row moves to its home.
    again = split(home.table.epoch().function, {0: 1.0, 1: 2.0})
    migration = gated(planned(spark, home, "again", again))
    migrate(spark, migration)
    finish(spark, home, migration)
    assert parts(spark, home) == {1: 130}


def test_slots_and_heavy_keys_move_beside_split_ones(spark: SparkSession, home: Placed) -> None:
    before = home.table.epoch().function
    slots = before.slots.copy()
    slots[[0, 1, 7, 23]] = (slots[[0, 1, 7, 23]] + 1) % 4
    slots[HASH % 64] = (slots[HASH % 64] + 1) % 4
    kept = others(spark, home)
    migration = gated(planned(spark, home, "both", replace(whole(before, 0), slots=slots)))
    record = migrate(spark, migration).tables["visits"]
    assert len(record.commits) == 2
    finish(spark, home, migration)
    assert parts(spark, home) == {0: 130} and others(spark, home) == kept
    rows = home.rows(spark)
    assert [c for c, _ in rows.values()] == migration.after.lookup(list(rows)).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("step", ["unsealed", "moved", "sealing"])
def test_a_crash_anywhere_is_made_good_forward_and_back(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    kept = others(spark, home)
    migration = planned(spark, home, "whole", whole(home.table.epoch().function, 2))

    def forward() -> None:
        migrate(spark, migration)
        verify(spark, migration)

    with crashing_at(step, monkeypatch):
        forward()
    roll_back(spark, migration)
    # What has joined stays joined: a partial on an owner, as the epoch before has it.
    assert home.constraints(spark) == {"evenkeel_epoch_1"}
    assert sum(parts(spark, home).values()) == 130
    assert set(parts(spark, home)) <= set(HAD)
    with crashing_at(step, monkeypatch):
        forward()
    forward()
    publish(spark, migration)
    assert parts(spark, home) == {2: 130} and others(spark, home) == kept


@pytest.mark.slow
def test_partials_that_come_late_are_joined_before_sealing(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = planned(spark, home, "whole", whole(home.table.epoch().function, 2))
    late = lambda: write(spark, home, {START: 1000, (START + 1) % 4: 1})  # noqa: E731
    with meanwhile("moved", late, monkeypatch):
        migrate(spark, migration)
    late()
    verify(spark, migration)
    assert parts(spark, home) == {2: 130 + 2 * 1001}


@pytest.mark.slow
def test_nothing_that_others_write_while_partials_join_is_lost(
    spark: SparkSession, home: Placed
) -> None:
    """They meet at every point of the MERGE: what Delta lets both of them commit must count."""
    migration = planned(spark, home, "whole", whole(home.table.epoch().function, 2))
    other, done, added = spark.newSession(), threading.Event(), []

    def writer() -> None:
        for pause in (0.0, 0.4, 1.2, 0.1, 2.0):
            if done.wait(pause):
                return
            with contextlib.suppress(*CONFLICTS):
                update = f"UPDATE {state.sql_name(home.path())} SET visits = visits + 1 "
                added.append(other.sql(f"{update} WHERE key = '{HEAVY}'").first()[0])

    thread = threading.Thread(target=writer)
    thread.start()
    try:
        for _ in range(10):
            with contextlib.suppress(FenceError):
                migrate(spark, migration)
                break
    finally:
        done.set()
        thread.join()
    migrate(spark, migration)
    verify(spark, migration)
    assert added and parts(spark, home) == {2: 130 + sum(added)}


def append_partials(spark: SparkSession, home: Placed, visits: dict[int, int]) -> None:
    """One more row of HEAVY on each of these channels, as a writer leaves it that appends."""
    path = state.sql_name(home.path())
    for channel, count in visits.items():
        spark.sql(
            f"INSERT INTO {path} (channel, slot, key, visits) "
            f"VALUES ({channel}, {HASH % 64}, '{HEAVY}', {count})"
        )


@pytest.mark.parametrize("back", [False, True], ids=["forward", "back"])
@pytest.mark.parametrize(
    ("on", "owners"),
    [
        ((START, 0), {2: 1.0}),
        ((0,), {START: 1.0, 0: 3.0}),
        pytest.param((0, 1, START), {START: 1.0, 0: 3.0}, marks=pytest.mark.slow),
        pytest.param((START,), {START: 1.0, 0: 2.0, 1: 3.0}, marks=pytest.mark.slow),
    ],
    ids=["leaving", "home", "everywhere", "staying"],
)
def test_appended_partials_are_counted_once(
    spark: SparkSession, home: Placed, on: tuple[int, ...], owners: dict[int, float], back: bool
) -> None:
    """The constraint admits several rows of a split key on one owner; readers add them up."""
    kept = others(spark, home)
    append_partials(spark, home, dict.fromkeys(on, 1000))
    function = home.table.epoch().function
    after = split(function, owners) if len(owners) > 1 else whole(function, *owners)
    migration = planned(spark, home, "r", after)
    migrate(spark, migration)
    if back:
        roll_back(spark, migration)
        assert home.constraints(spark) == {"evenkeel_epoch_1"}
    else:
        finish(spark, home, migration)
    found = parts(spark, home)
    assert sum(found.values()) == 130 + 1000 * len(on) and others(spark, home) == kept
    assert set(found) <= (set(HAD) if back else set(owners))


@pytest.mark.slow
def test_in_batches_the_partials_join_at_the_end(spark: SparkSession, home: Placed) -> None:
    before = home.table.epoch().function
    slots = before.slots.copy()
    slots[:8] = (slots[:8] + 1) % 4
    migration = planned(spark, home, "slow", replace(whole(before, 2), slots=slots))
    write_json(migration.run, "params.json", {"batch": int(migration.plan.bytes / 3)})
    record = migrate(spark, migration).tables["visits"]
    assert len(record.commits) >= 3
    finish(spark, home, migration)
    assert parts(spark, home) == {2: 130}


def test_what_is_counted_of_partials(spark: SparkSession, home: Placed) -> None:
    rows = spark.read.format("delta").load(home.path())
    heavy = rows.where(f"key = '{HEAVY}'")
    spec, function = home.table.spec, home.table.epoch().function
    assert duplicate_keys(rows, function) == 0
    assert duplicate_keys(rows.unionAll(heavy.where("channel = 3")), function) == 1
    assert duplicate_keys(rows, home.table.epoch(0).function) == 1
    more = heavy.selectExpr("channel", "slot", "key", "visits + IF(channel = 3, 1, 0) AS visits")
    assert changed_values(heavy, heavy, spec, "visits") == 0
    assert changed_values(heavy, more, spec, "visits") == 1
    assert changed_values(heavy, heavy.limit(0), spec, "visits") == 1
    assert changed_values(rows.limit(0), heavy, spec, "visits") == 1
    named = replace(function, key=(replace(function.key[0], name="count"),))
    assert duplicate_keys(rows.withColumnRenamed("key", "count"), named) == 0
    with pytest.raises(InputError, match="no column of the rows is declared"):
        channel_sql(replace(function, row=None))
    assert json.dumps(function.to_dict()["split"]["owners"]) == "[[3, 0, 1]]"
    assert len(others(spark, home)) == KEYS - 1


def test_floats_that_nearly_cancel_differ_by_rounding_alone(
    spark: SparkSession, home: Placed
) -> None:
    """Partials of both signs: rounding goes with them, and not with their small sum."""
    spec, column = home.table.spec, {"visits": {"merge": "sum", "of": "visits"}}
    part = spec.state["visits"].model_validate({"path": home.path(), "columns": column})
    spec = spec.model_copy(update={"state": {"visits": part}})

    def rows(*values: float) -> DataFrame:
        parts = ", ".join(f"({i}, 0, '{HEAVY}', {v}D)" for i, v in enumerate(values))
        return spark.sql(f"SELECT * FROM VALUES {parts} AS t(channel, slot, key, visits)")

    one, two, three = 220_927.82, -862_690.36, 641_762.55
    before = rows(one, two, three).coalesce(1)
    assert changed_values(before, rows(one + three, two).coalesce(1), spec, "visits") == 0
    assert changed_values(before, rows(one + three, two + 0.01).coalesce(1), spec, "visits") == 1
    endless = spark.sql(f"SELECT 0 channel, 0 slot, '{HEAVY}' key, double('inf') visits")
    assert changed_values(before, endless, spec, "visits") == 1
