"""Adoption and release that are stopped at every point, or killed with their JVM, go on."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.cases import Case
from tests.chaos.home import copied, task
from tests.chaos.leftovers import leftovers
from tests.chaos.points import stopped
from tests.chaos.sessions import Victim
from tests.conftest import World
from tests.support.worlds.team_tables import both, check_done, make_team

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def stages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, World]:
    """Return the team's tables as they are before each of the steps."""
    folder = tmp_path_factory.mktemp("stages")
    own = make_team(spark, folder / "own")
    adopted = copied(own, folder / "adopted")
    task(spark, adopted, "adopt")
    return {"adopt": own, "release": adopted}


def points_of(spark: SparkSession, world: World, step: str, at: int | None = None) -> list[str]:
    return stopped(partial(task, spark, world, step), at)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["adopt", "release"])
def test_a_step_that_is_stopped_at_any_point_goes_on(
    spark: SparkSession, stages: dict[str, World], tmp_path: Path, step: str
) -> None:
    before = both(spark, stages[step])
    points = points_of(spark, copied(stages[step], tmp_path / "whole"), step)
    assert {f"before REWRITE of {n}" for n in before} < set(points)
    assert {"adopt": "named adopted", "release": "named released"}[step] in points
    for at in range(len(points)):
        world = copied(stages[step], tmp_path / str(at))
        assert points_of(spark, world, step, at) == points[: at + 1]
        task(spark, world, step)
        check_done(spark, world, step, before)
        shutil.rmtree(world.folder)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["adopt", "release"])
def test_a_process_that_is_killed_leaves_tables_to_go_on_with(
    spark: SparkSession, stages: dict[str, World], tmp_path: Path, step: str
) -> None:
    before = both(spark, stages[step])
    points = points_of(spark, copied(stages[step], tmp_path / "whole"), step)
    wanted = [at for at, label in enumerate(points) if "REWRITE" in label or "named" in label]
    cases = [Case(n, "kill", "team", "", step, at, "", "retry", 1) for n, at in enumerate(wanted)]
    worlds = [copied(stages[step], tmp_path / str(c.number)) for c in cases]
    assert all(Victim(tmp_path / "victim").run(list(zip(cases, worlds, strict=True))))
    if step == "adopt":  # The parts that a release writes are in no channel's folder.
        worlds.append(killed_while_it_writes(stages[step], tmp_path, step))
        assert leftovers(worlds[-1])
    for world in worlds:
        task(spark, world, step)
        check_done(spark, world, step, before)


def killed_while_it_writes(stage: World, folder: Path, step: str) -> World:
    """Kill a step while Spark writes a part; a fast write may be over first, so try again."""
    case = Case(0, "inside", "team", "", step, 1, "a part is being written", "retry", 1)
    for number in range(10):
        world = copied(stage, folder / f"inside {number}")
        if Victim(folder / f"victim {number}").run([(case, world)]) == [True]:
            return world
    raise AssertionError("each write was over before it could be killed")
