"""Columns of Iceberg tables come, go, and change name and type while windows and epochs go on."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.evolving.changes import Intent, Kind
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs.apply_window import apply_window
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.iceberg.catalogs import KINDS
from tests.support.iceberg.evolved import check_totals, heads, totals, with_columns
from tests.support.iceberg.fed import day, one
from tests.support.iceberg.tables import rebalanced
from tests.support.worlds.evolved import INTENT, OTHERS

pytestmark = pytest.mark.spark


def types(lake: SparkSession) -> dict[str, str]:
    return {c.name: c.dataType.simpleString() for c in one(lake, "totals").schema()}


@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_columns_change_while_windows_and_epochs_go_on(lake: SparkSession, kept: World) -> None:
    before, old = heads(lake), totals(lake)
    with_columns(kept, OTHERS)
    planned_changes = evolve(lake, kept.table, INTENT, dry_run=True)
    assert heads(lake) == before
    assert [(c.kind, c.column) for c in planned_changes] == [
        (Kind.rename_column, "flown"),
        (Kind.drop_column, "first"),
        (Kind.add_column, "least"),
        (Kind.add_column, "newest"),
        (Kind.add_column, "each"),
    ]
    assert evolve(lake, kept.table, INTENT) == planned_changes
    now = totals(lake)
    assert (now["flown"] == old["miles"]).all() and (now["last"] == old["last"]).all()
    assert now[["least", "newest", "each"]].isna().all().all() and "first" not in now
    done = heads(lake)
    assert evolve(lake, kept.table, INTENT) == [] and heads(lake) == done
    assert done["seen"] == before["seen"]

    apply_window(lake, kept.table, day(8), day(9))
    check_totals(lake, kept, day(8), day(9))
    rebalanced(lake, kept, "r1", capacities=(1, 1, 1, 0.3))

    # The input gets a wider type, and values that need it.
    events = kept.events
    late = events["at"] >= "2013-01-09"
    events["miles"] = events["miles"].astype("int64") + late * 2**33
    kept.write_events(events)
    widened = evolve(lake, kept.table, Intent.of())
    assert [(c.kind, c.column) for c in widened] == [
        (Kind.widen_column, "least"),
        (Kind.widen_column, "newest"),
        (Kind.widen_column, "each"),
    ]
    assert types(lake) == {
        **{"channel": "int", "slot_1": "int", "dest": "string", "trips": "bigint"},
        **{"flown": "bigint", "last": "timestamp", "least": "bigint"},
        **{"newest": "struct<at:timestamp,value:bigint>", "each": "array<bigint>"},
    }
    assert evolve(lake, kept.table, Intent.of()) == []
    apply_window(lake, kept.table, day(9), day(11))
    check_totals(lake, kept, day(8), day(11))
    assert totals(lake)["least"].max() > 2**33
    rebalanced(lake, kept, "r2", capacities=(0.3, 1, 1, 1))
    check_totals(lake, kept, day(8), day(11))

    shown = kept.table.state("totals", 1, lake).toPandas().set_index("dest")
    then = events[events["at"] < "2013-01-09"].groupby("dest").size()
    assert shown["trips"].to_dict() == then.to_dict()
    with pytest.raises(InputError, match="epoch 0 has no column 'flown': it came, or got its name"):
        kept.table.state("totals", 0, lake)
    assert {"flown", "each"} <= set(kept.table.snapshot(lake).rows["totals"].columns)
