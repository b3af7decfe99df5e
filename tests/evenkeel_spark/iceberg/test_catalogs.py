"""Iceberg catalogs that fail: a server that is down, and answers to commits that get lost."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from evenkeel_spark.jobs import adopt, apply_window, learn, maintain, migrate, repair, verify
from evenkeel_spark.jobs.bootstrap import bootstrap
from partitioning.errors import UnreachableError
from tests.conftest import World
from tests.support.iceberg.catalogs import CatalogServer
from tests.support.iceberg.fed import check, day
from tests.support.iceberg.tables import both, placed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.parametrize("server", ["rest"], indirect=True),
    pytest.mark.usefixtures("as_jobs"),
]
DOWN = UnreachableError.exit_code
#: A request that commits, and not one that tells how a scan went.
COMMIT = re.compile(r"/tables(/\w+)?$|/transactions/commit$")
Main = Callable[[list[str]], int]


def commit(method: str, path: str) -> bool:
    return method == "POST" and COMMIT.search(path) is not None


def one_line(capsys: pytest.CaptureFixture[str], said: str) -> None:
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("evenkeel: error: ") and said in lines[0], lines


def plan(team: World, name: str) -> list[str]:
    """Plan a run whose load was learned; return what its jobs are given."""
    steps.decide(team.spec_path, name, asked := Params(force=True, capacities=(1, 1, 1, 0.3)))
    digest = steps.plan(team.spec_path, name, asked)
    steps.validate_plan(team.spec_path, name)
    return ["--spec", team.spec_path, "--run", name, "--digest", digest]


def test_each_job_says_in_one_line_that_the_catalog_is_down(
    lake: SparkSession, server: CatalogServer, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before, spec = both(lake), ["--spec", team.spec_path]
    waiting: list[tuple[Main, list[str]]] = [(adopt.main, spec)]
    while waiting:
        job, given = waiting.pop(0)
        server.kill()
        capsys.readouterr()
        assert job(given) == DOWN, job.__module__
        one_line(capsys, "does not answer")
        server.start()
        # Nothing has changed, and so the job runs now.
        assert both(lake) == before
        assert job(given) == 0, job.__module__
        if job is adopt.main:
            waiting = [(learn.main, [*spec, "--run", "r1"])]
        elif job is learn.main:
            given = plan(team, "r1")
            waiting = [(migrate.main, given), (verify.main, given)]
            waiting += [(repair.main, spec), (maintain.main, spec)]
    assert team.table.epoch().number == 1 and placed(lake, team)


@pytest.mark.slow
def test_each_job_goes_on_after_commits_that_failed(
    lake: SparkSession, server: CatalogServer, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first try fails at its first commit, the next one at its second, and so on."""
    before, seen, losing = both(lake), 0, 0

    def never_there(method: str, path: str) -> bool:
        nonlocal seen
        seen += commit(method, path)
        return commit(method, path) and seen == losing and losing % 2 == 0

    def lost(method: str, path: str) -> bool:
        return commit(method, path) and seen == losing and losing % 2 == 1

    server.drop, server.drop_answer = never_there, lost

    def run(job: Main, given: list[str]) -> None:
        nonlocal seen, losing
        for which in range(1, 40):
            losing, seen = which, 0
            capsys.readouterr()
            if (code := job(given)) == 0:
                break
            assert code == DOWN
            one_line(capsys, "its catalog ")
            assert both(lake) == before
        assert code == 0
        # No commit was left that could fail.
        assert seen < losing
        assert losing > 2 or job not in (adopt.main, migrate.main, verify.main)

    spec = ["--spec", team.spec_path]
    run(adopt.main, spec)
    run(learn.main, [*spec, "--run", "r1"])
    given = plan(team, "r1")
    run(migrate.main, given)
    run(verify.main, given)
    run(maintain.main, spec)
    assert team.table.epoch().number == 1 and both(lake) == before and placed(lake, team)
    assert repair.main([*spec, "--dry-run"]) == 0


def test_a_window_whose_answers_are_lost_counts_once(
    lake: SparkSession, server: CatalogServer, fed: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bootstrap(lake, fed.table, day(8))
    given = ["--spec", fed.spec_path, "--start", "2013-01-08", "--end", "2013-01-10"]
    seen = losing = 0

    def lost(method: str, path: str) -> bool:
        nonlocal seen
        seen += commit(method, path)
        return commit(method, path) and seen == losing

    server.drop_answer = lost
    # The branch's rows of each of the two tables, and then that main follows it.
    for which in (2, 3, 2, 3):
        losing, seen = which, 0
        capsys.readouterr()
        assert apply_window.main(given) == DOWN
        one_line(capsys, "its catalog ")
    seen = losing = 0
    assert apply_window.main(given) == 0
    check(lake, fed, day(10))
