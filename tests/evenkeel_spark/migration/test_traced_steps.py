"""Real jobs do only what the model of the protocol allows, at each point that they pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from evenkeel.registry.verdict import PUBLISH, ROLL_BACK, newest_attempt, read_rolled_back
from evenkeel_spark.migration import table_migration
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.placement import REPAIRING
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.repair import repair
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration
from evenkeel_spark.tables.delta import constraints, state
from tests.chaos.points import watched
from tests.model.protocols.now import NOW
from tests.model.protocols.protocol import Scenario, Variant
from tests.model.protocols.scenarios import LONE, SPLITTING
from tests.model.protocols.variants import without
from tests.model.rows import Function
from tests.model.trace import PartedError, Seen, Trace
from tests.support.placed import Placed, copied, placed, planned

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: A whole key moves, as in the plans of `planned`.
MOVING: Scenario = SPLITTING._replace(functions=(LONE, Function(1, (0,))))


def verify_and_publish(spark: SparkSession, migration: Migration) -> None:
    verify(spark, migration)
    publish(spark, migration)


JOBS = {
    "migrate": migrate,
    "verify": verify_and_publish,
    "roll_back": roll_back,
    "repair": lambda spark, migration: repair(spark, migration.table),
}
_VERDICTS = {None: 0, PUBLISH: 1, ROLL_BACK: 2}


@pytest.fixture(scope="module", params=["key", "slot"])
def home(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Placed:
    made = placed(spark, tmp_path_factory.mktemp("placed"), fence=request.param)
    planned(spark, made)
    return made


class World:
    """The table and the run of a plan, as the model can see them."""

    def __init__(self, spark: SparkSession, home: Placed, variant: Variant = NOW) -> None:
        self.spark, self.home, self.migration = spark, home, home.migration("r1")
        self.trace = Trace(variant, MOVING, self.look)

    def look(self) -> Seen:
        run, digest = self.migration.run, self.migration.plan.digest
        path = self.home.path()
        stands = constraints.our_constraints(self.spark, path)
        epochs = [self.migration.before, self.migration.after]
        known = {constraints.epoch_name(e): e for e in (0, 1)}
        assert stands <= {*known, self.migration.moving, REPAIRING}
        rows = self.spark.read.format("delta").load(path).select("key", state.CHANNEL).toPandas()
        newest, back = newest_attempt(run, digest), read_rolled_back(run, digest)
        return Seen(
            self.home.table.registry.numbers()[-1],
            tuple(sorted(known[n] for n in stands if n in known)),
            self._moving(),
            REPAIRING in stands,
            tuple(
                e
                for e, function in enumerate(epochs)
                if np.array_equal(function.lookup(list(rows["key"])), rows[state.CHANNEL])
            ),
            newest.number,
            _VERDICTS[newest.verdict],
            0 if back is None else 1 + back.done,
            run.exists("verify.json"),
        )

    def _moving(self) -> tuple[int, ...]:
        """Return the epochs whose function the plan's moving constraint admits."""
        there = constraints.of(self.spark, self.home.path()).get(self.migration.moving)
        if there is None:
            return ()
        same = [constraints.same_sql(there, r) for r in self.migration.rules[self.migration.moving]]
        # Open; closed to all but one; held while rows move to one.
        return dict(zip(same, ((0, 1), (0,), (1,), (1,), (0,)), strict=True))[True]

    def run(self, job: str) -> None:
        """Run a job, and look at each point that it passes."""
        work: Callable[[SparkSession, Migration], object] = JOBS[job]
        with self.trace.job(job) as look, watched(look):
            work(self.spark, self.home.migration("r1"))


def test_migrate_does_what_the_model_allows(
    spark: SparkSession, home: Placed, tmp_path: Path
) -> None:
    world = World(spark, copied(home, tmp_path))
    world.run("migrate")
    # The moving constraint, epoch 0's drop, the rows.
    assert world.trace.changes == 3
    assert world.trace.now == Seen(0, (), (0, 1), False, (1,), 1, 0, 0, False)


def test_verify_does_what_the_model_allows(
    spark: SparkSession, home: Placed, tmp_path: Path
) -> None:
    world = World(spark, copied(home, tmp_path))
    world.run("migrate")
    before = world.trace.changes
    world.run("verify")
    # Closed; epoch 1's constraint, moving's drop; verify.json, verdict, epoch.
    assert world.trace.changes - before == 6
    assert world.trace.now == Seen(1, (1,), (), False, (1,), 1, 1, 0, True)


def test_roll_back_does_what_the_model_allows(
    spark: SparkSession, home: Placed, tmp_path: Path
) -> None:
    world = World(spark, copied(home, tmp_path))
    world.run("migrate")
    before = world.trace.changes
    world.run("roll_back")
    # Verdict and mark; closed, the rows, epoch 0's constraint, moving's drop; mark.
    assert world.trace.changes - before == 7
    assert world.trace.now == Seen(0, (0,), (), False, (0,), 1, 2, 2, False)


@pytest.mark.parametrize("job", ["migrate", "roll_back"])
def test_holding_other_writers_off_is_what_the_model_allows(
    spark: SparkSession, home: Placed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.setattr(table_migration, "LOSSES", 0)
    world = World(spark, copied(home, tmp_path))
    world.run("migrate")
    # As without holding, and before and after the rows move.
    assert world.trace.changes == 5
    if job == "roll_back":
        world.run(job)
        assert world.trace.now == Seen(0, (0,), (), False, (0,), 1, 2, 2, False)


def test_repair_does_what_the_model_allows(
    spark: SparkSession, home: Placed, tmp_path: Path
) -> None:
    world = World(spark, copied(home, tmp_path))
    world.run("migrate")
    before = world.trace.changes
    world.run("repair")
    # Verdict and mark; its own constraint, moving's drop, the rows, epoch 0's, its own drop; mark.
    assert world.trace.changes - before == 8
    assert world.trace.now == Seen(0, (0,), (), False, (0,), 1, 2, 2, False)


#: Models that lack a guard of the real jobs: who has it, and what is seen first of it.
GUARDS = {
    "migrate": (without("migrate", "add moving", "ask moving"), r"moving=\(0, 1\)"),
    "verify": (without("verify", "verdict", "look", note=1), "verdict=1"),
    "roll_back": (without("roll_back", "mark", "back"), "mark=1"),
    "repair": (without("repair", "put", "ask"), "repairing=True"),
}


@pytest.mark.parametrize("job", GUARDS)
@pytest.mark.parametrize("home", ["key"], indirect=True)
def test_a_model_without_a_guard_parts_from_the_real_jobs(
    spark: SparkSession, home: Placed, tmp_path: Path, job: str
) -> None:
    """The trace is no proof if it lets everything pass."""
    variant, where = GUARDS[job]
    world = World(spark, copied(home, tmp_path), variant)
    if job != "migrate":
        world.run("migrate")
    with pytest.raises(PartedError, match=f"{where}[^\\n]*\\nthe model allows"):
        world.run(job)


def test_a_job_that_ends_half_way_parts_from_the_model(
    spark: SparkSession, home: Placed, tmp_path: Path
) -> None:
    world = World(spark, copied(home, tmp_path))
    with pytest.raises(PartedError, match="migrate may not end here"), world.trace.job("migrate"):
        pass
