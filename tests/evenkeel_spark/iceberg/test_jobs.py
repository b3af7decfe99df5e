"""The jobs on Iceberg tables as Airflow starts them, and their errors in one line."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from evenkeel_spark.jobs import (
    adopt,
    apply_window,
    learn,
    maintain,
    migrate,
    repair,
    roll_back,
    verify,
)
from evenkeel_spark.tables.iceberg.table import IcebergTable
from partitioning.errors import FenceError, InputError
from tests.conftest import World
from tests.support.iceberg.catalogs import KINDS
from tests.support.iceberg.tables import both, placed

pytestmark = pytest.mark.spark


@pytest.fixture
def jobs(as_jobs: None, team: World) -> World:
    return team


@pytest.mark.slow
@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_a_whole_life_by_the_jobs(lake: SparkSession, jobs: World) -> None:
    before, spec = both(lake), ["--spec", jobs.spec_path]
    assert adopt.main([*spec, "--dry-run"]) == 0
    assert (
        not jobs.table.registry.numbers() and "channel" not in lake.table("lake.db.orders").columns
    )
    assert adopt.main(spec) == 0
    for name, end in (("r1", roll_back), ("r2", verify)):
        run = [*spec, "--run", name]
        assert learn.main(run) == 0
        steps.decide(jobs.spec_path, name, asked := Params(force=True, capacities=(1, 1, 1, 0.3)))
        digest = steps.plan(jobs.spec_path, name, asked)
        steps.validate_plan(jobs.spec_path, name)
        for job in (migrate, end):
            assert job.main([*run, "--digest", digest]) == 0
        assert placed(lake, jobs)
    steps.publish(jobs.spec_path, "r2")
    steps.report(jobs.spec_path, "r2")
    assert jobs.table.epoch().number == 1
    for job in (repair, maintain):
        assert job.main(spec) == 0
    assert jobs.table.snapshot(lake).rows["orders"].count() == len(before["orders"])
    assert "slot_1" in jobs.table.state("profiles", spark=lake).columns
    assert adopt.main([*spec, "--release", "--drop-columns"]) == 0
    assert both(lake) == before


@pytest.mark.parametrize(
    ("procedure", "step"), [("rewrite_data_files", "files"), ("expire_snapshots", "snapshots")]
)
def test_a_writer_that_always_wins_is_one_line_of_maintain(
    lake: SparkSession,
    jobs: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    procedure: str,
    step: str,
) -> None:
    assert adopt.main(["--spec", jobs.spec_path]) == 0
    capsys.readouterr()
    before, call = both(lake), IcebergTable.call

    def lose(table: IcebergTable, name: str, arguments: dict[str, str]) -> Row | None:
        if (name, table.name) != (procedure, "lake.db.orders"):
            return call(table, name, arguments)
        # Between Iceberg's plan and its commit there is no hook: Spark raises with its words.
        said = "Cannot commit rewrite because of a ValidationException"
        return lake.sql(f"SELECT raise_error('{said}')").first()

    monkeypatch.setattr(IcebergTable, "call", lose)
    monkeypatch.setattr("evenkeel_spark.tables.iceberg.commits.TRIES", 2)
    assert maintain.main(["--spec", jobs.spec_path]) == FenceError.exit_code
    said = capsys.readouterr()
    (line,) = said.err.strip().splitlines()
    assert "lake.db.orders: other writers were first" in line and "ValidationException" in line
    assert f"orders, {step}: failed (FenceError)" in said.out and f"profiles, {step}" in said.out
    assert both(lake) == before


@pytest.mark.parametrize(
    ("job", "more", "said"),
    [
        (apply_window, ["--start", "2026-01-01", "--end", "2026-01-02"], "the team"),
        (maintain, [], "is not adopted"),
    ],
)
def test_what_cannot_be_is_one_line(
    lake: SparkSession, jobs: World, job, more, said, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job.main(["--spec", jobs.spec_path, *more]) == 2
    (line,) = (x for x in capsys.readouterr().err.splitlines() if "evenkeel: error" in x)
    assert said in line


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("lake.db.none", "there is no such table"),
        ("sea.db.orders", "Spark has no catalog 'sea'"),
    ],
)
def test_a_wrong_name_is_one_line(
    lake: SparkSession, jobs: World, path: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = jobs.respec(state={"orders": {"path": path, "format": "iceberg", "rows": "many"}})
    assert adopt.main(["--spec", world.spec_path]) != 0
    (line,) = (x for x in capsys.readouterr().err.splitlines() if "evenkeel: error" in x)
    assert said in line


def test_format_two_is_refused(
    lake: SparkSession, jobs: World, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.sql("CREATE TABLE lake.db.old USING iceberg AS SELECT * FROM lake.db.orders")
    world = jobs.respec(
        state={"orders": {"path": "lake.db.old", "format": "iceberg", "rows": "many"}}
    )
    assert adopt.main(["--spec", world.spec_path]) == 2
    assert "no deletion vectors" in capsys.readouterr().err
    assert not world.table.registry.numbers()


def test_limits_on_commits_are_refused(lake: SparkSession, jobs: World) -> None:
    assert adopt.main(["--spec", jobs.spec_path]) == 0
    assert learn.main(["--spec", jobs.spec_path, "--run", "r1"]) == 0
    with pytest.raises(InputError, match="is for Delta tables"):
        steps.decide(jobs.spec_path, "r1", Params(force=True, batch=1000))


def test_a_property_that_spark_hides_is_read(lake: SparkSession, team: World) -> None:
    """A state column may be called `hourly`, which has the word url in it."""
    table = IcebergTable(lake, "lake.db.orders")
    before = table.properties()
    table.set_properties({"evenkeel.columns": '{"hourly": "sum"}'})
    found = table.properties()
    assert found["evenkeel.columns"] == '{"hourly": "sum"}'
    assert found["format-version"] == before["format-version"]
