"""Shared parts of every job's `main`: arguments, progress lines, errors and exit codes."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from evenkeel.registry.job_error import leave_error
from evenkeel.registry.store_errors import DeniedError
from evenkeel.shared_spark import VARIABLE
from evenkeel.spec.loading import find_spec, load_spec
from evenkeel.table import Table
from evenkeel_spark.runtime.attached import leave_unusable, lost
from evenkeel_spark.runtime.ctrl_c import ended_by_ctrl_c, handle_ctrl_c, tell_ctrl_c
from evenkeel_spark.runtime.heartbeat import heartbeat
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.delta.log_store import check_log_store
from evenkeel_spark.tables.filesystem import check_connectors, denied
from evenkeel_spark.tables.iceberg.answers import too_early, unanswered
from evenkeel_spark.tables.spark_errors import CONFLICTS, SPARK_ERRORS, first_line
from partitioning.errors import EvenkeelError, FenceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTED = time.monotonic()
_Time = TypeVar("_Time", date, datetime)
_ABOUT: dict[str, object] = {}
#: Moment of the newest line of progress, on the clock of `_STARTED`.
_said = _STARTED


def about(**what: object) -> None:
    """Add these fields to every progress line from here on."""
    _ABOUT.update({name: value for name, value in what.items() if value is not None})


def say(message: str) -> None:
    """Print one line of progress: seconds since the job began, and the message.

    The line also names the table, run, epoch and plan, for searching logs.
    """
    global _said
    _said = time.monotonic()
    line = "  ".join([message, " ".join(f"{name}={value}" for name, value in _ABOUT.items())])
    print(f"[{_said - _STARTED:6.1f} s] {line.rstrip()}", flush=True)


def parser(description: str, *, run: bool = False, digest: bool = False) -> argparse.ArgumentParser:
    """Return an argument parser with --spec, and --run and --digest if the job takes them."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--spec", required=True, help="table spec: its path, or the table's name")
    made.add_argument("--attempt", help="id of this try, for the file that says why it failed")
    if run:
        made.add_argument("--run", required=True, help="name of the run, a folder in the registry")
    if digest:
        made.add_argument("--digest", required=True, help="digest of the plan to carry out")
    return made


def add_switch(arguments: argparse.ArgumentParser, name: str, meaning: str) -> None:
    """Add an option that is on if it is given alone, or with yes: Airflow passes a value."""
    arguments.add_argument(name, nargs="?", const=True, default=False, type=_is_yes, help=meaning)


def _is_yes(value: str) -> bool:
    if value not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"expected yes or no, found {value!r}")
    return value == "yes"


def add_day(arguments: argparse.ArgumentParser, name: str, meaning: str) -> None:
    """Add an option that is a day."""
    arguments.add_argument(name, type=_read_day, metavar="YYYY-MM-DD", help=meaning)


def _read_day(value: str) -> date:
    return _read(value, date.fromisoformat, "a day as YYYY-MM-DD")


def read_moment(value: str) -> datetime:
    """Read a moment that an option gives."""
    return _read(value, datetime.fromisoformat, "a moment as YYYY-MM-DDTHH:MM")


def _read(value: str, read: Callable[[str], _Time], expected: str) -> _Time:
    try:
        return read(value)
    except ValueError:
        text = f"expected {expected}, found {value!r}"
        raise argparse.ArgumentTypeError(text) from None


def run_job(
    arguments: argparse.ArgumentParser,
    body: Callable[[SparkSession, Table, argparse.Namespace], None],
    argv: Sequence[str] | None = None,
) -> int:
    """Parse the arguments, start Spark and run the job. Print our own errors as one line on stderr.

    Returns
    -------
    Exit code of the process: 0, or that of the error.
    """
    options = arguments.parse_args(argv)
    run, digest = (getattr(options, name, None) for name in ("run", "digest"))
    table = None
    if getattr(options, "stream", False):
        # It would keep its turn for ever.
        os.environ.pop(VARIABLE, None)
    try:
        table = Table(load_spec(find_spec(options.spec)))
        _ABOUT.clear()
        about(table=table.spec.table, run=run, plan=digest and digest[:12])
        spark = session(f"evenkeel {table.spec.table}")
        handle_ctrl_c(spark, alone=VARIABLE not in os.environ)
        check_log_store(spark, table.spec)
        check_connectors(spark, table.spec)
        with heartbeat(spark, say, lambda: time.monotonic() - _said):
            body(spark, table, options)
    except (KeyboardInterrupt, Exception) as error:
        if ended_by_ctrl_c(error):
            leave_unusable()
            return tell_ctrl_c()
        ours = known_error(error, table)
        if table is not None:
            with suppress(EvenkeelError):
                # If the file cannot be written, only the log has the error, and Airflow tries the
                # job again. By hand, a wrong spec creates no registry.
                if options.attempt or (run and table.registry.numbers()):
                    job = Path(inspect.getfile(body)).stem
                    leave_error(table.registry, job, run, options.attempt, ours or error)
        if ours is None:
            raise
        return fail(ours)
    finally:
        _ABOUT.clear()
    return 0


def known_error(error: Exception, table: Table | None) -> EvenkeelError | None:
    """Return what stopped a job as an error of ours; None: nobody foresaw it."""
    if isinstance(error, EvenkeelError):
        return error
    if (gone := lost(error)) is not None:
        return gone
    if isinstance(error, CONFLICTS):
        # Another writer won, so Delta has committed nothing of the losing write.
        first = first_line(error)
        return FenceError(f"somebody else wrote at the same time ({first})", fix="Run it again")
    if isinstance(error, SPARK_ERRORS) and (why := denied(error)) is not None:
        return DeniedError("used", why, table.spec.table if table else None)
    return unanswered(error) or too_early(error)


def fail(error: EvenkeelError) -> int:
    """Print an error as one line on stderr, and return its exit code."""
    print(f"evenkeel: error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    return error.exit_code
