"""Rows of keys in Iceberg tables: counted, deleted, and taken out of the files that hide them.

Data files with deletes are rewritten, because they still hold the deleted rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.forgetting.keys import WantedKeys
from evenkeel_spark.forgetting.meanwhile import FORGET
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.iceberg.checks import adopted_tables, iceberg_table
from evenkeel_spark.tables.iceberg.commits import STATEMENT_TRIES, once_free
from evenkeel_spark.tables.iceberg.retention import KEPT_SNAPSHOTS, kept_for, newest_kept
from evenkeel_spark.tables.iceberg.table import MAIN, IcebergTable
from evenkeel_spark.tables.write_session import in_session

_META = {"step": FORGET}
_WANTED_VIEW = "evenkeel_wanted"
#: Options of `rewrite_data_files`: each file with deletes, and no file because of its size.
_WITH_DELETES = {
    "delete-file-threshold": "1",
    "min-file-size-bytes": "0",
    "max-file-size-bytes": f"{2**63 - 1}",
    # Equality deletes, which other engines write, have keys in them.
    "remove-dangling-deletes": "true",
}


@dataclass(frozen=True)
class IcebergRows:
    """The Iceberg tables of a spec: see `KeyedRows`."""

    spark: SparkSession
    spec: TableSpec

    def check(self) -> None:
        """Refuse tables that are not as the spec has them."""
        adopted_tables(self.spark, self.spec)

    def count(self, name: str, wanted: WantedKeys) -> int:
        """Count the rows of the keys in a table."""
        return _count(iceberg_table(self.spark, self.spec, name), wanted)

    def delete(self, name: str, wanted: WantedKeys) -> int:
        """Delete the rows of the keys; return how many.

        The first commit has no rows. A window that has seen an older snapshot cannot follow it, and
        one that sees it is refused. So nothing brings rows of the keys after it.
        """
        one = iceberg_table(self.spark, self.spec, name)
        _mark(one)
        crash_point("marked")
        deleted = once_free(name, one.refresh, lambda: _delete(one, wanted), STATEMENT_TRIES)
        crash_point("deleted")
        rewritten = once_free(name, one.refresh, lambda: _purge(one), STATEMENT_TRIES)
        if deleted or rewritten:
            # `maintain` keeps the newest snapshots whatever their age: no file there has the rows.
            _mark(one)
        one.refresh()
        if (kept := newest_kept(one.properties())) > KEPT_SNAPSHOTS:
            say(f"{name}: its newest {kept} snapshots stay whatever their age, also with the rows")
        if others := sorted(set(one.refs()) - {MAIN} - set(one.branches())):
            say(f"{name}: snapshots with the rows stay as long as there are {', '.join(others)}")
        return deleted

    def days_kept(self, name: str) -> int | None:
        """Return the days that older snapshots stay; None: for ever."""
        kept = kept_for(iceberg_table(self.spark, self.spec, name).properties(), self.spec.keep)
        return None if kept is None else kept.days


def _count(one: IcebergTable, wanted: WantedKeys) -> int:
    same = F.expr(wanted.equal_sql())
    return one.rows().alias("t").join(wanted.rows.alias("s"), on=same, how="left_semi").count()


def _mark(one: IcebergTable) -> None:
    """Commit no rows, and say that keys are forgotten: see `meanwhile`."""

    def write(own: SparkSession) -> None:
        own.createDataFrame([], one.schema()).writeTo(one.sql).append()

    one.small_commit(lambda: one.write(_META, write))


def _delete(one: IcebergTable, wanted: WantedKeys) -> int:
    """Delete the rows of the wanted keys in one commit; return how many. No rows: no commit."""
    if not (found := _count(one, wanted)):
        return 0

    def write(own: SparkSession) -> None:
        in_session(own, wanted.rows).createOrReplaceTempView(_WANTED_VIEW)
        same = wanted.equal_sql()
        own.sql(
            f"DELETE FROM {one.sql} t WHERE EXISTS (SELECT 1 FROM {_WANTED_VIEW} s WHERE {same})"
        )

    one.write(_META, write)
    return found


def _purge(one: IcebergTable) -> int:
    """Rewrite the data files with deletes; return how many."""
    options = ", ".join(f"'{name}', '{value}'" for name, value in _WITH_DELETES.items())
    done = one.call("rewrite_data_files", {"options": f"map({options})"})
    return int(done[0]) if done else 0
