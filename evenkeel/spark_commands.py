"""Commands of the console that start Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenkeel.local_env import environment
from evenkeel.render.answer_format import As, Format
from evenkeel.submit import keep_spark, submit
from evenkeel.table import open_table
from partitioning.function.key_text import key_columns

TableName = Annotated[
    str, typer.Argument(help="a table's name (spec in $EVENKEEL_TABLES or ./tables) or spec file")
]


def repair(
    table: TableName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what is wrong and would be done, and end there")
    ] = False,
    registry_older: Annotated[
        bool,
        typer.Option(
            "--registry-older", help="give up epochs of the tables that the registry does not have"
        ),
    ] = False,
    undo_window: Annotated[
        bool,
        typer.Option(
            "--undo-window",
            help="first take back a window that was added to other rows than it had seen",
        ),
    ] = False,
) -> None:
    """Bring a table's state to its current epoch.

    Finish or undo what was broken off or done by hand. Starts Spark; with --dry-run changes
    nothing.
    """
    open_table(table)
    flags = {"--dry-run": dry_run, "--registry-older": registry_older}
    flags["--undo-window"] = undo_window
    asked = ["--spec", table, *(name for name, given in flags.items() if given)]
    raise typer.Exit(submit("repair", asked, environment()))


def adopt(
    table: TableName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what was found and would be done, and end there")
    ] = False,
) -> None:
    """Take tables that you made yourself under Evenkeel.

    Rewrites each once, in one commit, with the columns slot and channel. Starts Spark; with
    --dry-run changes nothing.
    """
    open_table(table)
    asked = ["--spec", table, *(["--dry-run"] if dry_run else [])]
    raise typer.Exit(submit("adopt", asked, environment()))


def release(
    table: TableName,
    drop_columns: Annotated[
        bool,
        typer.Option("--drop-columns", help="rewrite the tables without slot and channel, too"),
    ] = False,
    registry_lost: Annotated[
        bool,
        typer.Option("--registry-lost", help="use this if no registry has the epoch of the tables"),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what would be done, and end there")
    ] = False,
) -> None:
    """Take Evenkeel out of a table again: its constraint and its properties go. Starts Spark."""
    open_table(table)
    flags = {
        "--drop-columns": drop_columns,
        "--registry-lost": registry_lost,
        "--dry-run": dry_run,
    }
    asked = ["--spec", table, "--release", *(name for name, given in flags.items() if given)]
    raise typer.Exit(submit("adopt", asked, environment()))


def forget(
    table: TableName,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help="keys; the columns of a composite key with commas or ' | ' between them, or as a "
            "JSON list; after --, also texts that begin with a dash",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="count the rows that would be deleted, and end there")
    ] = False,
) -> None:
    """Delete keys for good: their rows in all state tables, and their names in the registry.

    Starts Spark. Delete their events from the input first, because events bring the rows back.
    """
    function = open_table(table).epoch().function
    key_columns(keys, [column.type for column in function.key], sure=True)
    flags = ["--dry-run"] if dry_run else []
    asked = ["--spec", table, *(f"--forget={key}" for key in keys), *flags]
    raise typer.Exit(submit("maintain", asked, environment()))


def evolve(
    table: TableName,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE.OLD=NEW",
            help="the state column OLD is the spec's NEW; may be given several times",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE[.COLUMN]",
            help="drop this state column, or let this whole state table go; may be given several "
            "times",
        ),
    ] = None,
    same: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE.COLUMN",
            help="this state column's input column has another name by now, and means the same; "
            "may be given several times",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what would be done, and end there")
    ] = False,
    format: As = Format.table,
) -> None:
    """Change state tables and their columns to what the spec says by now.

    Epochs go on, no row is rewritten, and no history is built. Starts Spark; with --dry-run changes
    nothing.
    """
    open_table(table)
    asked = ["--spec", table, "--evolve", f"--format={format.value}"]
    named = {"--rename": rename, "--drop": drop, "--same": same}
    asked += [f"{option}={text}" for option, texts in named.items() for text in texts or []]
    asked += ["--dry-run"] if dry_run else []
    raise typer.Exit(submit("bootstrap", asked, environment()))


def job(
    name: Annotated[
        str, typer.Argument(help="such as bootstrap or apply_window; a wrong name lists all")
    ],
    arguments: Annotated[list[str] | None, typer.Argument(help="options of the job")] = None,
    submit_options: Annotated[
        str,
        typer.Option("--submit", help="options of spark-submit, in quotes: '--master yarn'"),
    ] = "",
) -> None:
    """Run a job by spark-submit: `evenkeel job bootstrap --spec sales.yaml --end 2026-01-01`.

    For the job's own options: `evenkeel job bootstrap -- --help`.
    """
    raise typer.Exit(submit(name, arguments or [], environment(), submit_options))


def spark(
    folder: Annotated[Path, typer.Argument(help="for its address and locks; local, and private")],
    submit_options: Annotated[
        str,
        typer.Option("--submit", help="options of spark-submit, in quotes: '--driver-memory 8g'"),
    ] = "",
) -> None:
    """Keep one Spark up, so that jobs on this machine need not start one each.

    Jobs with EVENKEEL_SPARK=FOLDER in their environment run in it, one after the other. Ctrl-C or
    SIGTERM ends it.
    """
    keep_spark(folder, environment(), submit_options)
