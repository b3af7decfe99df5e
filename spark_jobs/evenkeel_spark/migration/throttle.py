"""Rate and budget of a migration, from what its commits have written."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.quality.budgets import BUDGET_SLACK, write_budget
from evenkeel.quality.tables_suite import FILE_OVERHEAD
from evenkeel.registry.files.migration_records import Progress
from evenkeel.runs.params import throttle_for
from evenkeel.runs.prediction import batch_limits
from evenkeel_spark.migration.fence import our_commits
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.delta.row_size import size_rows
from evenkeel_spark.tables.parallelism import task_bytes
from evenkeel_spark.tables.rows.row_size import RowSize
from partitioning.errors import DamagedError, EvenkeelError, FenceError
from partitioning.planning.batches import BatchLimit, Stops, stops


@dataclass(frozen=True)
class _Sums:
    """Rows and bytes that commits wrote, and the bytes without the footers of files."""

    rows: int = 0
    bytes: int = 0
    state: int = 0

    @classmethod
    def of(cls, made: Iterable[commits.Commit]) -> _Sums:
        """Add up these commits."""
        each = ((c.rows, c.bytes, max(0, c.bytes - FILE_OVERHEAD * c.files)) for c in made)
        return sum((cls(*one) for one in each), cls())

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self.rows + other.rows, self.bytes + other.bytes, self.state + other.state)


class Throttle:
    """Counter of what a migration's commits moved and wrote. It enforces the budget and the rate.

    The run's parameters set both limits, or else the spec.

    Parameters
    ----------
    back : a rollback, to which no budget applies
    """

    def __init__(self, spark: SparkSession, migration: Migration, back: bool = False) -> None:
        self._spark, self._migration, self._back = spark, migration, back
        self._limits = throttle_for(migration.table.spec, migration.run)
        self._planned = sum(m.rows for m in migration.plan.moves)
        self._budget = None if back else write_budget(migration.plan)
        # Rows that this job moved before it was killed count, except for the rate.
        self._of = defaultdict(_Sums)
        if back:
            self._count_ways()
        else:
            for name in migration.table.spec.state:
                self._of[name] = _Sums.of(our_commits(spark, migration, name))
        self._before = self._all
        # For each table, the moves of the plan that it has made.
        self._moves = dict.fromkeys(migration.table.spec.state, 0 if back else self._known_moves())
        self._told: Progress | None = None
        self._began: float | None = None
        self._prices: dict[str, RowSize] = {}
        # For each table, in this attempt: bytes predicted for what was moved, and bytes written.
        self._paid: dict[str, float] = defaultdict(float)
        self._taken: dict[str, int] = defaultdict(int)
        self._next: dict[str, float] = {}

    def _count_ways(self) -> None:
        """Count what the newest attempt has moved, and what was moved back of that so far."""
        names = self._migration.table.spec.state
        try:
            ways = {n: _both_ways(self._spark, self._migration, n) for n in names}
        except DamagedError:
            # A table's log was cleaned: a way back needs no history.
            return
        self._of.update({name: back for name, (_, back) in ways.items()})
        self._planned = sum(there.rows for there, _ in ways.values())

    def _known_moves(self) -> int:
        """Return the moves that every table has made before this job, as far as files tell."""
        run, plan = self._migration.run, self._migration.plan
        record, told = run.migration.find(), None
        if record is not None and record.digest == plan.digest and record.tables:
            return len(plan.moves)
        # Progress is only a help: a torn file stops no migration.
        with suppress(EvenkeelError):
            told = run.progress.find()
        ours = told is not None and told.digest == plan.digest and not told.back
        return (told.moves or 0) if told is not None and ours else 0

    @property
    def _all(self) -> _Sums:
        """Sums of all tables."""
        return sum(self._of.values(), _Sums())

    def weigh(self, rows: DataFrame, name: str) -> float:
        """Predict the bytes that rows of a state table take, from its files before this attempt."""
        if name not in self._prices:
            self._prices[name] = size_rows(self._spark, self._migration.table.spec.state[name])
        return self._prices[name].times(rows)

    def admit(self, rows: DataFrame, name: str) -> None:
        """Weigh the rows of a state table that a batch moves, before it moves them.

        The prediction is scaled by how far earlier batches exceeded theirs.

        Raises
        ------
        FenceError : with what was written, they are over the budget
        """
        if self._began is None:
            # Start the clock only now: time before the first move must not raise the rate.
            self._began = time.monotonic()
        if self._budget is None:
            return
        size = self._next[name] = self.weigh(rows, name)
        written, paid = self._all.state, self._paid[name]
        # If commits so far wrote more than predicted, scale the next prediction by the same ratio.
        size *= max(1.0, self._taken[name] / paid) if paid else 1.0
        if written + size > self._budget + BUDGET_SLACK:
            raise FenceError(
                f"{written:,} bytes are written, the next batch takes {size:,.0f}, and the "
                f"budget is {self._budget:,.0f}",
                self._migration.path(name),
                "Roll back (the DAG does); then plan again, or raise the budget",
            )

    def keep(self, name: str, since: int, moves: int) -> None:
        """Count what our commits wrote since a version, report progress, and wait for the rate.

        Parameters
        ----------
        moves : moves of the plan that the table has made by now, at least
        """
        self._moves[name] = max(self._moves[name], moves)
        digest = self._migration.plan.digest
        found = commits.history_since(self._spark, self._migration.path(name), since)
        made = _Sums.of(commits.moves_of(found, digest))
        self._of[name] += made
        self._taken[name] += made.state
        self._paid[name] += self._next.pop(name, 0.0)
        now, seconds = self._all, time.monotonic() - (self._began or time.monotonic())
        rows, size = now.rows - self._before.rows, now.bytes - self._before.bytes
        wait = max(0.0, *(s - seconds for s in self._limits.seconds(rows, size)))
        time.sleep(wait)
        left = max(0.0, self._planned - now.rows) / max(1, rows) * (seconds + wait)
        if self._back:
            # Others may have written more rows by the function that is left.
            self._planned = max(self._planned, now.rows)
        told = self._report(left)
        say(f"{told.text(self._back)}, {told.bytes:,} bytes written; about {left:,.0f} s left")

    def finish(self, name: str) -> None:
        """Count all moves of a table as made: a look has found no more of its rows to move."""
        self._moves[name] = len(self._migration.plan.moves)
        if self._told is not None:
            self._report(self._told.left)
        elif not self._back and min(self._moves.values()) == len(self._migration.plan.moves):
            # An earlier try was killed after its last commit, and before it could report it.
            self._report(0.0)

    def _report(self, left: float) -> Progress:
        """Write the progress, if it has changed, and return it; `left`: seconds."""
        plan, now = self._migration.plan, self._all
        told = Progress(
            digest=plan.digest,
            rows=now.rows,
            planned=self._planned,
            bytes=now.bytes,
            left=left,
            back=self._back,
            moves=None if self._back else min(self._moves.values()),
            moves_planned=None if self._back else len(plan.moves),
        )
        if told != self._told:
            self._migration.run.progress.write(told)
            self._told = told
        return told


def _both_ways(spark: SparkSession, migration: Migration, name: str) -> tuple[_Sums, _Sums]:
    """Add up what the newest attempt to carry out the plan moved of a table, and moved back.

    Raises
    ------
    DamagedError : the table's log no longer reaches back to the plan
    """
    there, back = _Sums(), _Sums()
    since = migration.plan.tables[name]
    found = commits.history_since(spark, migration.path(name), since)
    for commit in commits.moves_of(found, migration.plan.digest):
        if commit.meta.get("step") == "roll_back":
            back += _Sums.of([commit])
        else:
            # The attempt after a rollback begins at nothing.
            there, back = (_Sums() if back.rows else there) + _Sums.of([commit]), _Sums()
    return there, back


def batch_stops(spark: SparkSession, migration: Migration, back: bool = False) -> Stops:
    """Return the functions at which a migration stops: one after each batch.

    The run's parameters set the batch, or else the spec. Without any, it stops nowhere.

    Parameters
    ----------
    back : return the same stops for the way back
    """
    plan, limits = migration.plan, throttle_for(migration.table.spec, migration.run)
    most = batch_limits(plan, limits)
    if most == BatchLimit():
        return Stops(plan, migration.before, plan.moves, [])
    tasks = _tasks(spark, migration) if limits.batch_files is not None else None
    found = stops(plan, migration.before, most, tasks)
    return found[::-1] if back else found


def _tasks(spark: SparkSession, migration: Migration) -> list[int]:
    """Count the tasks that read each channel, in the state table that needs most of them.

    The tables are read as they stood when the plan was made, so that a new attempt, or a roll back,
    stops at the same places. Each task writes one file per channel that its rows go to.
    """
    read = task_bytes(spark)
    most = [0] * max(len(f.channels) for f in (migration.before, migration.after))
    for name in migration.table.spec.state:
        try:
            files = state.files(spark, migration.path(name), migration.plan.tables[name])
        except DamagedError:
            # Its log was cleaned, or the table was made again: no attempt before has to be matched.
            files = state.files(spark, migration.path(name))
        tasks = F.sum(F.ceil(F.col("size") / read)).alias("tasks")
        for channel, count in files.groupBy(state.CHANNEL).agg(tasks).collect():
            most[channel] = max(most[channel], int(count))
    return most
