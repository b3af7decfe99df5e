"""The steps by which state tables join a spec whose epochs go on, and leave it again.

A new table is there, empty and guarded, before the registry's record; other jobs refuse it until
then. A table that leaves has its record before its constraint goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import partial

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from evenkeel.registry.files.records import Membership
from evenkeel.table import Table
from evenkeel_spark.adoption.release import OUR_PROPERTIES
from evenkeel_spark.adoption.rewrite import Layout, change
from evenkeel_spark.evolving.state_tables import StateTables, is_moving
from evenkeel_spark.tables.column_inputs import INPUTS_PROPERTY, inputs_text
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.unfinished_table import (
    clear_unfinished,
    first_properties,
    guard_new,
)
from partitioning.errors import FenceError
from partitioning.function.function import PartitioningFunction


def create(
    spark: SparkSession,
    table: Table,
    name: str,
    columns: StructType,
    types: Mapping[str, str],
    until: date | None,
    function: PartitioningFunction,
) -> None:
    """Make a new state table, empty, under the current epoch. A second call goes on.

    Its first commit says that all windows up to `until` are in, so that the next one follows.

    Parameters
    ----------
    columns : that events make
    types : Spark's simple name of the type of each input column
    function : of the current epoch
    """
    path = table.spec.state[name].path
    if state.table_version(spark, path) < 0:
        end = None if until is None else until.isoformat()
        clear_unfinished(spark, path, rows=False)
        meta = {"step": "bootstrap", "end": end, "epoch": function.epoch}
        with commits.our_commit(spark, None, None, meta) as own:
            nullable = StructType([StructField(c.name, c.dataType) for c in columns])
            made = DeltaTable.createIfNotExists(own).location(path).addColumns(nullable)
            for key, value in first_properties(table, name, types).items():
                made = made.property(key, value)
            made.partitionedBy(state.CHANNEL).execute()
    inputs = {INPUTS_PROPERTY: inputs_text(table.spec, name, types)}
    if state.properties(spark, path).get(INPUTS_PROPERTY) != inputs[INPUTS_PROPERTY]:
        # A killed call has made it, and a person says that its inputs have other names by now.
        with commits.our_commit(spark, None, None, {"step": "evolve"}) as own:
            sql = state.properties_sql(inputs)
            own.sql(f"ALTER TABLE {state.sql_name(path)} SET TBLPROPERTIES {sql}")
    commit = partial(commits.our_commit, spark, None, None, {"step": "evolve"})
    guard_new(commit, path, function.epoch, constraints.fence_rule(table.spec, function))


def record_members(
    table: Table, tables: StateTables, function: PartitioningFunction
) -> dict[str, Membership | None]:
    """Have the registry know the tables that join, and no more those that leave.

    Returns
    -------
    The record that each of them had before.

    Raises
    ------
    FenceError : another epoch was published meanwhile; nothing was recorded
    """
    check_current(table, function)
    joined = {
        name: Membership(
            epoch=function.epoch,
            function=function.digest,
            path=table.spec.state[name].path,
            left=False,
        )
        for name in tables.new
    }
    changed, files = joined | tables.left, table.registry.files
    before = {name: files.member(name).find() for name in changed}
    for name, one in changed.items():
        files.member(name).write(one)
    return before


def check_current(table: Table, function: PartitioningFunction) -> None:
    """Refuse to go on under an epoch that is not the current one any more.

    Raises
    ------
    FenceError : names both epochs
    """
    now = table.epoch().function
    if now.digest != function.digest:
        raise FenceError(
            f"epoch {now.epoch} was published meanwhile; this began under {function.epoch}",
            table.registry.url,
            "Run this again: it goes by the new epoch",
        )


def restore_members(table: Table, before: Mapping[str, Membership | None]) -> None:
    """Undo `record_members`."""
    for name, one in before.items():
        file = table.registry.files.member(name)
        if one is None:
            file.remove()
        else:
            file.write(one)


def let_go(spark: SparkSession, table: Table, name: str, gone: Membership) -> bool:
    """Take Evenkeel's constraint and properties out of a table, in one commit. Its rows stay.

    Returns
    -------
    False if the registry has another record of the name by now; nothing was done then.

    Raises
    ------
    FenceError : its state moves
    MetadataChangedException : somebody has changed the table since it was looked at
    """
    version, known = state.table_version(spark, gone.path), table.registry.files.member(name)
    # Another call may have let it go, and a table of this name may have joined again.
    if known.find() != gone:
        return False
    ours = [n for n in state.properties(spark, gone.path) if n.startswith(OUR_PROPERTIES)]
    if ours:
        if is_moving(spark, gone):
            raise FenceError("its state moves", f"{name} ({gone.path})", "Run this again later")
        with commits.our_commit(spark, None, None, {"step": "release"}) as own:
            change(own, gone.path, version, Layout(removed=ours))
    known.write(gone.model_copy(update={"guarded": False}))
    return True
