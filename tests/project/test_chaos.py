"""Thirty faults, always the same: a sample of `make chaos`, which tries hundreds.

In the first tests steps are stopped abruptly (`points.Stop` passes every handler of
ours, but the session lives on and `finally` runs): it proves that whatever has been done up to a
point, the step done again goes on from there. In the last a process is killed by SIGKILL with
its JVM: it proves that nothing of what a step needs later is in the process. Neither proves what a
power failure does to a disk.
"""

from __future__ import annotations

import random
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos import home
from tests.chaos.cases import Case
from tests.chaos.home import RUN, World, bootstrapped, contents, copied, shared, task
from tests.chaos.jobs.checks import check_job, lead_out
from tests.chaos.jobs.flows import JOBS
from tests.chaos.leftovers import leftovers
from tests.chaos.points import Fault, stopped, watched
from tests.chaos.run import check, recover
from tests.chaos.sessions import Apart, Cluster, Rival, Victim
from tests.soak.__main__ import Worker

pytestmark = [pytest.mark.spark]

#: The life of a table: a step, and how often it is stopped before it is let through.
LIFE = (
    ("learn", 2), ("migrate", 6), ("roll_back", 4), ("migrate", 2), ("verify", 3), ("publish", 3),
)  # fmt: skip


@pytest.fixture(scope="module")
def start(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    return bootstrapped(spark, tmp_path_factory.mktemp("chaos") / "start", both=False)


def test_the_program_of_each_process_is_there() -> None:
    """A rival that ends at once would be a fault that no case has met."""
    kinds = {kind for one in Apart.__subclasses__() for kind in (one, *one.__subclasses__())}
    assert {Cluster, Rival, Victim, Worker} <= kinds
    assert [kind.MODULE for kind in kinds if find_spec(kind.MODULE) is None] == []


def test_a_table_whose_every_step_is_stopped_again_and_again(
    spark: SparkSession, start: World, tmp_path: Path
) -> None:
    world, rng = copied(start, tmp_path / "life"), random.Random(6)
    before, seen = contents(spark, world), []
    for step, times in LIFE:
        for n in range(times):
            # Later each time: what is done already passes no points.
            at = rng.randint(0, 2) + n
            seen.append(len(stopped(partial(task, spark, world, step), at)) > at)
        task(spark, world, step)
        if step == "learn":
            for between in ("decide", "plan"):
                task(spark, world, between)
    assert sum(seen) == 20, seen
    assert leftovers(world)
    case = Case(0, "stop", "whole", "sealed", "publish", 0, "", "retry", 1)
    check(spark, case, world, 0, before)
    assert (
        world.table.epoch().plan_digest
        == home.steps.read_plan(world.table.registry.run(RUN)).digest
    )


#: Jobs that no run has, how often each is stopped, and what is done then. `evolve` is stopped at
#: every point in a test of its own; a maintain takes too long.
OF_NO_RUN = [
    ("bootstrap", 4, "retry"), ("apply_window", 2, "repair"), ("forget", 2, "repair"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "times", "answer"), OF_NO_RUN)
def test_a_job_of_no_run_that_is_stopped_again_and_again(
    spark: SparkSession, start: World, tmp_path: Path, step: str, times: int, answer: str
) -> None:
    world = copied(start, tmp_path / "job")
    JOBS[step].prepare(spark, world)
    # Later each time, as in a table's life.
    seen = [len(stopped(partial(task, spark, world, step), at)) > at for at in range(times)]
    assert sum(seen) == times, seen
    case = Case(0, "stop", "whole", step, step, 0, "", answer, 1)
    lead_out(spark, case, world)
    check_job(spark, case, world, {})


@pytest.mark.slow
def test_processes_that_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    made = shared(spark, tmp_path / "planned")
    for step in ("learn", "decide", "plan"):
        task(spark, made, step)
    before = contents(spark, made)
    seen, rehearsed = Fault(), copied(made, tmp_path / "rehearsed")
    with watched(seen):
        task(spark, rehearsed, "migrate")
    joined = seen.seen.index("after MERGE on totals")
    cases = [
        Case(0, "kill", "split", "planned", "migrate", joined, "", "again", 1),
        Case(1, "inside", "split", "planned", "migrate", 1, "a part is being written", "retry", 1),
    ]
    worlds = [copied(made, tmp_path / str(c.number)) for c in cases]
    assert all(Victim(tmp_path / "victim").run(list(zip(cases, worlds, strict=True))))
    for case, world in zip(cases, worlds, strict=True):
        recover(spark, case, world)
        check(spark, case, world, 1, before)
