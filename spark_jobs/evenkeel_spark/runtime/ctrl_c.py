"""Ctrl-C in a job: Spark's jobs are cancelled, and the person sees one line."""

from __future__ import annotations

import logging
import signal
import sys
from contextlib import suppress
from threading import Event, Thread, current_thread, main_thread
from types import FrameType

from pyspark.sql import SparkSession

#: Exit code of a program that Ctrl-C ends: 128, and the number of its signal.
INTERRUPTED = 128 + signal.SIGINT
#: Seconds to wait until Spark has taken the order.
_PATIENCE = 5.0
_pressed = Event()


def handle_ctrl_c(spark: SparkSession, alone: bool) -> None:
    """Let Ctrl-C raise KeyboardInterrupt, in place of PySpark's handler.

    PySpark's calls Spark on the connection on which this thread waits, and prints what follows.

    Parameters
    ----------
    alone : no other process has jobs in this Spark, so all that run are cancelled
    """
    if current_thread() is not main_thread():
        return

    def cancel() -> None:
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()

    def interrupted(number: int, frame: FrameType | None) -> None:
        _pressed.set()
        # py4j logs a stack trace of each call that this breaks off.
        logging.disable()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if alone:
            # A thread has a connection of its own.
            canceller = Thread(target=cancel, daemon=True)
            canceller.start()
            canceller.join(_PATIENCE)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)


def ended_by_ctrl_c(error: BaseException) -> bool:
    """Return whether a job ends for it: what is undone then may find Spark gone, too."""
    return isinstance(error, KeyboardInterrupt) or _pressed.is_set()


def tell_ctrl_c() -> int:
    """Print one line, and return the exit code."""
    stopped = "stopped by Ctrl-C. Run it again: it goes on from what is written"
    print(f"evenkeel: {stopped}", file=sys.stderr, flush=True)
    return INTERRUPTED
