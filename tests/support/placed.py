"""A small table whose state stands where epoch 0 puts it, and plans for it: for tests of the jobs
that move rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.epochs import TableVersion
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.plans.approved_plan import Migration, approved_migration
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.table_properties import SLOTS_PROPERTY, TABLE_PROPERTY
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.function.sql import channel_sql, slot_sql
from partitioning.planning.plan import Plan, plan_for
from partitioning.workload.profile import Profile, profile_of_keys
from tests.support.raw_json import write_json

SLOTS, CHANNELS, KEYS = 64, 4, 2000
KEY = (KeyColumn("key", "string"),)
#: Slots that `planned` moves, and from which channel: slot s stands in channel s mod 4.
MOVED = (0, 4, 8, 9, 10, 33)
#: A heavy key, in none of those slots.
HEAVY = "k7"


@dataclass(frozen=True)
class Placed:
    """The table, the file of its spec, and the names of its state tables."""

    table: Table
    spec_path: Path
    names: tuple[str, ...]

    def path(self, name: str = "visits") -> str:
        return self.table.spec.state[name].path

    def migration(self, run: str) -> Migration:
        """The plan that `planned` left."""
        return approved_migration(self.table, run, read_plan(self.table.registry.run(run)).digest)

    def rows(self, spark: SparkSession, name: str = "visits") -> dict[str, tuple[int, int]]:
        """key -> (channel, visits)."""
        found = spark.read.format("delta").load(self.path(name)).collect()
        assert len({r["key"] for r in found}) == len(found)
        return {r["key"]: (r["channel"], r["visits"]) for r in found}

    def version(self, spark: SparkSession, name: str = "visits") -> int:
        return state.table_version(spark, self.path(name))

    def clean_log(self, spark: SparkSession) -> None:
        """Remove the table's log up to a checkpoint, as Delta does after its retention."""
        log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log.forTable(spark._jsparkSession, self.path()).checkpoint()
        for file in (Path(self.path()) / "_delta_log").glob("*.json"):
            if int(file.stem) < self.version(spark):
                file.unlink()
        log.clearCache()

    def constraints(self, spark: SparkSession, name: str = "visits") -> set[str]:
        return set(constraints.of(spark, self.path(name)))


class Crash(BaseException):
    """What the end of the process at a named step becomes in a test."""


@contextmanager
def crashing_at(step: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The block must come to `step`, and ends there."""

    def end(code: int) -> None:
        assert code == 137
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):  # noqa: PT012
        patch.setenv("EVENKEEL_CRASH_AT", step)
        patch.setattr("os._exit", end)
        yield


@contextmanager
def meanwhile(
    step: str, what: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Somebody else does `what` the first time that the block comes to `step`."""
    waiting = [what]

    def pause(reached: str) -> None:
        if reached == step and waiting:
            waiting.pop()()

    with monkeypatch.context() as patch:
        patch.setattr("evenkeel_spark.runtime.crash_point.reached", pause)
        yield
    assert not waiting


def copied(template: Placed, folder: Path) -> Placed:
    """The same table in another folder."""
    shutil.copytree(template.spec_path.parent, folder, dirs_exist_ok=True)
    spec_path = folder / template.spec_path.name
    return Placed(Table(load_spec(spec_path)), spec_path, template.names)


def hashes(keys: list[str]) -> np.ndarray:
    return key_hash([keys], ["string"])


def placed(
    spark: SparkSession,
    folder: Path,
    names: tuple[str, ...] = ("visits",),
    copied: tuple[str, ...] = (),
    fence: str = "key",
) -> Placed:
    """Make the state tables, some `copied` to every owner, and publish epoch 0."""
    counted, copy = {"merge": "count"}, {"merge": "copy", "of": "visits"}
    spec = {
        "table": "people",
        "key": ["key"],
        "input": {"path": "events"},
        "state": {
            n: {"path": f"state/{n}", "columns": {"visits": copy if n in copied else counted}}
            for n in names
        },
        "registry": "registry",
        "channels": CHANNELS,
        "slots": SLOTS,
        "fence": fence,
    }
    folder.mkdir(parents=True, exist_ok=True)
    spec_path = folder / "people.yaml"
    spec_path.write_text(yaml.safe_dump(spec, sort_keys=False))
    table = Table(load_spec(spec_path))
    function = PartitioningFunction(KEY, numbered_channels(CHANNELS), np.arange(SLOTS) % CHANNELS)
    versions = {}
    for name in names:
        path = table.spec.state[name].path
        rows = state_rows(spark, function, {f"k{i}": i for i in range(KEYS)})
        writer = rows.sort(state.SLOT).coalesce(1).writeTo(state.sql_name(path)).using("delta")
        for key, value in {
            "delta.enableDeletionVectors": "true",
            TABLE_PROPERTY: "people",
            SLOTS_PROPERTY: str(SLOTS),
        }.items():
            writer = writer.tableProperty(key, value)
        writer.partitionedBy(F.col(state.CHANNEL)).create()
        rule = constraints.fence_rule(table.spec, function)
        constraints.add(spark, path, constraints.epoch_name(0), rule)
        versions[name] = TableVersion(path, state.table_version(spark, path))
    table.registry.publish(function, versions)
    return Placed(table, spec_path, names)


def state_rows(
    spark: SparkSession, function: PartitioningFunction, visits: Mapping[str, int]
) -> DataFrame:
    """Rows of state, routed by `function`."""
    rows = spark.createDataFrame(list(visits.items()), "key string, visits bigint")
    return rows.selectExpr(
        f"{channel_sql(function)} AS {state.CHANNEL}",
        f"{slot_sql(function.key, function.row_slots)} AS {state.SLOT}",
        "key",
        "visits",
    )


def append(
    spark: SparkSession, home: Placed, function: PartitioningFunction, visits: Mapping[str, int]
) -> None:
    """What another writer does, who routes by `function`."""
    rows = state_rows(spark, function, visits)
    for name in home.names:
        rows.write.format("delta").mode("append").save(home.path(name))


def next_function(
    previous: PartitioningFunction, slots: tuple[int, ...] = MOVED, heavy: str | None = HEAVY
) -> PartitioningFunction:
    """`slots` go one channel up, and the heavy key too."""
    owners = previous.slots.copy()
    for slot in slots:
        owners[slot] = (owners[slot] + 1) % CHANNELS
    keys, channels = previous.explicit_keys, previous.explicit_channels
    if heavy is not None:
        keys = hashes([heavy])
        channels = (previous.lookup_hashes(keys) + 1) % CHANNELS
    return replace(previous, slots=owners, explicit_keys=keys, explicit_channels=channels)


def planned(
    spark: SparkSession,
    home: Placed,
    run: str = "r1",
    function: PartitioningFunction | None = None,
    profile: Profile | None = None,
    **changes: Any,
) -> Migration:
    """A plan from the current epoch to `function`, left in the run's folder and approved."""
    epoch = home.table.epoch()
    function = next_function(epoch.function) if function is None else function
    profile = one_row_a_key(spark, home) if profile is None else profile
    plan = plan_for(
        "people",
        profile,
        epoch.function,
        function,
        budget=changes.pop("budget", None),
        tables={n: home.version(spark, n) for n in home.names},
    )
    plan = replace(plan, run=run, **changes)
    store(home, run, plan)
    home.table.registry.run(run).write("profile.npz", profile.to_bytes())
    return approved_migration(home.table, run, plan.digest)


def one_row_a_key(spark: SparkSession, home: Placed) -> Profile:
    """What the state weighs as long as no key is split."""
    keys = [f"k{i}" for i in range(KEYS)]
    size = sum(state.table_bytes_per_row(spark, home.path(n)) for n in home.names)
    profile = profile_of_keys(
        KEY,
        hashes(keys),
        np.where(np.array(keys) == HEAVY, 100.0, 1.0),
        SLOTS,
        state=np.full(KEYS, size),
        threshold=50.0,
    )
    return replace(
        profile,
        rows=profile.rows * len(home.names),
        heavy_rows=profile.heavy_rows * len(home.names),
    )


def store(home: Placed, run: str, plan: Plan) -> None:
    write_json(home.table.registry.run(run), "plan.json", plan.to_dict())


def end_by(spark: SparkSession, home: Placed, run: str, job: str) -> None:
    """Bring the tables back to rest from a run, by one of the jobs that do so."""
    if job == "repair":
        repair(spark, home.table)
    else:
        roll_back(spark, home.migration(run))


def before_the_statement(
    patch: pytest.MonkeyPatch, what: Callable[[], object], ids: int = 0
) -> None:
    """Let other jobs go first, once a job is about to run its statement with an id.

    Parameters
    ----------
    ids : that its commits of constraints have before
    """
    real, left = commits.our_commit, iter(range(ids))

    def first(spark: SparkSession, app: str | None, *rest: Any) -> AbstractContextManager[Any]:
        if app is not None and next(left, None) is None:
            patch.undo()
            what()
        return real(spark, app, *rest)

    patch.setattr(commits, "our_commit", first)
