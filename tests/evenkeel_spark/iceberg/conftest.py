"""Iceberg tables of a team, in a catalog of each test's own.

They need Iceberg's runtime, which there is for Spark 4.1 and not for 4.2: see `make iceberg`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.conftest import SPEC, World, some_events

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
CATALOG = "org.apache.iceberg.spark.SparkCatalog"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> SparkSession:
    """Return the session, with the catalog `lake` in the test's folder."""
    if EXTENSIONS not in spark.conf.get("spark.sql.extensions", ""):
        pytest.skip("Iceberg's runtime is not among Spark's jars: make iceberg")
    made = spark.newSession()
    made.conf.set("spark.sql.catalog.lake", CATALOG)
    made.conf.set("spark.sql.catalog.lake.type", "hadoop")
    made.conf.set("spark.sql.catalog.lake.warehouse", str(tmp_path / "lake"))
    return made


@pytest.fixture
def team(lake: SparkSession, tmp_path: Path) -> World:
    """Make two tables without Evenkeel: orders (many rows a key) and profiles (one)."""
    made = World(tmp_path)
    spec = {
        **SPEC,
        "state": {
            "orders": {"path": "lake.db.orders", "format": "iceberg", "rows": "many"},
            "profiles": {"path": "lake.db.profiles", "format": "iceberg", "rows": "one"},
        },
        "trigger": 1.01,
        "max_imbalance": 1.01,
    }
    Path(made.spec_path).write_text(yaml.safe_dump(spec, sort_keys=False))
    made.write_events(some_events())
    events = lake.createDataFrame(made.events.drop(columns="weight"))
    orders = events.withColumn("day", F.to_date("at")).withColumn("tags", F.array("dest"))
    write = orders.repartition(3).writeTo("lake.db.orders").using("iceberg")
    write.tableProperty("format-version", "3").partitionedBy(F.col("day")).create()
    profiles = events.groupBy("dest").agg(F.max("miles").alias("most"))
    write = profiles.writeTo("lake.db.profiles").using("iceberg")
    write.tableProperty("format-version", "3").create()
    return made
