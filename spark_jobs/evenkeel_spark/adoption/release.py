"""Release: take Evenkeel out of tables. They are the team's as before.

The constraint and the properties go in one commit a table. The columns slot and channel stay,
unless they are asked to go: that rewrites the table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.adoption.before import Before, find_before
from evenkeel_spark.adoption.kept_values import partition_problems
from evenkeel_spark.adoption.leaving import (
    OUR_PROPERTIES,
    check_not_kept,
    made_by_us,
    mark_released,
)
from evenkeel_spark.adoption.obstacles import check_space
from evenkeel_spark.adoption.rewrite import Layout, change
from evenkeel_spark.adoption.team_checks import checked_columns, refuse_checked
from evenkeel_spark.events.aggregate import exact
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.declared_columns import ROWS_PROPERTY
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.state import owning_spec
from evenkeel_spark.tables.membership import known_tables, table_in_errors
from evenkeel_spark.tables.moving import check_no_run_moves, repair_advice
from evenkeel_spark.tables.spark_errors import CONFLICTS, first_line
from evenkeel_spark.tables.table_properties import (
    BEFORE_PROPERTY,
    REGISTRY_PROPERTY,
    TABLE_PROPERTY,
)
from evenkeel_spark.tables.write_session import own_session
from partitioning.errors import FenceError, InputError


def release(
    spark: SparkSession,
    table: Table,
    drop_columns: bool = False,
    dry_run: bool = False,
    registry_lost: bool = False,
) -> list[str]:
    """Release all state tables of a spec. A second run changes nothing.

    Parameters
    ----------
    drop_columns : rewrite the tables without slot and channel, partitioned as before
    dry_run : say what would be done, and change nothing
    registry_lost : release the tables under whatever epoch they are, because no registry has it

    Returns
    -------
    Names of the state tables that were released, or would be.

    Raises
    ------
    FenceError : a migration is under way or was broken off, or others commit meanwhile
    InputError : a table that Evenkeel made, is not there, or belongs to another spec or registry
    """
    spec, spark = table.spec, own_session(spark)
    for name, part in spec.state.items():
        if not part.plain:
            raise made_by_us(name, part.path)
    found = [n for n in spec.state if _may_release(spark, table, n, drop_columns, registry_lost)]
    if found and not registry_lost:
        # It may move rows of tables that this spec does not name, and needs all of them to end.
        check_no_run_moves(spec, table.registry)
    rewrites = []
    for name in found if drop_columns else ():
        # All tables, before the first is rewritten.
        rows, _ = state.read_newest(spark, spec.state[name].path)
        if CHANNEL in rows.columns:
            _partitions(spark, spec, name, rows.drop(SLOT, CHANNEL))
            rewrites.append(_rewritten(spark, spec, name))
    check_space(spark, rewrites)
    for name in found:
        what = "its constraint, properties" + (", slot and channel" if drop_columns else "")
        say(f"{name}: {'would lose' if dry_run else 'loses'} {what}")
        if not drop_columns:
            say(
                f"{name}: stays partitioned by {CHANNEL}: rows need that column until it is "
                "dropped (--drop-columns)"
            )
        for line in _what_stays(spark, spec, name):
            say(line)
        if not dry_run:
            _release(spark, table, name, drop_columns, registry_lost)
            crash_point("released")
    if not dry_run:
        mark_released(table, partial(owning_spec, spark))
    return found


def _may_release(
    spark: SparkSession, table: Table, name: str, drop_columns: bool, registry_lost: bool
) -> bool:
    """Return whether a table has something of ours to take out; raise if it may not be."""
    path = table.spec.state[name].path
    if state.table_version(spark, path) < 0:
        raise InputError(
            "expected a Delta table, found none", f"{name} ({path})", "Correct the path"
        )
    properties = state.properties(spark, path)
    owner = properties.get(TABLE_PROPERTY)
    if owner is None:
        left = find_before(properties) is not None and CHANNEL in _names(spark, path)
        if not (drop_columns and left):
            say(f"{name}: is not Evenkeel's: nothing to do")
        return drop_columns and left
    if owner != table.spec.table:
        raise InputError(f"belongs to table {owner!r}", f"{name} ({path})", "Correct the path")
    # A spec can be edited: the table itself knows who made it.
    if ROWS_PROPERTY not in properties:
        raise made_by_us(name, path)
    _check_registry(spark, table, name, properties.get(REGISTRY_PROPERTY), registry_lost)
    return True


def _check_registry(
    spark: SparkSession, table: Table, name: str, known: str | None, registry_lost: bool
) -> None:
    """Refuse a table that another registry keeps, or whose state is moving.

    Parameters
    ----------
    known : the registry that the table names
    registry_lost : as in `release`
    """
    check_not_kept(table, name, known, registry_lost)
    if registry_lost:
        return
    ours, path = table.registry, table.spec.state[name].path
    where, numbers = f"{name} ({path})", table.registry.numbers()
    if not (existing := constraints.our_constraints(spark, path)):
        return
    if not numbers:
        raise FenceError(
            f"has the constraint {', '.join(sorted(existing))}, and {ours.url} has no epoch",
            where,
            "Correct `registry` in the spec, or bring it back from its backup. If it is lost for "
            "good, release with --registry-lost",
        )
    if path not in known_tables(ours).values() and len(existing) == 1 and _of_an_epoch(existing):
        # Its adoption ended when another epoch was published without it. No run moves its rows.
        return
    if not existing <= {constraints.epoch_name(table.epoch().number)}:
        raise FenceError(
            f"has the constraint {', '.join(sorted(existing))}: state moves, or is half moved",
            where,
            f"Let the run end, or {repair_advice(table.spec.table)}; then release",
        )


def _of_an_epoch(existing: Collection[str]) -> bool:
    return all(re.fullmatch(rf"{constraints.OURS}epoch_\d+", name) for name in existing)


def _names(spark: SparkSession, path: str) -> list[str]:
    return state.schema(spark, path).fieldNames()


def _what_stays(spark: SparkSession, spec: TableSpec, name: str) -> Iterator[str]:
    """Yield what a release does not take back, a line each."""
    path = spec.state[name].path
    found = state.properties(spark, path)
    if features := sorted({"checkConstraints", "deletionVectors"} & state.features(spark, path)):
        alter = f"ALTER TABLE {state.sql_name(path)} DROP FEATURE"
        out = "; ".join(f"{alter} {feature}" for feature in features)
        yield f"{name}: its protocol keeps {', '.join(features)}. To take them out: {out}"
    before = find_before(found)
    for property_name, changed in () if before is None else before.properties.items():
        if found.get(property_name) not in (changed.adopted, changed.before):
            yield (
                f"{name}: {property_name} stays {found.get(property_name)}: it was changed since "
                f"adoption set it to {changed.adopted} (before: {changed.before})"
            )


def _rewritten(spark: SparkSession, spec: TableSpec, name: str) -> tuple[str, str, int]:
    """Return what a rewrite without slot and channel writes, as `check_space` wants it.

    Raises
    ------
    InputError : the team has named one of them in the table
    """
    path, where = spec.state[name].path, table_in_errors(spec, name)
    named = checked_columns(spark, path)
    for column in (SLOT, CHANNEL):
        refuse_checked(named, "drop", column, where)
    size = state.files(spark, path).agg(F.sum("size")).collect()[0][0]
    return where, path, int(size or 0)


def _partitions(spark: SparkSession, spec: TableSpec, name: str, rows: DataFrame) -> list[str]:
    """Return the partitions that a table had before, which its rows must still fit.

    Raises
    ------
    InputError : one of these columns is gone, or its values cannot name a folder
    """
    path, where = spec.state[name].path, f"{name} ({spec.state[name].path})"
    before = find_before(state.properties(spark, path)) or Before((), {})
    partitions = before.columns(state.names_in_files(spark, path), where)
    new = [c for c in partitions if c not in state.partition_columns(spark, path)]
    for problem in partition_problems(rows, new, where):
        raise problem
    return partitions


def _release(
    spark: SparkSession, table: Table, name: str, drop_columns: bool, registry_lost: bool
) -> None:
    """Release one table in one commit, which fails if somebody has changed what was looked at."""
    spec, path = table.spec, table.spec.state[name].path
    version = state.table_version(spark, path)
    # Look again: what comes after this version makes the commit fail.
    if not _may_release(spark, table, name, drop_columns, registry_lost):
        return
    properties = state.properties(spark, path)
    ours = [p for p in properties if p.startswith(OUR_PROPERTIES)]
    before = find_before(properties) or Before((), {})
    put, removed = before.restored(properties)
    if drop_columns:
        layout = Layout(put, [*ours, *removed])
    else:
        # Who drops the columns later still finds how the table was partitioned.
        left = {BEFORE_PROPERTY: replace(before, properties={}).text()}
        layout = Layout({**put, **left}, [*ours, *removed])
    with commits.our_commit(spark, None, None, {"step": "release"}) as own:
        rows = None
        if drop_columns and CHANNEL in _names(spark, path):
            rows = state.read_version(own, path, version).drop(SLOT, CHANNEL)
            partitions = _partitions(spark, spec, name, rows)
            layout = replace(layout, dropped=(SLOT, CHANNEL), partitions=partitions)
        try:
            with exact(f"{name} ({path})"):
                change(own, path, version, layout, rows)
        except CONFLICTS as error:
            raise FenceError(
                f"somebody wrote meanwhile ({first_line(error)})",
                f"{name} ({path})",
                "Run it again; where that goes on, pause its writers",
            ) from error
    say(f"{name}: released")
