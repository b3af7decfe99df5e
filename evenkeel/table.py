"""A table as its users hold it: its spec and its registry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from evenkeel.registry.consistent_read import Snapshot, constraint_names, snapshot
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.state_view import kinds, one_row_a_key
from evenkeel.spec.loading import find_spec, load_spec
from evenkeel.spec.parts import StateTable
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError
from partitioning.function.sql import OURS, epoch_name, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Table:
    """A keyed table: what its spec says and which epochs it has."""

    spec: TableSpec

    @cached_property
    def registry(self) -> Registry:
        """Its epochs, sketches and runs."""
        return Registry(self.spec.registry)

    def epoch(self, number: int | None = None) -> Epoch:
        """One epoch; the current one by default."""
        return self.registry.current() if number is None else self.registry.epoch(number)

    def state(
        self, name: str, number: int | None = None, spark: SparkSession | None = None
    ) -> DataFrame:
        """One row a key of a state table: slot, key, state columns; the partials of split keys are
        merged.

        Parameters
        ----------
        name : of the state table, in the spec
        number : an epoch, at whose version the table is read; None: the newest rows, by the epoch
            that is current now: make it anew after another is published
        spark : None: the active session

        Raises
        ------
        InputError : no such state table or epoch, or no active session
        """
        spark = spark or _session()
        return spark.sql(self.state_sql(name, number, spark))

    def state_sql(
        self, name: str, number: int | None = None, spark: SparkSession | None = None
    ) -> str:
        """The SQL that `state` runs: for a view, which holds until another epoch is published.

        While a table stands under another constraint than the epoch's alone, the rows of all its
        keys are merged. A migration may give a key's new owners their copies, and a registry may be
        older than the table: which keys have several rows the epoch's function does not know then.
        """
        if name not in self.spec.state:
            known = ", ".join(self.spec.state)
            raise InputError(f"there is no state table {name!r}", "state", f"Known: {known}")
        spark, epoch, part = spark or _session(), self.epoch(number), self.spec.state[name]
        source = f"delta.{quoted(part.path)}"
        if number is not None:
            source += f" VERSION AS OF {epoch.tables[name].version}"
        every = number is None and self._may_be_newer(spark, part, epoch)
        types = kinds(spark.sql(f"SELECT * FROM {source} LIMIT 0").schema)
        return one_row_a_key(source, types, part, epoch.function, every)

    def _may_be_newer(self, spark: SparkSession, part: StateTable, epoch: Epoch) -> bool:
        """Whether a state table's newest rows may stand by another epoch than the current one."""
        if part.copied and self.spec.split is not None:
            # Copies come before their epoch is published, which a view does not see.
            return True
        ours = {name for name in constraint_names(spark, part.path) if name.startswith(OURS)}
        return ours != {epoch_name(epoch.number)}

    def snapshot(self, spark: SparkSession | None = None) -> Snapshot:
        """All state tables as the current epoch has them, also while state moves: for readers who
        bring rows of several together by channel, which differ from one to the next until then.

        Parameters
        ----------
        spark : None: the active session

        Raises
        ------
        FenceError : a table no longer has such a version
        """
        paths = {name: part.path for name, part in self.spec.state.items()}
        return snapshot(spark or _session(), self.epoch(), paths)


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        raise InputError("there is no Spark session", "state", "Start one, or give it")
    return active


def open_table(table: str) -> Table:
    """Open a table by its name (a spec in `$EVENKEEL_TABLES` or ./tables) or its spec's path.

    Raises
    ------
    InputError : no such table, or a spec that is wrong
    """
    return Table(load_spec(find_spec(str(table))))
