"""A writer of one's own, as docs/SPLITTING.md has it, that holds an older epoch: what it writes is
right, or refused."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import Epoch
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.spark_errors import may_try_again
from partitioning.function.sql import channel_sql
from tests.conftest import World
from tests.support.docs.readme import ROOT
from tests.support.state_tables import drop_constraint
from tests.support.worlds.windows import owners, put, split, turned

pytestmark = pytest.mark.spark

TEXT = (ROOT / "docs" / "SPLITTING.md").read_text()


def told(part: str, world: World) -> str:
    """The code of the section, which routes or merges, for the table of these tests."""
    section = TEXT.partition("## Your own writer\n")[2]
    ((before, merge),) = re.findall(r"^```python\n(.*?)^(path = .*?)^```", section, re.M | re.S)
    code = {"route": re.sub(r"^(table|epoch) = .*\n", "", before, flags=re.M), "merge": merge}[part]
    for theirs, ours in (("product", "dest"), ("units", "trips")):
        assert theirs in code
        code = code.replace(theirs, ours)
    for theirs, ours in (('state["sales"]', 'state["totals"]'), ("4096", "64")):
        assert theirs in code or part == "route"
        code = code.replace(theirs, ours)
    return code


def write(spark: SparkSession, world: World, batch: DataFrame) -> None:
    """Merge a batch by the page's code."""
    names = {"spark": spark, "table": world.table, "batch": batch}
    exec(compile(told("merge", world), "SPLITTING.md", "exec"), names)


def routed(spark: SparkSession, world: World, epoch: Epoch) -> DataFrame:
    """Seven events of D000 and one of a key that is new, folded by the function of this epoch."""
    keys = ["D000"] * 7 + ["NEW"]
    events = [(key, 1, i) for i, key in enumerate(keys)]
    names: dict[str, Any] = {
        "F": F,
        "epoch": epoch,
        "events": spark.createDataFrame(events, "dest string, quantity int, miles int"),
    }
    exec(compile(told("route", world), "SPLITTING.md", "exec"), names)
    batch: DataFrame = names["batch"]
    assert batch.where("split").count() == (2 if len(epoch.function.split) else 0)
    return batch


def trips(spark: SparkSession, world: World) -> dict[str, dict[int, int]]:
    """Trips by channel, of each of the two keys; one row a channel."""
    rows = spark.read.format("delta").load(world.table.spec.state["totals"].path)
    found: dict[str, dict[int, int]] = {"D000": {}, "NEW": {}}
    for r in rows.where("dest IN ('D000', 'NEW')").collect():
        assert r["channel"] not in found[r["dest"]]
        found[r["dest"]][r["channel"]] = r["trips"]
    return found


def shared(spark: SparkSession, world: World) -> None:
    split(spark, world, {"D000": 2})


def shared_and_written(spark: SparkSession, world: World) -> None:
    shared(spark, world)
    path = world.table.spec.state["totals"].path
    put(spark, path, "D000", owners(world, "D000", 2)[1:], trips=1000)


def shared_by_three(spark: SparkSession, world: World) -> None:
    split(spark, world, {"D000": 3})


def moving(spark: SparkSession, world: World) -> None:
    """Rows have moved, and old and new channels are admitted."""
    old = world.table.epoch().function
    new = replace(old, slots=(old.slots + 1) % 4, epoch=old.epoch + 1, parent=old.digest)
    path = world.table.spec.state["totals"].path
    name = constraints.moving_name(new.epoch)
    constraints.add(spark, path, name, constraints.rule(old, new))
    drop_constraint(spark, path, constraints.epoch_name(old.epoch))
    spark.sql(f"UPDATE delta.`{path}` SET channel = {channel_sql(new)}")


def let_go(spark: SparkSession, world: World) -> None:
    """Rows have moved, and no constraint is left: `evolve --drop`, or a person, took it."""
    turned(spark, world)
    drop_constraint(spark, world.table.spec.state["totals"].path, constraints.epoch_name(1))


CASES = {
    "whole": (None, None, False),
    "split": (None, shared, False),
    "split and written": (None, shared_and_written, True),
    "moved": (None, turned, True),
    "moving": (None, moving, True),
    "let go": (None, let_go, True),
    "shared": (shared_and_written, None, False),
    "shared by more": (shared_and_written, shared_by_three, False),
}


@pytest.mark.slow
@pytest.mark.parametrize(("first", "since", "refused"), CASES.values(), ids=CASES)
def test_what_a_writer_of_an_older_epoch_writes_is_right_or_refused(
    spark: SparkSession, ready: World, first: Any, since: Any, refused: bool
) -> None:
    if first is not None:
        first(spark, ready)
    batch = routed(spark, ready, ready.table.epoch())
    if since is not None:
        since(spark, ready)
    before = trips(spark, ready)
    if refused:
        with pytest.raises(Exception, match="evenkeel_moved") as error:
            write(spark, ready, batch)
        assert may_try_again(error.value)
        assert trips(spark, ready) == before
        return
    write(spark, ready, batch)
    after = trips(spark, ready)
    assert sum(after["NEW"].values()) == 1
    new = {r["channel"]: r["trips"] for r in batch.where("dest = 'D000'").collect()}
    assert sum(new.values()) == 7 and len(new) == (1 if first is None else 2)
    assert after["D000"] == {
        c: before["D000"].get(c, 0) + new.get(c, 0) for c in {*before["D000"], *new}
    }


@pytest.mark.parametrize("first", [None, shared], ids=["whole", "split"])
def test_a_key_with_several_rows_on_one_channel_is_refused(
    spark: SparkSession, ready: World, first: Any
) -> None:
    """A writer has appended a row of a key that is there. The MERGE would add to both."""
    if first is not None:
        first(spark, ready)
    batch = routed(spark, ready, ready.table.epoch())
    path = ready.table.spec.state["totals"].path
    (home, *_) = owners(ready, "D000", 2 if first else 1)
    put(spark, path, "D000", [home], trips=1000)
    rows = spark.read.format("delta").load(path).where("dest = 'D000'").select("channel", "trips")
    before = sorted(rows.collect())
    assert len(before) == 2
    with pytest.raises(Exception, match="several rows of a key on one channel"):
        write(spark, ready, batch)
    assert sorted(rows.collect()) == before
    # Rows of other keys do not matter.
    write(spark, ready, batch.where("dest <> 'D000'"))
    assert sorted(rows.collect()) == before
