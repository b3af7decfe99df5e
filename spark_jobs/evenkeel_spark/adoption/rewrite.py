"""Change a whole table in one commit: its rows, columns, partitioning and properties together.

Delta's own overwrite reads its source before its transaction begins, so an append between the two
is lost. Here the transaction begins at the very version that is read. Any commit after it makes
this one fail, and the table stays as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delta.exceptions import MetadataChangedException
from pyspark.sql import DataFrame, SparkSession

from evenkeel_spark.tables.delta.state import delta_log, python_dict
from evenkeel_spark.tables.spark_errors import JAVA_ERRORS
from evenkeel_spark.tables.write_session import active_session, in_session
from partitioning.function.sql import quoted


@dataclass(frozen=True)
class Layout:
    """Hold what a table is to be.

    Parameters
    ----------
    properties : to set, CHECK constraints among them
    removed : properties to remove
    first : columns to put before the others unless they are there, name -> type as in Delta's JSON
    dropped : columns to drop
    partitions : columns to partition by; None: as now
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    removed: Sequence[str] = ()
    first: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()
    partitions: Sequence[str] | None = None


def change(
    spark: SparkSession,
    path: str,
    version: int,
    layout: Layout,
    rows: DataFrame | None = None,
    alone: bool = False,
) -> None:
    """Commit a layout, and the rows if given, on top of a version.

    Parameters
    ----------
    spark : a session for this one commit, as from `commits.our_commit`
    version : that `rows` were read from, and that was looked at
    rows : all rows of the table, with the layout's columns; None: they stay
    alone : fail, too, if somebody has added or removed rows since. It is so if `rows` are given

    Raises
    ------
    MetadataChangedException, or another of `CONFLICTS` : somebody has committed since
    """
    jvm: Any = spark._jvm
    none, some = jvm.scala.Option.empty, jvm.scala.Option.apply
    log = delta_log(spark, path)
    seen = log.getSnapshotAt(version, none(), none(), False)
    with active_session(spark):
        transaction = log.startTransaction(none(), some(seen))
        old = transaction.metadata()
        columns = _columns(json.loads(old.schemaString()), layout)
        partitions = old.partitionColumns()
        if layout.partitions is not None:
            partitions = _scala(jvm, layout.partitions)
        transaction.updateMetadata(
            old.copy(
                old.id(),
                old.name(),
                old.description(),
                old.format(),
                json.dumps(columns),
                partitions,
                _configuration(spark, old.configuration(), layout),
                old.createdTime(),
            ),
            False,
        )
        actions = []
        # To read all files makes it a conflict if others add or remove one meanwhile.
        files = transaction.filterFiles() if alone or rows is not None else None
        if rows is not None:
            actions = [file.remove() for file in _each(files)]
            names = [column["name"] for column in columns["fields"]]
            written = in_session(spark, rows.select(*(rows[quoted(n)] for n in names)))
            actions += _each(transaction.writeFiles(written._jdf))
        operation = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$ManualUpdate$")
        try:
            transaction.commit(_scala(jvm, actions), getattr(operation, "MODULE$"))
        except JAVA_ERRORS as error:
            if "DELTA_METADATA_CHANGED" in str(error):
                raise MetadataChangedException(str(error)) from error
            raise


def _columns(schema: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """Return the columns as Delta's JSON, with what Delta notes of each."""
    there = {c["name"] for c in schema["fields"]}
    first = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in layout.first.items()
        if name not in there
    ]
    kept = [c for c in schema["fields"] if c["name"] not in layout.dropped]
    return {**schema, "fields": [*first, *kept]}


def _configuration(spark: SparkSession, found: Any, layout: Layout) -> Any:
    kept = python_dict(spark, found)
    changed = {name: value for name, value in kept.items() if name not in layout.removed}
    for name in layout.removed:
        if name in kept:
            found = found.removed(name)
    for name, value in layout.properties.items():
        if changed.get(name) != value:
            found = found.updated(name, value)
    return found


def _each(found: Any) -> Iterator[Any]:
    one = found.iterator()
    while one.hasNext():
        yield one.next()


def _scala(jvm: Any, values: Sequence[Any]) -> Any:
    """Make a Scala Seq of the values."""
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()
