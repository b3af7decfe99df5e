"""Retries of a commit that loses against other writers."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession

from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.spark_errors import CONFLICTS, first_line
from partitioning.errors import FenceError, InputError

Result = TypeVar("Result")

#: Seconds, or a time such as 30m, for which a commit that loses against other writers is tried
#: again. Default: 600. A higher value waits longer for busy writers before the job fails.
PATIENCE_SETTING = "spark.evenkeel.patience"
#: Each wait is longer than the one before, up to the second number of seconds.
PATIENCE_SECONDS, MAX_WAIT_SECONDS = 600.0, 10.0
#: Seconds of the units in which Spark's settings give times.
_UNIT_SECONDS = {
    "": 1.0,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def retry_on_conflict(spark: SparkSession, what: Callable[[], Result], where: str) -> Result:
    """Run `what`, and run it again while Delta lets another writer win.

    `what` must begin with its own fence. The waits are random and grow, because otherwise a
    writer that commits at fixed times could always win.

    Raises
    ------
    FenceError : the commit has lost for as long as `PATIENCE_SETTING` says
    InputError : the setting is neither seconds nor a time
    """
    longest, began, tries = patience(spark), time.monotonic(), 0
    while True:
        tries += 1
        try:
            return what()
        except CONFLICTS as error:
            lost = first_line(error)
            took = time.monotonic() - began
            say(f"{where}: another writer was first ({tries} times in {took:.0f} s): {lost[:120]}")
        if took > longest:
            raise FenceError(
                f"other writers were first {tries} times in {took:.0f} seconds ({lost})",
                where,
                f"Run this step again when they are quieter, or raise {PATIENCE_SETTING} "
                "(seconds): it goes on where it stopped",
            )
        time.sleep(random.uniform(0.5, 1.0) * min(MAX_WAIT_SECONDS, 0.2 * 2 ** min(tries, 10)))


def patience(spark: SparkSession) -> float:
    """Return the seconds for which a commit is tried again.

    Raises
    ------
    InputError : the setting is neither seconds nor a time
    """
    text = str(spark.conf.get(PATIENCE_SETTING, "")).strip() or str(PATIENCE_SECONDS)
    found = re.fullmatch(r"(\d+(?:\.\d+)?|inf)\s*([a-z]*)", text.lower())
    if found is None or found[2] not in _UNIT_SECONDS:
        raise InputError(
            f"expected seconds, or a time such as 30m, got {text!r}",
            PATIENCE_SETTING,
            "Correct this setting of Spark",
        )
    return float(found[1]) * _UNIT_SECONDS[found[2]]
