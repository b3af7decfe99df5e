"""Copies: every owner of a split key has the rows of build sides, whatever comes between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from evenkeel.quality.gates import plan_gate
from evenkeel_spark.events.state_weights import weigh
from evenkeel_spark.migration.fence import Migration
from evenkeel_spark.migration.measuring.table_versions import TableVersions
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import check_gate, verify
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.windows.window_merge import gather
from partitioning.errors import FenceError, GateError
from partitioning.function.function import PartitioningFunction
from partitioning.workload.profile import Profile, Sketch
from tests.support.placed import (
    HEAVY,
    SLOTS,
    Placed,
    append,
    before_the_statement,
    copied,
    crashing_at,
    end_by,
    hashes,
    meanwhile,
    placed,
    planned,
)
from tests.support.raw_json import read_json
from tests.support.worlds.split_state import START, parts, split, whole

(HASH,) = hashes([HEAVY]).tolist()

pytestmark = [pytest.mark.spark, pytest.mark.slow]


#: What HEAVY's row has, and so each copy of it.
VALUE = int(HEAVY[1:])


THREE = {START: 2.0, 0: 1.0, 1: 1.0}


def build_side(spark: SparkSession, home: Placed) -> dict[int, int]:
    """Channel -> value of HEAVY's copy there."""
    rows = spark.read.format("delta").load(home.path("ranks")).where(f"key = '{HEAVY}'").collect()
    assert len({r["channel"] for r in rows}) == len(rows)
    return {r["channel"]: r["visits"] for r in rows}


def delete(spark: SparkSession, home: Placed, channel: int) -> None:
    spark.sql(
        f"DELETE FROM {state.sql_name(home.path('ranks'))} "
        f"WHERE key = '{HEAVY}' AND channel = {channel}"
    )


def weighed(spark: SparkSession, home: Placed) -> Profile:
    """A profile as `learn` makes it, of a load that is HEAVY's alone."""
    load = np.zeros(SLOTS)
    load[HASH % SLOTS] = 100.0
    sketch = Sketch(load, np.array([HASH]), np.array([100.0]), (HEAVY,), 0.0, 100)
    function = home.table.epoch().function
    weight = weigh(spark, home.table.spec, function, np.array([HASH]))
    return weight.onto(sketch, function.key)


def plan_to(
    spark: SparkSession,
    home: Placed,
    run: str,
    function: PartitioningFunction,
    budget: float | None = None,
) -> Migration:
    """A plan that the gate before lets through."""
    migration = planned(spark, home, run, function, weighed(spark, home), budget=budget)
    gate = plan_gate(migration.plan, migration.before, going_back=True)
    assert gate.success, gate.to_dict()
    return migration


def carried_out(
    spark: SparkSession, home: Placed, run: str, function: PartitioningFunction
) -> Migration:
    migration = plan_to(spark, home, run, function)
    migrate(spark, migration)
    verify(spark, migration)
    publish(spark, migration)
    return migration


def each(spark: SparkSession, home: Placed) -> float:
    return state.table_bytes_per_row(spark, home.path("ranks"))


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """Partials in `visits` and a build side in `ranks`; HEAVY stands whole on START."""
    return placed(spark, tmp_path_factory.mktemp("copies"), ("visits", "ranks"), ("ranks",))


@pytest.fixture(scope="module")
def shared(
    spark: SparkSession, template: Placed, tmp_path_factory: pytest.TempPathFactory
) -> Placed:
    """Epoch 1 shares HEAVY by START, 0 and 1."""
    home = copied(template, tmp_path_factory.mktemp("shared"))
    assert build_side(spark, home) == {START: VALUE}
    migration = plan_to(spark, home, "split", split(home.table.epoch().function, THREE))
    # Two copies come, and nothing else moves.
    assert migration.plan.bytes == pytest.approx(2 * each(spark, home))
    assert sum(m.rows for m in migration.plan.moves) == 2
    tables = migrate(spark, migration).tables
    assert (tables["visits"].rows, tables["visits"].bytes) == (0, 0)
    assert (tables["ranks"].rows, len(tables["ranks"].commits)) == (2, 1)
    assert tables["ranks"].bytes > 0
    version = home.version(spark, "ranks")
    # Again, there is nothing to do, and no commit is made.
    migrate(spark, migration)
    assert home.version(spark, "ranks") == version
    verify(spark, migration)
    publish(spark, migration)
    told = read_json(migration.run, "gate_tables.json")
    assert told["success"] and told["warnings"] == 0
    assert "Every owner of a split key has its copy" in json.dumps(told)
    return home


@pytest.fixture
def home(shared: Placed, tmp_path: Path) -> Placed:
    return copied(shared, tmp_path)


def test_every_owner_gets_its_copy_when_a_key_is_split(spark: SparkSession, home: Placed) -> None:
    assert build_side(spark, home) == dict.fromkeys(THREE, VALUE)
    assert parts(spark, home) == {START: VALUE}
    rows = home.table.state("ranks", spark=spark).where(f"key = '{HEAVY}'").collect()
    assert [r["visits"] for r in rows] == [VALUE]
    again = weighed(spark, home)
    # Three copies and a partial, by two tables' bytes a row.
    assert again.heavy_rows.tolist() == [4.0] and again.heavy_copy_rows.tolist() == [1.0]
    assert again.heavy_copy_bytes[0] == pytest.approx(each(spark, home))


def test_owners_come_and_go(spark: SparkSession, home: Placed) -> None:
    # Somebody has written on one owner alone.
    spark.sql(
        f"UPDATE {state.sql_name(home.path('ranks'))} SET visits = visits + 1 "
        f"WHERE key = '{HEAVY}' AND channel = 1"
    )
    before = home.table.epoch().function
    migration = carried_out(spark, home, "next", split(before, {0: 3.0, 2: 1.0}))
    assert build_side(spark, home) == dict.fromkeys((0, 2), VALUE + 1)
    assert parts(spark, home) == {0: VALUE}
    measured = read_json(migration.run, "gate_tables.json")
    assert measured["success"] and measured["warnings"] == 0


@pytest.mark.parametrize("channel", [1, 2])
def test_whole_again_the_other_copies_go(spark: SparkSession, home: Placed, channel: int) -> None:
    before = home.table.epoch().function
    migration = carried_out(spark, home, "whole", whole(before, channel))
    assert build_side(spark, home) == {channel: VALUE}
    # To take copies away costs nothing; the one that comes to where none was is written.
    moved = read_json(migration.run, "migration.json")["tables"]["ranks"]
    assert (moved["bytes"] > 0) == (channel not in THREE)
    copies = float(channel not in THREE)
    # And of `visits` the partials of all other owners, each a third of its row.
    assert sum(m.rows for m in migration.plan.moves) == pytest.approx(copies + (2 + copies) / 3)


@pytest.mark.parametrize(
    ("step", "owners"),
    [
        ("unsealed", {START: 1.0, 2: 1.0}),
        ("moved", {START: 1.0, 2: 1.0}),
        ("moved", {2: 1.0}),
        ("sealing", {2: 1.0}),
    ],
)
def test_a_crash_anywhere_is_made_good_forward_and_back(
    spark: SparkSession,
    home: Placed,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    owners: dict[int, float],
) -> None:
    before = home.table.epoch().function
    target = split(before, owners) if len(owners) > 1 else whole(before, *owners)
    migration = plan_to(spark, home, "next", target)

    def forward() -> None:
        migrate(spark, migration)
        verify(spark, migration)

    with crashing_at(step, monkeypatch):
        forward()
    with crashing_at(step, monkeypatch):
        roll_back(spark, migration)
    roll_back(spark, migration)
    for name in home.names:
        assert home.constraints(spark, name) == {"evenkeel_epoch_1"}
    assert build_side(spark, home) == dict.fromkeys(THREE, VALUE)
    assert sum(parts(spark, home).values()) == VALUE
    with crashing_at(step, monkeypatch):
        forward()
    forward()
    publish(spark, migration)
    assert build_side(spark, home) == dict.fromkeys(owners, VALUE)


def test_what_comes_late_is_copied_too(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = plan_to(spark, home, "whole", whole(home.table.epoch().function, 2))

    def late() -> None:
        spark.sql(
            f"MERGE INTO {state.sql_name(home.path('ranks'))} s "
            f"USING (SELECT {START} AS channel) w ON s.key = '{HEAVY}' AND s.channel = w.channel "
            "WHEN NOT MATCHED THEN INSERT (channel, slot, key, visits) "
            f"VALUES ({START}, {HASH % SLOTS}, '{HEAVY}', {VALUE})"
        )

    with meanwhile("moved", late, monkeypatch):
        migrate(spark, migration)
    late()
    verify(spark, migration)
    assert build_side(spark, home) == {2: VALUE}


@pytest.mark.parametrize("ended_by", ["roll_back", "repair"])
def test_a_late_merge_takes_no_copy_away(
    spark: SparkSession, home: Placed, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    """No constraint sees what a statement of a job that was given up would delete."""
    migration = plan_to(spark, home, "whole", whole(home.table.epoch().function, START))
    before_the_statement(monkeypatch, lambda: end_by(spark, home, "whole", ended_by))
    with pytest.raises(FenceError):
        migrate(spark, migration)
    assert home.constraints(spark, "ranks") == {"evenkeel_epoch_1"}
    assert build_side(spark, home) == dict.fromkeys(THREE, VALUE)


def test_a_late_gather_takes_no_copy_away(
    spark: SparkSession, template: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window makes one row of two, by the function of before their key was shared."""
    home, check = copied(template, tmp_path), constraints.check_unchanged
    before = home.table.epoch().function
    append(spark, home, before, {HEAVY: VALUE})

    def checking(*args: Any) -> None:
        check(*args)
        monkeypatch.undo()
        carried_out(spark, home, "split", split(before, THREE))

    monkeypatch.setattr(constraints, "check_unchanged", checking)
    gather(spark, home.table.spec, "ranks", before)
    assert build_side(spark, home) == dict.fromkeys(THREE, VALUE)


def test_an_owner_without_its_copy_fails_the_gate(spark: SparkSession, home: Placed) -> None:
    function = split(home.table.epoch().function, {START: 1.0, 0: 1.0, 2: 1.0})
    migration = plan_to(spark, home, "next", function)
    migrate(spark, migration)
    delete(spark, home, 2)
    delete(spark, home, 0)
    newest = {n: home.version(spark, n) for n in home.table.spec.state}
    with pytest.raises(GateError, match=r"Every owner of a split key has its copy .*observed 2\)"):
        check_gate(migration, [TableVersions(spark, migration, n, v) for n, v in newest.items()])
    # The sweep before that brings them back.
    verify(spark, migration)
    assert build_side(spark, home) == {START: VALUE, 0: VALUE, 2: VALUE}


def test_copies_are_held_to_the_budget(spark: SparkSession, home: Placed) -> None:
    function = split(home.table.epoch().function, {**THREE, 2: 1.0})
    size = each(spark, home)
    tight = planned(spark, home, "tight", function, weighed(spark, home), budget=size / 2)
    gate = plan_gate(tight.plan, tight.before, going_back=True)
    failed = [r.what for r in gate.results if not r.success]
    assert failed == ["The plan moves no more than the budget"]
    with pytest.raises(FenceError, match="bytes are to move by now, the budget is"):
        migrate(spark, tight)
    assert home.constraints(spark, "ranks") == {"evenkeel_epoch_1"}
    migration = plan_to(spark, home, "paid", function, budget=size + 1)
    migrate(spark, migration)
    assert set(build_side(spark, home)) == {*THREE, 2}
