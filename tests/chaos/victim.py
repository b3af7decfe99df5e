"""A process that is killed: it takes each of its cases as far as the case's point, and waits there.

Standard input is a JSON list of [folder of the table, step, number of the point, or null]. What
is killed in the middle of several tables' steps at once was, for each table, killed in the middle
of its own. The last case may have no point: it runs until the process is killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from tests.chaos.home import task
from tests.chaos.points import Fault, watched
from tests.chaos.sessions import start
from tests.conftest import World

#: Is there once the last case's step has ended.
ENDED = Path(os.environ.get("TMPDIR", ".")) / "ended"


def say(*words: object) -> None:
    print("victim:", *words, flush=True)


def main() -> None:
    """Tell of every case that it waits (or has ended, or failed), then wait for the end."""
    spark = start()
    say("ready")
    current: list[Callable[[str], None]] = [lambda label: None]
    with watched(lambda label: current[0](label)):
        for folder, step, at in json.loads(sys.stdin.readline()):
            arrived = threading.Event()

            def stay(arrived: threading.Event = arrived) -> None:
                arrived.set()
                threading.Event().wait()

            def run(world: World, step: str, spark: SparkSession, arrived: threading.Event) -> None:
                try:
                    task(spark, world, step)
                except BaseException:
                    # Nothing is wrong before the kill.
                    traceback.print_exc()
                    say("failed")
                else:
                    ENDED.touch()
                    say("ended")
                arrived.set()

            # A session each: what is lent to one that waits is not lent to the next.
            session, current[0] = spark.newSession(), Fault(at, stay)
            ENDED.unlink(missing_ok=True)
            if at is None:
                say("goes")
            arguments = (World(Path(folder)), step, session, arrived)
            threading.Thread(target=run, args=arguments, daemon=True).start()
            arrived.wait()
            say("waits")
        threading.Event().wait()


if __name__ == "__main__":
    main()
