"""The constraint of one state table while its rows move: opened, closed, held and sealed.

No commit here scans a row, so none can lose against writers of rows. Each checks before it acts, so
running it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

from delta.exceptions import MetadataChangedException
from pyspark.sql import SparkSession

from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.rows.placement_sql import held_rule, misplaced_sql
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import EvenkeelError, FenceError, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.moves.partial_rows import shared_keys


@dataclass(frozen=True, eq=False)
class TableLock:
    """The constraint of one state table on its way from one placement to the other.

    Parameters
    ----------
    name : of the state table, in the spec
    source, target : functions that rows leave and arrive by
    step : the job's name, for the table's history
    fence : checks that the migration may continue; returns the table's version and constraints
    """

    spark: SparkSession
    migration: Migration
    name: str
    source: PartitioningFunction
    target: PartitioningFunction
    step: str
    fence: Callable[[], tuple[int, set[str]]]

    @property
    def path(self) -> str:
        """Path of the state table."""
        return self.migration.path(self.name)

    @property
    def where(self) -> str:
        """The table as errors name it."""
        return f"{self.name} ({self.path})"

    @cached_property
    def shared(self) -> Hashes:
        """Keys that either function splits. There may be several rows of each."""
        return shared_keys(self.source, self.target)

    def open_constraint(self) -> bool:
        """Let the table admit both functions, and drop the constraint of the source's alone.

        No row is scanned: all rows are where the source puts them.

        Returns
        -------
        True if this call changed the constraint, so that no row has moved yet.
        """
        moving, closing = self.migration.moving, constraints.epoch_name(self.source.epoch)

        def once() -> bool:
            version, existing = self.fence()
            if closing not in existing:
                # An attempt that was killed may have left it narrower.
                self._replace_moving(self.migration.rules[moving][0])
                return False
            if moving not in existing:
                self._add(moving, version, existing)
            crash_point("unsealing")
            with self._commit() as own:
                return constraints.drop_beside(own, self.path, closing, moving, {*existing, moving})

        done = retry_on_conflict(self.spark, once, self.where)
        crash_point("unsealed")
        return done

    def close(self) -> None:
        """Refuse rows by the source's function from now on, so that those left to move are finite.

        The moving constraint keeps its name, and admits the target's function alone. No row is
        scanned. A writer that began before this commit, and has not ended, fails. A statement of an
        attempt that was given up comes too late from now on: no constraint sees what it deletes.
        """
        self._replace_moving(constraints.rule(self.target), spend=True)
        crash_point("closed")

    @contextmanager
    def held(self, closed: bool) -> Iterator[None]:
        """Let the moving constraint admit only what this move writes, and then what it did.

        A job that is killed meanwhile leaves it so. Then the next one to move rows opens it.
        """
        say(f"{self.name}: holding other writers off for one statement")
        self._replace_moving(held_rule(self.source, self.target, self.shared))
        crash_point("held")
        before = self.migration.rules[self.migration.moving][0]
        after = constraints.rule(self.target) if closed else before
        try:
            yield
        except Exception:
            # Tell why the statement failed, even if the constraint cannot be replaced by now.
            with suppress(EvenkeelError, *SPARK_ERRORS):
                self._replace_moving(after)
            raise
        crash_point("holding")
        self._replace_moving(after)

    def seal(self) -> bool:
        """Let the table admit the target's function alone.

        It looks at the rows of one version. A look is no transaction, so no writer can make it
        fail. Later rows are admitted by the closed constraint.

        Returns
        -------
        False if the table is not closed, or a row is elsewhere: close and move again.
        """
        moving, opening = self.migration.moving, constraints.epoch_name(self.target.epoch)

        def once() -> bool:
            version, existing = self.fence()
            if opening not in existing:
                if not self._in_place(version):
                    return False
                self._add(opening, version, existing, lambda: self._only_rows_since(version))
            crash_point("sealing")
            if moving in existing:
                # One of this attempt may have begun since the table was closed.
                with self._commit(version) as own:
                    constraints.drop_beside(own, self.path, moving, opening, {*existing, opening})
            return opening in constraints.our_constraints(self.spark, self.path)

        done = retry_on_conflict(self.spark, once, self.where)
        crash_point("sealed")
        return done

    def _replace_moving(self, rule: str, spend: bool = False) -> None:
        """Replace the expression of the moving constraint, unless the table is sealed.

        Parameters
        ----------
        spend : the transaction id of the version that this looks at, too
        """
        moving, opening = self.migration.moving, constraints.epoch_name(self.target.epoch)

        def once() -> None:
            version, existing = self.fence()
            if opening in existing or moving not in existing:
                return
            with self._commit(version if spend else None) as own:
                # A late attempt must not replace what another one has put: ask in the transaction.
                constraints.put(
                    own, self.path, moving, rule, existing, lambda: self.fence() and None
                )

        retry_on_conflict(self.spark, once, self.where)

    def _add(
        self,
        constraint: str,
        version: int,
        existing: set[str],
        unchanged: Callable[[], None] = lambda: None,
    ) -> None:
        """Add one of the migration's constraints, without a scan.

        It writes first and then looks. publish and other runs do the same, so at least one of two
        sees the other. The fence has looked at `version`, and saw the constraints `existing`.

        Raises
        ------
        FenceError : something has changed since; the constraint is dropped again
        """
        rule = self.migration.rules[constraint][0]
        with self._commit() as own:
            fresh = constraints.put(own, self.path, constraint, rule, existing, unchanged)
        try:
            self._alone_since(version)
            self.fence()
        except (FenceError, InputError):
            # Another attempt of the plan may have put it meanwhile: then it is that one's.
            if fresh:
                constraints.take_back(self._commit, self.path, constraint)
            raise

    def _in_place(self, version: int) -> bool:
        """Return whether the table is closed, and every row of a version is where it belongs."""
        rule = constraints.rule(self.target)
        moving = constraints.of(self.spark, self.path).get(self.migration.moving, "")
        if not constraints.same_sql(moving, rule):
            return False
        rows = state.read_version(self.spark, self.path, version)
        return rows.where(misplaced_sql(self.target)).isEmpty()

    def _only_rows_since(self, version: int) -> None:
        """Raise MetadataChangedException if more than rows has changed since a version."""
        for commit in commits.history_since(self.spark, self.path, version):
            if commit.operation not in constraints.ROW_OPERATIONS:
                raise MetadataChangedException(f"version {commit.version} is {commit.operation}")

    def _alone_since(self, version: int) -> None:
        """Raise FenceError if another plan has written since a version."""
        digest = self.migration.plan.digest
        for commit in commits.history_since(self.spark, self.path, version):
            if commit.meta.get("digest", digest) != digest:
                raise FenceError(
                    "another plan wrote to the table while this one was paused",
                    self.where,
                    "Plan again: start a new run",
                )

    def _commit(self, version: int | None = None) -> AbstractContextManager[SparkSession]:
        """Make the session of a commit of constraints.

        It checks the constraints itself. With the `version` of the table that this looked at, it
        spends a transaction id as well: statements of before are skipped from then on.
        """
        app = None if version is None else commits.app_id(self.migration.table.spec.table)
        return commits.our_commit(self.spark, app, version, self.migration.meta(self.step))
