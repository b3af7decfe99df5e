"""Columns whose values can be compared before and after their rows move."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from partitioning.errors import InputError


def comparable(kind: DataType) -> bool:
    """Return whether values of a type can be hashed, and so compared before and after a move.

    Maps and variants cannot, nor any type that holds one.
    """
    if isinstance(kind, ArrayType):
        return comparable(kind.elementType)
    if isinstance(kind, StructType):
        return all(comparable(f.dataType) for f in kind)
    return not isinstance(kind, MapType | VariantType)


def incomparable(schema: StructType, where: str) -> Iterator[InputError]:
    """Yield an error for each column whose values cannot be compared.

    Parameters
    ----------
    where : the table, for errors
    """
    for field in schema:
        if not comparable(field.dataType):
            yield InputError(
                f"column {field.name!r} is {field.dataType.simpleString()}: rows with a map or a "
                "variant cannot be compared before and after they move",
                where,
                "Keep it in another table; or copy it into an array of structs, or a string, and "
                "drop the column",
            )
