"""Look at a team's table before it is adopted, and change nothing.

Says what is there, what would be rewritten, and what is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from evenkeel.spec.parts import StateTable
from evenkeel.spec.table_spec import CHANNEL, SLOT, TableSpec
from evenkeel_spark.events.reader import col, null_key
from evenkeel_spark.tables.delta import commits, constraints, filesystem, state
from evenkeel_spark.tables.delta.unfinished_table import REGISTRY_PROPERTY
from partitioning.errors import EvenkeelError, InputError
from partitioning.function.function import KeyColumn

#: Seconds after the last commit of a streaming query for which it counts as running.
STREAMING = 600
_APPEND_ONLY = "delta.appendOnly"


@dataclass(frozen=True)
class Survey:
    """What was found in one table.

    Parameters
    ----------
    name : of the state table, in the spec
    version : of the table that was looked at
    rows, size, files : of that version; size in bytes
    keys : distinct keys; None: not counted, as a key may have many rows
    partitions : columns that partition the table now
    seconds : that reading all keys took
    problems : why the table cannot be adopted; empty: it can
    """

    name: str
    version: int
    rows: int
    size: int
    files: int
    keys: int | None
    partitions: tuple[str, ...]
    seconds: float
    problems: tuple[EvenkeelError, ...]

    def lines(self, table: StateTable) -> Iterator[str]:
        """Yield what a person wants to know before a rewrite, a line each."""
        keys = "" if self.keys is None else f", {self.keys:,} keys"
        yield f"{self.name}: {self.rows:,} rows{keys}, {self.size:,} bytes in {self.files:,} files"
        yield (
            f"{self.name}: one commit would write all {self.size:,} bytes anew, with the columns "
            f"{SLOT} and {CHANNEL}; version {self.version} stays readable. Reading the keys took "
            f"{self.seconds:.1f} s; a rewrite takes a few times that"
        )
        if lost := [c for c in self.partitions if c not in table.partitions]:
            yield (
                f"{self.name}: is partitioned by {', '.join(self.partitions)}, and would not be by "
                f"{', '.join(lost)}; to keep that below {CHANNEL}, give "
                f"partitions: [{', '.join(self.partitions)}]"
            )
        for problem in self.problems:
            yield f"{self.name}: cannot be adopted: {problem}"


def look(spark: SparkSession, spec: TableSpec, name: str, key: Sequence[KeyColumn]) -> Survey:
    """Survey one table that is not adopted yet.

    Parameters
    ----------
    key : the function's, with the types that the input has

    Raises
    ------
    InputError : there is no Delta table, or it lacks a key column
    """
    table = spec.state[name]
    if state.table_version(spark, table.path) < 0:
        held = "something else" if filesystem.occupied(spark, table.path) else "nothing"
        raise InputError(
            f"expected a Delta table, found {held}", _where(spec, name), "Correct the path"
        )
    version = state.table_version(spark, table.path)
    rows = state.read_version(spark, table.path, version)
    problems = list(_layout_problems(spark, spec, name, rows.schema, key))
    if any("no column" in problem.what for problem in problems):
        raise problems[0]
    began = time.monotonic()
    count, nulls, keys = _counts(rows, spec, table)
    seconds = time.monotonic() - began
    problems += _row_problems(spec, name, nulls, count, keys)
    size, files = _size(spark, table.path, version)
    problems += _space_problems(spark, spec, name, size)
    partitions = tuple(_partitions(spark, table.path))
    return Survey(name, version, count, size, files, keys, partitions, seconds, tuple(problems))


def _where(spec: TableSpec, name: str) -> str:
    return f"{name} ({spec.state[name].path})"


def _partitions(spark: SparkSession, path: str) -> list[str]:
    detail = spark.sql(f"DESCRIBE DETAIL {state.sql_name(path)}").first()
    return list(detail["partitionColumns"]) if detail else []


def _size(spark: SparkSession, path: str, version: int) -> tuple[int, int]:
    found = state.snapshot_at(spark, path, version)
    return int(found.sizeInBytes()), int(found.numOfFiles())


def _counts(rows: DataFrame, spec: TableSpec, table: StateTable) -> tuple[int, int, int | None]:
    """Rows, rows with a null in the key, and distinct keys (if each must have one row)."""
    nulls = F.count_if(null_key(spec))
    if table.rows == "many":
        found = rows.agg(F.count(F.lit(1)), nulls).first()
        return (found[0], found[1], None) if found else (0, 0, None)
    by_key = rows.groupBy(*(col(c) for c in spec.key)).agg(F.count(F.lit(1)).alias("_rows"))
    null_rows = F.sum(F.when(null_key(spec), F.col("_rows")))
    found = by_key.agg(F.sum("_rows"), null_rows, F.count(F.lit(1))).first()
    return (found[0] or 0, found[1] or 0, found[2]) if found else (0, 0, 0)


def _layout_problems(
    spark: SparkSession, spec: TableSpec, name: str, schema: StructType, key: Sequence[KeyColumn]
) -> Iterator[EvenkeelError]:
    """Yield what stands in the way whatever rows there are."""
    table, where = spec.state[name], _where(spec, name)
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    if missing := [c for c in (*spec.key, *table.partitions) if c not in kinds]:
        yield InputError(
            f"there is no column {', '.join(map(repr, missing))}",
            where,
            f"Its columns: {', '.join(list(kinds)[:40])}",
        )
        return
    found = state.properties(spark, table.path)
    owner = found.get(state.TABLE_PROPERTY)
    if owner is not None:
        yield InputError(
            f"is adopted as a table of {owner!r} with registry {found.get(REGISTRY_PROPERTY)}",
            where,
            "Release it there first (`evenkeel release`), or correct the spec",
        )
    if ours := sorted(constraints.our_constraints(spark, table.path)):
        yield InputError(f"stands under {', '.join(ours)} of Evenkeel", where, "Release it first")
    for column in key:
        if kinds[column.name] != column.type:
            yield InputError(
                f"key column {column.name!r}: expected {column.type}, as in the input, found "
                f"{kinds[column.name]}",
                where,
                "Convert one of them: a key must hash alike in both",
            )
    if taken := [c for c in kinds if c.lower() in (SLOT, CHANNEL)]:
        yield InputError(
            f"has a column {', '.join(map(repr, taken))}, which Evenkeel would add",
            where,
            "Rename the column",
        )
    for field in schema:
        if not state.comparable(field.dataType):
            yield InputError(
                f"column {field.name!r} is {field.dataType.simpleString()}: rows with a map or a "
                "variant cannot be compared before and after they move",
                where,
                "Keep it in another table, or as an array of structs",
            )
    if found.get(_APPEND_ONLY) == "true":
        yield InputError(
            f"is append-only ({_APPEND_ONLY}): its rows could not move",
            where,
            f"ALTER TABLE {state.sql_name(table.path)} UNSET TBLPROPERTIES ('{_APPEND_ONLY}')",
        )
    if "clustering" in state.features(spark, table.path):
        yield InputError(
            "has liquid clustering, which cannot stand beside partitions",
            where,
            f"ALTER TABLE {state.sql_name(table.path)} CLUSTER BY NONE, then drop the feature",
        )
    yield from _writer_problems(spark, spec, name)


def _writer_problems(spark: SparkSession, spec: TableSpec, name: str) -> Iterator[EvenkeelError]:
    for commit in commits.newest_first(spark, spec.state[name].path):
        age = time.time() - commit.timestamp
        if age > STREAMING:
            return
        if commit.operation == "STREAMING UPDATE":
            yield InputError(
                f"a streaming query wrote version {commit.version} {age:.0f} s ago: it would fail, "
                "as it gives its rows no slot and channel",
                _where(spec, name),
                f"Stop it, wait {STREAMING:.0f} s, adopt, and let it route its rows",
            )
            return


def _row_problems(
    spec: TableSpec, name: str, nulls: int, rows: int, keys: int | None
) -> Iterator[EvenkeelError]:
    if nulls and spec.null_keys != "keep":
        yield InputError(
            f"{nulls:,} rows have a null in the key ({', '.join(spec.key)})",
            _where(spec, name),
            "Correct them, or set null_keys: keep in the spec",
        )
    if keys is not None and keys < rows:
        yield InputError(
            f"expected one row a key, found {rows:,} rows of {keys:,} keys",
            _where(spec, name),
            "Remove the duplicates, or set rows: many in the spec",
        )


def _space_problems(
    spark: SparkSession, spec: TableSpec, name: str, size: int
) -> Iterator[EvenkeelError]:
    free = filesystem.free_bytes(spark, spec.state[name].path)
    if free is not None and free < size:
        yield InputError(
            f"a rewrite needs {size:,} bytes, and {free:,} are free",
            _where(spec, name),
            "Make room: the old files stay for as long as the table keeps versions",
        )
