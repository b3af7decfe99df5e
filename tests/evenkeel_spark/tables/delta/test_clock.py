"""A clock that is ahead of the store's: files of a write under way would look old."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.jobs import maintain as job
from evenkeel_spark.jobs.maintain import maintain
from tests.support.placed import placed

pytestmark = pytest.mark.spark


def test_a_clock_ahead_of_the_stores_removes_no_file(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = placed(spark, tmp_path)
    written = Path(home.path()) / "channel=0" / "part-of-a-write.parquet"
    written.write_bytes(b"")
    os.utime(written, (time.time() - 40 * 86_400,) * 2)
    with monkeypatch.context() as patch:
        ahead = SimpleNamespace(time=lambda: time.time() + 20 * 3600)
        patch.setattr(job, "time", ahead)
        maintain(spark, home.table)
    assert "this machine's clock is 20 hours ahead of the store's" in capsys.readouterr().out
    assert written.exists()
    maintain(spark, home.table)
    assert not written.exists()
