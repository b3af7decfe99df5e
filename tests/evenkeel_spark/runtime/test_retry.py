"""Lost races: a commit is tried again for a time, and then the error tells what to do."""

from __future__ import annotations

import math

import delta.exceptions
import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.runtime.retry import PATIENCE_SETTING, patience, retry_on_conflict
from partitioning.errors import FenceError, InputError

pytestmark = pytest.mark.spark


def test_lost_races_are_tried_again_and_then_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    lost: list[int] = []

    def lose(times: int) -> str:
        if len(lost) < times:
            lost.append(1)
            raise delta.exceptions.ConcurrentAppendException("files were added")
        return "done"

    # A writer that commits every second wins more than once or twice.
    assert retry_on_conflict(spark, lambda: lose(9), "visits") == "done"
    lost.clear()
    hasty = spark.newSession()
    hasty.conf.set(PATIENCE_SETTING, "0")
    with pytest.raises(FenceError, match=f"were first 1 times in .* raise {PATIENCE_SETTING}"):
        retry_on_conflict(hasty, lambda: lose(9), "visits")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("600", 600), ("0.5 H", 1800), ("500ms", 0.5), ("", 600), ("inf", math.inf)],
)
def test_patience_is_seconds_or_a_time_as_spark_writes_it(
    text: str, seconds: float, spark: SparkSession
) -> None:
    session = spark.newSession()
    session.conf.set(PATIENCE_SETTING, text)
    assert patience(session) == seconds


@pytest.mark.parametrize("text", ["soon", "30 moons", "-1", "nan"])
def test_a_wrong_patience_is_named_before_a_commit(text: str, spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set(PATIENCE_SETTING, text)
    said = f"{PATIENCE_SETTING}: expected seconds, .* such as 30m, got '{text}'"
    with pytest.raises(InputError, match=said):
        retry_on_conflict(session, lambda: pytest.fail("a commit was tried"), "visits")
