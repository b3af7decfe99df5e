"""Migrate, verify and roll_back beside a writer that never stops: they end, and nothing is lost."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.table_migration import LOSSES
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.runtime.retry import PATIENCE_SETTING
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.spark_errors import CONFLICTS, SPARK_ERRORS
from tests.support.placed import KEYS, Placed, append, copied

pytestmark = pytest.mark.spark


@pytest.fixture
def home(planned_home: Placed, tmp_path: Path) -> Placed:
    """The test's own copy of a table with a plan."""
    return copied(planned_home, tmp_path)


@dataclass
class Writer:
    """Commits by the current epoch every `period` seconds: new keys, or one visit more of others.

    `keys` and `visits` are what Delta said is committed.
    """

    spark: SparkSession
    home: Placed
    period: float
    keys: set[str] = field(default_factory=set)
    visits: int = 0
    lost: int = 0
    wrong: BaseException | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    def commit(self, number: int) -> None:
        if number % 2:
            few = f"pmod(xxhash64(key), 50) = {number % 50} AND key LIKE 'k%'"
            sql = f"UPDATE {state.sql_name(self.home.path())} SET visits = visits + 1 WHERE {few}"
            (count,) = self.spark.sql(sql).first() or (0,)
            self.visits += int(count)
        else:
            batch = {f"w{number}-{i}": 1 for i in range(20)}
            append(self.spark, self.home, self.home.table.epoch().function, batch)
            self.keys |= set(batch)
            self.visits += len(batch)

    def run(self) -> None:
        number, due = 0, time.monotonic()
        while not self.stopped.wait(max(0.0, due - time.monotonic())):
            due = max(due + self.period, time.monotonic())
            try:
                self.commit(number)
                number += 1
            except CONFLICTS:
                self.lost += 1
            except SPARK_ERRORS as error:
                if constraints.REFUSED not in str(error):
                    self.wrong = error
                    return
                self.lost += 1


@contextmanager
def beside(spark: SparkSession, home: Placed, period: float) -> Iterator[Writer]:
    """A writer commits while the block runs, and has committed once before it."""
    writer = Writer(spark.newSession(), home, period)
    thread = threading.Thread(target=writer.run)
    thread.start()
    try:
        while not writer.keys and thread.is_alive():
            time.sleep(0.1)
        yield writer
    finally:
        writer.stopped.set()
        thread.join()
    assert writer.wrong is None


def tries(told: str) -> int:
    """The most times that one commit has lost."""
    return max([0, *(int(n) for n in re.findall(r"another writer was first \((\d+) times", told))])


def assert_whole(spark: SparkSession, home: Placed, writer: Writer) -> None:
    """Every row that was committed is there once, with its visits, where the epoch puts it."""
    rows = home.rows(spark)
    assert set(rows) == {f"k{i}" for i in range(KEYS)} | writer.keys
    assert sum(v for _, v in rows.values()) == sum(range(KEYS)) + writer.visits
    epoch = home.table.epoch()
    assert [c for c, _ in rows.values()] == epoch.function.lookup(list(rows)).tolist()
    assert home.constraints(spark) == {constraints.epoch_name(epoch.number)}


@pytest.fixture
def hasty(spark: SparkSession) -> SparkSession:
    """A session whose commits give up after two minutes of lost races."""
    own = spark.newSession()
    own.conf.set(PATIENCE_SETTING, "120")
    return own


def forward(spark: SparkSession, migration: Migration) -> None:
    migrate(spark, migration)
    verify(spark, migration)
    assert publish(spark, migration).number == 1


def back(spark: SparkSession, migration: Migration) -> None:
    assert roll_back(spark, migration)["visits"] > 0


@pytest.mark.parametrize("period", [2.0, 0.5])
@pytest.mark.parametrize("way", [forward, back])
@pytest.mark.timeout(600)
def test_a_migration_beside_a_writer_ends_and_loses_nothing(
    spark: SparkSession,
    hasty: SparkSession,
    home: Placed,
    migration: Migration,
    way: Callable[[SparkSession, Migration], None],
    period: float,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if way is back:
        migrate(spark, migration)
    with beside(spark, home, period) as writer:
        way(hasty, migration)
    assert_whole(spark, home, writer)
    assert tries(capfd.readouterr().out) <= LOSSES + 1
