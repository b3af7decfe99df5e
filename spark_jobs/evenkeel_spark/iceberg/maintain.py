"""Maintain Iceberg tables: place late rows, keep few files, and remove old snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import Row, SparkSession

from evenkeel.table import Table
from evenkeel_spark.iceberg.placing import place_late, slot_name
from evenkeel_spark.tables.iceberg.checks import (
    adopted_tables,
    check_slot_column,
)
from evenkeel_spark.tables.iceberg.commits import STATEMENT_TRIES, once_free
from evenkeel_spark.tables.iceberg.retention import COLLECTED, kept_for, newest_kept
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.moving import check_no_run_moves
from evenkeel_spark.windows.iceberg.notes import renew_note
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import quoted

#: Property by which Iceberg tells the order that a table is written in; a table without has none.
SORT_ORDER = "sort-order"


def steps(spark: SparkSession, table: Table) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the name of each step, and the step, which says what it has done.

    Raises
    ------
    InputError : a table is not as the spec has it
    FenceError : a migration is under way
    """
    spec = table.spec
    tables = adopted_tables(spark, spec)
    function = table.epoch().function
    check_no_run_moves(spec, table.registry)
    check_slot_column(spec, tables, function)
    for name, one in tables.items():
        where, whole = table_in_errors(spec, name), spec.state[name].rows == "one"
        yield f"{name}, late rows", partial(_place, one, where, function, whole)
        yield f"{name}, files", partial(_rewrite, one)
        expire = partial(_expire, one, spec.keep)
        yield (
            f"{name}, snapshots",
            expire if spec.plain else partial(_noted, table, name, one, expire),
        )


def _place(table: IcebergTable, where: str, function: PartitioningFunction, whole: bool) -> str:
    meta = {"step": "maintain", "epoch": function.epoch}
    return f"{place_late(table, where, function, meta, whole):,} placed"


def _rewrite(table: IcebergTable) -> str:
    def once() -> Row | None:
        by = {"strategy": "'sort'"}
        # A table that a team keeps in an order of its own stays in it.
        if SORT_ORDER not in table.properties():
            by["sort_order"] = f"'{quoted(slot_name(table))} ASC NULLS LAST'"
        return table.call("rewrite_data_files", by)

    # A writer that deletes rows of a file that is being rewritten is first.
    found = once_free(table.name, table.refresh, once, STATEMENT_TRIES)
    return f"{found[0] if found else 0} rewritten"


def _noted(table: Table, name: str, one: IcebergTable, expire: Callable[[], str]) -> str:
    """Note again which windows are in, and remove snapshots only then: one of them may tell it."""
    return f"{renew_note(table, name, one, time.time())}; {expire()}"


def _expire(table: IcebergTable, days: int) -> str:
    """Remove snapshots older than `keep` days; fewer if the table says so."""
    table.refresh()
    # A branch that a broken-off run has left would keep its snapshots for ever.
    table.drop_branches()
    found = table.properties()
    if (kept := kept_for(found, days)) is None:
        return f"all stay: {COLLECTED} is {found[COLLECTED]}"
    oldest = datetime.now(UTC) - kept
    arguments = {
        "older_than": f"TIMESTAMP '{oldest:%Y-%m-%d %H:%M:%S}'",
        "retain_last": str(newest_kept(found)),
    }
    table.small_commit(lambda: table.call("expire_snapshots", arguments))
    return f"those before {oldest:%Y-%m-%d} are removed"
