"""Schedules as a spec writes them: which Airflow can read, and how far apart their runs are."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from croniter import croniter

#: Schedules that Airflow knows by name, and croniter does not.
_NAMED = ("@once", "@quarterly")
#: Runs after which a schedule has shown its longest gap, if that is short.
_RUNS = 50


def check_schedule(schedule: Any) -> None:
    """Refuse a text that Airflow cannot read as a schedule.

    Raises
    ------
    ValueError : it is such a text
    """
    if isinstance(schedule, str) and schedule not in _NAMED and not croniter.is_valid(schedule):
        raise ValueError(
            "expected a cron expression such as '0 2 * * *' or '@daily', a list of assets, or "
            "null for a DAG that runs only when asked"
        )


def check_looks(every: int, schedule: Any) -> None:
    """Refuse looks within the day that are as far apart as the runs of the schedule.

    Parameters
    ----------
    every : minutes between two looks

    Raises
    ------
    ValueError : no look would come between two runs
    """
    period = _longest_gap(schedule)
    if period is not None and every >= period:
        raise ValueError(
            f"watch.every: expected less than {period:g} minutes, those of schedule "
            f"{schedule} (got {every})"
        )


def _longest_gap(schedule: Any) -> float | None:
    """Return the most minutes between two runs of a schedule; None: it says none."""
    if not isinstance(schedule, str) or schedule in _NAMED:
        return None
    try:
        runs = croniter(schedule, datetime(2026, 1, 1, tzinfo=UTC))
        moments = [runs.get_next(float) for _ in range(_RUNS)]
    except (KeyError, ValueError):
        return None
    return max(later - one for one, later in pairwise(moments)) / 60
