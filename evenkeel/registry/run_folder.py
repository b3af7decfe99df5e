"""Names of the folders of runs: two DAGs may give their runs one id, and share no folder."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress

from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.store import Store
from partitioning.errors import DamagedError, InputError

#: Characters of a folder's name at most: file systems allow 255, and temporary files need some.
MAX_NAME_LENGTH = 200
#: What Airflow itself puts into the ids of runs.
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+\d\d:\d\d)?")


def folder_name(dag: str, run: str) -> str:
    """Name the folder of a DAG's run by both ids, because two DAGs may give their runs one id."""
    ids = f"{dag}--{run}"
    name = safe_name(ids, None)
    plain = _TIMESTAMP.sub(lambda found: re.sub("[:+]", "-", found[0]), ids)
    if name == plain and len(name) <= MAX_NAME_LENGTH:
        return name
    # Two long ids may differ in their ends alone, and two others in what became a dash.
    return f"{name[: MAX_NAME_LENGTH - 17]}-{hashlib.sha256(ids.encode()).hexdigest()[:16]}"


def dag_of(folder: str) -> str:
    """Return the id of the DAG that the folder of a run names, if it has no `--` of its own."""
    return folder.partition("--")[0]


def find_folder(store: Store, dag: str, run: str, *, first: bool = False) -> str:
    """Return the name of the folder of a DAG's run, whether or not it is there yet.

    Release 0.1.0 named folders by the run's id alone. A run that it began goes on in that folder.

    Parameters
    ----------
    first : for the first task of a run, which takes no folder that may be another DAG's
    """
    name, old = folder_name(dag, run), safe_name(run)
    if store.names(f"runs/{name}"):
        return name
    if not store.names(f"runs/{old}"):
        return name
    owner = _owner(RunFiles(store, old))
    mine = not first if owner is None else dag.startswith(f"{owner}_")
    return old if mine else name


def _owner(run: RunFiles) -> str | None:
    """Return which kind of DAG left a folder of release 0.1.0; None: what is there does not say."""
    if run.watch_decision.exists():
        return "watch"
    with suppress(DamagedError):
        if (asked := run.params.find()) is not None:
            return "rebalance" if asked.to_epoch is None else "roll_back"
    return "rebalance" if run.decision.exists() else None


def safe_name(name: str, longest: int | None = MAX_NAME_LENGTH) -> str:
    """Turn a run's name into the name of a folder.

    Anything but letters, digits, dot, dash and underscore becomes a dash. Airflow's run ids have
    colons and plus signs.
    """
    cleaned = re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".-")
    if not cleaned:
        raise InputError(f"{name!r} cannot name a run", fix="Give it a letter or a digit")
    return cleaned[:longest]
