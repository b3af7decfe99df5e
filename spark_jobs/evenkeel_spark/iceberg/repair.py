"""Repair Iceberg tables: bring each to the current epoch, whatever was broken off.

A run that has claimed the next epoch goes forward. All other branches are dropped. Then each table
gets the column of the current epoch, and rows that are elsewhere are placed.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.registry.verdict import PUBLISH, newest_attempt
from evenkeel.table import Table
from evenkeel_spark.iceberg.placing import count_misplaced, place, slot_name
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.migration.fence import approved_migration
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.iceberg.checks import check_tables, table_in_errors
from evenkeel_spark.tables.iceberg.table import BRANCHES, slot_column
from partitioning.errors import DamagedError


def repair(spark: SparkSession, table: Table, dry_run: bool = False) -> list[str]:
    """Bring the tables to the current epoch. It can be killed anywhere and run again.

    Parameters
    ----------
    dry_run : say what is wrong and what would be done, and change nothing

    Returns
    -------
    The names of the tables that were not in order.
    """
    spec, registry = table.spec, table.registry
    for name in registry.files.moving_runs():
        _end(spark, table, name, dry_run)
    function, wrong = table.epoch().function, []
    for name, one in check_tables(spark, spec).items():
        column, elsewhere = slot_name(one), count_misplaced(one, function)
        branches = [n for n in one.refs() if n.startswith(BRANCHES)]
        found = [f"its column is {column}"] if column != slot_column(function.epoch) else []
        found += [f"{elsewhere:,} rows are elsewhere"] if elsewhere else []
        found += [f"{len(branches)} branches are left"] if branches else []
        say(f"{name}: {', '.join(found) or 'in order'}")
        if not found:
            continue
        wrong.append(name)
        if dry_run:
            continue
        one.rename(column, slot_column(function.epoch))
        meta = {"step": "repair", "epoch": function.epoch}
        place(one, table_in_errors(spec, name), function, meta)
        one.drop_branches(BRANCHES)
    return wrong


def _end(spark: SparkSession, table: Table, name: str, dry_run: bool) -> None:
    """End a run that has begun to move rows: forward if it is decided to publish, else back."""
    run = table.registry.run(name)
    half = find_half_moved(table.registry, run)
    if half is None:
        return
    migration = approved_migration(table, name, half.digest)
    try:
        forward = newest_attempt(run, half.digest).verdict == PUBLISH
    except DamagedError:
        forward = False
    say(f"run {name} has begun and not ended: it goes {'forward' if forward else 'back'}")
    if not dry_run:
        roll_back(spark, migration)
