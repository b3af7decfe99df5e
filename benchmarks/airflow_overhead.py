"""What Airflow takes of a run: its time less that of Spark and planning.
`python -m benchmarks.airflow_overhead`.

A replay of the flights, of one table (it replaces what `make run` has left of it), says how long
each step of a rebalance took, and how long Airflow took to come to the first. Spark's are the steps
that submit a job; gates, approval, publishing and the report count as overhead.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys

SPARK, PLANNING = ("learn", "migrate", "verify"), ("decide", "plan")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    command = [sys.executable, "-m", "evenkeel.replay", "--tables", "flights"]
    done = subprocess.run(
        [*command, "--rounds", str(options.rounds)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.stderr.write(done.stderr)
        return done.returncode
    steps: dict[str, dict[str, float]] = {}
    for number, step, took in re.findall(
        r"round (\d+)/\d+  (\w+) +([\d.]+) s", done.stdout + done.stderr
    ):
        steps.setdefault(number, {})[step] = float(took)
    print("seconds of each round")
    for step in next(iter(steps.values())):
        print(f"  {step:14}" + "".join(f"{each.get(step, 0.0):8.1f}" for each in steps.values()))
    over = [
        sum(s for step, s in each.items() if step not in (*SPARK, *PLANNING, "apply_window"))
        for each in steps.values()
    ]
    print(f"overhead: median {statistics.median(over):.1f} s of {len(over)} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
