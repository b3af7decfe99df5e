"""Look at an Iceberg table before it is adopted, and change nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import functions as F

from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.adoption.obstacles import (
    STREAMING,
    check_spec_columns,
    kinds_of,
    owner_problems,
    row_problems,
    stream_problem,
    taken_problems,
)
from evenkeel_spark.adoption.survey import content_line, count_rows, evenness_line, seconds_line
from evenkeel_spark.iceberg.placing import count_misplaced
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.iceberg.checks import our_columns
from evenkeel_spark.tables.iceberg.commits import commits_back
from evenkeel_spark.tables.iceberg.table import MAIN, SLOT_NAME, IcebergTable
from evenkeel_spark.tables.membership import table_in_errors
from evenkeel_spark.tables.rows.comparable import incomparable
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from evenkeel_spark.tables.table_properties import BEFORE_PROPERTY, TABLE_PROPERTY
from partitioning.errors import EvenkeelError, InputError
from partitioning.function.function import PartitioningFunction

#: Iceberg's format that has deletion vectors and defaults of columns.
_VERSION, _LEAST = "format-version", 3
_DEFAULT_FORMAT = "write.format.default"
#: Part of a table's rows that one UPDATE may place. If more are elsewhere, all are written again.
FEW = 0.1
#: Property of tables to which Flink writes upserts, by equality deletes.
_UPSERTS = "write.upsert.enabled"
#: In the summary of a snapshot that a stream of Spark or of Flink wrote, or that has such deletes.
_OF_STREAMS = ("spark.sql.streaming.queryId", "flink.job-id", "added-equality-deletes")


@dataclass(frozen=True)
class IcebergSurvey:
    """Hold what was found in one table.

    Parameters
    ----------
    head : the snapshot of main that was looked at; None: there is none
    rows, size, files : of main; size in bytes
    keys : distinct keys; None: not counted, as a key may have many rows
    channels : rows by channel, as the function places them
    rewrites : all rows would be written again
    problems : why it cannot be adopted; empty: it can
    """

    name: str
    head: int | None
    rows: int
    keys: int | None
    channels: Mapping[int, int]
    size: int
    files: int
    rewrites: bool
    problems: tuple[EvenkeelError, ...]

    def found(self, function: PartitioningFunction) -> Iterator[str]:
        """Yield what is there, a line each."""
        yield content_line(self.name, self.rows, self.keys, self.size, self.files)
        yield evenness_line(self.name, self.channels, function)
        for problem in self.problems:
            yield f"{self.name}: cannot be adopted: {problem}"

    def changes(self, cores: int) -> Iterator[str]:
        """Yield what an adoption would do, a line each, for a person to read before it.

        Parameters
        ----------
        cores : that a rewrite may use
        """
        if not self.rewrites:
            yield f"{self.name}: only rows that are elsewhere would be written again"
            return
        yield (
            f"{self.name}: would get the columns slot_N and {CHANNEL}, and a partition field "
            f"{CHANNEL}; one snapshot would write all {self.size:,} bytes again. Later, maintain "
            "would remove snapshots older than `keep` days"
        )
        yield seconds_line(self.name, self.size, cores)
        yield (
            f"{self.name}: a stream that reads this table stops at that snapshot, unless it skips "
            "overwrites, or has a new checkpoint"
        )


def survey_table(
    spec: TableSpec, name: str, table: IcebergTable, function: PartitioningFunction
) -> IcebergSurvey:
    """Look at one table that is not adopted, and change nothing."""
    check_spec_columns(kinds_of(table.schema()), function.key, (), table_in_errors(spec, name))
    table.refresh()
    head, problems = table.refs().get(MAIN), list(_problems(spec, name, table))
    total = table.files().agg(F.sum("size"), F.count(F.lit(1))).collect()[0]
    size, files = int(total[0] or 0), total[1]
    say(f"{name}: reading {size:,} bytes in {files:,} files")
    rows, nulls, keys, channels = count_rows(table.rows(), spec, spec.state[name], function)
    problems += row_problems(spec, name, nulls, rows, keys)
    rewrites = must_rewrite(table, function, rows)
    found = tuple(problems)
    return IcebergSurvey(name, head, rows, keys, channels, size, files, rewrites, found)


def must_rewrite(table: IcebergTable, function: PartitioningFunction, rows: int) -> bool:
    """Return whether an adoption writes all rows again, and not a few that are elsewhere alone."""
    # Without both of our columns no row is placed, whatever others are called.
    placed = len(our_columns(table.schema())) > 1
    if not placed or _unpartitioned(table):
        return True
    return count_misplaced(table, function) > FEW * rows


def _unpartitioned(table: IcebergTable) -> bool:
    """Return whether a data file is not partitioned by channel: joins shuffle for as long."""
    specs = table.loaded().specs().values()
    by = [s.specId() for s in specs if any(f.name() == CHANNEL for f in s.fields())]
    files = table.spark.table(f"{table.sql}.files")
    return not files.where(~F.col("spec_id").isin(by)).isEmpty()


def data_folder(table: IcebergTable) -> str | None:
    """Return the folder of a table's data; None: it is in a bucket, which has no end."""
    place = table.properties().get("write.data.path") or table.details().get("Location", "")
    return place if place.startswith(("/", "file:", "hdfs:")) else None


def _problems(spec: TableSpec, name: str, table: IcebergTable) -> Iterator[EvenkeelError]:
    """Yield what stands in the way whatever rows there are."""
    where, found, schema = table_in_errors(spec, name), table.properties(), table.schema()
    kinds = kinds_of(schema)
    if MAIN not in table.refs():
        yield InputError("has no snapshot yet", where, "Write its first rows")
    # One that is adopted, and lacks what an adoption notes first, is nobody's to go on with.
    ours = None if TABLE_PROPERTY in found else (spec.table, spec.registry)
    yield from owner_problems(found, where, ours)
    if int(found.get(_VERSION, 2)) < _LEAST:
        yield InputError(
            f"is of format {found.get(_VERSION)}, which has no deletion vectors: a move would "
            "write whole files again",
            where,
            f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{_VERSION}' = '{_LEAST}')",
        )
    yield from _orc_problems(table, found, where)
    taken = [c for c in kinds if c.lower() in (SLOT, CHANNEL) or SLOT_NAME.fullmatch(c.lower())]
    yield from _writer_problems(table, found, where)
    # A release, or an adoption that was broken off, has left those that are ours.
    left = our_columns(schema) if BEFORE_PROPERTY in found else []
    yield from taken_problems([c for c in taken if c not in left], where)
    yield from incomparable(schema, where)


def _orc_problems(
    table: IcebergTable, properties: Mapping[str, str], where: str
) -> Iterator[EvenkeelError]:
    """Yield that files are ORC: Iceberg 1.12 reads no default of a column from these."""
    orc = properties.get(_DEFAULT_FORMAT, "parquet").lower() == "orc"
    # Iceberg cannot list the files of a table that a release has left, which was looked at before.
    with suppress(*SPARK_ERRORS):
        files = table.spark.table(f"{table.sql}.files").where("content = 0")
        orc = orc or not files.where("lower(file_format) = 'orc'").isEmpty()
    if orc:
        yield InputError(
            "has ORC files, from which Iceberg reads no column that is added later",
            where,
            f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{_DEFAULT_FORMAT}' = 'parquet'), then "
            "write its rows again, with INSERT OVERWRITE",
        )


def _writer_problems(
    table: IcebergTable, properties: Mapping[str, str], where: str
) -> Iterator[EvenkeelError]:
    """Yield an error if a stream writes to the table, or a writer of equality deletes.

    Such a delete matches rows of one partition alone. So it would miss each row that has moved, and
    its key would have two rows.
    """
    if properties.get(_UPSERTS, "").lower() == "true":
        yield InputError(
            f"has {_UPSERTS}: upserts would miss rows that have moved",
            where,
            "Let a MERGE in Spark write it, take the property out, then adopt",
        )
    refs = table.refs()
    for commit in commits_back(table.spark, table.sql, refs[MAIN]) if MAIN in refs else ():
        age = time.time() - commit.moment
        if age > STREAMING:
            return
        if any(name in commit.summary for name in _OF_STREAMS):
            yield stream_problem(f"snapshot {commit.number}", age, where)
            return
