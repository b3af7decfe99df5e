"""Maintain Iceberg tables: place late rows, keep few files, and remove old snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import Row, SparkSession

from evenkeel.table import Table
from evenkeel_spark.iceberg.placing import STATEMENT_TRIES, place, slot_name
from evenkeel_spark.tables.iceberg.checks import (
    adopted_tables,
    check_slot_column,
)
from evenkeel_spark.tables.iceberg.commits import once_free
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.moving import check_no_run_moves
from evenkeel_spark.windows.iceberg.notes import renew_note
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import quoted

#: Snapshots that stay whatever their age.
KEPT_SNAPSHOTS = 2
_MAX_AGE = "history.expire.max-snapshot-age-ms"
_LEAST_KEPT = "history.expire.min-snapshots-to-keep"
#: Not `true`: no file may be removed, because other catalogs or branches may name it.
_COLLECTED = "gc.enabled"


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
        yield f"{name}, late rows", partial(_place, one, table_in_errors(spec, name), function)
        yield f"{name}, files", partial(_rewrite, one)
        if not spec.plain:
            # Before the snapshots that tell it are removed.
            yield f"{name}, windows", partial(renew_note, table, name, one, time.time())
        yield f"{name}, snapshots", partial(_expire, one, spec.keep)


def _place(table: IcebergTable, where: str, function: PartitioningFunction) -> str:
    meta = {"step": "maintain", "epoch": function.epoch}
    return f"{place(table, where, function, meta):,} placed"


def _rewrite(table: IcebergTable) -> str:
    def once() -> Row | None:
        order = f"'{quoted(slot_name(table))} ASC NULLS LAST'"
        return table.call("rewrite_data_files", {"strategy": "'sort'", "sort_order": order})

    # A writer that deletes rows of a file that is being rewritten is first.
    found = once_free(table.name, table.refresh, once, STATEMENT_TRIES)
    return f"{found[0] if found else 0} rewritten"


def _expire(table: IcebergTable, days: int) -> str:
    """Remove snapshots older than `keep` days; fewer if the table says so."""
    table.refresh()
    # A branch that a broken-off run has left would keep its snapshots for ever.
    table.drop_branches()
    found = table.properties()
    if found.get(_COLLECTED, "true").lower() != "true":
        return f"all stay: {_COLLECTED} is {found[_COLLECTED]}"
    own = timedelta(milliseconds=int(found.get(_MAX_AGE, 0)))
    oldest = datetime.now(UTC) - max(own, timedelta(days=days))
    arguments = {
        "older_than": f"TIMESTAMP '{oldest:%Y-%m-%d %H:%M:%S}'",
        "retain_last": str(max(KEPT_SNAPSHOTS, int(found.get(_LEAST_KEPT, 1)))),
    }
    table.small_commit(lambda: table.call("expire_snapshots", arguments))
    return f"those before {oldest:%Y-%m-%d} are removed"
