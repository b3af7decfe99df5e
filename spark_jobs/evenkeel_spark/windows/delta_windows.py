"""Delta tables as a window meets them: see `applied_windows.WindowTables`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from evenkeel.registry.state_view import COLUMNS_PROPERTY
from evenkeel.table import Table
from evenkeel_spark.events.reader import check_key
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.column_inputs import INPUTS_PROPERTY, check_made_of, inputs_text
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.table_properties import properties_sql
from evenkeel_spark.windows import applied_windows, window_commits
from evenkeel_spark.windows.window_commits import Days
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
        """Refuse an input that tables were not made of, and note it in tables of earlier versions.

        Raises
        ------
        InputError : the key has other types; or a state column was made of another column
        """
        spec, types = self.table.spec, dict(events.dtypes)
        check_key(events, spec, function.key)

        def once(name: str, path: str) -> None:
            found = state.properties(self.spark, path)
            check_made_of(spec, name, found, types)
            if INPUTS_PROPERTY not in found and COLUMNS_PROPERTY in found:
                noted = properties_sql({INPUTS_PROPERTY: inputs_text(spec, name, types)})
                with commits.our_commit(self.spark, None, None, {"step": "evolve"}) as own:
                    own.sql(f"ALTER TABLE {state.sql_name(path)} SET TBLPROPERTIES {noted}")

        for name in names:
            path = spec.state[name].path
            retry_on_conflict(self.spark, partial(once, name, path), f"{name} ({path})")

    def schema(self, name: str) -> StructType:
        """Return the columns of a table."""
        return state.schema(self.spark, self.table.spec.state[name].path)

    def applied(self, name: str) -> applied_windows.Applied:
        """Return the windows that are in a table."""
        return applied_windows.applied(self.spark, self.table, name)

    def windows(self, name: str) -> Iterator[Days]:
        """Yield the days of each window in a table, newest first, as far as known."""
        return window_commits.windows(self.spark, self.table.spec.state[name].path)
