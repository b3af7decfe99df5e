"""CHECK constraints and generated columns of the team's own, and the columns that they name.

Delta changes no column that one of them names, and says so only once it is asked to.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import InputError
from partitioning.function.sql import quoted


def checked_columns(spark: SparkSession, path: str) -> dict[str, tuple[str, str]]:
    """Return the columns of a table that one names, each with what that is and how it goes."""
    found, stored = {}, state.schema(spark, path)
    named = {
        f"the constraint {name}": (sql, f"ALTER TABLE ... DROP CONSTRAINT {quoted(name)}")
        for name, sql in constraints.of(spark, path).items()
        if not name.startswith(constraints.OURS)
    }
    for name, sql in state.generated_columns(spark, path).items():
        named[f"the generated column {name}"] = sql, "Make a plain column of it"
    for what, (sql, way_out) in named.items():
        for column in stored.fieldNames():
            # Without the column Spark does not understand the SQL.
            others = StructType([f for f in stored if f.name != column])
            try:
                spark.createDataFrame([], others).select(F.expr(sql))
            except AnalysisException:
                found[column] = what, way_out
    return found


def refuse_checked(
    checked: Mapping[str, tuple[str, str]], change: str, column: str, where: str
) -> None:
    """Refuse to change a column that one of them names.

    Parameters
    ----------
    checked : as from `checked_columns`
    change : what is to be done with the column, as a verb
    where : the table, for the error

    Raises
    ------
    InputError : says what names it
    """
    if column in checked:
        what, way_out = checked[column]
        raise InputError(
            f"cannot {change} column {column!r}: {what} names it",
            where,
            f"{way_out}, then run this again",
        )
