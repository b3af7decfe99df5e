"""Publish a migration of Iceberg tables: main follows what has passed the gate.

From the claim of the epoch on nobody can go back, so each retry goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from evenkeel.pipeline.publish import publish_checked
from evenkeel.registry.epochs import Epoch
from evenkeel.registry.verdict import claim_epoch
from evenkeel_spark.iceberg.measuring import measure_branch
from evenkeel_spark.iceberg.migrate import branch_prefix, check_fence, move
from evenkeel_spark.iceberg.placing import name_column, place_late
from evenkeel_spark.plans.approved_plan import Migration, published
from evenkeel_spark.plans.attempts import check_newest_attempt
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.iceberg.checks import adopted_tables
from evenkeel_spark.tables.iceberg.commits import SUMMARY
from evenkeel_spark.tables.iceberg.table import MAIN, IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from partitioning.errors import DamagedError, FenceError, InputError

STEP = "verify"
#: Times that rows are moved again because others wrote meanwhile. After the first, writers by the
#: epoch before are refused, so that only those that had begun can still come.
MOVES_AGAIN = 10


def publish(spark: SparkSession, migration: Migration) -> Epoch:
    """Let main follow the branches that have passed, and publish. Again: it goes on.

    Raises
    ------
    FenceError : the run was rolled back, or another run publishes this epoch
    GateError : the tables did not pass
    """
    table, run, plan = migration.table, migration.run, migration.plan
    tables = adopted_tables(spark, table.spec)

    def look() -> dict[str, int]:
        for name, one in tables.items():
            check_fence(migration, name, one)
        return run.verify.read().tables

    def land() -> dict[str, int]:
        check_newest_attempt(migration)
        claim_epoch(table.registry.files, migration.after.epoch, plan.digest)
        crash_point("claimed")
        return _follow(migration, tables)

    attempt = migration.attempt
    try:
        epoch = publish_checked(table.spec, table.registry, run, plan, attempt, look, land)
    except FenceError:
        if not published(migration):
            raise
        # The same job ran twice at once, and the other one has published.
        epoch = table.registry.epoch(migration.after.epoch)
    say(f"epoch {epoch.number} is published")
    crash_point("landed")
    settle_tables(spark, migration)
    return epoch


def settle_tables(spark: SparkSession, migration: Migration) -> None:
    """See that writers by the published epoch are admitted, and place rows that came late.

    If a later epoch is current, it only drops the run's branches.
    """
    table = migration.table
    # The epoch is published, so tables may have joined or left since.
    for name, one in adopted_tables(spark, table.spec, members=False).items():
        if table.registry.current().number == migration.after.epoch:
            _settle(migration, name, one)
        one.drop_branches(branch_prefix(migration))
    crash_point("settled")


def _settle(migration: Migration, name: str, one: IcebergTable) -> None:
    # A late rollback may have opened it again.
    name_column(migration.table.registry, one, migration.after.epoch)
    try:
        where = table_in_errors(migration.table.spec, name)
        whole = migration.table.spec.state[name].rows == "one"
        place_late(one, where, migration.after, migration.meta(STEP), whole)
    except (FenceError, InputError) as error:
        # The epoch is in force whatever comes.
        say(f"late rows wait for maintain: {error}")


def _follow(migration: Migration, tables: Mapping[str, IcebergTable]) -> dict[str, int]:
    """Let main follow the snapshots that have passed the gate, and return them by table.

    From the claim on nobody can go back. So a table whose main has moved is moved again from where
    it is now, and must hold what main holds. The gate's other expectations are not asked again.
    """
    passed = dict(migration.run.verify.read().tables)
    for name, table in tables.items():
        again = 0
        # A person may have given the plan up since it was to be published.
        check_newest_attempt(migration)
        while not _follow_one(migration, table, passed[name]):
            # The move of the last turn is followed, too.
            if again == MOVES_AGAIN:
                raise busy(migration)
            again += 1
            # A writer that had begun before the table was closed has come in between.
            moved = move(migration, name, table, STEP)
            measured, _ = measure_branch(migration, name, table, moved)
            check_same(measured, table_in_errors(migration.table.spec, name))
            passed[name] = moved.after
            record = migration.run.verify.read()
            migration.run.verify.write(record.model_copy(update={"tables": passed}))
    return passed


def _follow_one(migration: Migration, table: IcebergTable, passed: int) -> bool:
    """Let main follow the branch at a snapshot; False: main has moved, or the branch is gone."""
    table.refresh()
    if _has_followed(migration, table, passed):
        return True
    # Another run may have opened it before this one had claimed the epoch.
    name_column(migration.table.registry, table, migration.after.epoch)
    branches = [n for n, at in table.refs().items() if at == passed and n != MAIN]
    if branches and _is_next(migration, table, passed) and table.follow(branches[0]):
        crash_point("followed")
        return True
    return False


def _has_followed(migration: Migration, table: IcebergTable, passed: int) -> bool:
    """Return whether main has followed a branch, and no repair has put its rows back since."""
    since = table.since(passed) or []
    back = any(c.epoch is not None and c.epoch < migration.after.epoch for c in since)
    return table.descends(passed) and not back


def _is_next(migration: Migration, table: IcebergTable, passed: int) -> bool:
    """Return whether only this plan's commits lead from main to a branch.

    Somebody may have rolled main back: to follow would bring those rows again.
    """
    between = table.since(table.head(), passed)
    ours = f"{SUMMARY}digest"
    return between is not None and all(
        c.summary.get(ours) == migration.plan.digest for c in between
    )


def check_same(measured: Mapping[str, Any], where: str) -> None:
    """Refuse a branch with other rows than main, or rows out of place.

    Raises
    ------
    DamagedError : it is so, which no writer can bring about
    """
    same = all(measured[f"{m}_before"] == measured[f"{m}_after"] for m in ("rows", "checksum"))
    if measured["misplaced"] or not same:
        raise DamagedError(
            f"a move would leave {measured['rows_after']:,} of {measured['rows_before']:,} rows, "
            f"{measured['misplaced']:,} of them elsewhere",
            where,
            "Tell Evenkeel's developers; main is as it was",
        )


def busy(migration: Migration) -> FenceError:
    """Return the error of a table that others write all the time."""
    return FenceError(
        f"others wrote during each of {MOVES_AGAIN} moves", migration.run.url, "Run verify again"
    )
