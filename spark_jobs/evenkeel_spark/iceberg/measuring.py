"""Measures of a branch and of where it began, for the gate."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from evenkeel.registry.files.migration_records import TableMigrated
from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel_spark.iceberg.migrate import branch_prefix
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.rows.checksums import (
    Content,
    channel_contents,
    duplicate_keys,
    larger,
    text_sql,
    total_content,
)
from partitioning.errors import FenceError


def measure_branch(
    migration: Migration, name: str, table: IcebergTable, moved: TableMigrated
) -> tuple[dict[str, Any], dict[int, int]]:
    """Measure one table before and after its move, for `tables_gate`.

    Returns
    -------
    The measures, and rows by channel.
    """

    table.refresh()
    ours = {at: n for n, at in table.refs().items() if n.startswith(branch_prefix(migration))}

    def rows(at: int) -> DataFrame:
        # A branch is read by the columns of now, and a snapshot by those of then.
        if at not in ours:
            raise FenceError(
                f"has lost its branch at snapshot {at}",
                table_in_errors(migration.table.spec, name),
                "Run verify again",
            )
        return table.rows(ours[at])

    def content(at: int) -> dict[int, Content]:
        found = rows(at)
        text = text_sql(found.schema, ())
        return channel_contents(found, migration.after, None, None, text, (SLOT, CHANNEL))

    after = content(moved.after)
    first, last = total_content(content(moved.before).values()), total_content(after.values())
    part = migration.table.spec.state[name]
    measures = {
        "table": name,
        "rows_before": first.rows,
        "rows_after": last.rows,
        "checksum_before": str(first.checksum),
        "checksum_after": str(last.checksum),
        "misplaced": last.misplaced,
        "duplicates": 0
        if part.rows == "many"
        else duplicate_keys(rows(moved.after), migration.after),
        "bytes_predicted": first.misplaced * moved.bytes_per_row + larger([first], first.misplaced),
        "bytes_written": moved.bytes,
        "files_written": moved.files,
    }
    return measures, {channel: c.rows for channel, c in after.items()}
