"""Look at a team's table before it is adopted, and change nothing.

Says what is there, what would be rewritten, and what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.spec.parts import CHANNEL, SLOT, StateTable
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.adoption.before import Before, Changed, find_before
from evenkeel_spark.adoption.kept_values import value_problems
from evenkeel_spark.adoption.obstacles import (
    check_spec_columns,
    kinds_of,
    layout_problems,
    row_problems,
)
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import (
    col,
    null_key,
    read_events,
    refuse_null_keys,
    refuse_null_times,
)
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables import filesystem
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.delta.vacuum import retention
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.rows.placement_sql import misplaced_sql
from partitioning.errors import EvenkeelError, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import channel_sql, quoted
from partitioning.workload.metrics import imbalance

#: Bytes of a table that one core is taken to rewrite in a second, for the dry run alone. It is an
#: assumption: `make bench ARGS=adopt` prints what a machine does.
REWRITTEN = 10e6
_KEY_ROWS = "_evenkeel_rows"


@dataclass(frozen=True)
class Survey:
    """Hold what was found in one table.

    Parameters
    ----------
    name : of the state table, in the spec
    version : of the table that was looked at
    rows, size, files : of that version; size in bytes
    keys : distinct keys; None: not counted, as a key may have many rows
    channels : rows by channel, as the function places them
    partitions : columns that partition the table now
    before : what release is to bring back
    fits : the table was adopted before, and each row is where the function says
    added : features of Delta's protocol that the table would get
    problems : why the table cannot be adopted; empty: it can
    """

    name: str
    version: int
    rows: int
    size: int
    files: int
    keys: int | None
    channels: Mapping[int, int]
    partitions: tuple[str, ...]
    before: Before
    fits: bool
    added: tuple[str, ...]
    problems: tuple[EvenkeelError, ...]

    def found(self, function: PartitioningFunction) -> Iterator[str]:
        """Yield what is there, a line each.

        Parameters
        ----------
        function : that the table is to be placed by
        """
        yield content_line(self.name, self.rows, self.keys, self.size, self.files)
        yield evenness_line(self.name, self.channels, function)
        for problem in self.problems:
            yield f"{self.name}: cannot be adopted: {problem}"

    def changes(self, table: StateTable, cores: int) -> Iterator[str]:
        """Yield what an adoption would do, a line each, for a person to read before it.

        Parameters
        ----------
        table : its part of the spec
        cores : that a rewrite may use
        """
        if self.fits:
            yield f"{self.name}: one commit would set constraint and properties, and write no rows"
        else:
            yield from self._rewrite_lines(table, cores)
        if self.added:
            yield (
                f"{self.name}: its protocol would get {', '.join(self.added)}: readers and writers "
                "must know them. A release leaves them; ALTER TABLE ... DROP FEATURE takes them out"
            )

    def _rewrite_lines(self, table: StateTable, cores: int) -> Iterator[str]:
        yield (
            f"{self.name}: one commit would write all {self.size:,} bytes again, with the columns "
            f"{SLOT} and {CHANNEL}, and more where rows in the order of slots compress less"
        )
        yield seconds_line(self.name, self.size, cores)
        yield (
            f"{self.name}: a stream that reads this table stops at that commit. It has to start "
            "again with a new checkpoint. Readers of its change data feed get each row as deleted "
            "and inserted"
        )
        if lost := [c for c in self.partitions if c not in (CHANNEL, *table.partitions)]:
            kept = [c for c in self.partitions if c != CHANNEL]
            asked = yaml.safe_dump(kept, default_flow_style=True, width=10_000).strip()
            yield (
                f"{self.name}: is partitioned by {', '.join(kept)}, and would not be by "
                f"{', '.join(lost)}; to keep that below {CHANNEL}, give partitions: {asked}"
            )


def content_line(name: str, rows: int, keys: int | None, size: int, files: int) -> str:
    """Tell what a table holds; no keys: they were not counted, as each may have many rows."""
    counted = "" if keys is None else f", {keys:,} keys"
    return f"{name}: {rows:,} rows{counted}, {size:,} bytes in {files:,} files"


def seconds_line(name: str, size: int, cores: int) -> str:
    """Tell how long a rewrite of so many bytes takes on so many cores."""
    seconds = size / (REWRITTEN * max(1, cores))
    return (
        f"{name}: a rewrite takes about {seconds:,.0f} s on {cores} cores, if a core rewrites "
        f"{REWRITTEN / 1e6:.0f} MB a second (`make bench ARGS=adopt` measures it)"
    )


def look(spark: SparkSession, spec: TableSpec, name: str, function: PartitioningFunction) -> Survey:
    """Survey one table that is not adopted now.

    Parameters
    ----------
    function : that the table is to be placed by; its key has the types of the input

    Raises
    ------
    InputError : there is no Delta table, or its rows cannot be placed for lack of a column
    """
    table = spec.state[name]
    if state.table_version(spark, table.path) < 0:
        raise _no_delta(spark, table.path, table_in_errors(spec, name))
    version = state.table_version(spark, table.path)
    rows = state.read_version(spark, table.path, version)
    where = table_in_errors(spec, name)
    check_spec_columns(kinds_of(rows.schema), function.key, table.partitions, where)
    problems = list(layout_problems(spark, spec, name, rows.schema))
    size, files = _size(spark, table.path, version)
    say(f"{name}: reading {size:,} bytes in {files:,} files")
    count, nulls, keys, channels = count_rows(rows, spec, table, function)
    problems += row_problems(spec, name, nulls, count, keys)
    problems += value_problems(spark, table.path, rows, table.partitions, where)
    partitions = tuple(state.partition_columns(spark, table.path))
    fits = _fits(rows, function, partitions == (CHANNEL, *table.partitions))
    return Survey(
        name,
        version,
        count,
        size,
        files,
        keys,
        channels,
        partitions,
        _before(spark, spec, name, partitions),
        fits,
        tuple(sorted({"checkConstraints", "deletionVectors"} - state.features(spark, table.path))),
        tuple(problems),
    )


def _no_delta(spark: SparkSession, path: str, where: str) -> InputError:
    """Return the error of a folder that holds no Delta table."""
    if filesystem.has_parquet(spark, path):
        return InputError(
            "expected a Delta table, found Parquet files without Delta's log",
            where,
            f"Correct the path, or run in Spark: CONVERT TO DELTA parquet.{quoted(path)}, with "
            "PARTITIONED BY if it has partitions",
        )
    held = "something else" if filesystem.occupied(spark, path) else "nothing"
    return InputError(f"expected a Delta table, found {held}", where, "Correct the path")


def say_refused(spark: SparkSession, spec: TableSpec) -> None:
    """Say which events of the input would stop a window later, so that it is known before."""
    events, checks = read_events(spark, spec), [refuse_null_times]
    if spec.null_keys == "refuse":
        checks.append(lambda events, spec: refuse_null_keys(_null_keys(events, spec), spec))
    for check in checks:
        try:
            check(events, spec)
        except InputError as error:
            say(f"input: a window with such events is refused: {error}")


def _null_keys(events: DataFrame, spec: TableSpec) -> int:
    with reading(spec):
        return events.where(null_key(spec)).count()


def evenness_line(name: str, channels: Mapping[int, int], function: PartitioningFunction) -> str:
    """Say how even the rows of a table will be before its first rebalance.

    Parameters
    ----------
    channels : rows by channel, of those that have any
    """
    rows = np.zeros(len(function.channels))
    rows[list(channels)] = list(channels.values())
    fullest = imbalance(rows, function.capacities)
    return (
        f"{name}: by epoch {function.epoch} its fullest channel gets {fullest:.3f} times its share "
        "of the rows. A rebalance moves whole keys, so the heaviest one is its limit"
    )


def _before(spark: SparkSession, spec: TableSpec, name: str, partitions: Sequence[str]) -> Before:
    """Return what release is to bring back, and what adoption changes."""
    path = spec.state[name].path
    found, names = state.properties(spark, path), state.names_in_files(spark, path)
    # A release leaves its columns. If the team has partitioned the table since, it has reasons.
    earlier = find_before(found) if CHANNEL in partitions else None
    changes = {state.VECTORS_PROPERTY: "true", **retention(spark, path, spec.keep, at_least=True)}
    return Before(
        [names[c] for c in partitions] if earlier is None else earlier.partitions,
        {n: Changed(found.get(n), v) for n, v in changes.items() if found.get(n) != v},
    )


def _fits(rows: DataFrame, function: PartitioningFunction, partitioned: bool) -> bool:
    """Return whether rows have slot and channel already, as the function has them."""
    if not partitioned or not {SLOT, CHANNEL} <= set(rows.columns):
        return False
    return rows.where(misplaced_sql(function)).isEmpty()


def _size(spark: SparkSession, path: str, version: int) -> tuple[int, int]:
    found = state.snapshot_at(spark, path, version)
    return int(found.sizeInBytes()), int(found.numOfFiles())


def count_rows(
    rows: DataFrame, spec: TableSpec, table: StateTable, function: PartitioningFunction
) -> tuple[int, int, int | None, dict[int, int]]:
    """Count rows, rows with a null in the key, distinct keys (if each must have one row).

    The last is rows by channel.
    """
    one, channel = table.rows == "one", F.expr(channel_sql(function))
    if one:
        rows = rows.groupBy(*(col(c) for c in spec.key)).agg(F.count(F.lit(1)).alias(_KEY_ROWS))
    weight = F.col(_KEY_ROWS) if one else F.lit(1)
    found = rows.groupBy(channel).agg(
        F.sum(weight), F.sum(F.when(null_key(spec), weight)), F.count(F.lit(1))
    )
    by_channel = {r[0]: (r[1], r[2] or 0, r[3]) for r in found.collect()}
    count, nulls, groups = (sum(r[i] for r in by_channel.values()) for i in range(3))
    channels = {number: r[0] for number, r in by_channel.items()}
    return count, nulls, groups if one else None, channels
