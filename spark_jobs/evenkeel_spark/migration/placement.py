"""Placement of a state table by one function, wherever its rows are, under any constraints.

A constraint of its own stops every other job of ours meanwhile. Every step checks before it acts.
So it can be killed anywhere and run again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import numpy as np
from pyspark.sql import SparkSession

from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.aggregate import exact
from evenkeel_spark.migration.row_moves import run_move
from evenkeel_spark.migration.split_state import (
    BY_HAND,
    MAX_LISTED_KEYS,
    PartialMerge,
    check_holds,
    check_nothing_lost,
    unmerged_columns,
)
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_ours
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.tables.rows.placement_sql import misplaced_sql, of_keys_sql
from partitioning.errors import EvenkeelError, FenceError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.function.sql import among_sql, channel_sql, hash_sql, quoted, slot_sql
from partitioning.moves.partial_rows import settled_sql

#: Constraint of a table under repair. It admits what the function admits, and is added without a
#: look at the rows. Its presence alone stops migrate, roll_back and windows.
REPAIRING = f"{constraints.OURS}repairing"


@dataclass(frozen=True, eq=False)
class Placement:
    """One state table to be placed by a function.

    Parameters
    ----------
    name : of the state table, in the spec
    function : by which all rows are placed at the end
    step : the job's name, for the table's history
    seen : names of the constraints of ours that stood when this was decided
    check : raises FenceError if it would be decided otherwise by now
    """

    spark: SparkSession
    spec: TableSpec
    name: str
    function: PartitioningFunction
    step: str
    seen: frozenset[str]
    check: Callable[[], None]

    @property
    def path(self) -> str:
        """Path of the state table."""
        return self.spec.state[self.name].path

    @property
    def where(self) -> str:
        """The table as errors name it."""
        return f"{self.name} ({self.path})"

    def check_possible(self) -> None:
        """Refuse, before the first change, a table whose rows could not be merged exactly.

        Raises
        ------
        InputError : a column is renamed, or has no merge and rows of a key have to be merged; or a
            merged value is more than its column holds. It says how to go on
        """
        if self.spec.state[self.name].plain:
            return
        unmerged_columns(self.spark, self.spec, self.name)
        several = self._several()
        shared = self._shared(several)
        if shared is not None and not len(shared):
            return
        joining = PartialMerge(self.spec, self.name, self.function, shared)
        if several is None or len(several) or not self.spark.sql(joining.rows_to_move()).isEmpty():
            check_nothing_lost(self.spark, self.spec, self.name)
            check_holds(self.spark, joining)

    def bring(self) -> None:
        """Move every row where the function says, and leave only its constraint on the table.

        Writers by another function are refused from the first commit on. So the rows that are
        elsewhere are a finite number, even while others write.

        Raises
        ------
        FenceError : another run has decided otherwise, or put another constraint on the table,
            since this was decided; or other writers never let us commit
        """
        # The repair's own constraint sees the key, whatever the table's fence is.
        wanted, rule = constraints.epoch_name(self.function.epoch), constraints.rule(self.function)
        last = constraints.fence_rule(self.spec, self.function)
        crash_point("deciding to repair")
        existing = constraints.of(self.spark, self.path)
        sealed = wanted in existing and constraints.same_sql(existing[wanted], last)
        version = state.table_version(self.spark, self.path)
        if not (sealed and (self.spec.fence == "key" or self._in_place(version))):
            self._begin(rule)
            crash_point("repairing")
            self._drop_all_but(REPAIRING)
            while True:
                placed = self._place()
                crash_point("placed")
                version = state.table_version(self.spark, self.path)
                if self._in_place(version):
                    break
                if not placed:
                    raise FenceError(
                        "has rows that the epoch's constraint does not admit, and no statement of "
                        "ours moves them",
                        self.where,
                        f"Find them by SELECT * FROM {state.sql_name(self.path)} WHERE NOT ({rule})"
                        "; delete or correct them, and run this again",
                    )
            self._finish(wanted, last, version)
        crash_point("repaired")
        self._drop_all_but(wanted)

    def _place(self) -> int:
        """Move rows that are elsewhere, and return their number.

        First come rows with a wrong slot or no channel. The MERGE then makes one row of each key
        that has several, and brings partial rows to owners. The UPDATE moves those of whole keys.
        """
        f, table = self.function, state.sql_name(self.path)
        slot, owner = slot_sql(f.key, f.row_slots), channel_sql(f.unsplit)
        if self.spec.state[self.name].plain:
            where = f"NOT ({state.SLOT} <=> {slot} AND {state.CHANNEL} <=> {owner})"
            update = f"UPDATE {table} SET {state.SLOT} = {slot}, {state.CHANNEL} = {owner}"
            return self._write(update, where)
        settled = settled_sql(f, None, state.CHANNEL)
        rows = self._write(
            f"UPDATE {table} SET {state.SLOT} = {slot}, {state.CHANNEL} = {settled}",
            f"NOT {state.SLOT} <=> {slot} OR {state.CHANNEL} IS NULL",
        )
        shared = self._shared(self._several())
        if shared is None or len(shared):
            joining = PartialMerge(self.spec, self.name, f, shared)
            rows += self._run(joining.rows_to_move(), joining.merge())
        if shared is not None:
            where = f"{state.CHANNEL} <> {owner}"
            if len(shared):
                where += f" AND NOT {of_keys_sql(f, shared)}"
            rows += self._write(f"UPDATE {table} SET {state.CHANNEL} = {owner}", where)
        return rows

    def _several(self) -> Hashes | None:
        """Return the whole keys that have several rows, and split keys that have two on a channel.

        None: there are more than MAX_LISTED_KEYS.
        """
        f, h = self.function, hash_sql(self.function.key)
        keys = ", ".join(quoted(c) for c in self.spec.key)
        split = among_sql(h, f.split.keys.tolist())
        found = self.spark.sql(
            f"SELECT DISTINCT {h} FROM {state.sql_name(self.path)} GROUP BY {keys} "
            f"HAVING count(1) > IF({split}, count(DISTINCT {state.CHANNEL}), 1) "
            f"LIMIT {MAX_LISTED_KEYS + 1}"
        ).collect()
        if len(found) > MAX_LISTED_KEYS:
            return None
        return np.sort(np.array([row[0] for row in found], dtype=np.int64))

    def _shared(self, several: Hashes | None) -> Hashes | None:
        """Return the keys whose rows the MERGE brings to their owners; None: all keys."""
        if several is None:
            return None
        return np.union1d(self.function.split.keys, several).astype(np.int64)

    def _write(self, update: str, where: str) -> int:
        left = f"SELECT 1 FROM {state.sql_name(self.path)} WHERE {where}"
        return self._run(left, f"{update}{state.kept_sql(self.spark, self.path)} WHERE {where}")

    def _run(self, left: str, statement: str) -> int:
        """Run a statement if `left` finds any row for it, and return how many it finds."""

        def once() -> int:
            _, version = state.read_newest(self.spark, self.path)
            self._existing(REPAIRING)
            if found := self.spark.sql(left).count():
                with exact(self.where, BY_HAND), self._commit(version) as own:
                    check = partial(check_nothing_lost, self.spark, self.spec, self.name)
                    run_move(own, statement, self.path, self.where, check)
                say(f"{self.name}: {found:,} rows placed")
            return found

        return retry_on_conflict(self.spark, once, self.where)

    def _in_place(self, version: int) -> bool:
        """Return whether every row of a version is where the function says."""
        rows = state.read_version(self.spark, self.path, version)
        return rows.where(misplaced_sql(self.function)).isEmpty()

    def _begin(self, rule: str) -> None:
        """Put the repair's own constraint on the table, in the state that was decided on.

        It writes, then looks: each job that decides from here on sees that this repairs. If one
        decided otherwise meanwhile, the constraint is taken back, for nobody else would drop it.
        """

        def once() -> bool:
            version, existing = state.table_version(self.spark, self.path), self._existing()
            with self._commit(version) as own:
                return constraints.put(own, self.path, REPAIRING, rule, existing, self.check)

        fresh = retry_on_conflict(self.spark, once, self.where)
        crash_point("opening repair")
        try:
            self.check()
        except EvenkeelError:
            if fresh:
                back = partial(constraints.take_back, self._commit, self.path, REPAIRING)
                retry_on_conflict(self.spark, back, self.where)
            raise

    def _finish(self, name: str, rule: str, since: int) -> None:
        """Add the epoch's constraint without a scan; only rows may have changed since a version."""

        def unchanged() -> None:
            self._existing(REPAIRING)
            for commit in commits.history_since(self.spark, self.path, since):
                if commit.operation not in constraints.ROW_OPERATIONS:
                    raise FenceError(
                        f"{commit.operation} came between, as version {commit.version}",
                        self.where,
                        repair_advice(self.spec.table),
                    )

        def once() -> None:
            existing = constraints.our_constraints(self.spark, self.path)
            with self._commit() as own:
                constraints.put(own, self.path, name, rule, existing, unchanged)

        retry_on_conflict(self.spark, once, self.where)

    def _drop_all_but(self, kept: str) -> None:
        """Drop the constraints that were seen when this was decided, and none that came since."""

        def once() -> bool:
            version = state.table_version(self.spark, self.path)
            existing = self._existing(kept)
            others = sorted(existing - {kept})
            if others:
                self.check()
                with self._commit(version) as own:
                    constraints.drop_beside(own, self.path, others[0], kept, existing)
            return bool(others)

        while retry_on_conflict(self.spark, once, self.where):
            pass

    def _existing(self, needed: str | None = None) -> set[str]:
        """Return the names of our constraints on the table.

        Raises
        ------
        FenceError : the needed one is missing, or one is there that this does not know of
        InputError : the table was released meanwhile
        """
        check_ours(self.spark, self.spec, self.name)
        existing = constraints.our_constraints(self.spark, self.path)
        known = {*self.seen, REPAIRING, constraints.epoch_name(self.function.epoch)}
        if needed not in (None, *existing) or not existing <= known:
            raise FenceError(
                f"has the constraint {', '.join(sorted(existing)) or 'none'} by now: another "
                "run has changed it since this began to repair",
                self.where,
                repair_advice(self.spec.table),
            )
        return existing

    def _commit(self, version: int | None = None) -> AbstractContextManager[SparkSession]:
        """Make the session of a commit.

        `version` is that of the table when this looked: the commit spends its transaction id, so
        that no statement of before comes after it.
        """
        app = None if version is None else commits.app_id(self.spec.table)
        meta = {"step": self.step, "epoch": self.function.epoch}
        return commits.our_commit(self.spark, app, version, meta)
