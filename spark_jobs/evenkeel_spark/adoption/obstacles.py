"""Say what stands in the way of adopting a table: one error each, before anything is changed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.adoption.before import find_before
from evenkeel_spark.tables import filesystem
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.rows.comparable import incomparable
from evenkeel_spark.tables.table_properties import (
    ADOPTING_PROPERTY,
    REGISTRY_PROPERTY,
    TABLE_PROPERTY,
)
from partitioning.errors import EvenkeelError, InputError
from partitioning.function.hashing import KeyColumn

#: Seconds after the last commit of a streaming query for which it counts as running.
STREAMING = 600
_APPEND_ONLY = "delta.appendOnly"
#: Delta refuses deletion vectors beside these.
_ICEBERG = ("delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2")


def layout_problems(
    spark: SparkSession, spec: TableSpec, name: str, schema: StructType
) -> Iterator[EvenkeelError]:
    """Yield what stands in the way whatever rows there are."""
    where, path = table_in_errors(spec, name), spec.state[name].path
    yield from owner_problems(state.properties(spark, path), where)
    if ours := sorted(constraints.our_constraints(spark, path)):
        yield InputError(
            f"has the constraint {', '.join(ours)} of Evenkeel", where, "Release it first"
        )
    yield from _column_problems(spark, spec, name, schema)
    yield from _feature_problems(spark, spec, name)
    yield from _writer_problems(spark, spec, name)


def kinds_of(schema: StructType) -> dict[str, str]:
    """Return the types of columns by name, as SQL writes them."""
    return {field.name: field.dataType.simpleString() for field in schema}


def check_spec_columns(
    kinds: Mapping[str, str], key: Sequence[KeyColumn], others: Sequence[str], where: str
) -> None:
    """Check that a table has the columns that the spec names, so that its rows can be placed.

    Parameters
    ----------
    key : with the types that the input has

    Raises
    ------
    InputError : it lacks one, or a column of the key has another type than the input's
    """
    if missing := [c for c in (*(k.name for k in key), *others) if c not in kinds]:
        raise InputError(
            f"there is no column {', '.join(map(repr, missing))}",
            where,
            f"Its columns: {', '.join(list(kinds)[:40])}",
        )
    for column in key:
        if kinds[column.name] != column.type:
            raise InputError(
                f"key column {column.name!r}: expected {column.type}, as in the input, found "
                f"{kinds[column.name]}",
                where,
                "Convert one of them: a key must hash alike in both",
            )


def owner_problems(
    found: Mapping[str, str], where: str, ours: tuple[str, str] | None = None
) -> Iterator[EvenkeelError]:
    """Yield an error if a table of those properties is adopted already, or about to be.

    Parameters
    ----------
    ours : name and registry of the spec whose own table does no harm
    """
    owner, how = found.get(TABLE_PROPERTY), "adopted"
    if owner is None:
        owner, how = found.get(ADOPTING_PROPERTY), "being adopted"
    registry = found.get(REGISTRY_PROPERTY)
    if owner is not None and (owner, registry) != ours:
        yield InputError(
            f"is {how} as a table of {owner!r} with registry {registry}",
            where,
            f"Release it there first (`evenkeel release {owner}`), or correct the spec. If that "
            f"registry is lost, bring it back, or `evenkeel release {owner} --registry-lost`",
        )


def taken_problems(taken: Sequence[str], where: str) -> Iterator[EvenkeelError]:
    """Yield an error if a table has columns of the names that ours get."""
    if taken:
        yield InputError(
            f"has a column {', '.join(map(repr, taken))}, which Evenkeel would add",
            where,
            "Rename the column",
        )


def _column_problems(
    spark: SparkSession, spec: TableSpec, name: str, schema: StructType
) -> Iterator[EvenkeelError]:
    table, where = spec.state[name], table_in_errors(spec, name)
    kinds = kinds_of(schema)
    # Those that a release has left are ours.
    kept = find_before(state.properties(spark, table.path))
    released = kept is not None and CHANNEL in state.partition_columns(spark, table.path)
    left = {SLOT: "int", CHANNEL: "int"} if released else {}
    taken = [c for c in kinds if c.lower() in (SLOT, CHANNEL) and left.get(c) != kinds[c]]
    yield from taken_problems(taken, where)
    yield from incomparable(schema, where)


def _feature_problems(spark: SparkSession, spec: TableSpec, name: str) -> Iterator[EvenkeelError]:
    table, where = spec.state[name], table_in_errors(spec, name)
    found = state.properties(spark, table.path)
    if state.is_on(found, _APPEND_ONLY):
        yield InputError(
            f"is append-only ({_APPEND_ONLY}): its rows could not move",
            where,
            f"ALTER TABLE {state.sql_name(table.path)} UNSET TBLPROPERTIES ('{_APPEND_ONLY}')",
        )
    for iceberg in (name for name in _ICEBERG if state.is_on(found, name)):
        yield InputError(
            f"has {iceberg}, which allows no deletion vectors: a move would rewrite whole files",
            where,
            f"ALTER TABLE {state.sql_name(table.path)} SET TBLPROPERTIES ('{iceberg}' = 'false')",
        )
    if "clustering" in state.features(spark, table.path):
        yield InputError(
            "has liquid clustering, which cannot stand beside partitions",
            where,
            "Delta cannot drop this feature: copy the rows into a new table without CLUSTER BY "
            f"(CREATE TABLE ... USING delta AS SELECT * FROM {state.sql_name(table.path)})",
        )


def _writer_problems(spark: SparkSession, spec: TableSpec, name: str) -> Iterator[EvenkeelError]:
    for commit in commits.newest_first(spark, spec.state[name].path):
        age = time.time() - commit.timestamp
        if age > STREAMING:
            return
        if commit.operation == "STREAMING UPDATE":
            where = table_in_errors(spec, name)
            yield stream_problem(f"version {commit.version}", age, where)
            return


def stream_problem(wrote: str, age: float, where: str) -> InputError:
    """Return the error for a table that a stream writes.

    Parameters
    ----------
    wrote : the version or snapshot
    age : seconds since then
    """
    return InputError(
        f"a streaming query wrote {wrote} {age:.0f} s ago: it gives its rows no slot and channel",
        where,
        f"Stop it, wait {STREAMING:.0f} s, adopt, and let it route its rows",
    )


def row_problems(
    spec: TableSpec, name: str, nulls: int, rows: int, keys: int | None
) -> Iterator[EvenkeelError]:
    """Yield what is wrong with the keys.

    Parameters
    ----------
    nulls : rows with a null in the key
    rows, keys : of the table; no keys: each may have several rows
    """
    if nulls and spec.null_keys != "keep":
        yield InputError(
            f"{nulls:,} rows have a null in the key ({', '.join(spec.key)})",
            table_in_errors(spec, name),
            "Correct them, or set null_keys: keep in the spec",
        )
    if keys is not None and keys < rows:
        yield InputError(
            f"expected one row a key, found {rows:,} rows of {keys:,} keys",
            table_in_errors(spec, name),
            "Remove the duplicates, or set rows: many in the spec",
        )


def check_space(spark: SparkSession, rewrites: Iterable[tuple[str, str, int]]) -> None:
    """Refuse rewrites for which a store has no room, all together.

    Parameters
    ----------
    rewrites : of each table: its name in errors, the folder that is written to, and bytes

    Raises
    ------
    InputError : names the tables of the store, with the bytes needed and free
    """
    stores = defaultdict[str, list[tuple[str, str, int]]](list)
    for rewrite in rewrites:
        stores[filesystem.store_of(spark, rewrite[1])].append(rewrite)
    for found in stores.values():
        size = sum(size for *_, size in found)
        frees = [filesystem.free_bytes(spark, folder) for _, folder, _ in found]
        free = min((f for f in frees if f is not None), default=None)
        if free is not None and free < size:
            raise InputError(
                f"a rewrite needs {size:,} bytes, and {free:,} are free",
                ", ".join(where for where, *_ in found),
                "Make room: the old files stay for as long as the table keeps versions",
            )
