"""Run every benchmark, one after another, each in a process of its own: `make bench`."""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from pathlib import Path

ALL = (
    "gedik_default",
    "frontier_scale",
    "own_bytes",
    "plan_speed",
    "lp_time",
    "routing",
    "learn",
    "incremental",
    "migrate",
    "under_fire",
    "constraint",
    "adopt",
    "iceberg",
    "iceberg_state",
    "skewed_job",
    "skewed_join",
    "reading",
    "watch_effect",
    "airflow_overhead",
    "dag_start",
    "overview",
)
#: Takes so long that it is run by name alone.
LONG = ("at_scale", "unseen", "competitive", "leaderboard")
#: A ratio as `benchmarks.spark.pairs` prints it.
RATIO = re.compile(r"; ratio ([\d.]+) \(of ")


def module_of(name: str) -> str:
    """Dotted name of a benchmark's module, whichever room it is in."""
    home = Path(__file__).parent
    (file,) = (f for f in home.glob(f"*/{name}.py") if f.parent.name != "papers")
    return f"benchmarks.{file.parent.name}.{name}"


def run(name: str, times: int) -> int:
    """Run one benchmark so many times, each in a process of its own; return the worst exit code.

    Several runs end with the median of each ratio that they print, and its spread between runs.
    """
    ratios: dict[str, list[float]] = {}
    codes = []
    for _ in range(times):
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", module_of(name)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                print(line, end="", flush=True)
                if found := RATIO.search(line):
                    ratios.setdefault(line.split(": ")[0], []).append(float(found[1]))
        codes.append(process.returncode)
    for what, found in ratios.items() if times > 1 else ():
        print(
            f"{what}: median of {len(found)} runs {statistics.median(found):.3f} "
            f"({min(found):.3f} to {max(found):.3f})",
            flush=True,
        )
    return max(codes)


def main() -> int:
    """Run the named benchmarks, or all but the long ones; return non-zero if one failed to run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL + LONG))
    parser.add_argument("--times", type=int, default=1, help="how often to run each")
    options = parser.parse_args()
    if unknown := set(options.names) - {*ALL, *LONG}:
        sys.stderr.write(
            f"evenkeel: error: no benchmark {sorted(unknown)}. There are: {', '.join(ALL + LONG)}\n"
        )
        return 2
    return max(run(name, options.times) for name in options.names or ALL)


if __name__ == "__main__":
    sys.exit(main())
