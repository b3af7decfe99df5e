"""Rows of whole keys that move from one function to another: their SQL condition, and the move."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.state_view import kinds
from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.rows.placement_sql import of_keys_sql
from partitioning.errors import DamagedError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, slot_of
from partitioning.function.sql import channel_sql, quoted

#: Most slots that an UPDATE's condition lists one by one. Parquet skips row groups without them
#: (`spark.sql.parquet.pushdown.inFilterThreshold`, see session.py), and Spark hashes no other rows.
LISTED_SLOTS = 1000
#: Most of them in one list. For Parquet a list is a chain of OR, each of which calls the next. A
#: thousand of them overflow the stack of a thread of 1 MiB.
LIST = 250
#: Most ranges that cover more slots than that. They only save reading, and more of them cost more
#: than they save: the JVM interprets a generated filter of more than some thousand bytes of code.
RANGES = 12


def moved_sql(
    source: PartitioningFunction,
    target: PartitioningFunction,
    final: PartitioningFunction | None = None,
    shared: Hashes | None = None,
) -> str | None:
    """Return SQL for the rows of whole keys whose channel differs between `source` and `target`.

    Only its last part decides. The others name channels (partitions) and slots (Parquet row
    groups), so that Spark reads less.

    Parameters
    ----------
    source, target : functions that rows leave and arrive by
    final : the function that `target` is a stop on the way to; rows already placed by it stay
    shared : int64 (K,), hashes of keys that either function splits; their rows are excluded

    Returns
    -------
    SQL; None: no row moves.
    """
    finest = max(len(source.slots), len(target.slots))
    source, target = source.unsplit.refined(finest), target.unsplit.refined(finest)
    slots = np.flatnonzero(source.slots != target.slots)
    keys = np.union1d(source.explicit_keys, target.explicit_keys)
    keys = keys[source.lookup_hashes(keys) != target.lookup_hashes(keys)]
    if shared is not None:
        keys = np.setdiff1d(keys, shared)
    if not len(slots) and not len(keys):
        return None
    channels = np.union1d(source.slots[slots], source.lookup_hashes(keys))
    # Rows know fewer slots, if the functions' have been split.
    within = _slots_sql(np.union1d(slots, slot_of(keys, finest)) % source.row_slots)
    due = f"{state.CHANNEL} <> {channel_sql(target if final is None else final.unsplit)}"
    if final is not None:
        due += f" AND {channel_sql(target)} = {channel_sql(final.unsplit)}"
    if shared is not None and len(shared):
        due += f" AND NOT {of_keys_sql(source, shared)}"
    return f"{state.CHANNEL} IN ({', '.join(map(str, channels.tolist()))}) AND ({within}) AND {due}"


def _slots_sql(slots: np.ndarray) -> str:
    """Return SQL that is true for rows of these slots, and may be true for others."""
    slots = np.unique(slots)
    if len(slots) <= LISTED_SLOTS:
        lists = (slots[at : at + LIST].tolist() for at in range(0, len(slots), LIST))
        return " OR ".join(f"{state.SLOT} IN ({', '.join(map(str, one))})" for one in lists)
    ranges = slot_ranges(slots)
    return " OR ".join(f"{state.SLOT} BETWEEN {first} AND {last}" for first, last in ranges)


def slot_ranges(slots: np.ndarray, most: int = RANGES) -> list[tuple[int, int]]:
    """Cover all slots (ascending, at least one) by at most `most` ranges (first, last).

    Neighbouring slots form a range; the nearest ranges are joined.
    """
    gaps = np.diff(slots) - 1
    widest = np.sort(np.argsort(-gaps, kind="stable")[: most - 1])
    cuts = widest[gaps[widest] > 0]
    first = np.concatenate([slots[:1], slots[cuts + 1]])
    last = np.concatenate([slots[cuts], slots[-1:]])
    return list(zip(first.tolist(), last.tolist(), strict=True))


def run_move(
    own: SparkSession,
    statement: str,
    path: str,
    where: str,
    check: Callable[[], None],
) -> Row | None:
    """Run a statement that moves rows, and return its result; it is to keep all columns.

    Delta resolves the columns of an UPDATE, then begins its transaction. An append with mergeSchema
    may add a column or a field between the two: the UPDATE writes its rows without it. For a MERGE
    Delta looks itself. But one that merges partial rows names the columns which it writes, and one
    may come after `check` has looked at them.

    Parameters
    ----------
    check : the last look at the columns, before a MERGE

    Raises
    ------
    DamagedError : names the columns, and the version that has their values
    """
    version, known = state.table_version(own, path), kinds(state.schema(own, path))
    if statement.startswith("MERGE"):
        check()
    row = own.sql(statement).first()
    if kinds(state.schema(own, path)) == known:
        return row
    made = commits.history_since(own, path, version)
    ours = [c for c in made if c.meta and c.operation in commits.MOVE_OPERATIONS]
    if not ours:
        return row
    last = ours[-1].version
    before, after = (state.read_version(own, path, v) for v in (last - 1, last))
    came = {name: kind for name, kind in kinds(after.schema).items() if known.get(name) != kind}
    if ours[-1].operation == "MERGE":
        # It merges values of the columns that it knows.
        came = {name: kind for name, kind in came.items() if name not in known}
    if lost := [name for name in came if _size(before, name) > _size(after, name)]:
        raise DamagedError(
            f"column {', '.join(map(repr, lost))} came in as version {last} began to move rows:"
            " values of it are lost in these rows",
            where,
            f"Look for rows that have a value in {state.sql_name(path)} VERSION AS OF "
            f"{last - 1} and null now, set it again, then run this again",
        )
    return row


def _size(rows: DataFrame, column: str) -> int:
    """Return the length of a column's values as JSON, which leaves nulls out at any depth."""
    value = F.col(quoted(column))
    text = F.length(F.to_json(F.struct(value)))
    # A MERGE may write fewer rows, or more.
    (found,) = rows.where(value.isNotNull()).agg(F.sum(text)).collect()
    return int(found[0] or 0)
