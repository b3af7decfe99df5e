"""Runs of the pipeline as the days of a year have them: whole, refused, left, two at once, back."""

from __future__ import annotations

import json
import threading
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

from evenkeel.pipeline import approval, steps
from evenkeel.registry.store_errors import StoreError
from evenkeel.spec.run_params import Params
from evenkeel_spark.jobs import learn, migrate, roll_back, verify
from evenkeel_spark.jobs.watch import watch
from evenkeel_spark.tables.delta.constraints import is_sealed
from evenkeel_spark.tables.spark_errors import CONFLICTS
from partitioning.errors import EvenkeelError
from tests.chaos.points import stopped
from tests.soak import calendar
from tests.soak.effects import reason, unexplained
from tests.soak.stream import the_day
from tests.soak.year import Different, Step, Year

_JOBS = {"learn": learn, "migrate": migrate, "verify": verify, "roll_back": roll_back}
_PIPELINE = ("learn", "decide", "plan", "validate_plan", "approve", "migrate", "verify", "publish")
#: Tasks whose failure Airflow answers by roll_back.
_MOVES = ("migrate", "verify", "publish")
#: Points of a whole run at which it may be left: some are before a row moves, some after the last.
_POINTS = 130
#: A run back goes to the epoch so many before the newest.
_BACK = 3


@dataclass(frozen=True)
class Runs:
    """Runs of the year's table."""

    year: Year

    def rebalance(self, day: int) -> Iterator[Step]:
        """A run as its DAG has it, a step a task; now and then with other channels, a small batch
        or a person who refuses."""
        rng, run = self.year.draw(day, "rebalance"), f"day-{day}"
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
            yield f"{task}:{run}", lambda task=task: self.task(task, run, params, refused)

    def watch(self, day: int) -> Iterator[Step]:
        """A look within the day, and the run that meets what it finds."""
        run, table = f"watch-{day}", self.year.world.table
        until = datetime.combine(the_day(day + 1), time(), UTC)
        yield f"watch:{run}", lambda: watch(self.year.spark, table, run, until)
        for task in ("plan_watch", *_PIPELINE[_PIPELINE.index("validate_plan") :]):
            yield f"{task}:{run}", lambda task=task: self.task(task, run, Params())

    def _channels(self) -> tuple[Any, ...]:
        if not self.year.folder.exists():
            return (0,) * 4
        return self.year.world.table.epoch().function.channels

    def task(self, task: str, run: str, params: Params, refused: bool = False) -> None:
        """One task, if the run has come to it and goes on; an error is answered by roll_back, as
        in the DAG."""
        folder = self.year.world.table.registry.run(run)
        if folder.exists("ended"):
            return
        try:
            if task != "approve":
                self._run_task(task, run, params)
            elif not self._approved(run, not refused):
                folder.write("ended", b"")
        except StoreError:
            raise
        except EvenkeelError as error:
            self._note(task, error, alone=not self.year.killed)
            if task in _MOVES:
                self._roll_back(run)
            folder.write("ended", b"")
        if task == "decide" and not folder.exists("ended"):
            decided = json.loads(folder.read("decision.json"))
            if not decided["rebalance"]:
                folder.write("ended", b"")
        if task == "plan_watch" and not folder.exists("plan.json"):
            folder.write("ended", b"")
        if task == "publish" and run.startswith("watch") and not folder.exists("ended"):
            self.year.happened.append("epochs of the watch")

    def _approved(self, run: str, answer: bool) -> bool:
        """Ask a person if the plan moves more than the spec lets pass; return what counts then."""
        spec, folder = self.year.world.spec_path, self.year.world.table.registry.run(run)
        if (asked := approval.request(spec, run)) is None:
            return True
        approval.ask(spec, run, asked.digest)
        approval.record(spec, run, answer, "op", datetime.now(UTC).isoformat(), asked=True)
        answered = folder.approval.read()
        kind = "approved" if answered.approved else "refused"
        self.year.happened.append(f"plans {kind} by a person")
        return answered.approved

    def _note(self, task: str, error: EvenkeelError, alone: bool) -> None:
        """Count an error of a task.

        Raises
        ------
        Different : nothing that was done to the table explains it
        """
        self.year.refused.append(f"{task}: {reason(error)}")
        if unexplained(task, error, alone):
            raise Different(f"{task} failed, and nobody was in its way: {error}") from error

    def _run_task(self, task: str, run: str, params: Params, spark: Any = None) -> None:
        # A version that is dated by the machine's clock is too old to be read, days ahead of it.
        calendar.date_files(self.year.world.folder)
        job, spec = _JOBS.get(task), self.year.world.spec_path
        if job is not None:
            folder = self.year.world.table.registry.run(run)
            digest = None if task == "learn" else steps.read_plan(folder).digest
            asked = Namespace(run=run, digest=digest, end=None, relearn=None)
            job._body(spark or self.year.spark, self.year.world.table, asked)
        elif task == "approve":
            self._approved(run, True)
        elif task in ("decide", "plan"):
            getattr(steps, task)(spec, run, params)
        else:
            getattr(steps, task)(spec, run)

    def _roll_back(self, run: str, spark: Any = None) -> None:
        """What the DAG does where a task failed; nothing where there is no plan."""
        folder = self.year.world.table.registry.run(run)
        if folder.exists("plan.json"):
            digest = steps.read_plan(folder).digest
            asked = Namespace(run=run, digest=digest, end=None, relearn=None)
            roll_back._body(spark or self.year.spark, self.year.world.table, asked)

    def undo(self, task: str, run: str) -> None:
        """Roll back a run that died in a task which moves rows, and end it."""
        if task in _MOVES:
            self._roll_back(run)
            self.year.world.table.registry.run(run).write("ended", b"")

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
                self._note(task, error, alone=spark is None and not self.year.killed)
                if task in _MOVES:
                    self._roll_back(run, spark)
                return False
        return True

    def back(self, day: int) -> None:
        """Bring back the placement of an earlier epoch that is kept, under a new number."""
        run, numbers = f"back-{day}", self.year.world.table.registry.numbers()
        folder = self.year.world.table.registry.run(run)
        if not folder.exists("plan.json"):
            if len(numbers) < 2:
                return
            self._run_task("learn", run, Params())
            to = numbers[max(0, len(numbers) - _BACK)]
            if to == numbers[-1]:
                return
            steps.plan_rollback(self.year.world.spec_path, run, to)
        self._whole(run, Params(), "validate_plan")

    def left(self, day: int) -> None:
        """A run that is left at some point, and nobody takes up."""
        run = f"left-{day}"
        params = Params(force=True, capacities=_uneven(len(self._channels())))
        stopped(lambda: self._whole(run, params), self.year.draw(day, "point").randrange(_POINTS))
        spec, now = self.year.world.table.spec, self.year.world.table.epoch().function
        if not all(is_sealed(self.year.spark, spec, s.path, now) for s in spec.state.values()):
            self.year.happened.append("runs left while rows moved")

    def two(self, day: int) -> None:
        """Two runs of the table at once, each with a plan of its own."""
        errors = list[BaseException]()

        def run(name: str, weights: tuple[float, ...]) -> None:
            try:
                if not self._whole(
                    name, Params(force=True, capacities=weights), spark=self.year.spark.newSession()
                ):
                    return
            except BaseException as error:
                errors.append(error)

        count = len(self._channels())
        both = [
            threading.Thread(target=run, args=(f"{name}-{day}", weights))
            for name, weights in (("one", _uneven(count)), ("two", _uneven(count)[::-1]))
        ]
        self.year.happened.append("runs at once")
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        for error in errors:
            # Whatever these have left is repaired; an error that names nothing to do is a bug.
            if not isinstance(error, (EvenkeelError, *CONFLICTS)):
                raise error
            self.year.refused.append(f"two schedulers: {type(error).__name__}")


def _uneven(count: int) -> tuple[float, ...]:
    return (0.5, *[1.0] * (count - 1))
