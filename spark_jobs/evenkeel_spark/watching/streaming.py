"""The watch over a stream of events: look at each micro-batch, and carry out a decision at once.

It runs the same functions as the DAG's tasks.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.pipeline import approval, steps
from evenkeel.spec.loading import load_spec
from evenkeel.spec.places.allowed_roots import place_parts
from evenkeel.table import Table
from evenkeel_spark.events import csv_files
from evenkeel_spark.events.reader import check_key, col, read_events
from evenkeel_spark.iceberg import migrate as iceberg_migrate
from evenkeel_spark.iceberg import roll_back as iceberg_roll_back
from evenkeel_spark.iceberg import verify as iceberg_verify
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration, approved_migration, published
from evenkeel_spark.runtime.command import known_error, say
from evenkeel_spark.tables.spark_errors import CONFLICTS, SPARK_ERRORS
from evenkeel_spark.tables.write_session import check_own_jvm
from evenkeel_spark.watching.evaluate import evaluate
from evenkeel_spark.watching.micro_batch import need_watch
from partitioning.errors import EvenkeelError, InputError, UnreachableError


def carry_out(spark: SparkSession, table: Table, spec: str, run: str) -> int | None:
    """Plan the decision that a look has left in `run`, gate, migrate, verify and publish it.

    Roll back if this fails, by whatever error. Running it again continues where it was killed.

    Parameters
    ----------
    table : its spec and registry
    spec : path of the table's spec
    run : name of the run

    Returns
    -------
    Number of the epoch published; None: it was not carried out, and a progress line says why.

    Raises
    ------
    FenceError : rows have moved, and cannot go back: the plan does not go with the spec of now.
    DamagedError : nobody knows whether rows have moved.
    UnreachableError : a store is down.
    """
    migration: Migration | None = None
    # One that was killed goes on by its own plan, whatever the spec says by now.
    begun = find_half_moved(table.registry, table.registry.run(run))
    try:
        digest = _approved(spec, run) if begun is None else begun.digest
        if digest is None:
            return None
        migration = approved_migration(table, run, digest)
        try:
            _move(spark, migration)
        except (EvenkeelError, *CONFLICTS, *SPARK_ERRORS) as error:
            # Where Spark or the store may come back, the same batch again goes on.
            if not isinstance(known_error(error, table) or error, UnreachableError):
                _move_back(spark, migration)
            raise
        number = steps.publish(spec, run)
        steps.report(spec, run)
    except UnreachableError:
        # The store may come back. Nobody knows what is done, so the stream ends and resumes here.
        raise
    except (EvenkeelError, *CONFLICTS) as error:
        why = " ".join(str(error).split())
        if find_half_moved(table.registry, table.registry.run(run)) is not None:
            # Rows have moved, and are not back. To pass the batch over would leave them half-way.
            raise
        # The epoch is in force if its summary fails, and if the rollback had to publish it.
        if migration is None or not published(migration):
            say(f"not carried out: {why}")
            return None
        number = migration.after.epoch
        say(f"epoch {number} is published. A step after that has failed: {why}")
        return number
    say(f"epoch {number} is published")
    return number


def _move(spark: SparkSession, migration: Migration) -> None:
    """Move the rows, check them, and publish the epoch."""
    if migration.table.spec.iceberg:
        iceberg_migrate.migrate(spark, migration)
        iceberg_verify.verify(spark, migration)
    else:
        migrate(spark, migration)
        verify(spark, migration)
        publish(spark, migration)


def _move_back(spark: SparkSession, migration: Migration) -> None:
    iceberg = migration.table.spec.iceberg
    (iceberg_roll_back.roll_back if iceberg else roll_back)(spark, migration)


def _approved(spec: str, run: str) -> str | None:
    """Plan and gate, and return the digest of a plan that needs no person's approval."""
    digest = steps.plan_watch(spec, run)
    if digest is None:
        return None
    steps.validate_plan(spec, run)
    if (asked := approval.request(spec, run)) is not None:
        say(f"not carried out, because a stream can ask nobody for approval: {asked.subject}")
        return None
    by, at = approval.passed_by(spec, run), datetime.now(UTC).isoformat(timespec="seconds")
    approval.record(spec, run, True, by, at)
    return digest


def meet(
    spark: SparkSession,
    table: Table,
    spec: str,
    batch: DataFrame,
    number: int,
    query: str,
    moment: datetime | None = None,
) -> None:
    """Look at one micro-batch, and carry out its decision at once.

    `stream` calls this by `foreachBatch`. A stream of your own can call it after it has folded the
    batch into the state.

    Parameters
    ----------
    table : its spec and registry
    spec : path of the table's spec
    batch : events
    number : of the batch
    query : id of the stream that numbers the batches
    moment : when the batch ended (UTC if it has no time zone); None: now

    Raises
    ------
    InputError : as for `evaluate`
    SetupError : `spark` is a session of Spark Connect
    UnreachableError : a store is down; the same batch again continues where this stopped
    """
    check_own_jvm(spark)
    table = _as_of_now(table, spec)
    run, moment = f"watch-{query}-{number}", moment or datetime.now(UTC)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    decided = evaluate(spark, table, batch, F.lit(number), run, f"stream {query}", moment)
    if decided or find_half_moved(table.registry, table.registry.run(run)):
        carry_out(spark, table, spec, run)
    else:
        _complete(spark, table, spec, run)


def _as_of_now(table: Table, spec: str) -> Table:
    """Return the table by its spec of now, as plans and gates of the batch read it.

    Raises
    ------
    InputError : it is another table's by now, or has another registry
    """
    try:
        now = load_spec(spec)
    except EvenkeelError as error:
        # Somebody edits it. The stream that folds these events, too, must not end by that.
        say(f"goes on by the spec of before: {error}")
        return table
    if now == table.spec:
        return table
    for field in ("table", "registry", "key"):
        if getattr(now, field) != getattr(table.spec, field):
            raise InputError(
                f"its spec has another {field} since the stream began",
                spec,
                "Set it back, or start the stream again",
            )
    return Table(now)


def _complete(spark: SparkSession, table: Table, spec: str, run: str) -> None:
    """See to an epoch that this run has published right before it was killed."""
    plan = table.registry.run(run).plan.find()
    if (
        plan is not None
        and table.spec.iceberg
        and table.registry.published(plan.function.epoch, plan.digest)
    ):
        try:
            # It places rows that came late, and drops the run's branches.
            iceberg_verify.verify(spark, approved_migration(table, run, plan.digest))
        except UnreachableError:
            raise
        except EvenkeelError as error:
            # The epoch is in force whatever comes.
            say(f"late rows wait for maintain: {error}")
    # The epoch may lack the run's files.
    steps.report(spec, run)


def stream(
    spark: SparkSession,
    table: Table,
    spec: str,
    checkpoint: str,
    *,
    available_now: bool = False,
    files: int | None = None,
) -> None:
    """Watch the input as it comes, until the stream ends.

    Parameters
    ----------
    table : its spec and registry
    spec : path of the table's spec
    checkpoint : folder where Spark keeps what it has read; the numbers of batches go with it
    available_now : read what is there, and end; else a batch each `watch.every` minutes
    files : new files (of a Delta table too) that one batch may take; None: all

    Raises
    ------
    InputError : as for `evaluate` and `read_events`; or the input is a state table
    """
    source, every = table.spec.input, need_watch(table.spec).every
    if place_parts(source.path) in {place_parts(s.path) for s in table.spec.state.values()}:
        raise InputError(
            "is a state table, too: no stream can read on after the first rows that move",
            source.path,
            f"Watch it without --stream, as the DAG watch_{table.spec.table} does",
        )
    function = table.epoch().function
    now = read_events(spark, table.spec, function)
    check_key(now, table.spec, function.key)
    reader = spark.readStream.format(source.format)
    if source.format == "csv":
        # A CSV file's schema has all its columns, in their order.
        whole = csv_files.read_csv(spark, table.spec).schema
        reader = reader.schema(whole).options(**csv_files.OPTIONS)
    elif source.format != "delta":
        reader = reader.schema(now.schema)
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    events = reader.load(source.path).select(*(col(c) for c in now.columns))
    wrong: list[EvenkeelError] = []

    def seen(batch: DataFrame, number: int) -> None:
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        try:
            meet(spark, table, spec, batch, number, query)
        except EvenkeelError as error:
            wrong.append(error)
            raise

    writer = events.writeStream.foreachBatch(seen).option("checkpointLocation", checkpoint)
    pace = {"availableNow": True} if available_now else {"processingTime": f"{every} minutes"}
    query = writer.trigger(**pace).start()
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if wrong:
            # Raise our own error, without Spark's stack trace around it.
            raise wrong[0] from None
        raise
    finally:
        query.stop()
