"""The replay behind `make run`: real input, real Spark, real Airflow, week after week.

    python -m evenkeel.replay                                 # the flights of 2013, two tables
    python -m evenkeel.replay --data F --key COL --time COL   # your own Parquet or CSV

It starts afresh each time: state, registry and Airflow history of the replayed tables under
`.run` are made anew. Set up once, it needs no network.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

import yaml

from evenkeel.flights import write_flights
from evenkeel.lane import Lane, StepFailed
from evenkeel.local import environment
from evenkeel.replay_view import View, outcome, print_json, print_tables
from evenkeel.table import Table, open_table
from partitioning.errors import EvenkeelError, InputError

ROOT = Path(__file__).resolve().parents[1]
FIRST_FLIGHT = date(2013, 1, 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0, 1 where a run or gate failed, 2 for wrong input."""
    options = _arguments().parse_args(argv)
    try:
        return _replay(options)
    except EvenkeelError as error:
        sys.stderr.write(f"evenkeel: error: {error}\n")
        return error.exit_code


def _arguments() -> argparse.ArgumentParser:
    asked = argparse.ArgumentParser(prog="evenkeel.replay", description=__doc__.split("\n")[0])
    asked.add_argument(
        "--tables", default="flights,aircraft", help="specs in ./tables, by name [%(default)s]"
    )
    asked.add_argument("--rounds", type=int, default=3, help="rebalances to run [%(default)s]")
    asked.add_argument("--days", type=int, default=28, help="days a round [%(default)s]")
    asked.add_argument(
        "--as-decided",
        action="store_true",
        help="rebalance only where it pays; on state as small as the flights' it hardly ever does",
    )
    asked.add_argument("--data", default=os.environ.get("DATA"), help="your own Parquet or CSV")
    asked.add_argument("--key", default=os.environ.get("KEY"), help="its key column(s), by comma")
    asked.add_argument("--time", default=os.environ.get("TIME"), help="its date or time column")
    asked.add_argument("--folder", type=Path, default=ROOT / ".run", help="where all of it goes")
    asked.add_argument("--format", choices=["table", "json"], default="table")
    return asked


def _replay(options: argparse.Namespace) -> int:
    if options.rounds < 1 or options.days < 1:
        raise InputError("at least 1 round of 1 day is needed", "--rounds, --days")
    began = time.monotonic()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if options.data:
        specs, start = [own_spec(options, folder)], None
    else:
        specs = [ROOT / "tables" / f"{name}.yaml" for name in options.tables.split(",") if name]
        start = FIRST_FLIGHT
    tables = [open_table(str(spec)) for spec in specs]
    view = View(quiet=options.format == "json")
    if start is not None:
        _flights(tables, view)
    start = start or first_day(tables[0])
    for table in tables:
        _clear(table, folder)
    variables = _environment(folder, specs[0].parent)
    homes = _airflow_homes(folder, [t.spec.table for t in tables], variables, view)
    stop = threading.Event()
    lanes = [
        Lane(
            table=table,
            spec=spec,
            home=home,
            logs=folder / "logs" / table.spec.table,
            jobs=ROOT / "spark_jobs",
            environment=variables,
            force=not options.as_decided,
            say=view.say,
            stop=stop,
        )
        for table, spec, home in zip(tables, specs, homes, strict=True)
    ]
    _run_all(lanes, start, options, view)
    found = [outcome(lane) for lane in lanes]
    seconds = time.monotonic() - began
    (print_json if options.format == "json" else print_tables)(found, seconds)
    for lane in lanes:
        if lane.error and not isinstance(lane.error, InterruptedError):
            sys.stderr.write(f"evenkeel: error: {lane.error}\n")
            if isinstance(lane.error, StepFailed):
                sys.stderr.write(lane.error.tail + "\n")
    return 0 if all(f.passed for f in found) else 1


def _run_all(lanes: list[Lane], start: date, options: argparse.Namespace, view: View) -> None:
    threads = [
        threading.Thread(target=lane.run, args=(start, options.days, options.rounds), daemon=True)
        for lane in lanes
    ]
    with view.live():
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            for lane in lanes:
                lane.stop.set()
                lane.kill()
            raise InputError("interrupted") from None


def _flights(tables: list[Table], view: View) -> None:
    """Write the flights where the specs look for them, once."""
    for path in {Path(t.spec.input.path) for t in tables}:
        if not path.is_file():
            view.note(f"writing the flights of 2013 to {path}")
            write_flights(path)


def _clear(table: Table, folder: Path) -> None:
    """Remove what an earlier replay left of this table; nothing outside the replay's folder."""
    spec = table.spec
    for path in [spec.registry, *(s.path for s in spec.state.values())]:
        place = Path(path)
        if "://" in path or not place.is_relative_to(folder):
            raise InputError(
                f"{path} is outside {folder}, and a replay starts by removing it",
                f"spec of {spec.table}",
                "Replay a spec whose state and registry are inside it",
            )
        shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(folder / "logs" / spec.table, ignore_errors=True)


def _environment(folder: Path, specs: Path) -> dict[str, str]:
    """Of every process: this machine's Spark, and an Airflow that lives in the replay's folder."""
    path = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        **environment(),
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONWARNINGS": "ignore",
        "COLUMNS": "200",
        "EVENKEEL_TABLES": str(specs),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "logs" / "airflow"),
        "AIRFLOW_CONN_SPARK_DEFAULT": (
            '{"conn_type": "spark", "host": "local[*]", "extra": '
            '{"deploy-mode": "client", "spark-binary": "spark-submit"}}'
        ),
    }


def _airflow_homes(
    folder: Path, names: list[str], variables: dict[str, str], view: View
) -> list[Path]:
    """A folder with a database of its own for each table; the schema is made once and copied."""
    made = folder / "airflow" / "empty"
    if not (made / "airflow.db").is_file():
        view.note("making Airflow's database")
        shutil.rmtree(made, ignore_errors=True)
        log = folder / "logs" / "airflow-db-migrate.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        # Under another name until it is whole, so that an interrupted one is not taken for it.
        fresh = made.with_name("unfinished")
        shutil.rmtree(fresh, ignore_errors=True)
        with log.open("w") as file:
            code = subprocess.call(
                ["airflow", "db", "migrate"],
                env={**variables, "AIRFLOW_HOME": str(fresh)},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        if code:
            raise StepFailed("airflow db migrate", log, code)
        made.mkdir()
        shutil.copy(fresh / "airflow.db", made)
        shutil.rmtree(fresh)
    homes = [folder / "airflow" / name for name in names]
    for home in homes:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        shutil.copy(made / "airflow.db", home)
    return homes


def own_spec(options: argparse.Namespace, folder: Path) -> Path:
    """Write a spec for the user's own data, with the number of events and the last one for each
    key as state; InputError where something is missing."""
    if not options.key or not options.time:
        raise InputError("DATA needs KEY (its key column) and TIME (its date or time column)")
    data = Path(options.data).resolve()
    if not data.exists():
        raise InputError("there is no such file or folder", str(data))
    name = re.sub(r"\W+", "_", data.stem, flags=re.ASCII).strip("_")[:50] or "own"
    name = name if name[0].isalpha() else f"t_{name}"
    spec = {
        "table": name,
        "key": [k.strip() for k in options.key.split(",")],
        "input": {
            "path": str(data),
            "format": "csv" if data.suffix.lower() in (".csv", ".gz", ".txt") else "parquet",
            "time": options.time,
        },
        "window": options.days,
        "state": {
            name: {
                "path": f"../state/{name}",
                "columns": {
                    "events": {"merge": "count"},
                    "last_seen": {"merge": "max", "of": options.time},
                },
            }
        },
        "registry": f"../registry/{name}",
        "channels": 10,
        "trigger": 1.05,
        "max_imbalance": 1.02,
    }
    # In a folder of its own: all specs beside each other are tables of one Airflow.
    file = folder / f"tables-{name}" / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    return file


def first_day(table: Table) -> date:
    """First day of a table's input, read without Spark."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    source, column = table.spec.input, table.spec.input.time
    try:
        scanned = ds.dataset(source.path, format=source.format).to_table(columns=[column])
        first = pc.min(scanned[column]).as_py()
        if isinstance(first, str):
            first = datetime.fromisoformat(first)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{column} cannot be read as dates ({reason})", source.path) from error
    if first is None:
        raise InputError(f"{column} holds no dates", source.path)
    return first.date() if isinstance(first, datetime) else first


if __name__ == "__main__":
    sys.exit(main())
