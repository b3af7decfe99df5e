"""State tables that the spec has by now and the epoch has not, or the other way round."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from evenkeel.table import Table
from evenkeel_spark.adoption.rewrite import Layout, change
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.tables.delta import commits, constraints, filesystem, state
from evenkeel_spark.tables.delta.preflight import check_ours
from evenkeel_spark.tables.delta.unfinished_table import REGISTRY_PROPERTY, first_properties
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction

#: Seconds after which an unfinished first commit counts as broken off. Lower: another job that is
#: about to commit may lose its table.
QUIET_CREATE = 60
#: Beginnings of the table properties that are Evenkeel's.
_PREFIXES = ("evenkeel.", constraints.property_name(constraints.OURS))


@dataclass(frozen=True)
class StateTables:
    """The state tables of a spec, by what is to be done with them.

    Parameters
    ----------
    kept, new : names in the spec
    gone : folders by name
    """

    kept: list[str]
    new: list[str]
    gone: dict[str, str]


def find_tables(spark: SparkSession, table: Table, intent: Intent) -> StateTables:
    """Compare the state tables of the spec with those that there are.

    Raises
    ------
    InputError : a new table's folder is not free, a table has another folder than the spec says,
        or nothing says what became of one
    """
    spec, epoch, begun = table.spec, table.epoch(), started_tables(table)
    known = {**{name: at.path for name, at in epoch.tables.items()}, **begun}
    tables = StateTables([], [], {})
    for name, part in spec.state.items():
        if name in intent.drops:
            raise InputError(
                f"cannot drop state table {name!r}: the spec still has it",
                f"spec of {spec.table}",
                "Take it out of the spec, or leave out --drop",
            )
        if name not in known or _half_made(spark, table, part.path, begun):
            _check_free(spark, table, name, begun)
            tables.new.append(name)
        elif state.table_version(spark, part.path) >= 0:
            check_ours(spark, spec, name)
            tables.kept.append(name)
        else:
            _check_left(spark, table, name, known[name])
            _check_free(spark, table, name, begun)
            tables.new.append(name)
    for name, path in known.items():
        if name not in spec.state and _may_go(spark, table, name, path, intent):
            tables.gone[name] = path
    return tables


def started_tables(table: Table) -> dict[str, str]:
    """Return the folders of the tables that were begun since the epoch, and of those beside them.

    Those that have left the spec since are still there: they may have to be released.
    """
    found = table.registry.files.evolved.find()
    return found.state if found is not None and found.epoch == table.epoch().number else {}


def _check_left(spark: SparkSession, table: Table, name: str, before: str) -> None:
    """Refuse to make a table of a name that another folder has."""
    if _owner(spark, before) == table.spec.table:
        raise InputError(
            f"state table {name!r} is at {before}",
            f"{name} ({table.spec.state[name].path})",
            "Set its path back in the spec, or give the new table another name",
        )


def _may_go(spark: SparkSession, table: Table, name: str, path: str, intent: Intent) -> bool:
    """Return whether a table that the spec no longer has is to be released.

    Raises
    ------
    InputError : nothing says so; or another registry keeps it, as if this one is a copy
    """
    if _owner(spark, path) != table.spec.table:
        return False
    where, wanted = f"{name} ({path})", name in intent.drops
    keeper = state.properties(spark, path).get(REGISTRY_PROPERTY, table.registry.url)
    if keeper != table.registry.url:
        if wanted:
            raise InputError(
                f"registry {keeper} keeps it, and this one is {table.registry.url}",
                where,
                "Release it with the spec of that registry. If the registry has moved: ALTER TABLE "
                f"{state.sql_name(path)} SET TBLPROPERTIES ('{REGISTRY_PROPERTY}' = "
                f"'{table.registry.url}'), then run this again",
            )
        return False
    if not wanted:
        raise InputError(
            f"state table {name!r} is not in the spec, and nothing says what became of it",
            where,
            f"Put it back into the spec; or give --drop {name}: its constraint and its "
            "properties go, its files stay",
        )
    return True


def create(
    spark: SparkSession,
    table: Table,
    name: str,
    columns: StructType,
    until: date | None,
    function: PartitioningFunction,
) -> None:
    """Make a new state table, empty, under the current epoch. A second call goes on.

    Its first commit says that all windows up to `until` are in, so that the next one follows.

    Parameters
    ----------
    columns : that events make
    until : the day up to which the other tables have all events; None: they have none
    function : of the current epoch
    """
    path = table.spec.state[name].path
    if state.table_version(spark, path) < 0:
        if filesystem.occupied(spark, path):
            _clear(spark, path)
        end = None if until is None else until.isoformat()
        meta = {"step": "bootstrap", "end": end, "epoch": function.epoch}
        nullable = StructType([StructField(c.name, c.dataType) for c in columns])
        with commits.commit_session(spark, None, None, meta) as own:
            made = DeltaTable.createIfNotExists(own).location(path).addColumns(nullable)
            for key, value in first_properties(table, name).items():
                made = made.property(key, value)
            made.partitionedBy(state.CHANNEL).execute()
    with commits.commit_session(spark, None, None, {"step": "evolve"}) as own:
        name = constraints.epoch_name(function.epoch)
        constraints.add(own, path, name, constraints.rule(function))


def release(spark: SparkSession, path: str) -> None:
    """Take Evenkeel's constraint and properties out of a table, in one commit. Its rows stay."""
    version = state.table_version(spark, path)
    ours = [name for name in state.properties(spark, path) if name.startswith(_PREFIXES)]
    if ours:
        with commits.commit_session(spark, None, None, {"step": "release"}) as own:
            change(own, path, version, Layout(removed=ours))


def _owner(spark: SparkSession, path: str) -> str | None:
    """Return the table to whose spec a folder's state table belongs; None: to none."""
    if state.table_version(spark, path) < 0:
        return None
    return state.properties(spark, path).get(state.TABLE_PROPERTY)


def _half_made(spark: SparkSession, table: Table, path: str, begun: Mapping[str, str]) -> bool:
    """Return whether a table that was begun since the epoch is not there, or has no constraint."""
    if path not in begun.values() or path in {t.path for t in table.epoch().tables.values()}:
        return False
    return state.table_version(spark, path) < 0 or not constraints.our_constraints(spark, path)


def _check_free(spark: SparkSession, table: Table, name: str, begun: Mapping[str, str]) -> None:
    """Refuse a new table's folder that holds anything but what a killed call of ours has left."""
    path = table.spec.state[name].path
    if not filesystem.occupied(spark, path):
        return
    if path in begun.values():
        if state.table_version(spark, path) < 0:
            if filesystem.unfinished(spark, path) is not None:
                return
        elif (
            _owner(spark, path) == table.spec.table
            and state.properties(spark, path).get(REGISTRY_PROPERTY) == table.registry.url
        ):
            return
    raise InputError(
        "expected an empty folder for a new state table, found something in it",
        f"{name} ({path})",
        "Give the new table another path in the spec",
    )


def _clear(spark: SparkSession, path: str) -> None:
    """Remove what a first commit has left that was broken off."""
    written = filesystem.unfinished(spark, path)
    if written is None:
        return
    if (wait := math.ceil(written + QUIET_CREATE - time.time())) > 0:
        raise FenceError(
            "another job is making this table, or was broken off just now",
            path,
            f"Run this again in {wait} seconds",
        )
    filesystem.remove(spark, path)
