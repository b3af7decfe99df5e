"""The watch of a stream acts between its batches, and stops with it."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import uuid4

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.registry.store_errors import StoreError
from evenkeel_spark.jobs.watch import main
from evenkeel_spark.watching.micro_batch import measure_batch, since
from evenkeel_spark.watching.streaming import stream
from partitioning.errors import FenceError
from tests.support.worlds.live import CHANNELS, FAIR, FIRST, Live, ended

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_watch_of_a_stream(
    spark: SparkSession, live: Live, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.batch(2, 4.0).batch(3, 4.0)
    job = ["--spec", live.spec_path, "--stream", "--available-now", "--files", "1"]
    assert main(job) == 2
    assert "a stream needs a checkpoint folder" in capsys.readouterr().err
    job += ["--checkpoint", str(live.folder / "checkpoint")]

    def killed(*given: Any) -> None:
        raise RuntimeError("killed")

    def down(*given: Any) -> None:
        raise StoreError("cannot be written", "registry")

    with monkeypatch.context() as patch:
        # A store that is down is no reason to roll back, or to pass the micro-batch over.
        patch.setattr("evenkeel_spark.watching.streaming.verify", down)
        assert main(job) == StoreError.exit_code and live.table.epoch().number == 0
    with monkeypatch.context() as patch:
        patch.setattr("evenkeel.registry.files.run_files.EpochFiles.keep", killed)
        with pytest.raises(StreamingQueryException):
            main(job)
    # It had just published; started again, the epoch gets what it is to keep of its run.
    kept = live.table.registry.archive(1)
    assert live.table.epoch().number == 1 and not kept.exists("plan.json")
    assert main(job) == 0
    assert live.table.epoch().number == 1 and len(live.table.epoch().function.split) == 1
    for name in ("plan.json", "profile.npz", "decision.json", "watched.json", "report.html"):
        assert kept.exists(name), name
    assert live.known.watch.last == 2 and len(live.known.source) == len(f"stream {uuid4()}")
    # Events of a split key without an id are all one channel's, and count there.
    live.batch(4, 4.0, id=lambda rows: pd.array([pd.NA] * len(rows), dtype="Int64"))
    spec, function = live.table.spec, live.table.epoch().function
    events = since(spark, live.table, FIRST + 3, ended(4))
    (measured,) = measure_batch(events, spec, function, F.lit(4))
    assert measured.loads.tolist() == live.loads(spark, 4)
    assert sorted(measured.loads.tolist()) == [FAIR] * (CHANNELS - 1) + [5 * FAIR]


def test_a_stream_that_was_killed_ends_its_move_whatever_the_spec_says_by_now(
    spark: SparkSession, live: Live, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.batch(2, 4.0).batch(3, 4.0)
    job = ["--spec", live.spec_path, "--stream", "--available-now", "--files", "1"]
    job += ["--checkpoint", str(live.folder / "checkpoint")]

    def killed(*given: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.watching.streaming.verify", killed)
        with pytest.raises(StreamingQueryException):
            main(job)
    (run,) = live.table.registry.files.moving_runs()
    state = live.table.spec.state["totals"].model_dump(exclude_unset=True)
    # A plan for other state tables goes neither forward nor back: the stream says so, and waits.
    live.respec(state={"renamed": state})
    assert main(job) == 2
    assert "Set the state tables of the spec back" in capsys.readouterr().err
    assert live.table.epoch().number == 0
    # A new plan would have to be approved. This one passed before its rows moved.
    live.respec(state={"totals": state}, approve_over=0)
    assert main(job) == 0
    assert live.table.epoch().number == 1 and live.known.watch.last == 2
    assert find_half_moved(live.table.registry, live.table.registry.run(run)) is None


def test_a_stream_passes_no_batch_over_whose_rows_cannot_go_back(
    spark: SparkSession, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.batch(2, 4.0).batch(3, 4.0)
    job = ["--spec", live.spec_path, "--stream", "--available-now", "--files", "1"]
    job += ["--checkpoint", str(live.folder / "checkpoint")]

    def refused(*given: Any) -> None:
        raise FenceError("other writers changed the table at each try", "totals", "Run it again")

    with monkeypatch.context() as patch:
        for step in ("verify", "roll_back"):
            patch.setattr(f"evenkeel_spark.watching.streaming.{step}", refused)
        assert main(job) == FenceError.exit_code
    (run,) = live.table.registry.files.moving_runs()
    assert find_half_moved(live.table.registry, live.table.registry.run(run)) is not None
    assert main(job) == 0
    assert live.table.epoch().number == 1 and live.known.watch.last == 2


def test_a_stream_goes_on_when_split_has_left_the_spec(spark: SparkSession, live: Live) -> None:
    """Keys are split still, so rows are routed by their column."""
    job = ["--spec", live.spec_path, "--stream", "--available-now", "--files", "1"]
    job += ["--checkpoint", str(live.folder / "checkpoint")]
    live.batch(2, 4.0).batch(3, 4.0)
    assert main(job) == 0 and len(live.table.epoch().function.split) == 1
    live.batch(4, 4.0).respec(split=None)
    assert main(job) == 0
    assert live.known.watch.last == 3


def test_a_stream_of_csv_has_its_columns_by_their_header(
    spark: SparkSession, live: Live, capsys: Any
) -> None:
    (live.folder / "csv").mkdir()
    for file in sorted((live.batch(2, 4.0).batch(3, 4.0).folder / "events").glob("*.parquet")):
        rows = pd.read_parquet(file)[["miles", "at", "id", "dest"]]
        rows.to_csv(live.folder / f"csv/{file.stem}.csv", index=False)
    live.respec(input={"path": "csv", "format": "csv", "time": "at"})
    job = ["--spec", live.spec_path, "--stream", "--available-now", "--files", "1"]
    job += ["--checkpoint", str(live.folder / "checkpoint")]
    assert main(job) == 0 and len(live.table.epoch().function.split) == 1
    (live.folder / "csv/0004.csv").write_text("at,miles,id,dest\n2013-01-01T00:21:00Z,1,2,D1\n")
    assert main(job) == 2
    assert "csv/0004.csv: its header is not that of the other files" in capsys.readouterr().err


def test_a_stream_goes_on_until_it_is_stopped(spark: SparkSession, live: Live) -> None:
    """It looks at what is there at once, and then every `watch.every` minutes."""
    ended_well = threading.Event()

    def run() -> None:
        stream(spark, live.table, live.spec_path, str(live.folder / "checkpoint"))
        ended_well.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    end = time.monotonic() + 120
    while not live.known.source.startswith("stream "):
        assert thread.is_alive() and time.monotonic() < end
        time.sleep(0.1)
    (query,) = spark.streams.active
    assert thread.is_alive() and query.isActive
    query.stop()
    thread.join(60)
    assert ended_well.is_set() and not spark.streams.active
