"""The Delta tables of a spec, as evolve meets them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import ClassVar

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from evenkeel.registry.files.records import Membership
from evenkeel.table import Table
from evenkeel_spark.adoption.leaving import OUR_PROPERTIES
from evenkeel_spark.adoption.rewrite import Layout, change
from evenkeel_spark.adoption.team_checks import checked_columns
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.columns import TableColumns
from evenkeel_spark.evolving.port import NewTable
from evenkeel_spark.evolving.state_tables import is_half_left
from evenkeel_spark.evolving.statements import statements
from evenkeel_spark.evolving.widening import DELTA_RULES
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables import filesystem
from evenkeel_spark.tables.column_inputs import INPUTS_PROPERTY, check_made_of, inputs_text
from evenkeel_spark.tables.declared_columns import check_made_from_events
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_ours, check_slot_count
from evenkeel_spark.tables.delta.unfinished_table import (
    clear_unfinished,
    first_properties,
    guard_new,
)
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.table_properties import MADE_PROPERTY, made_properties, properties_sql
from evenkeel_spark.windows.applied_windows import applied
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction


@dataclass(frozen=True)
class DeltaEvolving:
    """The Delta tables of a spec: see `EvolvingTables`."""

    spark: SparkSession
    table: Table

    what_goes: ClassVar[str] = "its constraint and its properties go"

    def check_owned(self, name: str) -> None:
        """Refuse a table of the spec that is not there, or is not ours."""
        spec = self.table.spec
        check_made_from_events(check_ours(self.spark, spec, name), table_in_errors(spec, name))

    def properties(self, path: str) -> dict[str, str]:
        """Return the properties of the table at a place; none: there is no table."""
        there = state.table_version(self.spark, path) >= 0
        return state.properties(self.spark, path) if there else {}

    def moving(self, gone: Membership) -> str | None:
        """Return the other constraints than that of the epoch in which a table left, if any."""
        found = constraints.our_constraints(self.spark, gone.path)
        if found <= {constraints.epoch_name(gone.epoch)}:
            return None
        return f"the constraint {', '.join(sorted(found))}"

    def joining(self, name: str, intent: Intent) -> bool:
        """Return whether a table that is to join was made already. Else its place must be free.

        One that is there was made by a call that was killed, or the registry was brought back from
        before it joined.

        Raises
        ------
        InputError : the folder holds anything else, or a table that was made of other input columns
        FenceError : another call is making it, or was killed just now
        """
        spark, path = self.spark, self.table.spec.state[name].path
        there = state.table_version(spark, path) >= 0
        wanted = {state.VECTORS_PROPERTY: "true", **made_properties(self.table, name)}
        found = self.properties(path)
        ours = there and all(found.get(key) == value for key, value in wanted.items())
        free = ours and (MADE_PROPERTY not in found or is_half_left(self.table, path))
        free = free or not filesystem.occupied(spark, path)
        if not free and not clear_unfinished(spark, path, rows=False, dry_run=True):
            raise InputError(
                "expected an empty folder for a new state table, found something in it",
                f"{name} ({path})",
                "Give the new table another path in the spec",
            )
        check_made_of(self.table.spec, name, found, same=intent.same)
        return there

    def until(self, name: str) -> date | None:
        """Return the day up to which a table has all events; None: it has no window."""
        return applied(self.spark, self.table, name).until

    def check_admits(self, names: Collection[str], function: PartitioningFunction) -> None:
        """Refuse tables that are under another epoch."""
        spec = self.table.spec
        some = spec.model_copy(update={"state": {name: spec.state[name] for name in names}})
        check_slot_count(some, {name: self.properties(some.state[name].path) for name in names})
        constraints.check_admits(self.spark, some, function)

    def as_kept(self, columns: StructType) -> StructType:
        """Return columns by the types that the format keeps them by."""
        return columns

    def columns(
        self, name: str, wanted: StructType, types: Mapping[str, str], intent: Intent
    ) -> TableColumns:
        """Read the columns of a table as they are now."""
        spark, spec = self.spark, self.table.spec
        check_ours(spark, spec, name)
        path = spec.state[name].path
        found = state.properties(spark, path), state.schema(spark, path)
        checked = checked_columns(spark, path)
        return TableColumns(spec, name, wanted, types, intent, *found, checked, DELTA_RULES)

    def step(
        self, name: str, look: Callable[[], TableColumns], function: PartitioningFunction
    ) -> bool:
        """Make the first commit that is left for a table; return False if none is left."""
        path = self.table.spec.state[name].path
        constraints.check_unchanged(self.spark, self.table.spec, path, function)
        left = statements(look())
        if not left:
            return False
        with commits.our_commit(self.spark, None, None, {"step": "evolve"}) as own:
            own.sql(f"ALTER TABLE {state.sql_name(path)} {left[0]}")
        say(f"{name}: {left[0]}")
        return True

    def create(self, new: NewTable, function: PartitioningFunction) -> None:
        """Make a new table, empty, under the current epoch. A second call goes on."""
        spark, table = self.spark, self.table
        path = table.spec.state[new.name].path
        if state.table_version(spark, path) < 0:
            end = None if new.until is None else new.until.isoformat()
            clear_unfinished(spark, path, rows=False)
            meta = {"step": "bootstrap", "end": end, "epoch": function.epoch}
            with commits.our_commit(spark, None, None, meta) as own:
                nullable = StructType([StructField(c.name, c.dataType) for c in new.columns])
                made = DeltaTable.createIfNotExists(own).location(path).addColumns(nullable)
                for key, value in first_properties(table, new.name, new.types).items():
                    made = made.property(key, value)
                made.partitionedBy(state.CHANNEL).execute()
        inputs = {INPUTS_PROPERTY: inputs_text(table.spec, new.name, new.types)}
        if state.properties(spark, path).get(INPUTS_PROPERTY) != inputs[INPUTS_PROPERTY]:
            # A killed call has made it, and a person says that its inputs have other names by now.
            with commits.our_commit(spark, None, None, {"step": "evolve"}) as own:
                sql = properties_sql(inputs)
                own.sql(f"ALTER TABLE {state.sql_name(path)} SET TBLPROPERTIES {sql}")
        commit = partial(commits.our_commit, spark, None, None, {"step": "evolve"})
        guard_new(commit, path, function.epoch, constraints.fence_rule(table.spec, function))

    def let_go(self, name: str, gone: Membership) -> bool:
        """Take Evenkeel's constraint and properties out of a table, in one commit. Its rows stay.

        Returns
        -------
        False if the registry has another record of the name by now; nothing was done then.

        Raises
        ------
        FenceError : its state moves
        MetadataChangedException : somebody has changed the table since it was looked at
        """
        spark, table = self.spark, self.table
        version, known = state.table_version(spark, gone.path), table.registry.files.member(name)
        # Another call may have let it go, and a table of this name may have joined again.
        if known.find() != gone:
            return False
        ours = [n for n in state.properties(spark, gone.path) if n.startswith(OUR_PROPERTIES)]
        if ours:
            if self.moving(gone) is not None:
                raise FenceError("its state moves", f"{name} ({gone.path})", "Run this again later")
            with commits.our_commit(spark, None, None, {"step": "release"}) as own:
                change(own, gone.path, version, Layout(removed=ours))
        known.write(gone.model_copy(update={"guarded": False}))
        return True
