"""Generate: write keyed events of an artificial stream, as Parquet sorted by day.

Each row is a function of its number and the seed alone, by native expressions over a range. So the
rows do not depend on the number of partitions or executors. The preset gives what no option does.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.runtime.command import fail, say
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.filesystem import occupied
from evenkeel_spark.tables.parallelism import cores
from partitioning.errors import EvenkeelError, InputError
from partitioning.function.sql import array_sql
from partitioning.streams import zipf_stream
from partitioning.streams.alias_table import HEAD_RANKS, Alias, alias, tail_terms, zipf_head
from partitioning.streams.zipf_stream import PRESETS, Stream

#: Least and most rows of one file. Between them the cluster's parallelism decides.
_FILE_ROWS = 1_000_000, 20_000_000
_REAL = ("z", "churn")
_PAIRS = {
    "--hot": "Give WINDOW:SHARE, as in 2:0.3",
    "--wander": "Give SIGMA:PHI, as in 0.85:0.5",
}
_ID, _WINDOW, _UNIT, _RANK, _DAY, _KEY = "id", "window", "unit", "rank", "day", "key"


def transform(spark: SparkSession, stream: Stream, partitions: int | None = None) -> DataFrame:
    """Generate the stream's rows: day DATE, key BIGINT; ordered by day from partition to partition.

    Parameters
    ----------
    stream : parameters of the stream
    partitions : tasks, hence files; default: by the number of rows. The rows do not depend on it
    """
    total = stream.rows * stream.windows
    window = F.expr(f"{_ID} div {stream.rows}")
    # All windows have the same number of rows, so the day is a division.
    day = F.date_add(F.lit(stream.start), F.expr(f"int({_ID} * {stream.days} div {stream.rows})"))
    rows = spark.range(0, total, 1, partitions or _tasks(spark, total))
    rows = rows.withColumn(_WINDOW, window).withColumn(_DAY, day)
    rows = _with_rank(rows, zipf_stream.tables(stream), stream.keys, stream.z, stream.seed)
    rows = rows.withColumn(_RANK, _churned(stream)).withColumn(_KEY, _key(stream))
    if stream.vanish is not None:
        gone = (F.col(_WINDOW) >= stream.vanish) & (F.col(_KEY) == stream.vanished_key)
        rows = rows.where(~gone)
    return rows.select(_DAY, _KEY)


def zipf_rows(spark: SparkSession, rows: int, keys: int, z: float, seed: int = 0) -> DataFrame:
    """Generate one column, key BIGINT: Zipf ranks from 1 (the most frequent) to `keys`."""
    ranked = _with_rank(spark.range(rows), [alias(zipf_head(keys, z))], keys, z, seed)
    return ranked.select((F.col(_RANK) + 1).alias(_KEY))


def _with_rank(
    rows: DataFrame, tables: Sequence[Alias], keys: int, z: float, seed: int
) -> DataFrame:
    """Add a rank (from 0) by the row's id, from the one alias table or from its window's."""
    cells = len(tables[0].keep)
    scaled = F.col(_UNIT) * F.lit(float(cells))
    rows = rows.withColumn(_UNIT, _unit(F.col(_ID), seed, zipf_stream.DRAW))
    rows = rows.withColumn("cell", F.least(F.floor(scaled), F.lit(cells - 1)).cast("int"))
    keep = array_sql(np.concatenate([t.keep for t in tables]), "DOUBLE")
    other = array_sql(np.concatenate([t.other for t in tables]), "BIGINT")
    at = "cell" if len(tables) == 1 else f"int({_WINDOW} * {cells} + cell)"
    kept = scaled - F.col("cell") < F.expr(f"{keep}[{at}]")
    drawn = F.when(kept, F.col("cell").cast("bigint")).otherwise(F.expr(f"{other}[{at}]"))
    rows = rows.withColumn(_RANK, drawn)
    if keys <= HEAD_RANKS:
        return rows
    # The same as `partitioning.streams.alias_table.tail_ranks`.
    a, length, power = tail_terms(keys, z)
    u = _unit(F.col(_ID), seed, zipf_stream.TAIL)
    shrink = float(np.expm1(power * length))
    log = F.log1p(u * F.lit(shrink)) / F.lit(power) if power else u * F.lit(length)
    beyond = F.floor(F.lit(a) * F.exp(log) - F.lit(0.5)).cast("bigint")
    inside = F.greatest(F.least(beyond, F.lit(keys - 1)), F.lit(HEAD_RANKS)).cast("bigint")
    return rows.withColumn(_RANK, F.when(F.col(_RANK) < HEAD_RANKS, F.col(_RANK)).otherwise(inside))


def _churned(stream: Stream) -> Column:
    """Return the rank that the row's key had in the first window: `key_of_rank`, by window."""
    if not stream.churn or stream.windows == 1:
        return F.col(_RANK)

    def swapped(rank: Column, v: Column) -> Column:
        centre = F.pmod(_hash(v, stream.seed, zipf_stream.CENTRE), F.lit(stream.keys))
        partner = F.pmod(centre - rank, F.lit(stream.keys))
        pair = F.least(rank, partner) + v * F.lit(zipf_stream.MAX_STREAM_KEYS)
        swap = _unit(pair, stream.seed, zipf_stream.SWAP) < F.lit(float(stream.churn))
        return F.when(swap, partner).otherwise(rank)

    back = F.sequence(F.col(_WINDOW), F.lit(1).cast("bigint"), F.lit(-1).cast("bigint"))
    folded = F.aggregate(back, F.col(_RANK), swapped)
    return F.when(F.col(_WINDOW) > 0, folded).otherwise(F.col(_RANK))


def _key(stream: Stream) -> Column:
    a, b = stream.scatter
    key = (F.col(_RANK) * F.lit(a).cast("bigint") + F.lit(b).cast("bigint")) % F.lit(stream.keys)
    if stream.hot is None:
        return key.cast("bigint")
    window, share = stream.hot
    hot = _unit(F.col(_ID), stream.seed, zipf_stream.HOT) < F.lit(float(share))
    turned = (F.col(_WINDOW) >= window) & hot
    return F.when(turned, F.lit(stream.hot_key)).otherwise(key).cast("bigint")


def _hash(value: Column, seed: int, purpose: int) -> Column:
    rest = (F.lit(x).cast("bigint") for x in (seed, purpose))
    return F.xxhash64(value.cast("bigint"), *rest)


def _unit(value: Column, seed: int, purpose: int) -> Column:
    upper = F.shiftrightunsigned(_hash(value, seed, purpose), 11)
    return upper.cast("double") * F.lit(2.0**-53)


def _tasks(spark: SparkSession, total: int) -> int:
    least, most = _FILE_ROWS
    return max(min(cores(spark), -(-total // least)), -(-total // most))


def write_stream(spark: SparkSession, stream: Stream, path: str) -> None:
    """Write the stream into a folder that is empty or not there.

    Raises
    ------
    InputError : the folder holds something
    """
    if occupied(spark, path):
        raise InputError("is not empty", path, "Name another folder, or remove it")
    # Events are read whole, so they need no small row groups, unlike state.
    writer = transform(spark, stream).write.option("parquet.block.size", 1 << 27)
    writer.mode("append").parquet(path)


def stream_of(options: argparse.Namespace) -> Stream:
    """Return the preset with the options' changes.

    Raises
    ------
    InputError : an option has a bad value
    """
    if options.preset not in PRESETS:
        raise InputError(
            f"there is no preset {options.preset!r}", "--preset", f"Known: {', '.join(PRESETS)}"
        )
    changes: dict[str, Any] = {}
    for name in ("rows", "keys", "windows", "days", "seed", "vanish", "z", "churn"):
        text = getattr(options, name)
        if text is not None:
            changes[name] = _number(
                "--zipf" if name == "z" else f"--{name}", text, name not in _REAL
            )
    for name, whole in (("hot", True), ("wander", False)):
        text = getattr(options, name)
        if text is not None:
            first, _, second = text.partition(":")
            pair = _number(f"--{name}", first, whole), _number(f"--{name}", second, False)
            changes[name] = pair
    return dataclasses.replace(PRESETS[options.preset], **changes)


def _number(option: str, text: str, whole: bool) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
        if not whole:
            return value
        if value == int(value):  # 1e9
            return int(value)
    except (ValueError, OverflowError):
        pass
    kind = "a whole number" if whole else "a number"
    fix = _PAIRS.get(option, "Write it as 1000 or 1e3")
    raise InputError(f"{text!r} is not {kind}", option, fix)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--preset", default="small", help=f"one of {', '.join(PRESETS)} (small)")
    made.add_argument("--out", required=True, help="folder to write Parquet files into")
    made.add_argument("--rows", help="rows of a window, as in 1e6")
    made.add_argument("--keys", help="distinct keys")
    made.add_argument("--zipf", dest="z", metavar="Z", help="skew, from 0 (uniform) to 3")
    made.add_argument("--windows", help="number of windows")
    made.add_argument("--days", help="days of a window")
    made.add_argument("--seed", help="another seed gives other rows and keys")
    made.add_argument("--churn", help="share of ranks that swap between two windows")
    made.add_argument(
        "--wander", metavar="SIGMA:PHI", help="shares wander between windows, by an AR(1) process"
    )
    made.add_argument("--hot", metavar="WINDOW:SHARE", help="a key turns hot; windows start at 0")
    made.add_argument("--vanish", metavar="WINDOW", help="the heaviest key is gone from here on")
    options = made.parse_args(argv)
    try:
        stream = stream_of(options)
        spark = session("evenkeel generate")
        say(f"writing {stream}")
        write_stream(spark, stream, options.out)
        say(f"{options.out}: ready")
    except EvenkeelError as error:
        return fail(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
