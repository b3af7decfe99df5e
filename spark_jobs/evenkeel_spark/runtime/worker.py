"""A worker that runs several jobs in one session, one after the other.

Starting Spark costs more than a small job does. Each line of standard input is a JSON list: a
job's name and its arguments. After each job it prints a line `evenkeel: exit CODE`.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable


def main(lines: Iterable[str]) -> int:
    """Run the job of each line. An unexpected exception ends the process, as it ends a job's."""
    for line in lines:
        job, *arguments = json.loads(line)
        try:
            code = importlib.import_module(f"evenkeel_spark.jobs.{job}").main(arguments)
        except SystemExit as ended:
            code = ended.code
        sys.stderr.flush()
        print(f"evenkeel: exit {code}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.stdin))
