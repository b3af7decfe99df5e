"""Run every benchmark, one after another, each in a process of its own: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ALL = (
    "gedik_default",
    "frontier_scale",
    "own_bytes",
    "routing",
    "learn",
    "incremental",
    "migrate",
    "constraint",
    "skewed_job",
    "reading",
    "watch_effect",
    "airflow_overhead",
    "dag_start",
)
#: Takes so long that it is run by name alone.
LONG = ("at_scale", "unseen")


def module_of(name: str) -> str:
    """Dotted name of a benchmark's module, whichever room it is in."""
    home = Path(__file__).parent
    (file,) = (f for f in home.glob(f"*/{name}.py") if f.parent.name != "papers")
    return f"benchmarks.{file.parent.name}.{name}"


def main() -> int:
    """Run the named benchmarks, or all but the long ones; return non-zero if one failed to run."""
    wanted = sys.argv[1:] or ALL
    if unknown := set(wanted) - {*ALL, *LONG}:
        sys.stderr.write(
            f"evenkeel: error: no benchmark {sorted(unknown)}. There are: {', '.join(ALL + LONG)}\n"
        )
        return 2
    codes = []
    for name in wanted:
        print(f"== {name}", flush=True)
        codes.append(subprocess.call([sys.executable, "-m", module_of(name)]))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
