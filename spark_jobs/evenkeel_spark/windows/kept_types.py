"""Whether state columns keep what a window makes: a changed input must not be rounded silently."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, DecimalType, IntegralType, StructType

from evenkeel.spec.custom_merges import merges
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.aggregate import of_table
from evenkeel_spark.events.reader import col
from partitioning.errors import InputError

#: Types that another type holds exactly, besides its own.
_HELD = {
    "double": {"tinyint", "smallint", "int", "float"},
    "float": {"tinyint", "smallint"},
    "timestamp": {"date", "timestamp_ntz"},
    "timestamp_ntz": {"date", "timestamp"},
}


def holds_all(stored: DataType, made: DataType) -> bool:
    """Return whether a type takes each value of another one as it is, or fails aloud.

    A number that is too large fails aloud. Digits after the point, and times of a day, do not.
    """
    one, other = stored.simpleString(), made.simpleString()
    if one == other or other in _HELD.get(one, ()):
        return True
    if isinstance(stored, ArrayType) and isinstance(made, ArrayType):
        return holds_all(stored.elementType, made.elementType)
    if isinstance(stored, StructType) and isinstance(made, StructType):
        return stored.fieldNames() == made.fieldNames() and all(
            holds_all(a.dataType, b.dataType) for a, b in zip(stored, made, strict=True)
        )
    if not all(isinstance(k, DecimalType | IntegralType) for k in (stored, made)):
        return False
    return getattr(stored, "scale", 0) >= getattr(made, "scale", 0)


def may_keep(stored: DataType, made: DataType, merge: str) -> bool:
    """Return whether a state column may go on with its type, for what events make by now."""
    # A sum of doubles is rounded anyway.
    rounded = [k.typeName() for k in (stored, made)] == ["double", "long"]
    return holds_all(stored, made) or (rounded and merges()[merge].adds)


def check_kept(
    spec: TableSpec, schema: Callable[[str], StructType], window: DataFrame
) -> DataFrame:
    """Return a window, if no state column would cut its values to its own type.

    Parameters
    ----------
    schema : gives the columns of a state table, by its name in the spec
    window : as `fold` makes it, with the channel

    Raises
    ------
    InputError : names the column, its type, the one that events make by now, and the table
    """
    for name, table in spec.state.items():
        stored = schema(name)
        made = of_table(window, spec, name).schema
        for column in (c for c in table.columns if c in stored.fieldNames()):
            kinds = stored[column].dataType, made[column].dataType
            if may_keep(*kinds, table.columns[column].merge):
                continue
            is_now, will_be = (k.simpleString() for k in kinds)
            raise InputError(
                f"column {column!r} is {is_now} in the table, and events make {will_be} by now. It "
                "would cut their values",
                f"{name} ({table.path})",
                f"Run `evenkeel evolve {spec.table}`, which widens it where the format can, or "
                "convert the input",
            )
    return window


def as_stored(rows: DataFrame, stored: StructType) -> DataFrame:
    """Give columns of a window the types of the table, so that both sides of a merge have one."""
    kinds = {f.name: f.dataType for f in stored}
    return rows.select(
        *(col(c).cast(kinds[c]).alias(c) if c in kinds else col(c) for c in rows.columns)
    )
