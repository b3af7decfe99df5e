"""Run the matrix: `make matrix`, or `python -m tests.matrix [CELL ...] [--group NAME]`.

Each cell is a copy of this checkout in `.run/matrix`, with a `.venv` and `.jars` of its own, where
pytest runs as it does here. It prints a table. With `--write` it also writes the table's rows into
docs/COMPATIBILITY.md, and keeps the rows of other cells. Exit code 1 if a cell fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.matrix.cells import CELLS, GROUPS, Cell
from tests.matrix.page import NOT_RUN, Result, table_of, with_results
from tests.support.wheel import ROOT, Venv, tracked

FOLDER = ROOT / ".run" / "matrix"
PAGE = ROOT / "docs" / "COMPATIBILITY.md"
#: Seconds that one group of one cell may take. A group over it is ended, and counts as failed.
LONGEST = 5400


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    names = [cell.name for cell in CELLS]
    parser.add_argument("cells", nargs="*", metavar="CELL", help=", ".join(names))
    parser.add_argument("--group", action="append", choices=list(GROUPS))
    parser.add_argument("--python", help="series to run the cells on, in place of their own")
    parser.add_argument(
        "--marks", default="", help="run tests with these marks alone, as pytest's -m"
    )
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    asked = parser.parse_args(argv)
    if unknown := set(asked.cells) - set(names):
        parser.error(f"no such cell: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    results = [
        run(
            replace(cell, python=asked.python or cell.python),
            asked.group or list(GROUPS),
            asked.marks,
        )
        for cell in CELLS
        if cell.name in (asked.cells or names)
    ]
    print(table_of(results))
    if asked.write:
        PAGE.write_text(with_results(PAGE.read_text(), results))
    return 0 if all(result.passed for result in results) else 1


def run(cell: Cell, groups: Sequence[str], marks: str = "") -> Result:
    """Bring a cell's copy and environment up to date, and run groups of tests there."""
    home = FOLDER / cell.name
    copy_checkout(home)
    tested = stamp()
    outcomes = dict.fromkeys(GROUPS, NOT_RUN)
    try:
        prepare(cell, home)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or str(error)).strip().splitlines()[-1]
        said = said.replace("|", "/")
        return Result(versions(cell, home), {**outcomes, groups[0]: f"set-up: {said}"}, False)
    passed = True
    for group in groups:
        began = time.monotonic()
        code, summary = pytest(home, group, marks=marks)
        outcomes[group] = f"{summary}, {time.monotonic() - began:.0f} s ({tested})"
        print(f"{cell.name}: {group}: {outcomes[group]}", flush=True)
        passed &= code == 0
    return Result(versions(cell, home), outcomes, passed)


def stamp() -> str:
    """Return the day, and the commit of this checkout; `+` if files differ from it."""
    today = datetime.now(UTC).date().isoformat()
    git = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return f"{today}, {call(git, ROOT).strip()}"
    except (OSError, subprocess.CalledProcessError):
        return today


def copy_checkout(home: Path) -> None:
    """Copy the checkout's files into a cell, and remove there what the checkout no longer has."""
    for folder in {file.parts[0] for file in tracked()}:
        if (home / folder).is_dir():
            shutil.rmtree(home / folder)
    for file in tracked():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, home / file)


def prepare(cell: Cell, home: Path) -> None:
    """Make a cell's `.venv` and `.jars`, unless they are those of its requirements."""
    made = home / ".venv" / ".matrix"
    read = [(home / name).read_text() for name in ("pyproject.toml", "setup/spark.sh")]
    wanted = "\n".join([*cell.requirements, *read])
    if made.is_file() and made.read_text() == wanted:
        fetch_catalog(home)
        return
    print(f"{cell.name}: set-up", flush=True)
    shutil.rmtree(home / ".jars", ignore_errors=True)
    venv = Venv(home / ".venv", find_python(cell.python)).create()
    checkout = f"{home}[airflow,quality,spark]"
    install = [str(ROOT / ".venv/bin/uv"), "pip", "install", "-q", "--python"]
    call([*install, str(venv.bin / "python"), *cell.requirements, "-e", checkout], home)
    call([str(home / "setup" / "spark.sh")], home)
    made.write_text(wanted)
    fetch_catalog(home)


def fetch_catalog(home: Path) -> None:
    """Fetch the REST catalog for tests of Iceberg, if any run here. Else they are skipped."""
    if not list((home / ".jars").glob("iceberg-spark-runtime-*.jar")):
        return
    try:
        call([str(home / "setup" / "iceberg_catalogs.sh")], home)
    except subprocess.CalledProcessError as error:
        print(f"tests of a REST catalog are skipped: {error.stderr.strip()}", flush=True)


def find_python(series: str) -> str:
    """Return the path of a Python of a series: on PATH, or one of pyenv's."""
    own = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for python in (f"python{series}", *map(str, own.glob(f"{series}.*/bin/python{series}"))):
        try:
            return call([python, "-c", "import sys; print(sys.executable)"], ROOT).strip()
        except (OSError, subprocess.CalledProcessError):
            continue
    raise subprocess.CalledProcessError(1, "python", f"there is no Python {series} here")


def call(command: Sequence[str], home: Path) -> str:
    """Run a command in a cell and return what it prints."""
    return subprocess.run(command, cwd=home, capture_output=True, text=True, check=True).stdout


def pytest(home: Path, group: str, longest: float = LONGEST, marks: str = "") -> tuple[int, str]:
    """Run a group of tests in a cell; return the exit code and pytest's last line."""
    log = home / f"{group}.log"
    venv = Venv(home / ".venv")
    with log.open("w") as out:
        # In a session of its own: Spark and Airflow leave processes that must end with it.
        tests = subprocess.Popen(
            [
                str(venv.bin / "python"),
                "-m",
                "pytest",
                "-q",
                "-n",
                "0",
                "-m",
                marks,
                *GROUPS[group],
            ],
            cwd=home,
            env={**venv.environment(), "PYTHONPATH": "."},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = tests.wait(longest)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tests.pid, signal.SIGKILL)
            tests.wait()
    if code is None:
        return 1, f"ended after {longest:.0f} s"
    lines = log.read_text().strip().splitlines()
    # Threads may print after pytest's last line.
    told = [line for line in lines if re.match(r"(\d+|no) \w+.* in [0-9.]+s", line)]
    last = (told or lines or ["pytest printed nothing"])[-1]
    return code, re.sub(r" in [0-9.]+s.*", "", last)


def versions(cell: Cell, home: Path) -> dict[str, str]:
    """Tell what pip has installed in a cell."""
    code = (
        "import platform, importlib.metadata as m; print(platform.python_version(), "
        "m.version('pyspark'), m.version('apache-airflow'))"
    )
    try:
        python, spark, airflow = call([str(home / ".venv/bin/python"), "-c", code], home).split()
    except (OSError, subprocess.CalledProcessError):
        python, spark, airflow = cell.python, cell.spark, cell.airflow
    return {"Python": python, "Spark": spark, "Delta": cell.delta, "Airflow": airflow}


if __name__ == "__main__":
    sys.exit(main())
