"""The verification of a migration: measure every state table, run the gate, and seal.

A sealed table admits the new epoch's function alone. A table that does not pass stays unsealed,
for roll_back. It leaves runs/RUN/gate_tables.json and verify.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from evenkeel.quality.gates import tables_gate
from evenkeel.registry.files.migration_records import TableMigrated, VerifyRecord
from evenkeel.registry.state_view import wide_columns, width_sql
from evenkeel.registry.verdict import newest_attempt
from evenkeel_spark.migration.fence import Migration, crash_point, fence, published
from evenkeel_spark.migration.migrate import forward_migration, table_record
from evenkeel_spark.migration.split_state import WRITTEN, PartialMerge
from evenkeel_spark.migration.table_migration import SWEEPS
from evenkeel_spark.migration.throttle import Throttle
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.delta.checksums import (
    changed_values,
    channel_contents,
    duplicate_keys,
    larger,
    text_sql,
    total_content,
)
from evenkeel_spark.tables.delta.placement_sql import of_keys_sql
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import DamagedError, FenceError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.moves.partial_rows import shared_keys
from partitioning.workload.metrics import channel_sums
from partitioning.workload.profile import Profile, sums_by

STEP = "verify"


def measure_table(
    spark: SparkSession, migration: Migration, name: str, record: TableMigrated
) -> tuple[dict[str, Any], dict[int, int]]:
    """Measure one state table for `tables_gate`, and count its rows by channel.

    It compares the rows before and after the commits that moved rows. Rows that others wrote
    between two of these commits count on neither side. Batches that follow one another are one.

    Parameters
    ----------
    name : of the state table, in the spec
    record : the table's part of migration.json

    Returns
    -------
    The measures, and rows by channel.
    """
    path = migration.path(name)
    newest = state.table_version(spark, path)
    moved = commit_spans(record.commits) or [(newest, newest)]
    wanted = {newest, *(v for span in moved for v in span)}
    versions = {v: spark.read.format("delta").option("versionAsOf", v).load(path) for v in wanted}
    shared = shared_keys(migration.before, migration.after)
    width = width_sql(migration.table.spec.state[name])
    wide = wide_columns(migration.table.spec.state[name])
    # An append may have added a column: each version is read by its own columns.
    channels = {
        v: channel_contents(rows, migration.after, shared, width, text_sql(rows.schema, wide))
        for v, rows in versions.items()
    }
    totals = {v: total_content(found.values()) for v, found in channels.items()}
    before, after = ([totals[v] for v in ends] for ends in zip(*moved, strict=True))
    misplaced = sum(b.misplaced - a.misplaced for b, a in zip(before, after, strict=True))
    measures = {
        "table": name,
        "rows_before": sum(b.rows for b in before) - sum(a.rows for a in after[:-1]),
        "rows_after": after[-1].rows,
        "checksum_before": str(
            sum(b.checksum for b in before) - sum(a.checksum for a in after[:-1])
        ),
        "checksum_after": str(after[-1].checksum),
        "misplaced": totals[newest].misplaced,
        "duplicates": 0
        if migration.table.spec.state[name].rows == "many"
        else duplicate_keys(versions[newest], migration.after),
        # Moved rows with large values take more bytes than the mean row.
        "bytes_predicted": misplaced * record.bytes_per_row
        + sum(b.wide for b in before)
        + larger(before, misplaced),
        "bytes_written": record.bytes,
        "files_written": record.files,
    }
    if len(shared):
        parts = {v: r.where(of_keys_sql(migration.after, shared)) for v, r in versions.items()}
        spec = migration.table.spec
        measures["merged_changed"] = sum(
            changed_values(parts[b], parts[a], spec, name) for b, a in moved
        )
        if spec.state[name].copied:
            due = {v: _copies_due(spark, migration, name, shared, v) for v in versions}
            measures["copies_missing"] = due[newest][0]
            # A copy that leaves writes nothing; a copy that comes has no row before.
            more = {v: come - leave for v, (come, leave) in due.items()}
            copied = sum(more[b] - more[a] for b, a in moved)
            measures["bytes_predicted"] += record.bytes_per_row * copied
    return measures, {channel: c.rows for channel, c in channels[newest].items()}


def commit_spans(commits: Sequence[int]) -> list[tuple[int, int]]:
    """Return the versions before and after each run of commits between which nobody else wrote.

    Parameters
    ----------
    commits : versions, ascending
    """
    found: list[tuple[int, int]] = []
    for version in commits:
        follows = bool(found) and found[-1][1] == version - 1
        first = found.pop()[0] if follows else version - 1
        found.append((first, version))
    return found


def _copies_due(
    spark: SparkSession, migration: Migration, name: str, shared: Hashes, version: int
) -> tuple[int, int]:
    """Count the copies that a version of a state table lacks, and those that it has too many."""
    joining = PartialMerge(migration.table.spec, name, migration.after, shared)
    left = spark.sql(joining.left(version))
    found = dict(left.groupBy(WRITTEN).count().collect())
    return found.get(True, 0), found.get(False, 0)


def channel_counts(
    profile: Profile,
    function: PartitioningFunction,
    measures: list[dict[str, Any]],
    found: dict[str, dict[int, int]],
    shared: Hashes,
) -> list[dict[str, Any]]:
    """Return rows of whole keys predicted and found, by table and channel, for `tables_gate`.

    A profile weighs a table's state tables together, so each is predicted its part of the sum.
    Adds that part to the measures, as `rows_weighed`.
    """
    # The number of a split key's partial rows depends on events to come, so it is not predicted.
    left = profile.heavy_rows * ~np.isin(profile.heavy, shared)
    away = sums_by(profile.heavy_slots, profile.heavy_rows - left, profile.slots)
    weighed = np.maximum(profile.rows - away, 0.0)
    predicted = channel_sums(function, profile, weighed, left)
    total = sum(m["rows_before"] for m in measures)
    rows = []
    for m in measures:
        share = m["rows_before"] / total if total else 0.0
        m["rows_weighed"] = round(share * float(weighed.sum()))
        have = found[m["table"]]
        for channel in sorted(set(range(len(predicted))) | set(have)):
            expected = float(predicted[channel]) * share if channel < len(predicted) else 0.0
            rows.append(
                {
                    "table": m["table"],
                    "channel": channel,
                    "rows_predicted": expected,
                    "rows": have.get(channel, 0),
                }
            )
    return rows


def verify(spark: SparkSession, migration: Migration) -> VerifyRecord:
    """Close the tables to the epoch before, sweep, measure, run the gate, and seal.

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
    for _ in range(SWEEPS):
        for name, one in migrations.items():
            _, stands = fence(spark, migration, name)
            if migration.old in stands:
                raise FenceError(
                    f"still stands under {migration.old}", one.where, "Migrate it first"
                )
            if migration.new not in stands:
                one.check_merges()
                one.close()
                one.move(closed=True)
        check_gate(spark, migration)
        crash_point("measured")
        sealed = [one.seal() for one in migrations.values()]
        if all(sealed):
            break
        say("a table was changed meanwhile: sweeping again")
    else:
        raise FenceError(
            f"has rows that epoch {migration.after.epoch} does not admit, after {SWEEPS} sweeps",
            migration.run.url,
            constraints.mend(migration.table.spec.table),
        )
    record = VerifyRecord(
        digest=migration.plan.digest,
        epoch=migration.after.epoch,
        attempt=migration.attempt,
        tables={n: state.table_version(spark, migration.path(n)) for n in names},
    )
    migration.run.verify.write(record)
    return record


def check_gate(spark: SparkSession, migration: Migration) -> None:
    """Measure all state tables and pass them through the gate, or raise GateError."""
    run = migration.run
    measures, found = [], {}
    # A sweep may have added commits to what migrate recorded.
    record = run.migration.read()
    if missing := set(migration.table.spec.state) - set(record.tables):
        raise FenceError(
            f"{', '.join(sorted(missing))} not migrated to the end", run.url, "Migrate again first"
        )
    tables = dict(record.tables)
    for name in migration.table.spec.state:
        tables[name] = table_record(spark, migration, name, tables[name].bytes_per_row)
        say(f"{name}: measuring")
        with _readable(migration, name):
            measured, found[name] = measure_table(spark, migration, name, tables[name])
        measures.append(measured)
    run.migration.write(record.model_copy(update={"tables": tables}))
    channels = channel_counts(
        run.profile.read(),
        migration.after,
        measures,
        found,
        shared_keys(migration.before, migration.after),
    )
    gate = tables_gate(measures, channels, migration.plan, migration.table.registry.store, run.name)
    run.gate_tables.write(gate.record())
    gate.check(run.url)
    say("every expectation holds")


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
