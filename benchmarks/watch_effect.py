"""A key that turns hot within the day: by hashing, by daily epochs alone, and with the watch beside
them. `python -m benchmarks.watch_effect`.

Each side folds the same events, a micro-batch at a time, into a state table of its own, as
`apply_window` does; it has the same days before it. What a channel gets is what its task read. The
key turns hot within the second day; a daily epoch learns of that at midnight.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel import steps
from evenkeel.params import Params
from evenkeel.spec_file import load_spec
from evenkeel.table import Table
from partitioning.generator import Stream, keys_of_window
from spark_jobs import learn
from spark_jobs.apply_window import measure, merge_window, window_state
from spark_jobs.bootstrap import bootstrap
from spark_jobs.events import read_events
from spark_jobs.fence import approved
from spark_jobs.micro_batch import number_sql
from spark_jobs.migrate import migrate
from spark_jobs.session import session
from spark_jobs.streaming import carry_out
from spark_jobs.verify import verify
from spark_jobs.watch import watch

CHANNELS, EVERY = 8, 120
#: Micro-batches of a day, when the key turns hot, and how many there are.
DAY, ONSET, BATCHES = 12, 17, 28
START = datetime(2024, 1, 1, tzinfo=UTC)
FIRST = int(START.timestamp()) // (60 * EVERY)
#: Slowest over mean rows from which a micro-batch is even.
EVEN = 1.1
COLUMNS: dict[str, Any] = {
    "n": {"merge": "count"},
    "units": {"merge": "sum", "of": "units"},
    "first": {"merge": "min", "of": "at"},
    "last": {"merge": "max", "of": "at"},
    "ids": {"merge": "hll", "of": "id"},
}


@dataclass
class Side:
    """A table, and what its micro-batches measured from the second day on."""

    name: str
    spec: str
    rows: list[list[int]] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return Table(load_spec(self.spec))

    def apply(self, spark: SparkSession, number: int) -> None:
        """Fold one micro-batch into the state."""
        table = self.table
        spec, function = table.spec, table.epoch().function
        events = read_events(spark, spec, function.row if len(function.split) else None)
        events = events.where(f"{number_sql(spec, EVERY)} = {FIRST + number}")
        window = window_state(events, spec, function).persist()
        self.rows.append([c.rows for c in measure(spark, window, spec, CHANNELS)])
        merge_window(spark, spec, "totals", window, function)
        window.unpersist()

    def rebalance(self, spark: SparkSession, end: date) -> None:
        """The daily run."""
        run = f"daily-{end}"
        if learn.main(["--spec", self.spec, "--run", run, "--end", f"{end}"]):
            raise SystemExit(f"{run} did not learn")
        if steps.decide(self.spec, run, Params()).rebalance:
            digest = steps.plan(self.spec, run, Params())
            steps.validate_plan(self.spec, run)
            migration = approved(self.table, run, digest)
            migrate(spark, migration)
            verify(spark, migration)
            steps.publish(self.spec, run)

    def look(self, spark: SparkSession, number: int, until: datetime) -> None:
        """The watch, once a micro-batch has ended."""
        run = f"watch-{number}"
        if watch(spark, self.table, run, until) is not None:
            carry_out(spark, self.table, self.spec, run)

    def moved(self) -> tuple[int, int]:
        """Epochs published, and bytes that they moved."""
        registry, size = self.table.registry, 0
        for number in registry.numbers()[1:]:
            tables = registry.kept(number).read_json("migration.json")["tables"]
            size += sum(t["bytes"] for t in tables.values())
        return registry.numbers()[-1], size

    def result(self, spark: SparkSession) -> pd.DataFrame:
        state = self.table.state("totals", spark=spark)
        state = state.withColumn("ids", F.hll_sketch_estimate("ids"))
        return state.select("key", *COLUMNS).toPandas().set_index("key").sort_index()


def write_events(folder: Path, rows: int, keys: int, share: float, batches: int = BATCHES) -> None:
    """A Parquet file for each micro-batch; each is a window of the generator's."""
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
        }
        table = pa.Table.from_pandas(pd.DataFrame(events), preserve_index=False)
        pq.write_table(table, folder / f"{number:04}.parquet", coerce_timestamps="us")


def made(spark: SparkSession, folder: Path, name: str) -> Side:
    """A side with the state of the first day."""
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


def play(spark: SparkSession, side: Side) -> None:
    """All micro-batches from the second day on."""
    for number in range(DAY, BATCHES):
        begins = START + timedelta(minutes=EVERY * number)
        if number % DAY == 0 and side.name != "hashing":
            side.rebalance(spark, begins.date())
        side.apply(spark, number)
        if side.name == "watched":
            side.look(spark, number, begins + timedelta(minutes=EVERY))


def told(side: Side, reference: pd.DataFrame, result: pd.DataFrame) -> str:
    """One line of what came of a side."""
    rows = np.array(side.rows, dtype=np.float64)
    ratio = rows.max(axis=1) / rows.mean(axis=1)
    hot = ratio[ONSET - DAY :]
    uneven = np.flatnonzero(hot > EVEN)
    after = int(uneven[-1]) + 1 if len(uneven) else 0
    reached = f"{after} batches" if after < len(hot) else "never"
    work = float(rows[ONSET - DAY :].max(axis=1).sum() / rows[ONSET - DAY :].mean(axis=1).sum())
    epochs, size = side.moved()
    exact = [c for c in COLUMNS if c != "ids"]
    same = result[exact].equals(reference[exact])
    off = float((result["ids"] / reference["ids"] - 1).abs().max())
    return (
        f"  {side.name:8} before {ratio[: ONSET - DAY].mean():.3f}, at onset {hot[0]:.3f}, at the "
        f"end {hot[-1]:.3f}; even after {reached}; slowest over mean from onset on {work:.3f}; "
        f"{epochs} epochs, {size:,} bytes moved; state {'equal' if same else 'DIFFERENT'}, "
        f"sketches off by at most {off:.2%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="of a micro-batch")
    parser.add_argument("--keys", type=int, default=5_000)
    parser.add_argument("--share", type=float, default=0.3, help="of the hot key")
    parser.add_argument("--loud", action="store_true", help="tell what each job says")
    options = parser.parse_args()
    spark = session("watch benchmark", spark_sql_shuffle_partitions="4")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events").mkdir()
        write_events(folder / "events", options.rows, options.keys, options.share)
        print(
            f"{options.rows:,} events a micro-batch of {EVERY} minutes, {options.keys:,} keys, "
            f"{CHANNELS} channels; from number {ONSET} on one key has {options.share:.0%} more",
            flush=True,
        )
        reference = None
        for side_name in ("hashing", "daily", "watched"):
            with contextlib.ExitStack() as quiet:
                if not options.loud:
                    null = quiet.enter_context(Path(os.devnull).open("w"))
                    quiet.enter_context(contextlib.redirect_stdout(null))
                side = made(spark, folder, side_name)
                play(spark, side)
                result = side.result(spark)
            reference = result if reference is None else reference
            print(told(side, reference, result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
