"""Values that a rewrite of a team's table would change: each is refused by name, before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, TimestampType

from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import EvenkeelError, InputError
from partitioning.function.sql import OURS, quoted, string_sql

#: Texts that Delta reads as null from a partition column.
_NULLS = ("", "__HIVE_DEFAULT_PARTITION__")


def value_problems(
    spark: SparkSession, path: str, rows: DataFrame, below: Sequence[str], where: str
) -> Iterator[EvenkeelError]:
    """Yield what a rewrite would change.

    Parameters
    ----------
    path, rows : of the table
    below : columns that are to partition it
    where : names it in errors
    """
    now = state.partition_columns(spark, path)
    yield from partition_problems(rows, [c for c in below if c not in now], where)
    yield from _zone_problems(spark, path, [c for c in now if c in rows.columns], where)
    yield from _generated_problems(spark, path, rows, where)
    yield from _check_problems(spark, path, rows, where)


def partition_problems(
    rows: DataFrame, columns: Sequence[str], where: str
) -> Iterator[EvenkeelError]:
    """Yield the columns that are to partition a table, and have values that become null there."""
    for name in columns:
        kind, column = rows.schema[name].dataType, F.col(quoted(name))
        if isinstance(kind, BinaryType):
            yield InputError(
                f"is to be partitioned by the binary column {name!r}, whose values become text",
                where,
                "Leave it out of partitions",
            )
        elif isinstance(kind, StringType) and (lost := rows.where(column.isin(*_NULLS)).count()):
            listed = ", ".join(map(string_sql, _NULLS))
            yield InputError(
                f"{lost:,} rows have an empty text in column {name!r}: as a partition it is null",
                where,
                f"Correct these rows ({quoted(name)} IN ({listed})), or partition by other columns",
            )


def _zone_problems(
    spark: SparkSession, path: str, partitions: Sequence[str], where: str
) -> Iterator[EvenkeelError]:
    """Yield partitions by a moment whose text has no zone: each session reads another moment."""
    names = state.names_in_files(spark, path)
    kinds = {field.name: field.dataType for field in state.schema(spark, path)}
    for name in (c for c in partitions if isinstance(kinds[c], TimestampType)):
        text = _partition_text(names[name])
        if not state.files(spark, path).where(text.isNotNull() & ~text.endswith("Z")).isEmpty():
            yield InputError(
                f"partition column {name!r} has times without a zone: each session reads others",
                where,
                "Write the table again in a session of your zone, with the setting "
                "spark.databricks.delta.write.utcTimestampPartitionValues=true",
            )


def _partition_text(name: str) -> Column:
    """Return the text of a file's value of a partition column, of that name in files."""
    return F.get(F.filter("partition", lambda one: one["key"] == name), F.lit(0))["value"]


def _generated_problems(
    spark: SparkSession, path: str, rows: DataFrame, where: str
) -> Iterator[EvenkeelError]:
    """Yield the generated columns whose values are others in UTC, where Evenkeel computes."""
    for name, sql in state.generated_columns(spark, path).items():
        if off := rows.where(f"NOT ({quoted(name)} <=> ({sql}))").count():
            yield InputError(
                f"generated column {name!r} differs from its SQL in UTC, in {off:,} rows: {sql}",
                where,
                "Correct these rows in UTC, or make a plain column of it",
            )


def _check_problems(
    spark: SparkSession, path: str, rows: DataFrame, where: str
) -> Iterator[EvenkeelError]:
    """Yield the team's own constraints that do not admit rows of the table as UTC has them."""
    for name, sql in constraints.of(spark, path).items():
        if name.startswith(OURS):
            continue
        # To Delta, a row for which the SQL is null is against it.
        if off := rows.where(f"NOT (({sql}) <=> true)").count():
            yield InputError(
                f"the table's own constraint {name} does not admit {off:,} rows in UTC: {sql}",
                where,
                "Correct these rows in UTC, or drop the constraint",
            )
