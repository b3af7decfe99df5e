"""A process that goes on: its Spark has two executors, and in each of its cases it loses one, or
its clock and theirs are set.

Each line of standard input is JSON: [folder of the table, step, number of the point, the kind of
fault, and of "executor" the seconds from there, of "clock" by how many it is ahead]. The answer is
one line, too: "ok", or how the step ended, and whether it had ended before.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from threading import Timer

from pyspark.sql import SparkSession

from tests.chaos.faults.clock import set_ahead
from tests.chaos.home import task
from tests.chaos.points import Fault, watched
from tests.chaos.sessions import start
from tests.conftest import World

#: Spark's own cluster for its tests: a master and workers in the driver, executors outside.
TWO_EXECUTORS = {
    "spark.master": "local-cluster[2,1,512]",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def main() -> None:
    """Run each case as it is asked."""
    _move_home(Path(os.environ["SPARK_LOCAL_DIRS"]) / "home")
    spark = start(**TWO_EXECUTORS)
    for line in sys.stdin:
        folder, step, at, kind, seconds = json.loads(line)
        _await_both(spark)
        loss = Timer(seconds, lose)
        act = {
            "executor": loss.start if seconds else lose,
            "clock": lambda seconds=seconds: set_ahead(seconds),
        }
        try:
            fault = Fault(at, act[kind])
            with watched(fault):
                task(spark.newSession(), World(Path(folder)), step)
            end = "ok"
        except Exception:
            end = traceback.format_exc()
        if kind == "clock":
            set_ahead(0)
        met = len(fault.seen) > at
        if loss.is_alive():
            met = False
            loss.join()
        print("cluster:", json.dumps([end, met]), flush=True)


def lose() -> None:
    """Kill the older executor."""
    os.kill(executors()[0], signal.SIGKILL)


def executors() -> list[int]:
    """Processes of this session's executors, oldest first."""
    listed = subprocess.run(["ps", "-Awwo", "pid=,pgid=,args="], capture_output=True, text=True)
    found = (line.split(None, 2) for line in listed.stdout.splitlines())
    group = os.getpgid(0)
    return sorted(
        int(pid)
        for pid, pgid, args in found
        if int(pgid) == group and "CoarseGrainedExecutorBackend" in args
    )


def _await_both(spark: SparkSession) -> None:
    """Until there are two executors, which have told the driver so."""
    end = time.monotonic() + 60
    while len(executors()) < 2 or spark._jsc.sc().getExecutorMemoryStatus().size() < 3:
        assert time.monotonic() < end, "an executor that was lost is not replaced"
        time.sleep(0.1)


def _move_home(folder: Path) -> None:
    """Spark with a home elsewhere: workers put their executors' folders there."""
    folder.mkdir()
    for place in Path(os.environ["SPARK_HOME"]).iterdir():
        if place.name != "work":
            (folder / place.name).symlink_to(place)
    os.environ["SPARK_HOME"] = str(folder)


if __name__ == "__main__":
    main()
