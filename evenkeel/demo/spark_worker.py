"""Run the Spark jobs of a replay one after the other, in one process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from partitioning.errors import InputError

#: Seconds between SIGTERM and SIGKILL.
KILL_SECONDS = 10.0
_ENDED = re.compile(r"evenkeel: exit (\d+)$")


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
        stdin=subprocess.PIPE,
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


class SparkWorker:
    """Run jobs by evenkeel_spark's worker process; start it when needed, also after it died.

    Parameters
    ----------
    jobs : folder of the Spark jobs
    environment : of the process
    """

    def __init__(self, jobs: Path, environment: Mapping[str, str]) -> None:
        # Not by spark-submit, which does not pass on its standard input.
        self._command = [sys.executable, str(jobs / "evenkeel_spark" / "runtime" / "worker.py")]
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._turn, self._starting = threading.Lock(), threading.Lock()
        self._closed = False

    def run(self, job: str, arguments: Sequence[str], write: Callable[[str], object]) -> int:
        """Wait until no other job runs, run this one, and return its exit code.

        Parameters
        ----------
        write : called with each line of output

        Raises
        ------
        InterruptedError : the worker was closed
        """
        with self._turn:
            with self._starting:
                if self._closed:
                    raise InterruptedError
                if self._process is None or self._process.poll() is not None:
                    self._process = start_process(self._command, self._environment)
                process = self._process
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps([job, *arguments]) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                if found := _ENDED.match(line):
                    return int(found[1])
                write(line)
            return process.wait() or 1

    def close(self) -> None:
        """End the process and its children, wait for that, and refuse further jobs."""
        with self._starting:
            self._closed = True
            process = self._process
        if process is None or process.stdout is None:
            return
        end_process(process)
        # Spark's JVM ends a moment after Python. The pipe is open until the last child ends.
        killer = threading.Timer(KILL_SECONDS, _send, (process.pid, signal.SIGKILL))
        killer.start()
        with self._turn:
            for _ in process.stdout:
                pass
            process.wait()
        killer.cancel()
