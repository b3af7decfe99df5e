"""Schedules as a spec writes them: which Airflow can read, and how far apart their runs are."""

from __future__ import annotations

from typing import Any

from croniter import croniter

#: Schedules that Airflow knows by name, and croniter does not.
_NAMED = ("@once", "@quarterly")
#: Minutes between two runs of the schedules that say so by name.
_PERIODS = {"@hourly": 60, "@daily": 1440, "@midnight": 1440}


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
    period = _PERIODS.get(str(schedule))
    if period is not None and every >= period:
        raise ValueError(
            f"watch.every: expected less than {period} minutes, those of schedule "
            f"{schedule} (got {every})"
        )
