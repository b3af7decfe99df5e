"""Replay input week after week with real Spark and real Airflow: `make run`.

    python -m evenkeel.demo.replay                                 # three tables of flights of 2013
    python -m evenkeel.demo.replay --data F --key COL --time COL   # your own Parquet or CSV

Each replay removes what it left under `.run` before. After `make setup` it needs no network.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from evenkeel.demo.flights import write_flights
from evenkeel.demo.progress import View, print_json, print_tables, summarize
from evenkeel.demo.schedule import DAYS, ROUNDS, fit
from evenkeel.demo.spark_process import SparkProcess
from evenkeel.demo.table_run import StepFailed, TableRun
from evenkeel.demo.team_tables import catalog_settings, check_team_tables, files_of
from evenkeel.demo.user_data import input_days, own_spec, shipped_spec
from evenkeel.local_env import ROOT, environment
from evenkeel.table import Table, open_table
from partitioning.errors import EvenkeelError, InputError

FLIGHTS_FILE = "flights.parquet"
#: File with the URL and passwords of a running `make up`.
UP = "up.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the replay; return 0, 1 if a run or gate failed, 2 if the input was wrong."""
    options = _arguments().parse_args(argv)
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # SIGTERM, and a terminal that closes, end all processes as Ctrl-C does. nohup ignores SIGHUP.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        with folder_lock(folder):
            return _replay(options, folder)
    except EvenkeelError as error:
        sys.stderr.write(f"evenkeel: error: {error}\n")
        return error.exit_code


def _arguments() -> argparse.ArgumentParser:
    asked = argparse.ArgumentParser(prog="evenkeel.demo.replay", description=__doc__.split("\n")[0])
    asked.add_argument(
        "--tables",
        default="flights,aircraft,carriers",
        help="specs in ./tables, by name [%(default)s]",
    )
    rounds = f"rebalances to run [{ROUNDS} for the first table, one less for each next one]"
    asked.add_argument("--rounds", type=int, help=rounds)
    asked.add_argument("--days", type=int, help=f"days per round [{DAYS}, or as many as fit]")
    asked.add_argument(
        "--as-decided",
        action="store_true",
        help="rebalance only if it pays off; with state as small as the flights' it rarely does",
    )
    asked.add_argument(
        "--data", default=os.environ.get("DATA"), help="path of your own Parquet or CSV"
    )
    asked.add_argument(
        "--key", default=os.environ.get("KEY"), help="its key columns, separated by commas"
    )
    asked.add_argument("--time", default=os.environ.get("TIME"), help="its date or time column")
    asked.add_argument(
        "--null-keys",
        choices=["refuse", "drop", "keep"],
        default="refuse",
        help="what to do with rows of --data whose key is null [%(default)s]",
    )
    asked.add_argument(
        "--folder",
        type=Path,
        default=ROOT / ".run",
        help="folder for state, registry and logs [%(default)s]",
    )
    asked.add_argument("--format", choices=["table", "json"], default="table")
    return asked


@contextmanager
def folder_lock(folder: Path) -> Iterator[int]:
    """Hold the folder's lock, and yield its file descriptor.

    A second replay or `make up` would remove the state that the first one works on. The lock is
    held as long as any process has the descriptor.

    Raises
    ------
    InputError : another process holds the lock
    """
    with (folder / "replay.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                _who_runs(folder), str(folder), "Wait until it ends, or stop it"
            ) from None
        yield file.fileno()


def _who_runs(folder: Path) -> str:
    try:
        url = json.loads((folder / UP).read_text(encoding="utf-8"))["url"]
    except (OSError, ValueError, KeyError):
        return "another replay is running here"
    return f"make up is running here, at {url}"


def _replay(options: argparse.Namespace, folder: Path) -> int:
    if any(asked is not None and asked < 1 for asked in (options.days, options.rounds)):
        raise InputError("must be at least 1", "--rounds, --days", "Give whole numbers from 1")
    began = time.monotonic()
    if options.data:
        specs = [_own_spec(options, options.days or DAYS, folder)]
    else:
        specs = [shipped_spec(name, folder) for name in options.tables.split(",") if name]
    tables = [open_table(str(spec)) for spec in specs]
    view = View(quiet=options.format == "json")
    write_missing_flights(tables, view)
    spans = [input_days(table) for table in tables]
    fitting = [
        # Tables run at the same time. One round less per table keeps the total time short.
        fit(span, options.days, options.rounds, max(1, ROUNDS - at), table.spec.input.path)
        for at, (table, span) in enumerate(zip(tables, spans, strict=True))
    ]
    if options.data and (days := fitting[0][0]) != (options.days or DAYS):
        view.note(f"the input is long enough for {fitting[0][1]} rounds of {days} days")
        tables = [open_table(str(_own_spec(options, days, folder)))]
    check_team_tables(*(table.spec for table in tables))
    for table in tables:
        clear(table, folder)
    variables = airflow_environment(folder, specs[0].parent)
    spark = SparkProcess(folder / "spark", variables, folder / "logs" / "spark.log")
    variables, stop = {**variables, **spark.variables}, threading.Event()
    with spark, ThreadPoolExecutor(max_workers=1) as beside:
        empty = beside.submit(empty_database, folder, variables, view)
        table_runs = [
            TableRun(
                table=table,
                spec=spec,
                home=beside.submit(_airflow_home, folder, table.spec.table, empty),
                logs=folder / "logs" / table.spec.table,
                spark=spark,
                environment=variables,
                force=not options.as_decided,
                say=view.say,
                stop=stop,
            )
            for table, spec in zip(tables, specs, strict=True)
        ]
        _run_all(table_runs, [span[0] for span in spans], fitting, view)
    found = [summarize(table_run) for table_run in table_runs]
    (print_json if options.format == "json" else print_tables)(found, time.monotonic() - began)
    for table_run in table_runs:
        if table_run.error and not isinstance(table_run.error, InterruptedError):
            sys.stderr.write(f"evenkeel: error: {table_run.error}\n")
            if isinstance(table_run.error, StepFailed):
                sys.stderr.write(table_run.error.tail + "\n")
    return 0 if all(f.passed for f in found) else 1


def _own_spec(options: argparse.Namespace, days: int, folder: Path) -> Path:
    return own_spec(options.data, options.key, options.time, days, folder, options.null_keys)


def _run_all(
    table_runs: list[TableRun], starts: list[date], fitting: list[tuple[int, int]], view: View
) -> None:
    threads = [
        threading.Thread(target=table_run.run, args=(start, *fits), daemon=True)
        for table_run, start, fits in zip(table_runs, starts, fitting, strict=True)
    ]
    with view.live():
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            for table_run in table_runs:
                table_run.stop.set()
                table_run.kill()
            raise InputError("interrupted", fix="Run it again to start from nothing") from None


def write_missing_flights(tables: list[Table], view: View) -> None:
    """Write the flights to the path that the specs read, unless the file exists."""
    for path in {Path(t.spec.input.path) for t in tables}:
        if path.name == FLIGHTS_FILE and not path.is_file():
            view.note(f"writing the flights of 2013 to {path}")
            write_flights(path)


def clear(table: Table, folder: Path) -> None:
    """Remove state, registry and logs of an earlier replay of this table.

    Raises
    ------
    InputError : one of them is outside the replay's folder
    """
    spec = table.spec
    for path in [spec.registry, *(files_of(s, folder) for s in spec.state.values())]:
        if "://" in path or not Path(path).is_relative_to(folder):
            raise InputError(
                f"{path} must be inside {folder}, because a replay starts by removing it",
                f"spec of {spec.table}",
                "Replay a spec whose state and registry are inside that folder",
            )
        shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder / "logs" / spec.table, ignore_errors=True)


def airflow_environment(folder: Path, specs: Path) -> dict[str, str]:
    """Return the environment of every process of a replay.

    It names this machine's Spark, with defaults for small tables if the specs are the flights',
    and an Airflow whose files are in the replay's folder.
    """
    path = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        # Drop the settings of another Airflow that this shell may have, above all its database.
        **{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_")},
        **environment(small=specs == ROOT / "tables"),
        **catalog_settings(folder, os.environ),
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONWARNINGS": "ignore",
        "COLUMNS": "200",
        "EVENKEEL_TABLES": str(specs),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "logs" / "airflow"),
        "AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(
            folder / "logs" / "airflow" / "dag_processor"
        ),
        "AIRFLOW_CONN_SPARK_DEFAULT": (
            '{"conn_type": "spark", "host": "local[*]", "extra": '
            '{"deploy-mode": "client", "spark-binary": "spark-submit"}}'
        ),
    }


def empty_database(folder: Path, variables: dict[str, str], view: View) -> Path:
    """Return an empty Airflow database to copy; create it on the first call."""
    made = folder / "airflow" / "empty" / "airflow.db"
    if made.is_file():
        return made
    view.note("creating Airflow's database")
    # Use another name until it is complete, so that an interrupted one is never copied.
    fresh = made.parent.with_name("unfinished")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(made.parent, ignore_errors=True)
    log = folder / "logs" / "airflow-db-migrate.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        code = subprocess.call(
            ["airflow", "db", "migrate"],
            env={**variables, "AIRFLOW_HOME": str(fresh)},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    if code:
        raise StepFailed("airflow db migrate", log, code)
    made.parent.mkdir()
    shutil.copy(fresh / "airflow.db", made)
    shutil.rmtree(fresh)
    return made


def _airflow_home(folder: Path, name: str, empty: Future[Path]) -> Path:
    """Create an Airflow folder with its own database for one table."""
    home = folder / "airflow" / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    shutil.copy(empty.result(), home)
    return home


if __name__ == "__main__":
    sys.exit(main())
