"""A session of Spark Connect, which has no JVM, where a commit of ours needs one."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from evenkeel_spark import meet
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
