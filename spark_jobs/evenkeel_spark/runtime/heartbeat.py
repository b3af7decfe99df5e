"""A beat beside a job's work: it tells how far Spark is, so that a long step does not look hung."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from pyspark.sql import SparkSession

#: Seconds without a line of progress, after which Spark's own progress is printed.
SILENCE = 30.0


@contextmanager
def repeating(
    what: Callable[[], object], seconds: Callable[[], float], name: str
) -> Iterator[None]:
    """Do something again and again beside the block, until it ends.

    Parameters
    ----------
    seconds : returns how long to wait before the next time
    name : of the thread
    """
    ended = Event()

    def go_on() -> None:
        while not ended.wait(seconds()):
            what()

    thread = Thread(target=go_on, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(SILENCE)


@contextmanager
def heartbeat(
    spark: SparkSession,
    say: Callable[[str], None],
    silent: Callable[[], float],
    silence: float = SILENCE,
) -> Iterator[None]:
    """Say how many tasks are done, whenever nothing has been said for a while.

    Parameters
    ----------
    say : prints one line
    silent : returns the seconds since the last line
    silence : seconds to wait for
    """

    def tell() -> None:
        if silent() >= silence and (text := tasks_done(spark)):
            say(text)

    with repeating(tell, lambda: max(silence - silent(), silence / 10), "heartbeat"):
        yield


def tasks_done(spark: SparkSession) -> str | None:
    """Return how far the stages are that run now; None: none does, or Spark does not answer."""
    done = total = 0
    try:
        tracker = spark.sparkContext.statusTracker()
        for stage in tracker.getActiveStageIds():
            if (info := tracker.getStageInfo(stage)) is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
    except Exception:
        # It is only a help: the step that needs Spark raises the error.
        return None
    if not total:
        return None
    return f"Spark is at work: {done} of {total} tasks of its running stages are done"
