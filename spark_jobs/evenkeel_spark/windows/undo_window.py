"""Take back a window that was added to other rows than it had seen.

A RESTORE or a CLONE may come between a window's look at a table and its MERGE: Delta sees no
conflict then. The window stands upon rows that may lack days, and no job can go on. So the table
is brought back to the version before the window, in one commit, which every commit of somebody
else since forbids.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from delta.exceptions import MetadataChangedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.table import Table
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from evenkeel_spark.tables.write_session import active_session
from evenkeel_spark.windows import window_commits
from evenkeel_spark.windows.ancestry import DisturbedError, UnknownError
from evenkeel_spark.windows.window_notes import forget_later, newest_of_all
from partitioning.errors import DamagedError, FenceError, InputError

#: Steps of ours that add no event: what they did is done again from the version before.
REPEATABLE = {"migrate", "verify", "roll_back", "repair", "maintain", "gather"}
#: Operations that change no row.
_NO_ROWS = {"OPTIMIZE", "VACUUM START", "VACUUM END"}


@dataclass(frozen=True)
class WrongWindow:
    """A window in a state table that stands upon other rows than it had seen.

    Parameters
    ----------
    name, path : of the state table
    version : of the table when this was found
    before : the version that the window's commit followed
    why : what the window met
    """

    name: str
    path: str
    version: int
    before: int
    why: str


def undo_window(spark: SparkSession, table: Table, dry_run: bool = False) -> list[WrongWindow]:
    """Bring each state table back by the one window that was added to other rows than it had seen.

    It can be killed anywhere and run again. Tables without such a window are left as they are.

    Parameters
    ----------
    table : its spec and registry
    dry_run : say what would be taken back; change nothing

    Returns
    -------
    The windows that were taken back, or would be.

    Raises
    ------
    InputError : the tables have no windows of Evenkeel's on Delta
    FenceError : a migration is under way, or somebody else has written since. Nothing was changed
    """
    spec = table.spec
    if spec.plain or spec.iceberg:
        raise InputError(
            "expected Delta tables that Evenkeel made, found "
            + ("tables of the team's own" if spec.plain else "Iceberg tables"),
            "--undo-window",
            "Leave it out: repair brings these tables to their epoch without it",
        )
    check_tables(spark, spec)
    # Every table is looked at before the first is changed.
    found = [wrong for name in spec.state if (wrong := _find(spark, table, name)) is not None]
    # A call that was killed has brought others back, to the constraint that they had then.
    left = spec.model_copy(update={"state": {w.name: spec.state[w.name] for w in found}})
    constraints.check_admits(spark, left, table.epoch().function)
    for wrong in found:
        what = "would be" if dry_run else "is"
        say(f"{wrong.name}: {wrong.why}; the table {what} brought back to version {wrong.before}")
    if not found:
        say("no window stands upon other rows than it had seen: nothing to take back")
    if dry_run or not found:
        return found
    for wrong in found:
        retry_on_conflict(spark, partial(_take_back, spark, table, wrong.name), wrong.name)
    forget_later(table, partial(newest_of_all, spark, table))
    return found


def _find(spark: SparkSession, table: Table, name: str) -> WrongWindow | None:
    """Find the window to take back; None: there is none.

    Raises
    ------
    FenceError : somebody else's commit would be lost
    """
    path = table.spec.state[name].path
    version = state.table_version(spark, path)
    try:
        window_commits.committed_windows(spark, path, version)
    except DisturbedError as disturbed:
        found, where = disturbed, disturbed.path
    except UnknownError:
        # No window is known to be wrong: a person says what the table holds.
        return None
    else:
        return None
    before = found.commit.version - 1
    say_so = (
        "find out before which day its rows hold all events, then say so with "
        f"`evenkeel job apply_window` --holds-until DAY --of {name}"
    )
    if where != path:
        raise FenceError(
            f"is a clone of {where}, and version {before + 1} of that stands upon other rows than "
            "its window had seen",
            f"{name} ({path})",
            f"Empty it and clone version {before} of {where} again. Or {say_so}",
        )
    since = commits.history_since(spark, path, found.commit.version)
    if lost := [c for c in since if not _is_repeatable(c)]:
        raise FenceError(
            f"expected no commit of somebody else since version {before + 1}, which applied a "
            f"window upon other rows than it had seen; found that {_named(lost)}. It would be lost",
            f"{name} ({path})",
            f"RESTORE TABLE {state.sql_name(path)} TO VERSION AS OF {before} if it may be lost; "
            f"then forget again the keys that were forgotten since. Or {say_so}",
        )
    return WrongWindow(name, path, version, before, str(found))


def _is_repeatable(commit: commits.Commit) -> bool:
    return commit.meta.get("step") in REPEATABLE or commit.operation in _NO_ROWS


def _named(lost: list[commits.Commit]) -> str:
    return ", ".join(f"version {c.version} is {c.meta.get('step', c.operation)}" for c in lost[:3])


def _take_back(spark: SparkSession, table: Table, name: str) -> None:
    """Look again, and bring one table back in one commit.

    Raises
    ------
    FenceError : somebody else has written since
    """
    wrong = _find(spark, table, name)
    if wrong is None:
        return
    meta = {"step": "undo_window"}
    with commits.our_commit(spark, None, None, meta) as own, active_session(own):
        _restore(own, wrong)
    say(f"{name}: brought back to version {wrong.before}")


def _restore(spark: SparkSession, wrong: WrongWindow) -> None:
    """Bring a table back as RESTORE does, upon the very version that was looked at.

    Spark SQL's RESTORE reads a snapshot of its own, which may be newer: it would drop the commits
    between. A commit that comes meanwhile keeps its files, or is a conflict.

    Raises
    ------
    MetadataChangedException : the table has another version by now
    DamagedError : a file of the version is gone
    """
    jvm: Any = spark._jvm
    none = jvm.scala.Option.empty
    transaction = state.delta_log(spark, wrong.path).startTransaction(none(), none())
    if transaction.readVersion() != wrong.version:
        raise MetadataChangedException(
            f"{wrong.path} has version {transaction.readVersion()}, and had {wrong.version}"
        )
    transaction.readWholeTable()
    _check_files(spark, wrong)
    then = state.snapshot_at(spark, wrong.path, wrong.before)
    now_files, files = _files(spark, transaction.snapshot()), _files(spark, then)
    actions = jvm.java.util.ArrayList()
    made = getattr(getattr(jvm.org.apache.spark.sql.delta.actions, "Action$"), "MODULE$")
    for key in files.keys() - now_files.keys():
        actions.add(made.fromJson(files[key]))
    for key in now_files.keys() - files.keys():
        actions.add(made.fromJson(now_files[key]).remove())
    if not then.metadata().equals(transaction.metadata()):
        transaction.updateMetadata(then.metadata(), False)
    # Py4J passes a small number as an Integer, and Delta expects a Long.
    number = spark.sparkContext._gateway.new_array(jvm.long, 1)
    number[0] = wrong.before
    boxed = jvm.java.util.stream.LongStream.of(number).boxed().findFirst()
    version = jvm.scala.jdk.javaapi.OptionConverters.toScala(boxed)
    restore = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Restore")
    scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq()
    transaction.commit(scala, restore(version, none()))


def _files(spark: SparkSession, snapshot: Any) -> dict[tuple[str, str], str]:
    """Return the `add` action of each live file, as JSON, by its path and deletion vector."""
    rows = DataFrame(snapshot.allFiles().toDF(), spark).select(F.to_json(F.struct("*"))).collect()
    found = {}
    for (text,) in rows:
        file = json.loads(text)
        vector = json.dumps(file.get("deletionVector"), sort_keys=True)
        found[file["path"], vector] = json.dumps({"add": {**file, "dataChange": True}})
    return found


def _check_files(spark: SparkSession, wrong: WrongWindow) -> None:
    """Refuse a version that VACUUM has taken files from."""
    rows = state.read_version(spark, wrong.path, wrong.before)
    try:
        rows.write.format("noop").mode("overwrite").save()
    except SPARK_ERRORS as error:
        raise DamagedError(
            f"version {wrong.before} cannot be read any more",
            f"{wrong.name} ({wrong.path})",
            "Bring its rows back from a backup, then say what they hold with "
            f"`evenkeel job apply_window` --holds-until DAY --of {wrong.name}",
        ) from error
