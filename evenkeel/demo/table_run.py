"""Run one table's jobs and DAG runs of a replay, one after the other, as processes.

Each process writes to its own log. Progress goes through `TableRun.say`.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from evenkeel.demo.spark_process import SparkProcess, end_process, start_process
from evenkeel.runs.record import RunParts, read_run
from evenkeel.submit import demo_command, job_command
from evenkeel.table import Table
from partitioning.errors import EvenkeelError, InputError

#: Line in which Airflow starts a task, and lines of our own errors and of failed tasks.
_TASK = re.compile(r"\[DAG TEST\] starting task_id=(\w+)")
_MATTERS = re.compile(r"evenkeel: error: |[A-Za-z]*(?:Error|Exception|Fail\w*): ")


class StepFailed(EvenkeelError):
    """A process of the replay failed; `tail` is the end of its log."""

    exit_code = 1

    def __init__(self, what: str, log: Path, code: int) -> None:
        super().__init__(f"{what} failed with exit code {code}", str(log))
        self.tail = last_lines(log)


@dataclass
class Round:
    """Result of one round: the files of its run, and the path or URL of its report."""

    end: date
    seconds: float
    parts: RunParts
    report: str | None


@dataclass
class TableRun:
    """One table of a replay.

    Parameters
    ----------
    table, spec : the table and the path of its spec
    home : Airflow's folder for this table; each has its own, because SQLite allows one writer
    logs : folder of the logs
    spark : that all jobs run in
    environment : variables of every process
    force : rebalance each round, even if it does not pay off
    say : called with (table, step that runs now, seconds of the step before or None)
    stop : set if another table failed
    plans : of the join of a team's own tables, before they were adopted and after the last round
    """

    table: Table
    spec: Path
    home: Future[Path]
    logs: Path
    spark: SparkProcess
    environment: Mapping[str, str]
    force: bool
    say: Callable[[str, str, float | None], None]
    stop: threading.Event
    rounds: list[Round] = field(default_factory=list)
    plans: dict[str, list[str]] | None = None
    error: Exception | None = None
    _process: subprocess.Popen[str] | None = None
    _count: int = 0

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.spec.table

    def run(self, start: date, days: int, rounds: int) -> None:
        """Bootstrap with `days` days from `start`, then run `rounds` rounds of `days` days.

        A team's own tables are adopted in place of that, and a round adds no events to them.

        An error is kept in `error`, not raised.
        """

        def work() -> None:
            first, end = start, start + timedelta(days=days)
            self._create("--end", end.isoformat())
            for number in range(1, rounds + 1):
                first, end = end, end + timedelta(days=days)
                self._round(f"round {number}/{rounds}", first, end)
            if self.table.spec.plain:
                self.say(self.name, "join by key", None)
                self._program("join", demo_command([*self._spec, "--join"]), self._read_plans)

        self._guarded(work)

    def load(self, span: tuple[date, date] | None) -> None:
        """Bootstrap with the days before the span, then apply the span as one window.

        Without a span, only bootstrap. A team's own tables are adopted. An error is kept in
        `error`, not raised.
        """

        def work() -> None:
            if span is None or self.table.spec.plain:
                self._create()
                return
            start, end = (day.isoformat() for day in span)
            self._create("--end", start)
            self.say(self.name, "apply_window", None)
            self._job("apply_window", "--start", start, "--end", end)

        self._guarded(work)

    def _create(self, *arguments: str) -> None:
        """Make the state tables and epoch 0: by bootstrap with its arguments, or by adopt."""
        plain = self.table.spec.plain
        if plain:
            self.say(self.name, "the team's tables", None)
            self._program("tables", demo_command(self._spec))
        job = "adopt" if plain else "bootstrap"
        self.say(self.name, job, None)
        self._job(job, *(() if plain else arguments))

    def _read_plans(self, line: str) -> None:
        if line.startswith("{"):
            self.plans = json.loads(line)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
            self.say(self.name, "done", None)
        except Exception as error:
            self.error = error
            # A process that was ended because the replay stops has not failed.
            asked = self.stop.is_set() or isinstance(error, InterruptedError)
            self.stop.set()
            self.say(self.name, "stopped" if asked else "failed", None)

    def kill(self) -> None:
        """End the running process and its children."""
        end_process(self._process)

    def _round(self, title: str, start: date, end: date) -> None:
        began = time.monotonic()
        if not self.table.spec.plain:
            self.say(self.name, f"{title}  apply_window", None)
            self._job("apply_window", "--start", start.isoformat(), "--end", end.isoformat())
        registry = self.table.registry
        before = set(registry.store.names("runs"))
        self.say(self.name, f"{title}  airflow", None)
        self._dag({"window_end": end.isoformat(), "force": self.force}, title)
        new = sorted(set(registry.store.names("runs")) - before)
        if len(new) != 1:
            raise InputError(
                f"expected 1 new run for this round, found {len(new)}",
                registry.url,
                "Run nothing else on this registry during a replay",
            )
        run = registry.run(new[0])
        parts = read_run(self.name, registry, run)
        if parts.decision is None:
            raise InputError(f"the run has no {run.decision.name}", run.url, "Read the run's log")
        report = run.report.path if run.report.exists() else None
        if parts.published is not None:
            # The epoch's copy is kept longer than the run's.
            kept = registry.archive(parts.published).report
            report = kept.path if kept.exists() else report
        self.rounds.append(Round(end, time.monotonic() - began, parts, report))

    @property
    def _spec(self) -> list[str]:
        return ["--spec", str(self.spec)]

    def _job(self, job: str, *arguments: str) -> None:
        self._program(job, job_command(job, [*self._spec, *arguments]))

    def _program(
        self, name: str, command: Sequence[str], read: Callable[[str], object] = str
    ) -> None:
        """Run a program in Spark, with its output in a log; raise StepFailed if it fails."""
        self._wait_for_spark()
        log, began = self._log(name), time.monotonic()
        if code := self._logged(command, self.environment, log, read):
            raise StepFailed(f"{self.name}: {name}", log, code)
        self.say(self.name, "", time.monotonic() - began)

    def _dag(self, asked: Mapping[str, Any], title: str) -> None:
        """Run the table's DAG with its output in a log, and show each task as it starts.

        Raises
        ------
        StepFailed : the DAG run failed
        """
        log, began, current = self._log("rebalance"), time.monotonic(), "airflow"
        command = ["airflow", "dags", "test", f"rebalance_{self.name}", "-c", json.dumps(asked)]
        environment = {**self.environment, "AIRFLOW_HOME": str(self.home.result())}

        def read(line: str) -> None:
            nonlocal began, current
            if found := _TASK.search(line):
                now = time.monotonic()
                self.say(self.name, f"{title}  {found[1]}", now - began)
                began, current = now, found[1]

        if code := self._logged(command, environment, log, read):
            raise StepFailed(f"{self.name}: {current}", log, code)
        self.say(self.name, "", time.monotonic() - began)

    def _wait_for_spark(self) -> None:
        if (code := self.spark.wait()) is not None:
            raise StepFailed("Spark", self.spark.log, code)

    def _logged(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        read: Callable[[str], object],
    ) -> int:
        """Run a process with its output in a log, have each line read, and return the exit code."""
        self._process = start_process(command, environment)
        if self.stop.is_set():
            self.kill()
        assert self._process.stdout is not None
        with log.open("w", encoding="utf-8") as file:
            for line in self._process.stdout:
                file.write(line)
                file.flush()
                read(line)
        return self._process.wait()

    def _log(self, what: str) -> Path:
        if self.stop.is_set():
            raise InterruptedError
        self._count += 1
        log = self.logs / f"{self._count:02d}-{what}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        return log


def last_lines(log: Path, lines: int = 12) -> str:
    """Return the lines with errors of a failed process's log, else its last lines."""
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line.strip() for line in text if _MATTERS.search(line)]
    return "\n".join(list(dict.fromkeys(said))[-lines:] or text[-lines:])
