"""The fence: check, before each write, that a migration of Delta tables may continue.

The attempt must be the newest, and the tables those that the plan was made from. Nothing here
changes a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Epoch
from evenkeel.registry.verdict import PUBLISH
from evenkeel.table import Table
from evenkeel_spark.plans.approved_plan import AGAIN, Migration
from evenkeel_spark.plans.attempts import check_newest_attempt, check_parent_current
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_ours
from evenkeel_spark.tables.moving import repair_advice
from partitioning.errors import FenceError
from partitioning.planning.plan import Plan

#: Operations of commits that leave every row where the table's constraint admits it.
_ORDINARY = {"MERGE", "UPDATE", "DELETE", "OPTIMIZE", "REORG", "VACUUM START", "VACUUM END"}
_APPENDS = {"WRITE": "mode", "STREAMING UPDATE": "outputMode"}
_PROPERTIES = {"SET TBLPROPERTIES", "UNSET TBLPROPERTIES"}
#: Prefixes of table properties that a migration may rely on, and those among them that it does not:
#: checkpoints, statistics, sizes of files, and inputs of columns.
_RELIED = ("delta.", "evenkeel.")
_HARMLESS = (
    "delta.autoOptimize.",
    "delta.checkpoint",
    "delta.dataSkipping",
    "delta.parquet.",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
    "evenkeel.inputs",
)


def owned(spark: SparkSession, migration: Migration, name: str) -> bool:
    """Return whether this plan is moving a state table, or has sealed it.

    The moving constraint names its plan. A sealed table has only the constraint of the new epoch,
    which names none. Then the newest commit of a plan in the table's history decides.
    """
    existing = set(constraints.of(spark, migration.path(name)))
    if migration.plan.run and migration.moving in existing:
        return True
    if migration.moving not in existing and migration.new not in existing:
        return False
    since = migration.plan.tables[name]
    return commits.owner(spark, migration.path(name), since) == migration.plan.digest


def existing_constraints(spark: SparkSession, migration: Migration, name: str) -> set[str]:
    """Return the names of the migration's three constraints that a state table has.

    Raises
    ------
    FenceError : it has none of them, or one of another epoch, or another plan has added them
    """
    path = migration.path(name)
    check_ours(spark, migration.table.spec, name)
    found = constraints.ours(spark, path)
    for constraint, sql in found.items():
        if not any(constraints.same_sql(rule, sql) for rule in migration.rules.get(constraint, [])):
            raise FenceError(
                f"has the constraint {constraint}, which is not this plan's "
                f"(epoch {migration.before.epoch} to {migration.after.epoch})",
                f"{name} ({path})",
                f"{constraints.move_advice(spark, migration.table.spec, path)}; then plan again",
            )
    if not found:
        raise FenceError(
            f"has lost its constraint {migration.old}: rows may be in any channel",
            f"{name} ({path})",
            repair_advice(migration.table.spec.table),
        )
    if set(found) != {migration.old} and not owned(spark, migration, name):
        raise FenceError(
            f"has the constraint {', '.join(sorted(found))}, where another plan brought it",
            f"{name} ({path})",
            f"{constraints.move_advice(spark, migration.table.spec, path)}; then plan again",
        )
    return set(found)


def fence(spark: SparkSession, migration: Migration, name: str) -> tuple[int, set[str]]:
    """Check for one state table that nothing has changed since the plan but ordinary writes.

    Returns
    -------
    The table's version when this began, which no earlier attempt can have used as its
    transaction id; and the names of its constraints.

    Raises
    ------
    FenceError : the run was rolled back, another epoch is current, the table's constraint is not
        ours, or somebody has done more to the table than write
    """
    plan, path = migration.plan, migration.path(name)
    version = state.table_version(spark, path)
    state.forget_cached(spark, path)
    # A job that was given up must find its transaction id spent, however late it wakes.
    commits.check_remembers(spark, path, name)
    # Read the attempt after the version. The next fence sees a verdict that comes later. An UPDATE
    # between the two fails by the constraint of the epoch before, or by a spent transaction id. At
    # worst a moving constraint stays behind, which roll_back or repair drops.
    attempt = check_newest_attempt(migration)
    # No new run may begin beside one that is decided to publish.
    decided = attempt.verdict == PUBLISH
    again = repair_advice(migration.table.spec.table) if decided else AGAIN
    existing = existing_constraints(spark, migration, name)
    check_parent_current(migration)
    weighed = plan.tables[name]
    since = migration.in_order.get(name, weighed)
    if version < since:
        raise FenceError(
            f"is at version {version}, the plan saw version {weighed}"
            + (f", and we have seen {since}" if since > weighed else "")
            + ": the table was made again",
            f"{name} ({path})",
            again,
        )
    for commit in commits.history_since(spark, path, since):
        if (wrong := _foreign(commit, plan)) is not None:
            when = datetime.fromtimestamp(commit.timestamp, UTC).isoformat(" ", "seconds")
            raise FenceError(
                f"version {commit.version} ({when}) is {wrong}, since the plan saw version "
                f"{weighed}",
                f"{name} ({path})",
                again,
            )
        since = commit.version
    migration.in_order[name] = since
    return version, existing


def our_commits(spark: SparkSession, migration: Migration, name: str) -> list[commits.Commit]:
    """List the commits that moved rows of a state table for this plan, oldest first.

    Commits before the plan's last roll back are left out.
    """
    moved: list[commits.Commit] = []
    for commit in commits.history_since(spark, migration.path(name), migration.plan.tables[name]):
        if commit.meta.get("digest") == migration.plan.digest:
            if commit.meta.get("step") == "roll_back":
                moved.clear()
            elif commit.operation in commits.MOVE_OPERATIONS:
                moved.append(commit)
    return moved


def plans_since(
    spark: SparkSession, table: Table, name: str, current: Epoch
) -> Iterator[tuple[str, str]]:
    """Yield run and digest of the commits of plans since the current epoch, newest first.

    A table that was made again has versions from 0. All its commits count then.
    """
    path, known = table.spec.state[name].path, current.tables.get(name)
    since = -1
    if known is not None and known.version <= state.table_version(spark, path):
        since = known.version
    for commit in commits.newest_first(spark, path):
        if commit.version <= since:
            return
        run, digest = commit.meta.get("run"), commit.meta.get("digest")
        if run and digest:
            yield str(run), str(digest)


def _foreign(commit: commits.Commit, plan: Plan) -> str | None:
    """Say what is wrong with a commit made since the plan; None: an ordinary write, or ours."""
    digest = commit.meta.get("digest")
    if digest == plan.digest:
        return None
    if digest is not None:
        return f"another plan's {commit.operation} ({str(digest)[:12]})"
    if commit.operation in _PROPERTIES:
        relied = _relied_on(commit)
        return f"{commit.operation} of {', '.join(relied)}" if relied else None
    if commit.operation in _APPENDS:
        mode = commit.parameters.get(_APPENDS[commit.operation])
        return None if mode == "Append" else f"{commit.operation} with mode {mode}"
    return None if commit.operation in _ORDINARY else f"{commit.operation}, not an ordinary write"


def _relied_on(commit: commits.Commit) -> list[str]:
    """List the table properties that a commit changes and that a migration may rely on.

    The job maintain alone may change how long versions stay readable, with a note of before.
    """
    changed = json.loads(commit.parameters.get("properties") or "{}")
    harmless = (*_HARMLESS, *(state.MAINTAINED if commit.meta.get("step") == "maintain" else ()))
    return sorted(
        name for name in changed if name.startswith(_RELIED) and not name.startswith(harmless)
    )
