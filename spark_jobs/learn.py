"""Learn: sketch what is new of the window, merge the stored sketches, weigh the state.

Exact in two passes: the load of fine slots, then the keys of only those fine slots that are
heavy enough to hold a heavy key. Leaves runs/RUN/profile.npz and profile.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.epochs import Epoch
from evenkeel.spec import TableSpec
from evenkeel.table import Table
from partitioning.errors import InputError
from partitioning.forecast import forecast
from partitioning.function import KeyColumn
from partitioning.hashing import Hashes
from partitioning.profile import Profile, Sketch, merge
from partitioning.sql import hash_sql, slot_sql
from spark_jobs.events import (
    between,
    check_key,
    col,
    day_of,
    key_columns,
    need_time,
    null_key,
    read_events,
    reading,
    refuse_null_keys,
    without_null_keys,
)
from spark_jobs.job import parser, run_job, say
from spark_jobs.sketches import Sketches
from spark_jobs.weigh import weigh

DAY, FINE, LOAD, ROWS, HASH = "_day", "_fine", "_load", "_rows", "_hash"
#: Fine slots to a slot. More find heavy keys in fewer rows of the second pass.
FINENESS = 16
#: A key is heavy from this share of one channel's fair load.
HEAVY_SHARE = 0.01


@dataclass(frozen=True)
class Passes:
    """What the two passes need to know: the key, S, and when a key is listed.

    share : of a day's load, from which a key is heavy
    explicit : hashes of keys that are listed whatever their load, int64 (K,)
    """

    key: tuple[KeyColumn, ...]
    slots: int
    share: float
    explicit: Hashes

    @property
    def fine_slots(self) -> int:
        """A multiple of S, so that a fine slot lies in one slot; bounded for very large S."""
        return self.slots * max(1, min(FINENESS, (1 << 18) // self.slots))


def with_days(events: DataFrame, spec: TableSpec) -> DataFrame:
    """Events with the column DAY: days since 1970; 0 for all where the input has no time."""
    day = F.unix_date(day_of(spec)) if spec.input.time else F.lit(0)
    return events.withColumn(DAY, day)


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


def heavy_keys(
    events: DataFrame, spec: TableSpec, passes: Passes, fine: np.ndarray, least: float
) -> DataFrame:
    """Second pass: load of the keys in the given fine slots that have at least `least`, and of
    the explicit keys, by day: DAY, HASH, key columns, LOAD."""
    load = F.count(F.lit(1)) if spec.load is None else F.sum(col(spec.load).cast("double"))
    keys = [col(c.name) for c in passes.key]
    found = events.where(F.expr(_member_sql(slot_sql(passes.key, passes.fine_slots), fine)))
    found = found.groupBy(DAY, *keys).agg(load.cast("double").alias(LOAD))
    found = found.withColumn(HASH, F.expr(hash_sql(passes.key)))
    wanted = (col(LOAD) >= least) | col(HASH).isin(passes.explicit.tolist())
    return found.where(wanted).select(DAY, HASH, *keys, LOAD)


def sketch_days(events: DataFrame, spec: TableSpec, passes: Passes) -> dict[int, Sketch]:
    """Sketches of every day that has events, by day (days since 1970), in two passes over all.

    Raises
    ------
    InputError : null keys where the spec refuses them; loads that are not finite or below 0
    """
    events = with_days(without_null_keys(events, spec), spec)
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
    error = np.bincount(at, load, minlength=len(days)) * passes.share
    own = np.mod(passes.explicit, passes.fine_slots)
    picked = np.union1d(fine[(load >= error[at]) & (load > 0)], own)
    least = float(error.min()) if len(days) else 0.0
    with reading(spec):
        heavy = heavy_keys(events, spec, passes, picked, least).toArrow()
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


def learn(
    spark: SparkSession,
    table: Table,
    end: date | None = None,
    relearn: bool = False,
    epoch: Epoch | None = None,
) -> tuple[Profile, dict[str, int]]:
    """The profile of the window that ends before `end`, and the version of each state table that
    was weighed.

    Parameters
    ----------
    end : every day before it is complete; None: the day after the last event, whose own day may
        still be under way: it is learned, and not stored
    relearn : learn every day anew and replace what is stored
    epoch : whose function is asked for slots and explicit keys; None: the current one

    Raises
    ------
    InputError : see `sketch_days`; also an empty window or an input that cannot be used
    """
    spec, epoch = table.spec, epoch or table.epoch()
    key = epoch.function.key
    events = read_events(spark, spec)
    check_key(events, spec, key)
    sketches, window = _window(table, epoch, events, end, relearn)
    if spec.decay is None:
        merged = merge(sketches)
    else:
        ahead = forecast(sketches, None if spec.decay == "auto" else spec.decay)
        say(f"forecast from {len(sketches)} days, decay {ahead.decay:g}")
        merged = ahead.sketch
    say(f"{merged.rows:,} events, {len(merged.heavy)} heavy keys; weighing the state")
    weight = weigh(
        spark, spec, epoch.function, np.union1d(merged.heavy, epoch.function.explicit_keys)
    )
    profile = Profile(
        key=key,
        load=merged.load,
        bytes=weight.bytes,
        rows=weight.rows,
        heavy=merged.heavy,
        heavy_load=merged.heavy_load,
        heavy_bytes=np.zeros(len(merged.heavy)),
        heavy_rows=np.zeros(len(merged.heavy)),
        heavy_names=merged.heavy_names,
        error=merged.error,
        window=window,
        events=merged.rows,
    )
    return weight.onto(profile), weight.versions


def _window(
    table: Table, epoch: Epoch, events: DataFrame, end: date | None, relearn: bool
) -> tuple[list[Sketch], tuple[str, str]]:
    """The window's sketches, learned or stored, and its (first day, day after the last)."""
    spec = table.spec
    channels = max(len(epoch.function.channels), len(spec.channel_list()))
    passes = Passes(
        key_columns(events, spec),
        len(epoch.function.slots),
        HEAVY_SHARE / channels,
        epoch.function.explicit_keys,
    )
    if spec.input.time is None:
        if end is not None:
            need_time(spec)
        say("learning the whole input")
        found = list(sketch_days(events, spec, passes).values())
        if not found:
            raise InputError("the input is empty", spec.input.path, "Add events")
        return found, ("", "")
    if end is None:
        end = _after_last(events, spec)
        closed = end - timedelta(days=1)
    else:
        closed = end
    start = end - timedelta(days=spec.window)
    days = [start + timedelta(days=i) for i in range(spec.window)]
    stored = Sketches(table.registry, spec, passes.key)
    known = {} if relearn else stored.read(days)
    missing = [d for d in days if d not in known]
    if missing:
        say(f"window {start} to {end}: {len(known)} days known, learning {len(missing)}")
        part = between(events, spec, missing[0], missing[-1] + timedelta(days=1))
        if len(missing) < (missing[-1] - missing[0]).days + 1:
            part = part.where(day_of(spec).isin(missing))
        for day, sketch in sketch_days(part, spec, passes).items():
            # A day without events is not stored: they may still come.
            known[date(1970, 1, 1) + timedelta(days=day)] = sketch
        for day in missing:
            if day in known and day < closed:
                stored.write(day, known[day])
    if not known:
        raise InputError(
            f"no events in the window from {start} to {end}",
            spec.input.path,
            f"Its days end before {_after_last(events, spec)}: choose --end, or a longer window",
        )
    return [known[d] for d in sorted(known)], (start.isoformat(), end.isoformat())


def _after_last(events: DataFrame, spec: TableSpec) -> date:
    with reading(spec):
        last = events.agg(F.max(day_of(spec))).first()
    if last is None or last[0] is None:
        raise InputError("the input is empty", spec.input.path, "Add events")
    return last[0] + timedelta(days=1)


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


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    started = time.monotonic()
    run, epoch = table.registry.run(options.run), table.epoch()
    profile, versions = learn(spark, table, options.end, options.relearn == "yes", epoch)
    run.write("profile.npz", profile.to_bytes())
    seconds = round(time.monotonic() - started, 3)
    meta = {"tables": versions, "epoch": epoch.number, "seconds": seconds}
    run.write_json("profile.json", meta)
    say(f"profile of {profile.events:,} events in {run.url}")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = parser(__doc__ or "", run=True)
    arguments.add_argument("--end", type=date.fromisoformat, help="the day after the window")
    arguments.add_argument(
        "--relearn",
        nargs="?",
        const="yes",
        choices=["yes", "no"],
        help="learn every day of the window anew, in place of the stored sketches",
    )
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
