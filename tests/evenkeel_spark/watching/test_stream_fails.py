"""A stream whose migration fails by Spark, and whose spec changes while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.watching import streaming
from evenkeel_spark.watching.streaming import carry_out
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.live import Live

pytestmark = pytest.mark.spark


def test_rows_go_back_whatever_spark_fails_by(
    spark: SparkSession, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stayed half moved for as long as the cause lasted: a stream has no other way back."""
    live.batch(2, 4.0)
    live.apply(spark, 0, 2)
    assert live.look(spark, 2)

    def fails(*_: object) -> None:
        raise SparkRuntimeException("No space left on device")

    run = live.table.registry.run("w2")
    with monkeypatch.context() as patch:
        patch.setattr(streaming, "verify", fails)
        with pytest.raises(SparkRuntimeException, match="No space left"):
            carry_out(spark, live.table, live.spec_path, run.name)
    assert find_half_moved(live.table.registry, run) is None
    for part in live.table.spec.state.values():
        assert list(constraints.of(spark, part.path)) == ["evenkeel_epoch_0"]
    # The same batch again makes a new attempt, once the cause is gone.
    assert carry_out(spark, live.table, live.spec_path, run.name) == 1


def test_a_stream_goes_by_the_spec_of_now(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    table, path = world.table, Path(world.spec_path)
    assert streaming._as_of_now(table, world.spec_path) is table
    world.respec(trigger=1.7)
    assert streaming._as_of_now(table, world.spec_path).spec.trigger == 1.7
    whole = path.read_text()
    path.write_text("half a sp")
    assert streaming._as_of_now(table, world.spec_path) is table
    assert "goes on by the spec of before: " in capsys.readouterr().out
    path.write_text(whole)
    world.respec(registry="elsewhere")
    with pytest.raises(InputError, match="another registry since the stream began"):
        streaming._as_of_now(table, world.spec_path)
