"""Run Airflow on this machine with the tables of a folder of specs: `make up`.

    python -m evenkeel.demo.airflow.up                    # ./tables, on port 8080 or any free one
    python -m evenkeel.demo.airflow.up --port 9000 --users viewer,op

State, history and passwords stay in `.run` between two starts. Ctrl-C ends all its processes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from evenkeel.demo.airflow.client import Api, ApiError
from evenkeel.demo.airflow.load_tables import create_incomplete_tables, without_a_look
from evenkeel.demo.airflow.server import Server, free_port, prepare_home, settings
from evenkeel.demo.progress import View
from evenkeel.demo.replay import UP, airflow_environment, empty_database, folder_lock
from evenkeel.demo.spark_process import SparkProcess
from evenkeel.demo.table_run import StepFailed
from evenkeel.local_env import ROOT
from evenkeel.private_file import write_private
from evenkeel.spec.catalog import load_catalog, tables_folder
from evenkeel.table import Table
from partitioning.errors import EvenkeelError, InputError

#: Seconds for Airflow to become healthy and parse the DAGs, and for the first dry runs. A busy
#: machine may take minutes; a process that has ended is told at once.
HEALTHY, LOOK = 600.0, 900.0
ROLES = ("viewer", "user", "op")


def main(argv: Sequence[str] | None = None) -> int:
    """Run Airflow until it is stopped.

    Returns 0 if it was stopped, 1 if a process failed, 2 if the input was wrong.
    """
    options = _arguments().parse_args(argv)
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # A closed terminal and a kill end it as Ctrl-C does. SIGINT is in the list because a shell
    # ignores it for processes that it starts in the background.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with folder_lock(folder) as lock:
            _up(options, folder, lock)
    except KeyboardInterrupt:
        return 0
    except EvenkeelError as error:
        sys.stderr.write(f"evenkeel: error: {error}\n")
        if isinstance(error, StepFailed):
            sys.stderr.write(error.tail + "\n")
        return error.exit_code
    return 0


def _arguments() -> argparse.ArgumentParser:
    asked = argparse.ArgumentParser(
        prog="evenkeel.demo.airflow.up", description=__doc__.split("\n")[0]
    )
    asked.add_argument(
        "--port", type=int, default=os.environ.get("PORT") or None, help="default: 8080 if free"
    )
    asked.add_argument(
        "--users",
        default="",
        help=f"more users, separated by commas, each named after its role: {', '.join(ROLES)}",
    )
    asked.add_argument(
        "--schedules",
        action="store_true",
        help="also run the DAGs on their schedules; without it, only runs that you start",
    )
    asked.add_argument(
        "--no-look", action="store_true", help="do not start with a dry run of each table"
    )
    asked.add_argument(
        "--folder",
        type=Path,
        default=ROOT / ".run",
        help="folder for state, registry and logs [%(default)s]",
    )
    return asked


def _up(options: argparse.Namespace, folder: Path, lock: int) -> None:
    view, port, users = View(), free_port(options.port), _users(options.users)
    specs = tables_folder(ROOT)
    catalog = load_catalog(specs)
    for problem in catalog.problems:
        view.note(f"left out: {problem}")
    tables = {file: Table(spec) for file, spec in catalog.specs.items()}
    if not tables:
        raise InputError(
            "no correct spec found",
            str(specs),
            "Write a spec there, then try it: evenkeel check SPEC",
        )
    environment = airflow_environment(folder, specs)
    spark = SparkProcess(folder / "spark", environment, folder / "logs" / "spark.log")
    environment |= spark.variables
    version = importlib.metadata.version("apache-airflow-core")
    # The name has the version, because a database of another version needs a migration.
    home = folder / "airflow" / f"up-{version}"
    server = Server(
        f"http://127.0.0.1:{port}",
        environment | settings(home, port, users, options.schedules),
        folder / "logs" / "up",
        (lock,),
    )
    with _noted(view), spark, _ended(server, view):
        with create_incomplete_tables(tables, folder, environment, spark, view):
            passwords = prepare_home(home, empty_database(folder, environment, view), users)
            # Start Airflow while the tables are created, unless a schedule needs them first.
            if not options.schedules:
                _start(server, view)
        if options.schedules:
            _start(server, view)
        _wait(server, [t.spec.table for t in tables.values()], passwords, view)
        up_file = folder / UP
        _tell(up_file, server.url, passwords, folder)
        try:
            if not options.no_look:
                missing = without_a_look(list(tables.values()))
                _look(server, passwords["admin"], missing, view)
            while True:
                server.check()
                if (code := spark.wait()) is not None:
                    raise StepFailed("Spark", spark.log, code)
                time.sleep(1)
        finally:
            up_file.unlink(missing_ok=True)


def _users(asked: str) -> dict[str, str]:
    roles = [r.strip() for r in asked.split(",") if r.strip()]
    if wrong := sorted(set(roles) - set(ROLES)):
        raise InputError(
            f"must be roles, got {', '.join(wrong)}", "--users", f"Allowed: {', '.join(ROLES)}"
        )
    return {"admin": "admin", **{role: role for role in roles}}


def _start(server: Server, view: View) -> None:
    view.note("starting Airflow")
    server.start()


@contextmanager
def _ended(server: Server, view: View) -> Iterator[None]:
    """Stop the server when the block ends, also after an error."""
    try:
        yield
    finally:
        # The stop has begun, so further signals must not interrupt it.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        view.note("stopping Airflow")
        server.stop()


@contextmanager
def _noted(view: View) -> Iterator[None]:
    try:
        yield
    finally:
        view.note("stopped: no process is left")


def _wait(server: Server, tables: list[str], passwords: Mapping[str, str], view: View) -> None:
    """Wait until Airflow is healthy and has parsed the DAGs of `tables`, and show the progress."""
    until, shown = time.monotonic() + HEALTHY, ""
    api: Api | None = None
    while True:
        server.check()
        waiting = server.waiting_for()
        if not waiting:
            try:
                api = api or Api(server.url, "admin", passwords["admin"])
                missing = {f"rebalance_{t}" for t in tables} - set(api.dags())
                waiting = [f"DAG {name}" for name in sorted(missing)]
            except ApiError as error:
                if not error.passing:
                    raise
                # A busy machine: one slow answer must not end all of Airflow.
                waiting = ["an answer of the api-server"]
        if not waiting:
            return
        if time.monotonic() > until:
            raise InputError(
                f"Airflow is not ready after {HEALTHY:.0f} s: {', '.join(waiting)}",
                str(server.logs),
                "Read the logs there, then start it again",
            )
        if (now := ", ".join(waiting)) != shown:
            shown = now
            view.note(f"waiting for {now}")
        time.sleep(0.5)


def _tell(file: Path, url: str, passwords: Mapping[str, str], folder: Path) -> None:
    """Print the URL and the passwords, and write them to a file for programs."""
    write_private(
        file,
        json.dumps(
            {"url": url, "user": "admin", "password": passwords["admin"], "users": passwords},
            indent=2,
        )
        + "\n",
    )
    others = "".join(f"\n  {u:<12}{p}" for u, p in passwords.items() if u != "admin")
    sys.stdout.write(
        f"\n  Evenkeel    {url}/evenkeel/\n  Airflow     {url}\n"
        f"  user        admin\n  password    {passwords['admin']}{others}\n\n"
        f"  (also in {_short(file)}; logs in {_short(folder / 'logs' / 'up')}; Ctrl-C stops it)\n\n"
    )
    sys.stdout.flush()


def _look(server: Server, password: str, tables: list[str], view: View) -> None:
    """Start a dry run of each table, so that its pages can show an imbalance.

    Airflow goes on where it does not answer in time.
    """
    runs: dict[str, str] = {}
    try:
        api = Api(server.url, "admin", password)
        for table in tables:
            runs[table] = api.trigger(f"rebalance_{table}", dry_run=True, force=True)
            view.note(f"{table}: dry run, to learn its imbalance")
    except ApiError as error:
        if not error.passing:
            raise
        view.note(f"no dry run of the other tables: {error.what}. Start them in Airflow")
    began, until = time.monotonic(), time.monotonic() + LOOK
    while runs and time.monotonic() < until:
        time.sleep(2)
        server.check()
        for table, run in list(runs.items()):
            try:
                state = api.state(f"rebalance_{table}", run)
            except ApiError as error:
                if not error.passing:
                    raise
                continue
            if state not in ("queued", "running"):
                del runs[table]
                view.note(f"{table}: dry run {state}, {time.monotonic() - began:.0f} s")


def _short(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


if __name__ == "__main__":
    sys.exit(main())
