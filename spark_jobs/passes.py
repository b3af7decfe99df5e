"""The two passes over events that `learn` makes sketches in: the load of fine slots, then the keys
of only those fine slots that are heavy enough to hold a heavy key.

Where there are so many channels that nearly every fine slot is that heavy, the second pass shuffles
nearly all keys. With approx_top_k, Spark's frequent-items sketch says between the two which keys
may be heavy, and the second pass counts these alone. Both list the same keys with the same loads:
exact counts. On one machine it takes longer all the same: `python -m benchmarks.learn`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from evenkeel.spec import TableSpec
from partitioning.errors import InputError
from partitioning.function import KeyColumn
from partitioning.hashing import Hashes
from partitioning.profile import Floats, Sketch, sums_by
from partitioning.sql import among_sql, array_sql, hash_sql, slot_sql
from spark_jobs.events import (
    col,
    day_of,
    need_time,
    null_key,
    reading,
    refuse_null_keys,
    without_null_keys,
)

DAY, FINE, LOAD, ROWS, HASH = "_day", "_fine", "_load", "_rows", "_hash"
#: Fine slots to a slot. More find heavy keys in fewer rows of the second pass.
FINENESS = 16
#: Of approx_top_k: a table of this many entries misses no item of over 3.5 / entries of all rows
#: (Anderson et al., "A high-performance algorithm for identifying frequent items in data streams",
#: IMC 2017, in Apache DataSketches), it is filled up to so much, and Spark tracks at most so many.
MISSED, FILLED, TRACKED = 3.5, 0.75, 1_000_000


@dataclass(frozen=True)
class Passes:
    """What the two passes need to know: the key, S, and when a key is listed.

    share : of a day's load, from which a key is heavy
    explicit : hashes of keys that are listed whatever their load, int64 (K,)
    sketch : how the keys that may be heavy are found: "exact" or "approx_top_k"
    """

    key: tuple[KeyColumn, ...]
    slots: int
    share: float
    explicit: Hashes
    sketch: str = "exact"

    @property
    def entries(self) -> int:
        """Of approx_top_k's table: a power of two, such that what it may miss is half of `share`,
        or more where Spark does not track as many."""
        most = 2 ** int(math.log2(TRACKED / FILLED))
        return int(min(2 ** math.ceil(math.log2(2 * MISSED / self.share)), most))

    @property
    def found(self) -> float:
        """Share of a day's load from which no key is missed."""
        return max(self.share, 2 * MISSED / self.entries * (self.sketch != "exact"))

    @property
    def fine_slots(self) -> int:
        """A multiple of S, so that a fine slot lies in one slot; bounded for very large S."""
        return self.slots * max(1, min(FINENESS, (1 << 18) // self.slots))


def with_days(events: DataFrame, spec: TableSpec, by: Column | None = None) -> DataFrame:
    """Events with the column DAY: days since 1970, 0 for all where the input has no time; or `by`,
    whatever else numbers the pieces of a window."""
    day = F.unix_date(day_of(spec)) if spec.input.time else F.lit(0)
    return events.withColumn(DAY, day if by is None else by)


def fine_loads(events: DataFrame, spec: TableSpec, passes: Passes) -> DataFrame:
    """First pass: load, rows, and what is wrong, by day and fine slot."""
    wrong = [F.count_if(null_key(spec)).alias("_null_keys")]
    load = F.count(F.lit(1)).cast("double")
    if spec.load is not None:
        value = col(spec.load).cast("double")
        load = F.sum(F.when(value >= 0, value))
        usable = value.isNotNull() & (value >= 0) & (value < float("inf"))
        wrong.append(F.count_if(~usable).alias("_bad_loads"))
    fine = F.expr(slot_sql(passes.key, passes.fine_slots)).alias(FINE)
    return events.groupBy(DAY, fine).agg(load.alias(LOAD), F.count(F.lit(1)).alias(ROWS), *wrong)


def frequent_keys(events: DataFrame, passes: Passes) -> DataFrame:
    """The keys, HASH, that approx_top_k finds on any day. None with a share of `passes.found` is
    missed; some with half of that are among them."""
    # Its last argument is the items it tracks: of that, Spark makes the table's size.
    tracked = int(passes.entries * FILLED)
    # No more keys than this can have that half.
    most = min(math.ceil(2 / passes.found), tracked)
    least = passes.found - MISSED / passes.entries
    hashed = events.select(DAY, F.expr(hash_sql(passes.key)).alias(HASH))
    top = F.expr(f"approx_top_k({HASH}, {most}, {tracked})").alias("top")
    found = hashed.groupBy(DAY).agg(top, F.count(F.lit(1)).alias(ROWS))
    found = found.select(ROWS, F.inline("top"))
    return found.where(F.col("count") >= least * F.col(ROWS)).select(F.col("item").alias(HASH))


def hash_frame(spark: SparkSession, hashes: Hashes) -> DataFrame:
    """HASH of each of these, to join with: there may be hundreds of thousands, too many for an IN
    list."""
    return spark.range(1).select(F.explode(F.expr(array_sql(hashes, "BIGINT"))).alias(HASH))


def heavy_keys(
    events: DataFrame,
    spec: TableSpec,
    passes: Passes,
    fine: np.ndarray,
    least: float,
    only: DataFrame | None = None,
) -> DataFrame:
    """Second pass: load of the keys in the given fine slots (of them, with `only`, those whose
    HASH it has) that have at least `least`, and of the explicit keys, by day: DAY, HASH, key
    columns, LOAD."""
    load = F.count(F.lit(1)) if spec.load is None else F.sum(col(spec.load).cast("double"))
    keys = [col(c.name) for c in passes.key]
    found = events.where(F.expr(_member_sql(slot_sql(passes.key, passes.fine_slots), fine)))
    if only is not None:
        few = F.broadcast(only.union(hash_frame(events.sparkSession, passes.explicit)).distinct())
        found = found.withColumn(HASH, F.expr(hash_sql(passes.key))).join(few, HASH, "left_semi")
    found = found.groupBy(DAY, *keys).agg(load.cast("double").alias(LOAD))
    found = found.withColumn(HASH, F.expr(hash_sql(passes.key)))
    wanted = (col(LOAD) >= least) | F.expr(among_sql(HASH, passes.explicit.tolist()))
    return found.where(wanted).select(DAY, HASH, *keys, LOAD)


def sketch_days(
    events: DataFrame, spec: TableSpec, passes: Passes, by: Column | None = None
) -> dict[int, Sketch]:
    """Sketches of every day that has events, by day (days since 1970), in two passes over all,
    or three with approx_top_k.

    Parameters
    ----------
    by : number (INT) of each event's piece; None: its day

    Raises
    ------
    InputError : null keys where the spec refuses them; loads that are not finite or below 0
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
    error = np.bincount(at, load, minlength=len(days)) * passes.found
    own = np.mod(passes.explicit, passes.fine_slots)
    picked = np.union1d(fine[(load >= error[at]) & (load > 0)], own)
    least = float(error.min()) if len(days) else 0.0
    with reading(spec):
        only = None if passes.sketch == "exact" else frequent_keys(events, passes)
        heavy = heavy_keys(events, spec, passes, picked, least, only).toArrow()
    keys = zip(*(heavy[c.name].to_pylist() for c in passes.key), strict=True)
    names = [_name(values) for values in keys]
    key_day, hashes, key_load = (heavy[c].to_numpy() for c in (DAY, HASH, LOAD))
    sketches = {}
    for i, d in enumerate(days.tolist()):
        mine = np.flatnonzero(key_day == d)
        # Two keys of one hash are one key to the function.
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
    """Load of each hour (UTC), float64 (24,), of every day that has events, by day (days since
    1970). None of any where times are dates, which know no hours."""
    if isinstance(events.schema[need_time(spec)].dataType, T.DateType):
        return {}
    events = with_days(without_null_keys(events, spec), spec)
    hour = F.hour(col(need_time(spec)).cast("timestamp")).alias("_hour")
    load = F.count(F.lit(1)) if spec.load is None else F.sum(col(spec.load).cast("double"))
    with reading(spec):
        found = events.groupBy(DAY, hour).agg(load.cast("double").alias(LOAD)).toArrow()
    days, hours, loads = (found[c].to_numpy() for c in (DAY, "_hour", LOAD))
    known, at = np.unique(days, return_inverse=True)
    table = sums_by(24 * at + hours, loads, 24 * len(known)).reshape(-1, 24)
    return dict(zip(known.tolist(), table, strict=True))


def _total(table: pa.Table, column: str) -> int:
    return int(table[column].to_numpy().sum()) if column in table.column_names else 0


def _member_sql(value: str, members: np.ndarray) -> str:
    """SQL for `value` being one of `members`, all >= 0: a bitmap, for an IN list of thousands
    boxes every value that it tests."""
    words = np.zeros(int(members.max()) // 64 + 1 if len(members) else 1, np.uint64)
    np.bitwise_or.at(words, members // 64, np.uint64(1) << (members % 64).astype(np.uint64))
    literals = ", ".join(
        "(-9223372036854775807L - 1L)" if w == -(2**63) else f"{w}L"
        for w in words.view(np.int64).tolist()
    )
    word = f"get(array({literals}), shiftright({value}, 6))"
    return f"(shiftright({word}, {value} & 63) & 1L) = 1L"


def _name(values: Sequence[object]) -> str:
    """How a person writes the key."""
    return " | ".join(
        "null" if v is None else bytes(v).hex() if isinstance(v, bytes | bytearray) else str(v)
        for v in values
    )
