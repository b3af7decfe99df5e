"""Wire the steps and jobs of every table into Airflow DAGs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenkeel_airflow.loading import load_tables, report_problems
    from evenkeel_airflow.operators import ApplyWindow, SparkJob
    from evenkeel_airflow.task_group import RebalanceTaskGroup

__all__ = ["ApplyWindow", "RebalanceTaskGroup", "SparkJob", "load_tables", "report_problems"]

_MODULES = {
    "ApplyWindow": "evenkeel_airflow.operators",
    "RebalanceTaskGroup": "evenkeel_airflow.task_group",
    "SparkJob": "evenkeel_airflow.operators",
    "load_tables": "evenkeel_airflow.loading",
    "report_problems": "evenkeel_airflow.loading",
}


def __getattr__(name: str) -> Any:
    """Check the installation and import a public name, on its first use (PEP 562).

    The import of this package checks nothing. Every Airflow command imports it, to read the
    provider's metadata, and an error there would stop all of Airflow.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from evenkeel.extras import check_release, require_packages
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "partitioning":
            raise
        file = getattr(sys.modules.get("partitioning"), "__file__", None)
        raise ImportError(
            f"expected Evenkeel's own package `partitioning`, found {file}. Rename that file or "
            "folder: Python takes it first",
            name=error.name,
        ) from None
    for part in ("", "-providers-apache-spark", "-providers-standard"):
        check_release(f"apache-airflow{part}")
    require_packages(
        "airflow",
        "airflow.sdk",
        "airflow.providers.apache.spark",
        "airflow.providers.standard",
    )
    return getattr(import_module(_MODULES[name]), name)
