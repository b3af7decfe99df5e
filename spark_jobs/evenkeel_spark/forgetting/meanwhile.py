"""Whether a key was forgotten while a job worked on events that it had read before.

Each call of forget commits to every state table, also if it deletes no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.delta import commits, state
from partitioning.errors import FenceError

STEP = "forget"


def check_none_forgotten(spark: SparkSession, path: str, where: str, since: int) -> None:
    """Refuse to go on if a key was forgotten after a version of a state table.

    Raises
    ------
    FenceError : one was
    """
    if any(c.meta.get("step") == STEP for c in commits.history_since(spark, path, since)):
        raise FenceError("a key was forgotten meanwhile", where, "Run it again")


@contextmanager
def none_forgotten(spark: SparkSession, spec: TableSpec) -> Iterator[list[Callable[[], object]]]:
    """Yield a list for what undoes the block's writes: it is called if a key was forgotten.

    The block reads events, and writes names of keys from them. Its writes after a call of forget
    are undone here, also if it fails, and that call cleans those before.

    Raises
    ------
    FenceError : a key was forgotten since the block began
    """
    undo: list[Callable[[], object]] = []
    if spec.iceberg:
        # No command forgets keys of Iceberg tables.
        yield undo
        return
    name, part = next(iter(spec.state.items()))
    since = state.table_version(spark, part.path)

    def check() -> None:
        try:
            check_none_forgotten(spark, part.path, f"{name} ({part.path})", since)
        except FenceError:
            for step in undo:
                step()
            raise

    try:
        yield undo
    except BaseException:
        # The block's own error is the one to tell.
        with suppress(Exception):
            check()
        raise
    check()
