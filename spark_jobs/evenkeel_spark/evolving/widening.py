"""Which types a format can widen to which without a rewrite, as its own pages list them.

https://docs.delta.io/delta-type-widening and https://iceberg.apache.org/spec/#schema-evolution
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, DecimalType, StructType

from evenkeel_spark.tables.schema_edits import ELEMENT, WidenColumn

#: Whether a format can widen one plain type to another.
Rule = Callable[[DataType, DataType], bool]

#: Integer types from narrow to wide, each with the digits that Delta wants of a decimal for it.
_INTEGER_DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
#: Other types and the one that each can become.
_OTHERS = {("float", "double"), ("date", "timestamp_ntz")}
#: Types that Iceberg widens, beside decimals. Its specification has more, its library has not.
_ICEBERG_WIDENS = {("int", "bigint"), ("float", "double")}


def widenings(
    stored: DataType, wanted: DataType, path: tuple[str, ...], rule: Rule
) -> list[WidenColumn] | None:
    """Return the edits that make a column's type wide enough.

    Parameters
    ----------
    stored, wanted : type in the table, and the one that events make by now
    path : of the column, or of a part of it
    rule : of the table's format

    Returns
    -------
    Empty: the stored type holds every value of the wanted one. None: the format cannot widen it.
    """
    if stored.simpleString() == wanted.simpleString():
        return []
    if isinstance(stored, ArrayType) and isinstance(wanted, ArrayType):
        return widenings(stored.elementType, wanted.elementType, (*path, ELEMENT), rule)
    if isinstance(stored, StructType) and isinstance(wanted, StructType):
        if stored.fieldNames() != wanted.fieldNames():
            return None
        parts = [
            widenings(one.dataType, other.dataType, (*path, one.name), rule)
            for one, other in zip(stored, wanted, strict=True)
        ]
        return None if None in parts else [edit for part in parts for edit in part or ()]
    if rule(stored, wanted):
        return [WidenColumn(path, wanted)]
    return [] if rule(wanted, stored) else None


def iceberg_widens(narrow: DataType, wide: DataType) -> bool:
    """Return whether Iceberg can widen a plain type to another one."""
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return (narrow.simpleString(), wide.simpleString()) in _ICEBERG_WIDENS


def delta_widens(narrow: DataType, wide: DataType) -> bool:
    """Return whether Delta can widen a plain type to another one."""
    one, other = narrow.simpleString(), wide.simpleString()
    if isinstance(wide, DecimalType):
        if isinstance(narrow, DecimalType):
            digits, scale = narrow.precision, narrow.scale
        elif one in _INTEGER_DIGITS:
            digits, scale = _INTEGER_DIGITS[one], 0
        else:
            return False
        # No digit may be lost, on either side of the point.
        return wide.scale >= scale and wide.precision - wide.scale >= digits - scale
    if one in _INTEGER_DIGITS:
        order = [*_INTEGER_DIGITS]
        if other in _INTEGER_DIGITS:
            return order.index(one) < order.index(other)
        return other == "double" and one != "bigint"
    return (one, other) in _OTHERS


@dataclass(frozen=True)
class FormatRules:
    """Changes that a format can make to a column, and its name for errors."""

    format: str
    widens: Rule


DELTA_RULES = FormatRules("Delta", delta_widens)
ICEBERG_RULES = FormatRules("Iceberg", iceberg_widens)
