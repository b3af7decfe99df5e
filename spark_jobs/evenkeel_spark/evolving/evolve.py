"""Evolve: bring state tables and their columns to what their spec says, while epochs go on.

No row is rewritten, and no history is built: what is new has what windows bring from now on. Each
step is one commit and looks first, so a call that is killed anywhere is run again. Both formats
have the same changes. Only the commits differ: see `EvolvingTables`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.records import Membership
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.pruning import may_move, readable_plan
from evenkeel.registry.verdict import has_started, newest_attempt, withdraw
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.events.aggregate import fold, of_table
from evenkeel_spark.events.reader import check_key, read_events
from evenkeel_spark.evolving.changes import Intent, TableChange
from evenkeel_spark.evolving.columns import TableColumns
from evenkeel_spark.evolving.delta_tables import DeltaEvolving
from evenkeel_spark.evolving.iceberg.tables import IcebergEvolving
from evenkeel_spark.evolving.joining import check_current, record_members, restore_members
from evenkeel_spark.evolving.port import EvolvingTables, NewTable
from evenkeel_spark.evolving.state_tables import StateTables, find_tables
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.write_session import own_session
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction

_AGAIN = (
    "Let it end, or roll it back, with the spec as it was. If columns have changed already, do so "
    "with the spec as it is. Then run this again"
)


@dataclass(frozen=True, eq=False)
class Evolution:
    """Changes that are to be made, and the state of things that they were found in.

    Parameters
    ----------
    port : the tables by their format
    function : of the current epoch
    wanted : columns that events make by now, by state table
    types : Spark's simple name of the type of each input column
    tables : which are there, are new, or are to go
    changes : what is to be done, in order
    """

    spark: SparkSession
    table: Table
    port: EvolvingTables
    intent: Intent
    function: PartitioningFunction
    wanted: dict[str, StructType]
    types: dict[str, str]
    tables: StateTables
    changes: list[TableChange]

    def columns(self, name: str) -> TableColumns:
        """Read the columns of a state table as they are now."""
        return self.port.columns(name, self.wanted[name], self.types, self.intent)


def evolve(
    spark: SparkSession,
    table: Table,
    intent: Intent,
    dry_run: bool = False,
    show: Callable[[list[TableChange]], None] = lambda _: None,
) -> list[TableChange]:
    """Change the state tables to what the spec says. A second call finds nothing to do.

    Plans that wait to be carried out are withdrawn, because they were made for other tables.

    Parameters
    ----------
    intent : what the spec cannot say
    dry_run : find what is to change, and change nothing
    show : is given the changes before the first is made, if there are any

    Returns
    -------
    The changes that were made, or would be.

    Raises
    ------
    InputError : something cannot be done, or nothing says what became of a column. No table was
        changed then
    FenceError : a run moves state, or another epoch was published meanwhile
    """
    found = survey(own_session(spark), table, intent)
    _check_resting(table.registry)
    if found.changes:
        show(found.changes)
    if dry_run or not found.changes:
        return found.changes
    _withdraw_plans(table.registry)
    for name in found.tables.kept:
        step = partial(found.port.step, name, partial(found.columns, name), found.function)
        while retry_on_conflict(spark, step, name):
            pass
    for name in found.tables.new:
        new = NewTable(name, found.wanted[name], found.types, found.tables.until)
        retry_on_conflict(spark, partial(found.port.create, new, found.function), name)
        say(f"{name}: made, under epoch {found.function.epoch}")
    # Their records name the old folders, and a table of such a name may join elsewhere.
    _let_go(found, {n: g for n, g in found.tables.guarded.items() if n not in found.tables.left})
    before = record_members(table, found.tables, found.function)
    try:
        # A run that has started since may not know yet that tables have joined or left.
        _withdraw_plans(table.registry)
    except BaseException:
        restore_members(table, before)
        raise
    _let_go(found, {n: g for n, g in found.tables.guarded.items() if n in found.tables.left})
    check_current(table, found.function)
    found.port.check_admits(list(table.spec.state), found.function)
    return found.changes


def survey(spark: SparkSession, table: Table, intent: Intent) -> Evolution:
    """Find what is to change. Everything that can be refused is refused here.

    Raises
    ------
    InputError, FenceError : as for `evolve`
    """
    spec = table.spec
    if spec.plain:
        raise InputError(
            "its state tables are the team's own (`rows`): their columns are not in the spec",
            f"spec of {spec.table}",
            "Change them by ALTER TABLE as you like, but for slot, channel and the key",
        )
    port = IcebergEvolving(spark, table) if spec.iceberg else DeltaEvolving(spark, table)
    function = table.epoch().function
    tables = find_tables(port, table, intent, function)
    port.check_admits(tables.kept, function)
    events = read_events(spark, spec, function)
    check_key(events, spec, function.key)
    made = _wanted(events, spec, function)
    wanted = {name: port.as_kept(columns) for name, columns in made.items()}
    types, changes = dict(events.dtypes), tables.changes(function, port.what_goes)
    found = Evolution(spark, table, port, intent, function, wanted, types, tables, changes)
    for name in tables.kept:
        found.changes.extend(found.columns(name).changes())
    return found


def _let_go(found: Evolution, gone: Mapping[str, Membership]) -> None:
    for name, record in gone.items():
        step = partial(found.port.let_go, name, record)
        if retry_on_conflict(found.spark, step, name):
            say(f"{name}: let go")


def _wanted(
    events: DataFrame, spec: TableSpec, function: PartitioningFunction
) -> dict[str, StructType]:
    """Return the columns that events make by now, by state table."""
    folded = fold(events.limit(0), spec, function).withColumn(state.CHANNEL, F.lit(0))
    return {name: _nullable(of_table(folded, spec, name).schema) for name in spec.state}


def _nullable(schema: StructType) -> StructType:
    """Return the schema with fields that may all be null, as tables keep them."""
    text = re.sub(r'"(nullable|containsNull|valueContainsNull)":false', r'"\1":true', schema.json())
    return StructType.fromJson(json.loads(text))


def _check_resting(registry: Registry) -> None:
    """Refuse to go on while a run moves state.

    Raises
    ------
    FenceError : names the run
    """
    current = registry.current().number
    for run, digest in _planned(registry):
        if has_started(run, digest) and may_move(registry, run.name, current):
            raise _moving(run)


def _withdraw_plans(registry: Registry) -> None:
    """Withdraw all plans from the current epoch, also those that were rolled back or refused.

    Raises
    ------
    FenceError : one moves state
    """
    for run, digest in _planned(registry):
        if not newest_attempt(run, digest).withdrawn:
            if not withdraw(run, digest):
                raise _moving(run)
            say(f"run {run.name}: its plan is withdrawn, because it was made for other tables")


def _planned(registry: Registry) -> Iterator[tuple[RunFiles, str]]:
    """Yield the runs with a plan from the current epoch, and the plan's digest."""
    current = registry.current().number
    for name in registry.store.names("runs"):
        run = registry.run(name)
        plan = readable_plan(run)
        if plan is not None and plan.parent_epoch >= current:
            yield run, plan.digest


def _moving(run: RunFiles) -> FenceError:
    return FenceError("it has begun to move state", run.url, _AGAIN)
