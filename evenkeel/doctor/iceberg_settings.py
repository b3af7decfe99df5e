"""What Spark's settings must bring for Iceberg tables: a runtime, an extension and a catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from evenkeel.doctor import Finding, Status, of_series
from evenkeel.doctor.jars import SCALA, built_for_another, jars, spark_of_home
from evenkeel.extras import TESTED_ICEBERG, iceberg_package, installed
from evenkeel.spec.table_spec import TableSpec

#: Series of Spark that Iceberg tables were tested on, and that its newest runtime is built for.
SPARK = "4.1"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def look_at_iceberg(spec: TableSpec, conf: Mapping[str, str]) -> Iterator[Finding]:
    """Look at what a table with `format: iceberg` needs; yield nothing for other tables.

    An Airflow connection may bring the same settings. They are not seen from here, so that what
    is missing is a warning.

    Parameters
    ----------
    conf : Spark's settings
    """
    states = [state.path for state in spec.state.values() if state.format == "iceberg"]
    if not states:
        return
    spark = spark_of_home() or installed("pyspark") or f"{SPARK}.0"
    yield runtime(f"{spec.table}: Iceberg's runtime", spark, conf)
    yield extensions(f"{spec.table}: Iceberg's extension", conf)
    for catalog in sorted({path.partition(".")[0] for path in states}):
        yield has_catalog(f"{spec.table}: catalog {catalog}", catalog, conf)


def runtime(what: str, spark: str, conf: Mapping[str, str]) -> Finding:
    """Judge whether Spark's settings bring Iceberg's runtime, built for this Spark."""
    wanted = iceberg_package(SPARK)
    where = "" if spark.startswith(f"{SPARK}.") else f" on Spark {SPARK}"
    found = re.search(
        r"iceberg-spark-runtime-(\d\.\d)_(2\.1\d)[-:]([0-9.]+[0-9])",
        jars(conf),
    )
    if found is None:
        fix = f"Start Spark with --packages {wanted}{where}, or set spark.jars.packages to it"
        return Finding(what, Status.warning, "none in spark-defaults.conf", fix)
    series, scala, version = found.groups()
    if said := built_for_another(spark, series, scala):
        return Finding(what, Status.wrong, said, f"Use {wanted}{where}")
    fix = f"Expect it to work, or use {wanted}{where}"
    if series != SPARK:
        said = f"for Spark {series}, tested: Spark {SPARK}"
        return Finding(what, Status.warning, said, fix)
    said = f"Iceberg {version}, Scala {SCALA}"
    return of_series(what, said, version, TESTED_ICEBERG, fix)


def extensions(what: str, conf: Mapping[str, str]) -> Finding:
    """Judge whether Spark knows Iceberg's SQL: branches and CALL need its extension."""
    setting = "spark.sql.extensions"
    if EXTENSIONS in re.split(r"\s*,\s*", conf.get(setting, "")):
        return Finding(what, Status.ok, setting)
    fix = f"Add {EXTENSIONS} to {setting}"
    return Finding(what, Status.warning, f"{setting} in spark-defaults.conf lacks it", fix)


def has_catalog(what: str, name: str, conf: Mapping[str, str]) -> Finding:
    """Judge whether Spark's settings name a catalog."""
    setting = f"spark.sql.catalog.{name}"
    if conf.get(setting):
        return Finding(what, Status.ok, conf[setting])
    fix = (
        f"Set {setting} to org.apache.iceberg.spark.SparkCatalog, with its type and warehouse, "
        "or correct the path in the spec"
    )
    return Finding(what, Status.warning, f"no {setting} in spark-defaults.conf", fix)
