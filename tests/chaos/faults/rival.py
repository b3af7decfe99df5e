"""A process that goes on: another run of the same tables, with another plan and a Spark of its own.

Each line of standard input is JSON: the folder of a table. The answer is one line, too: "ok", or
how the run ended that should have published, or given way and rolled itself back.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

from tests.chaos.home import RIVAL, dag
from tests.chaos.sessions import start
from tests.conftest import World


def main() -> None:
    """Do all that a second run can, in each table."""
    spark = start()
    for line in sys.stdin:
        world = World(Path(json.loads(line)))
        planned = world.table.registry.run(RIVAL).exists("plan.json")
        try:
            dag(spark.newSession(), world, "migrate" if planned else "learn", RIVAL)
            end = "ok"
        except Exception:
            end = traceback.format_exc()
        print("rival:", json.dumps(end), flush=True)


if __name__ == "__main__":
    main()
