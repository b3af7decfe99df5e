"""Private doors into Spark's JVM: each one that is left is listed with its reason."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "spark_jobs" / "evenkeel_spark"
#: Attributes that only a session in this process has. Spark Connect has none of them.
DOORS = {
    "DeltaLog",
    "_ensure_initialized",
    "_jconf",
    "_jdf",
    "_jsc",
    "_jsparkSession",
    "_jvm",
    "rdd",
    "sparkContext",
}
_SPEED = "a version or a commit costs a Spark job by SQL, 40 times what it costs here"
_ATOMIC = "no SQL changes a table in one transaction at the version that was looked at"
_SHARED = "a job attaches to the JVM of another process"
_RIGHTS = "only Hadoop's file systems have the rights and the log store that Spark has"
#: Doors that are left: how many in each module, and why. One more, or one fewer, is written here.
LEFT = {
    "adoption/rewrite.py": (2, _ATOMIC),
    "runtime/attached.py": (3, _SHARED),
    "runtime/ctrl_c.py": (1, "Ctrl-C cancels the jobs of a session in this process"),
    "runtime/heartbeat.py": (1, "how many tasks have ended has no public API in SQL"),
    "runtime/session.py": (2, "the conf of spark-submit is known to a JVM alone"),
    "runtime/spark_server.py": (4, _SHARED),
    "runtime/task_metrics.py": (4, "Spark's REST API is off where its UI is off"),
    "tables/delta/commits.py": (1, _SPEED),
    "tables/delta/constraint_commit.py": (1, _ATOMIC),
    "tables/delta/state.py": (6, _SPEED),
    "tables/delta/vacuum.py": (
        2,
        "Delta alone knows its defaults, and reads an interval as it does",
    ),
    "tables/filesystem.py": (4, _RIGHTS),
    "tables/iceberg/schema_commit.py": (
        3,
        "no SQL changes columns, properties and main at once, or gives a new column a default",
    ),
    "tables/iceberg/table.py": (2, "SQL hides some properties"),
    "tables/parquet_footer.py": (2, _RIGHTS),
    "tables/parallelism.py": (1, "the number of cores has no public API"),
    "tables/spark_errors.py": (1, "a session in this process raises py4j's error"),
    "tables/write_session.py": (7, _ATOMIC),
    "watching/streaming.py": (1, "the batch does not say the id of its stream"),
    "windows/undo_window.py": (2, _ATOMIC),
}


def doors(source: str) -> Iterator[str]:
    """Yield each use of a door in a module, and each import of py4j."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in DOORS:
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("py4j"):
            yield "py4j"
        elif isinstance(node, ast.Import):
            yield from ("py4j" for name in node.names if name.name.startswith("py4j"))


def test_a_door_is_found_in_code_and_not_in_words() -> None:
    source = '''
"""Words of _jvm and sparkContext."""
import py4j.protocol
from py4j import java_gateway
jvm = spark._jvm  # _jsc
log = jvm.org.DeltaLog.forTable(spark._jsparkSession, "x.sparkContext")
'''
    assert sorted(doors(source)) == ["DeltaLog", "_jsparkSession", "_jvm", "py4j", "py4j"]


def test_no_private_door_but_those_that_are_listed() -> None:
    found = {
        str(file.relative_to(ROOT)): len(list(doors(file.read_text())))
        for file in sorted(ROOT.rglob("*.py"))
    }
    assert len(found) > 50
    assert {file: n for file, n in found.items() if n} == {f: n for f, (n, _) in LEFT.items()}


def test_every_module_can_be_imported_without_a_jvm() -> None:
    """A client of Spark Connect (pyspark-client) has neither py4j nor pyspark.core."""
    code = (
        "import importlib, pkgutil, sys\n"
        "sys.modules['py4j'] = sys.modules['pyspark.core'] = None\n"
        "import evenkeel_spark\n"
        "for module in pkgutil.walk_packages(evenkeel_spark.__path__, 'evenkeel_spark.'):\n"
        "    importlib.import_module(module.name)\n"
        "from evenkeel_spark.tables.spark_errors import SPARK_ERRORS\n"
        "assert [error.__name__ for error in SPARK_ERRORS] == ['PySparkException']\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
