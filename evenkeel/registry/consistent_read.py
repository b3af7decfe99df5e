"""Consistent reads: several state tables as of one epoch.

Each table is read at its newest version at which every row is where that epoch's function puts it.
During a migration, tables change to the next epoch one after the other. A reader of these versions
sees all tables before the change, or, once the epoch is published, all of them after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from evenkeel.registry.epochs import Epoch
from evenkeel.registry.state_view import iceberg_name, sql_name
from partitioning.errors import FenceError
from partitioning.function.sql import OURS, epoch_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Delta's error conditions for a version that is older than its files, or its log, are kept.
TOO_OLD = {
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "DELTA_VERSION_NOT_FOUND",
}
#: Part of Iceberg's message for a snapshot that has expired.
EXPIRED = "Cannot find snapshot"
#: What Spark shows for a property with a word such as url, token or password in it, `hourly` too.
REDACTED = "*********(redacted)"
_CONSTRAINT = "delta.constraints."
#: In the summary of an Iceberg move's snapshot: the epoch that it leads to.
EPOCH_SUMMARY, STEP_SUMMARY = "evenkeel.epoch", "evenkeel.step"
#: Steps whose commits bring rows that are elsewhere to where the epoch's function puts them.
PLACING_STEPS = ("repair", "maintain", "place")
_ADD, _DROP = "ADD CONSTRAINT", "DROP CONSTRAINT"
#: Times to look again if constraints change meanwhile; commits to read at first; and the factor by
#: which to read more if these do not reach back far enough.
_LOOKS, _COMMITS_AT_FIRST, _MORE = 10, 32, 8


@dataclass(frozen=True, eq=False)
class Snapshot:
    """State tables as of one epoch.

    Parameters
    ----------
    epoch : by whose function every row has its `channel`
    rows : of each table, by its name in the spec
    versions : of each table
    """

    epoch: Epoch
    rows: Mapping[str, DataFrame]
    versions: Mapping[str, int]


class Change(NamedTuple):
    """The change of one commit to a table's constraints: `added` or `dropped` one, or neither."""

    version: int
    added: str | None = None
    dropped: str | None = None


def consistent_snapshot(spark: SparkSession, epoch: Epoch, paths: Mapping[str, str]) -> Snapshot:
    """Read state tables as of an epoch.

    Parameters
    ----------
    epoch : the current one
    paths : folder of each state table, by name

    Raises
    ------
    FenceError : a table no longer has such a version
    """
    versions = {name: _version(spark, path, epoch.number) for name, path in paths.items()}
    rows = {name: _read(spark, path, versions[name], epoch.number) for name, path in paths.items()}
    return Snapshot(epoch, rows, versions)


def iceberg_snapshot(spark: SparkSession, epoch: Epoch, paths: Mapping[str, str]) -> Snapshot:
    """Read Iceberg tables as of an epoch. Parameters and errors are as above."""
    versions = {name: snapshot_under(spark, path, epoch, name) for name, path in paths.items()}
    rows = {
        name: spark.sql(f"SELECT * FROM {iceberg_name(path)} VERSION AS OF {versions[name]}")
        for name, path in paths.items()
    }
    return Snapshot(epoch, rows, versions)


def snapshot_under(spark: SparkSession, path: str, epoch: Epoch, name: str) -> int:
    """Return the newest snapshot of main whose rows are where an epoch's function puts them.

    A move of rows comes to main in one commit, which names the epoch that it leads to.

    Raises
    ------
    FenceError : it has expired, or main was rolled back to before the epoch
    """
    table = iceberg_name(path)
    spark.sql(f"REFRESH TABLE {table}")
    head = spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()
    rows = spark.sql(f"SELECT snapshot_id, parent_id, summary FROM {table}.snapshots").collect()
    known = {r[0]: (r[1], r[2] or {}) for r in rows}
    at, landed = head[0][0] if head else None, epoch.tables.get(name)
    found: list[int] = []
    while at in known:
        parent, summary = known[at]
        number = int(summary.get(EPOCH_SUMMARY, 0))
        placed = summary.get(STEP_SUMMARY) in PLACING_STEPS and number == epoch.number
        # Snapshots of before may name epochs of another registry, or those that a repair undid.
        if placed or (landed is not None and at == landed.version):
            found.append(at)
            break
        # All that came after a move to a later epoch stands by that epoch.
        found = [] if number > epoch.number else [*found, at]
        at = parent
    else:
        # Its commit is there and main does not come from it: somebody has rolled main back.
        if landed is not None and landed.version in known:
            found = []
    if not found:
        raise _none_left(path, epoch.number)
    return found[0]


def _read(spark: SparkSession, path: str, version: int, epoch: int) -> DataFrame:
    """Read a version. Delta refuses one that was committed before its retention, except the newest.

    It may have been the newest until state began to move.
    """
    from pyspark.errors import PySparkException

    try:
        return spark.sql(f"SELECT * FROM {sql_name(path)} VERSION AS OF {version}")
    except PySparkException as error:
        if error.getCondition() not in TOO_OLD:
            raise
        raise _none_left(path, epoch) from error


def _none_left(path: str, epoch: int) -> FenceError:
    return FenceError(
        f"has no version left at which epoch {epoch} alone holds",
        path,
        "If a migration is under way, wait for its DAG. Else run `evenkeel repair` for "
        "the table: it puts it under the current epoch alone",
    )


def newest_under(epoch: int, existing: Iterable[str], changes: Iterable[Change]) -> int | None:
    """Return the newest version at which an epoch's constraint is the only one of ours.

    Parameters
    ----------
    epoch : its number
    existing : constraints of the newest version
    changes : of each commit, newest first

    Returns
    -------
    The version; None: `changes` do not reach back to one.
    """
    wanted, now = {epoch_name(epoch)}, {c for c in existing if c.startswith(OURS)}
    for change in changes:
        if now == wanted:
            return change.version
        # Go back to the constraints of ours before this commit.
        now -= {change.added}
        now |= {name for name in (change.dropped,) if name and name.startswith(OURS)}
    return None


def _version(spark: SparkSession, path: str, epoch: int) -> int:
    """Find `newest_under` for a Delta table."""
    for _ in range(_LOOKS):
        before = newest_version(spark, path)
        existing = constraint_names(table_properties(spark, path))
        limit = _COMMITS_AT_FIRST
        while True:
            changes = _changes(spark, path, limit)
            since = [c for c in changes if c.version > before]
            if any(c.added or c.dropped for c in since):
                # `existing` was read before or after these changes: start again.
                break
            found = newest_under(epoch, existing, changes)
            if found is not None:
                return found
            if len(changes) < limit:
                raise _none_left(path, epoch)
            limit *= _MORE
    raise FenceError(
        f"its constraints changed at each of {_LOOKS} looks", path, "Read it again later"
    )


def newest_version(spark: SparkSession, path: str) -> int:
    """Return the newest version of a Delta table."""
    return _changes(spark, path, 1)[0].version


def table_properties(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the properties of a Delta table."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {sql_name(path)}").collect()
    found = {row["key"]: row["value"] for row in rows}
    if REDACTED in found.values():
        (told,) = spark.sql(f"DESCRIBE DETAIL {sql_name(path)}").select("properties").collect()
        found |= told["properties"]
    return found


def constraint_names(properties: Iterable[str]) -> set[str]:
    """Return the names of a Delta table's CHECK constraints, ours and others'."""
    return {n.removeprefix(_CONSTRAINT) for n in properties if n.startswith(_CONSTRAINT)}


def _changes(spark: SparkSession, path: str, limit: int) -> list[Change]:
    """Read the newest commits' changes, newest first."""
    found = spark.sql(f"DESCRIBE HISTORY {sql_name(path)} LIMIT {limit}")
    return [
        Change(
            row["version"],
            *(
                row["operationParameters"].get("name") if row["operation"] == o else None
                for o in (_ADD, _DROP)
            ),
        )
        for row in found.select("version", "operation", "operationParameters").collect()
    ]
