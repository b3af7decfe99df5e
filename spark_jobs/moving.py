"""Moving rows between two placements, in steps that may each be the last before a crash.

loosen (the table admits both functions), move (one UPDATE, then sweeps), tighten (the table
admits one function alone). Forward or back is the same, with the ends exchanged. Every step
looks at what stands before it acts, so that doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from partitioning.errors import DamagedError, FenceError
from partitioning.function import PartitioningFunction
from partitioning.hashing import slot_of
from partitioning.sql import channel_sql
from spark_jobs import commits, constraints, state
from spark_jobs.fence import Migration, persistently, reached
from spark_jobs.job import say
from spark_jobs.throttle import Throttle

#: How often rows that other writers still add by the function that is left are fetched.
SWEEPS = 3
#: Ranges of slots in an UPDATE's condition. They only spare reading; many cost more than they
#: save: past some thousand bytes of code the JVM interprets Spark's generated filter.
RANGES = 12
_VIOLATED = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
_EXISTS = "DELTA_CONSTRAINT_ALREADY_EXISTS"
_REFUSED = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"


@dataclass(frozen=True, eq=False)
class Passage:
    """One state table on its way from one placement to the other.

    Parameters
    ----------
    name : of the state table, in the spec
    source, target : functions that rows leave and arrive by
    step : the job's name, for the table's history
    fence : checks the world and returns the table's version and the constraints that stand
    stops : functions on the way from source to target, in order: what stands by each is
        committed before what comes after it. None: all at once
    throttle : how fast; None: as fast as it goes
    """

    spark: SparkSession
    migration: Migration
    name: str
    source: PartitioningFunction
    target: PartitioningFunction
    step: str
    fence: Callable[[], tuple[int, set[str]]]
    stops: Sequence[PartitioningFunction] = ()
    throttle: Throttle | None = None

    @property
    def path(self) -> str:
        return self.migration.path(self.name)

    @property
    def where(self) -> str:
        """The table as errors name it."""
        return f"{self.name} ({self.path})"

    def loosen(self) -> bool:
        """Let the table admit both functions, and no longer the source's alone. True: it has
        come to do so only now, so that no row has moved yet.

        Raises
        ------
        FenceError : rows stand where neither function puts them
        """
        moving, closing = self.migration.moving, constraints.epoch_name(self.source.epoch)

        def once() -> bool:
            _, stands = self.fence()
            if closing not in stands:
                return False
            if moving not in stands and not self._add(moving):
                raise FenceError(
                    "has rows where neither epoch puts them: somebody else moved them",
                    self.where,
                    "Find in DESCRIBE HISTORY who did, and bring the table back",
                )
            reached("loosening")
            with self._commit():
                return constraints.drop(self.spark, self.path, closing)

        done = persistently(once, self.where)
        reached("loosened")
        return done

    def move(self, untouched: bool = False) -> int:
        """Move every row that the target puts elsewhere; returns how many.

        First up to each stop, then whatever is left: sweeps until nobody wrote meanwhile, or
        nothing was left to move.

        Parameters
        ----------
        untouched : no row has moved yet: the first UPDATE need not look whether any is left

        Raises
        ------
        FenceError : writers that use the source's function do not stop
        """
        condition = moved_sql(self.source, self.target)
        look = not untouched
        total = 0
        for at, stop in zip((self.source, *self.stops), self.stops, strict=False):
            if (part := moved_sql(at, stop, self.target)) is not None:
                rows, _ = persistently(
                    lambda part=part, look=look: self._update(part, look), self.where
                )
                look, total = True, total + (rows or 0)
                reached("batch moved")
        for _ in range(SWEEPS):
            if condition is None:
                break
            rows, quiet = persistently(lambda look=look: self._update(condition, look), self.where)
            look, total = True, total + (rows or 0)
            reached("moved")
            if quiet:
                break
        else:
            raise FenceError(
                f"rows still arrive by another epoch's function after {SWEEPS} sweeps",
                self.where,
                f"Pause the writers that do not use epoch {self.target.epoch}, then run this again",
            )
        return total

    def tighten(self) -> bool:
        """Let the table admit the target's function alone. False where a row that came meanwhile
        is not there yet: move again."""
        moving, opening = self.migration.moving, constraints.epoch_name(self.target.epoch)

        def once() -> bool:
            _, stands = self.fence()
            if opening not in stands and not self._add(opening):
                return False
            reached("sealing")
            if moving in stands:
                with self._commit():
                    constraints.drop(self.spark, self.path, moving)
            return True

        done = persistently(once, self.where)
        reached("sealed")
        return done

    def _update(self, condition: str, look: bool) -> tuple[int | None, bool]:
        """One UPDATE: rows moved (None: its transaction id was spent), and whether its commit is
        the only one since the fence, so that nothing can be left to move."""
        version, _ = self.fence()
        rows_left = self.spark.read.format("delta").load(self.path).where(condition)
        if look and rows_left.isEmpty():
            # An UPDATE of nothing that carries a transaction id leaves an empty commit behind.
            return 0, True
        if self.throttle is not None:
            self.throttle.admit(rows_left, self.path)
        app = commits.app_id(self.migration.table.spec.table)
        update = (
            f"UPDATE {state.sql_name(self.path)} SET {state.CHANNEL} = {channel_sql(self.target)} "
            f"WHERE {condition}"
        )
        try:
            with commits.commit_conf(self.spark, app, version, self.migration.meta(self.step)):
                row = self.spark.sql(update).first()
        except (PySparkException, Py4JJavaError) as error:
            if _REFUSED not in str(error):
                raise
            raise FenceError(
                "has got another constraint since this migration last looked",
                self.where,
                "Another run has finished or undone this migration; look at its constraints",
            ) from error
        rows = None if row is None else int(row[0])
        if rows:
            say(f"{self.name}: {rows:,} rows moved")
        if self.throttle is not None:
            self.throttle.keep(self.path, version)
        since = state.table_version(self.spark, self.path) - version
        return rows, rows is not None and since == 1

    def _add(self, constraint: str) -> bool:
        """Add one of the migration's constraints; False where rows violate it."""
        rule = self.migration.rules[constraint]
        try:
            with self._commit():
                constraints.add(self.spark, self.path, constraint, rule)
        except PySparkException as error:
            if error.getCondition() == _VIOLATED:
                return False
            if error.getCondition() != _EXISTS:
                raise
            # Somebody was first: ourselves twice, or another plan, at which the fence stops us.
            self.fence()
        except DamagedError:
            self.fence()
            raise
        return True

    def _commit(self) -> AbstractContextManager[None]:
        # A change of constraints carries no transaction id: it looks at what stands.
        return commits.commit_conf(self.spark, None, None, self.migration.meta(self.step))


def moved_sql(
    source: PartitioningFunction,
    target: PartitioningFunction,
    final: PartitioningFunction | None = None,
) -> str | None:
    """SQL for the rows that stand by `source` and have another channel by `target`; None: none.

    Only the last part decides; the others name channels (partitions) and slots (Parquet row
    groups) that need not be read.

    Parameters
    ----------
    final : the function that `target` is a stop on the way to: whoever writes by that one
        already is let be
    """
    slots = np.flatnonzero(source.slots != target.slots)
    keys = np.union1d(source.explicit_keys, target.explicit_keys)
    keys = keys[source.lookup_hashes(keys) != target.lookup_hashes(keys)]
    if not len(slots) and not len(keys):
        return None
    channels = np.union1d(source.slots[slots], source.lookup_hashes(keys))
    ranges = slot_ranges(np.union1d(slots, slot_of(keys, len(source.slots))))
    within = " OR ".join(f"{state.SLOT} BETWEEN {first} AND {last}" for first, last in ranges)
    due = f"{state.CHANNEL} <> {channel_sql(target if final is None else final)}"
    if final is not None:
        due += f" AND {channel_sql(target)} = {channel_sql(final)}"
    return f"{state.CHANNEL} IN ({', '.join(map(str, channels.tolist()))}) AND ({within}) AND {due}"


def slot_ranges(slots: np.ndarray, most: int = RANGES) -> list[tuple[int, int]]:
    """At most `most` ranges (first, last) that hold all slots (ascending, at least one): runs of
    neighbours, the nearest joined."""
    gaps = np.diff(slots) - 1
    widest = np.sort(np.argsort(-gaps, kind="stable")[: most - 1])
    cuts = widest[gaps[widest] > 0]
    first = np.concatenate([slots[:1], slots[cuts + 1]])
    last = np.concatenate([slots[cuts], slots[-1:]])
    return list(zip(first.tolist(), last.tolist(), strict=True))
