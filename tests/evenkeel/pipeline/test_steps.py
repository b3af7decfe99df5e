"""The steps between jobs, on profiles made by hand: no Spark, no Airflow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from evenkeel.pipeline import approval, steps
from evenkeel.pipeline.metrics import run_metrics
from evenkeel.pipeline.publish import publish_checked
from evenkeel.quality.budgets import write_budget
from evenkeel.quality.history import over_epochs
from evenkeel.registry import verdict
from evenkeel.registry.epochs import Epoch, Registry, TableVersion
from evenkeel.registry.files.run_files import EpochFiles
from evenkeel.runs.params import Params, channels_for, throttle_for
from evenkeel.runs.prediction import predict
from evenkeel.runs.timings import pace, seconds_per_load
from evenkeel.spec.loading import load_spec
from partitioning.errors import DamagedError, FenceError, GateError, InputError
from partitioning.function.function import KeyColumn
from partitioning.function.hashing import key_hash
from partitioning.planning.decide import Pace
from partitioning.planning.plan import Plan
from partitioning.strategies.hashing import consistent
from partitioning.workload.profile import Profile, profile_of_keys
from tests.support.raw_json import read_json, table_moved, write_json

SPEC: dict[str, Any] = {
    "table": "words",
    "key": ["word"],
    "input": {"path": "words.parquet", "time": "at"},
    "state": {"counts": {"path": "state", "columns": {"uses": {"merge": "count"}}}},
    "registry": "registry",
    "channels": 4,
    "slots": 64,
}
KEY = (KeyColumn("word", "string"),)


class Shop:
    """A table with epoch 0 and the profile of a run `r`; no rows anywhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = str(folder / "words.yaml")
        self.respec()
        self.profile = _profile()
        self.registry = Registry(str(folder / "registry"))
        first = consistent(self.profile, None, load_spec(self.spec).channel_list())
        self.registry.publish(first, {"counts": TableVersion(str(folder / "state"), 0)})
        self.learn("r")

    def respec(self, **changes: Any) -> None:
        Path(self.spec).write_text(yaml.safe_dump({**SPEC, **changes}))

    def learn(self, run: str, profile: Profile | None = None) -> None:
        """What the Spark job would leave."""
        folder = self.registry.run(run)
        epoch = self.registry.current().number
        folder.write("profile.npz", (profile or self.profile).to_bytes())
        write_json(folder, "profile.json", {"tables": {"counts": 3}, "epoch": epoch, "seconds": 1})

    def learn_row(self, run: str) -> None:
        """As `learn`, with the column by which keys may be split."""
        self.learn(run)
        folder = self.registry.run(run)
        row = {"row": {"name": "id", "type": "bigint"}}
        write_json(folder, "profile.json", {**read_json(folder, "profile.json"), **row})

    def plan(self, run: str = "r", **asked: Any) -> str:
        params = Params.of(asked)
        steps.decide(self.spec, run, params)
        return steps.plan(self.spec, run, params)

    def verified(self, run: str = "r") -> None:
        """What migrate and verify would leave: the epoch is published."""
        self.checked(run)
        self.look_and_publish(run)

    def look_and_publish(self, run: str = "r", number: int = 1) -> Epoch:
        """The last thing that verify does; the tables are in order."""
        folder = self.registry.run(run)
        made, spec = steps.read_plan(folder), load_spec(self.spec)
        look = lambda: {"counts": 9}  # noqa: E731
        return publish_checked(spec, self.registry, folder, made, number, look)

    def checked(self, run: str = "r", success: bool = True) -> None:
        """What migrate and verify would leave before the epoch is published."""
        folder = self.registry.run(run)
        digest = steps.read_plan(folder).digest
        write_json(
            folder,
            "gate_tables.json",
            {"success": success, "suite": "after", "results": [], "docs": None},
        )
        write_json(folder, "verify.json", {"digest": digest, "epoch": 1, "tables": {"counts": 9}})

    def publish(self, run: str, **asked: Any) -> Epoch:
        """A whole run."""
        self.learn(run)
        self.plan(run, **asked)
        self.verified(run)
        return self.registry.epoch(steps.publish(self.spec, run))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def _profile(seed: int = 3) -> Profile:
    words = [f"word {i}" for i in range(300)]
    load = np.random.default_rng(seed).permutation(1e4 / np.arange(1, 301))
    hashes = key_hash([words], ["string"])
    made = profile_of_keys(KEY, hashes, load, 64, state=np.full(300, 50.0), threshold=100)
    return replace(made, window=("2013-01-01", "2013-01-29"))


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


def test_params_take_the_place_of_the_spec(shop: Shop) -> None:
    shop.plan(max_imbalance=1.5, budget=10**6, strategy="readj")
    made = steps.read_plan(shop.registry.run("r"))
    assert (made.max_imbalance, made.function.strategy) == (1.5, "readj")
    # What Delta adds is to be in the budget, too.
    assert (made.budget, write_budget(made)) == (10**6 / 1.02, pytest.approx(10**6))


@pytest.mark.parametrize("left", [[], [1], None, "text"])
def test_what_is_no_record_of_a_run_is_damaged(shop: Shop, left: object) -> None:
    shop.plan()
    run, spec = shop.registry.run("r"), load_spec(shop.spec)
    readers: dict[str, Any] = {
        "profile.json": lambda: steps.decide(shop.spec, "r", Params()),
        "decision.json": lambda: steps.plan(shop.spec, "r", Params()),
        "params.json": lambda: throttle_for(spec, run),
    }
    for file, read in readers.items():
        kept = run.read(file)
        write_json(run, file, left)
        with pytest.raises(DamagedError, match=f"{file}: expected an object"):
            read()
        run.write(file, kept)
    write_json(run, "params.json", {"batch": "much"})
    with pytest.raises(DamagedError, match="batch: expected a valid integer, found 'much'"):
        throttle_for(spec, run)


def test_the_price_of_a_partial_is_the_specs_unless_decide_chose_another(shop: Shop) -> None:
    load = np.append(1e4, np.full(300, 30.0))
    hashes = key_hash([[f"word {i}" for i in range(301)]], ["string"])
    hot = profile_of_keys(KEY, hashes, load, 64, state=np.full(301, 50.0), threshold=100)
    shop.respec(approve_over=0, split={"by": "id"})
    shop.learn("r", hot)
    run = shop.registry.run("r")
    row = {"name": "id", "type": "bigint"}
    write_json(run, "profile.json", {**read_json(run, "profile.json"), "row": row})

    def moved() -> float:
        steps.plan(shop.spec, "r", Params())
        return steps.read_plan(run).bytes

    decided = steps.decide(shop.spec, "r", Params.of({"force": True})).to_dict()
    assert moved() > 0
    # Edited since: the task `plan` was cleared alone.
    shop.respec(split={"by": "id", "worth": 0})
    assert moved() == 0
    shop.respec(approve_over=0, split={"by": "id"})
    write_json(run, "decision.json", {**decided, "worth": 0.0})
    assert moved() == 0
    # As before splitting without slots was weighed.
    write_json(run, "decision.json", {k: v for k, v in decided.items() if k != "worth"})
    assert moved() > 0
    write_json(run, "decision.json", {**decided, "worth": "abc"})
    with pytest.raises(
        DamagedError, match=r"decision\.json: worth: expected a valid number, found 'abc'"
    ):
        moved()


def test_without_an_aim_a_plan_leaves_what_chance_explains(shop: Shop) -> None:
    shop.respec(max_imbalance=None, trigger=1)
    shop.plan()
    sure = steps.read_plan(shop.registry.run("r"))
    assert sure.max_imbalance == 1.005
    shop.learn("r", replace(shop.profile, chance=0.2))
    decided = steps.decide(shop.spec, "r", Params())
    steps.plan(shop.spec, "r", Params())
    banded = steps.read_plan(shop.registry.run("r"))
    assert banded.max_imbalance == pytest.approx(1.045)
    assert sure.imbalance_after <= 1.005 < banded.imbalance_after <= 1.045
    assert banded.bytes < sure.bytes and decided.reachable <= 1.045
    steps.validate_plan(shop.spec, "r")
    shop.verified()
    assert steps.publish(shop.spec, "r") == 1


def test_a_rebalance_that_chance_explains_is_not_begun(shop: Shop) -> None:
    shop.respec(max_imbalance=None, trigger=1)
    shop.learn("r", replace(shop.profile, chance=50.0))
    decided = steps.decide(shop.spec, "r", Params())
    assert not decided.rebalance and decided.reason.endswith("is explained by chance")
    assert steps.decide(shop.spec, "r", Params.of({"force": True})).rebalance


@pytest.mark.parametrize("left", [[], [1], None, {}, [{"name": "0"}]])
def test_damaged_channels_of_a_spec_are_no_edited_spec(shop: Shop, left: object) -> None:
    epoch = shop.publish("r")
    file = shop.registry.files.spec_channels(str(epoch.plan_digest)).name
    shop.registry.store.write_json(file, left)
    with pytest.raises(DamagedError, match=file):
        channels_for(load_spec(shop.spec), epoch, shop.registry, Params())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"strategy": "magic"}, "strategy: expected one of uniform, "),
        ({"strategy": "wchoices"}, "found 'wchoices', a baseline, "),
        ({"channels": 0}, "channels: must be 1 or more, got 0"),
        ({"channels": "many"}, "channels: must be a whole number, got 'many'"),
        ({"budget": -1}, "budget: must be 0 or more, got -1"),
        ({"max_imbalance": 0.9}, "max_imbalance: "),
        ({"window_end": "2013-02-30"}, "window_end: must be a date, such as "),
        ({"windw_end": "2013-02-01"}, "windw_end: there is no such field"),
    ],
)
def test_wrong_params_are_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match="parameters of the run: ") as error:
        Params.of(wrong)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["sia", "dkg", "dkg_pkg"])
def test_what_a_baseline_made_before_stays_readable(shop: Shop, name: str) -> None:
    """An earlier release let runs ask for a baseline: its runs, epochs and plans still open."""
    asked = Params.model_construct(strategy=name, force=True)
    shop.respec(split={"by": "id"})
    shop.learn_row("r")
    steps.decide(shop.spec, "r", asked)
    steps.plan(shop.spec, "r", asked)
    run = shop.registry.run("r")
    assert (
        steps.read_plan(run).function.strategy == read_json(run, "params.json")["strategy"] == name
    )
    shop.verified()
    assert steps.publish(shop.spec, "r") == 1
    assert shop.registry.current().function.strategy == name
    page = steps.report(shop.spec, "r")
    assert page is not None and "words" in Path(page).read_text()
    shop.learn_row("away")
    shop.plan("away", force=True, max_imbalance=1.01)
    shop.verified("away")
    assert steps.publish(shop.spec, "away") == 2
    shop.learn_row("back")
    steps.plan_rollback(shop.spec, "back", 1)
    shop.verified("back")
    assert steps.publish(shop.spec, "back") == 3
    placed = [shop.registry.epoch(n).function.slots for n in (1, 3)]
    np.testing.assert_array_equal(*placed)


def test_a_plan_needs_a_profile(shop: Shop) -> None:
    with pytest.raises(InputError, match=r"profile\.json is missing"):
        steps.decide(shop.spec, "another", Params())


def test_a_profile_of_an_older_epoch_is_refused(shop: Shop) -> None:
    shop.publish("other")
    with pytest.raises(FenceError, match="epoch 1 was published since this profile was learned"):
        shop.plan("r")


def test_the_second_of_two_runs_publishes_nothing(shop: Shop) -> None:
    shop.plan("r")
    shop.checked("r")
    shop.publish("other", strategy="uniform")
    with pytest.raises(FenceError, match="already published by another run"):
        shop.look_and_publish("r")
    with pytest.raises(FenceError, match="already published by another run"):
        steps.publish(shop.spec, "r")
    assert shop.registry.numbers() == [0, 1]


def test_tables_that_did_not_pass_are_not_published(shop: Shop) -> None:
    shop.plan()
    shop.checked(success=False)
    for publish in (shop.look_and_publish, lambda: steps.publish(shop.spec, "r")):
        with pytest.raises(GateError, match="did not pass"):
            publish()
    assert shop.registry.numbers() == [0]


def rolled_back(shop: Shop, done: bool) -> str:
    """What roll_back leaves; returns the plan's digest."""
    run = shop.registry.run("r")
    digest = steps.read_plan(run).digest
    write_json(run, "rolled_back.json", {"digest": digest, "done": done})
    return digest


@pytest.mark.parametrize("done", [False, True])
def test_a_run_that_was_rolled_back_is_not_published(shop: Shop, done: bool) -> None:
    shop.plan()
    shop.checked()
    rolled_back(shop, done)
    for publish in (shop.look_and_publish, lambda: steps.publish(shop.spec, "r")):
        with pytest.raises(FenceError, match="rolled back. Start a new run"):
            publish()
    assert shop.registry.numbers() == [0]


def test_the_step_publish_creates_no_epoch(shop: Shop) -> None:
    """Who does has looked at the tables just before."""
    shop.plan()
    shop.checked()
    with pytest.raises(FenceError, match="Clear the task verify of this run"):
        steps.publish(shop.spec, "r")
    assert shop.registry.numbers() == [0]
    shop.look_and_publish()
    assert steps.publish(shop.spec, "r") == 1


def test_of_publish_and_roll_back_the_first_verdict_holds(shop: Shop) -> None:
    digest, run = shop.plan(), shop.registry.run("r")
    shop.checked()
    looks: list[int] = []

    def look() -> dict[str, int]:
        """A publish that sleeps after its first look, while roll_back comes and goes."""
        looks.append(1)
        assert verdict.settle(run, digest, 1, verdict.ROLL_BACK) == verdict.ROLL_BACK
        return {"counts": 9}

    made, spec = steps.read_plan(run), load_spec(shop.spec)
    with pytest.raises(FenceError, match="rolled back"):
        publish_checked(spec, shop.registry, run, made, 1, look)
    assert len(looks) == 1 and shop.registry.numbers() == [0]
    verdict.mark(run, digest, 1, done=True)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(1, verdict.ROLL_BACK, True)
    verdict.next_attempt(run, digest, 1)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(2, None, False)
    # What is left of the first attempt still finds its own verdict, and its mark says nothing.
    write_json(run, "migration.json", {"digest": digest, "epoch": 1, "tables": {}})
    verdict.mark(run, digest, 1, done=True)
    assert verdict.newest_attempt(run, digest) == verdict.Attempt(2, None, False)
    with pytest.raises(FenceError, match="has begun to move rows"):
        shop.plan(strategy="uniform")
    with pytest.raises(FenceError, match="rolled back"):
        shop.look_and_publish(number=1)
    assert shop.look_and_publish(number=2).number == 1
    assert verdict.settle(run, digest, 2, verdict.ROLL_BACK) == verdict.PUBLISH


def test_a_mark_on_another_plan_or_a_published_one_stops_nothing(shop: Shop) -> None:
    shop.plan()
    shop.checked()
    write_json(shop.registry.run("r"), "rolled_back.json", {"digest": "another", "done": True})
    shop.look_and_publish()
    assert steps.publish(shop.spec, "r") == 1
    rolled_back(shop, done=False)
    assert steps.publish(shop.spec, "r") == 1


def test_a_plan_that_rows_move_by_is_not_overwritten(shop: Shop) -> None:
    digest = shop.plan()
    run = shop.registry.run("r")
    planned = run.read("plan.json")
    write_json(run, "migration.json", {"digest": digest, "epoch": 1, "tables": {}})
    for done in (None, False):
        if done is not None:
            rolled_back(shop, done)
        with pytest.raises(FenceError, match=f"Run roll_back of run r with digest {digest} first"):
            shop.plan(strategy="uniform")
        assert run.read("plan.json") == planned
    assert shop.plan() == digest
    rolled_back(shop, done=True)
    assert shop.plan(strategy="uniform") != digest


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


def test_channels_asked_for_stay_until_the_spec_is_edited(shop: Shop) -> None:
    def channels(**asked: Any) -> list[str]:
        spec, epoch = load_spec(shop.spec), shop.registry.current()
        return [c.name for c in channels_for(spec, epoch, shop.registry, Params.of(asked))]

    assert channels() == ["0", "1", "2", "3"]
    assert len(shop.publish("more", channels=6).function.channels) == 6
    assert channels() == ["0", "1", "2", "3", "4", "5"]
    assert channels(channels=2) == ["0", "1"]
    shop.respec(channels=3)
    assert channels() == ["0", "1", "2"]


def test_a_rolled_back_number_of_channels_stays_too(shop: Shop) -> None:
    shop.respec(channels=6)
    assert len(shop.publish("more").function.channels) == 6
    shop.learn("back")
    steps.plan_rollback(shop.spec, "back", 0)
    shop.verified("back")
    steps.publish(shop.spec, "back")
    shop.learn("next")
    assert not steps.decide(shop.spec, "next", Params(max_imbalance=1.0)).reason.startswith(
        "channels"
    )


def test_going_back_gives_a_new_epoch_with_the_old_placement(shop: Shop) -> None:
    shop.publish("r")
    shop.learn("back")
    steps.plan_rollback(shop.spec, "back", 0)
    steps.validate_plan(shop.spec, "back")
    shop.verified("back")
    assert steps.publish(shop.spec, "back") == 2
    old, new = shop.registry.epoch(0).function, shop.registry.epoch(2).function
    assert (new.slots == old.slots).all()
    assert (new.explicit_keys == old.explicit_keys).all()
    assert new.parent == shop.registry.epoch(1).function.digest


@pytest.mark.parametrize(("epoch", "said"), [(0, "is the current one"), (7, "no epoch 7")])
def test_going_back_needs_an_earlier_epoch(shop: Shop, epoch: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        steps.plan_rollback(shop.spec, "r", epoch)


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
    approval.ask(shop.spec, "r")
    assert read_json(run, "asked.json") == {"digest": digest}
    assert asked is not None
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
    shop.registry.store.write_json("windows/2013-01-29.json", {"channels": channels})
    load = float(shop.profile.load.sum())
    expected = 0.005 * shop.profile.events / load
    assert seconds_per_load(shop.registry, shop.profile) == pytest.approx(expected)
    cost = table_moved(bytes=300, seconds=2.0)
    moved = {"digest": "d", "epoch": 0, "tables": {"counts": cost}}
    shop.registry.store.write_json("epochs/00000000/migration.json", moved)
    assert pace(shop.registry) == Pace(150, 2.0)
    # What moves nothing, as sharing a key, tells nothing of how fast state moves.
    kept, numbers = shop.registry.archive, list(range(20))
    none = {**moved, "tables": {"counts": table_moved()}}
    for number in numbers[1:]:
        shop.registry.store.write_json(f"epochs/{number:08d}/migration.json", none)
    many = SimpleNamespace(archive=kept, numbers=lambda: numbers)
    assert pace(many) == Pace(150, 2.0)
    for number in numbers[1:]:
        shop.registry.store.remove(f"epochs/{number:08d}/migration.json")
    shop.plan()
    made = steps.read_plan(shop.registry.run("r"))
    # What decides and what pages show is one price; however little moves, it has its fixed part.
    for seconds in (2.0, 1e6):
        cost["seconds"] = seconds
        shop.registry.store.write_json("epochs/00000000/migration.json", moved)
        found = steps.decide(shop.spec, "r", Params())
        assert found.cost_seconds == max(found.bytes / (300 / seconds), seconds)
        alike = replace(made, bytes=found.bytes)
        slots = [replace(made.moves[0], bytes=found.bytes)]
        alike = replace(alike, moves=tuple(slots))
        assert found.cost_seconds == predict(shop.registry, alike, shop.profile).seconds


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
    assert run_metrics(shop.spec, "nothing yet")[1] == {}
    page = steps.report(shop.spec, "r")
    assert page is not None
    assert page.endswith("epochs/00000001/report.html")
    assert "<html" in Path(page).read_text()
