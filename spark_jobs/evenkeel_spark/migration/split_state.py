"""Merges of partial rows when a channel stops being an owner of a split key.

One commit removes the channel's partial row and merges it into the home channel's. In a table
whose rows are copied, that commit gives every owner its copy. Several rows of a key on one
channel, which appending writers leave, become one row, too.

Delta reads a MERGE's source as of its own transaction. So rows that others wrote before are
merged, and rows that they write meanwhile make it fail
(`tests/evenkeel_spark/migration/splitting/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.state_view import check_merges, held_sql, kinds, merged, width_sql
from evenkeel.spec.parts import StateTable
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.aggregate import exact
from evenkeel_spark.tables.delta.state import CHANNEL, SLOT, properties, schema, sql_name
from evenkeel_spark.tables.rows.placement_sql import belongs_sql, of_keys_sql
from evenkeel_spark.tables.rows.row_size import WIDTH
from evenkeel_spark.tables.spark_errors import first_line
from evenkeel_spark.tables.write_session import own_session
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.function.sql import quoted
from partitioning.moves.partial_rows import owners_sql

#: Advice for rows of a key that are already in the table, and too large to be merged.
BY_HAND = (
    "Find the key's rows in the state table by SELECT; correct or delete the wrong one by UPDATE "
    "or DELETE, which the table's constraint admits; then run this again"
)
#: Most keys with several rows to list by hash when these are merged. With more, the SQL covers all
#: keys.
MAX_LISTED_KEYS = 10_000
#: Column of a row that has yet to move: whether moving it writes a row.
WRITTEN = "_written"
#: Columns of a merged row: whether it is there afterwards, and whether it replaces several rows. An
#: UPDATE would give each of several rows the whole sum. So they are deleted and one is inserted.
_STAYS, _ANEW = "_evenkeel_stays", "_evenkeel_anew"
#: Columns of a row on its way: the channel that it goes to, and the one where it belongs.
_TO, _AT = "_evenkeel_to", "_evenkeel_at"


def selected_columns(table: StateTable, written: str = "true") -> str:
    """Return the SELECT list for a row that still has to move: WRITTEN and WIDTH."""
    return f"SELECT {written} AS {WRITTEN}, {width_sql(table) or '0L'} AS {WIDTH}"


@dataclass(frozen=True, eq=False)
class PartialMerge:
    """The rows of some keys of a state table, on their way to the keys' owners.

    Parameters
    ----------
    name : of the state table, in the spec
    target : function whose owners they are
    shared : int64 (K,), at least one: keys that are split before or after; None: all keys
    """

    spec: TableSpec
    name: str
    target: PartitioningFunction
    shared: Hashes | None

    def rows_to_move(self, version: int | None = None) -> str:
        """Return the query for the rows that `merge` still has to move.

        WRITTEN (BOOLEAN) says whether a row costs a write, and WIDTH how wide it then is. A partial
        row that leaves costs none, but the home row that it changes does. A new copy costs one.

        Parameters
        ----------
        version : of the state table; None: the newest
        """
        select = selected_columns(self.spec.state[self.name], _STAYS)
        return f"{select} FROM ({self._source(version)})"

    def held(self, kinds: Mapping[str, str]) -> str:
        """Return the query for the merged values, which fails if a column cannot hold its value.

        Parameters
        ----------
        kinds : type of each column, as from `state_view.kinds`
        """
        columns = self.spec.state[self.name].columns
        # The hash of all values is one row, for which every value has to be there.
        values = ", ".join(held_sql(quoted(c), kinds[c], quoted(c)) for c in columns)
        return f"SELECT max(xxhash64({values})) FROM ({self._source()}) WHERE {_STAYS}"

    def merge(self) -> str:
        """Return the MERGE that brings rows to their owners, one per channel.

        A partial row that leaves is merged into the home's. Each owner without a copy gets one. Run
        again, the MERGE finds nothing.
        """
        columns = [quoted(c) for c in self.spec.state[self.name].columns]
        keys = [quoted(c) for c in self.spec.key]
        same = " AND ".join(f"t.{k} <=> s.{k}" for k in keys)
        every_column = [CHANNEL, SLOT, *keys, *columns]
        return (
            f"MERGE INTO {self._read()} AS t USING ({self._source()}) AS s "
            f"ON t.{SLOT} = s.{SLOT} AND {same} AND t.{CHANNEL} = s.{CHANNEL} AND NOT s.{_ANEW} "
            f"WHEN MATCHED AND NOT s.{_STAYS} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{c} = s.{c}' for c in columns)} "
            f"WHEN NOT MATCHED AND s.{_STAYS} THEN INSERT ({', '.join(every_column)}) "
            f"VALUES ({', '.join(f's.{c}' for c in every_column)})"
        )

    def _source(self, version: int | None = None) -> str:
        """Return the rows that change: with new values to stay, with old ones to leave."""
        table = self.spec.state[self.name]
        values = ", ".join(quoted(c) for c in table.columns)
        some = ", ".join(f"any_value({quoted(c)})" for c in table.columns)
        every = ", ".join(f"{sql} AS {quoted(c)}" for c, sql in merged(table).items())
        row = ", ".join([SLOT, *(quoted(c) for c in self.spec.key)])
        if table.copied:
            reached = f"explode({owners_sql(self.target, SLOT)})"
            due = f"NOT bool_or({CHANNEL} = {_TO}) OR count(DISTINCT struct({values})) > 1"
        else:
            reached, due = _AT, f"bool_or({CHANNEL} <> {_TO})"
        several = f"count_if({CHANNEL} = {_TO}) > 1"
        of_keys = "true" if self.shared is None else of_keys_sql(self.target, self.shared)
        return (
            f"WITH parts AS (SELECT *, {belongs_sql(self.target)} AS {_AT} "
            f"FROM {self._read(version)} WHERE {of_keys}) "
            f"SELECT {row}, {_TO} AS {CHANNEL}, {every}, true AS {_STAYS}, {several} AS {_ANEW} "
            f"FROM (SELECT *, {reached} AS {_TO} FROM parts) GROUP BY {row}, {_TO} "
            f"HAVING {due} OR {several} "
            f"UNION ALL SELECT {row}, {CHANNEL}, {some}, false, false FROM parts "
            f"GROUP BY {row}, {CHANNEL} HAVING bool_or({CHANNEL} <> {_AT}) OR count(1) > 1"
        )

    def _read(self, version: int | None = None) -> str:
        at = "" if version is None else f" VERSION AS OF {version}"
        return sql_name(self.spec.state[self.name].path) + at


def check_mergeable(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse state tables with a column for which partial rows cannot be merged.

    Raises
    ------
    InputError : names the table, the column and what is wrong with it
    """
    for name, table in spec.state.items():
        if wrong := unmerged_columns(spark, spec, name):
            raise InputError(
                f"has column {', '.join(map(repr, wrong))}, of which the spec says no merge: its "
                "keys cannot be split",
                f"{name} ({table.path})",
                "Name it under state in the spec, or do not allow splitting",
            )
        rows = spark.read.format("delta").load(table.path)
        for column, sql in merged(table).items():
            kind = rows.schema[column].dataType
            try:
                rows.agg(F.expr(f"CAST({sql} AS {kind.simpleString()})"))
            except AnalysisException as error:
                raise InputError(
                    f"column {column!r} is {kind.simpleString()}, which "
                    f"{table.columns[column].merge} does not merge "
                    f"({first_line(error)})",
                    f"{name} ({table.path})",
                    "Correct its merge in the spec",
                ) from error


def unmerged_columns(spark: SparkSession, spec: TableSpec, name: str) -> list[str]:
    """List the columns of a state table for which the spec gives no merge.

    A MERGE of partial rows would lose their values.

    Raises
    ------
    InputError : the table lacks a column that the spec merges, or has made it by another merge
    """
    table = spec.state[name]
    check_merges(name, table, properties(spark, table.path))
    there = schema(spark, table.path).fieldNames()
    known = {CHANNEL, SLOT, *spec.key, *table.columns}
    unknown = [c for c in there if c not in known]
    for column in table.columns:
        if column not in there:
            raise InputError(
                f"expected column {column!r}, found {', '.join(there)}",
                f"{name} ({table.path})",
                f"Rename the column back: ALTER TABLE {sql_name(table.path)} RENAME COLUMN "
                f"{quoted(unknown[0])} TO {quoted(column)}; then run this again"
                if len(unknown) == 1
                else "Find in DESCRIBE HISTORY who took it away; bring it back; run this again",
            )
    return unknown


def check_nothing_lost(spark: SparkSession, spec: TableSpec, name: str) -> None:
    """Refuse to merge partial rows if a column without a merge was added since the plan.

    Raises
    ------
    InputError : names the column, and how to continue without losing its values
    """
    if wrong := unmerged_columns(spark, spec, name):
        raise InputError(
            f"has got column {', '.join(map(repr, wrong))}, of which the spec says no merge: its "
            "values would be lost where rows of split keys are merged",
            f"{name} ({spec.state[name].path})",
            "Name it under state in the spec, with a merge (such as max), run this again, then "
            "take it out of the spec again",
        )


def check_holds(spark: SparkSession, joining: PartialMerge) -> None:
    """Refuse a merge of partial rows whose value a column cannot hold. Write nothing.

    Raises
    ------
    InputError : names one such key, where the keys are listed, and says what to do
    """
    spec, name, own = joining.spec, joining.name, own_session(spark)
    path = spec.state[name].path
    types = kinds(schema(spark, path))

    def check(some: PartialMerge, where: str) -> None:
        with exact(where, BY_HAND):
            own.sql(some.held(types)).collect()

    try:
        check(joining, f"{name} ({path})")
    except InputError:
        keys = joining.shared
        if keys is None:
            raise
        while len(keys) > 1:
            first, rest = keys[: len(keys) // 2], keys[len(keys) // 2 :]
            try:
                check(replace(joining, shared=first), path)
                keys = rest
            except InputError:
                keys = first
        wrong = of_keys_sql(joining.target, keys)
        by = ", ".join(quoted(c) for c in spec.key)
        key = own.sql(f"SELECT DISTINCT {by} FROM {sql_name(path)} WHERE {wrong}").first()
        told = "" if key is None else ", ".join(f"{c} = {key[c]!r}" for c in spec.key)
        check(replace(joining, shared=keys), f"{name} ({path}), key {told}")
        raise
