"""Find the tables that have DAGs: the specs in the folder that Airflow's DAG files load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from evenkeel.spec.catalog import Catalog, load_catalog, named_folder
from partitioning.errors import SetupError

#: Prefix of the id of the DAG that every table has.
_KIND = "rebalance_"
#: The folder of specs of a checkout, which has these pages in its `plugins/`.
_CHECKOUT = Path(__file__).parents[2] / "tables"


def tables_with_dags() -> Catalog:
    """Return the tables of the named folder, or else of each folder that a loaded DAG names.

    A user may give `load_tables` a folder that no setting names. The DAGs carry the paths of their
    specs, so the pages find the folder there.
    """
    if folder := named_folder(conf.get("evenkeel", "tables", fallback="")):
        return load_catalog(folder)
    if loaded := _loaded_catalogs():
        specs = {file: spec for catalog in loaded for file, spec in catalog.specs.items()}
        return Catalog(specs, tuple(p for catalog in loaded for p in catalog.problems))
    if _CHECKOUT.is_dir():
        return load_catalog(_CHECKOUT)
    return Catalog({}, (_no_tables(),))


def _no_tables() -> SetupError:
    return SetupError(
        "no DAG of Airflow loads a table",
        fix="Call load_tables in a DAG file, or set EVENKEEL_TABLES, or `tables` in [evenkeel] of "
        "airflow.cfg",
    )


def _loaded_catalogs() -> list[Catalog]:
    """Read the folder of every DAG whose table is in no folder that was read already."""
    found: dict[Path, Catalog] = {}
    known: set[str] = set()
    with create_session() as session:
        active = (
            select(DagModel.dag_id)
            .where(DagModel.dag_id.startswith(_KIND, autoescape=True), ~DagModel.is_stale)
            .order_by(DagModel.dag_id)
        )
        for dag in session.scalars(active).all():
            if dag.removeprefix(_KIND) in known:
                continue
            kept = SerializedDagModel.get(dag, session=session)
            for spec in _specs_of((kept and kept.data) or {}):
                folder = spec.parent
                if folder not in found:
                    found[folder] = load_catalog(folder)
                    known |= {one.table for one in found[folder].specs.values()}
    return list(found.values())


def _specs_of(data: dict[str, Any]) -> Iterator[Path]:
    """Yield the spec that a serialized DAG's first Spark job is given."""
    for task in data.get("dag", {}).get("tasks", ()):
        arguments = task.get("__var", task).get("application_args") or ()
        if "--spec" in arguments[:-1]:
            yield Path(arguments[arguments.index("--spec") + 1])
            return
