"""Events in CSV files."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from evenkeel.spec.table_spec import TableSpec

#: How to read them: a file with another header is refused, not read by the places of its columns.
OPTIONS = {"header": "true", "mode": "FAILFAST", "enforceSchema": "false"}
#: What Spark's texts for such a file have in common: it has other names, or another number of them.
OTHER_HEADER = "CSV header"


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
    # Columns of folders, such as day=2013-01-01, have types without any file being read.
    folders = re.findall("/([^/=]+)=", next(iter(events.inputFiles()), ""))
    kinds = {f.name: f.dataType for f in inferred if f.name not in folders}
    names = list(kinds)
    if spec.input.time in kinds:
        # A header may be shorter than that of the other files.
        names = names[: names.index(spec.input.time) + 1]
    if all(isinstance(kinds[name], T.StringType) for name in names):
        # Another header, taken for values, makes its columns strings. Reading each file tells.
        events.write.format("noop").mode("overwrite").save()
    return events
