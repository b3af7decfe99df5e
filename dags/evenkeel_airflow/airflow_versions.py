"""Differences between the versions of Airflow that this package runs on: 3.1 to 3.3."""

from __future__ import annotations

from inspect import signature
from typing import Any

import airflow.sdk
from airflow.sdk import DAG
from airflow.utils.types import DagRunType

try:
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
except ImportError:  # Airflow 3.1
    from airflow.exceptions import AirflowFailException, AirflowSkipException

try:
    from airflow.sdk import PartitionedAssetTimetable
except ImportError:  # Airflow 3.1
    PartitionedAssetTimetable = None

__all__ = [
    "NO_BACKFILLS",
    "REMEMBERS_DRIVERS",
    "AirflowFailException",
    "AirflowSkipException",
    "PartitionedAssetTimetable",
    "gauge",
]

#: Whether Airflow keeps the id of a driver over the tries of its task: since 3.3.
REMEMBERS_DRIVERS = hasattr(airflow.sdk, "ResumableJobMixin")

_TELLS_RUNS_APART = "allowed_run_types" in signature(DAG.__init__).parameters
#: Arguments of a DAG that refuses backfills, where Airflow has them: they start ten runs at once.
NO_BACKFILLS: dict[str, Any] = (
    {"allowed_run_types": [kind for kind in DagRunType if kind is not DagRunType.BACKFILL_JOB]}
    if _TELLS_RUNS_APART
    else {}
)


def gauge(name: str, value: float) -> None:
    """Set a gauge in Airflow's metrics."""
    try:
        from airflow.sdk.observability import stats
    except ImportError:  # Airflow 3.1
        from airflow import stats
    # A class has the functions before Airflow 3.3, and the module itself since.
    getattr(stats, "Stats", stats).gauge(name, value)
