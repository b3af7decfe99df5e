"""Moves of one state table's rows between two placements, in steps.

A crash may come after any step. `open_constraint` lets the table admit both functions. `move` runs
one UPDATE, one MERGE for split keys, and then sweeps. `close` refuses further rows by the function
that is left; then `move` finds the last of them. `seal` lets the table admit one function alone.
Going back is the same with the two placements exchanged. Every step checks before it acts, so
running it again changes nothing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count

from evenkeel_spark.events.aggregate import exact
from evenkeel_spark.migration.locks.table_lock import TableLock
from evenkeel_spark.migration.row_moves import moved_sql, run_move
from evenkeel_spark.migration.split_state import (
    WRITTEN,
    PartialMerge,
    check_holds,
    check_nothing_lost,
    selected_columns,
    unmerged_columns,
)
from evenkeel_spark.migration.throttle import Throttle
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.delta.commits import WriteResult, undisturbed
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.tables.spark_errors import REFUSED, SPARK_ERRORS
from partitioning.errors import FenceError
from partitioning.function.sql import channel_sql
from partitioning.planning.batches import Stops

#: Sweeps for rows that other writers still add by the source's function, before the table is closed
#: to it. More: fewer rows are left for the time when such writers are refused.
SWEEPS = 3
#: Times that a statement may lose against other writers before they are held off while it runs.
#: More: they are held off less often, and the migration takes longer beside them.
LOSSES = 2
#: Fields of a MERGE's result: rows that have left, and rows that have come.
_DELETED, _INSERTED = "num_deleted_rows", "num_inserted_rows"


@dataclass(frozen=True, eq=False)
class TableMigration(TableLock):
    """One state table on its way from one placement to the other.

    Parameters
    ----------
    stops : functions on the way from source to target, in order. Rows moved by one are committed
        before those of the next. None, or no stop: all at once
    throttle : limits the rate; None: no limit
    """

    stops: Stops | None = None
    throttle: Throttle | None = None

    def move(self, untouched: bool = False, closed: bool = False) -> int:
        """Move every row that the target puts elsewhere.

        It moves up to each stop, and then whatever is left. It sweeps until it finds nothing left
        to move, or `SWEEPS` times: before `close`, rows may come faster than they are swept.

        Parameters
        ----------
        untouched : no row has moved yet, so the first UPDATE need not look for rows of whole keys
        closed : `close` was called; else other writers may use the source's function meanwhile

        Returns
        -------
        Number of rows moved.
        """
        # Look even so if keys are split: to share a key among more channels moves no row.
        look, total, at = not untouched or len(self.shared) > 0, 0, self.source
        made, every = 0, len(self.migration.plan.moves)
        for made, stop in zip(self.stops.ends, self.stops, strict=True) if self.stops else ():
            if (part := moved_sql(at, stop, self.target, self.shared)) is not None:
                rows = self._persist(*self._update(part), look, closed, made).rows
                look, total = True, total + (rows or 0)
                crash_point("batch moved")
            at = stop
        writes = self.writes()
        for _ in range(SWEEPS if writes else 0):
            done = []
            for left, statement in writes:
                # Some moves of whole keys may be complete only with the MERGE.
                moves = made if (left, statement) != writes[-1] else every
                done.append(self._persist(left, statement, look, closed, moves))
                look, total = True, total + (done[-1].rows or 0)
                crash_point("moved")
            if undisturbed(done) or all(one.rows == 0 for one in done):
                break
        else:
            if writes:
                say(f"{self.name}: rows still come by epoch {self.source.epoch}'s function")
        if self.throttle is not None:
            self.throttle.finish(self.name)
        return total

    def check_merges(self) -> None:
        """Refuse partial rows that a MERGE would lose values of, or cannot add up. Write nothing.

        Raises
        ------
        InputError : names the column, and how to continue
        """
        if not len(self.shared):
            return
        spec, joining = self.migration.table.spec, self._joining()
        unmerged_columns(self.spark, spec, self.name)
        if not self.spark.sql(joining.rows_to_move()).isEmpty():
            check_nothing_lost(self.spark, spec, self.name)
            check_holds(self.spark, joining)

    def writes(self) -> list[tuple[str, str]]:
        """List the queries for the rows left to move, each with the statement that moves them.

        Whole keys come first. See `PartialMerge.rows_to_move`.
        """
        found = []
        if (whole := moved_sql(self.source, self.target, shared=self.shared)) is not None:
            found.append(self._update(whole))
        if len(self.shared):
            joining = self._joining()
            found.append((joining.rows_to_move(), joining.merge()))
        return found

    def _joining(self) -> PartialMerge:
        return PartialMerge(self.migration.table.spec, self.name, self.target, self.shared)

    def _update(self, condition: str) -> tuple[str, str]:
        # Rows of split keys are excluded: their channel is not the function's.
        owner, path = channel_sql(self.target.unsplit), state.sql_name(self.path)
        columns = selected_columns(self.migration.table.spec.state[self.name])
        kept = state.kept_sql(self.spark, self.path)
        return (
            f"{columns} FROM {path} WHERE {condition}",
            f"UPDATE {path} SET {state.CHANNEL} = {owner}{kept} WHERE {condition}",
        )

    def _persist(
        self, left: str, statement: str, look: bool, closed: bool, made: int
    ) -> WriteResult:
        """Move the rows that `left` finds by one statement, in the end before any other writer.

        If it has lost `LOSSES` times, the moving constraint refuses other writers while it runs.
        After it, the table has made the first `made` moves of the plan.
        """
        lost = count()

        def once() -> WriteResult:
            held = next(lost) >= LOSSES
            holding = self.held(closed) if held else nullcontext()
            return self._write(left, statement, look, holding, made)

        return retry_on_conflict(self.spark, once, self.where)

    def _write(
        self, left: str, statement: str, look: bool, held: AbstractContextManager[None], made: int
    ) -> WriteResult:
        """Move the rows that `left` finds by one statement, if there are any."""
        version, _ = self.fence()
        spec, merges = self.migration.table.spec, statement.startswith("MERGE")
        if merges:
            unmerged_columns(self.spark, spec, self.name)
        rows_left = self.spark.sql(left)
        if look and rows_left.isEmpty():
            # A write without rows would still leave an empty commit, for its transaction id.
            return WriteResult(0, version, version)
        if self.throttle is not None:
            self.throttle.admit(rows_left.where(WRITTEN), self.name)
        app = commits.app_id(self.migration.table.spec.table)
        try:
            meta = self.migration.meta(self.step)
            with (
                held,
                exact(self.where),
                commits.our_commit(self.spark, app, version, meta) as own,
            ):
                # The last thing before the MERGE, which names the columns: to weigh takes long.
                check = partial(check_nothing_lost, self.spark, spec, self.name)
                row = run_move(own, statement, self.path, self.where, check)
        except SPARK_ERRORS as error:
            if REFUSED not in str(error):
                raise
            what = "has got another constraint since this migration last looked"
            raise FenceError(
                what + (", or a row that is out of place" if spec.fence == "slot" else ""),
                self.where,
                f"Run it again. If it stops again: {repair_advice(spec.table)}",
            ) from error
        rows = None if row is None else int(row[0])
        if row is not None and _DELETED in row:
            rows = max(row[_DELETED], row[_INSERTED])
        if rows:
            say(f"{self.name}: {rows:,} rows moved")
        if self.throttle is not None:
            self.throttle.keep(self.name, version, made)
        return WriteResult(rows, version, state.table_version(self.spark, self.path))
