"""`make soak`: a year of a table's life in one go, held against pandas every week.

make soak                                  # 365 days of seed 0; goes on where it was stopped
make soak ARGS='--days 60 --seed 3'        # a shorter one, of another seed
make soak ARGS='--fresh'                   # begin anew
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from pathlib import Path
from threading import Event, Timer
from typing import Any

from tests.chaos.faults.clock import NoCompiler, clock
from tests.chaos.sessions import ROOT, Apart
from tests.soak.asked import WINDOW

#: One day in so many its process is killed, at any moment of it: the days before tell how long one
#: takes.
KILLED = 12


class Worker(Apart):
    """The process with Spark."""

    MODULE = "tests.soak.worker"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # The small set-up of this checkout interprets queries, which is faster on few rows.
        small = {"SPARK_CONF_DIR": str(ROOT / ".jars/small")}
        super().__init__(folder, **clock(folder), **small)

    def play(self, *asked: Any, kill_after: float | None = None) -> dict[str, Any] | None:
        """Play one day; None: it was killed before it had ended."""
        killed = Event()

        def kill() -> None:
            killed.set()
            self.kill()

        killer = Timer(kill_after or 0.0, kill)
        if kill_after is not None:
            killer.start()
        try:
            return dict(self._answer(self._ask(list(asked)), "soak: "))
        except (AssertionError, ValueError):
            # One that ended by itself is a fault of ours, also on a day with a kill.
            if not killed.is_set():
                raise
            return None
        finally:
            killer.cancel()
            if killer.ident is not None:
                killer.join()


def main() -> int:
    """Play the days; returns 1 at the first difference, or where a day cannot go on."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--days", type=int, default=365, help="(default: %(default)s)")
    options.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    options.add_argument("--folder", type=Path, default=Path(".run/soak"))
    options.add_argument("--fresh", action="store_true", help="forget an earlier part of it")
    asked = options.parse_args()
    folder = (asked.folder / str(asked.seed)).resolve()
    if asked.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _play(folder, asked.seed, asked.days)
    except NoCompiler:
        sys.stderr.write("evenkeel: error: to set a clock takes a C compiler: install gcc\n")
        return 2


def _play(folder: Path, seed: int, days: int) -> int:
    file, began, length = folder / "progress.json", time.monotonic(), 10.0
    # Days played before count, too: [the next day, kills, the last answer].
    first, kills, found = json.loads(file.read_text()) if file.exists() else (WINDOW, 0, {})
    if first >= days:
        print(f"{first} days were played before; nothing is played now")
    worker = Worker(folder / "spark") if first < days else None
    try:
        for day in range(first, days):
            rng = random.Random(f"{seed} {day} kill")
            after = rng.uniform(0.0, length) if day > WINDOW and rng.random() < 1 / KILLED else None
            at, asked = time.monotonic(), (str(folder), seed, day, day == days - 1)
            answer = worker.play(*asked, False, kill_after=after)
            if answer is None:
                kills += 1
                worker = Worker(folder / "spark")
                answer = worker.play(*asked, rng.random() < 0.5)
            elif day > first:
                length = 0.7 * length + 0.3 * (time.monotonic() - at)
            assert answer is not None
            if wrong := answer.get("different") or answer.get("stuck"):
                print(f"day {day} of seed {seed}: {wrong}")
                print(f"Look at {folder}; again: make soak ARGS='--seed {seed}'")
                return 1
            found = answer
            file.write_text(json.dumps([day + 1, kills, found]))
            if day % 7 == 0:
                print(_line(folder, day, kills, found, began), flush=True)
    finally:
        if worker is not None:
            worker.kill()
    print(_line(folder, max(first, days) - 1, kills, found, began))
    for title in ("effects", "refused"):
        print(f"{title}:")
        for what, count in sorted(found[title].items()):
            print(f"  {count:9,}  {what}")
    print(f"{max(first, days)} days of seed {seed}: 0 differences, {kills} kills")
    return 0


def _line(folder: Path, day: int, kills: int, found: dict[str, Any], began: float) -> str:
    sizes = [
        f"{what} {_megabytes(folder / 'table' / what):.1f} MB" for what in ("registry", "state")
    ]
    published = found["effects"].get("epochs published", 0)
    return (
        f"day {day:4}  epoch {found['epoch']:4}  {published} published  {kills} kills  "
        f"{', '.join(sizes)}  {time.monotonic() - began:.0f} s"
    )


def _megabytes(folder: Path) -> float:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6


if __name__ == "__main__":
    sys.exit(main())
