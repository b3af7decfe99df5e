"""The keys to forget, and what forgetting asks of the state tables of either format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from evenkeel.registry.forgetting import texts_of
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, KeyColumn, key_hash, slot_of
from partitioning.function.key_text import key_columns, key_text
from partitioning.function.sql import quoted


@dataclass(frozen=True, eq=False)
class WantedKeys:
    """Keys that a person wants to be forgotten.

    Parameters
    ----------
    columns : the key columns of the table
    hashes : int64 (n,)
    rows : one a key, with its columns
    slots : the keys' own slots, as rows know them
    texts : what an error may write of the keys
    """

    columns: tuple[KeyColumn, ...]
    hashes: Hashes
    rows: DataFrame
    slots: tuple[int, ...]
    texts: frozenset[str]

    @classmethod
    def of(
        cls, spark: SparkSession, keys: Sequence[str], function: PartitioningFunction
    ) -> WantedKeys:
        """Read keys as a person writes them: see `key_columns`.

        Raises
        ------
        InputError : a text cannot be read as a key of the table
        """
        types = [column.type for column in function.key]
        typed = key_columns(keys, types, sure=True)
        hashes = key_hash(typed, types)
        values = list(zip(*(column.to_pylist() for column in typed), strict=True))
        ddl = ", ".join(f"{quoted(c.name)} {c.type}" for c in function.key)
        return cls(
            function.key,
            hashes,
            spark.createDataFrame(values, ddl).distinct(),
            tuple(sorted(set(slot_of(hashes, function.row_slots).tolist()))),
            frozenset(
                {*keys, *map(key_text, values)}.union(*(texts_of(c.to_pylist()) for c in typed))
            ),
        )

    def equal_sql(self) -> str:
        """Write the condition that a row `t` has the key of a row `s` of `rows`."""
        names = [quoted(column.name) for column in self.columns]
        return " AND ".join(f"t.{name} <=> s.{name}" for name in names)


class KeyedRows(Protocol):
    """The state tables of a spec, in one format, as forgetting meets them."""

    def check(self) -> None:
        """Refuse tables that are not as the spec has them."""

    def count(self, name: str, wanted: WantedKeys) -> int:
        """Count the rows of the keys in a table."""

    def delete(self, name: str, wanted: WantedKeys) -> int:
        """Delete the rows of the keys, and rewrite the files that still hide some; return how many.

        It commits without rows, too: jobs that have read the keys' events before look for it.
        """

    def days_kept(self, name: str) -> int | None:
        """Return the days that older versions of a table stay; None: for ever."""
