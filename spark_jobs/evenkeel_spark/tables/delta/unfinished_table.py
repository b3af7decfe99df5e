"""Properties and constraint of a new state table, and checks of one that was not finished."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.tables import filesystem
from evenkeel_spark.tables.delta import commits, constraints, left_files, state
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from evenkeel_spark.tables.table_properties import REGISTRY_PROPERTY, made_properties
from partitioning.errors import DamagedError, FenceError
from partitioning.function.function import PartitioningFunction

#: Seconds without a write after which an unfinished write counts as broken off. Lower: another
#: call that is about to commit may lose its files.
QUIET = 600
#: Parts of Spark's messages about a file that is not there.
_GONE = ("FileNotFound", "FILE_NOT_EXIST", "FILE_NOT_FOUND")


def first_properties(table: Table, name: str, types: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with which a Delta table is made: see `made_properties`."""
    # The log's must not be shorter than the files': time travel reads both.
    kept = dict.fromkeys(state.RETENTION, f"interval {table.spec.keep} days")
    return {state.VECTORS_PROPERTY: "true", **kept, **made_properties(table, name, types)}


def guard_new(
    commit: Callable[[], AbstractContextManager[SparkSession]], path: str, epoch: int, rule: str
) -> None:
    """Give a new table the constraint of an epoch, in place of those of earlier epochs.

    A call that was killed before the registry knew the table may have left one of these. It writes
    first and then looks, because another call may have made the table, and a run moved its rows. A
    table that has rows by an earlier epoch keeps its constraint: repair brings them on.

    Raises
    ------
    FenceError : that is so; the constraint is dropped again
    MetadataChangedException : somebody has changed the table since it was looked at
    """
    name, earlier = constraints.epoch_name(epoch), {*map(constraints.epoch_name, range(epoch))}
    known = earlier | {name}
    with commit() as own:
        _refuse_others(own, path, known)
        rows = own.read.format("delta").load(path)
        if constraints.our_constraints(own, path) & earlier and not rows.isEmpty():
            # It might admit rows whose key has other rows, or another slot, by now.
            return
        try:
            added = constraints.add(own, path, name, rule)
        except AnalysisException:
            # It does not admit rows that have moved, or that came under an earlier epoch.
            _refuse_others(own, path, known)
            if constraints.our_constraints(own, path) & earlier:
                return
            raise
        try:
            _refuse_others(own, path, known)
        except FenceError:
            if added:
                constraints.take_back(commit, path, name)
            raise
        for old in constraints.our_constraints(own, path) & earlier:
            seen = constraints.our_constraints(own, path)
            constraints.drop_beside(own, path, old, name, seen)


@contextmanager
def all_files(path: str) -> Iterator[None]:
    """Say of a new table that lacks files, which the block reads, how to go on.

    Raises
    ------
    DamagedError : files are gone
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if not any(part in str(error) for part in _GONE):
            raise
        raise DamagedError(
            "files of the new table are gone: another bootstrap has removed them",
            path,
            "Remove the folder, and run this again: no epoch has this table yet",
        ) from error


def _refuse_others(spark: SparkSession, path: str, known: Collection[str]) -> None:
    if others := sorted(constraints.our_constraints(spark, path) - {*known}):
        raise FenceError(
            f"has the constraint {', '.join(others)} by now: another call has made the table, and "
            "a run moves its rows",
            path,
            "Run this again: it goes by the current epoch. If that epoch is older than this "
            "constraint, bring back a registry that has the newer one",
        )


def clear_unfinished(
    spark: SparkSession, path: str, rows: bool, dry_run: bool = False, at_work: float = 0
) -> bool:
    """Remove what a first write that was broken off has left in a folder, and nothing else.

    Parameters
    ----------
    rows : the write had rows
    dry_run : remove nothing
    at_work : when its job has last said that it is at work, in seconds since 1970. On an object
        store a file is seen only when its task ends

    Returns
    -------
    False if the folder is free, or holds anything else.

    Raises
    ------
    FenceError : the write may go on
    """
    if not filesystem.occupied(spark, path) or state.table_version(spark, path) >= 0:
        return False
    if (found := left_files.unfinished(spark, path, rows)) is None:
        return False
    if (wait := math.ceil(max(found.written, at_work) + QUIET - time.time())) > 0:
        raise FenceError(
            "another job is making a table here, or was broken off just now",
            path,
            f"Run this again in {wait} seconds; or, if no other one runs, remove the folder",
        )
    if not dry_run:
        left_files.remove_unfinished(spark, path, found)
    return True


def check_half_made(
    spark: SparkSession,
    table: Table,
    name: str,
    function: PartitioningFunction,
    spent: int | None,
    begun: Collection[str],
) -> None:
    """Refuse a table that holds more than an interrupted bootstrap of this registry leaves.

    Parameters
    ----------
    table : its spec and registry
    name : of the state table, in the spec
    function : of epoch 0
    spent : day number of the bootstrap's end, which version 0.1.0 committed as a transaction's;
        None: it has none
    begun : folders that a bootstrap of this registry has begun to write

    Raises
    ------
    DamagedError : another registry's bootstrap made it, or it has been in use
    """
    spec, path = table.spec, table.spec.state[name].path
    found = state.properties(spark, path)
    ours = constraints.ours(spark, path)
    first = ours.pop(constraints.epoch_name(0), None)
    day = commits.day_id(spark, path, spec.table)
    if ours:
        wrong = f"has the constraint {', '.join(sorted(ours))}"
    elif first is not None and not constraints.same_sql(
        first, constraints.fence_rule(spec, function)
    ):
        wrong = f"has another constraint {constraints.epoch_name(0)}"
    elif commits.windows_count(spark, path, spec.table) or day not in (None, spent):
        wrong = "windows have been applied to it"
    elif path not in begun:
        wrong = "a bootstrap of another registry made it"
    else:
        return
    made_by = found.get(REGISTRY_PROPERTY)
    raise DamagedError(
        f"is in use: {wrong}, and no epoch is published in {table.registry.url}",
        f"{name} ({path})",
        "Correct `registry` in the spec"
        + (f" (it was made with {made_by})" if made_by else "")
        + ", or bring the registry back from its backup",
    )
