"""Evolve: bring state tables and their columns to what their spec says, while epochs go on.

No row is rewritten, and no history is built: what is new has what windows bring from now on. Each
step is one commit and looks first, so a call that is killed anywhere is run again.
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
from evenkeel_spark.evolving.columns import TableColumns, table_columns
from evenkeel_spark.evolving.joining import (
    check_current,
    create,
    let_go,
    record_members,
    restore_members,
)
from evenkeel_spark.evolving.state_tables import StateTables, find_tables
from evenkeel_spark.evolving.statements import statements
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_slot_count
from evenkeel_spark.tables.delta.write_session import own_session
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction

_AGAIN = "Let it end, or roll it back, with the spec as it was; then run this again"


@dataclass(frozen=True, eq=False)
class Evolution:
    """Changes that are to be made, and the state of things that they were found in.

    Parameters
    ----------
    function : of the current epoch
    wanted : columns that events make by now, by state table
    types : Spark's simple name of the type of each input column
    tables : which are there, are new, or are to go
    changes : what is to be done, in order
    """

    spark: SparkSession
    table: Table
    intent: Intent
    function: PartitioningFunction
    wanted: dict[str, StructType]
    types: dict[str, str]
    tables: StateTables
    changes: list[TableChange]

    def columns(self, name: str) -> TableColumns:
        """Read the columns of a state table as they are now."""
        spec, wanted = self.table.spec, self.wanted[name]
        return table_columns(self.spark, spec, name, wanted, self.types, self.intent)

    def path(self, name: str) -> str:
        """Return the folder of a state table of the spec."""
        return self.table.spec.state[name].path


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
        while retry_on_conflict(spark, partial(_step, found, name), name):
            pass
    for name in found.tables.new:
        step = partial(create, found.spark, table, name, found.wanted[name], found.types)
        until = found.tables.until
        retry_on_conflict(spark, partial(step, until, found.function), name)
        say(f"{name}: made, under epoch {found.function.epoch}")
    # Their records name the old folders, and a table of such a name may join elsewhere.
    _let_go(found, {n: g for n, g in found.tables.guarded.items() if n not in found.tables.left})
    before = record_members(table, found.tables, found.function)
    try:
        # A run that has started since may not know yet that tables have joined or left.
        _withdraw_plans(table.registry)
    except FenceError:
        restore_members(table, before)
        raise
    _let_go(found, {n: g for n, g in found.tables.guarded.items() if n in found.tables.left})
    check_current(table, found.function)
    constraints.check_admits(spark, table.spec, found.function)
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
    if spec.iceberg:
        raise InputError(
            "expected Delta tables, found Iceberg tables, which evolve does not change yet",
            f"spec of {spec.table}",
            "Set the columns back; or bootstrap another table by the new ones",
        )
    function = table.epoch().function
    tables = find_tables(spark, table, intent, function)
    kept = spec.model_copy(update={"state": {name: spec.state[name] for name in tables.kept}})
    check_slot_count(kept, tables.kept)
    constraints.check_admits(spark, kept, function)
    events = read_events(spark, spec, function)
    check_key(events, spec, function.key)
    wanted, types = _wanted(events, spec, function), dict(events.dtypes)
    changes = tables.changes(function)
    found = Evolution(spark, table, intent, function, wanted, types, tables, changes)
    for name in tables.kept:
        found.changes.extend(found.columns(name).changes())
    return found


def _step(found: Evolution, name: str) -> bool:
    """Make the first commit that is left for a state table; return False if none is left."""
    path = found.path(name)
    constraints.check_unchanged(found.spark, found.table.spec, path, found.function)
    left = statements(found.columns(name))
    if not left:
        return False
    with commits.our_commit(found.spark, None, None, {"step": "evolve"}) as own:
        own.sql(f"ALTER TABLE {state.sql_name(path)} {left[0]}")
    say(f"{name}: {left[0]}")
    return True


def _let_go(found: Evolution, gone: Mapping[str, Membership]) -> None:
    for name, record in gone.items():
        step = partial(let_go, found.spark, found.table, name, record)
        if retry_on_conflict(found.spark, step, name):
            say(f"{name}: let go")


def _wanted(
    events: DataFrame, spec: TableSpec, function: PartitioningFunction
) -> dict[str, StructType]:
    """Return the columns that events make by now, by state table."""
    folded = fold(events.limit(0), spec, function).withColumn(state.CHANNEL, F.lit(0))
    return {name: _nullable(of_table(folded, spec, name).schema) for name in spec.state}


def _nullable(schema: StructType) -> StructType:
    """Return the schema with fields that may all be null, as Delta keeps them."""
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
