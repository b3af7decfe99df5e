"""A session of Spark Connect, which has no JVM, where a commit of ours needs one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pyspark
import pytest
from pyspark.errors.exceptions.connect import UnknownException
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from evenkeel_spark import may_try_again, meet
from evenkeel_spark.tables.write_session import commit_session
from partitioning.errors import SetupError
from tests.support.cases.topology import free_port, process, until

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


#: Twelve updates of one table, four at a time: some are lost to others.
LOSES = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
from evenkeel_spark import may_try_again

spark = SparkSession.builder.getOrCreate()
spark.range(8).write.format("delta").save(sys.argv[1])

def update(_):
    try:
        spark.sql(f"UPDATE delta.`{sys.argv[1]}` SET id = id + 1")
    except Exception as error:
        return error

with ThreadPoolExecutor(4) as pool:
    lost = [error for error in pool.map(update, range(12)) if error is not None]
assert lost and "delta.connect" not in sys.modules
print(*map(may_try_again, lost))
"""


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.mark.slow
@pytest.mark.spark
def test_commits_that_a_server_has_lost_may_be_tried_again(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    submit = str(Path(pyspark.__file__).parent / "bin/spark-submit")
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in (("address", "127.0.0.1"), ("port", port)):
        server += ["--conf", f"spark.connect.grpc.binding.{name}={value}"]
    remote = {**os.environ, "SPARK_REMOTE": f"sc://127.0.0.1:{port}"}
    with process(log, submit, *server, "spark-internal") as started:
        until(lambda: started.poll() is not None or listens(port), log)
        said = subprocess.check_output(
            [sys.executable, "-c", LOSES, str(tmp_path / "table")], env=remote, text=True
        )
    assert set(said.split()) == {"True"}
