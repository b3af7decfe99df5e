"""Moving rows between two placements, in steps that may each be the last before a crash.

loosen (the table admits both functions), move (one UPDATE and, of split keys, one MERGE; then
sweeps), tighten (the table admits one function alone). Forward or back is the same, with the ends
exchanged. Every step looks at what stands before it acts, so that doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenkeel_spark.events.aggregate import exact
from evenkeel_spark.migration.fence import Migration, crash_point
from evenkeel_spark.migration.move_predicate import moved_sql
from evenkeel_spark.migration.split_state import (
    WRITTEN,
    PartialMerge,
    check_nothing_lost,
    selected_columns,
    unmerged_columns,
)
from evenkeel_spark.migration.throttle import Throttle
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, constraints, state
from partitioning.errors import DamagedError, FenceError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.function.sql import channel_sql
from partitioning.moves.partial_rows import shared_keys

#: How often rows that other writers still add by the function that is left are fetched.
SWEEPS = 3
_VIOLATED = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
_EXISTS = "DELTA_CONSTRAINT_ALREADY_EXISTS"
#: Of a MERGE's answer: the rows that have left, and those that have come.
_DELETED, _INSERTED = "num_deleted_rows", "num_inserted_rows"


class WriteResult(NamedTuple):
    """Hold what one statement moved, and the table's version before and after.

    Rows are None if the transaction id was used before.
    """

    rows: int | None
    before: int
    after: int


@dataclass(frozen=True, eq=False)
class TableMigration:
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

    def open_constraint(self) -> bool:
        """Let the table admit both functions, and no longer the source's alone.

        Returns True if this call changed the constraint, so that no row has moved yet.

        Raises
        ------
        FenceError : rows stand where neither function puts them
        """
        moving, closing = self.migration.moving, constraints.epoch_name(self.source.epoch)

        def once() -> bool:
            version, stands = self.fence()
            if closing not in stands:
                return False
            if moving not in stands and not self._add(moving, version):
                raise FenceError(
                    "has rows where neither epoch puts them: somebody else moved them",
                    self.where,
                    constraints.mend(self.migration.table.spec.table),
                )
            crash_point("loosening")
            with self._commit() as own:
                return constraints.drop_beside(own, self.path, closing, moving)

        done = retry_on_conflict(self.spark, once, self.where)
        crash_point("loosened")
        return done

    def move(self, untouched: bool = False) -> int:
        """Move every row that the target puts elsewhere; returns how many.

        First up to each stop, then whatever is left: sweeps until nobody wrote meanwhile, or
        nothing was left to move.

        Parameters
        ----------
        untouched : no row has moved yet: of whole keys the first UPDATE need not look whether any
            is left

        Raises
        ------
        FenceError : writers that use the source's function do not stop
        """
        # Of split keys it does not follow: to share one among more channels moves no row.
        look, total, at = not untouched or len(self.shared) > 0, 0, self.source
        for stop in self.stops:
            if (part := moved_sql(at, stop, self.target, self.shared)) is not None:
                write = partial(self._write, *self._update(part), look)
                rows = retry_on_conflict(self.spark, write, self.where).rows
                look, total = True, total + (rows or 0)
                crash_point("batch moved")
            at = stop
        writes = self.writes()
        for _ in range(SWEEPS if writes else 0):
            made = []
            for left, statement in writes:
                write = partial(self._write, left, statement, look)
                made.append(retry_on_conflict(self.spark, write, self.where))
                look, total = True, total + (made[-1].rows or 0)
                crash_point("moved")
            if _undisturbed(made):
                break
        else:
            if writes:
                raise FenceError(
                    f"rows still arrive by another epoch's function after {SWEEPS} sweeps",
                    self.where,
                    f"Pause the writers that do not use epoch {self.target.epoch}, then run this "
                    "again",
                )
        return total

    def seal(self) -> bool:
        """Let the table admit the target's function alone.

        Returns False if a row that arrived meanwhile is still elsewhere: move again.
        """
        moving, opening = self.migration.moving, constraints.epoch_name(self.target.epoch)

        def once() -> bool:
            version, stands = self.fence()
            if opening not in stands and not self._add(opening, version):
                return False
            crash_point("sealing")
            if moving in stands:
                with self._commit() as own:
                    constraints.drop_beside(own, self.path, moving, opening)
            return opening in constraints.our_constraints(self.spark, self.path)

        done = retry_on_conflict(self.spark, once, self.where)
        crash_point("sealed")
        return done

    @cached_property
    def shared(self) -> Hashes:
        """Keys that either function splits, of which there may be several rows."""
        return shared_keys(self.source, self.target)

    def writes(self) -> list[tuple[str, str]]:
        """List the queries for the rows left to move, each with the statement that moves them.

        Whole keys come first. See `PartialMerge.left`.
        """
        spec, found = self.migration.table.spec, []
        if (whole := moved_sql(self.source, self.target, shared=self.shared)) is not None:
            found.append(self._update(whole))
        if len(self.shared):
            joining = PartialMerge(spec, self.name, self.target, self.shared)
            found.append((joining.left(), joining.merge()))
        return found

    def _update(self, condition: str) -> tuple[str, str]:
        # Of keys that are split it is not asked.
        owner, path = channel_sql(self.target.unsplit), state.sql_name(self.path)
        columns = selected_columns(self.migration.table.spec.state[self.name])
        return (
            f"{columns} FROM {path} WHERE {condition}",
            f"UPDATE {path} SET {state.CHANNEL} = {owner} WHERE {condition}",
        )

    def _write(self, left: str, statement: str, look: bool) -> WriteResult:
        """Move the rows that `left` finds by one statement, if there are any."""
        version, _ = self.fence()
        spec, merges = self.migration.table.spec, statement.startswith("MERGE")
        if merges:
            unmerged_columns(self.spark, spec, self.name)
        rows_left = self.spark.sql(left)
        if look and rows_left.isEmpty():
            # A write of nothing that carries a transaction id leaves an empty commit behind.
            return WriteResult(0, version, version)
        if merges:
            check_nothing_lost(self.spark, spec, self.name)
        if self.throttle is not None:
            self.throttle.admit(rows_left.where(WRITTEN), self.name)
        app = commits.app_id(self.migration.table.spec.table)
        try:
            meta = self.migration.meta(self.step)
            with exact(self.where), commits.commit_session(self.spark, app, version, meta) as own:
                row = own.sql(statement).first()
        except (PySparkException, Py4JJavaError) as error:
            if constraints.REFUSED not in str(error):
                raise
            raise FenceError(
                "has got another constraint since this migration last looked",
                self.where,
                "Another run has finished or undone this migration; look at its constraints",
            ) from error
        rows = None if row is None else int(row[0])
        if row is not None and _DELETED in row:
            rows = max(row[_DELETED], row[_INSERTED])
        if rows:
            say(f"{self.name}: {rows:,} rows moved")
        if self.throttle is not None:
            self.throttle.keep(self.name, version)
        return WriteResult(rows, version, state.table_version(self.spark, self.path))

    def _add(self, constraint: str, version: int) -> bool:
        """Add one of the migration's constraints; False where rows violate it.

        Write, then look: publish and other runs do the same, so that of two at least one sees the
        other.

        Parameters
        ----------
        version : at which the fence was looked at

        Raises
        ------
        FenceError : the world has changed since; the constraint is taken away again
        """
        rule = self.migration.rules[constraint]
        try:
            with self._commit() as own:
                constraints.add(own, self.path, constraint, rule)
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
        try:
            self._alone_since(version)
            self.fence()
        except FenceError:
            for other in sorted(constraints.our_constraints(self.spark, self.path) - {constraint}):
                with self._commit() as own:
                    if constraints.drop_beside(own, self.path, constraint, other):
                        break
            raise
        return True

    def _alone_since(self, version: int) -> None:
        """Refuse where another plan has written since a version."""
        digest = self.migration.plan.digest
        for commit in commits.history_since(self.spark, self.path, version):
            if commit.meta.get("digest", digest) != digest:
                raise FenceError(
                    "another plan came between: this one was left alone for too long",
                    self.where,
                    "Plan again: start a new run",
                )

    def _commit(self) -> AbstractContextManager[SparkSession]:
        # A change of constraints carries no transaction id: it looks at what stands.
        return commits.commit_session(self.spark, None, None, self.migration.meta(self.step))


def _undisturbed(made: Sequence[WriteResult]) -> bool:
    """Return whether nobody else wrote between the first and last of these writes.

    If so, no row can be left to move.
    """
    return all(w.rows is not None and w.after - w.before <= 1 for w in made) and all(
        one.after == other.before for one, other in pairwise(made)
    )
