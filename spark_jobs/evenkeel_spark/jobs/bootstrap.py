"""Bootstrap: make the state tables and publish epoch 0, by consistent hashing.

The epoch is published last. A crash anywhere leaves tables that a second run recognizes as its own
and completes. With --evolve it changes the columns of tables that are there, and makes no epoch.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, date, datetime
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import TableVersion
from evenkeel.registry.files.records import BootstrapRecord
from evenkeel.runs.planning import function_of_epoch_0
from evenkeel.table import Table
from evenkeel_spark.events.aggregate import of_table
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import day_number, need_time, read_events, typed_key
from evenkeel_spark.evolving.command import add_options, run_evolve
from evenkeel_spark.runtime.command import add_day, parser, run_job, say
from evenkeel_spark.runtime.heartbeat import repeating
from evenkeel_spark.tables import filesystem
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from evenkeel_spark.tables.delta.unfinished_table import (
    QUIET,
    all_files,
    check_half_made,
    clear_unfinished,
    first_properties,
    guard_new,
)
from evenkeel_spark.tables.spark_errors import CONFLICTS, first_line
from evenkeel_spark.tables.table_properties import MADE_PROPERTY, SLOTS_PROPERTY
from evenkeel_spark.tables.write_session import in_session, own_session
from evenkeel_spark.windows.first_state import (
    check_made,
    check_same_events,
    first_state_note,
    made_from,
    rows_until,
)
from evenkeel_spark.windows.iceberg.making import bootstrap_iceberg
from partitioning.errors import EvenkeelError, FenceError, InputError

#: Delta's errors, beside its conflicts, for the second of two bootstraps at once.
_SECOND = ("ALREADY_EXISTS", "NON_EMPTY_LOCATION")
#: Tries of a bootstrap that another one overtakes. The waits between them grow by 0.2 s each.
BOOTSTRAP_ATTEMPTS = 5
#: Seconds between two signs of a bootstrap that it is at work. One in ten must reach the registry.
SIGN_SECONDS = QUIET / 10


def bootstrap(spark: SparkSession, table: Table, end: date | None = None) -> bool:
    """Make the tables and the epoch that are missing.

    Parameters
    ----------
    table : its spec and registry
    end : state is built from the events before this day; None: state begins empty

    Returns
    -------
    False if the table was bootstrapped before.

    Raises
    ------
    InputError : the input cannot be used, or folders hold something else
    DamagedError : folders hold tables that a bootstrap of something else has made
    FenceError : another bootstrap was first, at every attempt
    """
    if table.spec.plain:
        raise InputError(
            "its state tables are the team's own (`rows`): bootstrap makes none of them",
            f"spec of {table.spec.table}",
            "Run adopt",
        )
    spark = own_session(spark)
    bootstrap_once = bootstrap_iceberg if table.spec.iceberg else _bootstrap
    for attempt in range(BOOTSTRAP_ATTEMPTS):
        try:
            return bootstrap_once(spark, table, end)
        except (*CONFLICTS, AnalysisException) as error:
            lost = first_line(error)
            if isinstance(error, AnalysisException) and not any(s in lost for s in _SECOND):
                raise
            say(
                f"another bootstrap was first ({attempt + 1} of {BOOTSTRAP_ATTEMPTS}): {lost[:120]}"
            )
            time.sleep(0.2 * attempt)
    raise FenceError(
        f"another bootstrap is under way ({lost})",
        table.spec.registry,
        "Let it end, then run this again",
    )


def _bootstrap(spark: SparkSession, table: Table, end: date | None) -> bool:
    spec = table.spec
    if table.registry.numbers():
        check_tables(spark, spec)
        return False
    events = read_events(spark, spec)
    function = function_of_epoch_0(spec, typed_key(events, spec))
    made = made_from(spec, function, end)
    spent = day_number(end) if end else None
    missing = [name for name in spec.state if not _there(spark, table, name)]
    for name in spec.state:
        if name not in missing:
            check_half_made(spark, table, name, function, spent, _marked(table).state)
            path = spec.state[name].path
            check_made(state.properties(spark, path), path, made)
    if missing:
        rows = rows_until(events, spec, function, end)
        try:
            table.registry.store.check_exclusive()
            noted = first_state_note(made, rows, spec)
            for name, part in spec.state.items():
                if name not in missing:
                    check_same_events(state.properties(spark, part.path), part.path, noted)
            with _at_work(table, missing):
                _create(spark, table, rows, missing, noted, end, dict(events.dtypes))
        finally:
            rows.unpersist()
    rule = constraints.fence_rule(spec, function)
    for name, part in spec.state.items():
        with all_files(part.path):
            guard_new(partial(nullcontext, spark), part.path, 0, rule)
        say(f"{name}: ready at {part.path}")
    table.registry.publish(
        function,
        {
            name: TableVersion(part.path, state.table_version(spark, part.path))
            for name, part in spec.state.items()
        },
    )
    return True


def _marked(table: Table) -> BootstrapRecord:
    """Return what a bootstrap of this registry has begun to write, and when it last said so."""
    found = table.registry.files.bootstrap.find()
    return BootstrapRecord(state=[]) if found is None else found


@contextmanager
def _at_work(table: Table, names: Sequence[str]) -> Iterator[None]:
    """Write to the registry, each minute, that this bootstrap makes these tables."""

    def tell() -> None:
        paths = sorted({*_marked(table).state, *(table.spec.state[name].path for name in names)})
        record = BootstrapRecord(state=paths, time=datetime.now(UTC).isoformat())
        table.registry.files.bootstrap.write(record)

    def go_on() -> None:
        # The next one may come through.
        with suppress(EvenkeelError):
            tell()

    tell()
    with repeating(go_on, lambda: SIGN_SECONDS, "at work"):
        yield


def _there(spark: SparkSession, table: Table, name: str) -> bool:
    """Return whether a bootstrap of this spec has made the table.

    Remove what a bootstrap of this registry has left of a write that never committed. Refuse
    anything else.
    """
    spec, path = table.spec, table.spec.state[name].path
    if not filesystem.occupied(spark, path):
        return False
    marked = _marked(table)
    told = datetime.fromisoformat(marked.time).timestamp() if marked.time else 0.0
    if path in marked.state and clear_unfinished(spark, path, rows=True, at_work=told):
        say(f"{name}: an earlier bootstrap was broken off while it wrote. Writing the table again")
        return False
    found = state.check_owner(spark, path, spec.table)
    if found.get(SLOTS_PROPERTY) != str(spec.slots):
        raise InputError(
            f"was made with slots = {found.get(SLOTS_PROPERTY)}, the spec says {spec.slots}",
            path,
            "Set it back, or remove the folder",
        )
    return True


def _create(
    spark: SparkSession,
    table: Table,
    rows: DataFrame,
    names: Sequence[str],
    made: str,
    end: date | None,
    types: Mapping[str, str],
) -> None:
    """Create each table in one commit: schema, properties and rows."""
    spec = table.spec
    meta = {"step": "bootstrap", "end": end.isoformat() if end else None, "epoch": 0}
    for name in names:
        say(f"{name}: writing")
        properties = {**first_properties(table, name, types), MADE_PROPERTY: made}
        with reading(spec), commits.our_commit(spark, None, None, meta) as own:
            written = in_session(own, of_table(rows, spec, name))
            writer = written.writeTo(state.sql_name(spec.state[name].path))
            writer = writer.using("delta").partitionedBy(F.col(state.CHANNEL))
            for key, value in properties.items():
                writer = writer.tableProperty(key, value)
            writer.create()


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    if run_evolve(spark, table, options):
        return
    if options.end is not None:
        need_time(table.spec)
    if bootstrap(spark, table, options.end):
        say(f"epoch 0 of {table.spec.table} published in {table.registry.url}")
    else:
        number = table.registry.numbers()[-1]
        say(f"{table.spec.table} is bootstrapped already (epoch {number}): nothing to do")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    arguments = parser(__doc__ or "")
    add_day(
        arguments,
        "--end",
        "build state from the events before this day; without it, tables begin empty",
    )
    add_options(arguments)
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
