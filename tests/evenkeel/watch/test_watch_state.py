"""What the watch keeps in the registry, and light epochs, without Spark or Airflow."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from evenkeel.pipeline import steps
from evenkeel.registry.profiles import newest_profile
from evenkeel.spec.loading import load_spec
from evenkeel.watch import mitigation, state, state_file
from evenkeel.watch.state import PendingDecision, WatchState
from evenkeel.watch.state_file import watch_record
from partitioning.errors import DamagedError, FenceError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.watch.mitigation import Limits, MicroBatch
from tests.support.cases.watch_state import decided, folded, heaviest
from tests.support.raw_json import read_json, write_json
from tests.support.worlds.shop import Shop

ROW = KeyColumn("id", "bigint")


def left(shop: Shop, known: WatchState, run: str = "w0") -> None:
    """What a look leaves in its run."""
    shop.learn(run)
    folder = shop.registry.run(run)
    write_json(
        folder,
        "profile.json",
        {**read_json(folder, "profile.json"), "row": {"name": "id", "type": "bigint"}},
    )
    assert known.decided is not None
    mitigation.leave(folder, 0, known.decided.weights, "the watch, batch 0: it is hot")


def test_what_waits_is_worked_off_while_nothing_comes(shop: Shop) -> None:
    spec = load_spec(shop.spec)
    assert spec.watch is not None
    known = state.new_watch("batches", shop.registry.current(), spec.watch)
    known, *_ = folded(shop, known, 0, 400.0, under_way=True)
    # 500 came, 400 of a mean of 200 are worked off in the time of a batch.
    assert known.backlog.max() == 100
    for number, hot in ((1, 400.0), (2, 400.0)):
        later, *_ = folded(shop, known, number, hot, under_way=True)
        assert later.backlog.max() == (200 if number == 1 else 100)


def test_it_is_kept_whole(shop: Shop) -> None:
    known = decided(shop)
    assert state_file.read(shop.registry) is None
    state_file.write(shop.registry, known)
    again = state_file.read(shop.registry)
    assert again is not None and watch_record(again).plain == watch_record(known).plain
    # It goes on as if it had never been away.
    one, other = (watch_record(folded(shop, w, 1, 400.0)[0]).plain for w in (known, again))
    assert one == other
    for broken in (b"{", b"[]", json.dumps({**watch_record(known).plain, "digest": "x"}).encode()):
        shop.registry.store.write(shop.registry.files.watch.name, broken)
        with pytest.raises(DamagedError, match=r"watch\.json"):
            state_file.read(shop.registry)


def test_a_key_that_is_shared_stays_the_watch_s_own_when_batches_get_other_numbers(
    shop: Shop,
) -> None:
    """A fresh watch would leave it for good on helpers that catch up, and nothing on its home."""
    known = decided(shop)
    assert known.decided is not None
    other = known.numbered_by("stream 2")
    assert other.decided is not None and other.source == "stream 2"
    assert other.decided.weights == known.decided.weights
    # Its epoch is published, and the watch goes on with the first batch of the new numbers.
    shared = replace(known, watch=known.decided.after, decided=None).numbered_by("stream 2")
    for watch in (other.watch, other.decided.after, shared.watch):
        assert watch.last == -1 and len(watch.sample) == 0
    assert shared.watch.spread == known.decided.after.spread != {}
    assert {n for at in shared.watch.moved.values() for n in at} == {-1}
    (mitigation_of,) = shared.watch.spread.values()
    assert mitigation_of.catching == 1
    for number in range(4):
        shared, after, weights = folded(shop, shared, number, 1.0)
        if weights:
            break
    assert weights and after.watch.last == number


def test_what_is_decided_counts_only_once_it_is_published(shop: Shop) -> None:
    known, spec = decided(shop), load_spec(shop.spec)
    assert spec.watch is not None and known.decided is not None
    epoch = shop.registry.current()
    # The run that is to carry it out looks again; another one: it was not carried out.
    assert known.settled(epoch, "w0", spec.watch) == known
    gone = known.settled(epoch, "w1", spec.watch)
    assert gone.decided is None and gone.watch.spread == {}
    # That counts as a move: with two, the key rests for a while.
    twice, after, weights = folded(shop, gone, 1, 400.0)
    assert weights
    twice = replace(twice, decided=PendingDecision("w1", 1, weights, after.watch))
    rests = twice.settled(epoch, "w2", spec.watch)
    assert folded(shop, rests, 2, 400.0)[2] == {}

    left(shop, known)
    run = shop.registry.run("w0")
    whole = read_json(run, "watched.json")
    for damage in ({"weights": {"a": {}}}, {"weights": {"1": 2}}, {"number": "x"}):
        write_json(run, "watched.json", {**whole, **damage})
        with pytest.raises(DamagedError, match=r"watched\.json"):
            steps.plan_watch(shop.spec, "w0")
    write_json(run, "watched.json", whole)
    digest = steps.plan_watch(shop.spec, "w0")
    plan = steps.read_plan(shop.registry.run("w0"))
    assert plan.digest == digest and plan.function.strategy == "watch" and plan.moves
    assert {m.reason for m in plan.moves} == {"the watch, batch 0: it is hot"}
    shop.verified("w0")
    assert steps.publish(shop.spec, "w0") == 1
    epoch = shop.registry.current()
    done = known.settled(epoch, "w1", spec.watch)
    assert done.decided is None and set(done.watch.spread) == set(known.decided.weights)
    assert done.backlog.tolist() == known.backlog.tolist() and done.epoch == 1

    # A minute's profile is no window's: previews and pages take the newest of a day.
    assert newest_profile(shop.registry).source == "r"
    assert read_json(shop.registry.archive(1), "watched.json")["number"] == 0


def test_the_daily_run_decides_all_and_the_watch_starts_anew(shop: Shop) -> None:
    known, spec = decided(shop), load_spec(shop.spec)
    assert spec.watch is not None
    shop.respec()
    shop.publish("daily", force=True)
    key, _ = heaviest(shop)
    known = replace(known, watch=replace(known.watch, moved={key: (0,)}))
    anew = known.settled(shop.registry.current(), "w0", spec.watch)
    assert anew.watch.moved == {key: (0,)}, "it may move twice as often"
    assert anew.decided is None and anew.watch.spread == {} and len(anew.watch.sample) == 0
    assert anew.watch.last == 0 and anew.epoch == 1 and not anew.backlog.any()
    # What was decided before it cannot be carried out any more.
    left(shop, known)
    write_json(
        shop.registry.run("w0"), "profile.json", {"tables": {"counts": 3}, "epoch": 0, "seconds": 1}
    )
    with pytest.raises(FenceError, match="epoch 1 was published since"):
        steps.plan_watch(shop.spec, "w0")
    assert steps.plan_watch(shop.spec, "w1") is None


@pytest.mark.parametrize("fails", [0.0, 0.5, 1.0])
def test_a_load_that_flips_tries_no_key_more_than_twice_in_twenty(shop: Shop, fails: float) -> None:
    """Whatever becomes of the runs, and through the file each time."""
    spec, epoch = load_spec(shop.spec), shop.registry.current()
    assert spec.watch is not None
    (key, home), random, tried = heaviest(shop), np.random.default_rng(1), []
    known = state.new_watch("batches", epoch, spec.watch)
    for number in range(120):
        known = known.settled(epoch, f"w{number}", spec.watch)
        hot, loads = 400.0 * (number % 2), np.full(4, 100.0)
        channels, shares = _owned(epoch.function, key)
        loads[channels or [home]] += hot * np.array(shares or [1.0])
        batch = MicroBatch(number, epoch.number, loads, np.zeros(4), {key: hot})
        known, after, weights = known.folded(batch, epoch.function, Limits(eta=1.5, memory=3), 2.0)
        if weights:
            assert set(weights) == {key}
            tried.append(number)
            owners = mitigation.owners(weights, after.watch)
            known = replace(
                known, decided=PendingDecision(f"w{number}", number, owners, after.watch)
            )
            if random.random() >= fails:
                function = mitigation.mitigated(epoch.function, owners, number, ROW)
                epoch = replace(epoch, number=epoch.number + 1, function=function)
        state_file.write(shop.registry, known)
        again = state_file.read(shop.registry)
        assert again is not None
        known = again
    assert tried
    assert all(late - early >= 20 for early, late in zip(tried, tried[2:], strict=False)), tried


def test_a_function_with_other_owners_of_some_keys(shop: Shop) -> None:
    function = shop.registry.current().function
    (key, home), other = heaviest(shop), int(shop.profile.heavy[0])
    assert other != key
    shared = mitigation.mitigated(function, {key: {0: 1.0, 2: 3.0}}, 5, ROW)
    assert (shared.strategy, shared.options, shared.row) == ("watch", {"batch": 5}, ROW)
    both = mitigation.mitigated(shared, {other: {1: 1.0, 3: 1.0}}, 6, ROW)
    parts = dict(zip(*_owned(both, key), strict=True))
    assert parts == {2: 0.75, 0: 0.25}
    assert (both.slots == function.slots).all() and both.parent == shared.digest
    # The spec may allow it no longer: what is split stays so, by the column that it was split by.
    assert mitigation.mitigated(both, {other: {1: 1.0}}, 7, None).row == ROW
    # Back: where it was, with no trace; and elsewhere, by name.
    back = mitigation.mitigated(both, {key: {home: 1.0}, other: {3: 1.0}}, 7, ROW)
    assert len(back.split) == 0
    wanted = function.lookup_hashes(shop.profile.heavy)
    wanted[shop.profile.heavy == other] = 3
    assert (back.lookup_hashes(shop.profile.heavy) == wanted).all()


def _owned(function: PartitioningFunction, key: int) -> tuple[list[int], list[float]]:
    at = function.split.find(np.array([key]))
    _, channels, shares = function.split.owners(at[at >= 0])
    return channels.tolist(), shares.tolist()


def test_who_gets_nothing_for_a_while_keeps_its_partial(shop: Shop) -> None:
    known, (key, home) = decided(shop), heaviest(shop)
    assert known.decided is not None
    spread, weights = known.decided.after.spread[key], known.decided.weights[key]
    assert home not in spread.weights and set(weights) == {home, *spread.helpers}
    function = mitigation.mitigated(shop.registry.current().function, known.decided.weights, 0, ROW)
    assert dict(zip(*_owned(function, key), strict=True))[home] < 1e-5
    # Handed back it has one owner.
    assert mitigation.owners({key: {home: 1.0}}, known.watch) == {key: {home: 1.0}}
