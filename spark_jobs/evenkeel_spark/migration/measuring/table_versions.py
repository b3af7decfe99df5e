"""Contents of the versions of a state table.

A version never changes, so each is read once. Most can be read while other writers go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from evenkeel.registry.state_view import wide_columns, width_sql
from evenkeel_spark.migration.split_state import WRITTEN, PartialMerge
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.rows.checksums import (
    Content,
    changed_values,
    channel_contents,
    duplicate_keys,
    text_sql,
    total_content,
)
from evenkeel_spark.tables.rows.placement_sql import of_keys_sql
from partitioning.function.hashing import Hashes
from partitioning.moves.partial_rows import shared_keys


@dataclass(frozen=True, eq=False)
class TableVersions:
    """Contents of the versions of one state table, each read once.

    Parameters
    ----------
    name : of the state table, in the spec
    first : version that was the newest when the measuring began
    """

    spark: SparkSession
    migration: Migration
    name: str
    first: int
    _contents: dict[int, dict[int, Content]] = field(default_factory=dict)
    _duplicates: dict[int, int] = field(default_factory=dict)
    _changed: dict[tuple[int, int], int] = field(default_factory=dict)
    _copies: dict[int, tuple[int, int]] = field(default_factory=dict)

    def rows(self, version: int) -> DataFrame:
        """Read a version. An append may have added a column: each has its own columns."""
        return state.read_version(self.spark, self.migration.path(self.name), version)

    def channels(self, version: int) -> dict[int, Content]:
        """Return the content of a version by channel."""
        if version not in self._contents:
            part, rows = self.migration.table.spec.state[self.name], self.rows(version)
            text = text_sql(rows.schema, wide_columns(part))
            found = channel_contents(rows, self.migration.after, self.shared, width_sql(part), text)
            self._contents[version] = found
        return self._contents[version]

    def total(self, version: int) -> Content:
        """Return the content of a version."""
        return total_content(self.channels(version).values())

    def duplicates(self, version: int) -> int:
        """Count keys that have too many rows in a version."""
        if version not in self._duplicates:
            found = duplicate_keys(self.rows(version), self.migration.after)
            self._duplicates[version] = found
        return self._duplicates[version]

    def changed(self, before: int, after: int) -> int:
        """Count split keys whose merged partial rows differ between two versions."""
        if (before, after) not in self._changed:
            of_split_keys = of_keys_sql(self.migration.after, self.shared)
            one, other = (self.rows(v).where(of_split_keys) for v in (before, after))
            found = changed_values(one, other, self.migration.table.spec, self.name)
            self._changed[before, after] = found
        return self._changed[before, after]

    def copies_due(self, version: int) -> tuple[int, int]:
        """Count the copies that a version lacks, and those that it has too many."""
        if version not in self._copies:
            spec, after = self.migration.table.spec, self.migration.after
            left = PartialMerge(spec, self.name, after, self.shared).rows_to_move(version)
            found = dict(self.spark.sql(left).groupBy(WRITTEN).count().collect())
            self._copies[version] = found.get(True, 0), found.get(False, 0)
        return self._copies[version]

    @property
    def shared(self) -> Hashes:
        """Keys that either function splits. There may be several rows of each."""
        return shared_keys(self.migration.before, self.migration.after)

    def last(self, commits: Sequence[int]) -> int:
        """Return the version at which rows are to be in place.

        It is that of the last of our `commits`, or `first` if none came later. A row that was out
        of place then may be gone since: the newest version tells.
        """
        last = max([self.first, *commits])
        if last > self.first or not self.total(last).misplaced:
            return last
        return state.table_version(self.spark, self.migration.path(self.name))
