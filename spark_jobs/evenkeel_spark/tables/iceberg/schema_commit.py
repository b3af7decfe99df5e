"""Commits of an Iceberg table's columns that SQL cannot make.

A state table's columns and properties change in one commit, which moves main. For a change of
columns makes no snapshot, and main could follow a branch that was written by the columns of before.
A window would count as applied, and a new column would lack it for ever. Therefore the commit has a
snapshot, too, without rows. A job that has seen the snapshot before it finds that main has moved. A
job that sees this snapshot sees its columns and properties as well.

SQL changes one of the three at a time, so this is Iceberg's own transaction. A table is as it was
before or as it is after, wherever a process ends. Nor can SQL give a new column a default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from evenkeel.registry.state_view import slot_column
from evenkeel.spec.parts import CHANNEL
from evenkeel_spark.tables.iceberg.commits import SUMMARY
from evenkeel_spark.tables.iceberg.table import ADDED, IcebergTable
from evenkeel_spark.tables.schema_edits import AddColumn, DropColumn, RenameColumn, SchemaEdit

#: Value of the slot and the channel of rows from before a table was adopted.
UNPLACED = -1
#: Step that the snapshot of such a commit says. It brings no row.
EVOLVE = "evolve"


@dataclass(frozen=True)
class SchemaCommit:
    """A commit that is begun before the table is looked at, and fails if it has changed since."""

    spark: SparkSession
    transaction: Any

    @classmethod
    def begin(cls, table: IcebergTable) -> SchemaCommit:
        """Begin one from the table as it is now. Look at the table after that."""
        found = cls(table.spark, table.loaded().newTransaction())
        table.refresh()
        return found

    def commit(
        self,
        edits: Iterable[SchemaEdit],
        properties: Mapping[str, str],
        removed: Iterable[str] = (),
    ) -> None:
        """Make the edits in their order, set properties, and move main, all in one commit.

        It fails like any commit that another one has beaten: see `once_free`.

        Parameters
        ----------
        removed : names of properties that go
        """
        # Iceberg makes a properties' change again upon what others have committed, but never one of
        # the columns. So there is one in any case.
        self.transaction.updateSchema().commit()
        for edit in edits:
            change = self.transaction.updateSchema()
            if isinstance(edit, RenameColumn):
                change.renameColumn(edit.name, edit.new)
            elif isinstance(edit, DropColumn):
                change.deleteColumn(edit.name)
            elif isinstance(edit, AddColumn):
                # No parent: else a name with a dot would be refused.
                change.addColumn(None, edit.name, self._type(edit.kind))
            else:
                change.updateColumn(".".join(edit.path), self._type(edit.kind))
            change.commit()
        setting = self.transaction.updateProperties()
        for name, value in properties.items():
            setting.set(name, value)
        for name in removed:
            setting.remove(name)
        setting.commit()
        # Last, so that the snapshot is read by the columns of after.
        self.transaction.newFastAppend().set(f"{SUMMARY}step", EVOLVE).commit()
        self.transaction.commitTransaction()

    def _type(self, kind: DataType) -> Any:
        one = StructType([StructField("x", kind)])
        return _converted(self.spark, one).findField("x").type()


def add_columns(table: IcebergTable, epoch: int) -> None:
    """Add slot and channel, which a writer has to give; rows from before have UNPLACED.

    A channel that a release has left stays optional. Writers have to give the slot.
    """
    jvm: Any = table.spark._jvm

    def once() -> None:
        if table.epoch() is not None:
            return
        names = [n for n in (slot_column(epoch), CHANNEL) if n not in table.schema().names]
        # Spark's SQL gives a new column of an Iceberg table no default, and makes it nullable.
        kind = jvm.org.apache.iceberg.types.Types.IntegerType.get()
        unplaced = jvm.org.apache.iceberg.expressions.Expressions.lit(UNPLACED)
        change = table.loaded().updateSchema()
        for name in names:
            change = change.addRequiredColumn(name, kind, ADDED, unplaced)
            change = change.updateColumnDefault(name, None)
        change.commit()

    table.small_commit(once)
    table.refresh()


def as_kept(spark: SparkSession, columns: StructType) -> StructType:
    """Return columns by the types that Iceberg keeps them by: int for smallint, say."""
    jvm: Any = spark._jvm
    kept = jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(_converted(spark, columns))
    return StructType.fromJson(json.loads(kept.json()))


def _converted(spark: SparkSession, columns: StructType) -> Any:
    jvm: Any = spark._jvm
    theirs = jvm.org.apache.spark.sql.types.DataType.fromJson(columns.json())
    return jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(theirs)


def columns_in_use(table: IcebergTable) -> dict[str, str]:
    """Return what of the table names a column, by the column, if Iceberg cannot drop it then.

    A partition field of before counts, too: without its column the files of a table cannot be
    listed, as of Iceberg 1.12.
    """
    loaded, named = table.loaded(), {}
    schema = loaded.schema()
    for spec in loaded.specs().values():
        for field in spec.fields():
            named[field.sourceId()] = f"the partition field {field.name()}"
    for number in schema.identifierFieldIds():
        named[number] = "an identifier field"
    for field in loaded.sortOrder().fields():
        named[field.sourceId()] = "the sort order"
    found = {schema.findColumnName(number): what for number, what in named.items()}
    return {
        column.name(): what
        for column in schema.columns()
        for name, what in found.items()
        if name == column.name() or (name or "").startswith(f"{column.name()}.")
    }
