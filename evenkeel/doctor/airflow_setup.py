"""Airflow's side: where it looks for DAGs, whether they load Evenkeel's tables, and the plugin.

It asks Airflow by its own command. Importing Airflow here would take seconds and tie this package
to it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import partitioning
from evenkeel.doctor import Finding, Status
from evenkeel.doctor.dag_files import CONNECTION, calls_of_ours
from evenkeel.shared_spark import SharedSpark
from evenkeel.spec.loading import is_folder
from evenkeel.submit import RM_ADDRESS

_LINES = "from evenkeel_airflow import load_tables; load_tables(globals(), '/opt/tables')  # DAGs"
#: Class of the bundles that are a folder of this machine.
_LOCAL_BUNDLE = "LocalDagBundle"
#: How Airflow's configuration writes no, in any case.
_OFF = ("f", "false", "0")
#: Seconds for one answer of the `airflow` command, which first imports Airflow.
MAX_ANSWER_SECONDS = 120


def look_at_airflow(path: str | None = None) -> Iterator[Finding]:
    """Look at the `airflow` command, the DAGs folder, the plugin and the connection.

    Parameters
    ----------
    path : the PATH that Airflow's tasks have; None: this process's
    """
    code, said = ask_airflow("config", "get-value", "core", "dags_folder")
    if code != 0:
        fix = "Run `airflow config get-value core dags_folder` and correct what it says"
        yield Finding("the airflow command", Status.wrong, said, fix)
        return
    found = list(bundles(said))
    yield from dags(found)
    plugins = setting("core", "plugins_folder")
    yield from hidden_name(*(b.folder for b in found), plugins)
    yield plugin(plugins)
    yield from connections(found, path)


def ask_airflow(*arguments: str) -> tuple[int | None, str]:
    """Run an Airflow command; return its exit code and the last line that it prints.

    The code is None if there is no such command or no answer; the text then says why.
    """
    code, lines = answer_lines(*arguments)
    return code, lines[-1] if lines else ""


def answer_lines(*arguments: str) -> tuple[int | None, list[str]]:
    """Do as `ask_airflow`, and return all lines."""
    airflow = airflow_program()
    if airflow is None:
        return None, ["there is no `airflow` beside this Python or on PATH"]
    try:
        done = subprocess.run(
            [airflow, *arguments], capture_output=True, text=True, timeout=MAX_ANSWER_SECONDS
        )
    except subprocess.TimeoutExpired:
        return None, [f"{airflow} did not answer within {MAX_ANSWER_SECONDS} seconds"]
    except OSError as error:
        return None, [f"{airflow} cannot be run ({error})"]
    said = done.stdout if done.returncode == 0 else done.stderr or done.stdout
    return done.returncode, said.strip().splitlines()


def setting(section: str, key: str) -> str | None:
    """Return a value of Airflow's configuration, or None if Airflow does not answer."""
    code, said = ask_airflow("config", "get-value", section, key)
    return said or None if code == 0 else None


def airflow_program() -> str | None:
    """Return the path of the `airflow` command beside this Python, or on PATH."""
    return shutil.which("airflow", path=str(Path(sys.executable).parent)) or shutil.which("airflow")


@dataclass(frozen=True)
class Bundle:
    """Hold one DAG bundle of Airflow.

    Parameters
    ----------
    kind : name of its class
    folder : on this machine; None: Airflow fetches its files from elsewhere, such as Git
    """

    name: str
    kind: str
    folder: str | None


def bundles(dags_folder: str) -> Iterator[Bundle]:
    """Yield the DAG bundles of Airflow's configuration; by default one, the DAGs folder."""
    code, lines = answer_lines("config", "get-value", "dag_processor", "dag_bundle_config_list")
    text = "\n".join(lines)
    try:
        listed = [dict(b) for b in json.loads(text[text.index("[") :])] if code == 0 else []
    except (ValueError, TypeError):
        listed = []
    for found in listed or [{"name": "dags-folder", "classpath": _LOCAL_BUNDLE}]:
        kind = str(found.get("classpath")).rpartition(".")[2]
        named = (found.get("kwargs") or {}).get("path")
        folder = str(named or dags_folder) if kind == _LOCAL_BUNDLE else None
        yield Bundle(str(found.get("name")), kind, folder)


def dags(found: Sequence[Bundle]) -> Iterator[Finding]:
    """Judge each DAG bundle: whether it is there, and whether some file of one loads the tables."""
    shown = {b: f"Airflow's DAG bundle {b.name}" for b in found}
    files = {b: [c.file for c in calls_of_ours(b.folder)] for b in found if b.folder}
    loads = {b: next((f for f in here if not _skips(f)), None) for b, here in files.items()}
    some = any(loads.values())
    for bundle, what in shown.items():
        if bundle.folder is None:
            said = f"{bundle.kind}: Airflow fetches its files, so they were not looked at"
            fix = "See whether `airflow dags list` has rebalance_TABLE"
            yield Finding(what, Status.ok if some else Status.warning, said, "" if some else fix)
        elif not is_folder(Path(bundle.folder)):
            fix = "Create it, or correct core.dags_folder or dag_processor.dag_bundle_config_list"
            said = f"{bundle.folder}: there is no such folder"
            yield Finding(what, Status.wrong, said, fix)
        elif file := loads[bundle]:
            yield Finding(what, Status.ok, f"{file} has the tables' DAGs")
        elif here := files[bundle]:
            said = f"{here[0]}: Airflow skips a file without the word dag"
            yield Finding(what, Status.wrong, said, "Add a comment to it, such as # DAGs")
        elif some or any(b.folder is None for b in found):
            yield Finding(what, Status.ok, f"{bundle.folder}: no file has the tables' DAGs")
        else:
            said = f"{bundle.folder}: no file has the tables' DAGs"
            yield Finding(what, Status.warning, said, f"Put a DAG file there: {_LINES}")


def _skips(file: Path) -> bool:
    """Return whether Airflow reads no DAGs from a file of ours, because of the words in it."""
    words = file.read_bytes().lower()
    if b"dag" in words or b"asset" in words:
        return False
    mode = setting("core", "dag_discovery_safe_mode") or "true"
    return mode.split("#")[0].strip().lower() not in _OFF


def hidden_name(*folders: str | None) -> Iterator[Finding]:
    """Warn of a module `partitioning` that is not ours, in folders that Airflow imports from."""
    for folder in filter(None, folders):
        for file in (Path(folder, "partitioning.py"), Path(folder, "partitioning", "__init__.py")):
            if file.is_file() and not file.samefile(str(partitioning.__file__)):
                fix = "Rename it: Evenkeel has a package of this name, and one hides the other"
                yield Finding("the name partitioning", Status.warning, str(file), fix)


def plugin(folder: str | None) -> Finding:
    """Judge whether Airflow can find the pages: by an entry point, or in its plugins folder."""
    what = "Airflow's plugin"
    if any(found.name == "evenkeel" for found in entry_points(group="airflow.plugins")):
        return Finding(what, Status.ok, "registered by the installation")
    file = Path(folder or "") / "evenkeel_plugin.py"
    if folder and file.is_file():
        return Finding(what, Status.ok, str(file))
    fix = "Install the wheel of a release by its file, or set core.plugins_folder to plugins/"
    return Finding(what, Status.warning, f"not registered, and {file} is not there", fix)


def connections(found: Sequence[Bundle], path: str | None = None) -> Iterator[Finding]:
    """Look at each connection that files of DAGs name for their jobs, or else at `spark_default`.

    Parameters
    ----------
    found : Airflow's DAG bundles
    path : as for `look_at_airflow`
    """
    if (shared := SharedSpark.of_environment()) is not None:
        what = f"connection {CONNECTION}"
        yield Finding(what, Status.absent, f"not used: jobs run in the Spark of {shared.folder}")
        return
    folders = [bundle.folder for bundle in found if bundle.folder]
    named = {call.connection for folder in folders for call in calls_of_ours(folder)}
    if not named:
        named = {None if len(folders) < len(found) else CONNECTION}
    if None in named:
        yield from connection(CONNECTION, path, sure=CONNECTION in named)
    for name in sorted(filter(None, named)):
        if not (name == CONNECTION and None in named):
            yield from connection(name, path)


def connection(name: str, path: str | None = None, sure: bool = True) -> Iterator[Finding]:
    """Look at a connection that jobs are submitted by, and at the program that submits them.

    Parameters
    ----------
    path : as for `look_at_airflow`
    sure : some job is submitted by it
    """
    what = f"connection {name}"
    add = f"airflow connections add {name} --conn-type spark --conn-host 'local[*]'"
    code, said = ask_airflow("connections", "get", name, "-o", "json")
    try:
        found = json.loads(said)[0] if code == 0 else None
    except (ValueError, LookupError):
        found = None
    if not isinstance(found, dict):
        said = said[:120] or "not found"
        if sure:
            if "unapplied migrations" in ask_airflow("db", "check-migrations", "-t", "0")[1]:
                said, add = "Airflow's database lacks migrations", f"airflow db migrate && {add}"
            yield Finding(what, Status.wrong, said, add)
        else:
            fix = "See whether `airflow connections get CONN_ID` knows it"
            said = f"{said}. DAG files may name another conn_id, which only a run of them knows"
            yield Finding(what, Status.warning, said, fix)
        return
    extra = found.get("extra_dejson") or {}
    yield mode(what, _master(found), extra, add)
    yield submit_on_path(extra.get("spark-binary") or "spark-submit", path)


def mode(what: str, master: str, extra: dict[str, Any], add: str) -> Finding:
    """Judge a connection's master and deploy mode.

    Parameters
    ----------
    add : command that adds the connection
    """
    chosen = extra.get("deploy-mode") or "client"
    said = f"{master}, deploy mode {chosen}"
    if master in ("", "spark://"):
        return Finding(what, Status.wrong, "it names no master as its host", add)
    if chosen == "cluster" and master.startswith("spark://"):
        fix = "Set deploy-mode to client: a standalone cluster runs no Python drivers"
        return Finding(what, Status.wrong, said, fix)
    if chosen == "cluster" and "k8s" in master:
        fix = "Set deploy-mode to client: a retry would submit a second driver beside the first"
        return Finding(what, Status.wrong, said, fix)
    if chosen == "cluster" and "yarn" in master and not extra.get(RM_ADDRESS):
        fix = f"Set {RM_ADDRESS} in its extra: without it a retry cannot find its driver again"
        return Finding(what, Status.warning, said, fix)
    return Finding(what, Status.ok, said)


def submit_on_path(program: str, path: str | None = None) -> Finding:
    """Judge whether Airflow's tasks find the program: they look on PATH alone.

    Parameters
    ----------
    path : as for `look_at_airflow`
    """
    what = "spark-submit for Airflow's tasks"
    if found := shutil.which(program, path=path):
        return Finding(what, Status.ok, found)
    if path is not None and (found := shutil.which(program)):
        fix = f"Start Airflow by `make up`, or with {Path(found).parent} on PATH"
        return Finding(what, Status.warning, f"{found}: `make` has it on PATH, this shell not", fix)
    beside = shutil.which(program, path=str(Path(sys.executable).parent))
    folder = Path(beside).parent if beside else "the folder of spark-submit"
    fix = f"Start Airflow with {folder} on PATH"
    return Finding(what, Status.wrong, f"{program} is not on PATH", fix)


def _master(found: dict[str, Any]) -> str:
    """Return the master of a connection, put together as Airflow's Spark hook does it."""
    kind, host, port = (found.get(name) or "" for name in ("conn_type", "host", "port"))
    whole = kind == "spark" and host and ("://" in host or not port)
    master = host if whole else f"{kind}://{host}"
    return f"{master}:{port}" if port else master
