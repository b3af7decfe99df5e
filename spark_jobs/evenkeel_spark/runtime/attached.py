"""Attach a job to a Spark that stays up: `evenkeel_spark.runtime.spark_server` keeps it."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import pyspark
from pyspark.sql import SparkSession

import evenkeel
from evenkeel.shared_spark import SharedSpark, end_turn, shared_versions
from evenkeel_spark.tables.spark_errors import (
    GATEWAY_ERRORS,
    LOST_ERRORS,
    SPARK_ERRORS,
    java_cause,
)
from partitioning.errors import SetupError, UnreachableError


@dataclass
class _Turn:
    """The turn of this process.

    Parameters
    ----------
    file : open for as long as the turn lasts
    is_lost : the JVM is gone, or could not be used
    """

    shared: SharedSpark
    file: IO[str]
    is_lost: bool = False

    def end(self) -> None:
        """Say that the job has ended, unless the JVM is not to be used again.

        After an error that nobody foresaw, an interrupted statement may go on in it.
        """
        if not self.is_lost and getattr(sys, "last_type", None) is None:
            end_turn(self.file)


_turns: list[_Turn] = []


def versions() -> str:
    """Return the versions that a job and the Spark that it runs in must share."""
    return shared_versions(pyspark.__version__, evenkeel.__version__)


def attached_session(shared: SharedSpark, name: str) -> SparkSession:
    """Wait for the turn, and return a session of a Spark that stays up, as new as one of one's own.

    Raises
    ------
    UnreachableError : there is none
    SetupError : it is of another version
    """
    with suppress(*LOST_ERRORS):
        return _attach(shared, name)
    # The JVM died while no job ran in it, and its program had not seen that yet: it starts another.
    try:
        return _attach(shared, name)
    except LOST_ERRORS as error:
        raise shared.gone() from error


def _attach(shared: SharedSpark, name: str) -> SparkSession:
    """Wait for the turn, and return a session; give the turn back if the JVM is gone."""
    shared.find()
    file = shared.turn(name, lambda other: print(f"waits for {other}", flush=True))
    turn = _Turn(shared, file)
    _turns.append(turn)
    atexit.register(turn.end)
    # The JVM may have been replaced since. Its program needs the turn to tell of another one.
    if (address := shared.address()) is None:
        raise shared.gone()
    if address.versions != versions():
        raise SetupError(
            f"expected a Spark of {versions()}, found one of {address.versions}",
            f"{shared.folder}",
            f"End `evenkeel spark {shared.folder}` and start it again: it takes what is installed",
        )
    os.environ.update(PYSPARK_GATEWAY_PORT=str(address.port), PYSPARK_GATEWAY_SECRET=address.secret)
    try:
        return _new_session()
    except LOST_ERRORS:
        turn.is_lost = True
        # Without a line that says that the job has ended, no other job uses this JVM.
        file.close()
        raise
    except GATEWAY_ERRORS as error:
        turn.is_lost = True
        raise UnreachableError(
            f"a job could not use the Spark that stays up ({java_cause(error)[:200]})",
            f"{shared.folder}",
            f"Read the output of `evenkeel spark {shared.folder}`, and start it again",
        ) from error


def _new_session() -> SparkSession:
    """Return a session of the JVM that the environment names."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    before = jvm.org.apache.spark.sql.SparkSession.getDefaultSession().get()
    java = jvm.JavaSparkContext.fromSparkContext(before.sparkContext())
    if java.isLocal():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf(_jconf=java.getConf())
    context = SparkContext(jsc=java, conf=conf, gateway=SparkContext._gateway)
    spark = SparkSession(context, before.newSession())
    # A job that failed leaves what it has cached, which may be of an older version by now.
    spark.catalog.clearCache()
    return spark


def leave_unusable() -> None:
    """Let no other job use the JVM: a statement of this one was broken off, and may go on there."""
    for turn in _turns:
        turn.is_lost = True


def lost(error: BaseException) -> UnreachableError | None:
    """Return what to tell of an error if the Spark that stays up is gone; None: it is not that."""
    for turn in _turns:
        stopped = isinstance(error, SPARK_ERRORS) and turn.shared.address() is None
        if stopped or isinstance(error, LOST_ERRORS):
            turn.is_lost = True
            return turn.shared.gone()
    return None
