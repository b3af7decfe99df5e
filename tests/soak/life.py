"""What happens to the table on each day, drawn from the seed, and each step of it.

A day is a list of steps with names. The diary on disk has the names of those that are done, so a
process that is killed anywhere is followed by one that goes on with the step it died in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.migration.repair import repair
from tests.soak import calendar
from tests.soak.accidents import Accidents
from tests.soak.asked import WINDOW
from tests.soak.changes import Changes
from tests.soak.effects import add_effects, too_few
from tests.soak.runs import Runs
from tests.soak.stream import INPUT_DAYS, the_day, write_day
from tests.soak.year import Different, Step, Year

#: Steps, and tasks of a run, whose jobs move rows.
MOVING = (
    *("migrate", "verify", "publish", "back to an earlier epoch", "left in the middle"),
    *("repair", "two schedulers", "repair after both"),
)


@dataclass
class Life(Year):
    """The days of a year.

    Parameters
    ----------
    last : the day that is played is the last one, and ends with a comparison
    """

    last: bool = False

    @cached_property
    def runs(self) -> Runs:
        """The runs of this table."""
        return Runs(self)

    @cached_property
    def accidents(self) -> Accidents:
        """What happens to this table beside its runs."""
        return Accidents(self)

    @cached_property
    def changes(self) -> Changes:
        """What people ask of this table beside its runs."""
        return Changes(self)

    def play(self, day: int, undo: bool) -> dict[str, Any]:
        """Do what is left of a day.

        Parameters
        ----------
        undo : a run that died in the middle of its migration is rolled back, not tried again

        Returns
        -------
        what the diary says: the epoch, what has happened so far, and what was refused
        """
        calendar.begin(self.world.folder, day)
        diary = self._diary()
        if diary.get("day") != day:
            diary = {**diary, "day": day, "done": []}
        self.killed, diary["begun"] = diary.get("begun") == day, day
        self._write(diary)
        if self.killed and self._died_in(diary).partition(":")[0] in MOVING:
            self.happened.append("kills of a job that moves rows")
        if undo:
            self._undo(diary)
        for name, do in self._steps(day):
            if name not in diary["done"]:
                do()
                diary["done"].append(name)
                add_effects(self.spark, self.world.table, diary)
                effects = Counter(diary["effects"]) + Counter(self.happened)
                diary["effects"] = dict(effects)
                self.happened.clear()
                refused = Counter(diary.get("refused", {})) + Counter(self.refused)
                diary["refused"] = dict(refused)
                self.refused.clear()
                self._write(diary)
        few = too_few(diary, day + 1 - WINDOW) if self.last else None
        if few is not None:
            raise Different(few)
        epoch = self.world.table.epoch().number
        return {"epoch": epoch, "effects": diary["effects"], "refused": diary["refused"]}

    def _steps(self, day: int) -> Iterator[Step]:
        """The steps of a day, in order."""
        chance = partial(self.chance, day)
        if day == WINDOW:
            yield "bootstrap", self._bootstrap
        yield "window", lambda: self._window(day)
        if chance("late writer", 8):
            yield "late writer", self.accidents.late_writer
        if day % 12 == 10:
            yield "another spec", lambda: self.changes.ask(day)
            yield "evolve", self.changes.evolve
        if day % 40 == 13:
            yield "forget", lambda: self.changes.forget_one(day)
        if day % 3 == 0:
            yield from self.runs.rebalance(day)
        elif chance("watch", 3):
            yield from self.runs.watch(day)
        yield from self._accidents(day, chance)
        if day % 7 == 0 or self.last:
            yield "truth", lambda: self.accidents.compare(day)

    def _accidents(self, day: int, chance: Callable[[str, int], bool]) -> Iterator[Step]:
        if chance("back", 25):
            yield "back to an earlier epoch", lambda: self.runs.back(day)
        if chance("left", 20):
            yield "left in the middle", lambda: self.runs.left(day)
            yield "repair", self._repair
        if chance("two", 15):
            yield "two schedulers", lambda: self.runs.two(day)
            yield "repair after both", self._repair
        if chance("RESTORE", 30):
            yield "RESTORE", lambda: self.accidents.restore(day)
            yield from self._as_before(day, "RESTORE")
        if day % 10 == 0:
            yield "maintain", self.accidents.maintain
            yield "gone", lambda: self.changes.check_gone(day)
            yield "backup", lambda: self.accidents.backup(day)
        if chance("disaster", 50):
            yield "disaster", lambda: self.accidents.disaster(day)
            yield from self._as_before(day, "disaster")

    def _as_before(self, day: int, after: str) -> Iterator[Step]:
        """What brings tables of before to today, after an accident."""
        yield f"evolve after {after}", self.changes.evolve
        yield f"windows after {after}", lambda: self.accidents.windows_again(day)
        yield f"forget after {after}", lambda: self.changes.forget_again(day)

    def _bootstrap(self) -> None:
        folder = self.world.folder
        folder.mkdir(parents=True, exist_ok=True)
        self.changes.write_spec()
        for day in range(WINDOW):
            write_day(folder / "events", self.seed, day, ())
        bootstrap(self.spark, self.world.table, the_day(WINDOW))

    def _window(self, day: int) -> None:
        events = self.world.folder / "events"
        write_day(events, self.seed, day, self.changes.asked.gone)
        old = events / f"{the_day(max(0, day - INPUT_DAYS))}.parquet"
        if day > INPUT_DAYS:
            old.unlink(missing_ok=True)
        self.accidents.apply(day)

    def _repair(self) -> None:
        repair(self.spark, self.world.table)

    def _undo(self, diary: dict[str, Any]) -> None:
        """Roll back the run that the process before died in, if it is one, and end it."""
        task, _, run = self._died_in(diary).partition(":")
        self.runs.undo(task, run)

    def _died_in(self, diary: dict[str, Any]) -> str:
        """Return the step that the process before died in; "": it had done all of the day."""
        return next((n for n, _ in self._steps(diary["day"]) if n not in diary["done"]), "")

    def _diary(self) -> dict[str, Any]:
        file = self.folder / "diary.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def _write(self, diary: dict[str, Any]) -> None:
        unfinished = self.folder / ".diary"
        unfinished.write_text(json.dumps(diary))
        unfinished.replace(self.folder / "diary.json")
