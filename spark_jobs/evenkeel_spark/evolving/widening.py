"""Which types Delta can widen to which without a rewrite, as its page on type widening lists them.

https://docs.delta.io/delta-type-widening
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, DecimalType, StructType

from partitioning.function.sql import quoted

#: Integer types from narrow to wide, each with the digits that Delta wants of a decimal for it.
_INTEGER_DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
#: Other types and the one that each can become.
_OTHERS = {("float", "double"), ("date", "timestamp_ntz")}


def widenings(stored: DataType, wanted: DataType, at: str) -> list[str] | None:
    """Return the rest of the statements `ALTER TABLE ...` that make a column's type wide enough.

    Parameters
    ----------
    stored, wanted : type in the table, and the one that events make by now
    at : SQL of the column, or of a part of it

    Returns
    -------
    Empty: the stored type holds every value of the wanted one. None: Delta cannot widen it.
    """
    if stored.simpleString() == wanted.simpleString():
        return []
    if isinstance(stored, ArrayType) and isinstance(wanted, ArrayType):
        return widenings(stored.elementType, wanted.elementType, f"{at}.element")
    if isinstance(stored, StructType) and isinstance(wanted, StructType):
        if stored.fieldNames() != wanted.fieldNames():
            return None
        parts = [
            widenings(one.dataType, other.dataType, f"{at}.{quoted(one.name)}")
            for one, other in zip(stored, wanted, strict=True)
        ]
        return None if None in parts else [sql for part in parts for sql in part or ()]
    if can_widen(stored, wanted):
        return [f"ALTER COLUMN {at} TYPE {wanted.simpleString()}"]
    return [] if can_widen(wanted, stored) else None


def can_widen(narrow: DataType, wide: DataType) -> bool:
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
