"""The verification of a migration: measure every state table, run the gate, and seal.

A sealed table admits the new epoch's function alone. A table that does not pass stays unsealed,
for roll_back. It leaves runs/RUN/gate_tables.json and verify.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from evenkeel.quality.gates import tables_gate
from evenkeel.registry.files.migration_records import VerifyRecord
from evenkeel.registry.verdict import newest_attempt
from evenkeel_spark.migration.fence import fence
from evenkeel_spark.migration.measuring.measures import channel_counts, measure_table
from evenkeel_spark.migration.measuring.table_versions import TableVersions
from evenkeel_spark.migration.migrate import forward_migration, table_record
from evenkeel_spark.migration.table_migration import SWEEPS, TableMigration
from evenkeel_spark.migration.throttle import Throttle
from evenkeel_spark.plans.approved_plan import Migration, published
from evenkeel_spark.plans.attempts import check_newest_attempt, leave_verified, read_migrated
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.tables.rows.checksums import misplaced_rows
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import DamagedError, FenceError
from partitioning.moves.partial_rows import shared_keys

STEP = "verify"


def verify(spark: SparkSession, migration: Migration) -> VerifyRecord:
    """Measure, close the tables to the epoch before, sweep, run the gate, and seal.

    Returns
    -------
    The content of verify.json.

    Raises
    ------
    GateError : names every expectation that fails; the tables stay unsealed
    FenceError : something has changed since the plan, or rows are where neither epoch puts them
    """
    names = list(migration.table.spec.state)
    if published(migration):
        say(f"epoch {migration.after.epoch} is published: nothing to do")
        return migration.run.verify.read()
    number = newest_attempt(migration.run, migration.plan.digest).number
    migration = replace(migration, attempt=number)
    # Rows that a sweep moves count in the budget, too.
    throttle = Throttle(spark, migration)
    migrations = {name: forward_migration(spark, migration, name, STEP, throttle) for name in names}
    versions = [
        TableVersions(spark, migration, name, state.table_version(spark, migration.path(name)))
        for name in names
    ]
    for _ in range(SWEEPS):
        unsealed = [one for one in migrations.values() if not _sealed(spark, migration, one)]
        for one in unsealed:
            one.check_merges()
        # Read what there is to read before other writers are refused.
        measure(migration, versions)
        for one in unsealed:
            one.close()
            one.move(closed=True)
        check_gate(migration, versions)
        crash_point("measured")
        sealed = [one.seal() for one in migrations.values()]
        if all(sealed):
            break
        say("a table was changed meanwhile: sweeping again")
    else:
        raise FenceError(
            f"has rows that epoch {migration.after.epoch} does not admit, after {SWEEPS} sweeps",
            migration.run.url,
            repair_advice(migration.table.spec.table),
        )
    return leave_verified(
        migration, {n: state.table_version(spark, migration.path(n)) for n in names}
    )


def _sealed(spark: SparkSession, migration: Migration, one: TableMigration) -> bool:
    """Return whether a table has the new epoch's constraint; raise FenceError before migrate."""
    _, existing = fence(spark, migration, one.name)
    if migration.old in existing:
        raise FenceError(f"still has the constraint {migration.old}", one.where, "Migrate it first")
    return migration.new in existing


def measure(
    migration: Migration, versions: Sequence[TableVersions]
) -> tuple[list[dict[str, Any]], dict[str, dict[int, int]]]:
    """Measure all state tables, and write what sweeps have moved into migration.json.

    Returns
    -------
    Each table's measures; and its rows by channel, by the table's name.

    Raises
    ------
    FenceError : a table was not migrated to the end; or this attempt was ended meanwhile
    """
    record = read_migrated(migration)
    measures, found, tables = [], {}, dict(record.tables)
    for one in versions:
        known = tables[one.name].bytes_per_row
        tables[one.name] = table_record(one.spark, migration, one.name, known)
        say(f"{one.name}: measuring")
        with _readable(migration, one.name):
            measured, found[one.name] = measure_table(one, tables[one.name])
        measures.append(measured)
    check_newest_attempt(migration)
    migration.run.migration.write(record.model_copy(update={"tables": tables}))
    return measures, found


def check_gate(migration: Migration, versions: Sequence[TableVersions]) -> None:
    """Measure all state tables and pass them through the gate, or raise GateError."""
    measures, found = measure(migration, versions)
    run, shared = migration.run, shared_keys(migration.before, migration.after)
    channels = channel_counts(run.profile.read(), migration.after, measures, found, shared)
    gate = tables_gate(measures, channels, migration.plan, migration.table.registry.store, run.name)
    check_newest_attempt(migration)
    run.gate_tables.write(gate.record())
    for one, measured in zip(versions, measures, strict=True):
        # The gate counts them. Name one, because a fence by slot may have let it through.
        if measured["misplaced"] and migration.table.spec.fence == "slot":
            newest, _ = state.read_newest(one.spark, migration.path(one.name))
            if (wrong := misplaced_rows(newest, migration.after)) is not None:
                say(f"{one.name}: rows elsewhere: {wrong}")
    gate.check(run.url)
    say(gate.passed)


@contextmanager
def _readable(migration: Migration, name: str) -> Iterator[None]:
    """Turn Delta's refusal to read a version older than its retention into a DamagedError.

    Raises
    ------
    DamagedError : the versions before and after the move cannot be compared any more
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if "RETENTION_DURATION" not in str(error):
            raise
        raise DamagedError(
            "rows were moved longer ago than the table's versions stay readable (`keep` in the "
            f"spec: {migration.table.spec.keep} days): their rows from before cannot be compared",
            f"{name} ({migration.path(name)})",
            "Run the job roll_back, which reads no old version, then plan again",
        ) from error
