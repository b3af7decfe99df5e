"""Prepare the tables of `make up`: keep complete ones, and create the others."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

from evenkeel.demo.progress import View
from evenkeel.demo.replay import clear, write_missing_flights
from evenkeel.demo.spark_process import SparkProcess
from evenkeel.demo.table_run import StepFailed, TableRun
from evenkeel.demo.team_tables import check_team_tables, files_of
from evenkeel.demo.user_data import input_days
from evenkeel.table import Table
from partitioning.errors import DamagedError, EvenkeelError, InputError


def incomplete(table: Table) -> str | None:
    """Return what is missing in a table, as text; None if it is complete.

    Raises
    ------
    EvenkeelError : the registry cannot be read, so nobody knows
    """
    if not table.registry.numbers():
        return "no epoch is published yet"
    epoch = table.registry.current()
    for name, part in table.spec.state.items():
        at = epoch.tables.get(name)
        if at is None or at.path != part.path:
            return f"epoch {epoch.number} has state table {name} at another path"
        if "://" not in at.path and part.format == "delta":
            log = Path(at.path) / "_delta_log"
            versions = [int(f.stem) for f in log.glob("*.json") if f.stem.isdigit()]
            if max(versions, default=-1) < at.version:
                return f"state table {name} is not at the version of epoch {epoch.number}"
    fed = table.spec.input.time is not None and not table.spec.plain
    if fed and not table.registry.store.names("windows"):
        return "no window was applied"
    return None


@contextmanager
def create_incomplete_tables(
    specs: Mapping[Path, Table],
    folder: Path,
    environment: Mapping[str, str],
    spark: SparkProcess,
    view: View,
) -> Iterator[None]:
    """Create each incomplete table in `folder`; all tables are complete when the block ends.

    The days before the last window become the first state, then the last window is applied. The
    jobs run while the body of the block runs. No process of a job is left after the block.

    Raises
    ------
    EvenkeelError : a job failed
    """
    table_runs: list[TableRun] = []
    threads: list[threading.Thread] = []
    stop = threading.Event()
    home = Future[Path]()
    for spec, table in specs.items():
        name = table.spec.table
        if (stays := _stays(table, folder)) is not None:
            view.note(f"{name}: {stays}")
        else:
            write_missing_flights([table], view)
            clear(table, folder)
            view.note(f"{name}: creating its state and epoch 0")
            table_run = TableRun(
                table=table,
                spec=spec,
                home=home,
                logs=folder / "logs" / name,
                spark=spark,
                environment=environment,
                force=False,
                say=view.say,
                stop=stop,
            )
            table_runs.append(table_run)
            threads.append(threading.Thread(target=table_run.load, args=(_last_window(table),)))
    try:
        with view.live():
            for thread in threads:
                thread.start()
            yield
            for thread in threads:
                thread.join()
    finally:
        stop.set()
        for table_run in table_runs:
            table_run.kill()
        for thread in threads:
            # An error may come before all have started.
            if thread.ident is not None:
                thread.join()
    _raise_first(table_runs)


def _stays(table: Table, folder: Path) -> str | None:
    """Say why a table is left as it is; None: it is to be created."""
    try:
        missing = incomplete(table)
    except EvenkeelError as error:
        # Its state may be whole.
        return f"not changed ({error})"
    if missing is None:
        return f"kept as it is, at epoch {table.registry.numbers()[-1]}"
    if not _inside(table, folder):
        return f"not changed, because it is outside {folder} ({missing})"
    why = _no_team_tables(table)
    return None if why is None else f"not changed ({why})"


def _last_window(table: Table) -> tuple[date, date] | None:
    if table.spec.input.time is None:
        return None
    end = input_days(table)[1] + timedelta(days=1)
    return end - timedelta(days=table.spec.window), end


def _no_team_tables(table: Table) -> str | None:
    """Say why the demo cannot make the tables that a spec adopts; None: it can."""
    try:
        check_team_tables(table.spec)
    except InputError as error:
        return error.what
    return None


def _inside(table: Table, folder: Path) -> bool:
    places = [table.spec.registry, *(files_of(s, folder) for s in table.spec.state.values())]
    return all("://" not in p and Path(p).is_relative_to(folder) for p in places)


def _raise_first(table_runs: Sequence[TableRun]) -> None:
    for table_run in table_runs:
        if isinstance(table_run.error, StepFailed):
            raise table_run.error
    for table_run in table_runs:
        if table_run.error is not None:
            raise table_run.error


def without_a_look(tables: Sequence[Table]) -> list[str]:
    """Return the names of complete tables without a profile of their current epoch."""
    names = []
    for table in tables:
        with contextlib.suppress(EvenkeelError):
            if incomplete(table) is None and not _looked_at(table):
                names.append(table.spec.table)
    return names


def _looked_at(table: Table) -> bool:
    registry = table.registry
    now = registry.numbers()[-1]
    for name in reversed(registry.store.names("runs")):
        run = registry.run(name)
        # Ignore a damaged profile: the dry run then learns another one.
        with contextlib.suppress(DamagedError):
            learned = run.learned.find()
            if learned is not None and learned.epoch == now:
                return True
    return False
