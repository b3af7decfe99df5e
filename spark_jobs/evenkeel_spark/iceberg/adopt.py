"""Adopt Iceberg tables: two columns, a partition field, and one rewrite that main follows.

First epoch 0 is published, so that writers can route. Then the columns come: from then on a writer
has to give both. Rows from before read as UNPLACED in both. Then all rows are written again on a
branch, and main follows it. Killed anywhere, the job goes on where it stopped.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import TableVersion
from evenkeel.spec.table_spec import CHANNEL, SLOT, TableSpec
from evenkeel.table import Table
from evenkeel_spark.adoption.row_tasks import by_slot_range, tasks_of
from evenkeel_spark.events.reader import null_key, read_events, typed_key
from evenkeel_spark.iceberg.placing import count_misplaced, place, slot_name
from evenkeel_spark.migration.fence import crash_point
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta.checksums import duplicate_keys
from evenkeel_spark.tables.delta.preflight import ROWS_PROPERTY
from evenkeel_spark.tables.delta.state import (
    BEFORE_PROPERTY,
    REGISTRY_PROPERTY,
    SLOTS_PROPERTY,
    TABLE_PROPERTY,
    comparable,
)
from evenkeel_spark.tables.iceberg.checks import iceberg_table, table_in_errors
from evenkeel_spark.tables.iceberg.table import BRANCHES, MAIN, IcebergTable, slot_column
from partitioning.errors import EvenkeelError, FenceError, InputError
from partitioning.function.function import KeyColumn, PartitioningFunction
from partitioning.function.sql import channel_sql, quoted, slot_sql
from partitioning.strategies.hashing import first_function

#: Times that a table is rewritten because others wrote meanwhile.
REWRITES = 3
#: Part of a table's rows that one UPDATE may place. If more are elsewhere, all are written again.
FEW = 0.1
#: A move writes moved rows and deletion vectors, and no row that stays.
UPDATE_MODE = "write.update.mode"
_WANTED = {UPDATE_MODE: "merge-on-read"}
#: Iceberg's format that has deletion vectors and defaults of columns.
_FORMAT, _FORMAT_VERSION = "format-version", 3


@dataclass(frozen=True)
class Survey:
    """Hold what was found in one table.

    Parameters
    ----------
    rows, size, files : of main; size in bytes
    problems : why it cannot be adopted; empty: it can
    """

    name: str
    rows: int
    size: int
    files: int
    problems: tuple[EvenkeelError, ...]

    def lines(self) -> Iterator[str]:
        """Yield what a person wants to know before a rewrite, a line each."""
        yield f"{self.name}: {self.rows:,} rows, {self.size:,} bytes in {self.files:,} files"
        yield (
            f"{self.name}: would get the columns slot_N and {CHANNEL}, and a partition field "
            f"{CHANNEL}; one snapshot would write all rows again"
        )
        for problem in self.problems:
            yield f"{self.name}: cannot be adopted: {problem}"


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
    InputError : a table that cannot be adopted, the first of what is wrong
    FenceError : others commit to a table while it is rewritten, again and again
    """
    spec = table.spec
    function = _function(spark, table)
    waiting = {}
    for name in spec.state:
        one = iceberg_table(spark, spec, name)
        if not _adopted(spec, one, function):
            waiting[name] = one
    surveys = [_survey(spec, name, one, function) for name, one in waiting.items()]
    for survey in surveys:
        for line in survey.lines():
            say(line)
    if problem := next((p for survey in surveys for p in survey.problems), None):
        raise problem
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
    for name, one in waiting.items():
        _take(table, name, one, function)
        say(f"{name}: adopted")
    table.registry.files.released.remove()
    say(f"{spec.table} is adopted, by epoch {function.epoch}")
    return surveys


def _function(spark: SparkSession, table: Table) -> PartitioningFunction:
    """Return the function of the current epoch, or make the first one."""
    spec = table.spec
    key = typed_key(read_events(spark, spec), spec)
    if not table.registry.numbers():
        return first_function(key, spec.slots, spec.channel_list())
    found = table.epoch().function
    if tuple(found.key) != tuple(key) or len(found.slots) != spec.slots:
        known = ", ".join(f"{c.name} {c.type}" for c in found.key)
        raise InputError(
            f"epoch {found.epoch} has the key {known} and {len(found.slots)} slots, the spec and "
            f"its input have {', '.join(f'{c.name} {c.type}' for c in key)} and {spec.slots}",
            f"spec of {spec.table}",
            "Set them back, or give a new registry",
        )
    return found


def _adopted(spec: TableSpec, table: IcebergTable, function: PartitioningFunction) -> bool:
    """Return whether a table is adopted. BEFORE_PROPERTY comes first, and TABLE_PROPERTY last."""
    found = table.properties()
    return found.get(TABLE_PROPERTY) == spec.table and BEFORE_PROPERTY in found


def _survey(
    spec: TableSpec, name: str, table: IcebergTable, function: PartitioningFunction
) -> Survey:
    """Look at one table that is not adopted, and change nothing."""
    problems = list(_problems(spec, name, table, function.key))
    if any("no column" in problem.what for problem in problems):
        raise problems[0]
    total = table.files().agg(F.sum("rows"), F.sum("size"), F.count(F.lit(1))).collect()[0]
    rows = table.rows()
    where = table_in_errors(spec, name)
    nulls = rows.where(null_key(spec)).count()
    if nulls and spec.null_keys != "keep":
        problems.append(
            InputError(
                f"{nulls:,} rows have a null in the key ({', '.join(spec.key)})",
                where,
                "Correct them, or set null_keys: keep in the spec",
            )
        )
    if spec.state[name].rows == "one":
        keyed = rows if SLOT in rows.columns else rows.withColumn(SLOT, F.lit(0))
        if found := duplicate_keys(keyed, function):
            problems.append(
                InputError(
                    f"expected one row a key, found {found:,} keys with several",
                    where,
                    "Remove what is too many, or set rows: many in the spec",
                )
            )
    return Survey(name, rows.count(), total[1] or 0, total[2], tuple(problems))


def _problems(
    spec: TableSpec, name: str, table: IcebergTable, key: tuple[KeyColumn, ...]
) -> Iterator[EvenkeelError]:
    """Yield what stands in the way whatever rows there are."""
    where, found, schema = table_in_errors(spec, name), table.properties(), table.schema()
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    if missing := [c for c in spec.key if c not in kinds]:
        yield InputError(
            f"there is no column {', '.join(map(repr, missing))}",
            where,
            f"Its columns: {', '.join(list(kinds)[:40])}",
        )
        return
    if MAIN not in table.refs():
        yield InputError("has no snapshot yet", where, "Write its first rows")
    if (owner := found.get(TABLE_PROPERTY)) is not None:
        yield InputError(
            f"is adopted as a table of {owner!r} with registry {found.get(REGISTRY_PROPERTY)}",
            where,
            "Release it there first (`evenkeel release`), or correct the spec",
        )
    if int(found.get(_FORMAT, 2)) < _FORMAT_VERSION:
        yield InputError(
            f"is of format {found.get(_FORMAT)}, which has no deletion vectors: a move would write "
            "whole files again",
            where,
            f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{_FORMAT}' = '{_FORMAT_VERSION}')",
        )
    for column in key:
        if kinds[column.name] != column.type:
            yield InputError(
                f"key column {column.name!r}: expected {column.type}, as in the input, found "
                f"{kinds[column.name]}",
                where,
                "Convert one of them: a key must hash alike in both",
            )
    ours = BEFORE_PROPERTY in found
    if taken := [c for c in kinds if c.lower() in (SLOT, CHANNEL) and not ours]:
        yield InputError(
            f"has a column {', '.join(map(repr, taken))}, which Evenkeel would add",
            where,
            "Rename the column",
        )
    for field in schema:
        if not comparable(field.dataType):
            yield InputError(
                f"column {field.name!r} is {field.dataType.simpleString()}: rows with a map or a "
                "variant cannot be compared before and after they move",
                where,
                "Keep it in another table, or as an array of structs",
            )


def _take(table: Table, name: str, one: IcebergTable, function: PartitioningFunction) -> None:
    """Adopt one table. Each step looks whether it is done."""
    spec, where = table.spec, table_in_errors(table.spec, name)
    found = one.properties()
    if BEFORE_PROPERTY not in found:
        before = {n: found.get(n) for n in _WANTED}
        one.set_properties({BEFORE_PROPERTY: json.dumps({"properties": before})})
    crash_point("noted")
    names = one.schema().names
    if CHANNEL not in names:
        one.add_columns(function.epoch)
    elif slot_name(one) != slot_column(function.epoch):
        one.rename(slot_name(one), slot_column(function.epoch))
    crash_point("columns")
    if CHANNEL not in one.partitions():
        one.alter(f"ADD PARTITION FIELD {CHANNEL}")
    one.set_properties(_WANTED)
    crash_point("partitioned")
    _rewrite(one, name, function, where)
    crash_point("rewritten")
    one.set_properties(
        {
            TABLE_PROPERTY: spec.table,
            SLOTS_PROPERTY: str(spec.slots),
            REGISTRY_PROPERTY: table.registry.url,
            ROWS_PROPERTY: str(spec.state[name].rows),
        }
    )


def _rewrite(table: IcebergTable, name: str, function: PartitioningFunction, where: str) -> None:
    """Place all rows, in one snapshot if more than a few are elsewhere."""
    meta = {"step": "adopt", "epoch": function.epoch}
    for _ in range(REWRITES):
        table.refresh()
        head, total = table.head(), table.rows().count()
        if count_misplaced(table, function) <= FEW * total:
            break
        branch = f"{BRANCHES}adopt_{secrets.token_hex(4)}"
        table.create_branch(branch, head)
        say(f"{name}: rewriting {total:,} rows")
        _write(table, branch, head, function, meta)
        crash_point("written")
        followed = table.follow(branch)
        table.drop_branches(branch)
        if followed:
            break
        say(f"{name}: somebody wrote meanwhile")
    else:
        raise FenceError(
            f"others wrote during each of {REWRITES} rewrites",
            where,
            "Pause its writers until it is adopted, then run this again",
        )
    # A writer that had begun before the columns were added may end only now.
    place(table, where, function, meta)


def _write(
    table: IcebergTable,
    branch: str,
    head: int,
    function: PartitioningFunction,
    meta: Mapping[str, object],
) -> None:
    """Write all rows of a snapshot to a branch, each where the function puts it."""
    slots, slot = len(function.slots), slot_name(table)

    def run(own: SparkSession) -> None:
        mine = IcebergTable(own, table.name)
        rows = mine.rows(branch)
        placed = rows.withColumn(SLOT, F.expr(slot_sql(function.key, slots)))
        placed = placed.withColumn(CHANNEL, F.expr(channel_sql(function)))
        counts = {r[0]: r[1] for r in placed.groupBy(CHANNEL).count().collect()}
        size = int(mine.files().agg(F.sum("size")).collect()[0][0] or 0)
        tasks = tasks_of(len(function.channels), counts, size)
        spread = by_slot_range(placed, tasks, slots).sortWithinPartitions(CHANNEL, SLOT)
        named = spread.select(*rows.columns).withColumnRenamed(SLOT, slot)
        target = f"{table.sql}.{quoted(f'branch_{branch}')}"
        named.writeTo(target).option("distribution-mode", "none").option(
            "fanout-enabled", "true"
        ).overwrite(F.lit(True))

    table.write(meta, run)
