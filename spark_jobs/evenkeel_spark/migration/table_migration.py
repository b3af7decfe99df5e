"""Moves of one state table's rows between two placements, in steps.

A crash may come after any step. `open_constraint` lets the table admit both functions. `move` runs
one UPDATE, one MERGE for split keys, and then sweeps. `seal` lets the table admit one function
alone. Going back is the same with the two placements exchanged. Every step checks before it acts,
so running it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial

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
from evenkeel_spark.tables.delta.commits import WriteResult, undisturbed
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import DamagedError, FenceError, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.function.sql import channel_sql
from partitioning.moves.partial_rows import shared_keys

#: Sweeps for rows that other writers still add by the source's function. More: it waits longer for
#: such writers to stop before it fails.
SWEEPS = 3
_VIOLATED = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
_EXISTS = "DELTA_CONSTRAINT_ALREADY_EXISTS"
#: Fields of a MERGE's result: rows that have left, and rows that have come.
_DELETED, _INSERTED = "num_deleted_rows", "num_inserted_rows"


@dataclass(frozen=True, eq=False)
class TableMigration:
    """One state table on its way from one placement to the other.

    Parameters
    ----------
    name : of the state table, in the spec
    source, target : functions that rows leave and arrive by
    step : the job's name, for the table's history
    fence : checks that the migration may continue; returns the table's version and constraints
    stops : functions on the way from source to target, in order. Rows moved by one are committed
        before those of the next. None: all at once
    throttle : limits the rate; None: no limit
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
        """Path of the state table."""
        return self.migration.path(self.name)

    @property
    def where(self) -> str:
        """The table as errors name it."""
        return f"{self.name} ({self.path})"

    def open_constraint(self) -> bool:
        """Let the table admit both functions, and drop the constraint of the source's alone.

        Returns
        -------
        True if this call changed the constraint, so that no row has moved yet.

        Raises
        ------
        FenceError : rows are where neither function puts them
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
                return constraints.drop_beside(own, self.path, closing, moving, {*stands, moving})

        done = retry_on_conflict(self.spark, once, self.where)
        crash_point("loosened")
        return done

    def move(self, untouched: bool = False) -> int:
        """Move every row that the target puts elsewhere.

        It moves up to each stop, and then whatever is left. It sweeps until nobody wrote meanwhile,
        or nothing was left to move.

        Parameters
        ----------
        untouched : no row has moved yet, so the first UPDATE need not look for rows of whole keys

        Returns
        -------
        Number of rows moved.

        Raises
        ------
        FenceError : writers that use the source's function do not stop
        """
        # Look even so if keys are split: to share a key among more channels moves no row.
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
            if undisturbed(made):
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

        Returns
        -------
        False if a row that arrived meanwhile is still elsewhere: move again.
        """
        moving, opening = self.migration.moving, constraints.epoch_name(self.target.epoch)

        def once() -> bool:
            version, stands = self.fence()
            if opening not in stands and not self._add(opening, version):
                return False
            crash_point("sealing")
            if moving in stands:
                with self._commit() as own:
                    constraints.drop_beside(own, self.path, moving, opening, {*stands, opening})
            return opening in constraints.our_constraints(self.spark, self.path)

        done = retry_on_conflict(self.spark, once, self.where)
        crash_point("sealed")
        return done

    @cached_property
    def shared(self) -> Hashes:
        """Keys that either function splits. There may be several rows of each."""
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
        # Rows of split keys are excluded: their channel is not the function's.
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
            # A write without rows would still leave an empty commit, for its transaction id.
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
        except SPARK_ERRORS as error:
            if constraints.REFUSED not in str(error):
                raise
            raise FenceError(
                "has got another constraint since this migration last looked",
                self.where,
                f"Run it again. If it stops again: {constraints.mend(spec.table)}",
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
        """Add one of the migration's constraints.

        It writes first and then looks. publish and other runs do the same, so at least one of two
        sees the other. The fence has looked at `version`. Return False if rows violate it.

        Raises
        ------
        FenceError : something has changed since; the constraint is dropped again
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
            # Somebody was first: this run twice, or another plan, for which the fence stops us.
            self.fence()
        except DamagedError:
            self.fence()
            raise
        try:
            self._alone_since(version)
            self.fence()
        except (FenceError, InputError):
            constraints.take_back(self._commit, self.path, constraint)
            raise
        return True

    def _alone_since(self, version: int) -> None:
        """Raise FenceError if another plan has written since a version."""
        digest = self.migration.plan.digest
        for commit in commits.history_since(self.spark, self.path, version):
            if commit.meta.get("digest", digest) != digest:
                raise FenceError(
                    "another plan came between: this one was left alone for too long",
                    self.where,
                    "Plan again: start a new run",
                )

    def _commit(self) -> AbstractContextManager[SparkSession]:
        # A change of constraints needs no transaction id: it checks the constraints itself.
        return commits.commit_session(self.spark, None, None, self.migration.meta(self.step))
