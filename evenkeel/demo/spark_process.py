"""The Spark of a replay or of `make up`, and how their processes start and end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from evenkeel.shared_spark import LOOK_SECONDS, VARIABLE, SharedSpark
from evenkeel.submit import spark_server
from partitioning.errors import InputError

#: Seconds between SIGTERM and SIGKILL.
KILL_SECONDS = 10.0


def start_process(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a process in its own group, so that its children can be ended with it.

    Its standard error goes to its standard output.

    Raises
    ------
    InputError : the program is not on PATH
    """
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise InputError(f"the program {command[0]} is not installed", fix="Run make setup")
    return subprocess.Popen(
        [program, *command[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=dict(environment),
        start_new_session=True,
    )


def end_process(process: subprocess.Popen[str] | None) -> None:
    """End a process and its children, if it still runs."""
    if process is not None and process.poll() is None:
        _send(process.pid, signal.SIGTERM)


def _send(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """Ask Linux, in a new process, to end it if its parent is killed."""
    if _LIBC is not None:
        pr_set_pdeathsig = 1
        _LIBC.prctl(pr_set_pdeathsig, signal.SIGTERM)


class SparkProcess:
    """A Spark that stays up for as long as the block lasts.

    Parameters
    ----------
    folder : by which jobs find it
    environment : of the process
    log : of its output
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], log: Path) -> None:
        self._shared, self.log = SharedSpark(folder), log
        self._environment = environment
        #: Variable by which jobs find it.
        self.variables = {VARIABLE: str(folder)}

    def __enter__(self) -> SparkProcess:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, spark_server(), str(self._shared.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self._environment),
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        return self

    def wait(self) -> int | None:
        """Wait until jobs can run in it; return its exit code if it has ended."""
        while (code := self.process.poll()) is None:
            # Another one's address may be left.
            found = self._shared.address()
            if found is not None and found.server == self.process.pid:
                return None
            time.sleep(LOOK_SECONDS)
        return code

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it and its JVM."""
        _send(self.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_SECONDS)
        _send(self.process.pid, signal.SIGKILL)
        self.process.wait()
