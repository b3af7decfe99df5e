"""The steps between jobs, on profiles made by hand: no Spark, no Airflow."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenkeel.pipeline import approval, steps
from evenkeel.pipeline.metrics import run_metrics
from evenkeel.quality.history import over_epochs
from evenkeel.registry.epochs import Registry, TableVersion
from evenkeel.registry.files.run_files import EpochFiles
from evenkeel.runs.params import channels_for
from evenkeel.runs.prediction import predict
from evenkeel.runs.timings import pace, seconds_per_load
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from partitioning.errors import DamagedError, FenceError, GateError, InputError
from partitioning.planning.decide import Pace
from partitioning.planning.plan import Plan
from setup.docs.reference.markdown import fields
from tests.support.raw_json import read_json, table_moved, write_json
from tests.support.worlds.shop import Shop


def test_doing_a_step_again_leaves_the_same(shop: Shop) -> None:
    digest = shop.plan()
    files = {n: shop.registry.run("r").read(n) for n in ("decision.json", "plan.json")}
    assert shop.plan() == digest
    assert files == {n: shop.registry.run("r").read(n) for n in files}
    shop.verified()
    assert steps.publish(shop.spec, "r") == 1
    written = shop.registry.store.read("epochs/00000001/epoch.json")
    assert steps.publish(shop.spec, "r") == 1
    assert shop.registry.store.read("epochs/00000001/epoch.json") == written


def test_no_two_runs_have_plans_of_one_digest(shop: Shop) -> None:
    shop.learn("r2")
    assert shop.plan("r") != shop.plan("r2")
    first, second = (steps.read_plan(shop.registry.run(run)) for run in ("r", "r2"))
    assert first.function.digest == second.function.digest
    # As earlier versions of Evenkeel wrote them.
    older = {k: v for k, v in first.to_dict().items() if k != "run"}
    read = Plan.from_dict(older)
    assert read.run == "" and read.to_dict() == older
    assert replace(second, run="").digest == read.digest


def test_an_epoch_names_the_versions_that_were_verified_and_keeps_its_run(shop: Shop) -> None:
    epoch = shop.publish("r")
    assert epoch.tables["counts"] == TableVersion(str(shop.folder / "state"), 9)
    assert epoch.plan_digest == steps.read_plan(shop.registry.run("r")).digest
    kept = set(shop.registry.store.names("epochs/00000001"))
    assert {"plan.json", "profile.npz", "gate_tables.json", "params.json"} <= kept


def test_a_kept_file_that_was_edited_or_torn_is_told(shop: Shop) -> None:
    shop.publish("r")
    steps.report(shop.spec, "r")
    store, kept = shop.registry.store, shop.registry.archive(1)
    names = set(store.names("epochs/00000001"))
    told = set(read_json(kept, "kept.json")["sha256"])
    assert names - told == {"epoch.json", "kept.json", "report.html"}
    for name in sorted(told):
        whole = kept.read(name)
        # Still JSON, with its every field: only its digest tells.
        edited = whole.replace(b":", b": ", 1) if name.endswith(".json") else whole + b" "
        assert edited != whole
        store.write(f"epochs/00000001/{name}", edited)
        with pytest.raises(DamagedError, match="torn or edited"):
            shop.registry.archive(1).read(name)
        store.write(f"epochs/00000001/{name}", whole)
    # Who reads them, reads them so.
    store.write("epochs/00000001/gate_tables.json", kept.read("gate_tables.json") + b" ")
    _, problems = over_epochs(shop.registry, [1])
    assert "gate_tables.json: torn or edited" in problems[0]
    # A keeping that was killed before its end is read as it stands; the next makes it good.
    store.remove("epochs/00000001/kept.json")
    assert over_epochs(shop.registry, [1])[1] == []
    steps.publish(shop.spec, "r")
    assert set(read_json(shop.registry.archive(1), "kept.json")["sha256"]) == told


def test_a_second_keeping_that_is_killed_leaves_no_file_that_seems_torn(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.publish("r")
    run, kept = shop.registry.run("r"), shop.registry.archive(1)
    run.write("params.json", run.read("params.json") + b"\n")

    write = type(kept).write

    def killed(files: Any, name: str, data: bytes) -> None:
        write(files, name, data)
        if name == "params.json":
            raise KeyboardInterrupt

    digest = steps.read_plan(run).digest
    with monkeypatch.context() as patch:
        patch.setattr(type(kept), "write", killed)
        with pytest.raises(KeyboardInterrupt):
            kept.keep(run, digest)
    assert shop.registry.archive(1).read("params.json") == run.read("params.json")


def test_a_plan_needs_a_profile(shop: Shop) -> None:
    with pytest.raises(InputError, match=r"profile\.json is missing"):
        steps.decide(shop.spec, "another", Params())


def test_a_profile_of_an_older_epoch_is_refused(shop: Shop) -> None:
    shop.publish("other")
    with pytest.raises(FenceError, match="epoch 1 was published since this profile was learned"):
        shop.plan("r")


def test_a_crash_right_after_publishing_forgets_no_channels(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.plan(channels=6)
    shop.checked()

    class Crash(BaseException):
        pass

    def crash(*_: Any) -> None:
        raise Crash

    publish = Registry.publish
    monkeypatch.setattr(Registry, "publish", crash)
    with pytest.raises(Crash):
        shop.look_and_publish()
    monkeypatch.setattr(Registry, "publish", publish)
    monkeypatch.setattr(EpochFiles, "keep", crash)
    shop.look_and_publish()
    with pytest.raises(Crash):
        steps.publish(shop.spec, "r")
    epoch = shop.registry.current()
    assert epoch.number == 1
    asked = channels_for(load_spec(shop.spec), epoch, shop.registry, Params())
    assert len(asked) == 6


def test_a_torn_plan_is_told(shop: Shop) -> None:
    shop.plan()
    run = shop.registry.run("r")
    run.write("plan.json", run.read("plan.json")[:100])
    with pytest.raises(DamagedError, match=r"plan\.json"):
        steps.publish(shop.spec, "r")


def test_a_plan_over_the_budget_does_not_pass(shop: Shop) -> None:
    shop.plan(strategy="uniform", budget=1)
    with pytest.raises(GateError, match="budget"):
        steps.validate_plan(shop.spec, "r")
    assert not read_json(shop.registry.run("r"), "gate_plan.json")["success"]


def test_who_is_asked(shop: Shop) -> None:
    digest = shop.plan()
    size = steps.read_plan(shop.registry.run("r")).bytes
    assert approval.request(shop.spec, "r") is None
    shop.respec(approve_over=int(size) + 1)
    assert approval.request(shop.spec, "r") is None
    shop.respec(approve_over=0)
    run = shop.registry.run("r")
    before = sorted(p.name for p in Path(run.url).iterdir())
    asked = approval.request(shop.spec, "r")
    assert sorted(p.name for p in Path(run.url).iterdir()) == before, "to look leaves no trace"
    assert asked is not None and asked.digest == digest
    approval.ask(shop.spec, "r", digest)
    assert read_json(run, "asked.json") == {"digest": digest}
    assert "words" in asked.subject
    assert f"{size:,.0f} bytes" in asked.subject
    assert digest in asked.body
    assert "the least possible without splitting keys" in asked.body
    shop.respec(approve_over=0, split={"by": "id"})
    split = approval.request(shop.spec, "r")
    assert split is not None
    assert "the least possible |" in split.body


def test_costs_are_those_measured(shop: Shop) -> None:
    assert seconds_per_load(shop.registry, shop.profile) is None
    assert pace(shop.registry) is None
    assert steps.decide(shop.spec, "r", Params()).cost_seconds is None
    channels = [{"channel": c, "rows": 100, "seconds": 0.5} for c in range(4)]
    write_json(shop.registry.files, "windows/2013-01-29.json", {"channels": channels})
    load = float(shop.profile.load.sum())
    expected = 0.005 * shop.profile.events / load
    assert seconds_per_load(shop.registry, shop.profile) == pytest.approx(expected)
    cost = table_moved(bytes=300, seconds=2.0)
    moved = {"digest": "d", "epoch": 0, "tables": {"counts": cost}}
    write_json(shop.registry.files, "epochs/00000000/migration.json", moved)
    assert pace(shop.registry) == Pace(150, 2.0)
    # What moves nothing, as sharing a key, tells nothing of how fast state moves.
    kept, numbers = shop.registry.archive, list(range(20))
    none = {**moved, "tables": {"counts": table_moved()}}
    for number in numbers[1:]:
        write_json(shop.registry.files, f"epochs/{number:08d}/migration.json", none)
    many = SimpleNamespace(archive=kept, numbers=lambda: numbers)
    assert pace(many) == Pace(150, 2.0)
    for number in numbers[1:]:
        shop.registry.store.remove(f"epochs/{number:08d}/migration.json")
    shop.plan()
    made = steps.read_plan(shop.registry.run("r"))
    # What decides and what pages show is one price; however little moves, it has its fixed part.
    for seconds in (2.0, 1e6):
        cost["seconds"] = seconds
        write_json(shop.registry.files, "epochs/00000000/migration.json", moved)
        found = steps.decide(shop.spec, "r", Params())
        assert found.cost_seconds == max(found.bytes / (300 / seconds), seconds)
        alike = replace(made, bytes=found.bytes)
        slots = [replace(made.moves[0], bytes=found.bytes)]
        alike = replace(alike, moves=tuple(slots))
        assert found.cost_seconds == predict(shop.registry, alike, shop.profile).seconds


def test_the_same_load_a_day_saves_the_same_however_many_days_were_learned(shop: Shop) -> None:
    channels = [{"channel": c, "rows": 100, "seconds": 0.5} for c in range(4)]
    write_json(shop.registry.files, "windows/2013-01-29.json", {"channels": channels})
    moved = {"digest": "d", "epoch": 0, "tables": {"counts": table_moved(bytes=300, seconds=2.0)}}
    write_json(shop.registry.files, "epochs/00000000/migration.json", moved)
    days = replace(shop.profile, events=28 * 1000)
    day = replace(days, window=("2013-01-28", "2013-01-29"), events=1000, error=days.error / 28)
    day = replace(day, load=days.load / 28, heavy_load=days.heavy_load / 28)
    saved = []
    for run, learned in {"days": days, "day": day}.items():
        shop.learn(run, learned)
        found = steps.decide(shop.spec, run, Params())
        assert found.saved_seconds is not None
        shop.plan(run, force=True)
        told = predict(shop.registry, steps.read_plan(shop.registry.run(run)), learned)
        saved.append((found.saved_seconds, told.saved_daily))
    assert saved[0] == pytest.approx(saved[1])


def test_a_report_can_be_made_at_any_point_and_goes_with_its_epoch(shop: Shop) -> None:
    assert steps.report(shop.spec, "nothing yet") is None
    first = steps.report(shop.spec, "r")
    assert first is not None
    assert "/runs/r/" in first
    shop.plan()
    steps.validate_plan(shop.spec, "r")
    shop.verified()
    steps.publish(shop.spec, "r")
    whose, numbers = run_metrics(shop.spec, "r")
    made = steps.read_plan(shop.registry.run("r"))
    assert whose == {"table": "words", "run": "r", "epoch": 0, "plan": made.digest}
    assert numbers["imbalance_after"] == made.imbalance_after
    assert numbers["bytes_planned"] == made.bytes
    assert (numbers["published"], numbers["gate_failures"]) == (1, 0)
    assert set(run_metrics(shop.spec, "nothing yet")[1].values()) == {0.0}
    # The page of metrics is made of these.
    known = fields(run_metrics.__doc__ or "")
    assert {re.sub("(seconds_migrate)_.*", r"\1_TABLE", name) for name in numbers} <= known.keys()
    page = steps.report(shop.spec, "r")
    assert page is not None
    assert page.endswith("epochs/00000001/report.html")
    assert "<html" in Path(page).read_text()


def test_a_published_run_that_is_cleared_leaves_the_files_of_its_epoch(shop: Shop) -> None:
    """Airflow clears all its tasks: learn and decide write again, by the epoch that it published.

    The answer is no, so the plan stays the one that was published, and report follows.
    """
    shop.publish("r")
    kept, run = shop.registry.archive(1), shop.registry.run("r")
    names = ("profile.json", "decision.json", "params.json", "kept.json")
    before = {name: kept.read(name) for name in names}
    shop.learn("r")
    decision = steps.decide(shop.spec, "r", Params(max_imbalance=9.0))
    assert not decision.rebalance
    page = steps.report(shop.spec, "r")
    assert page is not None and "/runs/r/" in page
    assert steps.publish(shop.spec, "r") == 1
    assert {name: kept.read(name) for name in names} == before
    assert run.read("decision.json") != before["decision.json"]


def test_a_torn_profile_of_a_published_run_does_not_stop_its_publish(shop: Shop) -> None:
    shop.publish("r")
    (Path(shop.registry.url) / "runs" / "r" / "profile.json").write_text("{")
    assert steps.publish(shop.spec, "r") == 1
