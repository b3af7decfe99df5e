"""The clock of the year: each day of it is a day of the process's clock, and of its files."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.chaos.faults.clock import set_ahead

_DAY = 86400


def begin(folder: Path, day: int) -> None:
    """Set the clock of this process so many days ahead, once the day before has dated its files."""
    date_files(folder)
    set_ahead(day * _DAY)
    os.environ[_AHEAD] = str(day)


_AHEAD = "EVENKEEL_SOAK_DAY"


def date_files(folder: Path) -> None:
    """Give files that were written today the time of this process's clock.

    The file system dates them by the machine's clock.
    """
    now, ahead = time.time(), int(os.environ.get(_AHEAD, 0)) * _DAY
    if not ahead:
        return
    # What has been dated before is days ahead of the machine's clock.
    young = now - ahead + _DAY / 2
    for file in folder.rglob("*"):
        if file.is_file() and file.stat().st_mtime < young:
            os.utime(file, (now, now))
