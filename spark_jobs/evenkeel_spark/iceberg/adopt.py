"""Adopt Iceberg tables: two columns, a partition field, and one rewrite that main follows.

First epoch 0 is published, so that writers can route. Then the columns come: from then on a writer
has to give both. Rows from before read as UNPLACED in both. Then all rows are written again on a
branch, and main follows it. Killed anywhere, the job goes on where it stopped.
"""

from __future__ import annotations

import json
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import TableVersion
from evenkeel.registry.state_view import COLUMNS_PROPERTY, slot_column
from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.table import Table
from evenkeel_spark.adoption.adopt import (
    check_epoch_stands,
    function_to_adopt_by,
    made_from_columns,
)
from evenkeel_spark.adoption.leaving import check_not_lost, made_by_us
from evenkeel_spark.adoption.obstacles import check_space, owner_problems
from evenkeel_spark.adoption.row_tasks import by_slot_range, tasks_of
from evenkeel_spark.iceberg.placing import name_column, place, slot_name
from evenkeel_spark.iceberg.survey import IcebergSurvey, data_folder, must_rewrite, survey_table
from evenkeel_spark.runtime.command import say
from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.declared_columns import ROWS_PROPERTY
from evenkeel_spark.tables.iceberg.checks import (
    UPDATES_WELL,
    check_adopted,
    check_registry,
    iceberg_table,
)
from evenkeel_spark.tables.iceberg.schema_commit import add_columns
from evenkeel_spark.tables.iceberg.table import BRANCHES, MAIN, IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.parallelism import cores
from evenkeel_spark.tables.table_properties import (
    ADOPTING_PROPERTY,
    BEFORE_PROPERTY,
    REGISTRY_PROPERTY,
    SLOTS_PROPERTY,
    TABLE_PROPERTY,
    owner_properties,
)
from evenkeel_spark.windows.iceberg.branches import write_by_branch
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.sql import channel_sql, quoted, slot_sql

#: Times that a table is rewritten because others wrote meanwhile.
REWRITES = 3
#: Names of its branches begin so.
ADOPTING = f"{BRANCHES}adopt_"


def adopt(spark: SparkSession, table: Table, dry_run: bool = False) -> list[IcebergSurvey]:
    """Adopt the tables of a spec by the current epoch, and publish epoch 0 if there is none.

    Parameters
    ----------
    dry_run : look, say what would be done and what is wrong, and change nothing

    Returns
    -------
    The finding for each table that was not adopted before.

    Raises
    ------
    InputError : a table that cannot be adopted, the first of what is wrong
    FenceError : others commit to a table while it is rewritten, again and again
    """
    spec = table.spec
    if not spec.plain:
        raise made_from_columns(spec)
    function = function_to_adopt_by(spark, table)
    waiting = {}
    for name in spec.state:
        one = iceberg_table(spark, spec, name)
        if _adopted(table, name, one, function):
            say(f"{name}: is adopted already")
        else:
            waiting[name] = one
    surveys = [survey_table(spec, name, one, function) for name, one in waiting.items()]
    for survey in surveys:
        for line in survey.found(function):
            say(line)
        for line in survey.changes(cores(spark)) if dry_run else ():
            say(line)
    if problem := next((p for survey in surveys for p in survey.problems), None):
        raise problem
    folders = {s.name: data_folder(waiting[s.name]) for s in surveys if s.rewrites}
    known = [s for s in surveys if folders.get(s.name) is not None]
    places = [(table_in_errors(spec, s.name), str(folders[s.name]), s.size) for s in known]
    check_space(spark, places)
    if dry_run:
        say("dry run: nothing was changed")
        return surveys
    table.registry.store.check_exclusive()
    if not table.registry.numbers():
        heads = {name: iceberg_table(spark, spec, name).head() for name in spec.state}
        versions = {n: TableVersion(spec.state[n].path, at) for n, at in heads.items()}
        table.registry.publish(function, versions)
        say(f"epoch 0 of {spec.table} published in {table.registry.url}")
    crash_point("published")
    for survey in surveys:
        _take(table, survey, waiting[survey.name], function)
        say(f"{survey.name}: adopted")
    table.registry.files.released.remove()
    say(f"{spec.table} is adopted, by epoch {function.epoch}")
    return surveys


def _adopted(table: Table, name: str, one: IcebergTable, function: PartitioningFunction) -> bool:
    """Return whether a table is adopted. BEFORE_PROPERTY comes first, and TABLE_PROPERTY last.

    Raises
    ------
    InputError : it is, with another registry or one without an epoch, in another way than the spec
        has it, or its rows know another number of slots; or Evenkeel made it
    """
    spec, found = table.spec, one.properties()
    if found.get(TABLE_PROPERTY) == spec.table:
        if COLUMNS_PROPERTY in found:
            raise made_by_us(name, spec.state[name].path)
        check_registry(spec, name, found)
        check_not_lost(table, name)
        if (slots := found.get(SLOTS_PROPERTY)) != str(function.row_slots):
            raise InputError(
                f"has slots = {slots} in its rows, and epoch {function.epoch} has "
                f"{function.row_slots}",
                table_in_errors(spec, name),
                "Bring its registry back; or set `slots` to that number, if no epoch is published",
            )
    adopted = found.get(TABLE_PROPERTY) == spec.table and BEFORE_PROPERTY in found
    if adopted:
        check_adopted(spec, name, one)
    return adopted


def _take(
    table: Table, survey: IcebergSurvey, one: IcebergTable, function: PartitioningFunction
) -> None:
    """Adopt one table. Each step looks whether it is done."""
    spec, name = table.spec, survey.name
    where = table_in_errors(spec, name)
    survey = _as_now(table, survey, one, function)
    if _done(table, one, where):
        return
    found = one.properties()
    noted = json.loads(found.get(BEFORE_PROPERTY, "{}")).get("properties", {})
    # A noted value counts only where ours has taken its place since.
    before = {
        n: noted[n] if n in noted and found.get(n) == ours else found.get(n)
        for n, ours in UPDATES_WELL.items()
    }
    # A release has taken what it noted, and leaves BEFORE_PROPERTY where columns stay.
    begun = {ADOPTING_PROPERTY: spec.table, REGISTRY_PROPERTY: table.registry.url}
    begun[BEFORE_PROPERTY] = json.dumps({"properties": before})
    if before != noted or any(found.get(n) != value for n, value in begun.items()):
        one.set_properties(begun)
    crash_point("noted")
    # A release may have left the channel alone.
    rewrites = must_rewrite(one, function, survey.rows)
    if one.epoch() is None:
        add_columns(one, function.epoch)
    else:
        name_column(table.registry, one, function.epoch)
    crash_point("columns")
    if CHANNEL not in one.partitions():
        one.alter(f"ADD PARTITION FIELD {CHANNEL}")
    one.set_properties(UPDATES_WELL)
    crash_point("partitioned")
    # After a broken-off adoption, only late rows may be left.
    if rewrites:
        _rewrite(table, survey, one, function)
    # A writer that had begun before the columns were added may end only now.
    place(one, where, function, _meta(function))
    # A job that was killed may have left some.
    one.drop_branches(ADOPTING)
    crash_point("rewritten")
    if _done(table, one, where):
        return
    check_epoch_stands(table, name, function)
    one.set_properties(
        {
            **owner_properties(table, function.row_slots),
            ROWS_PROPERTY: str(spec.state[name].rows),
        }
    )
    # Two that had begun at once: the last one to say so has it.
    _done(table, one, where)
    check_epoch_stands(table, name, function)


def _done(table: Table, one: IcebergTable, where: str) -> bool:
    """Return whether another attempt of this spec has adopted a table.

    Raises
    ------
    InputError : another spec or registry has, or is about to
    """
    one.refresh()
    found = one.properties()
    for problem in owner_problems(found, where, (table.spec.table, table.registry.url)):
        raise problem
    return TABLE_PROPERTY in found


def _as_now(
    table: Table, survey: IcebergSurvey, one: IcebergTable, function: PartitioningFunction
) -> IcebergSurvey:
    """Look again if somebody has written since: the tables before this one may take hours."""
    one.refresh()
    if one.refs().get(MAIN) == survey.head:
        return survey
    say(f"{survey.name}: somebody wrote meanwhile; looking again")
    survey = survey_table(table.spec, survey.name, one, function)
    # Another attempt may have adopted it meanwhile.
    if survey.problems and not _done(table, one, table_in_errors(table.spec, survey.name)):
        raise survey.problems[0]
    return survey


def _meta(function: PartitioningFunction) -> dict[str, object]:
    return {"step": "adopt", "epoch": function.epoch}


def _rewrite(
    table: Table, survey: IcebergSurvey, one: IcebergTable, function: PartitioningFunction
) -> None:
    """Write all rows again on a branch, each where the function puts it, and let main follow."""
    where = table_in_errors(table.spec, survey.name)
    for _ in range(REWRITES):
        if _done(table, one, where):
            return
        survey = _as_now(table, survey, one, function)
        base = survey.head
        say(f"{survey.name}: rewriting {survey.rows:,} rows")
        write = partial(_write, one.name, survey, function)
        if write_by_branch(one, base, ADOPTING, _meta(function), write):
            return
    raise FenceError(
        f"others wrote during each of {REWRITES} rewrites",
        where,
        "Pause its writers until it is adopted, then run this again",
    )


def _write(
    name: str,
    survey: IcebergSurvey,
    function: PartitioningFunction,
    own: SparkSession,
    target: str,
) -> None:
    """Write all rows of a branch again, in as many tasks and files as they fill."""
    slots = function.row_slots
    table = IcebergTable(own, name)
    rows = own.table(target).withColumnRenamed(slot_name(table), SLOT)
    placed = rows.withColumn(SLOT, F.expr(slot_sql(function.key, slots)))
    placed = placed.withColumn(CHANNEL, F.expr(channel_sql(function)))
    tasks = tasks_of(len(function.channels), survey.channels, survey.size)
    spread = by_slot_range(placed, tasks, slots).sortWithinPartitions(CHANNEL, SLOT)
    # Not the name that it has now: by another epoch's this would move all rows back.
    named = spread.select(*map(quoted, rows.columns)).withColumnRenamed(
        SLOT, slot_column(function.epoch)
    )
    write = named.writeTo(target)
    # Spread and sorted already; by day, say, below that.
    write = write.option("distribution-mode", "none").option("fanout-enabled", "true")
    write.overwrite(F.lit(True))
