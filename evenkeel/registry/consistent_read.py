"""Several state tables as one epoch has them: each at its newest version at which every row stands
where that epoch's function puts it.

While state moves, tables go over to the next epoch one after the other. Whoever reads them at these
versions sees all of them before that, or, once it is published, all of them after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from evenkeel.registry.epochs import Epoch
from partitioning.errors import FenceError
from partitioning.function.sql import OURS, epoch_name, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONSTRAINT = "delta.constraints."
_ADD, _DROP = "ADD CONSTRAINT", "DROP CONSTRAINT"
#: How often it is looked again where constraints change just then; commits that are asked for at
#: first, and by how much more where these do not reach back far enough.
_LOOKS, _FEW, _MORE = 10, 32, 8


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Rows of all state tables of one epoch, by name: each row's `channel` is what `epoch`'s
    function says. `versions` are the tables' own."""

    epoch: Epoch
    rows: Mapping[str, DataFrame]
    versions: Mapping[str, int]


class Change(NamedTuple):
    """What one commit did to a table's constraints: `added` or `dropped` one, or neither."""

    version: int
    added: str | None = None
    dropped: str | None = None


def snapshot(spark: SparkSession, epoch: Epoch, paths: Mapping[str, str]) -> Snapshot:
    """Read state tables as an epoch has them.

    Parameters
    ----------
    epoch : that is current
    paths : folder of each state table, by name

    Raises
    ------
    FenceError : a table has no such version any more
    """
    versions = {name: _version(spark, path, epoch.number) for name, path in paths.items()}
    rows = {
        name: spark.sql(f"SELECT * FROM delta.{quoted(path)} VERSION AS OF {versions[name]}")
        for name, path in paths.items()
    }
    return Snapshot(epoch, rows, versions)


def newest_under(epoch: int, stand: Iterable[str], changes: Iterable[Change]) -> int | None:
    """The newest version at which an epoch's constraint is the only one of ours.

    Parameters
    ----------
    stand : our constraints that stand at the newest version
    changes : commits, newest first
    """
    wanted, now = {epoch_name(epoch)}, {c for c in stand if c.startswith(OURS)}
    for change in changes:
        if now == wanted:
            return change.version
        # As it stood before this commit.
        now -= {change.added}
        now |= {change.dropped} - {None}
    return None


def _version(spark: SparkSession, path: str, epoch: int) -> int:
    """`newest_under` of a table on Delta."""
    for _ in range(_LOOKS):
        before = _changes(spark, path, 1)[0].version
        stand = constraint_names(spark, path)
        limit = _FEW
        while True:
            changes = _changes(spark, path, limit)
            since = [c for c in changes if c.version > before]
            if any(c.added or c.dropped for c in since):
                # Which of these were seen to stand is not known.
                break
            found = newest_under(epoch, stand, changes)
            if found is not None:
                return found
            if len(changes) < limit:
                raise FenceError(
                    f"has no version left at which epoch {epoch} alone holds",
                    path,
                    "Look in DESCRIBE HISTORY for what happened to its constraints",
                )
            limit *= _MORE
    raise FenceError("changes its constraints all the time", path, "Read it again later")


def constraint_names(spark: SparkSession, path: str) -> set[str]:
    """Names of the CHECK constraints of a table on Delta, ours and others'."""
    found = spark.sql(f"SHOW TBLPROPERTIES delta.{quoted(path)}").collect()
    names = (row["key"] for row in found)
    return {n.removeprefix(_CONSTRAINT) for n in names if n.startswith(_CONSTRAINT)}


def _changes(spark: SparkSession, path: str, limit: int) -> list[Change]:
    """The newest commits, newest first."""
    found = spark.sql(f"DESCRIBE HISTORY delta.{quoted(path)} LIMIT {limit}")
    return [
        Change(
            row["version"],
            *(
                row["operationParameters"].get("name") if row["operation"] == o else None
                for o in (_ADD, _DROP)
            ),
        )
        for row in found.select("version", "operation", "operationParameters").collect()
    ]
