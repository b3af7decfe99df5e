"""The public face of a table: its spec and its registry."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakSet

from evenkeel.extras import check_one_pyspark, require_packages, same_series
from evenkeel.registry.consistent_read import (
    EXPIRED,
    TOO_OLD,
    Snapshot,
    consistent_snapshot,
    constraint_names,
    iceberg_snapshot,
    newest_version,
    table_properties,
)
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.state_view import (
    check_merges,
    kinds,
    one_row_a_key,
    table_sql,
)
from evenkeel.spec.loading import find_spec, load_spec
from evenkeel.spec.parts import CHANNEL, StateTable
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError
from partitioning.function.sql import OURS, epoch_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Table:
    """A keyed table: its spec and its epochs."""

    spec: TableSpec

    @cached_property
    def registry(self) -> Registry:
        """The table's epochs, sketches and runs."""
        return Registry(self.spec.registry)

    def epoch(self, number: int | None = None) -> Epoch:
        """Read one epoch; by default the current one."""
        return self.registry.current() if number is None else self.registry.epoch(number)

    def state(
        self, name: str, number: int | None = None, spark: SparkSession | None = None
    ) -> DataFrame:
        """Read a state table as one row a key: slot, key and state columns.

        Partial rows of split keys are merged.

        Parameters
        ----------
        name : of the state table, in the spec
        number : an epoch, at whose version the table is read; None: the newest rows that there
            are now. Call this again for newer ones
        spark : None: the active session

        Raises
        ------
        InputError : no such state table or epoch, no active session, or the epoch's version is
            older than `keep` days, or than the adoption of the table
        """
        spark = _session(spark)
        return spark.sql(self._state_sql(name, number, spark, fixed=True))

    def state_sql(
        self, name: str, number: int | None = None, spark: SparkSession | None = None
    ) -> str:
        """Return SQL of the newest rows, for a view. It holds until another epoch is published.

        If the table's constraint is not that of the epoch alone, the rows of all its keys are
        merged. A migration may give new owners of a key their copies, and a registry may be older
        than the table. Then the epoch's function does not know which keys have several rows.

        Parameters
        ----------
        name, number, spark : as for `state`, which reads one version: that of its call
        """
        return self._state_sql(name, number, _session(spark), fixed=False)

    def _state_sql(self, name: str, number: int | None, spark: SparkSession, fixed: bool) -> str:
        if name not in self.spec.state:
            known = ", ".join(self.spec.state)
            raise InputError(f"there is no state table {name!r}", "state", f"Known: {known}")
        epoch, part = self.epoch(number), self.spec.state[name]
        source = table_sql(part)
        if number is not None:
            if (at := epoch.tables.get(name)) is None:
                raise InputError(
                    f"epoch {number} has no state table {name!r}: it has {', '.join(epoch.tables)}",
                    f"{name} ({part.path})",
                    "Read one of these, or the newest rows",
                )
            source += f" VERSION AS OF {at.version}"
        made = not (part.plain or self.spec.iceberg)
        # Spark reads at the first action. By then another epoch may place the rows.
        fixed = fixed and number is None and not self.spec.iceberg
        first = newest_version(spark, part.path) if fixed else None
        properties = table_properties(spark, part.path) if made else {}
        every = made and number is None and self._may_be_newer(properties, part, epoch)
        if fixed:
            last = newest_version(spark, part.path)
            source, every = f"{source} VERSION AS OF {last}", every or (made and first != last)
        check_merges(name, part, properties)
        with self._readable(name, number):
            types = kinds(spark.sql(f"SELECT * FROM {source} LIMIT 0").schema)
        if number is not None and (later := [c for c in part.columns if c not in types]):
            raise InputError(
                f"epoch {number} has no column {later[0]!r}: it came, or got its name, later",
                f"{name} ({part.path})",
                f"Read {source} as it was",
            )
        if number is not None and part.plain and CHANNEL not in types:
            raise InputError(
                f"epoch {number} is of before the table was adopted: no row had a channel",
                f"{name} ({part.path})",
                f"Read {source} as it was, or the newest rows",
            )
        return one_row_a_key(source, types, part, epoch.function, every)

    @contextmanager
    def _readable(self, name: str, number: int | None) -> Iterator[None]:
        """Turn Delta's refusal to read an epoch's version that is too old into an InputError."""
        from pyspark.errors import PySparkException

        try:
            yield
        except PySparkException as error:
            expired = error.getCondition() in TOO_OLD or EXPIRED in str(error)
            if number is None or not expired:
                raise
            raise InputError(
                f"the version of epoch {number} cannot be read any more: versions stay readable "
                f"for {self.spec.keep} days (`keep`)",
                f"{name} ({self.spec.state[name].path})",
                "Read the newest rows, or a backup",
            ) from error

    def _may_be_newer(self, properties: Mapping[str, str], part: StateTable, epoch: Epoch) -> bool:
        """Return whether the newest rows may be placed by another epoch than the current one."""
        if part.copied:
            # Copies are written before their epoch is published, and a view cannot see them come.
            return True
        ours = {name for name in constraint_names(properties) if name.startswith(OURS)}
        return ours != {epoch_name(epoch.number)}

    def snapshot(self, spark: SparkSession | None = None) -> Snapshot:
        """Read all state tables as of the current epoch, also while state moves.

        It is for readers who join rows of several tables by channel. During a migration the newest
        rows of two tables may be in different channels.

        Parameters
        ----------
        spark : None: the active session

        Raises
        ------
        FenceError : a table no longer has such a version
        """
        paths = {name: part.path for name, part in self.spec.state.items()}
        find = iceberg_snapshot if self.spec.iceberg else consistent_snapshot
        return find(_session(spark), self.epoch(), paths)


#: Sessions of Spark Connect whose server was asked for its version.
_asked: WeakSet[SparkSession] = WeakSet()


def _session(given: SparkSession | None = None) -> SparkSession:
    """Return the session that is given, or the active one; warn of a server that differs."""
    require_packages("spark", "pyspark")
    check_one_pyspark()
    import pyspark
    from pyspark.sql import SparkSession

    spark = given or SparkSession.getActiveSession()
    if spark is None:
        raise InputError("there is no Spark session", "state", "Start one, or give it")
    if type(spark).__module__.startswith("pyspark.sql.connect") and spark not in _asked:
        _asked.add(spark)
        client, server = pyspark.__version__, spark.version
        if client.split(".")[:2] != server.split(".")[:2]:
            warnings.warn(
                f"expected one version of Spark, found PySpark {client} and Spark {server} on the "
                f"Spark Connect server. To change that, {same_series(server)}",
                stacklevel=3,
            )
    return spark


def open_table(table: str) -> Table:
    """Open a table.

    Parameters
    ----------
    table : its name (a spec in `$EVENKEEL_TABLES` or ./tables), or its spec's path

    Raises
    ------
    InputError : there is no such table, or its spec is wrong
    """
    return Table(load_spec(find_spec(str(table))))
