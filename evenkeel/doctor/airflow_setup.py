"""Airflow's side: where it looks for DAGs, whether they load Evenkeel's tables, and the plugin.

It asks Airflow by its own command. Importing Airflow here would take seconds and tie this package
to it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from evenkeel.doctor.finding import Finding, Status

_LINES = "from evenkeel_airflow import load_tables; load_tables(globals(), '/opt/tables')"


def look_at_airflow() -> Iterator[Finding]:
    """Look at the DAGs folder and at the plugin."""
    yield dags_folder(setting("core", "dags_folder"))
    yield plugin()
    yield connection()


def setting(section: str, key: str) -> str | None:
    """Return a value of Airflow's configuration, or None if Airflow does not answer."""
    airflow = airflow_program()
    if airflow is None:
        return None
    asked = subprocess.run(
        [airflow, "config", "get-value", section, key], capture_output=True, text=True, timeout=120
    )
    lines = asked.stdout.strip().splitlines()
    return lines[-1] if asked.returncode == 0 and lines else None


def airflow_program() -> str | None:
    """Return the path of the `airflow` command beside this Python, or on PATH."""
    return shutil.which("airflow", path=str(Path(sys.executable).parent)) or shutil.which("airflow")


def dags_folder(folder: str | None) -> Finding:
    """Judge whether some file in Airflow's DAGs folder loads the tables."""
    what = "Airflow's DAGs folder"
    if folder is None:
        fix = "Run `airflow config list` and correct what it says"
        return Finding(what, Status.wrong, "Airflow does not tell it", fix)
    if not Path(folder).is_dir():
        fix = "Create it, or correct core.dags_folder"
        return Finding(what, Status.wrong, f"{folder}: there is no such folder", fix)
    for file in sorted(Path(folder).rglob("*.py")):
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError):
            continue
        if re.search(r"^[^#\n]*\bload_tables\(", text, re.M):
            return Finding(what, Status.ok, f"{file} loads the tables")
    fix = f"Put a DAG file there: {_LINES}"
    return Finding(what, Status.warning, f"{folder}: no file loads the tables", fix)


def plugin() -> Finding:
    """Judge whether Airflow can find the pages, by the entry point of an installation."""
    if any(found.name == "evenkeel" for found in entry_points(group="airflow.plugins")):
        return Finding("Airflow's plugin", Status.ok, "registered by the installation")
    fix = "Install the wheel (pip install evenkeel), or set core.plugins_folder to plugins/"
    return Finding("Airflow's plugin", Status.warning, "not registered", fix)


def connection() -> Finding:
    """Judge whether Airflow has the connection that the jobs are submitted by."""
    what, airflow = "connection spark_default", airflow_program()
    asked = airflow and subprocess.run(
        [airflow, "connections", "get", "spark_default", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if asked and asked.returncode == 0:
        return Finding(what, Status.ok, "there")
    fix = "airflow connections add spark_default --conn-type spark --conn-host 'local[*]'"
    return Finding(what, Status.wrong, "not found", fix)
