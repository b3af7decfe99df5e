"""Errors of Spark while it reads the input, as errors of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from evenkeel.registry.store_errors import StoreError
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.csv_files import OTHER_HEADER
from evenkeel_spark.tables.filesystem import check_answers
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import InputError

#: Spark's words for a Parquet column of another type than the first file has.
_OTHER_TYPE = re.compile(
    r"reading Parquet column \[?(.+?)\]?\. Expected Spark type (.+?), actual Parquet type (\w+)"
)


@contextmanager
def reading(spec: TableSpec) -> Iterator[None]:
    """Turn Spark's failure to read a file into InputError, or StoreError if the store is down."""
    try:
        yield
    except SPARK_ERRORS as error:
        text = str(error)
        if "FAILED_READ_FILE" not in text and "MALFORMED_RECORD" not in text:
            raise
        found = re.search(r"(?:reading file|file:) ?(\S+?)\.?\s", text)
        file = found.group(1) if found else spec.input.path
        if "FILE_NOT_EXIST" in text:
            raise StoreError(
                "is gone, and was there when this began: the input has changed meanwhile",
                file,
                "Run this again once the input stands still",
            ) from error
        if other := _OTHER_TYPE.search(text):
            column, expected, found_type = other.groups()
            raise InputError(
                f"column {column!r} is {found_type}, and {expected} in other files of the input",
                file,
                "Write all files with one type",
            ) from error
        check_answers(SparkSession.active(), file)
        if OTHER_HEADER in text:
            raise InputError(
                "its header is not that of the other files",
                file,
                "Write all files with the same columns in the same order",
            ) from error
        raise InputError(
            f"not readable as {spec.input.format}",
            file,
            "Replace or remove the file, or correct input.format in the spec",
        ) from error
