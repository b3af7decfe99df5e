"""The way out after a job broke off, and whether the tables hold the truth then."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta import constraints
from partitioning.errors import FenceError, InputError
from tests.chaos import home
from tests.chaos.cases import Case
from tests.chaos.home import Content, World, dag, persist, task
from tests.chaos.iceberg.checks import check_tables
from tests.chaos.iceberg.copies import at_work
from tests.chaos.jobs.flows import truth
from tests.chaos.leftovers import leftovers, maintain_away
from tests.chaos.sessions import matching

Rows = list[tuple[Any, ...]]
#: Advice of an error that a job may run again once a write has been quiet for so long.
_LATER = re.compile(r"Run this again in (\d+) seconds")


def lead_out(spark: SparkSession, case: Case, world: World) -> None:
    """Do what the case answers to a job that broke off, then run the job as its errors advise."""
    if case.answer == "run":
        # It may be refused: it publishes, or leaves all as it was.
        dag(spark, world, "learn")
    if case.answer == "repair":
        try:
            task(spark, world, "repair, dry run")
            task(spark, world, "repair")
        except InputError as error:
            # Which tables there are is half changed: the advice is the job that changes them.
            if case.step != "evolve" or "`evenkeel evolve" not in str(error):
                raise
    try:
        persist(lambda: task(spark, world, case.step))
    except FenceError as error:
        wait = _LATER.search(str(error))
        if wait is None:
            raise
        _go_by(world, int(wait[1]))
        persist(lambda: task(spark, world, case.step))


def _go_by(world: World, seconds: int) -> None:
    """Let time go by for what nobody writes to any more, and for a job that was last at work."""
    for left in leftovers(world):
        then = left.stat().st_mtime - seconds
        os.utime(left, (then, then))
    file = at_work(world).table.registry.files.bootstrap
    if (said := file.find()) is not None and said.time:
        earlier = datetime.fromisoformat(said.time) - timedelta(seconds=seconds)
        file.write(said.model_copy(update={"time": earlier.isoformat()}))


def check_job(spark: SparkSession, case: Case, world: World, added: Content) -> None:
    """Check that all is well after a job that no run has.

    The tables hold what pandas makes of the raw events. Each row stands where the epoch in force
    says. The job finds nothing to do.

    Parameters
    ----------
    added : rows that another writer added meanwhile, by state table
    """
    step, numbers = case.step, at_work(world).table.registry.numbers()
    assert numbers == list(range(len(numbers))), numbers
    if world.table.spec.iceberg and added:
        # Some may have come where they should not be.
        task(spark, world, "maintain")
    _check_content(spark, case, world, added)
    made = matching("a commit is made", world)
    task(spark, world, step)
    if step == "maintain":
        _check_content(spark, case, world, added)
    else:
        again = matching("a commit is made", world) - made
        # Forgetting commits without rows, too: windows that have read the events before look again.
        tables = {Path(file).parents[1] for file in again}
        fine = not again or (step == "forget" and len(tables) == len(again))
        assert fine, f"{step} had more to do: {again}"
    left = leftovers(world)
    if step == "maintain":
        assert not [file for file in left if "torn" in file.name], left
    maintain_away(spark, world, left)


def _check_content(spark: SparkSession, case: Case, world: World, added: Content) -> None:
    table, step = at_work(world).table, case.step
    numbers, function = table.registry.numbers(), table.epoch().function
    expected = truth(world, case.table, step)
    if table.spec.iceberg:
        check_tables(spark, world, table.epoch())
    for name, part in () if table.spec.iceberg else table.spec.state.items():
        stands = set(constraints.of(spark, part.path))
        assert stands == {constraints.epoch_name(numbers[-1])}, f"{name}: constraint {stands}"
        rows = spark.read.format("delta").load(part.path).collect()
        assert not home.misplaced(function, rows), f"{name}: misplaced"
        assert not home.uncopied(function, rows), f"{name}: owners without a copy"
    for name, found in home.contents(spark, world).items():
        _check_rows(step, name, found, expected[name], added.get(name, []))


def _check_rows(step: str, name: str, found: Rows, expected: Rows, new: Rows) -> None:
    """See that a table's rows are those of the truth, and those that another writer has added."""
    keys = {row[1] for row in new}
    ours = [row for row in found if row[1] not in keys]
    assert ours == expected, f"{name}: rows lost or doubled"
    # Their columns may have changed since.
    assert {row[1] for row in found} - {row[1] for row in ours} == keys, f"{name}: rows lost"
    assert len(found) - len(ours) == len(new), f"{name}: rows of another writer doubled"
    assert step in ("evolve", "forget") or sorted(set(found) - set(ours)) == sorted(new)
