"""Jobs beside a run that faults are put into, and the truth about the tables after each.

The truth is computed by pandas from the raw events. No code of the jobs takes part in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from pyspark.sql import SparkSession

from evenkeel.registry.files.whole_files import beside
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.maintain import maintain
from partitioning.function.hashing import key_hash, slot_of
from tests.chaos.iceberg.rows import team_truth
from tests.chaos.leftovers import age
from tests.conftest import DAYS, FIRST_DAY, SEEN, SPEC, World

#: The heaviest key: of a table with split keys the one that is split.
FORGOTTEN = "D000"
#: Days whose events are in the state of each table when its run begins.
UNTIL = {"whole": DAYS // 2, "split": DAYS}
#: Two state tables become two others: one changes, one leaves, one comes.
INTENT = Intent.of(["totals.miles=flown"], ["totals.first", "seen"])
CHANGED = {
    "totals": {
        **SPEC["state"]["totals"],
        "columns": {
            "trips": {"merge": "count"},
            "flown": {"merge": "sum", "of": "miles"},
            "last": {"merge": "max", "of": "at"},
            "least": {"merge": "min", "of": "miles"},
        },
    },
    "newest": {**SEEN, "path": "state/newest"},
}
#: How each column comes from a key's events. A column that is new has no history.
_FROM_EVENTS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "trips": len,
    "miles": lambda e: int(e["miles"].sum()),
    "flown": lambda e: int(e["miles"].sum()),
    "first": lambda e: _local(e["at"].min()),
    "last": lambda e: _local(e["at"].max()),
    "latest": lambda e: _local(e["at"].max()),
    "place": lambda e: e["place"].iloc[0],
    "least": lambda e: None,
}


@dataclass(frozen=True)
class Job:
    """A job that no run has.

    Parameters
    ----------
    stage : of the run's table that it is begun from
    prepare : makes a copy of that table ready
    act : runs the job; the second call in a row finds nothing to do
    days : days of events that are added to the state, by `prepare` and `act` together; None: the
        state is made anew of the first days
    """

    stage: str
    prepare: Callable[[SparkSession, World], object]
    act: Callable[[SparkSession, World], object]
    days: int | None = 0


def truth(world: World, table: str, step: str = "") -> dict[str, list[tuple[Any, ...]]]:
    """Return what each state table must hold when the job has ended, or is not begun: see
    `home.content`."""
    spec = world.table.spec
    if spec.plain:
        return team_truth(world)
    days = JOBS[step].days if step else 0
    until = UNTIL["whole"] if days is None else UNTIL[table] + days
    events = world.events[world.events["at"] < FIRST_DAY + timedelta(days=until)]
    if step == "forget":
        events = events[events["dest"] != FORGOTTEN]
    keys = dict(iter(events.groupby("dest")))
    slots = slot_of(key_hash([list(keys)], ["string"]), spec.slots).tolist()
    found = {}
    for name, part in spec.state.items():
        # A table that joins is empty until the next window.
        its = {} if name == "newest" else keys
        found[name] = sorted(
            (slot, key, *(_FROM_EVENTS[column](of) for column in part.columns))
            for slot, (key, of) in zip(slots, its.items(), strict=False)
        )
    return found


def _local(at: pd.Timestamp) -> datetime:
    """The moment as Spark's collect gives it."""
    return at.to_pydatetime().astimezone().replace(tzinfo=None)


def _day(number: int) -> date:
    return (FIRST_DAY + timedelta(days=number)).date()


def _until(world: World) -> int:
    return UNTIL["split" if world.table.spec.split else "whole"]


def _feed(spark: SparkSession, world: World) -> None:
    """Give the table events of more days than its state has: the first ones, again."""
    events = world.events
    more = events.assign(at=events["at"] + timedelta(days=DAYS))
    world.write_events(pd.concat([events, more], ignore_index=True))


def _window(spark: SparkSession, world: World) -> None:
    start = _until(world)
    apply_window(spark, world.table, _day(start), _day(start + 7))


def _wear(spark: SparkSession, world: World) -> None:
    """Leave many files, rows that are hidden in them, and what killed writes leave."""
    _feed(spark, world)
    for day in range(_until(world), _until(world) + 3):
        apply_window(spark, world.table, _day(day), _day(day + 1))
    torn = [Path(beside(str(world.folder / "registry/torn.json")))]
    if not world.table.spec.iceberg:
        torn.append(world.folder / "state/totals/channel=0/part-torn.parquet")
    for file in torn:
        file.write_text("torn")
    age(torn, world.table.spec.keep + 1)


def _respecify(spark: SparkSession, world: World) -> None:
    with Path(world.spec_path).open() as file:
        before = yaml.safe_load(file)["state"]
    changed = CHANGED
    if world.table.spec.iceberg:
        as_iceberg = {"format": "iceberg"}
        changed = {n: {**p, "path": f"lake.db.{n}", **as_iceberg} for n, p in CHANGED.items()}
    # Copies are left as they are.
    world.respec(state=changed | {n: p for n, p in before.items() if n == "places"})


def _empty(spark: SparkSession, world: World) -> None:
    for name in ("registry", "lake/db" if world.table.spec.iceberg else "state"):
        shutil.rmtree(world.folder / name)


#: By name. Each is begun from a stage of its own, which has the job's name.
JOBS = {
    "apply_window": Job("begun", _feed, _window, days=7),
    "evolve": Job("planned", _respecify, lambda s, w: evolve(s, w.table, INTENT)),
    "forget": Job("planned", lambda s, w: None, lambda s, w: forget(s, w.table, [FORGOTTEN])),
    "maintain": Job("begun", _wear, lambda s, w: maintain(s, w.table), days=3),
    "bootstrap": Job("begun", _empty, lambda s, w: bootstrap(s, w.table, _day(7)), days=None),
}
