"""The Iceberg tables of a spec, as evolve meets them.

All changes of a table are one commit: see `SchemaCommit`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from evenkeel.registry.files.records import Membership
from evenkeel.registry.state_view import slot_column
from evenkeel.spec.parts import SLOT
from evenkeel.table import Table
from evenkeel_spark.adoption.leaving import OUR_PROPERTIES
from evenkeel_spark.evolving.changes import Intent, TableChange
from evenkeel_spark.evolving.columns import TableColumns
from evenkeel_spark.evolving.port import NewTable
from evenkeel_spark.evolving.state_tables import is_half_left
from evenkeel_spark.evolving.widening import ICEBERG_RULES
from evenkeel_spark.iceberg.placing import name_column, place, slot_name
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.column_inputs import INPUTS_PROPERTY, check_made_of
from evenkeel_spark.tables.iceberg.checks import check_adopted, check_slot_column, iceberg_table
from evenkeel_spark.tables.iceberg.commits import PLACED
from evenkeel_spark.tables.iceberg.schema_commit import SchemaCommit, as_kept, columns_in_use
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.schema_edits import DropColumn
from evenkeel_spark.tables.table_properties import MADE_PROPERTY, made_properties
from evenkeel_spark.windows.iceberg.making import FIRST, create_table
from evenkeel_spark.windows.iceberg.snapshots import IcebergWindows
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction


@dataclass(frozen=True)
class IcebergEvolving:
    """The Iceberg tables of a spec: see `EvolvingTables`."""

    spark: SparkSession
    table: Table

    what_goes: ClassVar[str] = "its properties go"

    def check_owned(self, name: str) -> None:
        """Refuse a table of the spec that is not there, or is not ours."""
        check_adopted(self.table.spec, name, self._now(name))

    def properties(self, path: str) -> dict[str, str]:
        """Return the properties of the table of a name; none: there is no table."""
        one = IcebergTable(self.spark, path)
        return one.properties() if one.exists() else {}

    def moving(self, gone: Membership) -> str | None:
        """Return the slot's column of a table that has left, if it is of another epoch."""
        one = IcebergTable(self.spark, gone.path)
        one.refresh()
        found = slot_name(one)
        return None if found == slot_column(gone.epoch) else f"the column {found}"

    def joining(self, name: str, intent: Intent) -> bool:
        """Return whether a table that is to join was made already. Else its name must be free.

        One that is there was made by a call that was killed, or the registry was brought back from
        before it joined.

        Raises
        ------
        InputError : there is another table, or one that was made of other input columns
        """
        spec, where = self.table.spec, table_in_errors(self.table.spec, name)
        if not IcebergTable(self.spark, spec.state[name].path).exists():
            return False
        found, wanted = self._now(name).properties(), made_properties(self.table, name)
        ours = all(found.get(n) == value for n, value in wanted.items())
        if not ours or (
            MADE_PROPERTY in found and not is_half_left(self.table, spec.state[name].path)
        ):
            raise InputError(
                "expected no table of this name for a new state table, found one",
                where,
                "Give the new table another path in the spec",
            )
        check_made_of(spec, name, found, same=intent.same)
        return True

    def until(self, name: str) -> date | None:
        """Return the day up to which a table has all events; None: it has no window."""
        return IcebergWindows(self.spark, self.table).applied(name).until

    def check_admits(self, names: Collection[str], function: PartitioningFunction) -> None:
        """Refuse tables that are under another epoch."""
        spec = self.table.spec
        check_slot_column(spec, {name: self._now(name) for name in names}, function)

    def as_kept(self, columns: StructType) -> StructType:
        """Return columns by the types that the format keeps them by."""
        return as_kept(self.spark, columns)

    def columns(
        self, name: str, wanted: StructType, types: Mapping[str, str], intent: Intent
    ) -> TableColumns:
        """Read the columns of a table as they are now."""
        spec, one = self.table.spec, self._now(name)
        found = check_adopted(spec, name, one), one.schema()
        columns = TableColumns(spec, name, wanted, types, intent, *found, {}, ICEBERG_RULES)
        _refuse_in_use(one, columns.changes(), columns.where)
        return columns

    def step(
        self, name: str, look: Callable[[], TableColumns], function: PartitioningFunction
    ) -> bool:
        """Make all changes of a table in one commit; return False if none is left."""
        spec = self.table.spec
        one = IcebergTable(self.spark, spec.state[name].path)

        def once() -> list[TableChange]:
            commit = SchemaCommit.begin(one)
            crash_point("begun")
            check_slot_column(spec, {name: one}, function)
            columns = look()
            if changes := columns.changes():
                edits = [edit for change in changes for edit in change.edits]
                commit.commit(edits, columns.wanted_properties())
            return changes

        made = one.small_commit(once)
        crash_point("evolved")
        for change in made:
            say(f"{name}: {change.kind.value} {change.column}")
        return bool(made)

    def create(self, new: NewTable, function: PartitioningFunction) -> None:
        """Make a new table, empty, under the current epoch. A second call goes on."""
        spec, name = self.table.spec, new.name
        one = IcebergTable(self.spark, spec.state[name].path)
        properties = made_properties(self.table, name, new.types)
        if not one.exists():
            # Not `epoch`: that is said by commits which lead to one.
            said = {"step": "bootstrap", "end": new.until or "", PLACED: function.digest}
            none = self.spark.createDataFrame([], new.columns)
            named = none.withColumnRenamed(SLOT, slot_column(function.epoch))
            create_table(one, named, {**FIRST, **properties}, said)
            crash_point("created")
        one.refresh()
        # Another job may have been first to make it.
        if check_adopted(spec, name, one).get(INPUTS_PROPERTY) != properties[INPUTS_PROPERTY]:
            # A killed call has made it, and a person says that its inputs have other names by now.
            one.set_properties({INPUTS_PROPERTY: properties[INPUTS_PROPERTY]})
        where, now = table_in_errors(spec, name), one.epoch()
        if now is not None and now > function.epoch:
            raise FenceError(
                f"has the column {slot_column(now)}, and the newest epoch is {function.epoch}",
                where,
                "Bring back the registry that has that epoch, or give the new table another path",
            )
        # It may have been made under an epoch of before. If the registry was brought back from
        # before it joined, it has rows.
        name_column(self.table.registry, one, function.epoch)
        place(one, where, function, {"step": "repair", "epoch": function.epoch})

    def let_go(self, name: str, gone: Membership) -> bool:
        """Take Evenkeel's properties out of a table, in one commit. Its rows stay.

        Returns
        -------
        False if the registry has another record of the name by now; nothing was done then.

        Raises
        ------
        FenceError : its state moves
        """
        one, known = IcebergTable(self.spark, gone.path), self.table.registry.files.member(name)

        def once() -> bool:
            commit = SchemaCommit.begin(one)
            # Another call may have let it go, and a table of this name may have joined again.
            if known.find() != gone:
                return False
            if ours := [n for n in one.properties() if n.startswith(OUR_PROPERTIES)]:
                if self.moving(gone) is not None:
                    raise FenceError(
                        "its state moves", f"{name} ({gone.path})", "Run this again later"
                    )
                # A window that has begun must not come any more.
                commit.commit((), {}, ours)
            return True

        if not one.small_commit(once):
            return False
        # A killed window's. No maintain comes to this table any more.
        one.drop_branches()
        crash_point("let go")
        known.write(gone.model_copy(update={"guarded": False}))
        return True

    def _now(self, name: str) -> IcebergTable:
        return iceberg_table(self.spark, self.table.spec, name)


def _refuse_in_use(one: IcebergTable, changes: Iterable[TableChange], where: str) -> None:
    """Refuse to drop a column that something of the table names.

    Raises
    ------
    InputError : names both
    """
    dropped = [edit.name for c in changes for edit in c.edits if isinstance(edit, DropColumn)]
    used = columns_in_use(one) if dropped else {}
    for column in dropped:
        if (what := used.get(column)) is not None:
            raise InputError(
                f"cannot drop column {column!r}: {what} names it",
                where,
                "Take it out of there by ALTER TABLE, then run this again. A column of a partition "
                "field must stay: put it back into the spec",
            )
