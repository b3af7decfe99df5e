"""A sample of `make chaos ARGS="--format iceberg"`, which tries hundreds: always the same faults.

A fault comes at any file of the registry and any commit, and pandas says what the tables must hold.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.cases import TEAM, Case
from tests.chaos.formats import FORMATS
from tests.chaos.home import RUN, copied, task
from tests.chaos.iceberg import rows
from tests.chaos.iceberg.copies import opened
from tests.chaos.jobs.checks import check_job, lead_out
from tests.chaos.jobs.flows import JOBS, truth
from tests.chaos.points import stopped
from tests.chaos.run import check, recover, strike
from tests.chaos.sessions import Victim
from tests.conftest import World

pytestmark = pytest.mark.spark

#: The life of a table: a step, and how often it is stopped before it is let through.
LIFE = (("learn", 1), ("migrate", 3), ("roll_back", 2), ("migrate", 1), ("verify", 4))


@pytest.fixture(scope="module")
def start(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, World]:
    """Each table as it is before a run, and a team's own."""
    folder, form = tmp_path_factory.mktemp("chaos"), FORMATS["iceberg"]
    made = {**form.tables, TEAM: form.team}
    return {name: make(spark, folder / name / "begun") for name, make in made.items()}


@pytest.fixture(scope="module")
def moved(
    spark: SparkSession, start: dict[str, World], tmp_path_factory: pytest.TempPathFactory
) -> World:
    """The adopted tables, when rows of a run have moved."""
    made = copied(start["adopted"], tmp_path_factory.mktemp("chaos") / "moved")
    for step in ("learn", "decide", "plan", "validate_plan", "migrate"):
        task(spark, made, step)
    return made


def case_of(kind: str, table: str, step: str, at: int, answer: str, sign: int = 1) -> Case:
    return Case(0, kind, table, "moved", step, at, "", answer, sign)


def test_the_truth_is_what_tables_hold(spark: SparkSession, start: dict[str, World]) -> None:
    for name, world in start.items():
        assert rows.contents(spark, world) == truth(world, name), name


def each_later(spark: SparkSession, world: World, step: str, times: int, folder: Path) -> None:
    """Stop a step so often, each time further on, from its first write to its last."""
    whole = stopped(partial(task, spark, copied(world, folder), step), None)
    points = [point for point in dict.fromkeys(whole) if ".probe" not in point]
    for number in range(1, times + 1):
        wanted = points[number * len(points) // (times + 1)]
        assert stopped(partial(task, spark, world, step), wanted)[-1] == wanted, wanted


@pytest.mark.parametrize("table", ["whole", "adopted"])
def test_a_table_whose_every_step_is_stopped_again_and_again(
    spark: SparkSession, start: dict[str, World], tmp_path: Path, table: str
) -> None:
    world = copied(start[table], tmp_path / "life")
    for number, (step, times) in enumerate(LIFE):
        each_later(spark, world, step, times, tmp_path / str(number))
        task(spark, world, step)
        if step == "learn":
            for between in ("decide", "plan", "validate_plan"):
                task(spark, world, between)
    task(spark, world, "publish")
    check(spark, case_of("stop", table, "publish", 0, "retry"), world, 0, truth(world, table))
    assert world.table.epoch().plan_digest == world.table.registry.run(RUN).plan.read().digest


@pytest.mark.parametrize(
    ("step", "times", "answer"),
    [
        ("bootstrap", 4, "retry"),
        ("apply_window", 3, "repair"),
        ("forget", 3, "repair"),
        ("evolve", 4, "repair"),
    ],
)
def test_a_job_of_no_run_that_is_stopped_again_and_again(
    spark: SparkSession, start: dict[str, World], tmp_path: Path, step: str, times: int, answer: str
) -> None:
    world = copied(start["whole"], tmp_path / "job")
    JOBS[step].prepare(*opened(spark, world))
    each_later(spark, world, step, times, tmp_path / "whole")
    case = Case(0, "stop", "whole", step, step, 0, "", answer, 1)
    lead_out(spark, case, world)
    check_job(spark, case, world, {})


@pytest.mark.parametrize("step", ["adopt", "release"])
def test_a_team_s_own_tables_whose_job_is_stopped_again_and_again(
    spark: SparkSession, start: dict[str, World], tmp_path: Path, step: str
) -> None:
    world = copied(start[TEAM if step == "adopt" else "adopted"], tmp_path / "own")
    before = truth(world, TEAM)
    each_later(spark, world, step, 4, tmp_path / "whole")
    case = Case(0, "stop", TEAM, "", step, 0, "", "retry", 1)
    recover(spark, case, world)
    check(spark, case, world, 0, before)


@pytest.mark.parametrize(
    ("kind", "point", "sign"),
    [
        ("append", "before RENAME COLUMN on orders", -1),
        ("append", "before fast_forward on profiles", 1),
        ("append", "before fast_forward on profiles", -1),
        ("error", "before fast_forward on orders", 1),
    ],
)
def test_a_verify_that_others_or_the_store_disturb(
    spark: SparkSession, moved: World, tmp_path: Path, kind: str, point: str, sign: int
) -> None:
    tried, world = copied(moved, tmp_path / "tried"), copied(moved, tmp_path / "world")
    at = stopped(partial(task, spark, tried, "verify"), point).index(point)
    case = case_of(kind, "adopted", "verify", at, "retry", sign)
    added, met = strike(spark, case, world)
    assert met
    # Writers by the epoch before are refused from the rename on.
    assert bool(added) == (kind == "append" and (sign > 0 or "RENAME" in point))
    recover(spark, case, world)
    expected = {n: [*r, *added.get(n, [])] for n, r in truth(world, "adopted").items()}
    check(spark, case, world, 0, expected)
    assert world.table.epoch().number == 1


@pytest.mark.slow
def test_processes_that_are_killed(spark: SparkSession, moved: World, tmp_path: Path) -> None:
    tried, point = copied(moved, tmp_path / "tried"), "after fast_forward on orders"
    at = stopped(partial(task, spark, tried, "verify"), point).index(point)
    cases = [
        case_of("kill", "adopted", "verify", at, "roll_back"),
        Case(1, "inside", "adopted", "moved", "verify", 1, "a commit is made", "retry", 1),
    ]
    worlds = [copied(moved, tmp_path / str(c.number)) for c in cases]
    assert all(Victim(tmp_path / "victim").run(list(zip(cases, worlds, strict=True))))
    for case, world in zip(cases, worlds, strict=True):
        recover(spark, case, world)
        check(spark, case, world, 0, truth(world, "adopted"))
        # Nobody can go back once main of a table has followed.
        assert case.kind == "inside" or world.table.epoch().number == 1
