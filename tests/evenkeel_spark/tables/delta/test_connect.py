"""A session of Spark Connect, which has no JVM, where a commit of ours needs one."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.errors.exceptions.connect import UnknownException
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from evenkeel_spark import may_try_again, meet
from evenkeel_spark.tables.delta.write_session import commit_session
from partitioning.errors import SetupError

#: Its class alone is looked at, so it needs no server.
UNREACHED = cast("SparkSession", ConnectSession.__new__(ConnectSession))
SAID = "found one of Spark Connect.*Run this program by spark-submit.*can route, read and append"


def test_a_commit_over_spark_connect_is_refused_in_words() -> None:
    with pytest.raises(SetupError, match=SAID), commit_session(UNREACHED, "mine", 1, {}):
        pass


def test_a_batch_over_spark_connect_is_refused_before_anything_is_written() -> None:
    none = cast("Any", None)
    with pytest.raises(SetupError, match=SAID):
        meet(UNREACHED, none, "tables/clicks.yaml", none, 1, "stream")


@pytest.mark.parametrize(
    ("java", "message", "again"),
    [
        ("io.delta.exceptions.ConcurrentAppendException", "Files were added", True),
        ("io.delta.exceptions.MetadataChangedException", "The metadata has changed", True),
        ("org.apache.spark.SparkException", "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Lost", True),
        ("org.apache.spark.SparkException", "Job aborted", False),
        ("java.lang.ArithmeticException", "[ARITHMETIC_OVERFLOW] too large", False),
    ],
)
def test_a_lost_commit_over_spark_connect_may_be_tried_again(
    java: str, message: str, again: bool
) -> None:
    """Its client has classes for Delta's errors only where somebody imports `delta.connect`."""
    assert may_try_again(UnknownException(f"({java}) {message}")) == again
