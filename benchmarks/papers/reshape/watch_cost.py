"""Measure the cost of reading metrics: the watch's look at a micro-batch beside folding it.

The source is Reshape's section 7.9, Fig. 25. Reshape's engine keeps queues that its controller asks
for. A lakehouse keeps none. So our watch counts each batch by channel and heavy key in Spark jobs
of their own (`evenkeel_spark.watching.evaluate`), beside those that fold the batch into the state.
Both are timed
on the same batches, one after the other, and each goes first in turn. No key is hot, so nothing is
decided, as in the paper. The first batch warms up and is left out.

    python -m benchmarks.papers.reshape.watch_cost [batches] [rows ...]
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.pipeline.watch_effect import CHANNELS, DAY, EVERY, START, Side, made, write_events
from evenkeel_spark.jobs.apply_window import measure_channels, merge_window, window_state
from evenkeel_spark.runtime.session import session
from evenkeel_spark.watching.evaluate import evaluate
from evenkeel_spark.watching.micro_batch import number_sql

#: Batches timed, and rows of each; keys of the stream.
BATCHES, ROWS, KEYS = 3, (20_000,), 5_000


def folded(spark: SparkSession, side: Side, file: Path) -> float:
    """Return the seconds that it takes to fold a batch into the state."""
    began, spec, function = time.perf_counter(), side.table.spec, side.table.epoch().function
    window = window_state(spark.read.parquet(str(file)), spec, function).persist()
    measure_channels(spark, window, spec, CHANNELS)
    merge_window(spark, spec, "totals", window, function)
    window.unpersist()
    return time.perf_counter() - began


def looked(spark: SparkSession, side: Side, file: Path, number: int) -> float:
    """Return the seconds that the watch's look at it takes."""
    began, table = time.perf_counter(), side.table
    ended = START + timedelta(minutes=EVERY * (number + 1))
    numbers = F.expr(number_sql(table.spec, EVERY))
    decided = evaluate(
        spark, table, spark.read.parquet(str(file)), numbers, f"watch-{number}", "files", ended
    )
    if decided is not None:
        raise RuntimeError(f"a stream without skew: {decided}")
    return time.perf_counter() - began


def costs(spark: SparkSession, rows: int, batches: int) -> np.ndarray:
    """Return the seconds to fold and to look at each batch, (batches, 2)."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events").mkdir()
        write_events(folder / "events", rows, KEYS, 0.0, DAY + batches + 1)
        side = made(spark, folder, "watched")
        for number in range(DAY, DAY + batches + 1):
            file = folder / "events" / f"{number:04}.parquet"
            if number % 2:
                looks = looked(spark, side, file, number)
                folds = folded(spark, side, file)
            else:
                folds = folded(spark, side, file)
                looks = looked(spark, side, file, number)
            found.append((folds, looks))
    return np.array(found[1:])


def main(batches: int = BATCHES, *sizes: int) -> None:
    spark = session("watch cost", **{"spark.sql.shuffle.partitions": "4"})
    print(f"Seconds a micro-batch, median of {batches}, {CHANNELS} channels, {KEYS:,} keys (7.9)")
    print(f"{'rows':>10}{'fold':>8}{'look':>8}{'look over fold':>24}   paper")
    for rows in sizes or ROWS:
        with contextlib.ExitStack() as quiet:
            null = quiet.enter_context(Path(os.devnull).open("w"))
            quiet.enter_context(contextlib.redirect_stdout(null))
            each = costs(spark, rows, batches)
        fold, looks = np.median(each, axis=0)
        ratio = each[:, 1] / each[:, 0]
        told = f"{np.median(ratio):.0%} ({ratio.min():.0%}-{ratio.max():.0%})"
        print(f"{rows:>10,}{fold:>8.2f}{looks:>8.2f}{told:>24}   1-2%", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
