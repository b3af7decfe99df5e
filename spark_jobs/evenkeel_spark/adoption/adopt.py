"""Adopt: give a team's tables the columns slot and channel, a constraint, and epoch 0.

Epoch 0 is published first, so that writers can route their rows from the moment at which a table
asks for it. Each table is then rewritten in one commit, which fails if anybody else commits
meanwhile. Killed anywhere, a table is as it was or adopted, and a second run goes on with the
others. Old versions stay readable, if they were committed within the table's retention.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import TableVersion
from evenkeel.runs.planning import function_of_epoch_0
from evenkeel.spec.loading import check_slot_multiple
from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.adoption.leaving import made_by_us
from evenkeel_spark.adoption.obstacles import check_space
from evenkeel_spark.adoption.rewrite import Layout, change
from evenkeel_spark.adoption.row_tasks import by_slot_range, rows_of_a_file, tasks_of
from evenkeel_spark.adoption.survey import Survey, look
from evenkeel_spark.events.aggregate import exact
from evenkeel_spark.events.reader import read_events, typed_key
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.declared_columns import ROWS_PROPERTY
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.parallelism import cores
from evenkeel_spark.tables.spark_errors import CONFLICTS, first_line
from evenkeel_spark.tables.table_properties import (
    BEFORE_PROPERTY,
    REGISTRY_PROPERTY,
    TABLE_PROPERTY,
    owner_properties,
)
from evenkeel_spark.tables.write_session import own_session
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import channel_sql, quoted, slot_sql

#: How often a rewrite is tried while others write.
REWRITE_ATTEMPTS = 3
_MAX_ROWS_SETTING = "spark.sql.files.maxRecordsPerFile"


def made_from_columns(spec: TableSpec) -> InputError:
    """Return the error of a spec whose tables Evenkeel makes itself."""
    return InputError(
        "its state tables have columns: Evenkeel makes them itself",
        f"spec of {spec.table}",
        "Run bootstrap; or give `rows` in place of `columns`",
    )


def adopt(spark: SparkSession, table: Table, dry_run: bool = False) -> list[Survey]:
    """Adopt the tables of a spec by the current epoch, and publish epoch 0 if there is none.

    Parameters
    ----------
    dry_run : look, say what would be done and what is wrong, and change nothing

    Returns
    -------
    The finding for each table that was not adopted before.

    Raises
    ------
    InputError : a table that cannot be adopted, the first of what is wrong; or one that an earlier
        run adopted by another spec
    FenceError : others commit to a table while it is rewritten, again and again
    """
    spec = table.spec
    if not spec.plain:
        raise made_from_columns(spec)
    spark = own_session(spark)
    function = function_to_adopt_by(spark, table)
    waiting = [n for n in spec.state if not _adopted(spark, table, n, function)]
    for name in spec.state:
        if name not in waiting:
            _check_as_before(spark, spec, name)
            say(f"{name}: is adopted already")
    surveys = [look(spark, spec, name, function) for name in waiting]
    for survey in surveys:
        for line in survey.found(function):
            say(line)
        for line in survey.changes(spec.state[survey.name], cores(spark)) if dry_run else ():
            say(line)
    if problem := next((p for survey in surveys for p in survey.problems), None):
        raise problem
    rewritten = [s for s in surveys if not s.fits]
    places = [(table_in_errors(spec, s.name), spec.state[s.name].path, s.size) for s in rewritten]
    check_space(spark, places)
    if dry_run:
        say("dry run: nothing was changed")
        return surveys
    if not surveys:
        check_tables(spark, spec)
    table.registry.store.check_exclusive()
    _publish(spark, table, function, surveys)
    crash_point("published")
    for survey in surveys:
        _rewrite(spark, table, survey, function)
        crash_point("adopted")
    _end(spark, table, function)
    return surveys


def function_to_adopt_by(spark: SparkSession, table: Table) -> PartitioningFunction:
    """Return the function of the current epoch, or make the first one.

    Raises
    ------
    InputError : the spec no longer fits the epoch
    """
    spec = table.spec
    key = typed_key(read_events(spark, spec), spec)
    if not table.registry.numbers():
        return function_of_epoch_0(spec, key)
    epoch = table.epoch()
    found, asked = epoch.function, f"spec of {spec.table}"
    check_slot_multiple(
        spec, str(len(found.slots)), f"epoch {epoch.number} of {table.registry.url}"
    )
    if tuple(found.key) != tuple(key):
        known = ", ".join(f"{c.name} {c.type}" for c in found.key)
        raise InputError(
            f"epoch {epoch.number} has the key {known}, the spec and its input have "
            f"{', '.join(f'{c.name} {c.type}' for c in key)}",
            asked,
            "Set them back, or give a new registry",
        )
    if unknown := [n for n in spec.state if n not in epoch.tables]:
        raise InputError(
            f"epoch {epoch.number} knows no state table {unknown[0]!r}: they are fixed at adoption",
            asked,
            "Take it out of the spec, or give it a spec and a registry of its own",
        )
    return found


def _adopted(spark: SparkSession, table: Table, name: str, function: PartitioningFunction) -> bool:
    """Return whether a table is adopted with this registry.

    Once there are epochs, its constraint may be of any of them: other jobs look after it. A
    registry that has moved is known by the constraint alone.
    """
    path = table.spec.state[name].path
    if state.table_version(spark, path) < 0:
        return False
    found = state.properties(spark, path)
    if found.get(TABLE_PROPERTY) != table.spec.table:
        return False
    known = found.get(REGISTRY_PROPERTY) == table.registry.url
    sealed = constraints.is_sealed(spark, table.spec, path, function)
    return (known or sealed) if table.registry.numbers() else (known and sealed)


def _check_as_before(spark: SparkSession, spec: TableSpec, name: str) -> None:
    """Refuse a table that an earlier run adopted with other rows or partitions than the spec's."""
    part = spec.state[name]
    rows = state.properties(spark, part.path).get(ROWS_PROPERTY)
    if rows is None:
        raise made_by_us(name, part.path)
    found = state.partition_columns(spark, part.path)
    if rows == part.rows and found == [CHANNEL, *part.partitions]:
        return
    raise InputError(
        f"is adopted with rows: {rows} and partitioned by {', '.join(found)}; the spec says rows: "
        f"{part.rows} and partitions: {', '.join(part.partitions) or 'none'}",
        f"{name} ({part.path})",
        "Set them back; or release the table, and adopt it again",
    )


def _rewrite(
    spark: SparkSession, table: Table, survey: Survey, function: PartitioningFunction
) -> None:
    """Rewrite one table in one commit; look and try again if others were first."""
    spec, name = table.spec, survey.name
    path = spec.state[name].path
    for attempt in range(REWRITE_ATTEMPTS):
        # The tables before this one may have taken hours to rewrite.
        if attempt or state.table_version(spark, path) != survey.version:
            if _adopted(spark, table, name, function):
                say(f"{name}: another attempt has adopted it")
                return
            say(f"{name}: somebody wrote meanwhile; looking again")
            survey = look(spark, spec, name, function)
            if survey.problems:
                raise survey.problems[0]
        check_epoch_stands(table, name, function)
        say(f"{name}: {'sealing' if survey.fits else 'rewriting'} version {survey.version}")
        try:
            _commit(spark, table, survey, function)
        except CONFLICTS as error:
            lost = first_line(error)
            continue
        # A run of the spec's other tables may have published while this was written.
        check_epoch_stands(table, name, function)
        say(f"{name}: adopted as version {state.table_version(spark, path)}")
        return
    raise FenceError(
        f"others wrote during each of {REWRITE_ATTEMPTS} rewrites ({lost})",
        f"{name} ({path})",
        "Pause its writers until it is adopted, then run this again: nothing was changed",
    )


def check_epoch_stands(table: Table, name: str, function: PartitioningFunction) -> None:
    """Refuse to go on under an epoch that is over: no run would move the table's rows."""
    current = table.epoch()
    if current.function.digest != function.digest and name not in current.tables:
        raise FenceError(
            f"epoch {current.number} was published meanwhile, and epoch {function.epoch} is over",
            table_in_errors(table.spec, name),
            "Run `evenkeel release SPEC` with a spec of that table alone, then adopt it with a "
            "spec and a registry of its own",
        )


def _commit(
    spark: SparkSession, table: Table, survey: Survey, function: PartitioningFunction
) -> None:
    """Set columns, partitioning, properties and constraint, and place all rows, in one commit."""
    spec, part, epoch = table.spec, table.spec.state[survey.name], function.epoch
    layout = Layout(
        first={SLOT: "integer", CHANNEL: "integer"},
        partitions=[CHANNEL, *part.partitions],
        properties={
            **{name: changed.adopted for name, changed in survey.before.properties.items()},
            **owner_properties(table, function.row_slots),
            ROWS_PROPERTY: str(part.rows),
            BEFORE_PROPERTY: survey.before.text(),
            constraints.property_name(constraints.epoch_name(epoch)): constraints.fence_rule(
                spec, function
            ),
        },
    )
    meta = {"step": "adopt", "epoch": epoch}
    files = {_MAX_ROWS_SETTING: str(rows_of_a_file(survey.rows, survey.size))}
    with commits.our_commit(spark, None, None, meta, files) as own:
        rows = None
        if not survey.fits:
            found = state.read_version(own, part.path, survey.version)
            rows = _placed(found, survey, function, part.partitions)
        with exact(table_in_errors(spec, survey.name)):
            change(own, part.path, survey.version, layout, rows, alone=True)


def _placed(
    rows: DataFrame, survey: Survey, function: PartitioningFunction, below: Sequence[str]
) -> DataFrame:
    """Give rows their slot and channel, in as many tasks and files as they fill."""
    slots = function.row_slots
    slot, channel = slot_sql(function.key, slots), channel_sql(function)
    placed = rows.withColumn(SLOT, F.expr(slot)).withColumn(CHANNEL, F.expr(channel))
    tasks = tasks_of(len(function.channels), survey.channels, survey.size)
    by = [F.col(quoted(c)) for c in (CHANNEL, *below, SLOT)]
    return by_slot_range(placed, tasks, slots).sortWithinPartitions(*by)


def _publish(
    spark: SparkSession, table: Table, function: PartitioningFunction, surveys: Sequence[Survey]
) -> None:
    """Publish epoch 0, with the versions that were looked at, unless there are epochs."""
    if table.registry.numbers():
        return
    looked = {survey.name: survey.version for survey in surveys}
    versions = {
        n: TableVersion(p.path, looked.get(n, state.table_version(spark, p.path)))
        for n, p in table.spec.state.items()
    }
    table.registry.publish(function, versions)
    say(f"epoch 0 of {table.spec.table} published in {table.registry.url}")


def _end(spark: SparkSession, table: Table, function: PartitioningFunction) -> None:
    """See that all tables are adopted, and take the mark of an earlier release away."""
    for name, part in table.spec.state.items():
        if not _adopted(spark, table, name, function):
            raise FenceError(
                "is not adopted any more: somebody has changed it since",
                f"{name} ({part.path})",
                "Find in DESCRIBE HISTORY who did, then run this again",
            )
    table.registry.files.released.remove()
    say(f"{table.spec.table} is adopted, by epoch {function.epoch}")
