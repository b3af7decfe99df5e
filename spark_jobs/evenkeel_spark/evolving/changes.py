"""Options of a person beside the spec, and changes of state tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from evenkeel_spark.tables.schema_edits import SchemaEdit
from partitioning.errors import InputError

_RENAME_FORM = re.compile(r"(\w+)\.(\w+)=(\w+)")
_COLUMN_FORM = re.compile(r"\w+\.\w+")
_DROP_FORM = re.compile(r"\w+(\.\w+)?")


class Kind(StrEnum):
    """Kinds of changes."""

    add_table = "add table"
    drop_table = "drop table"
    add_column = "add column"
    drop_column = "drop column"
    rename_column = "rename column"
    widen_column = "widen column"
    rename_input = "rename input"
    end_change = "end change"


@dataclass(frozen=True)
class TableChange:
    """One change of a state table.

    Parameters
    ----------
    table : name of the state table, in the spec
    column : name of the state column; empty: the whole table
    meaning : what it does, for a person
    edits : what is left to be done of it
    """

    kind: Kind
    table: str
    column: str
    meaning: str
    edits: tuple[SchemaEdit, ...] = ()

    @property
    def dropped(self) -> str | None:
        """The TABLE or TABLE.COLUMN that goes; None: none does."""
        if self.kind not in (Kind.drop_table, Kind.drop_column):
            return None
        return f"{self.table}.{self.column}" if self.column else self.table

    def to_dict(self) -> dict[str, str]:
        """Return plain JSON values."""
        return {
            "change": self.kind.value,
            "table": self.table,
            "column": self.column,
            "meaning": self.meaning,
        }


@dataclass(frozen=True)
class Intent:
    """Options for which the spec has no words: new names of columns, and what goes.

    Parameters
    ----------
    renames : new name of a column, by its state table and its old name
    drops : TABLE.COLUMN, or TABLE
    same : TABLE.COLUMN, as in the spec, whose input columns only have other names by now
    """

    renames: Mapping[tuple[str, str], str]
    drops: frozenset[str]
    same: frozenset[str]

    @classmethod
    def of(
        cls, renames: Iterable[str] = (), drops: Iterable[str] = (), same: Iterable[str] = ()
    ) -> Intent:
        """Parse options.

        Parameters
        ----------
        renames : each TABLE.OLD=NEW
        drops : each TABLE.COLUMN, or TABLE
        same : each TABLE.COLUMN

        Raises
        ------
        InputError : one has another form, or two name one column
        """
        found: dict[tuple[str, str], str] = {}
        for text in renames:
            if (parts := _RENAME_FORM.fullmatch(text)) is None:
                raise InputError(
                    f"expected TABLE.OLD=NEW, found {text!r}",
                    "--rename",
                    "Name the state table, the column's name in it, and its name in the spec",
                )
            table, old, new = parts.groups()
            if (table, old) in found or new in (n for (t, _), n in found.items() if t == table):
                raise InputError(
                    f"two of them name one column of {table!r}",
                    "--rename",
                    "Give each column one new name",
                )
            found[table, old] = new
        for text in (gone := frozenset(drops)):
            if _DROP_FORM.fullmatch(text) is None:
                raise InputError(
                    f"expected TABLE.COLUMN or TABLE, found {text!r}",
                    "--drop",
                    "Name a column of a state table, or a whole state table",
                )
        for text in (kept := frozenset(same)):
            if _COLUMN_FORM.fullmatch(text) is None:
                raise InputError(
                    f"expected TABLE.COLUMN, found {text!r}",
                    "--same",
                    "Name a state column of the spec",
                )
        return cls(found, gone, kept)
