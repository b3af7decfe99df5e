"""The jars that Spark's own settings bring: Delta's, and the connector of S3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from evenkeel.doctor import Finding, Status, of_series
from evenkeel.extras import TESTED_DELTA, delta_package, newer_needed
from evenkeel.submit import spark_conf, spark_home

#: Series of Scala. Spark 4 is built for no other one.
SCALA = "2.13"
#: Name of the jar by which Spark brings Hadoop.
_HADOOP = re.compile(r"hadoop-client-api-([0-9.]+[0-9])\.jar")


def spark_defaults() -> dict[str, str]:
    """Return the settings of spark-defaults.conf, from where Spark would read it."""
    folder, settings = spark_conf(), {}
    try:
        text = (folder / "spark-defaults.conf").read_text(errors="replace") if folder else ""
    except OSError:
        text = ""
    for line in text.splitlines():
        if setting := re.match(r"\s*(spark\.[^\s=]+)[\s=]+(.*\S)", line):
            settings[setting[1]] = setting[2]
    return settings


def spark_of_home() -> str | None:
    """Return the version of the Spark that jobs start with, by its jars; None if it has none."""
    home = spark_home()
    files = (home / "jars").glob("spark-core_*.jar") if home else ()
    found = [re.fullmatch(r"spark-core_[0-9.]+-(.+)\.jar", file.name) for file in files]
    return next((version[1] for version in found if version), None)


def hadoop_version() -> tuple[int, ...] | None:
    """Return the version of Hadoop that Spark brings, such as (3, 4, 2); None: no jar tells it."""
    found = _HADOOP.search(jars({}))
    return tuple(map(int, found[1].split("."))) if found else None


def jars(conf: Mapping[str, str]) -> str:
    """Return the names of all jars and packages that Spark and its settings bring, in one text.

    The settings of an Airflow connection are not seen from here.
    """
    named = [conf.get(f"spark.{key}", "") for key in ("jars", "jars.packages")]
    folders = [f"{home}/jars/*"] if (home := spark_home()) else []
    folders += conf.get("spark.driver.extraClassPath", "").split(":")
    for folder in filter(None, folders):
        named += map(str, Path(folder).parent.glob("*.jar"))
    return " ".join(named)


def delta_jars(spark: str) -> Finding:
    """Judge whether Spark's own settings bring Delta's jars, built for this Spark."""
    what, wanted = "Delta's jars", delta_package(spark)
    pattern = r"delta-spark_(?:(\d\.\d)_)?(2\.1\d)[-:]([0-9.]+[0-9])"
    found = re.findall(pattern, jars(spark_defaults()))
    if not found:
        fix = f"Start Spark with --packages {wanted}, or set spark.jars.packages to it"
        return Finding(what, Status.warning, "none in spark-defaults.conf", fix)
    for built, scala, version in found:
        if least := newer_needed("delta-spark", version):
            said = f"Delta {version}, expected {least} or newer"
            return Finding(what, Status.wrong, said, f"Use {wanted}")
        # Releases of 4.0 have no series of Spark in their names: they are for Spark 4.0.
        series = built or ("4.0" if version.startswith("4.0.") else "")
        if said := built_for_another(spark, series, scala):
            return Finding(what, Status.wrong, said, f"Use {wanted}")
    built, scala, version = found[0]
    fix = f"Expect it to work, or use {wanted}"
    return of_series(what, f"Delta {version}, Scala {scala}", version, TESTED_DELTA, fix)


def built_for_another(spark: str, series: str, scala: str) -> str | None:
    """Return how jars do not fit; None if they do.

    Parameters
    ----------
    spark : version of the Spark that takes the jars
    series : of the Spark that the jars are built for; empty: they do not say
    scala : series of Scala that the jars are built for
    """
    if scala != SCALA:
        return f"for Scala {scala}, expected {SCALA}, as Spark {spark} has it"
    if series and not spark.startswith(f"{series}."):
        return f"for Spark {series}, and this is Spark {spark}"
    return None


def s3_connector(what: str, conf: Mapping[str, str]) -> Finding:
    """Judge whether Spark can open s3a:// paths: hadoop-aws, of the version of Spark's Hadoop."""
    brought = jars(conf)
    hadoop = _HADOOP.search(brought)
    found = re.search(r"hadoop-aws[-:]([0-9.]+[0-9])", brought)
    wanted = f"org.apache.hadoop:hadoop-aws:{hadoop[1] if hadoop else 'V'}"
    fix = f"Start Spark with --packages {wanted}, or set spark.jars.packages to it"
    if hadoop is None:
        fix += "; V is the version in the name of Spark's own jar hadoop-client-api"
    if found is None:
        said = "no hadoop-aws in spark-defaults.conf: s3a:// cannot be opened"
        return Finding(what, Status.warning, said, fix)
    if hadoop is None:
        said = f"hadoop-aws {found[1]}; Spark's own jars were not found, so it was not compared"
        return Finding(what, Status.warning, said, fix)
    if hadoop[1] != found[1]:
        said = f"hadoop-aws {found[1]}, and this Spark's Hadoop is {hadoop[1]}"
        return Finding(what, Status.wrong, said, fix)
    return Finding(what, Status.ok, f"hadoop-aws {found[1]}")
