"""Sketches of a day's events: the load of each slot, and the load of heavy keys by name.

`learn` makes them in two passes. The first adds up the load of fine slots. The second counts the
keys of only those fine slots that are heavy enough to hold a heavy key.

With so many channels that nearly every fine slot is that heavy, the second pass would shuffle
nearly all keys. Then a sketch (`heavy_hitters`) can say between the passes which keys may be
heavy, and the second pass counts these alone. With any sketch the same keys are listed with the
same, exact loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.heavy_hitters import (
    DAY,
    HASH,
    LOAD,
    found_from,
    frequent_keys,
    of_day,
    python_workers,
)
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import (
    col,
    day_of,
    load_of,
    need_time,
    null_key,
    refuse_null_keys,
    without_null_keys,
)
from partitioning.errors import InputError
from partitioning.function.hashing import Hashes, KeyColumn
from partitioning.function.key_text import key_text
from partitioning.function.sql import among_sql, array_sql, bigint_sql, hash_sql, slot_sql
from partitioning.workload.profile import Floats, Sketch, sums_by

FINE, ROWS = "_fine", "_rows"
#: Fine slots in a slot. With more of them the second pass reads fewer rows, and the first pass
#: returns more.
FINENESS = 16


@dataclass(frozen=True)
class Passes:
    """Parameters of the two passes.

    Parameters
    ----------
    key : columns of the key
    slots : S
    share : part of a day's load from which on a key is heavy
    explicit : hashes of keys that are listed whatever their load, int64 (K,)
    sketch : how keys that may be heavy are found: "exact", or one of `heavy_hitters`
    """

    key: tuple[KeyColumn, ...]
    slots: int
    share: float
    explicit: Hashes
    sketch: str = "exact"

    @property
    def found(self) -> float:
        """Part of a day's load from which on no key is missed."""
        return found_from(self.share, self.sketch)

    @property
    def fine_slots(self) -> int:
        """Number of fine slots: a multiple of S, so each lies in one slot; limited for large S."""
        return self.slots * max(1, min(FINENESS, (1 << 18) // self.slots))


def with_days(events: DataFrame, spec: TableSpec, by: Column | None = None) -> DataFrame:
    """Add the column DAY to events.

    DAY is `by` if given, or else the days since 1970, or 0 if the input has no time.
    """
    day = F.unix_date(day_of(spec)) if spec.input.time else F.lit(0)
    return events.withColumn(DAY, day if by is None else by)


def fine_loads(events: DataFrame, spec: TableSpec, passes: Passes) -> DataFrame:
    """Run the first pass: load, rows and counts of wrong events, by day and fine slot."""
    wrong = [F.count_if(null_key(spec)).alias("_null_keys")]
    load = F.count(F.lit(1)).cast("double")
    if spec.load is not None:
        value = col(spec.load).cast("double")
        load = F.sum(F.when(value >= 0, value))
        usable = value.isNotNull() & (value >= 0) & (value < float("inf"))
        wrong.append(F.count_if(~usable).alias("_bad_loads"))
    fine = F.expr(slot_sql(passes.key, passes.fine_slots)).alias(FINE)
    return events.groupBy(DAY, fine).agg(load.alias(LOAD), F.count(F.lit(1)).alias(ROWS), *wrong)


def hash_frame(spark: SparkSession, hashes: Hashes) -> DataFrame:
    """Return a frame with the column HASH of these, to join with.

    There may be hundreds of thousands of them, too many for an IN list.
    """
    return spark.range(1).select(F.explode(F.expr(array_sql(hashes, "BIGINT"))).alias(HASH))


def heavy_keys(
    found: DataFrame,
    spec: TableSpec,
    passes: Passes,
    least: Mapping[int, float],
    only: DataFrame | None = None,
) -> DataFrame:
    """Run the second pass: by day the load of keys with at least `least`, and of pinned keys.

    A day has a limit of its own: by that of a day with few events, nearly all keys of the others
    would be heavy.

    Parameters
    ----------
    found : events of heavy fine slots
    spec : of the table
    passes : parameters of the passes
    least : load, by day
    only : HASH of the keys to count besides the explicit ones; None: all

    Returns
    -------
    Columns DAY, HASH, key columns, LOAD.
    """
    keys = [col(c.name) for c in passes.key]
    if only is not None:
        few = F.broadcast(only.union(hash_frame(found.sparkSession, passes.explicit)).distinct())
        found = found.withColumn(HASH, F.expr(hash_sql(passes.key))).join(few, HASH, "left_semi")
    found = found.groupBy(DAY, *keys).agg(load_of(spec).alias(LOAD))
    found = found.withColumn(HASH, F.expr(hash_sql(passes.key)))
    enough = (col(LOAD) >= of_day(least)) & (col(LOAD) > 0)
    wanted = enough | F.expr(among_sql(HASH, passes.explicit.tolist()))
    return found.where(wanted).select(DAY, HASH, *keys, LOAD)


def sketch_days(
    events: DataFrame, spec: TableSpec, passes: Passes, by: Column | None = None
) -> dict[int, Sketch]:
    """Sketch every day that has events, in two passes, or three with a sketch that names keys.

    Parameters
    ----------
    events : of one or several days
    spec : of the table
    passes : parameters of the passes
    by : number (INT) of each event's piece; None: its day

    Returns
    -------
    Sketches by day (days since 1970), or by piece.

    Raises
    ------
    InputError : null keys that the spec refuses; loads that are not finite or below 0; a sketch
        that executors cannot run
    """
    events = with_days(without_null_keys(events, spec), spec, by)
    with reading(spec):
        first = fine_loads(events, spec, passes).toArrow()
    refuse_null_keys(_total(first, "_null_keys"), spec)
    if bad := _total(first, "_bad_loads"):
        raise InputError(
            f"{bad} events have a load ({spec.load}) that is null, negative or not finite",
            spec.input.path,
            "Correct them, or name another column in `load`",
        )
    day, fine, load, rows = (first[c].to_numpy() for c in (DAY, FINE, LOAD, ROWS))
    days, at = np.unique(day, return_inverse=True)
    if not len(days):
        return {}
    error = np.bincount(at, load, minlength=len(days)) * passes.found
    own = np.mod(passes.explicit, passes.fine_slots)
    picked = np.union1d(fine[(load >= error[at]) & (load > 0)], own)
    least = dict(zip(days.tolist(), error.tolist(), strict=True))
    found = events.where(F.expr(_member_sql(slot_sql(passes.key, passes.fine_slots), picked)))
    only = None
    if passes.sketch != "exact":
        each = F.lit(1.0) if spec.load is None else col(spec.load).cast("double")
        hashed = found.select(DAY, F.expr(hash_sql(passes.key)).alias(HASH), each.alias(LOAD))
        only = frequent_keys(hashed, passes.sketch, passes.found, least)
    with reading(spec), python_workers(passes.sketch):
        heavy = heavy_keys(found, spec, passes, least, only).toArrow()
    keys = zip(*(heavy[c.name].to_pylist() for c in passes.key), strict=True)
    names = [key_text(values) for values in keys]
    key_day, hashes, key_load = (heavy[c].to_numpy() for c in (DAY, HASH, LOAD))
    sketches = {}
    for i, d in enumerate(days.tolist()):
        mine = np.flatnonzero(key_day == d)
        # The function takes two keys with one hash for one key.
        distinct, one, inverse = np.unique(hashes[mine], return_index=True, return_inverse=True)
        sketches[d] = Sketch(
            load=np.bincount(fine[at == i] % passes.slots, load[at == i], minlength=passes.slots),
            heavy=distinct,
            heavy_load=np.bincount(inverse, key_load[mine], minlength=len(distinct)),
            heavy_names=tuple(names[j] for j in mine[one]),
            error=float(error[i]),
            rows=int(rows[at == i].sum()),
        )
    return sketches


def hour_loads(events: DataFrame, spec: TableSpec) -> dict[int, Floats]:
    """Return the load of each hour (UTC), float64 (24,), of every day that has events.

    Returns
    -------
    Loads by day (days since 1970); empty if times are dates, which have no hours.
    """
    if isinstance(events.schema[need_time(spec)].dataType, T.DateType):
        return {}
    events = with_days(without_null_keys(events, spec), spec)
    hour = F.hour(col(need_time(spec)).cast("timestamp")).alias("_hour")
    with reading(spec):
        found = events.groupBy(DAY, hour).agg(load_of(spec).alias(LOAD)).toArrow()
    days, hours, loads = (found[c].to_numpy() for c in (DAY, "_hour", LOAD))
    known, at = np.unique(days, return_inverse=True)
    table = sums_by(24 * at + hours, loads, 24 * len(known)).reshape(-1, 24)
    return dict(zip(known.tolist(), table, strict=True))


def _total(table: pa.Table, column: str) -> int:
    return int(table[column].to_numpy().sum()) if column in table.column_names else 0


def _member_sql(value: str, members: np.ndarray) -> str:
    """Write SQL that is true if `value` is one of `members`, all >= 0.

    It is a bitmap, because Spark boxes every value that it tests against a long IN list.
    """
    words = np.zeros(int(members.max()) // 64 + 1 if len(members) else 1, np.uint64)
    np.bitwise_or.at(words, members // 64, np.uint64(1) << (members % 64).astype(np.uint64))
    literals = ", ".join(map(bigint_sql, words.view(np.int64).tolist()))
    word = f"get(array({literals}), shiftright({value}, 6))"
    return f"(shiftright({word}, {value} & 63) & 1L) = 1L"
