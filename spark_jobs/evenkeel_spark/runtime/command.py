"""What every job's `main` shares: arguments, progress, and errors as one line and an exit code."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from evenkeel.registry.store import DeniedError
from evenkeel.spec.loading import find_spec, load_spec
from evenkeel.table import Table
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.delta.commits import CONFLICTS
from evenkeel_spark.tables.delta.filesystem import denied
from evenkeel_spark.tables.delta.preflight import check_log_store
from partitioning.errors import EvenkeelError, FenceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTED = time.monotonic()
_ABOUT: dict[str, object] = {}


def about(**what: object) -> None:
    """Have every line of progress from here on say what it is about."""
    _ABOUT.update({name: value for name, value in what.items() if value is not None})


def say(message: str) -> None:
    """Print one line of progress: seconds since the job began, and the message.

    The line also names the table, run, epoch and plan, for searching logs.
    """
    told = "  ".join([message, " ".join(f"{name}={value}" for name, value in _ABOUT.items())])
    print(f"[{time.monotonic() - _STARTED:6.1f} s] {told.rstrip()}", flush=True)


def parser(description: str, *, run: bool = False, digest: bool = False) -> argparse.ArgumentParser:
    """Return an argument parser with --spec, and --run and --digest if the job takes them."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--spec", required=True, help="table spec: its path, or the table's name")
    if run:
        made.add_argument("--run", required=True, help="name of the run, a folder in the registry")
    if digest:
        made.add_argument("--digest", required=True, help="digest of the plan to carry out")
    return made


def run_job(
    arguments: argparse.ArgumentParser,
    body: Callable[[SparkSession, Table, argparse.Namespace], None],
    argv: Sequence[str] | None = None,
) -> int:
    """Parse, start Spark, do the work; an error of ours becomes one line on stderr.

    Returns
    -------
    the process's exit code: 0, or that of the error
    """
    options = arguments.parse_args(argv)
    run, digest = (getattr(options, name, None) for name in ("run", "digest"))
    try:
        table = Table(load_spec(find_spec(options.spec)))
        _ABOUT.clear()
        about(table=table.spec.table, run=run, plan=digest and digest[:12])
        spark = session(f"evenkeel {table.spec.table}")
        check_log_store(spark, table.spec)
        body(spark, table, options)
    except CONFLICTS as error:
        # Delta let the other one win; nothing of ours was committed by the losing write.
        first = str(error).strip().splitlines()[0]
        return fail(
            FenceError(f"somebody else wrote at the same time ({first})", fix="Run it again")
        )
    except EvenkeelError as error:
        return fail(error)
    except (Py4JJavaError, PySparkException) as error:
        if (why := denied(error)) is None:
            raise
        return fail(DeniedError("used", why, table.spec.table))
    finally:
        _ABOUT.clear()
    return 0


def fail(error: EvenkeelError) -> int:
    """One line on stderr; the exit code."""
    print(f"evenkeel: error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    return error.exit_code
