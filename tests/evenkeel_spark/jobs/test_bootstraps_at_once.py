"""Two bootstraps at once: the second ends well, and takes nothing from the first."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.jobs import bootstrap as job
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.delta import constraints
from partitioning.errors import FenceError
from tests.chaos.home import PIPELINE, task
from tests.conftest import World
from tests.support.cases.bootstrapped import END, expected, rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_bootstrap_says_that_it_is_at_work_until_it_is_done(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, real, said = world.table, job._create, set[str | None]()
    monkeypatch.setattr(job, "SIGN_SECONDS", 0.05)

    def slow(*args: Any) -> None:
        end = time.monotonic() + 60
        while len(said) < 4 and time.monotonic() < end:
            said.add(table.registry.files.bootstrap.read().time)
        real(*args)

    monkeypatch.setattr(job, "_create", slow)
    assert bootstrap(spark, table, END) is True
    assert len(said) == 4 and None not in said
    assert "at work" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("at", ["creating", "writing", "constraining", "publishing"])
def test_the_second_of_two_at_once_ends_well(spark, world: World, monkeypatch, at: str):
    """The first one completes while the second is about to do the very same."""
    table, waiting = world.table, [True]

    def after_the_other(real):
        def meet(*args, **kwargs):
            if waiting:
                waiting.clear()
                assert bootstrap(spark, world.table, END) is True
            return real(*args, **kwargs)

        return meet

    where, name = {
        "creating": (job, "_create"),
        "writing": (job, "of_table"),
        "constraining": (constraints, "add"),
        "publishing": (type(table.registry), "publish"),
    }[at]
    monkeypatch.setattr(where, name, after_the_other(getattr(where, name)))
    bootstrap(spark, table, END)
    assert not waiting
    assert table.registry.numbers() == [0]
    want = expected(world.events[world.events["at"].dt.date < END])
    assert rows(spark, table.spec.state["totals"].path)["trips"].sum() == want["trips"].sum()


@pytest.mark.parametrize("moved", ["no row", "rows"])
def test_one_that_slept_while_a_rebalance_began_closes_no_table(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    """Its constraint comes beside those of the rebalance: it takes it away again."""
    path, real = world.table.spec.state["totals"].path, constraints.add
    end, stands = END if moved == "rows" else None, dict[str, str]()

    def meet(*args: Any) -> bool:
        monkeypatch.undo()
        assert bootstrap(spark, world.table, end) is True
        for name in PIPELINE[: 5 if moved == "rows" else 7]:
            task(spark, world, name)
        stands.update(constraints.of(spark, path))
        return real(*args)

    monkeypatch.setattr(constraints, "add", meet)
    with pytest.raises(FenceError, match=r"has the constraint evenkeel_\w+_1\w* by now"):
        bootstrap(spark, world.table, end)
    assert constraints.of(spark, path) == stands and constraints.epoch_name(0) not in stands


def test_of_two_different_at_once_one_ends_in_one_line(spark, world, monkeypatch, capsys):
    real, waiting = job._create, [True]

    def meet(*args):
        if waiting:
            waiting.clear()
            with monkeypatch.context() as patch:
                patch.setattr(type(world.table.registry), "publish", lambda *_: None)
                bootstrap(spark, world.table, None)
        return real(*args)

    monkeypatch.setattr(job, "_create", meet)
    assert job.main(["--spec", world.spec_path, "--end", "2013-01-08"]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("evenkeel: error: ")
    assert "holds state of another bootstrap" in line
    assert rows(spark, world.table.spec.state["totals"].path).empty


def test_two_threads_at_once(spark, world: World):
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(bootstrap, spark.newSession(), world.table, END) for _ in range(2)]
    errors = [d.exception() for d in done if d.exception() is not None]
    assert len(errors) < 2
    assert all(isinstance(e, FenceError) for e in errors)
    assert world.table.registry.numbers() == [0]
    want = expected(world.events[world.events["at"].dt.date < END])
    found = rows(spark, world.table.spec.state["totals"].path)
    assert found["trips"].sum() == want["trips"].sum()
