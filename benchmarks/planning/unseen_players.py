"""Play a stream window by window: planners that are compared on windows that no plan has seen."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from benchmarks.planning.unseen_reference import ReferencePlanner
from evenkeel.backtest.runners import placed
from evenkeel.backtest.scoring import backtest, expected_profile, learn_window, sketch_of
from evenkeel.backtest.windows import Series
from evenkeel.spec.table_spec import TableSpec
from partitioning.function.channels import numbered_channels
from partitioning.function.function import DEFAULT_SLOTS
from partitioning.function.hashing import Hashes
from partitioning.planning.aims import aim_for
from partitioning.planning.decide import Policy, decide
from partitioning.strategies.frontier.strategy import frontier
from partitioning.workload.forecast import DECAYS, Decay
from partitioning.workload.metrics import imbalance, moved_shares
from partitioning.workload.profile import Sketch

Ints = npt.NDArray[np.intp]
#: Imbalance of the next window, load moved a window, and seconds a plan.
Result = tuple[float, float, float]
Player = Callable[[Series, int], Result]
OURS, REFERENCE, LAST = "frontier", "reference", "last window"


def play_frontier(series: Series, channels: int, decay: float | None = None) -> Result:
    """Play the product's own planner, which plans in each window: a spec without a trigger.

    Parameters
    ----------
    decay : weight of a window against the one after it; None: the forecast chooses
    """
    scores = list(backtest(series, [OURS], [channels], decay=decay))
    return (
        float(np.mean([s.imbalance for s in scores])),
        float(np.mean([s.moved for s in scores[1:] or scores])),
        float(np.mean([s.plan_seconds for s in scores])),
    )


def play_reference(series: Series, channels: int) -> Result:
    """Play the reference planner, which knows the exact load of every key."""
    planner, found = ReferencePlanner(channels, DEFAULT_SLOTS), []
    codes, hashes = by_first_window(series)
    loads = np.zeros((len(series.windows), series.keys))
    for own, window in zip(loads, series.windows, strict=True):
        own[codes[np.searchsorted(series.hashes, window.hashes)]] = window.load
    count = 0
    for load, unseen in pairwise(loads):
        before = planner.owners(hashes)
        count = max(count, int(np.flatnonzero(load)[-1]) + 1)
        began = time.process_time()
        planner.plan(hashes[:count], load[:count])
        seconds, after = time.process_time() - began, planner.owners(hashes)
        moved = float(load[before != after].sum() / load.sum())
        there = np.bincount(after, unseen, channels)
        found.append((float(there.max() / there.mean()), moved, seconds))
    return _means(found)


def by_first_window(series: Series) -> tuple[Ints, Hashes]:
    """Return each key's number by the window in which it first comes, and the hashes by number."""
    codes, count = np.full(series.keys, -1), 0
    for window in series.windows:
        at = np.searchsorted(series.hashes, window.hashes)
        at = at[codes[at] < 0]
        codes[at] = np.arange(count, count + len(at))
        count += len(at)
    hashes = np.empty(series.keys, dtype=np.int64)
    hashes[codes] = series.hashes
    return codes, hashes


def play_spec(series: Series, channels: int, decay: Decay) -> Result:
    """Play a spec without other settings: a run a window, which rebalances if `decide` says so.

    The spec's window counts days; here it counts windows.

    Parameters
    ----------
    decay : the spec's
    """
    fields = TableSpec.model_fields
    days, trigger, horizon = (fields[name].default for name in ("window", "trigger", "horizon"))
    owners, function, found = numbered_channels(channels), None, []
    seen: deque[Sketch] = deque(maxlen=days)
    for window, unseen in pairwise(series.windows):
        listed = None if function is None else function.explicit_keys
        learned = learn_window(series, window, channels, DEFAULT_SLOTS, listed)
        seen.append(sketch_of(learned, window))
        before, began = function, time.process_time()
        profile = expected_profile(learned, list(seen), decay, before)
        aim = aim_for(profile, before, owners)
        policy = Policy(trigger, aim, horizon)
        if before is None or decide(profile, before, owners, policy).rebalance:
            function = frontier(profile, before, owners, max_imbalance=aim)
        seconds, moved = time.process_time() - began, 0.0
        if before is not None:
            share = moved_shares(before, function, window.hashes)
            moved = float((window.load * share).sum() / window.load.sum())
        even = imbalance(placed(function, unseen)[0], function.capacities)
        found.append((even, moved, seconds))
    return _means(found)


def _means(found: Sequence[Result]) -> Result:
    """Return the means over windows; the first plan moves nothing, and does not count as moved."""
    even, moved, seconds = np.array(found).T
    return float(even.mean()), float(moved[min(1, len(moved) - 1) :].mean()), float(seconds.mean())


#: Specs that differ in `decay` alone; one of them is what a spec has by default.
SPECS: dict[str, Decay] = {"spec none": None, "spec 0.5": 0.5, "spec auto": "auto"}
PLAYERS: dict[str, Player] = {
    OURS: play_frontier,
    REFERENCE: play_reference,
    LAST: partial(play_frontier, decay=0.0),
    **{f"decay {d:g}": partial(play_frontier, decay=d) for d in DECAYS if d > 0},
    **{name: partial(play_spec, decay=decay) for name, decay in SPECS.items()},
}
#: Players that `OURS` must not be worse than.
RIVALS = tuple(name for name in PLAYERS if name not in (OURS, *SPECS))
