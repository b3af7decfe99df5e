"""Learn: sketch the new days of the window, merge the stored sketches, and weigh the state.

The sketches are exact: see `daily_sketches`. Leaves runs/RUN/profile.npz and profile.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.registry.epochs import Epoch
from evenkeel.registry.files.records import ProfileRecord, SplitColumn
from evenkeel.runs.learning import check_newest, mark_learning, unmark_learning
from evenkeel.spec.loading import check_slot_multiple
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from evenkeel_spark.events.daily_sketches import Passes, hour_loads, sketch_days
from evenkeel_spark.events.parquet_files import check_file_columns, refuse_unknown_times
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import (
    between,
    check_key,
    day_of,
    need_time,
    read_events,
    row_column,
    typed_key,
)
from evenkeel_spark.events.sketch_store import Sketches
from evenkeel_spark.events.state_weights import Weight, weigh
from evenkeel_spark.forgetting.meanwhile import NamingWrites, none_forgotten
from evenkeel_spark.migration.split_state import check_mergeable
from evenkeel_spark.runtime.command import add_day, add_switch, parser, run_job, say
from evenkeel_spark.tables.delta.preflight import check_tables
from partitioning.errors import EvenkeelError, InputError
from partitioning.workload.forecast import forecast
from partitioning.workload.profile import HEAVY_SHARE, Profile, Sketch

#: Slack for a sum of floats, which may differ in its last digits.
_ROUNDING = 1 + 1e-9


def learn(
    spark: SparkSession,
    table: Table,
    end: date | None = None,
    relearn: bool = False,
    epoch: Epoch | None = None,
) -> tuple[Profile, Weight]:
    """Make the profile of the window that ends before `end`.

    Parameters
    ----------
    table : its spec and registry
    end : every day before it and before today (UTC) is complete; None: the day after the newest
        event. Events dated after today do not count. A day that may be incomplete is not stored
    relearn : sketch every day again, and replace the stored sketches
    epoch : whose function gives the pinned keys; None: the current one

    Returns
    -------
    The profile, and the weight of the state in it.

    Raises
    ------
    InputError : see `sketch_days`; also an empty window, an input that cannot be used, or slots
        that are no multiple of the epoch's
    FenceError : a key was forgotten meanwhile
    """
    spec, epoch = table.spec, epoch or table.epoch()
    key, slots = epoch.function.key, len(epoch.function.slots)
    check_slot_multiple(spec, str(slots), f"epoch {epoch.number} of {table.registry.url}")
    if spec.slots > slots:
        say(f"slots: {slots:,} are to be {spec.slots:,}; no row is rewritten for it")
    function = epoch.function.refined(spec.slots)
    with none_forgotten(spark, spec) as writes:
        events = read_events(spark, spec)
        check_key(events, spec, key)
        sketches, window = _window(table, epoch, events, end, relearn, writes)
    if spec.input.time is not None and len(sketches) < spec.window:
        # They may be gone, and what was learned of them may have been for other slots.
        say(f"{spec.window - len(sketches)} of {spec.window} days have no events: left out")
    ahead = forecast(sketches, spec.decay)
    merged = ahead.sketch
    if spec.decay is not None:
        say(f"forecast from {len(sketches)} days, decay {ahead.decay:g}")
    if ahead.uncertain:
        say(f"uncertain: {ahead.uncertain}")
    say(f"{merged.rows:,} events, {len(merged.heavy)} heavy keys; weighing the state")
    weight = weigh(spark, spec, function, np.union1d(merged.heavy, epoch.function.exceptions))
    profile = weight.onto(merged, key, window)
    profile = replace(profile, chance=ahead.chance(function), uncertain=ahead.uncertain)
    return profile, weight


def _window(
    table: Table,
    epoch: Epoch,
    events: DataFrame,
    end: date | None,
    relearn: bool,
    writes: NamingWrites,
) -> tuple[list[Sketch], tuple[str, str]]:
    """Return the window's sketches, new or stored, and its (first day, day after the last).

    Parameters
    ----------
    writes : makes those of the sketches
    """
    spec = table.spec
    channels = max(len(epoch.function.channels), len(spec.channel_list()))
    passes = Passes(
        typed_key(events, spec),
        spec.slots,
        HEAVY_SHARE / channels,
        epoch.function.exceptions,
        spec.sketch,
    )
    if spec.input.time is None:
        if end is not None:
            need_time(spec)
        say("learning the whole input")
        found = list(sketch_days(events, spec, passes).values())
        if not found:
            raise InputError("the input is empty", spec.input.path, "Add events")
        return found, ("", "")
    refuse_unknown_times(events, spec)
    if end is None:
        end = _after_last(events, spec)
        closed = end - timedelta(days=1)
    else:
        # Events of today may still come, whatever end was asked for.
        closed = min(end, datetime.now(UTC).date())
    start = end - timedelta(days=spec.window)
    days = [start + timedelta(days=i) for i in range(spec.window)]
    stored = Sketches(table.registry, spec, passes.key)
    kept = {} if relearn else stored.read(days)
    # With more channels, lighter keys are heavy. A sketch for fewer channels may lack them, and so
    # does one of which a heavy key was forgotten.
    known = {d: s for d, s in kept.items() if s.error <= passes.found * s.load.sum() * _ROUNDING}
    missing = [d for d in days if d not in known]
    if missing:
        say(f"window {start} to {end}: {len(known)} days known, learning {len(missing)}")
        part = between(events, spec, missing[0], missing[-1] + timedelta(days=1))
        if len(missing) < (missing[-1] - missing[0]).days + 1:
            part = part.where(day_of(spec).isin(missing))
        known |= _sketched(part, spec, passes)
        # Do not store a day without events: they may still come.
        for day in (day for day in missing if day in known and day < closed):
            writes.make(partial(stored.write, day, known[day]), partial(stored.remove, day))
        if relearn:
            _remove_gone(stored, [day for day in missing if day not in known], writes)
        # Days whose events are gone by now: what is known of them is all that there is.
        known = {**kept, **known}
    if not known:
        raise InputError(
            f"no events in the window from {start} to {end}",
            spec.input.path,
            f"Its days end before {_after_last(events, spec)}: choose --end, or a longer window",
        )
    return [known[d] for d in sorted(known)], (start.isoformat(), end.isoformat())


def _remove_gone(stored: Sketches, days: Sequence[date], writes: NamingWrites) -> None:
    """Remove sketches of days that have no events any more: the next run would count them."""
    gone = stored.read(days)
    for day in gone:
        # It has no undo: that would bring back names that were forgotten meanwhile.
        writes.make(partial(stored.remove, day), lambda: None)
    if gone:
        say(f"removed the sketches of {len(gone)} days, whose events are gone")


def _sketched(part: DataFrame, spec: TableSpec, passes: Passes) -> dict[date, Sketch]:
    """Return the sketches of the days that have events in a part of them."""
    check_file_columns(part, spec)
    sketched = sketch_days(part, spec, passes)
    # Only the watch needs loads by hour. Its input has times.
    hours = hour_loads(part, spec) if spec.watch else {}
    return {
        date(1970, 1, 1) + timedelta(days=n): replace(sketch, hours=hours.get(n, sketch.hours))
        for n, sketch in sketched.items()
    }


def _after_last(events: DataFrame, spec: TableSpec) -> date:
    """Return the day after the newest event that is not dated after today (UTC).

    An event with a wrong year must not give a window that holds that event alone.
    """
    tomorrow, day = datetime.now(UTC).date() + timedelta(days=1), day_of(spec)
    came = day < F.lit(tomorrow)
    with reading(spec):
        found = events.agg(F.max(F.when(came, day)), F.count_if(~came)).first()
    last: date | None = None if found is None else found[0]
    beyond = 0 if found is None else found[1]
    if beyond:
        said = f"{beyond:,} events are dated after today (UTC), {tomorrow - timedelta(days=1)}"
        if last is None:
            raise InputError(
                f"{said}, and none before", spec.input.path, "Correct them, or choose --end"
            )
        say(f"{said}: they are left out")
    if last is None:
        raise InputError("the input is empty", spec.input.path, "Add events")
    return last + timedelta(days=1)


def _body(spark: SparkSession, table: Table, options: argparse.Namespace) -> None:
    started = time.monotonic()
    run, epoch = table.registry.run(options.run), table.epoch()
    mark = mark_learning(run, epoch)
    try:
        row = row_column(read_events(spark, table.spec), table.spec) if table.spec.split else None
        if row is not None:
            check_tables(spark, table.spec)
            check_mergeable(spark, table.spec)
        with none_forgotten(spark, table.spec) as writes:
            profile, weight = learn(spark, table, options.end, options.relearn, epoch)
            check_newest(run, mark)
            writes.make(partial(run.profile.write, profile), run.profile.remove)
    except Exception:
        with suppress(EvenkeelError):
            unmark_learning(run, mark)
        raise
    seconds = round(time.monotonic() - started, 3)
    run.learned.write(
        ProfileRecord(
            epoch=epoch.number,
            tables=weight.versions,
            seconds=seconds,
            row=SplitColumn.of(row),
            footer=weight.footer,
            at=datetime.now(UTC).isoformat(),
        )
    )
    say(f"profile of {profile.events:,} events in {run.url}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    arguments = parser(__doc__ or "", run=True)
    add_day(arguments, "--end", "the day after the window")
    meaning = "learn every day of the window again, and replace the stored sketches"
    add_switch(arguments, "--relearn", meaning)
    return run_job(arguments, _body, argv)


if __name__ == "__main__":
    sys.exit(main())
