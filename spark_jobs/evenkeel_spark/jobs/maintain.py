"""Maintain: few files sorted by slot in every channel, and no file that nobody needs.

VACUUM keeps every version that some kept epoch stands for. Delta knows nothing of epochs, so what
it may remove is worked out here, file by file.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.table import Table
from evenkeel_spark.runtime.command import parser, run_job, say
from evenkeel_spark.tables.delta import commits, constraints, filesystem, state
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.delta.write_session import own_session
from partitioning.errors import DamagedError, InputError

#: A channel with this share of its rows deleted is written anew.
DELETED_SHARE = 0.1
#: OPTIMIZE writes files up to this size (Delta's own default).
FILE_BYTES = 1 << 30
#: Nothing younger goes, so that files of writes under way stay.
LEAST_HOURS = 24
#: Epochs before one that are asked whether its clock was set back.
EARLIER = 16
#: Days for which an epoch's version stays readable if this job then stops running.
SLACK_DAYS = 7
#: Sorted by slot as finely as it goes; Delta's defaults spread rows at random inside a file.
_SORTED = {
    "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    "spark.databricks.io.skipping.mdc.addNoise": "false",
    "spark.databricks.io.skipping.mdc.rangeId.max": "65536",
}
_VACUUM = {
    # By default RETAIN is ignored and the table's property decides; we have worked it out.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
_LOG, _FILES = state.RETENTION


def kept_epochs(
    registry: Registry, keep_days: float, newest: int | None = None, now: datetime | None = None
) -> list[Epoch]:
    """Epochs that stay readable, oldest first: the current one, and those that were current
    within the last `keep_days`; or just the `newest` so many.

    An epoch whose clock was set back says that it is older than one before it: it then counts as
    published as late as can be, which keeps the one before it for longer, never for less.
    """
    numbers = registry.numbers()
    if newest is not None:
        if newest < 1:
            raise InputError(f"cannot keep {newest} epochs", "--keep-epochs", "Give at least 1")
        return [registry.epoch(n) for n in numbers[-newest:]]
    latest = now or datetime.now(UTC)
    since = latest - timedelta(days=keep_days)
    kept = [registry.current()]
    for number in reversed(numbers[:-1]):
        moment = datetime.fromisoformat(kept[0].published)
        if moment < since and _set_back(registry, kept[0], moment, latest):
            moment = latest
        if moment < since:
            break
        latest = min(latest, moment)
        kept.insert(0, registry.epoch(number))
    return kept


def _set_back(registry: Registry, epoch: Epoch, moment: datetime, latest: datetime) -> bool:
    """Whether one of the epochs before says that it was published after this one, and by when this
    one must have been."""
    for number in range(epoch.number - 1, max(-1, epoch.number - 1 - EARLIER), -1):
        try:
            before = datetime.fromisoformat(registry.epoch(number).published)
        except DamagedError:
            continue
        if moment < before <= latest:
            return True
    return False


def channels_to_rewrite(files: DataFrame) -> DataFrame:
    """Channels in more files than they fill, or with many rows deleted: one column, channel.

    Parameters
    ----------
    files : as `state.files` gives them
    """
    deleted = F.sum("deleted") > F.sum("rows") * DELETED_SHARE
    many = F.count(F.lit(1)) > 1 + 2 * F.floor(F.sum("size") / FILE_BYTES)
    return (
        files.groupBy(state.CHANNEL)
        .agg(many.alias("many"), deleted.alias("holes"))
        .where("many OR holes")
        .select(state.CHANNEL)
    )


def optimize(spark: SparkSession, path: str) -> int:
    """Rewrite the channels that need it, sorted by slot; returns how many."""
    channels = sorted(r[0] for r in channels_to_rewrite(state.files(spark, path)).collect())
    if channels:
        chosen = ", ".join(map(str, channels))
        sorting = own_session(spark, _SORTED)
        with commits.commit_session(sorting, None, None, {"step": "maintain"}) as own:
            own.sql(
                f"OPTIMIZE {state.sql_name(path)} WHERE {state.CHANNEL} IN ({chosen}) "
                f"ZORDER BY ({state.SLOT})"
            )
    return len(channels)


def needed_since(spark: SparkSession, path: str, versions: Sequence[int]) -> float | None:
    """When the first file went that some of these versions need and the table no longer holds,
    in seconds since 1970; None: there is no such file.

    A VACUUM that keeps what went since then removes none of them. Where the log has forgotten
    when a file went, its own age counts, as it does to VACUUM.
    """
    now = state.snapshot(spark, path)
    live = _logical(now.allFiles(), spark)
    gone = (
        _logical(now.tombstones(), spark)
        .groupBy("path", "vector")
        .agg(F.max("deletionTimestamp").alias("gone"))
    )
    old = [
        _logical(state.snapshot_at(spark, path, v).allFiles(), spark) for v in sorted(set(versions))
    ]
    needed = reduce(
        DataFrame.unionByName, [o.select("path", "vector", "modificationTime") for o in old]
    )
    same = ["path", "vector"]
    first = (
        needed.join(live.select(*same), same, "left_anti")
        .join(gone, same, "left")
        .agg(F.min(F.coalesce("gone", "modificationTime")))
        .first()
    )
    return None if first is None or first[0] is None else first[0] / 1000


def keep_readable(spark: SparkSession, path: str, versions: Sequence[int], days: int) -> int:
    """Raise the table's retention where its oldest kept version would outlive it: Delta refuses
    to read what is older, and drops it from the log. Returns the days now set."""
    oldest = state.snapshot_at(spark, path, min(versions)).timestamp() / 1000
    wanted = max(days, math.ceil((time.time() - oldest) / 86400) + SLACK_DAYS)
    found = state.properties(spark, path)
    if any(_days(found.get(name, "")) < wanted for name in (_LOG, _FILES)):
        with commits.commit_session(spark, None, None, {"step": "maintain"}) as own:
            own.sql(
                f"ALTER TABLE {state.sql_name(path)} SET TBLPROPERTIES "
                f"('{_LOG}' = 'interval {wanted} days', '{_FILES}' = 'interval {wanted} days')"
            )
    return wanted


def vacuum(
    spark: SparkSession, path: str, versions: Sequence[int], least_hours: int = LEAST_HOURS
) -> int:
    """Remove files that neither the table nor any of the versions needs, and that went more than
    `least_hours` ago; returns the hours kept."""
    hours, since = least_hours, needed_since(spark, path, versions)
    if since is not None:
        # Delta rounds RETAIN to whole hours, down too. A minute over: its clock is read later
        # than ours, and file times are coarser.
        hours = max(hours, math.ceil((time.time() - since + 60) / 3600))
    # VACUUM lists folders in as many tasks, four times over: 10,000 by default, a minute's work.
    tasks = str(2 * spark.sparkContext.defaultParallelism)
    listing = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks}
    own = own_session(spark, {**_VACUUM, **listing})
    own.sql(f"VACUUM {state.sql_name(path)} RETAIN {hours} HOURS")
    return hours


def maintain(
    spark: SparkSession,
    table: Table,
    keep_epochs: int | None = None,
    least_hours: int = LEAST_HOURS,
) -> list[Epoch]:
    """Rewrite and vacuum every state table; returns the epochs kept.

    Raises
    ------
    InputError : nothing bootstrapped yet, or state tables that are not ours
    FenceError : a migration is under way
    """
    spec, current = table.spec, table.epoch()
    check_tables(spark, spec)
    constraints.check_admits(spark, spec, current.function)
    kept = kept_epochs(table.registry, spec.keep, keep_epochs)
    for name, part in spec.state.items():
        versions = [e.tables[name].version for e in kept if name in e.tables]
        days = keep_readable(spark, part.path, versions, spec.keep)
        rewritten = optimize(spark, part.path)
        hours = vacuum(spark, part.path, versions, least_hours)
        torn = filesystem.remove_torn(spark, part.path, least_hours)
        say(
            f"{name}: {rewritten} channels rewritten, removed what went over {hours} hours "
            f"ago and {torn} torn commits, versions readable for {days} days"
        )
    say(f"registry: {table.registry.store.sweep(least_hours)} unfinished files removed")
    return kept


def _logical(files: Any, spark: SparkSession) -> DataFrame:
    """Delta's files or tombstones with `vector`, which tells two states of one file apart."""
    table = DataFrame(files.toDF(), spark)
    return table.withColumn("vector", _vector(F.col("deletionVector")))


def _vector(column: Column) -> Column:
    parts = ("storageType", "pathOrInlineDv", "offset")
    return F.concat_ws(":", *(column[p].cast("string") for p in parts))


def _days(interval: str) -> float:
    words = interval.split()
    fits = len(words) == 3 and words[0] == "interval" and words[2].startswith("day")
    return float(words[1]) if fits else 0.0


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    kept = maintain(spark, table, options.keep_epochs, options.least_hours)
    say(f"epochs {kept[0].number} to {kept[-1].number} of {table.spec.table} stay readable")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = parser(__doc__ or "")
    arguments.add_argument(
        "--keep-epochs", type=int, help="keep just the newest so many; default: `keep` days' worth"
    )
    arguments.add_argument(
        "--least-hours",
        type=int,
        default=LEAST_HOURS,
        help="files that went since then stay in any case (default: %(default)s)",
    )
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
