"""Measure Airflow's part of a run: its time less Spark and planning.

`python -m benchmarks.pipeline.airflow_overhead` triggers rebalances of the flights in an Airflow
of four processes, like that of `make up`, in a folder of its own. It prints Airflow's own times of
runs and tasks. Overhead is the time before the first task and between tasks, and that of gates,
approval, publishing and the report.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from evenkeel.demo.airflow.client import Api
from evenkeel.demo.replay import UP
from evenkeel.local_env import ROOT

SPARK, PLANNING = ("learn", "migrate", "verify"), ("decide", "plan")
#: Seconds that Airflow may take to start, and a run to end.
PATIENCE = 900


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = triggered(parser.parse_args().runs)
    print("seconds of each run")
    for step in runs[0]:
        print(f"  {step:14}" + "".join(f"{each.get(step, 0.0):8.1f}" for each in runs))
    over = [sum(s for step, s in each.items() if step not in (*SPARK, *PLANNING)) for each in runs]
    print(f"overhead: median {statistics.median(over):.1f} s of {len(over)} runs")
    # Spark stays up: the first run still loads and compiles its classes.
    whole = [sum(each.values()) for each in runs]
    later = statistics.median(whole[1:] or whole)
    print(f"from trigger to report: {whole[0]:.1f} s, then {later:.1f} s in the median")
    return 0


def triggered(runs: int) -> list[dict[str, float]]:
    """Trigger so many runs; return the seconds of each run's tasks and of the gaps between them."""
    with tempfile.TemporaryDirectory() as folder:
        # The spec names what is beside its folder.
        specs, made = Path(folder) / "tables", Path(folder) / ".run"
        specs.mkdir()
        shutil.copy(ROOT / "tables" / "flights.yaml", specs)
        up = [sys.executable, "-m", "evenkeel.demo.airflow.up", "--no-look", "--folder", str(made)]
        env = {**os.environ, "EVENKEEL_TABLES": str(specs)}
        with subprocess.Popen(up, env=env, stdout=subprocess.DEVNULL) as server:
            try:
                told = _told(server, made / UP)
                api = Api(told["url"], told["user"], told["password"])
                return [_run(api, "rebalance_flights") for _ in range(runs)]
            finally:
                server.send_signal(signal.SIGINT)


def _told(server: subprocess.Popen[bytes], file: Path) -> dict[str, str]:
    """Return the access data of Airflow as soon as it is up."""
    end = time.monotonic() + PATIENCE
    while not file.exists():
        if server.poll() is not None or time.monotonic() > end:
            raise SystemExit("Airflow did not start: see what it said")
        time.sleep(1)
    return dict(json.loads(file.read_text()))


def _run(api: Api, dag: str) -> dict[str, float]:
    run = api.trigger(dag, force=True)
    if (state := api.wait(dag, run, PATIENCE)) != "success":
        raise SystemExit(f"{dag} {run}: {state}")
    of = f"/api/v2/dags/{dag}/dagRuns/{run}"
    tasks = api.get(f"{of}/taskInstances")["task_instances"]
    ran = sorted((t for t in tasks if t["start_date"] and t["duration"]), key=_start)
    steps = {t["task_id"]: float(t["duration"]) for t in ran}
    whole = api.get(of)
    took = (_when(whole["end_date"]) - _when(whole["queued_at"])).total_seconds()
    return {"between": took - sum(steps.values()), **steps}


def _start(task: dict[str, Any]) -> datetime:
    return _when(task["start_date"])


def _when(said: str) -> datetime:
    return datetime.fromisoformat(said)


if __name__ == "__main__":
    sys.exit(main())
