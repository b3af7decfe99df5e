"""Joining partials of split keys: where a channel is no owner any longer, its partial becomes part
of the home's, in the one commit that takes it away.

Delta reads a MERGE's source as of its own transaction, so that what others wrote until then is
merged, and what they write meanwhile makes it fail (`tests/test_split_state.py`).
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.spec import TableSpec
from evenkeel.state_view import merged
from partitioning.errors import InputError
from partitioning.function import PartitioningFunction
from partitioning.hashing import Hashes
from partitioning.parts import listed_sql, settled_sql
from partitioning.sql import quoted
from spark_jobs.state import CHANNEL, SLOT, sql_name

#: Of the joined rows: whether the row is there afterwards.
_STAYS = "_stays"


def of_keys_sql(function: PartitioningFunction, hashes: Hashes) -> str:
    """SQL (BOOLEAN) for the rows of state of some keys, int64 (K,), at least one."""
    return listed_sql(function.key, len(function.slots), hashes, SLOT)


def belongs_sql(function: PartitioningFunction) -> str:
    """SQL (INT) for the channel where a row of state belongs."""
    return settled_sql(function, SLOT, CHANNEL)


def leaving_sql(target: PartitioningFunction, shared: Hashes) -> str:
    """SQL (BOOLEAN) for the partials of the keys `shared` that stand on none of their owners."""
    return f"{of_keys_sql(target, shared)} AND {CHANNEL} <> {belongs_sql(target)}"


def join_sql(spec: TableSpec, name: str, target: PartitioningFunction, shared: Hashes) -> str:
    """The MERGE that joins every leaving partial to its home's; run again it finds nothing."""
    table = spec.state[name]
    keys = [quoted(c) for c in spec.key]
    columns = [quoted(c) for c in table.columns]
    every = ", ".join(f"{sql} AS {quoted(c)}" for c, sql in merged(table).items())
    row, values = ", ".join([SLOT, *keys]), ", ".join(columns)
    ours = (
        f"SELECT *, {CHANNEL} <> _to AS _leaves FROM (SELECT *, {belongs_sql(target)} AS _to "
        f"FROM {sql_name(table.path)} WHERE {of_keys_sql(target, shared)})"
    )
    same = " AND ".join(f"t.{k} <=> s.{k}" for k in keys)
    every_column = [CHANNEL, SLOT, *keys, *columns]
    return (
        f"MERGE INTO {sql_name(table.path)} AS t USING ("
        f"WITH parts AS ({ours}) "
        f"SELECT {row}, _to AS {CHANNEL}, {every}, true AS {_STAYS} FROM parts "
        f"GROUP BY {row}, _to HAVING bool_or(_leaves) "
        f"UNION ALL SELECT {row}, {CHANNEL}, {values}, false FROM parts WHERE _leaves"
        f") AS s ON t.{SLOT} = s.{SLOT} AND {same} AND t.{CHANNEL} = s.{CHANNEL} "
        f"WHEN MATCHED AND NOT s.{_STAYS} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{c} = s.{c}' for c in columns)} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(every_column)}) "
        f"VALUES ({', '.join(f's.{c}' for c in every_column)})"
    )


def check_mergeable(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse state tables with a column that partials could not be merged in.

    Raises
    ------
    InputError : names the table, the column and what is wrong with it
    """
    for name, table in spec.state.items():
        rows = spark.read.format("delta").load(table.path)
        known = {CHANNEL, SLOT, *spec.key, *table.columns}
        if wrong := [c for c in rows.columns if c not in known]:
            raise InputError(
                f"has column {', '.join(map(repr, wrong))}, of which the spec says no merge: its "
                "keys cannot be split",
                f"{name} ({table.path})",
                "Name it under state in the spec, or do not allow splitting",
            )
        for column, sql in merged(table).items():
            if column not in rows.columns:
                raise InputError(f"has no column {column!r}", f"{name} ({table.path})")
            kind = rows.schema[column].dataType
            try:
                rows.agg(F.expr(f"CAST({sql} AS {kind.simpleString()})"))
            except AnalysisException as error:
                raise InputError(
                    f"column {column!r} is {kind.simpleString()}, which "
                    f"{table.columns[column].merge} does not merge "
                    f"({str(error).strip().splitlines()[0]})",
                    f"{name} ({table.path})",
                    "Correct its merge in the spec",
                ) from error
