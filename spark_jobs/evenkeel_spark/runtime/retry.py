"""Try a commit again while other writers win, as long as it is worth while."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession

from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import commits
from partitioning.errors import FenceError

Result = TypeVar("Result")

#: Seconds for which a commit that loses against other writers' is tried again, and the setting
#: that says otherwise. Each try waits longer than the one before, up to `LONGEST` seconds.
PATIENCE, PATIENCE_SETTING, LONGEST = 600.0, "spark.evenkeel.patience", 10.0


def retry_on_conflict(spark: SparkSession, what: Callable[[], Result], where: str) -> Result:
    """Do `what`, which begins with its own fence, again while Delta lets another writer win.

    Waits at random, and longer each time: a writer that commits at fixed times cannot always win.

    Raises
    ------
    FenceError : it lost for `PATIENCE` seconds
    """
    patience = float(spark.conf.get(PATIENCE_SETTING, str(PATIENCE)) or PATIENCE)
    began, tries = time.monotonic(), 0
    while True:
        tries += 1
        try:
            return what()
        except commits.CONFLICTS as error:
            lost = str(error).strip().splitlines()[0]
            took = time.monotonic() - began
            say(f"{where}: another writer was first ({tries} times in {took:.0f} s): {lost[:120]}")
        if took > patience:
            raise FenceError(
                f"other writers were first {tries} times in {took:.0f} seconds ({lost})",
                where,
                f"Run this step again when they are quieter, or raise {PATIENCE_SETTING} "
                "(seconds): it goes on where it stopped",
            )
        time.sleep(random.uniform(0.5, 1.0) * min(LONGEST, 0.2 * 2 ** min(tries, 10)))
