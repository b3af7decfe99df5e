"""A change of Iceberg tables that is killed at any step goes on when it is run again."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import known_tables
from partitioning.errors import EvenkeelError
from tests.conftest import SEEN, World
from tests.support.iceberg.catalogs import lake_in
from tests.support.iceberg.evolved import check_totals, with_columns
from tests.support.iceberg.fed import day, one
from tests.support.iceberg.stages import Case, Stages, crash, reached
from tests.support.iceberg.tables import planned
from tests.support.worlds.evolved import OTHERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: One table changes, one leaves, and one comes.
INTENT = Intent.of(["totals.miles=flown"], ["totals.first", "seen"])


@pytest.fixture
def before(
    spark: SparkSession, fed: World, lake: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Stages:
    """Two tables, a plan that waits, and a spec that was changed since."""
    bootstrap(lake, fed.table, day(8))
    planned(lake, fed, "r1")
    with_columns(fed, OTHERS, seen=None, newest=SEEN["columns"])
    stages = Stages(spark, fed.folder, tmp_path_factory.mktemp("kept"), lake_in)
    stages.keep("before")
    return stages


def change(case: Case) -> None:
    evolve(case.spark, case.world.table, INTENT)


def test_a_change_that_is_killed_at_any_step_goes_on(before: Stages) -> None:
    case = before.back("before")
    points = reached(partial(change, case), writes=True)
    assert {"begun", "evolved", "created", "let go"} <= set(points), points
    assert {"StoredFile.create", "StoredFile.write", "IcebergTable.small_commit"} <= set(points)
    for number in range(len(points)):
        case = before.back("before")
        crash(partial(change, case), number, writes=True)
        case = before.anew()
        if set(known_tables(case.world.table.registry)) != {"totals", "newest"}:
            # No window comes before all tables are as the spec has them.
            with pytest.raises(EvenkeelError, match="state table|state column"):
                apply_window(case.spark, case.world.table, day(8), day(9))
        change(case)
        check_done(case, number in (len(points) // 2, len(points) - 1))


def check_done(case: Case, apply: bool) -> None:
    assert evolve(case.spark, case.world.table, INTENT) == []
    assert [*known_tables(case.world.table.registry)] == ["totals", "newest"]
    for name in ("totals", "newest"):
        assert list(one(case.spark, name).refs()) == ["main"]
    gone = one(case.spark, "seen")
    assert not [name for name in gone.properties() if name.startswith("evenkeel.")]
    events = case.world.events
    until = events[events["at"] < "2013-01-08"]
    assert gone.rows().count() == until["dest"].nunique()
    assert IcebergTable(case.spark, "lake.db.newest").rows().count() == 0
    if apply:
        apply_window(case.spark, case.world.table, day(8), day(10))
        check_totals(case.spark, case.world, day(8), day(10))
        found = one(case.spark, "newest").rows().toPandas().set_index("dest")["latest"]
        new = events[(events["at"] >= "2013-01-08") & (events["at"] < "2013-01-10")]
        last = new.groupby("dest")["at"].max()
        assert found.dt.tz_localize("UTC").to_dict() == last.to_dict()
