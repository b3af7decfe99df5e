"""Days that are not over: a window that has one would leave its later events out for ever."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.reader import need_time
from partitioning.errors import InputError

#: A column without a zone may have the days of any place. The first to end are these before UTC's.
EARLIEST_ZONE = timedelta(hours=14)


def refuse_open_days(
    events: DataFrame, spec: TableSpec, end: date, now: datetime | None = None
) -> None:
    """Refuse a window of which a day is not over yet.

    Parameters
    ----------
    end : the day after its last
    now : with its zone; None: the moment

    Raises
    ------
    InputError : says which day it is
    """
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    if not isinstance(events.schema[need_time(spec)].dataType, T.TimestampType):
        moment += EARLIEST_ZONE
    if end > (last := moment.date()):
        raise InputError(
            f"expected days that are over, found an end of {end}, and it may be {last} at most: "
            "events that come later would never be counted",
            "--end",
            f"Give {last}, as the end is the day after the last; or wait",
        )
