"""A table that is watched: micro-batches of events, and the runs that they lead to."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from evenkeel.spec.parts import Watching
from evenkeel.watch.state import WatchState
from evenkeel.watch.state_file import read
from evenkeel_spark.events.aggregate import EVENTS
from evenkeel_spark.events.reader import read_events
from evenkeel_spark.jobs.apply_window import merge_window, window_state
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.watch import watch
from evenkeel_spark.watching.micro_batch import number_sql
from evenkeel_spark.watching.streaming import carry_out
from partitioning.function.hashing import KeyColumn
from partitioning.strategies.hashing import first_function
from tests.conftest import FIRST_DAY, World

CHANNELS, EVERY, FAIR = 4, 5, 50


HOT = "HOT"


SPEC: dict[str, Any] = {
    "table": "trips",
    "key": ["dest"],
    "input": {"path": "events", "time": "at"},
    "window": 7,
    "decay": None,
    "state": {
        "totals": {
            "path": "state/totals",
            "columns": {"trips": {"merge": "count"}, "miles": {"merge": "sum", "of": "miles"}},
        }
    },
    "registry": "registry",
    "channels": CHANNELS,
    "slots": 256,
    "split": {"by": "id"},
    "watch": {"every": EVERY, "memory": 2},
    # Light keys that turn calm go home, though they are more than 2% of a mean load.
    "trigger": 1.1,
}


#: Number of the first micro-batch.
FIRST = int(FIRST_DAY.timestamp()) // (60 * EVERY)


@dataclass(frozen=True)
class Live(World):
    """A table whose events come a file each micro-batch."""

    def keys(self) -> list[str]:
        """Ten keys of each channel, as epoch 0 has them."""
        spec = self.table.spec
        function = first_function_of(spec)
        names = np.array([f"D{i}" for i in range(800)])
        at = function.lookup(names.tolist())
        return [k for c in range(CHANNELS) for k in names[at == c][:10].tolist()]

    def batch(self, number: int, hot: float, key: str = HOT, **changes: Any) -> Live:
        """Events of one micro-batch: `FAIR` of each channel, and of one key so many times that."""
        random = np.random.default_rng(number)
        dest = np.repeat(self.keys(), FAIR // 10)
        dest = random.permutation([*dest, *[key] * int(hot * FAIR)])
        seconds = np.sort(random.integers(0, 60 * EVERY, len(dest)))
        frame = pd.DataFrame(
            {
                "dest": dest,
                "at": FIRST_DAY + timedelta(minutes=number * EVERY) + pd.to_timedelta(seconds, "s"),
                "id": number * 10_000 + np.arange(len(dest)),
                "miles": random.integers(1, 3000, len(dest)).astype(np.int32),
            }
        ).assign(**changes)
        folder = self.folder / "events"
        folder.mkdir(exist_ok=True)
        rows = pa.Table.from_pandas(frame, preserve_index=False)
        pq.write_table(rows, folder / f"{number:04}.parquet", coerce_timestamps="us")
        return self

    @property
    def twin(self) -> str:
        """A light key of the hot key's channel, as epoch 0 has them."""
        keys, epoch = self.keys(), self.table.epoch(0)
        home = epoch.lookup([HOT])[0]
        return next(k for k, at in zip(keys, epoch.lookup(keys), strict=True) if at == home)

    def hot_pair(self, number: int, hot: float = 1.5, twin: float = 1.5) -> Live:
        """Events of a micro-batch in which these two keys get so many times `FAIR`."""
        name = self.twin

        def first_are_twins(rows: pd.DataFrame) -> pd.Series:
            ours = rows["dest"] == HOT
            return rows["dest"].mask(ours & (ours.cumsum() <= twin * FAIR), name)

        return self.batch(number, hot + twin, dest=first_are_twins)

    @property
    def watching(self) -> Watching:
        asked = self.table.spec.watch
        assert asked is not None
        return asked

    @property
    def known(self) -> WatchState:
        found = read(self.table.registry)
        assert found is not None
        return found

    def look(
        self, spark: SparkSession, number: int, until: datetime | None = None, **more: Any
    ) -> bool:
        """The job, once this micro-batch has ended; whether something is decided."""
        until = until or ended(number)
        return watch(spark, self.table, f"w{number}", until, **more) is not None

    def turn(self, spark: SparkSession, number: int) -> int | None:
        """All that the DAG does then; the epoch published."""
        if not self.look(spark, number):
            return None
        return carry_out(spark, self.table, self.spec_path, f"w{number}")

    def apply(self, spark: SparkSession, *numbers: int) -> list[int]:
        """Fold micro-batches into the state, as the epoch in force has it; events by channel."""
        spec, function = self.table.spec, self.table.epoch().function
        window = self.window(spark, *numbers)
        merge_window(spark, spec, "totals", window, function)
        return self.loads(spark, *numbers)

    def window(self, spark: SparkSession, *numbers: int) -> DataFrame:
        """Events of micro-batches, folded and routed."""
        spec, function = self.table.spec, self.table.epoch().function
        events = read_events(spark, spec, function)
        its = ", ".join(str(FIRST + n) for n in numbers)
        events = events.where(f"{number_sql(spec, EVERY)} IN ({its})")
        return window_state(events, spec, function)

    def loads(self, spark: SparkSession, *numbers: int) -> list[int]:
        """Events that each channel gets of micro-batches."""
        rows = self.window(spark, *numbers).groupBy("channel").sum(EVENTS).collect()
        found = dict.fromkeys(range(CHANNELS), 0) | {r[0]: r[1] for r in rows}
        return [found[c] for c in range(CHANNELS)]

    def check(self, spark: SparkSession) -> None:
        """The state, merged, is what one owner would have of all events."""
        files = sorted((self.folder / "events").glob("*.parquet"))
        whole = pd.concat([pd.read_parquet(f) for f in files]).groupby("dest")
        rows = self.table.state("totals", spark=spark).toPandas().set_index("dest").sort_index()
        assert (rows["trips"] == whole.size()).all() and len(rows) == whole.ngroups
        assert (rows["miles"] == whole["miles"].sum()).all()


def first_function_of(spec: Any) -> Any:
    return first_function((KeyColumn("dest", "string"),), spec.slots, spec.channel_list())


def ended(number: int) -> datetime:
    return FIRST_DAY + timedelta(minutes=(number + 1) * EVERY)


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty state under epoch 0, and a calm micro-batch."""
    made = Live(tmp_path_factory.mktemp("live"))
    Path(made.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
    made.batch(0, 0.1)
    bootstrap(spark, made.table)
    assert not made.look(spark, 0) and made.known.watch.last == FIRST
    return made.folder


@pytest.fixture
def live(template: Path, tmp_path: Path) -> Live:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return Live(tmp_path)
