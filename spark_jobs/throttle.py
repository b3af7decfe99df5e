"""How fast a migration may go, and how far it has come: by what its commits have written."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from evenkeel.params import throttle_for, write_budget
from evenkeel.tables_suite import FILE_OVERHEAD
from partitioning.batches import stops
from partitioning.errors import FenceError
from partitioning.function import PartitioningFunction
from spark_jobs import commits, state
from spark_jobs.fence import Migration, ours
from spark_jobs.job import say

#: Where no batch is given, it is what a rate lets through in so many seconds ...
SECONDS = 60
#: ... or this share of a budget: what one writes shows what the next will, before it is written.
SHARE = 1 / 4


@dataclass(frozen=True)
class _Sums:
    """Rows and bytes that commits wrote, and bytes of state among these: files have footers."""

    rows: int = 0
    bytes: int = 0
    state: int = 0

    @classmethod
    def of(cls, made: Iterable[commits.Commit]) -> _Sums:
        """All of these commits."""
        each = ((c.rows, c.bytes, max(0, c.bytes - FILE_OVERHEAD * c.files)) for c in made)
        return sum((cls(*one) for one in each), cls())

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self.rows + other.rows, self.bytes + other.bytes, self.state + other.state)


class Throttle:
    """What a migration's commits have moved and written, against the plan, and the budget and rate
    that the run asks for, or else the spec.

    Parameters
    ----------
    back : the way back, which no budget holds up
    """

    def __init__(self, spark: SparkSession, migration: Migration, back: bool = False) -> None:
        plan = migration.plan
        _, self._rate = throttle_for(migration.table.spec, migration.run)
        self._spark, self._digest = spark, plan.digest
        self._run, self._back = migration.run, back
        self._planned = sum(m.rows for m in plan.moves)
        self._budget = None if back else write_budget(plan)
        # What an earlier attempt has moved counts, but for the rate, and on the way back.
        names = () if back else migration.table.spec.state
        found = {migration.path(n): _Sums.of(ours(spark, migration, n)) for n in names}
        self._of = defaultdict(_Sums, found)
        self._before, self._began = self._all, time.monotonic()

    @property
    def _all(self) -> _Sums:
        """Of all tables."""
        return sum(self._of.values(), _Sums())

    def admit(self, rows: DataFrame, path: str) -> None:
        """Weigh the rows that a batch moves, before it does.

        Raises
        ------
        FenceError : with what was written, at the size that rows turned out to have, they are
            over the budget
        """
        if self._budget is None:
            return
        each, here = state.table_bytes_per_row(self._spark, path), self._of[path]
        size = rows.count() * max(each, here.state / here.rows if here.rows else 0.0)
        written = self._all.state
        # Half a byte: sums of floats may differ in their last digits.
        if written + size > self._budget + 0.5:
            raise FenceError(
                f"{written:,} bytes are written, the next batch takes {size:,.0f}, and the "
                f"budget is {self._budget:,.0f}",
                path,
                "Roll back (the DAG does); then plan again, or raise the budget",
            )

    def keep(self, path: str, since: int) -> None:
        """Count what our commits since a version have written, tell how far it is, and wait
        until the rate allows more."""
        found = commits.history_since(self._spark, path, since)
        mine = [c for c in found if c.meta.get("digest") == self._digest]
        self._of[path] += _Sums.of(mine)
        now, seconds = self._all, time.monotonic() - self._began
        if self._rate is not None:
            wait = max(0.0, (now.bytes - self._before.bytes) / self._rate - seconds)
            time.sleep(wait)
            seconds += wait
        left = max(0.0, self._planned - now.rows) / max(1, now.rows - self._before.rows) * seconds
        say(
            f"{now.rows:,} of {self._planned:,.0f} rows moved, {now.bytes:,} bytes written; "
            f"about {left:,.0f} s left"
        )
        told: dict[str, Any] = {
            "rows": now.rows,
            "planned": self._planned,
            "bytes": now.bytes,
            "left": left,
        }
        told |= {"digest": self._digest, "back": self._back}
        self._run.write_json("progress.json", told)


def way(migration: Migration, back: bool = False) -> list[PartitioningFunction]:
    """Where a migration stops: after each batch, as the run asks for them, or else the spec.

    Parameters
    ----------
    back : the same stops, the other way
    """
    batch, rate = throttle_for(migration.table.spec, migration.run)
    sizes = [batch] if batch is not None else []
    if batch is None:
        sizes += [rate * SECONDS] if rate is not None else []
        sizes += [migration.plan.budget * SHARE] if migration.plan.budget is not None else []
    found = stops(migration.plan, migration.before, float(min(sizes))) if sizes else []
    return found[::-1] if back else found
