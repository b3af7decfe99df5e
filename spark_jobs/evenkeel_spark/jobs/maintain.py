"""Maintain: keep few files sorted by slot in every channel, and remove files that nobody needs.

Every version that was committed within `keep` days stays readable: see `vacuum`. Old files of the
registry go, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.quality.data_docs import prune_docs
from evenkeel.registry.pruning import prune
from evenkeel.spec.parts import StateTable
from evenkeel.table import Table
from evenkeel_spark.adoption.before import note_changes
from evenkeel_spark.adoption.row_tasks import FILE_BYTES
from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.iceberg import maintain as iceberg_maintain
from evenkeel_spark.runtime.command import parser, run_job, say
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.left_files import remove_torn
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.delta.vacuum import held_until, keep_versions, vacuum
from evenkeel_spark.tables.filesystem import check_writable
from evenkeel_spark.tables.write_session import UNMEASURED, own_session
from evenkeel_spark.windows.window_notes import renew
from partitioning.errors import EvenkeelError, FenceError, InputError, UnreachableError
from partitioning.function.sql import quoted, string_sql

#: Part of a channel's rows that are deleted, above which its files are rewritten. Higher: fewer
#: rewrites, and reads that skip more hidden rows.
DELETED_SHARE = 0.1
#: Age in hours above which an unfinished file is of a killed write, and is removed.
TORN_HOURS = 24
#: Hours by which this machine's clock may be ahead of a store's while files are removed: the store
#: may give the time of another zone. Higher: files of a write that takes long may look old.
CLOCK_SLACK = 12
#: Terms of a predicate in one OPTIMIZE. More: a longer statement to parse; fewer: more commits.
TERMS = 200
#: Settings to sort by slot as finely as possible. Delta's defaults spread rows randomly in a file.
_SORTED = {
    "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    "spark.databricks.io.skipping.mdc.addNoise": "false",
    "spark.databricks.io.skipping.mdc.rangeId.max": "65536",
    **UNMEASURED,
}


def partitions_to_rewrite(files: DataFrame) -> DataFrame:
    """Find partitions with more files than they fill, or with many deleted rows.

    Parameters
    ----------
    files : as `state.files` gives them

    Returns
    -------
    One column, partition.
    """
    deleted = F.sum("deleted") > F.sum("rows") * DELETED_SHARE
    many = F.count(F.lit(1)) > 1 + 2 * F.floor(F.sum("size") / FILE_BYTES)
    return (
        files.groupBy("partition")
        .agg(many.alias("many"), deleted.alias("holes"))
        .where("many OR holes")
        .select("partition")
    )


def optimize(spark: SparkSession, path: str) -> int:
    """Rewrite the partitions that need it, sorted by slot. Return how many.

    A partition is a channel, unless a team's own table keeps partitions of its own below it.
    """
    found = [dict(r[0]) for r in partitions_to_rewrite(state.files(spark, path)).collect()]
    terms = _predicates(spark, path, found)
    for start in range(0, len(terms), TERMS):
        chosen = terms[start : start + TERMS]
        sorting = own_session(spark, _SORTED)
        with commits.our_commit(sorting, None, None, {"step": "maintain"}) as own:
            own.sql(
                f"OPTIMIZE {state.sql_name(path)} WHERE {' OR '.join(chosen)} "
                f"ZORDER BY ({state.SLOT})"
            )
    return len(found)


def _predicates(
    spark: SparkSession, path: str, partitions: Iterable[dict[str, str | None]]
) -> list[str]:
    """Write SQL for partitions: one term for all channels with the same other values."""
    names = {inside: name for name, inside in state.names_in_files(spark, path).items()}
    types = {f.name: f.dataType.simpleString() for f in state.schema(spark, path)}
    channels = defaultdict[tuple[str, ...], list[int]](list)
    for values in partitions:
        named = {names[inside]: value for inside, value in values.items()}
        channel = named.pop(state.CHANNEL)
        below = tuple(_equals(name, value, types[name]) for name, value in named.items())
        # The constraint admits no row without a channel.
        if channel is not None:
            channels[below].append(int(channel))
    found = []
    for below, those in sorted(channels.items()):
        chosen = f"{state.CHANNEL} IN ({', '.join(map(str, sorted(those)))})"
        found.append(f"({' AND '.join([chosen, *below])})")
    return found


def _equals(column: str, value: str | None, kind: str) -> str:
    """Write SQL that a partition column has a value, which Delta's log holds as text."""
    if value is None:
        return f"{quoted(column)} IS NULL"
    return f"{quoted(column)} = CAST({string_sql(value)} AS {kind})"


def maintain(spark: SparkSession, table: Table) -> None:
    """Rewrite and vacuum every state table, and remove old files of the registry.

    A step that fails does not stop the others: writers that always win keep a table from being
    rewritten, and from nothing else.

    Parameters
    ----------
    table : its spec and registry

    Raises
    ------
    InputError : nothing is bootstrapped yet, or state tables are not ours
    FenceError : a migration is under way; or writers were faster than each try of a step
    UnreachableError : the store or a catalog does not answer
    """
    spec, failed = table.spec, dict[str, Exception]()
    if not spec.iceberg:
        check_tables(spark, spec)
        constraints.check_admits(spark, spec, table.epoch().function)
    for what, step in _steps(spark, table):
        try:
            say(f"{what}: {retry_on_conflict(spark, step, what)}")
        except Exception as error:
            say(f"{what}: failed ({type(error).__name__}); the other steps go on")
            failed[what] = error
    _report(failed)


def _steps(spark: SparkSession, table: Table) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the name of each step, and the step, which says what it has done."""
    spec = table.spec
    if spec.iceberg:
        yield from iceberg_maintain.steps(spark, table)
        yield "registry", partial(_prune, table)
        return
    if not spec.plain:
        # First: a shorter `keep` lets Delta clean up the commit that tells which windows are in.
        yield "windows", partial(renew, spark, table, time.time())
    for name, part in spec.state.items():
        for what, step in (
            ("versions", partial(_keep_versions, spark, part, spec.keep)),
            ("channels", partial(_rewrite, spark, part.path)),
            ("removed files", partial(_vacuum, spark, part.path)),
        ):
            yield f"{name}, {what}", step
    yield "registry", partial(_prune, table)


def _keep_versions(spark: SparkSession, part: StateTable, days: int) -> str:
    kept = keep_versions(spark, part.path, days, at_least=part.plain, note=note_changes)
    return f"versions committed within {kept} days stay readable"


def _rewrite(spark: SparkSession, path: str) -> str:
    return f"{optimize(spark, path)} rewritten"


def _vacuum(spark: SparkSession, path: str) -> str:
    now = time.time()
    if (created := check_writable(spark, path)) is None:
        return "none: the store does not say when a file was written"
    if (hours := (now - created) / 3600) > CLOCK_SLACK:
        return (
            f"none: this machine's clock is {hours:,.0f} hours ahead of the store's, so files of a "
            "write that is under way would look old. Set it right"
        )
    torn = f"{remove_torn(spark, path, TORN_HOURS)} torn commits"
    if (until := held_until(spark, path)) is not None:
        when = datetime.fromtimestamp(until, UTC).isoformat(" ", "minutes")
        return (
            f"{torn}. Other files stay: a writer's clock was set back, and its commit dates what "
            f"it removed too early. They go after {when}"
        )
    vacuum(spark, path)
    return f"those that only older versions need; {torn}"


def _prune(table: Table) -> str:
    unfinished = table.registry.store.sweep(TORN_HOURS)
    days = table.spec.keep
    since = datetime.now(UTC) - timedelta(days=days)
    gone = prune(table.registry, since, table.spec.window + days)
    if pages := prune_docs(table.registry, table.spec.table, since):
        gone["Data Docs"] = pages
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in gone.items())
    return f"removed {kinds or 'nothing'}, and {unfinished} unfinished files"


def _report(failed: Mapping[str, Exception]) -> None:
    """Raise what says which steps have failed; return if none has."""
    if not failed:
        return
    unforeseen = [e for e in failed.values() if not isinstance(e, EvenkeelError)]
    silent = [e for e in failed.values() if isinstance(e, UnreachableError)]
    if len(failed) == 1 or unforeseen or silent:
        # The error of a store, or of a catalog, says whether it is worth trying again.
        raise [*unforeseen, *silent, *failed.values()][0]
    reasons = "; ".join(f"{what}: {error}" for what, error in failed.items())
    raise FenceError(
        f"{len(failed)} steps have failed ({reasons})",
        "maintain",
        "The other steps are done. Do what the reasons say, then run it again",
    )


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    if options.forget:
        forget(spark, table, options.forget, options.dry_run)
    elif options.dry_run:
        raise InputError("goes with --forget alone", "--dry-run", "Leave it out")
    else:
        maintain(spark, table)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    made = parser(__doc__ or "")
    made.add_argument(
        "--forget",
        action="append",
        metavar="KEY",
        help="delete this key's rows and its name, and do nothing else; may be given several times",
    )
    made.add_argument("--dry-run", action="store_true", help="with --forget: count rows alone")
    return run_job(made, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
