"""What happens to the table on each day, drawn from the seed, and each step of it.

A day is a list of steps with names. The diary on disk has the names of those that are done, so a
process that is killed anywhere is followed by one that goes on with the step it died in.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import approval, steps
from evenkeel.registry.store_errors import StoreError
from evenkeel.runs.params import Params
from evenkeel_spark.jobs import learn, migrate, roll_back, verify
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.maintain import maintain
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.delta.commits import CONFLICTS
from partitioning.errors import EvenkeelError
from partitioning.function.hashing import key_hash
from tests.chaos.home import STATEMENTS
from tests.chaos.points import Fault, Stop, watched
from tests.conftest import World
from tests.soak import calendar, size
from tests.soak.effects import add_effects, reason, too_few, unexplained
from tests.soak.stream import SPEC, WINDOW, content, difference, the_day, truth, write_day

_JOBS = {"learn": learn, "migrate": migrate, "verify": verify, "roll_back": roll_back}
_PIPELINE = ("learn", "decide", "plan", "validate_plan", "migrate", "verify", "publish")
#: Tasks whose failure Airflow answers by roll_back.
_MOVES = ("migrate", "verify", "publish")
#: A run back goes to the epoch so many before the newest.
_BACK = 3
#: Days of input that stay; those of a backup and of windows that are applied again are among them.
_INPUT_DAYS = 30

Step = tuple[str, Callable[[], None]]


@dataclass
class Life:
    """A table, its diary and the Spark session that its jobs use.

    Parameters
    ----------
    folder : of the table, the diary and the backup
    last : the day that is played is the last one, and ends with a comparison
    """

    folder: Path
    seed: int
    spark: SparkSession
    last: bool = False
    _refused: list[str] = field(default_factory=list)
    #: An earlier process was killed on this day.
    _killed: bool = False

    @property
    def world(self) -> World:
        return World(self.folder / "table")

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
        self._killed, diary["begun"] = diary.get("begun") == day, day
        self._write(diary)
        if undo:
            self._undo(diary)
        for name, do in self._steps(day):
            if name not in diary["done"]:
                do()
                diary["done"].append(name)
                add_effects(self.spark, self.world.table, diary)
                refused = Counter(diary.get("refused", {})) + Counter(self._refused)
                diary["refused"] = dict(refused)
                self._refused.clear()
                self._write(diary)
        few = too_few(diary, day + 1 - WINDOW) if self.last else None
        if few is not None:
            raise Different(few)
        epoch = self.world.table.epoch().number
        return {"epoch": epoch, "effects": diary["effects"], "refused": diary["refused"]}

    def _steps(self, day: int) -> Iterator[Step]:
        """The steps of a day, in order."""
        chance = partial(self._chance, day)
        if day == WINDOW:
            yield "bootstrap", self._bootstrap
        yield "window", lambda: self._window(day)
        if chance("late writer", 8):
            yield "late writer", self._late_writer
        if day % 3 == 0:
            yield from self._rebalance(day)
        if chance("back", 25):
            yield "back to an earlier epoch", lambda: self._back(day)
        if chance("left", 20):
            yield "left in the middle", lambda: self._left(day)
            yield "repair", self._repair
        if chance("two", 15):
            yield "two schedulers", lambda: self._two(day)
            yield "repair after both", self._repair
        if chance("RESTORE", 30):
            yield "RESTORE", lambda: self._restore(day)
            yield "windows again", lambda: self._windows_again(day)
        if day % 10 == 0:
            yield "maintain", self._maintain
            yield "backup", self._backup
        if chance("disaster", 50):
            yield "disaster", self._disaster
            yield "windows after it", lambda: self._windows_again(day)
        if day % 7 == 0 or self.last:
            yield "truth", lambda: self._compare(day)

    def _draw(self, day: int, what: str) -> random.Random:
        return random.Random(f"{self.seed} {day} {what}")

    def _chance(self, day: int, what: str, every: int) -> bool:
        """Whether it happens on this day: once in so many days, in the mean."""
        return self._draw(day, what).random() < 1 / every

    def _bootstrap(self) -> None:
        folder = self.world.folder
        folder.mkdir(parents=True, exist_ok=True)
        Path(self.world.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
        for day in range(WINDOW):
            write_day(folder / "events", self.seed, day)
        bootstrap(self.spark, self.world.table, the_day(WINDOW))

    def _window(self, day: int) -> None:
        events = self.world.folder / "events"
        write_day(events, self.seed, day)
        old = events / f"{the_day(max(0, day - _INPUT_DAYS))}.parquet"
        if day > _INPUT_DAYS:
            old.unlink(missing_ok=True)
        self._apply(day)

    def _apply(self, day: int) -> None:
        apply_window(self.spark, self.world.table, the_day(day), the_day(day + 1))

    def _rebalance(self, day: int) -> Iterator[Step]:
        """A run as its DAG has it, a step a task; now and then with other channels, a small batch
        or a person who refuses."""
        rng, run = self._draw(day, "rebalance"), f"day-{day}"
        kind, refused = rng.random(), rng.random() < 0.1
        params = Params(force=rng.random() < 0.5)
        if kind < 0.1:
            params = Params(force=True, channels=rng.choice([3, 4, 5, 6]))
        elif kind < 0.2:
            weights = [1.0] * len(self._channels())
            weights[rng.randrange(len(weights))] = rng.choice([0.0, 0.5])
            params = Params(force=True, capacities=tuple(weights))
        elif kind < 0.3:
            params = Params(force=True, batch=2_000)
        for task in _PIPELINE:
            yield f"{task}:{run}", lambda task=task: self._task(task, run, params, refused)

    def _channels(self) -> tuple[Any, ...]:
        return self.world.table.epoch().function.channels if self.folder.exists() else (0,) * 4

    def _task(self, task: str, run: str, params: Params, refused: bool = False) -> None:
        """One task, if the run has come to it and goes on; an error is answered by roll_back, as
        in the DAG."""
        folder = self.world.table.registry.run(run)
        if folder.exists("ended") or (refused and task in _MOVES):
            return
        try:
            self._run_task(task, run, params)
        except StoreError:
            raise
        except EvenkeelError as error:
            self._note(task, error, alone=not self._killed)
            if task in _MOVES:
                self._roll_back(run)
            folder.write("ended", b"")
        if task == "decide" and not folder.exists("ended"):
            decided = json.loads(folder.read("decision.json"))
            if not decided["rebalance"]:
                folder.write("ended", b"")
        if task == "validate_plan" and refused and folder.exists("plan.json"):
            approval.record(self.world.spec_path, run, False, "op", f"{the_day(0)}")

    def _note(self, task: str, error: EvenkeelError, alone: bool) -> None:
        """Count an error of a task.

        Raises
        ------
        Different : nothing that was done to the table explains it
        """
        self._refused.append(f"{task}: {reason(error)}")
        if unexplained(task, error, alone):
            raise Different(f"{task} failed, and nobody was in its way: {error}") from error

    def _run_task(self, task: str, run: str, params: Params, spark: Any = None) -> None:
        # A version that is dated by the machine's clock is too old to be read, days ahead of it.
        calendar.date_files(self.world.folder)
        job, spec = _JOBS.get(task), self.world.spec_path
        if job is not None:
            folder = self.world.table.registry.run(run)
            digest = None if task == "learn" else steps.read_plan(folder).digest
            asked = Namespace(run=run, digest=digest, end=None, relearn=None)
            job._body(spark or self.spark, self.world.table, asked)
        elif task in ("decide", "plan"):
            getattr(steps, task)(spec, run, params)
        else:
            getattr(steps, task)(spec, run)

    def _roll_back(self, run: str, spark: Any = None) -> None:
        """What the DAG does where a task failed; nothing where there is no plan."""
        folder = self.world.table.registry.run(run)
        if folder.exists("plan.json"):
            digest = steps.read_plan(folder).digest
            asked = Namespace(run=run, digest=digest, end=None, relearn=None)
            roll_back._body(spark or self.spark, self.world.table, asked)

    def _undo(self, diary: dict[str, Any]) -> None:
        """Roll back the run that the process before died in, if it is one, and end it."""
        done = set(diary["done"])
        for name, _ in self._steps(diary["day"]):
            task, _, run = name.partition(":")
            if name not in done:
                if task in _MOVES:
                    self._roll_back(run)
                    self.world.table.registry.run(run).write("ended", b"")
                return

    def _whole(self, run: str, params: Params, first: str = "learn", spark: Any = None) -> bool:
        """All tasks of a run in one go; whether it has published.

        With a session of its own it is one of two runs at once.
        """
        for task in _PIPELINE[_PIPELINE.index(first) :]:
            try:
                self._run_task(task, run, params, spark)
            except StoreError:
                raise
            except EvenkeelError as error:
                self._note(task, error, alone=spark is None and not self._killed)
                if task in _MOVES:
                    self._roll_back(run, spark)
                return False
        return True

    def _back(self, day: int) -> None:
        """Bring back the placement of an earlier epoch that is kept, under a new number."""
        run, numbers = f"back-{day}", self.world.table.registry.numbers()
        folder = self.world.table.registry.run(run)
        if not folder.exists("plan.json"):
            if len(numbers) < 2:
                return
            self._run_task("learn", run, Params())
            to = numbers[max(0, len(numbers) - _BACK)]
            if to == numbers[-1]:
                return
            steps.plan_rollback(self.world.spec_path, run, to)
        self._whole(run, Params(), "validate_plan")

    def _left(self, day: int) -> None:
        """A run that is left at some point, and nobody takes up."""
        run = f"left-{day}"
        fault = Fault(self._draw(day, "point").randrange(60), _stop)
        try:
            with watched(fault):
                self._whole(run, Params(force=True, capacities=_uneven(len(self._channels()))))
        except Stop:
            pass

    def _repair(self) -> None:
        repair(self.spark, self.world.table)

    def _two(self, day: int) -> None:
        """Two runs of the table at once, each with a plan of its own."""
        errors = list[BaseException]()

        def run(name: str, weights: tuple[float, ...]) -> None:
            try:
                if not self._whole(
                    name, Params(force=True, capacities=weights), spark=self.spark.newSession()
                ):
                    return
            except BaseException as error:
                errors.append(error)

        count = len(self._channels())
        both = [
            threading.Thread(target=run, args=(f"{name}-{day}", weights))
            for name, weights in (("one", _uneven(count)), ("two", _uneven(count)[::-1]))
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        for error in errors:
            # Whatever these have left is repaired; an error that names nothing to do is a bug.
            if not isinstance(error, (EvenkeelError, *CONFLICTS)):
                raise error
            self._refused.append(f"two schedulers: {type(error).__name__}")

    def _late_writer(self) -> None:
        """A writer that still routes by an earlier epoch: where a key has moved it is refused."""
        table = self.world.table
        numbers = table.registry.numbers()
        if len(numbers) < 2:
            return
        before, now = table.epoch(numbers[-2]).function, table.epoch().function
        path = table.spec.state["totals"].path
        rows = self.spark.read.format("delta").load(path).collect()
        hashes = key_hash([[row["dest"] for row in rows]], [c.type for c in now.key])
        old, new = before.lookup_hashes(hashes), now.lookup_hashes(hashes)
        moved = (
            (old != new) & ~np.isin(hashes, now.split.keys) & ~np.isin(hashes, before.split.keys)
        )
        for at in np.flatnonzero(moved)[:1]:
            key = rows[at]["dest"]
            late = (
                self.spark.read.format("delta")
                .load(path)
                .where(F.col("dest") == key)
                .withColumn(state.CHANNEL, F.lit(int(old[at])).cast("int"))
            )
            try:
                late.write.format("delta").mode("append").save(path)
            except STATEMENTS as error:
                if constraints.OURS not in str(error):
                    raise
            else:
                raise Different(f"{key} got in at channel {old[at]}; it lives on {new[at]}")

    def _restore(self, day: int) -> None:
        """RESTORE one state table, or both, to before the window of some days ago."""
        table, back = self.world.table, self._draw(day, "days back").randint(1, 3)
        names = list(table.spec.state)[: 1 + day % 2]
        for name in names:
            path = table.spec.state[name].path
            to = self._version_before(path, day + 1 - back, table.epoch().tables[name].version)
            if to is not None:
                self.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {to}")

    def _version_before(self, path: str, day: int, epoch: int) -> int | None:
        """The version just before the window of that day, if the epoch in force is as old."""
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
        for entry in history:
            meta = json.loads(entry["userMetadata"] or "{}")
            if meta.get("step") == "apply_window" and meta.get("start") == f"{the_day(day)}":
                before = int(entry["version"]) - 1
                return before if before >= epoch else None
        return None

    def _windows_again(self, day: int) -> None:
        """Apply what may be missing: a window that is in is passed over."""
        for earlier in range(max(WINDOW, day - _INPUT_DAYS + 2), day + 1):
            try:
                self._apply(earlier)
            except EvenkeelError as error:
                # It is in, with later ones.
                if "would count events twice" not in str(error):
                    raise

    def _maintain(self) -> None:
        """Compact, and remove what is older than `keep` days of the year's own clock."""
        calendar.date_files(self.world.folder)
        maintain(self.spark, self.world.table)
        wrong = size.above(self.world)
        if wrong is not None:
            raise Different(wrong)

    def _backup(self) -> None:
        """Copy state and registry while nobody writes."""
        kept, unfinished = self.folder / "backup", self.folder / "backup.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(self.world.folder, unfinished)
        shutil.rmtree(kept, ignore_errors=True)
        unfinished.rename(kept)

    def _disaster(self) -> None:
        """State and registry are lost; the backup of up to ten days ago takes their place."""
        kept = self.folder / "backup"
        if not kept.exists():
            return
        for part in ("state", "registry"):
            shutil.rmtree(self.world.folder / part, ignore_errors=True)
            shutil.copytree(kept / part, self.world.folder / part)
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def _compare(self, day: int) -> None:
        """Hold every state table against pandas."""
        wanted = truth(self.seed, day + 1)
        for name, part in self.world.table.spec.state.items():
            rows = self.spark.read.format("delta").load(part.path).collect()
            found = difference(content(rows), wanted[name])
            if found is not None:
                raise Different(f"day {day}, {name}: {found}")

    def _diary(self) -> dict[str, Any]:
        file = self.folder / "diary.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def _write(self, diary: dict[str, Any]) -> None:
        unfinished = self.folder / ".diary"
        unfinished.write_text(json.dumps(diary))
        unfinished.replace(self.folder / "diary.json")


class Different(AssertionError):
    """State is not what a fold of all events gives."""


def _uneven(count: int) -> tuple[float, ...]:
    return (0.5, *[1.0] * (count - 1))


def _stop() -> None:
    raise Stop
