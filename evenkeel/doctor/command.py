"""`evenkeel doctor`: every row, as a table for people or as JSON for machines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from evenkeel.doctor import Finding, Status
from evenkeel.doctor.airflow_setup import bundles, look_at_airflow, setting
from evenkeel.doctor.dag_files import loaded_folders
from evenkeel.doctor.jars import spark_defaults
from evenkeel.doctor.packages import look_at_packages
from evenkeel.doctor.stores import look_at_table
from evenkeel.extras import installed
from evenkeel.local_env import environment
from evenkeel.render.answer_format import As, Format
from evenkeel.spec.catalog import load_catalog, named_folder
from evenkeel.spec.loading import find_spec, is_folder, load_spec
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import EvenkeelError
from partitioning.function.canonical import canonical_json

#: A row that a look yields.
Row = TypeVar("Row")
_COLORS = {Status.ok: "green", Status.warning: "yellow", Status.wrong: "red", Status.absent: "dim"}


def doctor(
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="tables or spec files; default: all in $EVENKEEL_TABLES or ./tables"),
    ] = None,
    format: As = Format.table,
) -> None:
    """Look at the set-up and say what works and what to do. Exit code 1 if something is wrong.

    It writes a probe file into each state folder and registry, and removes it.
    """
    # A checkout's own Spark is put on PATH here, but not on that of Airflow's tasks.
    path = os.environ.get("PATH")
    os.environ.update(environment())
    found = list(examine(tables or [], path))
    if format is Format.json:
        sys.stdout.write(canonical_json([f.to_dict() for f in found]).decode() + "\n")
    else:
        grid = Grid()
        for column in ("what", "status", "found", "what to do"):
            grid.add_column(column, overflow="fold")
        for row in found:
            status = Text(row.status, style=_COLORS[row.status])
            grid.add_row(Text(row.what), status, Text(row.found), Text(row.fix))
        Console().print(grid)
    raise typer.Exit(any(row.status is Status.wrong for row in found))


def examine(tables: Sequence[str], path: str | None = None) -> Iterator[Finding]:
    """Look at programs, then at each table, then at Airflow if it is installed.

    Parameters
    ----------
    path : the PATH that Airflow's tasks have; None: this process's
    """
    yield from _all_of("packages", look_at_packages())
    conf = spark_defaults()
    for row in _all_of("specs", _specs(tables)):
        if isinstance(row, Finding):
            yield row
        else:
            yield from _all_of(row.table, look_at_table(row, conf))
    if installed("apache-airflow"):
        yield from _all_of("Airflow", look_at_airflow(path))


def _all_of(what: str, rows: Iterator[Row]) -> Iterator[Row | Finding]:
    """Yield the rows of a look; one that nobody foresaw to fail hides no row of the others."""
    try:
        yield from rows
    except Exception as error:
        said = str(error).strip().splitlines() or [""]
        text = f"could not be looked at: {type(error).__name__}: {said[0]}"
        yield Finding(what, Status.wrong, text, "Mend what it names, and look again")


def _specs(tables: Sequence[str]) -> Iterator[TableSpec | Finding]:
    if tables:
        for table in tables:
            try:
                yield load_spec(find_spec(table))
            except EvenkeelError as error:
                yield Finding(f"spec {table}", Status.wrong, str(error), "Correct the spec")
        return
    for folder in _folders():
        if not is_folder(folder):
            fix = "Set EVENKEEL_TABLES to the folder of your specs"
            named = folder != Path("tables").resolve()
            found = Status.wrong if named else Status.warning
            yield Finding("specs", found, f"{folder}: there is no such folder", fix)
            continue
        catalog = load_catalog(folder)
        for problem in catalog.problems:
            yield Finding("spec", Status.wrong, str(problem), "Correct the spec")
        if not catalog.problems and not catalog.specs:
            fix = "Name the folder that has your *.yaml files itself"
            yield Finding("specs", Status.warning, f"{folder}: there is no spec in it", fix)
        yield from catalog.specs.values()


def _folders() -> list[Path]:
    """Return the folders of specs: the named one, or those that DAG files load, or ./tables."""
    airflow = installed("apache-airflow") is not None
    # Airflow takes seconds to answer, so ask it only if the variable is not set.
    if (named := named_folder(None)) or (
        airflow and (named := named_folder(setting("evenkeel", "tables")))
    ):
        return [named]
    dags = setting("core", "dags_folder") if airflow else None
    found = [b.folder for b in bundles(dags) if b.folder] if dags else []
    loaded = [folder for place in found for folder in loaded_folders(place)]
    return loaded or [Path("tables").resolve()]
