"""Compare three ways to meet a key that turns hot: hashing, daily epochs, and the watch.

`python -m benchmarks.pipeline.watch_effect` runs a streaming job for each; the watch runs beside
daily
epochs. Its `foreachBatch` folds a micro-batch into a state table of its own, as `apply_window`
does, and then lets the watch look at it. All have the same days before. A channel's load is what
its task read. The key turns hot within the second day, and a daily epoch learns of that at
midnight. pandas counts the expected state.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.table import Table
from evenkeel_spark.events.reader import read_events
from evenkeel_spark.jobs import learn
from evenkeel_spark.jobs.apply_window import measure_channels, merge_window, window_state
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import approved_migration
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.delta import commits
from evenkeel_spark.watching.streaming import meet
from partitioning.streams.zipf_stream import Stream, keys_of_window

CHANNELS, EVERY = 8, 120
#: Micro-batches of a day, when the key turns hot, and how many there are.
DAY, ONSET, BATCHES = 12, 17, 28
START = datetime(2024, 1, 1, tzinfo=UTC)
#: Slowest over mean rows from which a micro-batch is even.
EVEN = 1.1
COLUMNS: dict[str, Any] = {
    "n": {"merge": "count"},
    "units": {"merge": "sum", "of": "units"},
    "paid": {"merge": "sum", "of": "paid"},
    "first": {"merge": "min", "of": "at"},
    "last": {"merge": "max", "of": "at"},
    "sizes": {"merge": "set", "of": "units"},
    "newest": {"merge": "last", "of": "id"},
    "ids": {"merge": "hll", "of": "id"},
    "sample": {"merge": "theta", "of": "id"},
}
#: Sums of floats are exact but for rounding. Of sketches the error at three standard deviations:
#: HLL of 2^12 buckets, 1.04/sqrt(k), and theta of 2^12 samples, 1/sqrt(k) (Apache DataSketches).
ROUNDED = {"paid": 1e-9}
DECLARED = {"ids": 3 * 1.04 / 64, "sample": 3 / 64}


@dataclass
class Side:
    """A table, and what its micro-batches measured from the second day on.

    It has rows and seconds of each channel's task, and seconds in all.
    """

    name: str
    spec: str
    rows: list[list[int]] = field(default_factory=list)
    seconds: list[list[float]] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return Table(load_spec(self.spec))

    def fold(self, spark: SparkSession, batch: DataFrame, number: int) -> None:
        """Fold one micro-batch into the state once, however often it comes."""
        table = self.table
        spec, function = table.spec, table.epoch().function
        window = window_state(batch, spec, function).persist()
        work = measure_channels(spark, window, spec, CHANNELS)
        self.rows.append([c.rows for c in work])
        self.seconds.append([c.seconds for c in work])
        app, meta = f"stream {self.name}", {"batch": number}
        with commits.our_commit(spark, app, number, meta) as own:
            merge_window(own, spec, "totals", window, function)
        window.unpersist()

    def rebalance(self, spark: SparkSession, end: date) -> None:
        """Run the daily rebalance."""
        run = f"daily-{end}"
        if learn.main(["--spec", self.spec, "--run", run, "--end", f"{end}"]):
            raise SystemExit(f"{run} did not learn")
        if steps.decide(self.spec, run, Params()).rebalance:
            digest = steps.plan(self.spec, run, Params())
            steps.validate_plan(self.spec, run)
            migration = approved_migration(self.table, run, digest)
            migrate(spark, migration)
            verify(spark, migration)
            publish(spark, migration)
            steps.publish(self.spec, run)

    def moved(self) -> tuple[int, int]:
        """Return the number of epochs published, and the bytes that they moved."""
        registry, size = self.table.registry, 0
        for number in registry.numbers()[1:]:
            tables = registry.archive(number).migration.read().tables
            size += sum(t.bytes for t in tables.values())
        return registry.numbers()[-1], size

    def result(self, spark: SparkSession) -> pd.DataFrame:
        state = self.table.state("totals", spark=spark)
        state = state.withColumn("ids", F.hll_sketch_estimate("ids"))
        state = state.withColumn("sample", F.theta_sketch_estimate("sample"))
        state = state.withColumn("sizes", F.array_sort("sizes").cast("string"))
        state = state.withColumn("newest", F.col("newest.value"))
        for time_column in ("first", "last"):
            state = state.withColumn(time_column, F.unix_micros(time_column))
        return state.select("key", *COLUMNS).toPandas().set_index("key").sort_index()


def write_events(folder: Path, rows: int, keys: int, share: float, batches: int = BATCHES) -> None:
    """Write a Parquet file for each micro-batch; each is a window of the generator's."""
    stream = Stream(rows=rows, keys=keys, z=0.8, windows=BATCHES, days=1, hot=(ONSET, share))
    random = np.random.default_rng(0)
    for number in range(batches):
        drawn = keys_of_window(stream, number)
        seconds = np.sort(random.integers(0, EVERY * 60, len(drawn)))
        begin = START + timedelta(minutes=EVERY * number)
        events = {
            "key": drawn,
            "at": begin + pd.to_timedelta(seconds, "s"),
            "id": number * rows + np.arange(len(drawn)),
            "units": random.integers(1, 10, len(drawn)),
            "paid": random.lognormal(3, 1, len(drawn)),
        }
        table, file = pa.Table.from_pandas(pd.DataFrame(events)), folder / names(number)
        pq.write_table(table, file, coerce_timestamps="us")
        # A stream reads the oldest file first.
        os.utime(file, (number, number))


def names(*numbers: int) -> str:
    """Return the files of micro-batches, as a pattern."""
    each = ",".join(f"{number:04}" for number in numbers)
    return f"{each}.parquet" if len(numbers) == 1 else f"{{{each}}}.parquet"


def expected(folder: Path, batches: int = BATCHES) -> pd.DataFrame:
    """Compute the expected state, with exact counts for sketches."""
    events = pd.concat(pd.read_parquet(folder / names(n)) for n in range(batches))
    events["at"] = events["at"].astype("datetime64[us, UTC]").astype("int64")
    by = events.sort_values(["at", "id"]).groupby("key")
    exact = by.agg(n=("id", "size"), units=("units", "sum"), paid=("paid", "sum"))
    exact = exact.assign(first=by["at"].min(), last=by["at"].max(), newest=by["id"].last())
    exact["sizes"] = by["units"].agg(lambda units: str(sorted(set(units.tolist()))))
    return exact.assign(ids=by["id"].nunique(), sample=by["id"].nunique()).sort_index()


def differences(result: pd.DataFrame, exact: pd.DataFrame) -> dict[str, float]:
    """Return the largest relative error of each column; infinite if an exact column differs."""
    if not result.index.equals(exact.index):
        return dict.fromkeys(COLUMNS, float("inf"))
    found = {}
    for column in COLUMNS:
        ours, theirs = result[column].to_numpy(), exact[column].to_numpy()
        if column in ROUNDED or column in DECLARED:
            found[column] = float(np.abs(ours / theirs - 1).max())
        else:
            found[column] = 0.0 if (ours == theirs).all() else float("inf")
    return found


def made(spark: SparkSession, folder: Path, name: str) -> Side:
    """Make a side with the state of the first day."""
    spec = {
        "table": name,
        "key": ["key"],
        "input": {"path": "events", "time": "at"},
        "window": 1,
        "state": {"totals": {"path": f"{name}/state", "columns": COLUMNS}},
        "registry": f"{name}/registry",
        "channels": CHANNELS,
        "split": {"by": "id"},
        "watch": {"every": EVERY, "memory": 4},
    }
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(spec, sort_keys=False))
    side = Side(name, str(file))
    bootstrap(spark, side.table, (START + timedelta(days=1)).date())
    return side


def play(spark: SparkSession, side: Side, folder: Path, batches: int = BATCHES) -> None:
    """Stream all micro-batches from the second day on, one file each."""
    schema = read_events(spark, side.table.spec).schema
    reader = spark.readStream.format("parquet").schema(schema).option("maxFilesPerTrigger", 1)
    reader = reader.option("pathGlobFilter", names(*range(DAY, batches)))

    def seen(batch: DataFrame, number: int) -> None:
        began, begins = time.monotonic(), START + timedelta(minutes=EVERY * (DAY + number))
        if number % DAY == 0 and side.name != "hashing":
            side.rebalance(spark, begins.date())
        side.fold(spark, batch, number)
        if side.name == "watched":
            ends = begins + timedelta(minutes=EVERY)
            meet(spark, side.table, side.spec, batch, number, "effect", ends)
        side.took.append(time.monotonic() - began)

    writer = reader.load(str(folder / "events")).writeStream.foreachBatch(seen)
    writer = writer.option("checkpointLocation", str(folder / side.name / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def even_after(side: Side) -> int | None:
    """Return the micro-batches from onset until all later ones are even; None if they never are."""
    hot = imbalances(side.rows)[ONSET - DAY :]
    uneven = np.flatnonzero(hot > EVEN)
    after = int(uneven[-1]) + 1 if len(uneven) else 0
    return after if after < len(hot) else None


def imbalances(work: list[list[Any]]) -> np.ndarray:
    """Return the slowest over the mean task of each micro-batch, (batches,)."""
    each = np.array(work, dtype=np.float64)
    return each.max(axis=1) / each.mean(axis=1)


def told(side: Side, off: dict[str, float]) -> str:
    """Format the results of a side as lines."""
    ratio, seconds = imbalances(side.rows), np.array(side.seconds)[ONSET - DAY :]
    after, hot = even_after(side), np.array(side.rows, dtype=np.float64)[ONSET - DAY :]
    reached = "never"
    if after is not None:
        took = sum(side.took[ONSET - DAY :][:after])
        reached = f"{after} batches, of {took:.0f} s of work"
    slowest = hot.max(axis=1).sum() / hot.mean(axis=1).sum()
    tasks = seconds.max(axis=1).sum() / seconds.mean(axis=1).sum()
    epochs, size = side.moved()
    wrong = [c for c, part in off.items() if part > {**ROUNDED, **DECLARED}.get(c, 0.0)]
    sketches = ", ".join(f"{c} {off[c]:.2%} of {most:.2%}" for c, most in DECLARED.items())
    return (
        f"  {side.name:8} before {ratio[: ONSET - DAY].mean():.3f}, at onset "
        f"{ratio[ONSET - DAY]:.3f}, at the end {ratio[-1]:.3f}; even after {reached}; slowest over "
        f"mean task from onset on {slowest:.3f} in rows, {tasks:.3f} in seconds\n"
        f"           {epochs} epochs, {size:,} bytes moved; state "
        f"{'DIFFERENT: ' + ', '.join(wrong) if wrong else 'as counted'}; off at most: {sketches}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="rows of one micro-batch")
    parser.add_argument("--keys", type=int, default=5_000)
    parser.add_argument(
        "--share", type=float, default=0.3, help="share of all events that the hot key has"
    )
    parser.add_argument("--loud", action="store_true", help="print the output of each job")
    options = parser.parse_args()
    spark = session("watch benchmark", **{"spark.sql.shuffle.partitions": "4"})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events").mkdir()
        write_events(folder / "events", options.rows, options.keys, options.share)
        print(
            f"{options.rows:,} events a micro-batch of {EVERY} minutes, {options.keys:,} keys, "
            f"{CHANNELS} channels; from number {ONSET} on one key has {options.share:.0%} more",
            flush=True,
        )
        exact = expected(folder / "events")
        for side_name in ("hashing", "daily", "watched"):
            with contextlib.ExitStack() as quiet:
                if not options.loud:
                    null = quiet.enter_context(Path(os.devnull).open("w"))
                    quiet.enter_context(contextlib.redirect_stdout(null))
                side = made(spark, folder, side_name)
                play(spark, side, folder)
                off = differences(side.result(spark), exact)
            print(line := told(side, off), flush=True)
            if "DIFFERENT" in line:
                raise RuntimeError(f"the state of {side_name} is not what the events make")
    spark.stop()


if __name__ == "__main__":
    main()
