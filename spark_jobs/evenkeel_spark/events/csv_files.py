"""Events in CSV files."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from evenkeel.spec.table_spec import TableSpec

#: How to read them: a file with another header is refused, not read by the places of its columns.
OPTIONS = {"header": "true", "mode": "FAILFAST", "enforceSchema": "false"}
#: Spark's text for such a file.
OTHER_HEADER = "CSV header does not conform"


def read_csv(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Read them with the types that their values have, but keys as strings."""
    inferred = spark.read.options(**OPTIONS).csv(spec.input.path, inferSchema=True).schema
    schema = T.StructType(
        [
            T.StructField(f.name, T.StringType() if f.name in spec.key else f.dataType)
            for f in inferred
        ]
    )
    events = spark.read.options(**OPTIONS).csv(spec.input.path, schema=schema)
    if all(isinstance(f.dataType, T.StringType) for f in inferred):
        # Another header, taken for values, makes all columns strings. Reading each file tells.
        events.write.format("noop").mode("overwrite").save()
    return events
