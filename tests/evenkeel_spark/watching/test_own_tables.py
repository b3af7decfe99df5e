"""The watch on a table of a team, which is its own input: whole keys move."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel.pipeline import steps
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.watching import evaluate
from evenkeel_spark.watching.streaming import stream
from partitioning.errors import InputError
from tests.support.worlds.live import HOT, SPEC, Live

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def write(spark: SparkSession, live: Live, number: int) -> None:
    """Events of a micro-batch become rows of the table, where the current epoch has them."""
    rows = spark.read.parquet(str(live.folder / f"events/{number:04}.parquet"))
    if number:
        epoch = live.table.epoch()
        rows = rows.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route())
    rows.write.format("delta").mode("append").save(str(live.folder / "orders"))


def test_whole_keys_of_a_teams_own_table_move(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(tmp_path)
    own = {
        "input": {"path": "orders", "format": "delta", "time": "at"},
        "state": {"orders": {"path": "orders", "rows": "many"}},
    }
    spec = {name: value for name, value in SPEC.items() if name != "split"}
    Path(live.spec_path).write_text(yaml.safe_dump({**spec, **own}, sort_keys=False))
    write(spark, live.batch(0, 0.1), 0)
    adopt(spark, live.table)
    assert live.turn(spark, 0) is None
    pair = [HOT, live.twin]
    (home,) = set(live.table.epoch().lookup(pair).tolist())
    write(spark, live.hot_pair(1), 1)
    assert live.turn(spark, 1) == 1, live.known.outcome
    plan, epoch = steps.read_plan(live.table.registry.run("w1")), live.table.epoch()
    assert plan.bytes > 0 and len(epoch.function.split) == 0
    assert epoch.lookup(pair).tolist().count(home) == 1
    rows = spark.read.format("delta").load(str(tmp_path / "orders")).toPandas()
    assert (rows["channel"] == epoch.lookup(rows["dest"])).all()
    written = spark.read.parquet(str(tmp_path / "events")).toPandas()
    assert sorted(rows["id"]) == sorted(written["id"])
    with pytest.raises(InputError, match="no stream can read on after the first rows that move"):
        stream(spark, live.table, live.spec_path, str(tmp_path / "checkpoint"), available_now=True)
    # A look that decides says that the table was released, and does not wait for ever.
    release(spark, live.table)
    with pytest.raises(InputError, match="was released on"):
        evaluate._busy(spark, live.table, epoch, 10.0)
