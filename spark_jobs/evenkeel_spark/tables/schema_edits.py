"""Edits of a table's columns as data: each format writes them in its own way."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import DataType

#: Name of the elements of an array, in the path of an edit.
ELEMENT = "element"


@dataclass(frozen=True)
class AddColumn:
    """A new column, null in all rows that are there."""

    name: str
    kind: DataType


@dataclass(frozen=True)
class DropColumn:
    """A column that goes."""

    name: str


@dataclass(frozen=True)
class RenameColumn:
    """A column that gets another name, and keeps its values."""

    name: str
    new: str


@dataclass(frozen=True)
class WidenColumn:
    """A column that gets a wider type, or a part of it does.

    Parameters
    ----------
    path : the column, then the names of fields, and `ELEMENT` for those of an array
    """

    path: tuple[str, ...]
    kind: DataType


SchemaEdit = AddColumn | DropColumn | RenameColumn | WidenColumn
