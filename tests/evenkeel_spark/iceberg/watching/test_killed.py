"""A turn of the watch on an Iceberg table is killed at any step: what comes next ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.pipeline import steps
from evenkeel_spark.iceberg.maintain import steps as maintain_steps
from evenkeel_spark.iceberg.repair import repair
from evenkeel_spark.iceberg.roll_back import roll_back
from evenkeel_spark.plans.approved_plan import approved_migration
from evenkeel_spark.watching.streaming import carry_out
from tests.support.iceberg.stages import Stages, crash, reached
from tests.support.iceberg.watched import ONE, THREE, TWO, Watched

pytestmark = [pytest.mark.spark, pytest.mark.slow]
RUN = f"w{ONE}"


def turn(stages: Stages, number: int) -> None:
    """Look and carry out, in a process of its own; what has begun goes on without a look."""
    lake, live = stages.anew().spark, Watched(stages.now)
    run = live.table.registry.run(f"w{number}")
    if live.look(lake, number) or find_half_moved(live.table.registry, run):
        carry_out(lake, live.table, live.spec_path, run.name)


def looked_again(stages: Stages) -> None:
    """The same run, as a stream begins its micro-batch again."""
    turn(stages, ONE)
    # It may have published, and left its branches to maintain.
    for _, step in maintain_steps(stages.anew().spark, Watched(stages.now).table):
        step()


def rolled_back(stages: Stages) -> None:
    """The task roll_back ends the run, and another run looks."""
    lake, live = stages.anew().spark, Watched(stages.now)
    run = live.table.registry.run(RUN)
    if run.migration.exists():
        digest = steps.read_plan(run).digest
        roll_back(lake, approved_migration(live.table, RUN, digest))
    turn(stages, TWO)


def left_alone(stages: Stages) -> None:
    """The next look steps back from a run that has begun. Once it is repaired, one acts."""
    registry = Watched(stages.now).table.registry
    moves = RUN in registry.files.moving_runs() and find_half_moved(registry, registry.run(RUN))
    turn(stages, TWO)
    live = Watched(stages.now)
    assert bool(moves) == live.known.outcome.endswith(f"run {RUN} is moving rows")
    repair(stages.anew().spark, live.table)
    live.hot_pair(THREE)
    turn(stages, THREE)


ENDINGS: list[Callable[[Stages], None]] = [looked_again, rolled_back, left_alone]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("writes", [False, True])
def test_a_turn_is_killed(watched: Stages, ending: Callable[[Stages], None], writes: bool) -> None:
    """At each third step; writes: also after each write to the table and the registry."""
    watched.back("hot")
    points = reached(lambda: turn(watched, ONE), writes)
    assert {"decided", "folded", "begun", "moved", "closed", "claimed", "followed"} <= set(points)
    for at in range(ENDINGS.index(ending), len(points), len(ENDINGS)):
        watched.back("hot")
        live = Watched(watched.now)
        try:
            crash(lambda at=at: turn(watched, ONE), at, writes)
            live.hot_pair(TWO)
            ending(watched)
            lake = watched.anew().spark
            assert live.table.epoch().number == 1, live.known.outcome
            assert repair(lake, live.table, dry_run=True) == []
            live.check(lake)
        except BaseException as error:
            error.add_note(f"killed at step {at} ({points[at]})")
            raise
