"""Keep what a table was before its adoption, in a property of the table, for release."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evenkeel_spark.tables.table_properties import BEFORE_PROPERTY
from partitioning.errors import InputError


@dataclass(frozen=True)
class Changed:
    """One property: its value before adoption (None: it was not set), and the one it got."""

    before: str | None
    adopted: str


@dataclass(frozen=True)
class Before:
    """A table before its adoption.

    Parameters
    ----------
    partitions : columns that partitioned it, by their names in its files. A column that is renamed
        keeps that name
    properties : those of Delta's that adoption changed, by name
    """

    partitions: Sequence[str]
    properties: Mapping[str, Changed]

    def text(self) -> str:
        """Return the property's value."""
        changed = {n: [c.before, c.adopted] for n, c in self.properties.items()}
        return json.dumps({"partitions": list(self.partitions), "properties": changed})

    def restored(self, found: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """Return the properties to set, and those to remove, so that they are as before.

        A property that has another value by now than adoption gave it stays.

        Parameters
        ----------
        found : the table's properties
        """
        ours = {n: c.before for n, c in self.properties.items() if found.get(n) == c.adopted}
        return (
            {name: value for name, value in ours.items() if value is not None},
            [name for name, value in ours.items() if value is None],
        )

    def columns(self, in_files: Mapping[str, str], where: str) -> list[str]:
        """Return the names that the partition columns have now.

        Parameters
        ----------
        in_files : name of each column in the table's files, by its name
        where : the table, for the error

        Raises
        ------
        InputError : one of them is gone
        """
        now = {file: name for name, file in in_files.items()}
        if gone := [c for c in self.partitions if c not in now]:
            raise InputError(
                f"was partitioned by {', '.join(gone)}, a column that is gone",
                where,
                "Release it without --drop-columns, drop slot and channel by an overwrite of your "
                "own, and partition it as you like",
            )
        return [now[c] for c in self.partitions]


def note_changes(found: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return the property that also keeps what further changes of ours replace.

    Parameters
    ----------
    found : the table's properties
    changes : values that properties are to get

    Returns
    -------
    Empty if nothing changes, or Evenkeel never adopted the table.
    """
    before = find_before(found)
    if before is None or not changes:
        return {}
    known = dict(before.properties)
    for name, value in changes.items():
        ours = known.get(name)
        # A value that the team has set since adoption is what release brings back.
        kept = found.get(name) if ours is None or found.get(name) != ours.adopted else ours.before
        known[name] = Changed(kept, value)
    return {BEFORE_PROPERTY: replace(before, properties=known).text()}


def find_before(properties: Mapping[str, str]) -> Before | None:
    """Read it from a table's properties; None: Evenkeel never adopted the table."""
    if (text := properties.get(BEFORE_PROPERTY)) is None:
        return None
    kept = json.loads(text)
    return Before(kept["partitions"], {n: Changed(*c) for n, c in kept["properties"].items()})
