"""Adopt: give a team's tables the columns slot and channel, a fence, and epoch 0.

Each table is rewritten in one commit, which fails if anybody else commits meanwhile. Killed
anywhere, a table is as it was or adopted, and a second run goes on with the others. Old versions
stay readable.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import TableVersion
from evenkeel.spec.table_spec import CHANNEL, SLOT, TableSpec
from evenkeel.table import Table
from evenkeel_spark.adoption.rewrite import Layout, change
from evenkeel_spark.adoption.survey import Survey, look
from evenkeel_spark.events.channel_tasks import PLACE, one_task_a_channel
from evenkeel_spark.events.reader import key_columns, read_events
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import ROWS_PROPERTY, check_tables
from evenkeel_spark.tables.delta.unfinished_table import REGISTRY_PROPERTY
from evenkeel_spark.tables.delta.write_session import own_session
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import channel_sql, slot_sql
from partitioning.strategies.hashing import first_function

#: What the table was adopted with: the digest of its first function.
ADOPTED_PROPERTY = "evenkeel.adopted"
#: Columns that partitioned the table before, for release.
BEFORE_PROPERTY = "evenkeel.partitionsBefore"
#: How often a rewrite is tried while others write.
ATTEMPTS = 3


def adopt(spark: SparkSession, table: Table, dry_run: bool = False) -> list[Survey]:
    """Adopt the tables of a spec and publish epoch 0.

    Parameters
    ----------
    dry_run : look, say what would be done and what is wrong, and change nothing

    Returns
    -------
    What was found in each table that was not adopted before.

    Raises
    ------
    InputError : a table that cannot be adopted; the first of what is wrong
    FenceError : others commit to a table while it is rewritten, again and again
    """
    spec = table.spec
    if not spec.plain:
        raise InputError(
            "its state tables have columns: Evenkeel makes them itself",
            f"spec of {spec.table}",
            "Run bootstrap; or give `rows` in place of `columns`",
        )
    if table.registry.numbers():
        check_tables(spark, spec)
        say(f"{spec.table} is adopted already (epoch {table.epoch().number}): nothing to do")
        return []
    spark = own_session(spark)
    function = first_function(
        key_columns(read_events(spark, spec), spec), spec.slots, spec.channel_list()
    )
    waiting = [n for n in spec.state if not _adopted(spark, table, n, function)]
    surveys = [look(spark, spec, name, function.key) for name in waiting]
    for survey in surveys:
        for line in survey.lines(spec.state[survey.name]):
            say(line)
    if problem := next((p for survey in surveys for p in survey.problems), None):
        raise problem
    if dry_run:
        say("dry run: nothing was changed")
        return surveys
    table.registry.store.check_exclusive()
    for survey in surveys:
        _rewrite(spark, table, survey, function)
    _publish(spark, table, function)
    return surveys


def _adopted(spark: SparkSession, table: Table, name: str, function: PartitioningFunction) -> bool:
    """Whether an earlier run of this very adoption rewrote the table."""
    path = table.spec.state[name].path
    if state.table_version(spark, path) < 0:
        return False
    found = state.properties(spark, path)
    return (
        found.get(state.TABLE_PROPERTY) == table.spec.table
        and found.get(REGISTRY_PROPERTY) == table.registry.url
        and found.get(ADOPTED_PROPERTY) == function.digest
        and constraints.our_constraints(spark, path) == {constraints.epoch_name(0)}
    )


def _rewrite(
    spark: SparkSession, table: Table, survey: Survey, function: PartitioningFunction
) -> None:
    """Rewrite one table in one commit; try again if others were first."""
    spec, name = table.spec, survey.name
    path, version = spec.state[name].path, survey.version
    for attempt in range(ATTEMPTS):
        if attempt:
            say(f"{name}: somebody wrote meanwhile; looking again")
            again = look(spark, spec, name, function.key)
            if again.problems:
                raise again.problems[0]
            version = again.version
        say(f"{name}: rewriting version {version}")
        try:
            _commit(spark, table, survey, version, function)
        except commits.CONFLICTS as error:
            lost = str(error).strip().splitlines()[0]
            continue
        say(f"{name}: adopted as version {state.table_version(spark, path)}")
        return
    raise FenceError(
        f"others wrote during each of {ATTEMPTS} rewrites ({lost})",
        f"{name} ({path})",
        "Pause its writers until it is adopted, then run this again: nothing was changed",
    )


def _commit(
    spark: SparkSession, table: Table, survey: Survey, version: int, function: PartitioningFunction
) -> None:
    spec, part = table.spec, table.spec.state[survey.name]
    layout = Layout(
        first={SLOT: "integer", CHANNEL: "integer"},
        partitions=[CHANNEL, *part.partitions],
        properties={
            state.VECTORS_PROPERTY: "true",
            **_retention(spark, spec, part.path),
            state.TABLE_PROPERTY: spec.table,
            state.SLOTS_PROPERTY: str(spec.slots),
            REGISTRY_PROPERTY: table.registry.url,
            ROWS_PROPERTY: str(part.rows),
            ADOPTED_PROPERTY: function.digest,
            BEFORE_PROPERTY: ",".join(survey.partitions),
            constraints.property_name(constraints.epoch_name(0)): constraints.rule(function),
        },
    )
    meta = {"step": "adopt", "epoch": 0}
    with commits.commit_session(spark, None, None, meta) as own:
        rows = state.read_version(own, part.path, version)
        slot, channel = slot_sql(function.key, len(function.slots)), channel_sql(function)
        placed = rows.withColumn(SLOT, F.expr(slot)).withColumn(CHANNEL, F.expr(channel))
        by = [CHANNEL, *part.partitions, SLOT]
        placed = one_task_a_channel(placed, len(function.channels)).sortWithinPartitions(*by)
        change(own, part.path, version, layout, placed.drop(PLACE))


def _retention(spark: SparkSession, spec: TableSpec, path: str) -> dict[str, str]:
    """Retention of the log and of removed files: `keep` days, unless the table says more."""
    found = state.properties(spark, path)
    return {name: f"interval {spec.keep} days" for name in state.RETENTION if name not in found}


def _publish(spark: SparkSession, table: Table, function: PartitioningFunction) -> None:
    names: Sequence[str] = list(table.spec.state)
    for name in names:
        if not _adopted(spark, table, name, function):
            raise FenceError(
                "is not adopted any more: somebody has changed it since",
                f"{name} ({table.spec.state[name].path})",
                "Find in DESCRIBE HISTORY who did, then run this again",
            )
    versions = {
        name: TableVersion(part.path, state.table_version(spark, part.path))
        for name, part in table.spec.state.items()
    }
    table.registry.publish(function, versions)
    say(f"epoch 0 of {table.spec.table} published in {table.registry.url}")
