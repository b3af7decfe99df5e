"""Spark sessions for faults, and processes that are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from evenkeel_spark.runtime.session import session
from tests.chaos.cases import ICEBERG_INSIDE, INSIDE, Case
from tests.chaos.iceberg.copies import let_pass
from tests.conftest import World

ROOT = Path(__file__).resolve().parents[2]
#: Seconds.
DAY = 86400


def start(**conf: str) -> SparkSession:
    """The jobs' session for tables of some hundred rows: on two local cores, or as conf says."""
    made = session("evenkeel chaos", **{"spark.master": "local[2]", **conf})
    # What fails here fails on purpose: no stack traces of it.
    made.sparkContext.setLogLevel("OFF")
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    return made


class Apart:
    """A process with a Spark of its own that runs cases, in a session of its own."""

    #: Module that it runs.
    MODULE: ClassVar[str]

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        local = {"SPARK_LOCAL_DIRS": str(folder), "TMPDIR": str(folder), **environment}
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.MODULE],
            cwd=ROOT,
            env={**os.environ, **local},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def kill(self) -> None:
        """SIGKILL to all of its processes, and wait until none is left."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        end = time.monotonic() + 120
        while _living(self._process.pid):
            assert time.monotonic() < end, f"processes outlive group {self._process.pid}"
            time.sleep(0.05)
        self._log.close()

    def _answer(self, lines: IO[str], mark: str) -> Any:
        """The next line that has the mark, as JSON."""
        for line in lines:
            if line.startswith(mark):
                return json.loads(line.removeprefix(mark))
        raise AssertionError(f"the process ended by itself: see {self._log.name}")

    def _ask(self, what: Any) -> IO[str]:
        """Write one line of JSON to it; returns where its answers come."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"the process ended by itself: see {self._log.name}") from None
        return self._process.stdout


class Victim(Apart):
    """A process that takes cases to their points and is killed by SIGKILL there, with its JVM."""

    MODULE = "tests.chaos.victim"

    def run(self, cases: Sequence[tuple[Case, World]]) -> list[bool]:
        """Take all cases to their points; then nothing of the process is left. Returns, for each,
        whether its step was killed before it had ended.

        Raises
        ------
        AssertionError : it did not come there
        """
        asked = [[str(w.folder), c.step, None if c.kind == "inside" else c.at] for c, w in cases]
        try:
            met, under_way = list[bool](), True
            for line in self._ask(asked):
                if line == "victim: failed\n":
                    raise AssertionError(
                        f"{cases[len(met)][0]} failed before it was killed: see {self._log.name}"
                    )
                if line == "victim: ended\n":
                    under_way = False
                if line == "victim: waits\n":
                    met.append(under_way)
                    under_way = True
                if line == "victim: goes\n":
                    reached = _await_files(*cases[-1])
                    met.append(reached and not (self.folder / "ended").exists())
                if len(met) == len(cases):
                    return met
            else:
                raise AssertionError(f"the process ended by itself: see {self._log.name}")
        finally:
            self.kill()


class Cluster(Apart):
    """A process whose Spark has executors that are processes, too: in each case it loses one, or
    the clock of all of them is set."""

    MODULE = "tests.chaos.cluster"

    def run(self, case: Case, world: World) -> bool:
        """One step that meets its fault; whether it did, before it had ended.

        Raises
        ------
        AssertionError : it did not end well
        """
        amount = case.sign * 2 * DAY if case.kind == "clock" else case.later / 100
        asked = [str(world.folder), case.step, case.at, case.kind, amount]
        end, met = self._answer(self._ask(asked), "cluster: ")
        # Iceberg refuses commits by a clock that is behind.
        behind = world.table.spec.iceberg and case.kind == "clock" and case.sign < 0
        refused = behind and "Invalid update timestamp" in end
        assert end == "ok" or refused, f"the step, in a process of its own: {end}"
        if world.table.spec.iceberg and case.kind == "clock":
            let_pass(world)
        return bool(met)


class Rival(Apart):
    """A process that runs the tables' other run."""

    MODULE = "tests.chaos.faults.rival"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._answers: IO[str] | None = None

    def begin(self, world: World) -> None:
        """Let it run, from the first step that it has not done."""
        self._answers = self._ask(str(world.folder))

    def wait(self) -> None:
        """Until it has ended, if it has begun.

        Raises
        ------
        AssertionError : it neither published nor gave way
        """
        if self._answers is not None:
            answers, self._answers = self._answers, None
            end = self._answer(answers, "rival: ")
            assert end == "ok", f"the other run: {end}"


def _living(group: int) -> list[str]:
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True)
    found = (line.split() for line in listed.stdout.splitlines())
    return [state for pgid, state in found if int(pgid) == group and not state.startswith("Z")]


def _await_files(case: Case, world: World) -> bool:
    """Wait until the table has as many new files as the case says; whether it ever has."""
    known, end, new = matching(case.label, world), time.monotonic() + 120, set[str]()
    # Some have another name a moment later.
    while len(new := new | (matching(case.label, world) - known)) < case.at:
        if time.monotonic() > end:
            return False
        time.sleep(0.0005)
    return True


def matching(label: str, world: World) -> set[str]:
    """Paths of the table's files of a kind: a label of `INSIDE`."""
    found, spec = set(), world.table.spec
    pattern = re.compile(f"/{(ICEBERG_INSIDE if spec.iceberg else INSIDE)[label]}$")
    folders = [part.path for part in spec.state.values()]
    for below in [str(world.folder / "lake")] if spec.iceberg else folders:
        for folder, _, names in os.walk(below):
            found |= {f for f in (f"{folder}/{name}" for name in names) if pattern.search(f)}
    return found
