"""What tests share: the environment, one Spark session, and a small table bootstrapped once."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import settings

from evenkeel.local_env import environment
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table

# On a busy machine an example may take long: what is tested is not the time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before anything starts a JVM: the environment that set-up made, so that pytest runs as is.
os.environ.update(environment(small=True))

FIRST_DAY = datetime(2013, 1, 1, tzinfo=UTC)
DAYS = 14
SPEC: dict[str, Any] = {
    "table": "trips",
    "key": ["dest"],
    "input": {"path": "events.parquet", "time": "at"},
    "window": 7,
    "decay": None,  # tests compare the load learned with the window itself
    "state": {
        "totals": {
            "path": "state/totals",
            "columns": {
                "trips": {"merge": "count"},
                "miles": {"merge": "sum", "of": "miles"},
                "first": {"merge": "min", "of": "at"},
                "last": {"merge": "max", "of": "at"},
            },
        },
    },
    "registry": "registry",
    "channels": 4,
    "slots": 64,
}


#: A second state table, for what only two can show.
SEEN = {"path": "state/seen", "columns": {"latest": {"merge": "max", "of": "at"}}}


@dataclass(frozen=True)
class World:
    """A table in a folder of its own, with the events that it is made from."""

    folder: Path

    @property
    def spec_path(self) -> str:
        return str(self.folder / "trips.yaml")

    @property
    def table(self) -> Table:
        return Table(load_spec(self.spec_path))

    @property
    def events(self) -> pd.DataFrame:
        return pd.read_parquet(self.folder / "events.parquet")

    def respec(self, **changes: Any) -> World:
        """Change fields of the spec."""
        with Path(self.spec_path).open() as file:
            spec = yaml.safe_load(file)
        Path(self.spec_path).write_text(yaml.safe_dump({**spec, **changes}, sort_keys=False))
        return self

    def with_columns(self, columns: dict[str, Any]) -> World:
        """Give the first state table other columns."""
        return self.respec(state={"totals": {**SPEC["state"]["totals"], "columns": columns}})

    def with_seen(self) -> World:
        """Add the second state table."""
        return self.respec(state={**SPEC["state"], "seen": SEEN})

    def write_events(self, frame: pd.DataFrame) -> World:
        """Replace the input; times are stored in microseconds as Spark reads them."""
        pq.write_table(
            pa.Table.from_pandas(frame, preserve_index=False),
            self.folder / "events.parquet",
            coerce_timestamps="us",
        )
        return self


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file keeps to one worker; so does the browser's folder, whose tests share a site."""
    from xdist.scheduler import LoadFileScheduling

    class Folders(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = Path(nodeid.split("::", 1)[0])
            return str(file.parent if file.parent.name == "browser" else file)

    return Folders(config, log)


#: Cases of one test with Spark that `make test` runs; `make test-slow` has the others.
QUICK_CASES = 1
#: Rooms of tests with Spark, by when their turn is: those that move rows, then one suite over both
#: formats; others come last, and are what a slow machine leaves out.
FIRST_ROOMS = ("migration", "windows", "jobs", "contract")
#: Set by `make iceberg`: there no case is left for `make test-slow`.
EVERY_CASE = "EVENKEEL_EVERY_CASE"
#: Seconds since 1970 after which no test with Spark begins. `.ci/run` sets it: its time is limited.
UNTIL = "EVENKEEL_TESTS_UNTIL"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of a test with Spark as slow, but for the first; put Spark's rooms last."""
    seen: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("spark") and EVERY_CASE not in os.environ:
            name = item.nodeid.partition("[")[0]
            seen[name] += 1
            if seen[name] > QUICK_CASES:
                item.add_marker(pytest.mark.slow)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Return when a test's turn is: a lower number comes earlier."""
    _, package, room, *_ = [*item.nodeid.split("/"), "", ""]
    if package != "evenkeel_spark":
        return 0
    return 1 + (FIRST_ROOMS.index(room) if room in FIRST_ROOMS else len(FIRST_ROOMS))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave tests with Spark out once the gate's time is over."""
    until = os.environ.get(UNTIL)
    if until and item.get_closest_marker("spark") and time.time() > float(until):
        pytest.skip("the gate's time is over on this slow machine: `make test` runs it")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The jobs' session on two local cores, with this machine's defaults for small tables."""
    from evenkeel_spark.runtime.session import session

    started = session(
        "evenkeel tests",
        **{
            "spark.master": "local[2]",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    # What fails here fails on purpose: no stack traces of it.
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()


def compiled(spark: SparkSession) -> SparkSession:
    """A session that compiles queries and adapts them as it runs, as those of large tables do."""
    made = spark.newSession()
    made.conf.set("spark.sql.codegen.wholeStage", "true")
    made.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    made.conf.set("spark.sql.adaptive.enabled", "true")
    made.conf.set("spark.sql.shuffle.partitions", "4")
    return made


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Spec and events of 14 days in January 2013; nothing bootstrapped."""
    made = World(tmp_path)
    Path(made.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
    return made.write_events(some_events())


@pytest.fixture(scope="session")
def _bootstrapped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from evenkeel_spark.jobs.bootstrap import bootstrap

    made = World(tmp_path_factory.mktemp("bootstrapped"))
    Path(made.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
    made.write_events(some_events())
    bootstrap(spark, made.table, (FIRST_DAY + timedelta(days=7)).date())
    return made.folder


@pytest.fixture
def ready(_bootstrapped: Path, tmp_path: Path) -> World:
    """The same, with state of the first seven days under epoch 0: a copy for each test."""
    shutil.copytree(_bootstrapped, tmp_path, dirs_exist_ok=True)
    return World(tmp_path)


def some_events(count: int = 3000, keys: int = 200, seed: int = 7) -> pd.DataFrame:
    """Events with Zipf keys (the heaviest about a sixth), spread over the days."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, keys + 1)
    seconds = rng.integers(0, DAYS * 86400, count)
    # Midnights at which tests cut windows: they belong to the day that begins.
    seconds[:3] = [7 * 86400, 9 * 86400, 10 * 86400]
    seconds.sort()
    return pd.DataFrame(
        {
            "dest": [f"D{k:03d}" for k in rng.choice(keys, count, p=weights / weights.sum())],
            "at": FIRST_DAY + pd.to_timedelta(seconds, unit="s"),
            "miles": rng.integers(1, 3000, count).astype(np.int32),
            "weight": rng.integers(1, 9, count) / 4,
        }
    )
