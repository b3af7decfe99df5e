"""How long versions of a state table stay readable, and VACUUM of files that only older need."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.tables.delta import commits, state
from evenkeel_spark.tables.parallelism import cores
from evenkeel_spark.tables.table_properties import properties_sql
from evenkeel_spark.tables.write_session import own_session

_DAY_MS = 86_400_000
#: Milliseconds by which a removal may be dated before an earlier commit. Clocks of two machines
#: differ, and a statement may take hours. Higher: versions may be lost so much too early.
_SLACK_MS = _DAY_MS
_COMMIT = "commitInfo struct<timestamp: bigint>, remove struct<deletionTimestamp: bigint>"


def keep_versions(
    spark: SparkSession,
    path: str,
    days: int,
    at_least: bool = False,
    note: Callable[[Mapping[str, str], Mapping[str, str]], Mapping[str, str]] = lambda *_: {},
) -> int:
    """Set for how many days Delta keeps the log and files that commits removed.

    Each version that was committed within these days stays readable, and the newest one. Older
    files are for VACUUM, however old the epoch in force is.

    Parameters
    ----------
    at_least : leave a longer retention as it is, because the table is a team's own
    note : gives further properties to set, by those that there are and those that change

    Returns
    -------
    Days for which versions stay readable now, from their commit.
    """
    changed = retention(spark, path, days, at_least)
    if changed:
        noted = note(state.properties(spark, path), changed)
        changes = properties_sql({**changed, **noted})
        with commits.our_commit(spark, None, None, {"step": "maintain"}) as own:
            own.sql(f"ALTER TABLE {state.sql_name(path)} SET TBLPROPERTIES {changes}")
    return max(days, days_kept(spark, path)[1]) if at_least else days


def retention(spark: SparkSession, path: str, days: int, at_least: bool) -> dict[str, str]:
    """Return the properties to set so that Delta keeps the log and removed files for these days.

    Parameters
    ----------
    at_least : as in `keep_versions`
    """
    found = days_kept(spark, path)
    # The log may not be kept for a shorter time than files.
    files = max(days, found[1]) if at_least else days
    wanted = (max(files, found[0]) if at_least else files, files)
    return {
        name: f"interval {new} days"
        for name, old, new in zip(state.RETENTION, found, wanted, strict=True)
        if old != new
    }


def vacuum(spark: SparkSession, path: str) -> None:
    """Remove files that no version within the table's retention needs.

    A file that no version names is removed if it is older than the retention.
    """
    # VACUUM lists folders four times in this many tasks. The default of 10,000 takes a minute.
    tasks = str(2 * cores(spark))
    listing = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks}
    own_session(spark, listing).sql(f"VACUUM {state.sql_name(path)}")


def held_until(spark: SparkSession, path: str) -> float | None:
    """Return until when VACUUM may remove files that a recent version needs (Unix seconds).

    VACUUM goes by the dates of removals, which are those of the writers' clocks. A clock that was
    set back dates a removal days before it was made. Then an earlier commit has a later date.

    Returns
    -------
    None: no removal in the log has such a date, or the versions are old by now.
    """
    # Files of the log go while it is read.
    own = own_session(spark, {"spark.sql.files.ignoreMissingFiles": "true"})
    name = F.col("_metadata.file_name")
    made = (
        own.read.schema(_COMMIT)
        .json(f"{path}/_delta_log/[0-9]*.json")
        .where(name.rlike(r"^\d{20}\.json$"))
        .groupBy(name.alias("name"))
        .agg(F.max("commitInfo.timestamp"), F.min("remove.deletionTimestamp"))
        .orderBy("name")
        .collect()
    )
    dates = [(at, removed) for _, at, removed in made]
    until = late_dates_end(dates, time.time() * 1000, days_kept(spark, path)[1] * _DAY_MS)
    return until and until / 1000


def late_dates_end(
    dates: Iterable[tuple[int | None, int | None]], now: float, kept: int
) -> float | None:
    """Return until when versions must stay that removals dated too early; None: none does.

    A version was the newest until its removal at most. The next commit by a clock that is right
    again came later, or none has come by now. All times are in milliseconds.

    Parameters
    ----------
    dates : of each commit, oldest first, and of the first removal in it; None: it has none
    kept : for how long versions stay
    """
    newest, until, wrong = 0.0, 0.0, False
    for at, removed in dates:
        wrong |= removed is not None and removed < newest - _SLACK_MS
        # A date in the future is of a clock that is ahead: no removal since is too early by it.
        if at is not None and newest <= at <= now + _SLACK_MS:
            newest, until, wrong = at, at + kept if wrong else until, False
    if wrong:
        until = now + kept
    return until if until > now else None


def days_kept(spark: SparkSession, path: str) -> tuple[int, int]:
    """Return the retention of the log and of removed files, in days, rounded up.

    A table without these properties has Delta's defaults.
    """
    jvm: Any = spark._jvm
    metadata = state.snapshot(spark, path).metadata()
    log = state.delta_log(spark, path).deltaRetentionMillis(metadata)
    files = jvm.org.apache.spark.sql.delta.DeltaLog.tombstoneRetentionMillis(metadata)
    return math.ceil(log / _DAY_MS), math.ceil(files / _DAY_MS)
