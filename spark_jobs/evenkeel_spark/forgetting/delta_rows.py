"""Rows of keys in Delta tables: counted, deleted, and taken out of the files that hide them.

Files with deletion vectors are rewritten, because such files still hold the deleted rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.forgetting.keys import WantedKeys
from evenkeel_spark.forgetting.meanwhile import FORGET
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.delta.vacuum import days_kept
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.spark_errors import REFUSED, SPARK_ERRORS
from evenkeel_spark.tables.write_session import UNMEASURED, own_session
from partitioning.errors import FenceError
from partitioning.function.function import PartitioningFunction

#: Setting with which a MERGE rewrites files in place of hiding their rows.
_REWRITE = {
    "spark.databricks.delta.merge.deletionVectors.persistent": "false",
    # Jobs that have read the key's events look for this commit: see `meanwhile`.
    "spark.databricks.delta.skipRecordingEmptyCommits": "false",
}
_META = {"step": FORGET}


@dataclass(frozen=True)
class DeltaRows:
    """The Delta tables of a spec under a function: see `KeyedRows`."""

    spark: SparkSession
    spec: TableSpec
    function: PartitioningFunction

    def check(self) -> None:
        """Refuse tables that are not as the spec has them."""
        check_tables(self.spark, self.spec)

    def count(self, name: str, wanted: WantedKeys) -> int:
        """Count the rows of the keys in a table."""
        rows = DeltaTable.forPath(self.spark, self.spec.state[name].path).toDF().alias("t")
        same = F.expr(self._same_key(name, wanted))
        return rows.join(wanted.rows.alias("s"), on=same, how="left_semi").count()

    def delete(self, name: str, wanted: WantedKeys) -> int:
        """Delete the rows of the keys; return how many."""
        step = partial(self._delete, name, wanted, self._same_key(name, wanted))
        with _neighbours_at_rest(table_in_errors(self.spec, name)):
            deleted = retry_on_conflict(self.spark, step, name)
            retry_on_conflict(self.spark, partial(self._purge, name), name)
        return deleted

    def days_kept(self, name: str) -> int:
        """Return the days that older versions stay: a team's own table may keep them longer."""
        part = self.spec.state[name]
        own = days_kept(self.spark, part.path)[1] if part.plain else 0
        return max(self.spec.keep, own)

    def _same_key(self, name: str, wanted: WantedKeys) -> str:
        """Write the condition that a row `t` has a wanted key `s`.

        Slots let files be skipped, where no row can have a wrong one.
        """
        equal, path = wanted.equal_sql(), self.spec.state[name].path
        sealed = constraints.is_sealed(self.spark, self.spec, path, self.function)
        if not (self.spec.fence == "key" and sealed):
            return equal
        return f"t.{state.SLOT} IN ({', '.join(map(str, wanted.slots))}) AND {equal}"

    def _delete(self, name: str, wanted: WantedKeys, same: str) -> int:
        """Delete the rows of the wanted keys in one commit; return how many.

        It commits without rows, too. So windows that have read the events before are not added, and
        look again: the commit spends the number that they would have.
        """
        spark, table, path = self.spark, self.spec, self.spec.state[name].path
        while True:
            app = None if table.plain else commits.windows_app(table.table)
            number = commits.windows_count(spark, path, table.table) + 1 if app else None
            with commits.our_commit(spark, app, number, _META, _REWRITE) as own:
                target = DeltaTable.forPath(own, path).alias("t")
                merge = target.merge(wanted.rows.alias("s"), same)
                done = merge.whenMatchedDelete().execute().first()
            # None: Delta has skipped it, because a window has come first.
            if done is not None:
                return int(done["num_deleted_rows"])

    def _purge(self, name: str) -> None:
        """Rewrite the channels with files that still hold rows which a deletion vector hides.

        REORG TABLE ... APPLY (PURGE) would rewrite these files alone. But where executors are
        processes of their own it fails, because it looks there for a session.
        """
        path = self.spec.state[name].path
        hidden = state.files(self.spark, path).where("deleted > 0")
        channels = sorted(row[0] for row in hidden.select(state.CHANNEL).distinct().collect())
        if not channels:
            return
        sorting = own_session(self.spark, UNMEASURED)
        with commits.our_commit(sorting, None, None, _META) as own:
            own.sql(
                f"OPTIMIZE {state.sql_name(path)} WHERE {state.CHANNEL} IN "
                f"({', '.join(map(str, channels))}) ZORDER BY ({state.SLOT})"
            )


@contextmanager
def _neighbours_at_rest(where: str) -> Iterator[None]:
    """Say in our words that a table refuses to rewrite rows beside the key, because these move.

    Raises
    ------
    FenceError : it does
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if REFUSED not in str(error):
            raise
        raise FenceError(
            "rows move just now", where, "Let the run end, then forget again"
        ) from error
