"""Watch: look at the newest micro-batch of events, and decide whether to meet its skew at once.

Leaves watch.json in the registry, the state of the watch. For a decision it leaves in the run what
`plan_watch` needs: runs/RUN/profile.npz, profile.json, decision.json and watched.json. With
--stream it reads the input as it comes, and carries out its decisions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.spec.loading import find_spec
from evenkeel.table import Table
from evenkeel.watch.state import PendingDecision
from evenkeel.watch.state_file import read
from evenkeel_spark.runtime.command import parser, read_moment, run_job
from evenkeel_spark.watching.evaluate import evaluate
from evenkeel_spark.watching.micro_batch import need_watch, number_sql, since
from evenkeel_spark.watching.streaming import stream
from partitioning.errors import InputError


def watch(
    spark: SparkSession, table: Table, run: str, until: datetime, busy: str | None = None
) -> PendingDecision | None:
    """Look at new micro-batches that have ended by `until`.

    Parameters
    ----------
    table : its spec and registry
    run : name of the run that carries out a decision
    until : end of the newest micro-batch (UTC)
    busy : what else moves state; then nothing is decided. None: the caller knows of nothing

    Returns
    -------
    The decision; None: there is none.

    Raises
    ------
    InputError : the spec has no `watch`, or the input cannot be used
    """
    every = need_watch(table.spec).every
    source = f"batches of {every} minutes"
    known = read(table.registry)
    last = known.watch.last if known is not None and known.source == source else -1
    events = since(spark, table, last, until)
    number = F.expr(number_sql(table.spec, every))
    return evaluate(spark, table, events, number, run, source, until, busy=busy)


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    if options.stream:
        if options.checkpoint is None:
            raise InputError(
                "a stream needs a checkpoint folder, got none",
                "--checkpoint",
                "Give it a folder that no other stream uses",
            )
        spec = str(find_spec(options.spec))
        now, files = options.available_now, options.files
        stream(spark, table, spec, options.checkpoint, available_now=now, files=files)
    elif options.run is None:
        raise InputError(
            "expected the name of the run that carries out a decision, got none",
            "--run",
            "Give --run, or --stream for a stream",
        )
    else:
        until = options.until or datetime.now(UTC)
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        watch(spark, table, options.run, until, options.busy)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--run", help="name of the run, a folder in the registry")
    arguments.add_argument(
        "--until",
        type=read_moment,
        metavar="YYYY-MM-DDTHH:MM",
        help="look at what has ended by then; default: now",
    )
    arguments.add_argument("--busy", help="what else moves state: nothing is decided then")
    arguments.add_argument(
        "--stream", action="store_true", help="go on reading, and carry out what is decided"
    )
    arguments.add_argument("--checkpoint", help="of a stream: folder for what it has read")
    arguments.add_argument(
        "--available-now", action="store_true", help="of a stream: end after what is there"
    )
    arguments.add_argument("--files", type=int, help="of a stream: new files a batch at most")
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
