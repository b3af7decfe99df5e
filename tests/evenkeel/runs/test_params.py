"""What a run is asked for: params over the spec, wrong ones, channels, going back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.pipeline import steps
from evenkeel.quality.budgets import write_budget
from evenkeel.runs.params import channels_for, throttle_for
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.watch.mitigation import leave
from partitioning.errors import DamagedError, InputError
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.workload.profile import profile_of_keys
from tests.support.raw_json import read_json, write_json
from tests.support.worlds.shop import KEY, Shop


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
    # The last of it is not worth its bytes.
    assert sure.max_imbalance == pytest.approx(1.01039, abs=1e-5)
    shop.learn("r", replace(shop.profile, chance=0.2))
    decided = steps.decide(shop.spec, "r", Params())
    steps.plan(shop.spec, "r", Params())
    banded = steps.read_plan(shop.registry.run("r"))
    assert banded.max_imbalance == pytest.approx(1.045)
    assert sure.imbalance_after <= sure.max_imbalance < banded.imbalance_after <= 1.045
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
    write_json(shop.registry.files, file, left)
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
        (
            {"windw_end": "2013-02-01"},
            "windw_end: there is no such field, got '2013-02-01'; allowed: strategy, channels, "
            "capacities, max_imbalance, window_end, ",
        ),
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


def test_going_back_to_split_keys_splits_them_by_the_column_of_now(shop: Shop) -> None:
    """Windows could not be routed by a column that the input has no more."""
    load = np.append(1e4, np.full(300, 30.0))
    hashes = key_hash([[f"word {i}" for i in range(301)]], ["string"])
    hot = profile_of_keys(KEY, hashes, load, 64, state=np.full(301, 50.0), threshold=100)

    def learn(run: str, name: str, kind: str) -> None:
        shop.learn(run, hot)
        known = read_json(shop.registry.run(run), "profile.json")
        row = {"name": name, "type": kind}
        write_json(shop.registry.run(run), "profile.json", {**known, "row": row})

    shop.respec(split={"by": "id"})
    learn("r", "id", "bigint")
    shop.plan("r", force=True)
    shop.verified("r")
    assert steps.publish(shop.spec, "r") == 1
    shop.respec(split={"by": "order"})
    learn("next", "order", "int")
    shop.plan("next", force=True, channels=5)
    shop.verified("next")
    assert steps.publish(shop.spec, "next") == 2
    learn("before", "id", "bigint")
    with pytest.raises(InputError, match="learned without column 'order'.* Learn again"):
        steps.plan_rollback(shop.spec, "before", 1)
    learn("back", "order", "int")
    steps.plan_rollback(shop.spec, "back", 1)
    shop.verified("back")
    assert steps.publish(shop.spec, "back") == 3
    first, last = (shop.registry.epoch(n).function for n in (1, 3))
    assert first.row == KeyColumn("id", "bigint") and last.row == KeyColumn("order", "int")
    assert len(first.split) and (first.split.keys == last.split.keys).all()
    assert (first.split.channels == last.split.channels).all()


def test_channels_asked_for_stay_until_the_spec_is_edited(shop: Shop) -> None:
    def channels(**asked: Any) -> list[str]:
        spec, epoch = load_spec(shop.spec), shop.registry.current()
        return [c.name for c in channels_for(spec, epoch, shop.registry, Params.of(asked))]

    assert channels() == ["0", "1", "2", "3"]
    assert len(shop.publish("more", channels=6).function.channels) == 6
    assert channels() == ["0", "1", "2", "3", "4", "5"]
    assert channels(channels=2) == ["0", "1"]
    assert len(channels(channels=64)) == 64
    with pytest.raises(InputError, match="at most 64 channels, one for each slot, got 65"):
        channels(channels=65)
    with pytest.raises(InputError, match="capacities: expected at most 64 channels"):
        channels(capacities=[1] * 65)
    assert len(channels(capacities=[*[1] * 64, 0])) == 65
    shop.respec(channels=3)
    assert channels() == ["0", "1", "2"]


def test_an_edit_of_the_channels_counts_whatever_is_published_after_it(shop: Shop) -> None:
    def channels() -> int:
        spec, epoch = load_spec(shop.spec), shop.registry.current()
        return len(channels_for(spec, epoch, shop.registry, Params()))

    shop.learn("daily")
    shop.plan("daily", force=True)
    # Edited while the run waits for an answer, or moves rows.
    shop.respec(channels=6)
    shop.verified("daily")
    assert len(shop.registry.current().function.channels) == 4 and channels() == 6
    # Neither the watch nor a rollback goes by the spec's list.
    shop.learn("watch-1")
    key = int(shop.profile.heavy[0])
    leave(shop.registry.run("watch-1"), 1, {key: {0: 1.0}}, "hot")
    assert steps.plan_watch(shop.spec, "watch-1") is not None
    shop.verified("watch-1")
    assert len(shop.registry.current().function.channels) == 4 and channels() == 6
    shop.learn("back")
    steps.plan_rollback(shop.spec, "back", 0)
    shop.verified("back")
    assert len(shop.registry.current().function.channels) == 4 and channels() == 6
    assert len(shop.publish("next", force=True).function.channels) == 6


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
