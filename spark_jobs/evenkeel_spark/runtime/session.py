"""The Spark session of every job: settings for correctness, and defaults that conf may override."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenkeel.extras import (
    TESTED_DELTA,
    TESTED_SPARK,
    delta_package,
    install_command,
    newer_needed,
    same_series,
)
from evenkeel.shared_spark import SharedSpark
from evenkeel.submit import check_java, check_own_driver
from evenkeel_spark.runtime.attached import attached_session
from evenkeel_spark.tables.spark_errors import JAVA_ERRORS, java_cause
from evenkeel_spark.tables.write_session import RESULT_SETTINGS
from partitioning.errors import DOCTOR, SetupError, UnreachableError

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_FIXED = {**RESULT_SETTINGS, "spark.sql.catalog.spark_catalog": _CATALOG}

_DEFAULTS = {
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
    # Jobs read runs of neighbouring slots. Small row groups (bytes) let Parquet skip the rest.
    "spark.hadoop.parquet.block.size": str(1 << 20),
    # As many as row_moves has in a list. Spark's default is ten: it pushes down no longer one.
    "spark.sql.parquet.pushdown.inFilterThreshold": "250",
    # Delta's default is to read its log in 50 tasks, whatever the size of the table.
    "spark.databricks.delta.snapshotPartitions": "4",
}


def session(name: str, **extra: str) -> SparkSession:
    """Get or start the session, in a Spark that stays up if the environment names one.

    Parameters and errors are those of `own_spark`.

    Raises
    ------
    UnreachableError : the environment names a Spark that stays up, and there is none
    """
    shared = SharedSpark.of_environment()
    # spark-submit, or an earlier call of this, has a JVM for this process.
    if shared is None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return own_spark(name, **extra)
    return attached_session(shared, name)


def own_spark(name: str, **extra: str) -> SparkSession:
    """Get or start the session, in a JVM of this process.

    Parameters
    ----------
    name : of the application in the Spark UI
    extra : further conf, which wins over that of spark-submit and of spark-defaults.conf

    Raises
    ------
    SetupError : there is no Java. Delta is not on the class path, or is built for another Spark.
        pyspark is of another version than the JVM. Spark is too old, or Spark Connect is asked for
    UnreachableError : the cluster that `spark.master` names cannot be reached
    """
    # A client of Spark Connect has neither.
    from pyspark import SparkConf, SparkContext

    check_own_driver()
    # Only a conf that is made beside a running JVM has the settings of spark-submit.
    try:
        SparkContext._ensure_initialized()
    except PySparkException:
        # Its launcher has printed why Java did not start.
        check_java()
        raise
    conf = SparkConf()
    conf.setIfMissing("spark.app.name", name)
    for key, value in _DEFAULTS.items():
        conf.setIfMissing(key, value)
    for key, value in {**extra, **_FIXED}.items():
        conf.set(key, value)
    conf.set("spark.sql.extensions", _with_delta(conf.get("spark.sql.extensions", "") or ""))
    if (conf.get("spark.master", "local") or "").startswith("local"):
        conf.setIfMissing("spark.ui.enabled", "false")
    jvm = SparkContext._jvm
    _check_one_spark(jvm)
    _warn(check_series("Spark", pyspark.__version__, TESTED_SPARK))
    _check_delta(jvm)
    try:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except JAVA_ERRORS as error:
        cause = java_cause(error)[:200]
        raise UnreachableError(
            f"Spark could not be started ({cause})",
            f"master {conf.get('spark.master')}",
            f"Correct spark.master, or see whether its cluster runs and can be reached; {DOCTOR}",
        ) from error


def _with_delta(extensions: str) -> str:
    names = [n.strip() for n in extensions.split(",") if n.strip()]
    return ",".join(names if _EXTENSION in names else [*names, _EXTENSION])


def _check_one_spark(jvm: Any) -> None:
    # py4j knows no attribute `package`, the name of a Scala object: hence getattr.
    found = str(getattr(jvm.org.apache.spark, "package").SPARK_VERSION())  # noqa: B009
    if found.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise SetupError(
            f"expected one version of Spark, found PySpark {pyspark.__version__} and Spark {found}",
            f"$SPARK_HOME, {os.environ.get('SPARK_HOME')}",
            f"Unset SPARK_HOME, or {same_series(found)}",
        )


def _check_delta(jvm: Any) -> None:
    # Check before the session starts: without Delta, Spark prints a stack trace then.
    spark = pyspark.__version__
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    jar = loader.getResource(_EXTENSION.replace(".", "/") + ".class")
    if jar is None:
        raise SetupError(
            "Delta Lake is not on the class path",
            "spark.jars",
            f"Start Spark with --packages {delta_package(spark)}",
        )
    built = re.search(r"delta-spark_(\d+\.\d+)_", jar.toString())
    if built and not spark.startswith(f"{built[1]}."):
        raise SetupError(
            f"Delta's jars are built for Spark {built[1]}: expected those for Spark {spark}",
            "spark.jars",
            f"Start Spark with --packages {delta_package(spark)}",
        )
    # By getattr, as above.
    version = str(getattr(jvm.io.delta, "package").VERSION())  # noqa: B009
    _warn(check_series("Delta Lake", version, TESTED_DELTA))


def check_series(what: str, found: str, tested: Sequence[str]) -> str | None:
    """Return a warning if a version is of a series that was not tested; None if it was.

    Raises
    ------
    SetupError : Spark is older than what the jobs can run on
    """
    if any(re.match(re.escape(series) + r"\b", found) for series in tested):
        return None
    known = ", ".join(tested)
    if what == "Spark" and (least := newer_needed("pyspark", found)):
        raise SetupError(
            f"Spark {found} is too old: expected Spark {least} or newer (tested: {known})",
            "Spark session",
            f"Install it with: {install_command('spark')}",
        )
    return f"{what} {found} was not tested with Evenkeel (tested: {known})"


def _warn(problem: str | None) -> None:
    if problem:
        print(f"evenkeel: warning: {problem}", file=sys.stderr, flush=True)
