"""A change that is stopped at any point goes on when it is run again."""

from __future__ import annotations

import os
import re
import shutil
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.evolving.changes import Intent, Kind
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.delta.unfinished_table import QUIET
from evenkeel_spark.tables.membership import known_tables
from partitioning.errors import FenceError, InputError
from tests.chaos.home import copied, task
from tests.chaos.points import stopped
from tests.conftest import SEEN, SPEC, World
from tests.support.state_tables import put_members
from tests.support.worlds.windows import day, rows

pytestmark = pytest.mark.spark

INTENT = Intent.of(["totals.miles=flown"], ["totals.first", "seen"])
COLUMNS = {
    "trips": {"merge": "count"},
    "flown": {"merge": "sum", "of": "miles"},
    "last": {"merge": "max", "of": "at"},
    "least": {"merge": "min", "of": "miles"},
}
#: Two tables become two others: one changes, one leaves, one comes.
STATE = {
    "totals": {**SPEC["state"]["totals"], "columns": COLUMNS},
    "newest": {**SEEN, "path": "state/newest"},
}


@pytest.fixture(scope="module")
def before(
    spark: SparkSession, _bootstrapped: Path, tmp_path_factory: pytest.TempPathFactory
) -> World:
    """Two state tables, a plan that waits, and a spec that was changed since."""
    folder = tmp_path_factory.mktemp("before")
    shutil.copytree(_bootstrapped, folder, dirs_exist_ok=True)
    world = World(folder)
    evolve(spark, world.with_seen().table, Intent.of())
    for name in ("learn", "decide", "plan", "validate_plan"):
        task(spark, world, name)
    return world.respec(state=STATE)


def moved(spark: SparkSession, before: World, folder: Path) -> World:
    """A copy, whose registry knows its own tables, as that of `before` knows those."""
    world = copied(before, folder)
    seen = str(folder / "state/seen")
    put_members(world, "totals", "seen")
    url = f"('evenkeel.registry' = '{world.table.registry.url}')"
    spark.sql(f"ALTER TABLE delta.`{seen}` SET TBLPROPERTIES {url}")
    return world


def points_of(spark: SparkSession, world: World, at: int | None = None) -> list[str]:
    return stopped(partial(evolve, spark, world.table, INTENT), at)


@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=pytest.mark.slow, id="each"), pytest.param(4, id="some")]
)
def test_a_change_that_is_stopped_at_any_point_goes_on(
    spark: SparkSession, before: World, tmp_path: Path, step: int
) -> None:
    points = points_of(spark, moved(spark, before, tmp_path / "whole"))
    wanted = {"before REWRITE of seen", "after ALTER on totals"}
    wanted |= {
        "after ADD CONSTRAINT evenkeel_epoch_0 on newest",
        "before write members/newest.json",
    }
    assert wanted <= set(points), points
    # Before a statement all is as it was after the one before it, but for a table that is made:
    # there is no point before that. Files of verdicts have tests of their own.
    passed = re.compile("before (ALTER|DROP)|.*verdict")
    tables = [at for at, label in enumerate(points) if not passed.match(label)]
    assert len(tables) > 9, points
    tables = tables[::step]
    for at in tables:
        world = moved(spark, before, tmp_path / str(at))
        assert points_of(spark, world, at) == points[: at + 1]
        evolve(spark, world.table, INTENT)
        check_done(spark, world, at == tables[-1])
        shutil.rmtree(world.folder)


def check_done(spark: SparkSession, world: World, apply: bool) -> None:
    paths = {name: part.path for name, part in world.table.spec.state.items()}
    assert evolve(spark, world.table, INTENT) == []
    for path in paths.values():
        assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}
    names = state.schema(spark, paths["totals"]).fieldNames()
    assert names == ["channel", "slot", "dest", "trips", "flown", "last", "least"]
    totals = rows(spark, world, "totals")
    counted = world.events[world.events["at"] < "2013-01-08"].groupby("dest")
    assert totals["flown"].to_dict() == counted["miles"].sum().to_dict()
    assert totals["trips"].to_dict() == counted.size().to_dict()
    assert rows(spark, world, "newest").empty
    left = state.properties(spark, str(world.folder / "state/seen"))
    assert not [name for name in left if "evenkeel" in name]
    assert [*known_tables(world.table.registry)] == ["totals", "newest"]
    if apply:
        apply_window(spark, world.table, day(8), day(9))


def test_a_table_that_left_is_let_go_before_one_of_its_name_joins_elsewhere(
    spark: SparkSession, before: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = moved(spark, before, tmp_path / "home")
    at = points_of(spark, moved(spark, before, tmp_path / "whole")).index("before REWRITE of seen")
    points_of(spark, world, at)
    old = str(world.folder / "state/seen")
    assert constraints.our_constraints(spark, old) == {"evenkeel_epoch_0"}
    world.respec(state={**STATE, "seen": {**SEEN, "path": "state/again"}})
    capsys.readouterr()
    evolve(spark, world.table, Intent.of())
    assert "seen: let go" in capsys.readouterr().out
    assert not [name for name in state.properties(spark, old) if "evenkeel" in name]
    new = world.table.spec.state["seen"].path
    assert constraints.our_constraints(spark, new) == {"evenkeel_epoch_0"}
    assert set(known_tables(world.table.registry)) == {"totals", "newest", "seen"}
    assert evolve(spark, world.table, Intent.of()) == []


def test_a_table_that_is_put_back_before_it_was_let_go_stays(
    spark: SparkSession, before: World, tmp_path: Path
) -> None:
    world = moved(spark, before, tmp_path / "home")
    at = points_of(spark, moved(spark, before, tmp_path / "whole")).index("before REWRITE of seen")
    points_of(spark, world, at)
    world.respec(state={**STATE, "seen": SEEN})
    (change,) = evolve(spark, world.table, Intent.of())
    assert change.kind == Kind.add_table and "there already" in change.meaning
    old = str(world.folder / "state/seen")
    assert constraints.our_constraints(spark, old) == {"evenkeel_epoch_0"}
    assert set(known_tables(world.table.registry)) == {"totals", "newest", "seen"}
    assert evolve(spark, world.table, Intent.of()) == []
    apply_window(spark, world.table, day(8), day(9))


@pytest.mark.parametrize("rest", ["a log", "rows", "folders"])
def test_a_table_whose_first_commit_never_came_is_made(
    spark: SparkSession, ready: World, rest: str
) -> None:
    newest = {**SEEN, "path": "state/newest"}
    table = ready.respec(state={**SPEC["state"], "newest": newest}).table
    path = ready.folder / "state/newest"
    torn = path / f"_delta_log/.{0:020d}.json.7a.tmp"
    if rest == "rows":
        torn = path / "channel=1/part-0.snappy.parquet"
    torn.parent.mkdir(parents=True)
    if rest != "folders":
        torn.touch()
    if rest == "a log":
        with pytest.raises(FenceError, match="in [0-9]+ seconds"):
            evolve(spark, table, Intent.of())
    # S3 says of each folder that it was changed just now.
    long_ago = time.time() - QUIET - 1
    if torn.exists():
        os.utime(torn, (long_ago, long_ago))
    if rest == "rows":
        with pytest.raises(InputError, match="expected an empty folder"):
            evolve(spark, table, Intent.of())
        assert torn.exists()
        return
    assert len(evolve(spark, table, Intent.of(), dry_run=True)) == 1 and torn.parent.exists()
    evolve(spark, table, Intent.of())
    assert not torn.exists() and rows(spark, ready, "newest").empty
    assert constraints.our_constraints(spark, str(path)) == {"evenkeel_epoch_0"}


def test_no_window_comes_while_a_column_is_added(spark: SparkSession, ready: World) -> None:
    """It would count as applied by the old spec, and the new column would lack it for ever."""
    columns = SPEC["state"]["totals"]["columns"]
    more = {**columns, "least": {"merge": "min", "of": "miles"}}
    table = ready.with_columns(more).table
    # Stop when the column is there, and the table's property does not have it yet.
    points = stopped(partial(evolve, spark, table, Intent.of()), None)
    assert points.count("after ALTER on totals") == 3
    before = ready.respec(state=SPEC["state"]).table
    evolve(spark, before, Intent.of([], ["totals.least"]))
    at = [i for i, label in enumerate(points) if label == "after ALTER on totals"][1]
    assert "least" not in state.schema(spark, before.spec.state["totals"].path).fieldNames()
    table = ready.with_columns(more).table
    stopped(partial(evolve, spark, table, Intent.of()), at)
    assert "least" in state.schema(spark, before.spec.state["totals"].path).fieldNames()
    for by in (table, before):
        with pytest.raises(InputError, match="has begun to add columns"):
            apply_window(spark, by, day(8), day(9))
    # By the old spec the change is given up; by the new one it can be made again.
    (change,) = evolve(spark, before, Intent.of())
    assert change.kind == Kind.end_change
    assert evolve(spark, before, Intent.of()) == []
    apply_window(spark, before, day(8), day(9))
    assert [c.kind for c in evolve(spark, table, Intent.of())] == [Kind.add_column]
    apply_window(spark, table, day(9), day(10))
    assert rows(spark, ready, "totals")["least"].notna().any()
