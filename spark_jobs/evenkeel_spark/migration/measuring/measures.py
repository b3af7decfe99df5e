"""Measures of each state table before and after its moves, for the gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenkeel.registry.files.migration_records import TableMigrated
from evenkeel_spark.migration.measuring.table_versions import TableVersions
from evenkeel_spark.tables.rows.checksums import (
    larger,
)
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.workload.metrics import channel_sums
from partitioning.workload.profile import Profile, sums_by


def measure_table(
    versions: TableVersions, record: TableMigrated
) -> tuple[dict[str, Any], dict[int, int]]:
    """Measure one state table for `tables_gate`, and count its rows by channel.

    It compares the rows before and after the commits that moved rows. Rows that others wrote
    between two of these commits count on neither side. Batches that follow one another are one.

    Parameters
    ----------
    record : the table's part of migration.json

    Returns
    -------
    The measures, and rows by channel.
    """
    newest = versions.last(record.commits)
    moved = commit_spans(record.commits) or [(newest, newest)]
    part = versions.migration.table.spec.state[versions.name]
    before, after = ([versions.total(v) for v in ends] for ends in zip(*moved, strict=True))
    misplaced = sum(b.misplaced - a.misplaced for b, a in zip(before, after, strict=True))
    measures = {
        "table": versions.name,
        "rows_before": sum(b.rows for b in before) - sum(a.rows for a in after[:-1]),
        "rows_after": after[-1].rows,
        "checksum_before": str(
            sum(b.checksum for b in before) - sum(a.checksum for a in after[:-1])
        ),
        "checksum_after": str(after[-1].checksum),
        "misplaced": versions.total(newest).misplaced,
        "duplicates": 0 if part.rows == "many" else versions.duplicates(newest),
        # Moved rows with large values take more bytes than the mean row.
        "bytes_predicted": misplaced * record.bytes_per_row
        + sum(b.wide for b in before)
        + larger(before, misplaced),
        "bytes_written": record.bytes,
        "files_written": record.files,
    }
    if len(versions.shared):
        measures["merged_changed"] = sum(versions.changed(b, a) for b, a in moved)
        if part.copied:
            measures["copies_missing"] = versions.copies_due(newest)[0]
            # A copy that leaves writes nothing; a copy that comes has no row before.
            ends = [[come - leave for come, leave in map(versions.copies_due, p)] for p in moved]
            measures["bytes_predicted"] += record.bytes_per_row * sum(b - a for b, a in ends)
    return measures, {channel: c.rows for channel, c in versions.channels(newest).items()}


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


def channel_counts(
    profile: Profile,
    function: PartitioningFunction,
    measures: list[dict[str, Any]],
    found: dict[str, dict[int, int]],
    shared: Hashes,
) -> list[dict[str, Any]]:
    """Return rows of whole keys predicted and found, by channel, for `tables_gate`.

    A profile counts the rows of all state tables together, and keys have more rows in one table
    than in another. So only the sums over the tables can be compared. Adds each table's part of
    the rows that were counted to the measures, as `rows_weighed`.
    """
    # The number of a split key's partial rows depends on events to come, so it is not predicted.
    left = profile.heavy_rows * ~np.isin(profile.heavy, shared)
    away = sums_by(profile.heavy_slots, profile.heavy_rows - left, profile.slots)
    weighed = np.maximum(profile.rows - away, 0.0)
    predicted = dict(enumerate(channel_sums(function, profile, weighed, left).tolist()))
    total = sum(m["rows_before"] for m in measures)
    have = Counter[int]()
    for m in measures:
        share = m["rows_before"] / total if total else 0.0
        m["rows_weighed"] = round(share * float(weighed.sum()))
        have.update(found[m["table"]])
    return [
        {"channel": c, "rows_predicted": predicted.get(c, 0.0), "rows": have[c]}
        for c in sorted(predicted.keys() | have.keys())
    ]
