"""Wire the steps and jobs of every table into Airflow DAGs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenkeel.extras import check_airflow, installed, require

if TYPE_CHECKING:
    from evenkeel_airflow.loading import load_tables, report_problems
    from evenkeel_airflow.operators import ApplyWindow, SparkJob

check_airflow(installed("apache-airflow"))
require(
    "airflow",
    "airflow.sdk",
    "airflow.providers.apache.spark",
    "airflow.providers.standard",
)

__all__ = ["ApplyWindow", "SparkJob", "load_tables", "report_problems"]

_MODULES = {
    "ApplyWindow": "evenkeel_airflow.operators",
    "SparkJob": "evenkeel_airflow.operators",
    "load_tables": "evenkeel_airflow.loading",
    "report_problems": "evenkeel_airflow.loading",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562): Airflow reads the provider's metadata alone."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
