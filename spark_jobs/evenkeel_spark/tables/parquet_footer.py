"""Footers of Parquet files: how many rows a file has, and what each column takes."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


def footer(spark: SparkSession, path: str) -> tuple[int, list[tuple[tuple[str, ...], int]]]:
    """Read a Parquet file's footer.

    Returns
    -------
    Number of rows; and for each column chunk its compressed bytes, after the name of its column and
    those of the fields below it, in lower case.
    """
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    parquet = jvm.org.apache.parquet.hadoop
    reader = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(where, conf))
    try:
        # One call for the whole footer: each column chunk by itself would take four.
        text = parquet.metadata.ParquetMetadata.toJSON(reader.getFooter())
    finally:
        reader.close()
    blocks = json.loads(str(text))["blocks"]
    return sum(int(block["rowCount"]) for block in blocks), [
        (tuple(str(name).lower() for name in chunk["path"]), int(chunk["totalSize"]))
        for block in blocks
        for chunk in block["columns"]
    ]
