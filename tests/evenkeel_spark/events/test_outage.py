"""A store that is down or stands still: a sample of what `make chaos` does with it, and that what
could not be asked is never taken for an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.store import Store
from evenkeel.registry.store_errors import DeniedError, StoreError
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.events.reader import read_events
from evenkeel_spark.jobs import migrate, verify
from evenkeel_spark.tables import filesystem
from evenkeel_spark.tables.delta import state
from partitioning.errors import DamagedError, InputError
from tests.chaos.cases import Case
from tests.chaos.faults.outage import outage
from tests.chaos.home import bootstrapped, contents, copied, task
from tests.chaos.run import check, recover, strike
from tests.conftest import World
from tests.support.raw_json import read_json

pytestmark = [pytest.mark.spark]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["error", "stall"])
def test_a_migration_whose_store_fails_or_stalls(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    made = bootstrapped(spark, tmp_path / "planned", both=False)
    for step in ("learn", "decide", "plan"):
        task(spark, made, step)
    case = Case(0, kind, "whole", "planned", "migrate", 12, "", "retry", 1, 60)
    world, before = copied(made, tmp_path / "0"), contents(spark, made)
    _, met = strike(spark, case, world)
    assert met
    assert read_json(world.table.registry.run("r1"), "migration.json")["tables"].keys() == (
        {"totals"} if kind == "stall" else set()
    )
    recover(spark, case, world)
    check(spark, case, world, 0, before)


def test_what_cannot_be_read_now_is_not_called_damaged(spark: SparkSession, ready: World) -> None:
    spec = ready.table.spec
    path, input_path = spec.state["totals"].path, Path(spec.input.path)
    events = read_events(spark, spec)

    def count() -> None:
        with reading(spec):
            events.agg({"dest": "max"}).collect()

    def look() -> None:
        state.snapshot_at(spark, path, 0)

    look()
    with outage(spark, ready) as store:
        for ask, through in ((count, 0), (count, 1), (look, 0), (look, 1)):
            store.begin(through)
            with pytest.raises(StoreError, match="cannot be read .*503 Slow Down"):
                ask()
            store.end()
            ask()
    with pytest.raises(DamagedError, match="vacuumed"):
        state.snapshot_at(spark, path, 99)
    input_path.write_bytes(input_path.read_bytes()[:-9])
    with pytest.raises(InputError, match="not readable as parquet"):
        count()
    # Nor is one down whose file is damaged, as the checksum beside it tells.
    spark.range(9).coalesce(1).selectExpr("'a' AS dest").write.parquet(f"{ready.folder}/by spark")
    (file,) = (ready.folder / "by spark").glob("*.parquet")
    assert file.with_name(f".{file.name}.crc").exists()
    file.write_bytes(b"?" + file.read_bytes()[1:])
    filesystem.check_answers(spark, str(file))
    filesystem.check_answers(spark, "x:y z")


def test_a_registry_that_is_down_is_not_refused(spark: SparkSession, ready: World) -> None:
    registry = Store(f"{ready.folder}/registry")
    with outage(spark, ready) as store:
        for through in range(5):
            store.begin(through)
            with pytest.raises(StoreError, match="503 Slow Down"):
                registry.check_exclusive()
            store.end()
    registry.check_exclusive()


@pytest.mark.slow
def test_a_store_without_rights_is_told_before_anything_moves(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    world = bootstrapped(spark, tmp_path / "planned", both=True)
    for step in ("learn", "decide", "plan"):
        task(spark, world, step)
    run = world.table.registry.run("r1")
    digest = read_plan(run).digest
    versions = {n: state.table_version(spark, t.path) for n, t in world.table.spec.state.items()}
    arguments = ["--spec", world.spec_path, "--run", "r1", "--digest", digest]
    with outage(spark, world) as store:
        store.deny()
        assert migrate.main(arguments) == DeniedError.exit_code
    assert store.met
    (line,) = [x for x in capfd.readouterr().err.splitlines() if "evenkeel: error" in x]
    assert "may not be written" in line and "403 Forbidden" in line and "Give the account" in line
    assert not run.exists("migration.json")
    for name, part in world.table.spec.state.items():
        assert state.table_version(spark, part.path) == versions[name]
        assert not list(Path(part.path).glob("*probe*"))
    assert migrate.main(arguments) == 0
    assert run.exists("migration.json")
    # Each line of progress says what it is about.
    lines = [x for x in capfd.readouterr().out.splitlines() if "rows moved" in x]
    assert lines and all(
        x.endswith(f"  table=trips run=r1 plan={digest[:12]} epoch=1") for x in lines
    )
    # Whatever a job was about to do: one line.
    with outage(spark, world) as store:
        store.deny()
        assert verify.main(arguments) == DeniedError.exit_code
    (line,) = [x for x in capfd.readouterr().err.splitlines() if "evenkeel: error" in x]
    assert "403 Forbidden" in line
