"""The options of the job that changes state tables, and what it prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from evenkeel.table import Table
from evenkeel_spark.evolving.changes import Intent, TableChange
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.runtime.command import say
from partitioning.errors import InputError
from partitioning.function.canonical import canonical_json

_COLUMNS = ("change", "table", "column", "meaning")


def add_options(arguments: argparse.ArgumentParser) -> None:
    """Add the options with which a job evolves a table in place of its own work."""
    arguments.add_argument(
        "--evolve",
        action="store_true",
        help="bring tables that are there to what the spec says by now; make no epoch",
    )
    arguments.add_argument(
        "--dry-run",
        action="store_true",
        help="with --evolve: say what would be done; change nothing",
    )
    arguments.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="TABLE.OLD=NEW",
        help="with --evolve: the state column OLD is the spec's NEW; may be given several times",
    )
    arguments.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="TABLE[.COLUMN]",
        help="with --evolve: drop this state column, or let this whole state table go; may be "
        "given several times",
    )
    arguments.add_argument(
        "--same",
        action="append",
        default=[],
        metavar="TABLE.COLUMN",
        help="with --evolve: this state column's input column has another name by now, and means "
        "the same; may be given several times",
    )
    arguments.add_argument(
        "--format",
        choices=("table", "json"),
        help="with --evolve: table for people, json for machines",
    )


def run_evolve(spark: SparkSession, table: Table, options: argparse.Namespace) -> bool:
    """Evolve a table if the options ask for it; return whether they do.

    Raises
    ------
    InputError : an option is given that goes with another
    """
    alone = {"--dry-run": options.dry_run, "--rename": options.rename, "--drop": options.drop}
    alone |= {"--same": options.same, "--format": options.format}
    if not options.evolve:
        if given := [name for name, value in alone.items() if value]:
            raise InputError("goes with --evolve alone", given[0], "Leave it out")
        return False
    if options.end is not None:
        raise InputError("does not go with --evolve", "--end", "Leave it out")
    intent = Intent.of(options.rename, options.drop, options.same)
    if options.format == "json":
        # Only the answer goes to stdout.
        with redirect_stdout(sys.stderr):
            changes = evolve(spark, table, intent, options.dry_run)
        sys.stdout.write(_as_json(table, changes, options.dry_run) + "\n")
        sys.stdout.flush()
        return True
    changes = evolve(spark, table, intent, options.dry_run, _show)
    for name in sorted(intent.drops - {c.dropped for c in changes}):
        say(f"--drop {name}: there is nothing of this name, or no more")
    if not changes:
        say("every state table is as the spec says: nothing to do")
    elif options.dry_run:
        say(f"{len(changes)} changes would be made; nothing was changed")
    else:
        say(f"{len(changes)} changes made")
    return True


def _as_json(table: Table, changes: Sequence[TableChange], dry_run: bool) -> str:
    facts = {
        "table": table.spec.table,
        "epoch": table.epoch().number,
        "dry_run": dry_run,
        "changes": [change.to_dict() for change in changes],
    }
    return canonical_json(facts).decode()


def _show(changes: Sequence[TableChange]) -> None:
    grid = Grid()
    for name in _COLUMNS:
        # A path must not be cut.
        grid.add_column(name, overflow="fold")
    for change in changes:
        facts = change.to_dict()
        # Names come from data: text in brackets must not be read as markup.
        grid.add_row(*(Text(facts[name]) for name in _COLUMNS))
    Console(file=sys.stdout).print(grid)
