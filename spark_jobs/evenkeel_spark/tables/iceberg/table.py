"""One Iceberg table: its snapshots, branches, columns and properties.

All is SQL of Iceberg's Spark extensions, but for hidden properties. `schema_commit` has what SQL
cannot do. Others may commit meanwhile, so each look begins with `refresh`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from evenkeel.registry.consistent_read import REDACTED
from evenkeel.registry.state_view import iceberg_name
from evenkeel.spec.parts import SLOT
from evenkeel_spark.tables.iceberg.answers import unanswered
from evenkeel_spark.tables.iceberg.commits import (
    FILES_SQL,
    SUMMARY,
    IcebergCommit,
    Result,
    beaten,
    commits_back,
    once_free,
)
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS, first_line
from evenkeel_spark.tables.table_properties import properties_sql
from evenkeel_spark.tables.write_session import active_session, own_session
from partitioning.errors import InputError, SetupError
from partitioning.function.sql import quoted, string_sql

MAIN = "main"
#: Names of our branches begin so. A team's own may, too, so the whole name tells.
BRANCHES = "evenkeel_"
_OUR_NAME = re.compile(r"evenkeel_((adopt|window)_[0-9a-f]+|[0-9a-f]{12}_\d+_[0-9a-f]{8}(_base)?)")
SLOT_NAME = re.compile(rf"{SLOT}_(\d+)")
#: Comment of the columns that we add.
ADDED = "Evenkeel's"
_SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."


@dataclass(frozen=True)
class IcebergTable:
    """An Iceberg table by its name, such as lake.sales.orders."""

    spark: SparkSession
    name: str

    @property
    def sql(self) -> str:
        """The name as SQL has it."""
        return iceberg_name(self.name)

    def refresh(self) -> None:
        """Forget what Spark has cached of the table, and see that it is an Iceberg table.

        Raises
        ------
        SetupError : Spark has no such catalog, or has wrong settings of it
        UnreachableError : the catalog does not answer
        InputError : there is no such table, or it is of another format
        """
        catalog = self.name.partition(".")[0]
        if self.spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            raise SetupError(
                f"Spark has no catalog {catalog!r}",
                self.name,
                f"Set spark.sql.catalog.{catalog} to org.apache.iceberg.spark.SparkCatalog, with "
                "its type and warehouse, and put Iceberg's runtime among Spark's jars",
            )
        try:
            self.spark.sql(f"REFRESH TABLE {self.sql}")
            found = self.details().get("Provider")
        except SPARK_ERRORS as error:
            said = first_line(error)
            if "TABLE_OR_VIEW_NOT_FOUND" in said or "SCHEMA_NOT_FOUND" in said:
                raise InputError("there is no such table", self.name, "Correct the path") from error
            if (silent := unanswered(error, self.name)) is not None:
                raise silent from error
            raise SetupError(
                f"Spark cannot open it ({said[:200]})",
                self.name,
                f"See whether Spark's settings of the catalog {catalog!r} are right",
            ) from error
        if found is None or found.lower() != "iceberg":
            raise InputError(
                f"expected an Iceberg table, found {found}",
                self.name,
                "Correct the path, or leave out format: iceberg",
            )

    def exists(self) -> bool:
        """Return whether there is such a table.

        Raises
        ------
        SetupError, UnreachableError, InputError : as for `refresh`
        """
        try:
            self.refresh()
        except InputError:
            if self.spark.catalog.tableExists(self.sql):
                raise
            return False
        return True

    def schema(self) -> StructType:
        """Return the columns."""
        return self.spark.table(self.sql).schema

    def properties(self) -> dict[str, str]:
        """Return the properties."""
        found = {r[0]: r[1] for r in self.spark.sql(f"SHOW TBLPROPERTIES {self.sql}").collect()}
        return found | dict(self.loaded().properties()) if REDACTED in found.values() else found

    def loaded(self) -> Any:
        """Return Iceberg's own object of the table, in the JVM."""
        spark: Any = self.spark._jvm.org.apache.iceberg.spark
        return spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, self.sql)

    def details(self) -> dict[str, str]:
        """Return what Spark tells of the table below its columns, which may have any name."""
        rows = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.sql}").collect()
        begins = [i for i, row in enumerate(rows) if row[0] == "# Detailed Table Information"]
        return {name: told for name, told, _ in rows[begins[-1] :]} if begins else {}

    def partitions(self) -> list[str]:
        """Return the partition fields, such as `days(at)`, in order."""
        rows = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.sql}").collect()
        found, inside = [], False
        for name, kind, _ in rows:
            if name in ("# Partitioning", "# Partition Information"):
                inside = True
            elif inside and (not name or (name.startswith("# ") and name != "# col_name")):
                break
            elif inside and name != "# col_name":
                found.append(kind if name.startswith("Part ") else name)
        return found

    def epoch(self) -> int | None:
        """Return the epoch that the slot's column names; None: the table has no such column."""
        found = [m for name in self.schema().names if (m := SLOT_NAME.fullmatch(name))]
        return int(found[0][1]) if found else None

    def refs(self) -> dict[str, int]:
        """Return the snapshot of each branch and tag."""
        rows = self.spark.sql(f"SELECT name, snapshot_id FROM {self.sql}.refs").collect()
        return {r[0]: r[1] for r in rows}

    def head(self) -> int:
        """Return the newest snapshot of main.

        Raises
        ------
        InputError : nothing was ever written to the table
        """
        if (found := self.refs().get(MAIN)) is None:
            raise InputError("has no snapshot yet", self.name, "Write its first rows")
        return found

    def since(self, known: int, head: int | None = None) -> list[IcebergCommit] | None:
        """Return the commits that led from one snapshot to another, oldest first.

        Parameters
        ----------
        head : the newest of them; None: that of main

        Returns
        -------
        None: `known` is no ancestor, so the table was rolled back or made again. If some have
        expired, those that are left.
        """
        at: int | None = self.head() if head is None else head
        found: list[IcebergCommit] = []
        for commit in commits_back(self.spark, self.sql, at):
            if at == known:
                break
            found.append(commit)
            at = commit.parent
        # If the next one has expired, nobody can tell what was before.
        return None if at is None else found[::-1]

    def descends(self, known: int) -> bool:
        """Return whether main is at a snapshot or has come from it."""
        found = self.since(known)
        return found is not None and (found[0].parent if found else self.head()) == known

    def rows(self, at: int | str | None = None) -> DataFrame:
        """Read rows with the slot's column called `slot`.

        Parameters
        ----------
        at : snapshot, or name of a branch; None: main
        """
        when = "" if at is None else f" VERSION AS OF {at if isinstance(at, int) else repr(at)}"
        found = self.spark.sql(f"SELECT * FROM {self.sql}{when}")
        for name in found.columns:
            if SLOT_NAME.fullmatch(name):
                found = found.withColumnRenamed(name, SLOT)
        return found

    def files(self) -> DataFrame:
        """List the data files of main: rows and size (bytes), each the mean of its partition."""
        return self.spark.sql(FILES_SQL.format(self.sql))

    def bytes_per_row(self) -> float:
        """Return the bytes of Parquet per written row; 0: there are no rows."""
        total = self.files().agg(F.sum("size"), F.sum("rows")).first()
        return float(total[0]) / float(total[1]) if total and total[1] else 0.0

    def create_branch(self, branch: str, at: int) -> None:
        """Make a branch at a snapshot."""
        self.alter(f"CREATE BRANCH {quoted(branch)} AS OF VERSION {at}")

    def branches(self) -> list[str]:
        """List our branches."""
        rows = self.spark.sql(f"SELECT name FROM {self.sql}.refs WHERE type = 'BRANCH'").collect()
        return [name for (name,) in rows if _OUR_NAME.fullmatch(name)]

    def drop_branches(self, prefix: str = "") -> None:
        """Drop our branches whose names begin so."""
        for name in (n for n in self.branches() if n.startswith(prefix)):
            self.alter(f"DROP BRANCH IF EXISTS {quoted(name)}")

    def call(self, procedure: str, arguments: Mapping[str, str]) -> Row | None:
        """Call a procedure of the table's catalog, and return its first row.

        Parameters
        ----------
        arguments : SQL by name, beside the table
        """
        # By its whole name, or Iceberg takes the namespace for a catalog first, and warns.
        given = {"table": string_sql(self.sql), **arguments}
        listed = ", ".join(f"{name} => {sql}" for name, sql in given.items())
        catalog = self.name.partition(".")[0]
        return self.spark.sql(f"CALL {quoted(catalog)}.system.{procedure}({listed})").first()

    def follow(self, branch: str) -> bool:
        """Let main follow a branch; False: main has moved since the branch was made."""
        self.refresh()
        try:
            self.call("fast_forward", {"branch": f"'{MAIN}'", "to": f"'{branch}'"})
        except SPARK_ERRORS as error:
            # Another job may have dropped the branch.
            if beaten(error) or "Ref does not exist" in str(error):
                return False
            raise
        return True

    def alter(self, what: str) -> None:
        """Change columns, properties or branches in one commit that writes no rows."""
        self.small_commit(lambda: self.spark.sql(f"ALTER TABLE {self.sql} {what}"))

    def set_properties(self, wanted: Mapping[str, str]) -> None:
        """Set table properties."""
        self.alter(f"SET TBLPROPERTIES {properties_sql(wanted)}")

    def rename(self, old: str, new: str) -> None:
        """Rename a column, unless it has the new name."""

        def once() -> None:
            if new not in self.schema().names:
                renamed = f"RENAME COLUMN {quoted(old)} TO {quoted(new)}"
                self.spark.sql(f"ALTER TABLE {self.sql} {renamed}")

        self.small_commit(once)

    def write(
        self,
        meta: Mapping[str, object],
        statement: Callable[[SparkSession], Any],
        conf: Mapping[str, str] | None = None,
    ) -> None:
        """Run a statement whose snapshot says of itself what `meta` has.

        It runs in a session of its own, so that no other thread's commits say it, too. `conf` are
        further settings of that session.
        """
        said = {f"{_SNAPSHOT_PROPERTY}{SUMMARY}{n}": str(value) for n, value in meta.items()}
        own = own_session(self.spark, {**(conf or {}), **said})
        with active_session(own):
            statement(own)

    def small_commit(self, what: Callable[[], Result]) -> Result:
        """Run a commit that scans no row, and run it again while another writer is first.

        Raises
        ------
        FenceError : it has lost too many times
        """
        return once_free(self.name, self.refresh, what)
