"""A registry and its state, written by release 0.1.0 and what was broken off in it: all opens.

The archive has two epochs after the first (keys are split), a run that was rolled back, one that
was broken off after migrate, sketches, windows and gates.
"""

import json
from datetime import date
from pathlib import Path

import pytest

from evenkeel.inspect.status import table_status
from evenkeel.pipeline import steps
from evenkeel.registry.files.stored_file import FileOf, dump
from evenkeel.registry.profiles import epoch_plan, newest_profile
from evenkeel.registry.verdict import read_rolled_back
from evenkeel.table import Table
from evenkeel_spark.jobs.learn import learn
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.roll_back import roll_back
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import approved_migration
from evenkeel_spark.tables.delta import constraints
from partitioning.planning.decide import Decision
from partitioning.workload.profile import Profile
from tests.support.docs.registry_page import unlisted
from tests.support.raw_json import write_json

KEYS = ["HOT", "D000", "D001", "D002"]


def test_its_epochs_plans_and_profiles_open(old: Table) -> None:
    registry = old.registry
    assert registry.numbers() == [0, 1, 2]
    assert registry.current().function.digest.startswith("f462ec68")
    assert [len(registry.epoch(n).function.split) for n in registry.numbers()] == [0, 1, 1]
    rows = list(range(len(KEYS)))
    routed = [registry.epoch(n).lookup(KEYS, row=rows).tolist() for n in registry.numbers()]
    assert routed == [[0, 1, 3, 1], [2, 3, 3, 1], [2, 3, 3, 1]]
    for number in (1, 2):
        plan = epoch_plan(registry, number)
        assert plan is not None
        assert plan.digest == registry.epoch(number).plan_digest
        assert registry.published(number, plan.digest)
    assert newest_profile(old.registry).profile.events == 1510


def test_its_files_are_those_that_the_reference_lists(old: Table) -> None:
    # An array that 0.1.0 wrote and nothing reads.
    assert set(unlisted(Path(old.registry.url))) == {"profile.npz: surprises (float64)"}


def test_its_runs_open(old: Table, spec_path: str) -> None:
    runs = {name: old.registry.run(name) for name in ("first", "second", "third", "fourth")}
    plans = {name: steps.read_plan(run) for name, run in runs.items()}
    assert [p.function.epoch for p in plans.values()] == [1, 2, 3, 3]
    marks = {name: read_rolled_back(run, plans[name].digest) for name, run in runs.items()}
    assert [bool(mark) for mark in marks.values()] == [False, False, True, False]
    for name in runs:
        page = steps.report(spec_path, name)
        assert page is not None
        assert "trips" in Path(page).read_text()


def test_how_it_stands_is_told(old: Table) -> None:
    found = table_status(old)
    assert found.problems == ()
    assert found.imbalance == pytest.approx(1.0781456953642383)


@pytest.mark.spark
@pytest.mark.slow
def test_its_broken_run_is_rolled_back_and_the_next_one_goes_on(spark, old, spec_path) -> None:
    digest = steps.read_plan(old.registry.run("fourth")).digest
    path = old.spec.state["totals"].path
    assert constraints.of(spark, path).keys() == {"evenkeel_moving_3"}
    before = spark.read.format("delta").load(path).groupBy().sum("trips").first()[0]
    roll_back(spark, approved_migration(old, "fourth", digest))
    assert constraints.of(spark, path).keys() == {"evenkeel_epoch_2"}
    profile, weight = learn(spark, old, date(2013, 1, 15))
    run = old.registry.run("next")
    run.write("profile.npz", profile.to_bytes())
    row = {"name": "id", "type": "bigint"}
    write_json(
        run, "profile.json", {"tables": weight.versions, "epoch": 2, "seconds": 1.0, "row": row}
    )
    params = steps.Params(force=True, max_imbalance=1.01)
    steps.decide(spec_path, "next", params)
    digest = steps.plan(spec_path, "next", params)
    steps.validate_plan(spec_path, "next")
    migrate(spark, approved_migration(old, "next", digest))
    verify(spark, approved_migration(old, "next", digest))
    assert publish(spark, approved_migration(old, "next", digest)).number == 3
    assert steps.publish(spec_path, "next") == 3
    assert spark.read.format("delta").load(path).groupBy().sum("trips").first()[0] == before


def test_its_files_are_written_as_they_were_read(old: Table) -> None:
    store, registry = old.registry.store, old.registry
    folders = [
        *map(registry.archive, registry.numbers()),
        *map(registry.run, store.names("runs")),
        registry.files,
    ]
    files = [
        (folder, getattr(folder, name))
        for folder in folders
        for door in type(folder).__mro__
        for name, file in vars(door).items()
        if isinstance(file, FileOf) and name != "plan_summary"
    ]
    files += [(registry.files, registry.files.window(day)) for day in registry.files.window_ends()]
    checked = 0
    for folder, file in files:
        if file.exists():
            before, value = folder.read(file.name), file.read()
            checked += 1
            if isinstance(value, Profile):
                continue  # written with its chance, in place of the surprises of 0.1.0
            if isinstance(value, Decision):
                # Written with why its forecast may be far off, which 0.1.0 did not say.
                now = json.loads(dump(Decision, value))
                assert now.pop("uncertain") == "" and now == json.loads(before), file.path
                continue
            file.write(value)
            # A number may be spelled in another way: 0 as 0.0.
            after = folder.read(file.name)
            assert after == before or json.loads(after) == json.loads(before), file.path
    assert checked == 66
