"""Run every job from input to epoch 1 on tables of three sizes, with a driver of 2 GiB.

`python -m benchmarks.spark.at_scale` uses spark-submit and prints seconds, peak memory, and what
their
slopes mean for 10 TB. On one machine the driver's JVM is the executor, too, so 2 GiB hold
everything. The input is a week's stream by Zipf 0.5, with a fifth as many keys as rows. The plan
takes a fifth of the load off two channels of ten.

It is not part of a plain `make bench`, because the largest size takes a quarter of an hour.
`--grow` takes the smallest table with more of one thing at a time: channels, slots, state tables,
epochs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from evenkeel.pipeline import steps

RUN, END, JOBS = "scale", "2024-01-08", ("bootstrap", "learn", "migrate", "verify")
#: Bytes of an event, and of the input that is estimated for.
WIDTH, LARGE = 100, 10e12
STATE: dict[str, Any] = {
    "path": "state",
    "columns": {
        "visits": {"merge": "count"},
        "first": {"merge": "min", "of": "day"},
        "last": {"merge": "max", "of": "day"},
    },
}
SPEC: dict[str, Any] = {
    "table": "scale",
    "key": ["key"],
    "input": {"path": "events", "time": "day"},
    "window": 7,
    "state": {"visits": STATE},
    "registry": "registry",
    "channels": 10,
}
#: More of one thing, by its name.
MORE: dict[str, dict[str, Any]] = {
    "as it is": {},
    "100 channels": {"channels": 100},
    "1,000 channels": {"channels": 1000},
    "16,384 slots": {"slots": 16_384},
    "65,536 slots": {"slots": 65_536},
    "2 state tables": {"state": {f"visits{i}": {**STATE, "path": f"state{i}"} for i in range(2)}},
    "4 state tables": {"state": {f"visits{i}": {**STATE, "path": f"state{i}"} for i in range(4)}},
    "100 epochs": {"epochs": 100},
    "1,000 epochs": {"epochs": 1000},
}
#: A fifth of the channels get 0.8 of the others' load: some 4% of all moves.
PLAN = """
import sys
from evenkeel import open_table
from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
n = len(open_table(sys.argv[1]).epoch().function.channels)
weak = n // 5
params = Params(force=True, capacities=(1,) * (n - weak) + (0.8,) * weak, max_imbalance=1.01)
steps.decide(sys.argv[1], sys.argv[2], params)
steps.plan(sys.argv[1], sys.argv[2], params)
steps.validate_plan(sys.argv[1], sys.argv[2])
"""
#: Epochs like the first, the last of which the state table stands under.
EPOCHS = """
import sys
from dataclasses import replace
from evenkeel import open_table
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.runtime.session import session
table = open_table(sys.argv[1])
first = table.epoch()
for number in range(1, int(sys.argv[2])):
    parent = table.epoch().function.digest
    function = replace(first.function, epoch=number, parent=parent)
    table.registry.publish(function, first.tables)
spark, path = session("epochs"), first.tables["visits"].path
constraints.add(spark, path, constraints.epoch_name(number), constraints.rule(function))
spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT {constraints.epoch_name(0)}")
"""


class Took(NamedTuple):
    """Wall and CPU seconds of a process and its children, and the peak memory of one, in bytes."""

    wall: float
    cpu: float
    memory: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=float, default=1e8, help="rows of the largest table (%(default)g)"
    )
    parser.add_argument("--grow", action="store_true", help="all but rows and keys, one by one")
    options = parser.parse_args()
    print(f"{'rows':>12}{'keys':>12}  {'step':10}{'seconds':>9}{'CPU s':>8}{'peak MB':>9}")
    if options.grow:
        for what, more in MORE.items():
            print(what)
            with tempfile.TemporaryDirectory(prefix="evenkeel-scale-") as folder:
                walk(Path(folder), options.rows / 100, **more)
        return 0
    found: dict[float, dict[str, Took]] = {}
    for rows in (options.rows / 100, options.rows / 10, options.rows):
        with tempfile.TemporaryDirectory(prefix="evenkeel-scale-") as folder:
            found[rows] = walk(Path(folder), rows)
    (fewer, some), (more, most) = list(found.items())[-2:]
    print(f"\n10 TB of input, {LARGE / WIDTH:.0e} rows of {WIDTH} bytes: core hours by the slopes")
    for job in JOBS:
        slope = (most[job].cpu - some[job].cpu) / (more - fewer)
        print(f"  {job:10}{slope * LARGE / WIDTH / 3600:9,.0f}")
    return 0


def walk(folder: Path, rows: float, epochs: int = 1, **more: Any) -> dict[str, Took]:
    """Take one table from its input to one more epoch; print a line for each step.

    Parameters
    ----------
    epochs : number of epochs that exist before
    more : further fields of its spec
    """
    took: dict[str, Took] = {}

    def step(name: str, what: Callable[[], Took]) -> None:
        took[name] = what()
        wall, cpu, memory = took[name]
        line = f"{rows:>12,.0f}{rows / 5:>12,.0f}  {name:10}"
        print(f"{line}{wall:>9.1f}{cpu:>8.1f}{memory / 1e6:>9,.0f}", flush=True)

    made = ["--preset", "small", "--rows", f"{rows:.0f}", "--keys", f"{rows / 5:.0f}"]
    made += ["--zipf", "0.5", "--windows", "1", "--out", str(folder / "events")]
    step("generate", lambda: submitted("generate", *made))
    spec = folder / "scale.yaml"
    spec.write_text(yaml.safe_dump({**SPEC, **more}))
    step("bootstrap", lambda: submitted("bootstrap", "--spec", str(spec), "--end", END))
    if epochs > 1:
        step("epochs", lambda: measured(sys.executable, "-c", EPOCHS, str(spec), str(epochs)))
    step("learn", lambda: submitted("learn", "--spec", str(spec), "--run", RUN))
    step("plan", lambda: measured(sys.executable, "-c", PLAN, str(spec), RUN))
    digest = steps.read_plan(steps.open_run(str(spec), RUN)[2]).digest
    for job in ("migrate", "verify"):
        asked = ["--spec", str(spec), "--run", RUN, "--digest", digest]
        step(job, lambda job=job, asked=asked: submitted(job, *asked))
    assert steps.publish(str(spec), RUN) == epochs
    return took


def submitted(job: str, *arguments: str) -> Took:
    """Run one job by spark-submit, with a driver of 2 GiB."""
    file = Path(__file__).resolve().parents[2] / "spark_jobs" / f"{job}.py"
    return measured("spark-submit", "--driver-memory", "2g", str(file), *arguments)


def measured(*command: str) -> Took:
    """Measure a command that must succeed."""
    with tempfile.TemporaryFile("w+") as said:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            sys.stderr.write(said.read()[-5000:])
            raise SystemExit(process.returncode)
    return Took(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


if __name__ == "__main__":
    sys.exit(main())
