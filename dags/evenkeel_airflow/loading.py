"""Load the DAGs of every table spec of a folder into a DAG file, in three lines.

from evenkeel_airflow import load_tables

load_tables(globals(), "/opt/tables")  # Airflow looks for the words airflow and dag
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.exceptions import AirflowException
from airflow.sdk import DAG, get_parsing_context

from evenkeel.spec.catalog import Catalog, load_catalog, named_folder
from evenkeel.spec.loading import load_spec, spec_files
from evenkeel.spec.parts import Partitions
from evenkeel.spec.table_spec import TableSpec
from evenkeel_airflow import adoption_dags, table_dags
from evenkeel_airflow.notifiers import attach
from evenkeel_airflow.operators.defaults import check_default_args
from partitioning.errors import EvenkeelError, InputError, SetupError

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

#: Prefix of a DAG's id -> what builds it.
DAG_BUILDERS: dict[str, Callable[[TableSpec, str, Mapping[str, Any]], DAG | None]] = {
    "rebalance": table_dags.rebalance,
    "roll_back": table_dags.roll_back,
    "maintain": table_dags.maintain,
    "repair": table_dags.repair,
    "apply": table_dags.apply,
    "watch": table_dags.watch,
    "adopt": adoption_dags.adopt,
    "release": adoption_dags.release,
}

log = logging.getLogger(__name__)


def load_tables(
    namespace: dict[str, Any],
    folder: str | Path | None = None,
    notifiers: Sequence[BaseNotifier] = (),
    default_args: Mapping[str, Any] | None = None,
) -> None:
    """Put the DAGs of every table spec of a folder into a DAG file's namespace.

    A wrong spec has no DAGs, and a warning in the log of the DAG processor: an error here would
    take the DAGs of all other tables away. Let another DAG file call `report_problems`, which shows
    it as an import error.

    If Airflow parses the file to run a task, only that task's DAG is built.

    Parameters
    ----------
    namespace : `globals()` of the DAG file, where Airflow looks for DAGs
    folder : where the specs are; default: `$EVENKEEL_TABLES`, or `tables` in the section
        `[evenkeel]` of Airflow's configuration
    notifiers : Airflow calls them if a plan waits for approval, and if a gate fails
    default_args : of all tasks of these DAGs, such as `retries`, `owner`, `pool`, `queue` and
        `on_failure_callback`. Spark jobs take those of `SparkSubmitOperator`, too, such as
        `conn_id`. Ours: `retries` 2, `retry_delay` 30 seconds

    Raises
    ------
    SetupError : there is no such folder
    InputError : `default_args` has a name that no task takes, or that is not a team's to set
    """
    place = _checked(folder)
    check_default_args(default_args or {}, "load_tables")
    wanted = get_parsing_context().dag_id
    for path, spec, left_out in _specs(place, wanted):
        for kind, build in DAG_BUILDERS.items():
            if wanted not in (None, name := f"{kind}_{spec.table}") or kind == left_out:
                continue
            if (dag := build(spec, str(path), default_args or {})) is not None:
                attach(notifiers, dag.tasks if notifiers else ())
                namespace[name] = dag


def report_problems(folder: str | Path | None = None) -> None:
    """Raise what is wrong with the specs of a folder, in a DAG file that has no DAG of its own.

    Raises
    ------
    InputError : one line for each wrong spec
    """
    _, problems = _right_and_wrong(load_catalog(_checked(folder)))
    if problems:
        # Airflow shows the last line, with the error's class before it.
        raise InputError("\n".join(problems))


def _specs(folder: Path, wanted: str | None) -> Iterator[tuple[Path, TableSpec, str | None]]:
    """Yield the right specs; of a wanted DAG that of its table alone, if one file names it.

    With each comes the kind of DAG that it has not: a vacuum would remove another table's files.
    """
    if wanted is not None:
        tables = [
            wanted.removeprefix(f"{kind}_") for kind in DAG_BUILDERS if wanted.startswith(kind)
        ]
        named = [file for file in spec_files(folder) if _table(file) in tables]
        if not tables:
            return
        if len(named) == 1:
            try:
                spec = load_spec(named[0])
            except EvenkeelError as error:
                # Airflow itself says only that it has not found the DAG of its task.
                log.error("no DAGs for a wrong spec: %s", error)
                return
            yield named[0], spec, None
            return
    catalog = load_catalog(folder)
    specs, problems = _right_and_wrong(catalog)
    for problem in problems:
        log.warning("no DAGs for a wrong spec: %s", problem)
    for file, spec in specs.items():
        yield file, spec, "maintain" if file in catalog.around else None


def _right_and_wrong(catalog: Catalog) -> tuple[dict[Path, TableSpec], list[str]]:
    problems = [str(problem) for problem in catalog.problems]
    right = {}
    for file, spec in catalog.specs.items():
        if problem := _schedule_problem(spec.schedule):
            problems.append(f"{file}: schedule: {problem}")
        else:
            right[file] = spec
    return right, problems


def _schedule_problem(schedule: str | list[str] | Partitions | None) -> str | None:
    """Return why Airflow refuses a schedule; None if it accepts it."""
    return _text_problem(schedule) if isinstance(schedule, str) else _refusal(schedule)


@lru_cache
def _text_problem(schedule: str) -> str | None:
    """Look at a cron expression once: many tables have the same."""
    return _refusal(schedule)


def _refusal(schedule: str | list[str] | Partitions | None) -> str | None:
    try:
        made = table_dags.schedule_of(schedule)
        DAG("schedule", schedule=made, start_date=datetime(2024, 1, 1, tzinfo=UTC)).validate()
    except (AirflowException, ValueError) as error:
        return f"{error} (got {schedule!r})"
    return None


def _checked(folder: str | Path | None) -> Path:
    folder = folder or named_folder(conf.get("evenkeel", "tables", fallback=""))
    if not folder:
        raise SetupError(
            "expected a folder of table specs, got none",
            "load_tables",
            "Name it there, or set EVENKEEL_TABLES, or `tables` in [evenkeel] of airflow.cfg",
        )
    place = Path(folder).resolve()
    if not place.is_dir():
        raise SetupError(
            "there is no such folder of table specs",
            str(place),
            "Create it, or correct the folder in load_tables (or EVENKEEL_TABLES)",
        )
    return place


def _table(file: Path) -> str | None:
    """Return the table that a spec's file names, without parsing all of it."""
    try:
        found = re.search(r"^table:[ \t]*['\"]?([\w-]+)", file.read_text(), re.M)
    except (OSError, UnicodeDecodeError):
        return None
    return found[1] if found else None
