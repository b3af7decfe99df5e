"""Keys are forgotten where executors are processes of their own, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.tables.delta import state
from tests.chaos.cases import Case
from tests.chaos.jobs.flows import FORGOTTEN
from tests.chaos.sessions import Cluster
from tests.conftest import World
from tests.support.worlds.windows import day, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_files_with_hidden_rows_are_rewritten_on_executors(
    spark: SparkSession, ready: World, tmp_path: Path
) -> None:
    """Delta 4.4 purges by REORG on no executor: it looks there for a session."""
    apply_window(spark, ready.table, day(8), day(10))
    path = ready.table.spec.state["totals"].path
    assert not state.files(spark, path).where("deleted > 0").isEmpty()
    before = rows(spark, ready, "totals")
    cluster = Cluster(tmp_path / "cluster")
    try:
        # No point has this number: nothing happens to the step.
        cluster.run(Case(0, "executor", "whole", "", "forget", 10**6, "", "retry", 1), ready)
    finally:
        cluster.kill()
    assert state.files(spark, path).where("deleted > 0").isEmpty()
    assert rows(spark, ready, "totals").equals(before.drop(FORGOTTEN))
