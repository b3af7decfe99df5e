"""Whether a key was forgotten while a job worked on events that it had read before.

Each call of forget commits to every state table, also if it deletes no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.iceberg.checks import iceberg_table
from evenkeel_spark.tables.iceberg.commits import SUMMARY
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from partitioning.errors import FenceError

#: Step that commits of forget say.
FORGET = "forget"


def check_none_forgotten(spark: SparkSession, path: str, where: str, since: int) -> None:
    """Refuse to go on if a key was forgotten after a version of a state table.

    Raises
    ------
    FenceError : one was
    """
    if any(c.meta.get("step") == FORGET for c in commits.history_since(spark, path, since)):
        raise _forgotten(where)


def check_none_forgotten_at(one: IcebergTable, where: str, since: int, head: int) -> None:
    """Refuse to go on if a key was forgotten between two snapshots of an Iceberg table.

    Raises
    ------
    FenceError : one was, or the table was rolled back or snapshots have expired, so that nobody can
        tell
    """
    made = one.since(since, head)
    if made is None or (made[0].parent if made else head) != since:
        raise FenceError(
            f"was rolled back from snapshot {since}, or those after it have expired: nobody can "
            "tell whether a key was forgotten",
            where,
            "Run it again",
        )
    if any(commit.summary.get(f"{SUMMARY}step") == FORGET for commit in made):
        raise _forgotten(where)


def _forgotten(where: str) -> FenceError:
    return FenceError("a key was forgotten meanwhile", where, "Run it again")


@dataclass(frozen=True)
class NamingWrites:
    """Make writes that may name keys, if none was forgotten since a version of a state table."""

    check: Callable[[], None]
    undo: list[Callable[[], object]] = field(default_factory=list)

    def make(self, write: Callable[[], object], undo: Callable[[], object]) -> None:
        """Make a write, and note what takes it back.

        Look before the first one, too: a job that is killed takes nothing back.

        Raises
        ------
        FenceError : a key was forgotten
        """
        if not self.undo:
            self.check()
        self.undo.append(undo)
        write()


@contextmanager
def none_forgotten(spark: SparkSession, spec: TableSpec) -> Iterator[NamingWrites]:
    """Yield what makes the block's writes, and takes them back if a key was forgotten.

    The block reads events, and writes names of keys from them. Its writes after a call of forget
    are undone here, also if it fails, and that call cleans those before.

    Raises
    ------
    FenceError : a key was forgotten since the block began
    """
    look = _look(spark, spec)
    writes = NamingWrites(look)

    def check() -> None:
        try:
            look()
        except FenceError:
            for step in writes.undo:
                step()
            raise

    try:
        yield writes
    except BaseException:
        # The block's own error is the one to tell.
        with suppress(Exception):
            check()
        raise
    check()


def _look(spark: SparkSession, spec: TableSpec) -> Callable[[], None]:
    """Return what refuses to go on if a key was forgotten since now.

    It looks at every state table: a call of forget that is under way has committed to the first,
    and the others may still have the key.
    """
    looks = [_look_at(spark, spec, name) for name in spec.state]

    def look() -> None:
        for one in looks:
            one()

    return look


def _look_at(spark: SparkSession, spec: TableSpec, name: str) -> Callable[[], None]:
    path, where = spec.state[name].path, table_in_errors(spec, name)
    if not spec.iceberg:
        since = state.table_version(spark, path)
        return partial(check_none_forgotten, spark, path, where, since)
    began = iceberg_table(spark, spec, name).head()

    def look() -> None:
        one = iceberg_table(spark, spec, name)
        check_none_forgotten_at(one, where, began, one.head())

    return look
