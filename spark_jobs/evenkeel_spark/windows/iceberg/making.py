"""Bootstrap of Iceberg tables: each is made with its rows and properties in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import TableVersion
from evenkeel.registry.state_view import slot_column
from evenkeel.runs.planning import function_of_epoch_0
from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.events.aggregate import exact, of_table
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import read_events, typed_key
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.iceberg.checks import UPDATES_WELL, adopted_tables, check_registry
from evenkeel_spark.tables.iceberg.commits import PLACED, SUMMARY, commits_back
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from evenkeel_spark.tables.table_properties import (
    MADE_PROPERTY,
    SLOTS_PROPERTY,
    TABLE_PROPERTY,
    made_properties,
)
from evenkeel_spark.tables.write_session import in_session
from evenkeel_spark.windows.first_state import (
    check_made,
    check_same_events,
    first_state_note,
    made_from,
    rows_until,
)
from evenkeel_spark.windows.iceberg.merging import MERGES_WELL
from partitioning.errors import DamagedError, InputError

#: A table of format 3 has deletion vectors, so that a move writes no row that stays.
FIRST = {"format-version": "3", **UPDATES_WELL, **MERGES_WELL}
#: Types of a key that Iceberg keeps under another name. The key's type is part of the function.
_NOT_KEPT = ("tinyint", "smallint")


def bootstrap_iceberg(spark: SparkSession, table: Table, end: date | None) -> bool:
    """Make the tables and the epoch that are missing; as `bootstrap`, once."""
    spec = table.spec
    if table.registry.numbers():
        adopted_tables(spark, spec)
        return False
    events = read_events(spark, spec)
    function = function_of_epoch_0(spec, typed_key(events, spec))
    for column in function.key:
        if column.type in _NOT_KEPT:
            raise InputError(
                f"expected a key of types that Iceberg has, found {column.name!r} as {column.type}",
                spec.input.path,
                "Convert it to int in the input",
            )
    made, missing = made_from(spec, function, end), []
    tables = {name: IcebergTable(spark, part.path) for name, part in spec.state.items()}
    for name, one in tables.items():
        if _there(spec, name, one):
            check_made(one.properties(), table_in_errors(spec, name), made)
            _check_unused(spec, name, one)
        else:
            missing.append(name)
    if missing:
        rows = rows_until(events, spec, function, end)
        try:
            table.registry.store.check_exclusive()
            noted = first_state_note(made, rows, spec)
            for name in spec.state.keys() - set(missing):
                check_same_events(tables[name].properties(), table_in_errors(spec, name), noted)
            for name in missing:
                say(f"{name}: writing")
                ours = made_properties(table, name, dict(events.dtypes))
                properties = {**FIRST, **ours, MADE_PROPERTY: noted}
                said = {"step": "bootstrap", "end": end or "", PLACED: function.digest}
                written = of_table(rows, spec, name).withColumnRenamed(SLOT, slot_column(0))
                with reading(spec), exact(spec.input.path):
                    create_table(tables[name], written, properties, said)
                crash_point("created")
        finally:
            rows.unpersist()
    heads, noted = {}, ""
    for name, one in adopted_tables(spark, spec).items():
        # Another bootstrap may have been first, and of other events.
        found, where = one.properties(), table_in_errors(spec, name)
        check_made(found, where, made)
        noted = noted or found[MADE_PROPERTY]
        check_same_events(found, where, noted)
        heads[name] = TableVersion(one.name, one.head())
        say(f"{name}: ready at {one.name}")
    table.registry.publish(function, heads)
    crash_point("published")
    return True


def _there(spec: TableSpec, name: str, one: IcebergTable) -> bool:
    """Return whether there is such a table, which a bootstrap of this spec has made.

    Raises
    ------
    InputError : it is another one
    """
    if not one.exists():
        return False
    found = one.properties()
    if found.get(TABLE_PROPERTY) != spec.table or found.get(SLOTS_PROPERTY) != str(spec.slots):
        raise InputError(
            f"expected no table, or one of {spec.table} with {spec.slots} slots, found one of "
            f"{found.get(TABLE_PROPERTY)} with {found.get(SLOTS_PROPERTY)}",
            table_in_errors(spec, name),
            "Correct the path in the spec, or drop that table",
        )
    check_registry(spec, name, found)
    return True


def _check_unused(spec: TableSpec, name: str, one: IcebergTable) -> None:
    """Refuse a table that holds more than a bootstrap leaves."""
    made = commits_back(one.spark, one.sql, one.head())
    # A catalog may have compacted it meanwhile.
    steps = [c.summary.get(f"{SUMMARY}step") for c in made if c.operation != "replace"]
    if steps != ["bootstrap"] or one.epoch() != 0:
        raise DamagedError(
            f"is in use: {len(steps)} commits, column slot_{one.epoch()}, and no epoch is "
            f"published in {spec.registry}",
            table_in_errors(spec, name),
            "Correct `registry` in the spec, or bring the registry back from its backup",
        )


def create_table(
    one: IcebergTable, rows: DataFrame, properties: Mapping[str, str], said: Mapping[str, object]
) -> None:
    """Create a table with its rows in one commit, unless another job was first.

    Parameters
    ----------
    rows : with the slot's column by the name that it has in the table
    said : what its snapshot says of itself
    """
    names = one.name.rpartition(".")[0].split(".")
    one.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {'.'.join(f'`{n}`' for n in names)}")

    def create(own: SparkSession) -> None:
        writer = in_session(own, rows).writeTo(one.sql).using("iceberg")
        writer = writer.partitionedBy(F.col(CHANNEL))
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        writer.create()

    try:
        one.write(said, create)
    except SPARK_ERRORS as error:
        if "already exists" not in str(error):
            raise
        say(f"{one.name}: another job was first")
