"""What people see of a table whose slots are split: moves, reasons and loads of its epochs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenkeel.inspect.epoch_diff import compare
from evenkeel.inspect.key_history import past, stays
from evenkeel.inspect.load_history import past_windows
from evenkeel.pipeline import steps
from evenkeel.registry.profiles import newest_profile
from evenkeel.runs.report import plan_facts
from partitioning.function.hashing import key_hash
from partitioning.workload.metrics import imbalance
from partitioning.workload.profile import Floats, Profile, profile_of_keys
from tests.support.worlds.shop import KEY, Shop

WORDS = [f"word {i}" for i in range(300)]
HASHES = key_hash([WORDS], ["string"])


def loads(seed: int) -> Floats:
    return np.random.default_rng(seed).permutation(1e4 / np.arange(1, 301))


def profile(shop: Shop, slots: int, seed: int) -> Profile:
    """As learned at the current epoch: with the keys that it places by name."""
    listed = shop.registry.current().function.explicit_keys
    made = profile_of_keys(
        KEY, HASHES, loads(seed), slots, state=np.full(300, 50.0), threshold=100, listed=listed
    )
    return replace(made, window=(f"2013-0{seed}-01", f"2013-0{seed}-29"))


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """Epoch 1 of 64 slots, 2 of 128, and 3 back where 1 was."""
    for seed, slots in ((3, 64), (4, 128)):
        shop.respec(slots=slots)
        run = f"r{seed}"
        shop.learn(run, profile(shop, slots, seed))
        # Light keys move, too, and so slots do.
        shop.plan(run, force=True, capacities=(1, 1, 1, 0.3) if slots == 64 else (1, 1, 1, 1))
        steps.validate_plan(shop.spec, run)
        shop.verified(run)
        steps.publish(shop.spec, run)
    shop.learn("r5", profile(shop, 128, 5))
    steps.plan_rollback(shop.spec, "r5", 1)
    steps.validate_plan(shop.spec, "r5")
    shop.verified("r5")
    steps.publish(shop.spec, "r5")
    return shop


def test_slots_stay_split_and_rows_keep_theirs(shop: Shop) -> None:
    functions = [shop.registry.epoch(n).function for n in range(4)]
    assert [len(f.slots) for f in functions] == [64, 64, 128, 128]
    assert {f.row_slots for f in functions} == {64}
    owners = [f.lookup_hashes(HASHES).tolist() for f in functions]
    assert owners[1] == owners[3] != owners[2]
    plan = steps.read_plan(shop.registry.run("r4"))
    assert ("slots", "128", "rows keep their slot of 64: none is rewritten for it") in plan_facts(
        plan, split=False
    )
    assert "slots" not in {
        f[0] for f in plan_facts(steps.read_plan(shop.registry.run("r3")), False)
    }
    page = steps.report(shop.spec, "r4")
    assert page is not None
    assert "rows keep their slot of 64" in Path(page).read_text()


@pytest.mark.parametrize("listed", [0, 2])
@pytest.mark.parametrize(("old", "new"), [(0, 1), (0, 2), (1, 2), (2, 1), (3, 0), (1, 3)])
def test_epochs_of_different_slots_are_compared(
    shop: Shop, old: int, new: int, listed: float
) -> None:
    """Weighed by key, where all are listed, or by slot."""
    known = newest_profile(shop.registry).profile.slots
    assert known == 128
    load = np.ones(300)
    weighed = profile_of_keys(KEY, HASHES, load, known, threshold=listed)
    found = compare(shop.registry, old, new, weighed)
    first, second = found.old.function, found.new.function
    moved = first.lookup_hashes(HASHES) != second.lookup_hashes(HASHES)
    assert bool(found.moves) == bool(moved.any())
    total = sum(m.rows for m in found.moves)
    # The plan's own profile, and slots, know no weight of some keys.
    exact = not listed and abs(old - new) > 1
    assert total == pytest.approx(moved.sum()) if exact else total <= moved.sum()
    assert not found.problems
    if old < new != 3:
        assert all(m.reason.startswith("epoch ") for m in found.moves), found.moves
    assert len(compare(shop.registry, old, new, None).moves) == len(found.moves)


def test_each_stay_of_a_key_has_a_reason(shop: Shop) -> None:
    lived = stays(shop.registry, past(shop.registry), HASHES)
    reasons = {stay.why for of_key in lived for stay in of_key}
    assert any(len(of_key) > 2 for of_key in lived)
    assert "no plan gives a reason" not in reasons
    assert {"bootstrap", "back to epoch 1"} < reasons


def test_windows_of_old_and_new_slots_have_loads(shop: Shop) -> None:
    problems: list[str] = []
    windows = past_windows(shop.registry, problems)
    assert not problems
    found = {w.end: w.imbalance for w in windows}
    for seed, at in ((3, 0), (4, 1), (5, 2)):
        function, load = shop.registry.epoch(at).function, loads(seed)
        exact = np.bincount(function.lookup_hashes(HASHES), load, 4)
        wanted = imbalance(exact, function.capacities)
        assert found[f"2013-0{seed}-29"] == pytest.approx(wanted)
