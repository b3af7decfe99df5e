"""The programs that Evenkeel runs on: Python, Java, Spark, Delta, Airflow, and their versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import evenkeel
from evenkeel.doctor import Finding, Status, of_series
from evenkeel.doctor.jars import delta_jars, hadoop_version, spark_of_home
from evenkeel.extras import (
    TESTED_AIRFLOW,
    TESTED_DELTA,
    TESTED_PYTHON,
    TESTED_SPARK,
    install_command,
    installed,
    newer_needed,
    one_pyspark_command,
    same_series,
)
from evenkeel.shared_spark import VARIABLE, SharedSpark, shared_versions
from evenkeel.submit import check_own_driver, spark_env, spark_submit
from partitioning.errors import SetupError

#: Distribution, the extra that installs it, and its tested series.
EXTRAS = (
    ("pyspark", "spark", TESTED_SPARK),
    ("delta-spark", "spark", TESTED_DELTA),
    ("apache-airflow", "airflow", TESTED_AIRFLOW),
    ("apache-airflow-providers-apache-spark", "airflow", None),
    ("apache-airflow-providers-standard", "airflow", None),
    ("great-expectations", "quality", None),
    ("s3fs", "s3", None),
)
#: Major version. Spark 4 runs on no older Java.
MIN_JAVA = 17
#: Major version. Hadoop before 3.5 calls Subject.getSubject, which newer ones refuse.
NEWEST_JAVA = 22


def look_at_packages() -> Iterator[Finding]:
    """Look at Evenkeel, Python, every optional package, and what must go together."""
    yield Finding("evenkeel", Status.ok, evenkeel.__version__)
    python = ".".join(map(str, sys.version_info[:3]))
    yield of_series(
        "Python", python, python, TESTED_PYTHON, f"Use Python {' or '.join(TESTED_PYTHON)}"
    )
    found = {name: installed(name) for name, _, _ in EXTRAS}
    for name, extra, tested in EXTRAS:
        yield package(name, found[name], extra, tested)
    pyspark, client = found["pyspark"], installed("pyspark-client")
    if pyspark:
        yield one_pyspark(pyspark, client)
    if pyspark or client:
        # spark-submit of another Spark brings the PySpark of that one.
        spark = spark_of_home() or pyspark or str(client)
        rows = [java(hadoop_version()), submit_program(), *own_driver()]
        if pyspark and os.environ.get("SPARK_HOME"):
            rows += one_spark(pyspark, spark)
        yield from for_jobs([*rows, delta_jars(spark)], bool(pyspark or spark_submit()))


def for_jobs(rows: Sequence[Finding], jobs: bool) -> Iterator[Finding]:
    """Yield what jobs need; where none can start, what is missing is an optional part.

    Parameters
    ----------
    jobs : there is more than a client of Spark Connect
    """
    for row in rows:
        optional = not jobs and row.what != VARIABLE and row.status is not Status.ok
        yield replace(row, status=Status.absent) if optional else row


def package(name: str, found: str | None, extra: str, tested: tuple[str, ...] | None) -> Finding:
    """Judge the version of an optional package."""
    install = install_command(extra)
    if found is None:
        return Finding(name, Status.absent, "not installed", f"For its part: {install}")
    if least := newer_needed(name, found):
        return Finding(name, Status.wrong, f"{found}, expected {least} or newer", install)
    if tested is None:
        return Finding(name, Status.ok, found)
    return of_series(name, found, found, tested, f"Expect it to work, or {install}")


def one_pyspark(spark: str, client: str | None) -> Finding:
    """Judge whether pyspark and pyspark-client, which write one folder, are one version."""
    what = "pyspark and pyspark-client"
    if client is None or client == spark:
        return Finding(what, Status.ok, spark if client else f"{spark}, without the client")
    fix = one_pyspark_command(spark, client)
    return Finding(what, Status.wrong, f"{spark} and {client}: both write one folder", fix)


def one_spark(pyspark: str, spark: str) -> Iterator[Finding]:
    """Judge whether PySpark is of the series of SPARK_HOME; nothing is said if it is."""
    if pyspark.split(".")[:2] != spark.split(".")[:2]:
        said = f"PySpark {pyspark}, Spark {spark}"
        fix = (
            "Jobs by spark-submit run; for `evenkeel spark` unset SPARK_HOME, or "
            f"{same_series(spark)}"
        )
        yield Finding("PySpark and SPARK_HOME", Status.warning, said, fix)


def java(hadoop: tuple[int, ...] | None = None) -> Finding:
    """Judge the Java of JAVA_HOME, or else of PATH.

    Parameters
    ----------
    hadoop : version of Spark's Hadoop; None: it is not known
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
    fix = f"Install Java {MIN_JAVA} to {NEWEST_JAVA}, or set JAVA_HOME to one"
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        said = f"{program} cannot be run ({error})"
        if own := spark_env():
            return Finding("Java", Status.warning, said, f"See whether {own} sets JAVA_HOME")
        return Finding("Java", Status.wrong, said, fix)
    version = re.search(r'version "(?:1\.)?(\d+)[^"]*"', answer.stderr)
    if version is None or int(version[1]) < MIN_JAVA:
        said = version[0] if version else answer.stderr.strip()[:80]
        return Finding("Java", Status.wrong, f"{program}: {said}", fix)
    if int(version[1]) > NEWEST_JAVA and hadoop is not None and hadoop < (3, 5):
        said = f"{version[1]} ({program}): Hadoop {'.'.join(map(str, hadoop))} does not start on it"
        return Finding("Java", Status.wrong, said, fix)
    return Finding("Java", Status.ok, f"{version[1]} ({program})")


def submit_program() -> Finding:
    """Judge whether there is a spark-submit."""
    if found := spark_submit():
        return Finding("spark-submit", Status.ok, found)
    fix = "Set SPARK_HOME, or add the folder of spark-submit to PATH"
    return Finding("spark-submit", Status.wrong, "not found", fix)


def own_driver() -> Iterator[Finding]:
    """Judge the variables that tell jobs of another Spark; nothing is said if none is set."""
    try:
        check_own_driver()
    except SetupError as error:
        variable = (error.where or "").split(",")[0].removeprefix("$")
        yield Finding(variable, Status.wrong, error.what, "Unset it where jobs start")
    if (shared := SharedSpark.of_environment()) is None:
        return
    try:
        shared.check_user()
    except SetupError as error:
        fix = "Run `evenkeel spark` and the jobs as one user"
        yield Finding(VARIABLE, Status.wrong, f"{shared.folder}: {error.what}", fix)
        return
    fix = f"evenkeel spark {shared.folder}"
    address, pyspark = shared.address(), installed("pyspark")
    if address is None:
        yield Finding(VARIABLE, Status.wrong, f"no Spark stays up in {shared.folder}", fix)
    elif pyspark and address.versions != (here := shared_versions(pyspark, evenkeel.__version__)):
        said = f"{shared.folder} has {address.versions}, and jobs have {here}"
        yield Finding(VARIABLE, Status.wrong, said, f"End process {address.server}, then: {fix}")
    else:
        yield Finding(VARIABLE, Status.ok, f"{shared.folder}")
