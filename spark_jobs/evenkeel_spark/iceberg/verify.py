"""Verify the branches of a migration, let main follow them, and publish the epoch.

Readers of main see the rows of a table before the move, or after it. The gate compares branch and
main before main follows. A row that comes to main meanwhile makes the branch too old: then the rows
are moved again, on a new branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from evenkeel.pipeline.publish import publish_checked
from evenkeel.quality.gates import tables_gate
from evenkeel.registry.epochs import Epoch
from evenkeel.registry.files.migration_records import MigrationRecord, TableMigrated, VerifyRecord
from evenkeel.registry.verdict import newest_attempt
from evenkeel_spark.iceberg.migrate import branch_prefix, fence, move
from evenkeel_spark.iceberg.placing import place
from evenkeel_spark.migration.fence import Migration, crash_point, published
from evenkeel_spark.migration.measuring.measures import channel_counts
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta.checksums import (
    Content,
    channel_contents,
    duplicate_keys,
    larger,
    text_sql,
    total_content,
)
from evenkeel_spark.tables.iceberg.checks import check_tables, table_in_errors
from evenkeel_spark.tables.iceberg.table import MAIN, IcebergTable, slot_column
from partitioning.errors import FenceError
from partitioning.moves.partial_rows import shared_keys

STEP = "verify"
#: Times that rows are moved again because others wrote meanwhile. After the first, writers by the
#: epoch before are refused, so that only those that had begun can still come.
ROUNDS = 10


def verify(spark: SparkSession, migration: Migration) -> None:
    """Pass the branches through the gate, let main follow them, and publish.

    Raises
    ------
    GateError : names every expectation that fails; main is as it was
    FenceError : something has changed since the plan, or others write all the time
    """
    if published(migration):
        say(f"epoch {migration.after.epoch} is published: nothing to do")
        return
    number = newest_attempt(migration.run, migration.plan.digest).number
    migration = replace(migration, attempt=number)
    tables = check_tables(spark, migration.table.spec)
    check_gate(migration, tables)
    for name, table in tables.items():
        close(migration, name, table)
    for _ in range(ROUNDS):
        if check_gate(migration, tables):
            break
        say("a table was changed meanwhile: its rows were moved again")
    else:
        raise FenceError(
            f"others wrote during each of {ROUNDS} moves", migration.run.url, "Run verify again"
        )
    record = migration.run.migration.read()
    migration.run.verify.write(
        VerifyRecord(
            digest=migration.plan.digest,
            epoch=migration.after.epoch,
            attempt=migration.attempt,
            tables={name: moved.after for name, moved in record.tables.items()},
        )
    )
    crash_point("verified")
    publish(spark, migration)


def publish(spark: SparkSession, migration: Migration) -> Epoch:
    """Let main follow the branches that have passed, and publish. Again: it goes on.

    Raises
    ------
    FenceError : the run was rolled back, or another run publishes this epoch
    GateError : the tables did not pass
    """
    table, run, plan = migration.table, migration.run, migration.plan
    tables = check_tables(spark, table.spec)

    def look() -> dict[str, int]:
        for name, one in tables.items():
            fence(migration, name, one)
        return run.verify.read().tables

    def land() -> dict[str, int]:
        table.registry.claim(migration.after.epoch, plan.digest)
        crash_point("claimed")
        return _follow(migration, tables)

    try:
        epoch = publish_checked(
            table.spec, table.registry, run, plan, migration.attempt, look, land
        )
    except FenceError:
        if not published(migration):
            raise
        epoch = table.registry.epoch(migration.after.epoch)
    say(f"epoch {epoch.number} is published")
    crash_point("landed")
    for name, one in tables.items():
        place(one, table_in_errors(table.spec, name), migration.after, migration.meta(STEP))
        one.drop_branches(branch_prefix(migration))
    return epoch


def close(migration: Migration, name: str, table: IcebergTable) -> None:
    """Refuse writers by the epoch before: they name a column that is there no more."""
    fence(migration, name, table)
    old, new = (slot_column(f.epoch) for f in (migration.before, migration.after))
    table.rename(old, new)
    crash_point("closed")
    try:
        fence(migration, name, table)
    except FenceError:
        # A rollback has begun, and may have looked before. No one else would open it again.
        if not published(migration):
            table.rename(new, old)
        raise


def check_gate(migration: Migration, tables: Mapping[str, IcebergTable]) -> bool:
    """Move the tables again whose main has moved, and pass all through the gate.

    Returns
    -------
    Whether each branch begins where main is, now that the gate has passed.
    """
    run = migration.run
    record = run.migration.read()
    if missing := set(tables) - set(record.tables):
        raise FenceError(
            f"{', '.join(sorted(missing))} not migrated to the end", run.url, "Migrate again first"
        )
    record = _up_to_date(migration, tables, record)
    shared = shared_keys(migration.before, migration.after)
    measures, found = [], {}
    for name, table in tables.items():
        say(f"{name}: measuring")
        measured, found[name] = _measure(migration, name, table, record.tables[name])
        measures.append(measured)
    channels = channel_counts(run.profile.read(), migration.after, measures, found, shared)
    gate = tables_gate(measures, channels, migration.plan, migration.table.registry.store, run.name)
    run.gate_tables.write(gate.record())
    gate.check(run.url)
    say("every expectation holds")
    return not any(_stale(tables[name], moved) for name, moved in record.tables.items())


def _stale(table: IcebergTable, moved: TableMigrated) -> bool:
    """Return whether main is neither where the branch began, nor has it followed the branch."""
    table.refresh()
    refs = table.refs()
    if refs[MAIN] == moved.before:
        return moved.after not in refs.values()
    return not table.descends(moved.after)


def _up_to_date(
    migration: Migration, tables: Mapping[str, IcebergTable], record: MigrationRecord
) -> MigrationRecord:
    """Move again the rows of tables whose main or branch is another one by now."""
    moved = dict(record.tables)
    for name, table in tables.items():
        if _stale(table, moved[name]):
            moved[name] = move(migration, name, table, STEP)
    found = record.model_copy(update={"tables": moved, "attempt": migration.attempt})
    migration.run.migration.write(found)
    return found


def _follow(migration: Migration, tables: Mapping[str, IcebergTable]) -> dict[str, int]:
    """Let main follow the branches that have passed the gate, and return main's snapshots."""
    landed: dict[str, int] = {}
    for _ in range(ROUNDS):
        record = migration.run.migration.read()
        for name, table in tables.items():
            moved = record.tables[name]
            table.refresh()
            branches = [n for n, at in table.refs().items() if at == moved.after and n != MAIN]
            if table.head() == moved.before and branches:
                table.follow(branches[0])
                crash_point("followed")
                table.refresh()
            if table.descends(moved.after):
                landed[name] = moved.after
        if len(landed) == len(tables):
            return landed
        # A writer that had begun before the table was closed has come in between.
        check_gate(migration, tables)
    raise FenceError(
        f"others wrote during each of {ROUNDS} moves", migration.run.url, "Run verify again"
    )


def _measure(
    migration: Migration, name: str, table: IcebergTable, moved: TableMigrated
) -> tuple[dict[str, Any], dict[int, int]]:
    """Measure one table before and after its move, for `tables_gate`.

    Returns
    -------
    The measures, and rows by channel.
    """

    def content(at: int) -> dict[int, Content]:
        rows = table.rows(at)
        return channel_contents(rows, migration.after, None, None, text_sql(rows.schema, ()))

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
        else duplicate_keys(table.rows(moved.after), migration.after),
        "bytes_predicted": first.misplaced * moved.bytes_per_row + larger([first], first.misplaced),
        "bytes_written": moved.bytes,
        "files_written": moved.files,
    }
    return measures, {channel: c.rows for channel, c in after.items()}
