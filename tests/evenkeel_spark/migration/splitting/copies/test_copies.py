"""Copies: every owner of a split key has the rows of build sides, whatever comes between."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from evenkeel.quality.gates import plan_gate
from evenkeel_spark.migration.measuring.table_versions import TableVersions
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import check_gate, verify
from evenkeel_spark.tables.delta import state
from partitioning.errors import FenceError, GateError
from tests.support.placed import (
    HEAVY,
    SLOTS,
    Placed,
    crashing_at,
    meanwhile,
    planned,
)
from tests.support.raw_json import read_json
from tests.support.splitting.copies import (
    HASH,
    THREE,
    VALUE,
    build_side,
    carried_out,
    each,
    plan_to,
    weighed,
)
from tests.support.worlds.split_state import START, parts, split, whole

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def delete(spark: SparkSession, home: Placed, channel: int) -> None:
    spark.sql(
        f"DELETE FROM {state.sql_name(home.path('ranks'))} "
        f"WHERE key = '{HEAVY}' AND channel = {channel}"
    )


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
