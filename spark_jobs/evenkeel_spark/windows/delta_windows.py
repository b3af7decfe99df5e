"""Delta tables as a window meets them: see `applied_windows.WindowTables`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from evenkeel.table import Table
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.windows import applied_windows, window_commits
from evenkeel_spark.windows.window_commits import Days
from evenkeel_spark.windows.window_inputs import check_events
from partitioning.function.function import PartitioningFunction


@dataclass(frozen=True)
class DeltaWindows:
    """The Delta tables of a spec."""

    spark: SparkSession
    table: Table

    def check(self) -> None:
        """Refuse tables that are not as the spec has them."""
        check_tables(self.spark, self.table.spec)

    def check_admits(self, function: PartitioningFunction) -> None:
        """Refuse tables that are under another epoch."""
        constraints.check_admits(self.spark, self.table.spec, function)

    def check_events(
        self, names: Iterable[str], events: DataFrame, function: PartitioningFunction
    ) -> None:
        """Refuse an input that tables were not made of."""
        check_events(self.spark, self.table.spec, names, events, function)

    def schema(self, name: str) -> StructType:
        """Return the columns of a table."""
        return state.schema(self.spark, self.table.spec.state[name].path)

    def applied(self, name: str) -> applied_windows.Applied:
        """Return the windows that are in a table."""
        return applied_windows.applied(self.spark, self.table, name)

    def windows(self, name: str) -> Iterator[Days]:
        """Yield the days of each window in a table, newest first, as far as known."""
        return window_commits.windows(self.spark, self.table.spec.state[name].path)
