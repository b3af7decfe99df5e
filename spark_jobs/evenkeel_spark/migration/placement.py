"""Bring a state table under one function, wherever its rows stand and whatever constraints it has.

A constraint of its own holds every job of ours off meanwhile. Every step looks before it acts, so
that doing it again after a kill goes on.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.migration.fence import crash_point
from evenkeel_spark.migration.split_state import PartialMerge
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.placement_sql import of_keys_sql
from partitioning.errors import FenceError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.function.sql import channel_sql, hash_sql, quoted, slot_sql

#: Constraint that stands while a table is repaired. It admits every row with a channel; that it
#: stands is what stops migrate, roll_back and windows.
REPAIRING = f"{constraints.OURS}repairing"
#: How often rows that writers still add by another function are fetched.
SWEEPS = 5
#: Keys with rows on several channels that are joined at most: they are named one by one.
MOST_KEYS = 10_000
_VIOLATED = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"


@dataclass(frozen=True, eq=False)
class Placement:
    """One state table, to be placed by a function.

    Parameters
    ----------
    name : of the state table, in the spec
    function : that alone is to hold
    step : the job's name, for the table's history
    """

    spark: SparkSession
    spec: TableSpec
    name: str
    function: PartitioningFunction
    step: str

    @property
    def path(self) -> str:
        return self.spec.state[self.name].path

    def bring(self) -> None:
        """Leave the function's constraint alone on the table, and every row where it says.

        Raises
        ------
        FenceError : writers that use another function do not stop
        """
        wanted, rule = constraints.epoch_name(self.function.epoch), constraints.rule(self.function)
        stands = constraints.of(self.spark, self.path)
        if wanted not in stands or not constraints.same_sql(stands[wanted], rule):
            self._add(REPAIRING, f"{state.CHANNEL} >= 0")
            crash_point("repairing")
            self._drop_all_but(REPAIRING)
            for _ in range(SWEEPS):
                self._place()
                crash_point("placed")
                if self._add(wanted, rule):
                    break
            else:
                raise FenceError(
                    f"rows still arrive by another epoch's function after {SWEEPS} sweeps",
                    f"{self.name} ({self.path})",
                    "Pause the writers, then run this again",
                )
        crash_point("repaired")
        self._drop_all_but(wanted)

    def _place(self) -> None:
        """Move what stands elsewhere: rows of whole keys by one UPDATE, those of split keys, and
        of keys that have rows on several channels, by the MERGE that joins partials."""
        f, table = self.function, state.sql_name(self.path)
        slot = slot_sql(f.key, len(f.slots))
        self._write(f"UPDATE {table} SET {state.SLOT} = {slot}", f"{state.SLOT} <> {slot}")
        shared = np.union1d(f.split.keys, self._several()).astype(np.int64)
        owner = channel_sql(f.unsplit)
        where = f"{state.CHANNEL} <> {owner}"
        if len(shared):
            where += f" AND NOT {of_keys_sql(f, shared)}"
        self._write(f"UPDATE {table} SET {state.CHANNEL} = {owner}", where)
        if len(shared):
            joining = PartialMerge(self.spec, self.name, f, shared)
            self._run(joining.left(), joining.merge())

    def _several(self) -> Hashes:
        """Keys that have rows on more than one channel: partials, by whichever function."""
        h = hash_sql(self.function.key)
        keys = ", ".join(quoted(c) for c in self.spec.key)
        found = self.spark.sql(
            f"SELECT DISTINCT {h} FROM {state.sql_name(self.path)} GROUP BY {keys} "
            f"HAVING count(DISTINCT {state.CHANNEL}) > 1 LIMIT {MOST_KEYS}"
        )
        return np.array([row[0] for row in found.collect()], dtype=np.int64)

    def _write(self, update: str, where: str) -> None:
        left = f"SELECT 1 FROM {state.sql_name(self.path)} WHERE {where}"
        self._run(left, f"{update} WHERE {where}")

    def _run(self, left: str, statement: str) -> None:
        """Run a statement, if `left` finds any row for it to do."""

        def once() -> None:
            found = self.spark.sql(left).count()
            if found:
                with self._commit() as own:
                    own.sql(statement)
                say(f"{self.name}: {found:,} rows placed")

        retry_on_conflict(self.spark, once, f"{self.name} ({self.path})")

    def _add(self, name: str, rule: str) -> bool:
        """Add a constraint; False where rows violate it."""

        def once() -> bool:
            if name in constraints.of(self.spark, self.path):
                return True
            try:
                with self._commit() as own:
                    constraints.add(own, self.path, name, rule)
            except PySparkException as error:
                if error.getCondition() != _VIOLATED:
                    raise
                return False
            return True

        return retry_on_conflict(self.spark, once, f"{self.name} ({self.path})")

    def _drop_all_but(self, kept: str) -> None:
        for name in sorted(constraints.our_constraints(self.spark, self.path) - {kept}):

            def once(name: str = name) -> None:
                with self._commit() as own:
                    constraints.drop_beside(own, self.path, name, kept)

            retry_on_conflict(self.spark, once, f"{self.name} ({self.path})")

    def _commit(self) -> AbstractContextManager[SparkSession]:
        meta = {"step": self.step, "epoch": self.function.epoch}
        return commits.commit_session(self.spark, None, None, meta)
