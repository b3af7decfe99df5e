"""How many tasks run at once, and how much one of them reads."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession


def cores(spark: SparkSession) -> int:
    """Return how many tasks run at once, which no public API of Spark tells."""
    return int(spark.sparkContext.defaultParallelism)


def task_bytes(spark: SparkSession) -> int:
    """Return the bytes of files that one task reads at most."""
    text = spark.conf.get("spark.sql.files.maxPartitionBytes")
    found = re.fullmatch(r"(\d+)([kmgtp]?)i?b?", str(text).strip().lower())
    assert found is not None, f"Spark has taken {text} for a size"
    return int(found[1]) << 10 * " kmgtp".index(found[2] or " ")
