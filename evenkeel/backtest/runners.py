"""Run one strategy over the windows of a backtest: by functions, or tuple by tuple."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenkeel.backtest.windows import Series, Window
from partitioning.errors import InputError
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, key_hash
from partitioning.strategies import ROUTERS, STRATEGIES
from partitioning.workload.metrics import imbalance, moved_shares
from partitioning.workload.profile import Floats, Profile, sums_by

#: Fields of a `Score` that describe what a strategy did.
StrategyRun = dict[str, Any]


class Planned:
    """Build a function from each window and the previous function; score it on the next window.

    A row of a split key chooses its channel by a hash of the row's number in the window.
    """

    def __init__(
        self, series: Series, name: str, channels: Sequence[Channel], options: Mapping[str, Any]
    ) -> None:
        self.name, self.channels, self.options = name, channels, options
        self.function: PartitioningFunction | None = None

    @property
    def listed(self) -> Hashes | None:
        """Hashes of keys that the function pins; a profile must list them."""
        return None if self.function is None else self.function.exceptions

    def step(
        self, profile: Profile, window: Window, unseen: Window, aim: float | None
    ) -> StrategyRun:
        """Build a function from `profile`, learned on `window`, and score it on `unseen`.

        Parameters
        ----------
        aim : imbalance that our own strategy aims at if no option says otherwise
        """
        before, began = self.function, time.process_time()
        options = {"max_imbalance": aim} if self.name == "frontier" else {}
        try:
            function = STRATEGIES[self.name](
                profile, before, self.channels, **{**options, **self.options}
            )
        except InputError as error:
            raise _named(self.name, error) from error
        seconds = time.process_time() - began
        self.function = function
        moved = np.zeros(len(window.hashes))
        if before is not None:
            moved = moved_shares(before, function, window.hashes)
        learned, (loads, copies) = placed(function, window)[0], placed(function, unseen)
        return {
            "imbalance_learned": imbalance(learned, function.capacities),
            "imbalance": imbalance(loads, function.capacities),
            "moved": float((window.load * moved).sum() / window.load.sum()),
            "moved_keys": int(np.count_nonzero(moved)),
            "explicit_keys": len(function.explicit_keys) + len(function.split),
            "copies": copies,
            "plan_seconds": seconds,
        }


class Streamed:
    """Route each tuple by the strategy's router, which keeps its state between windows.

    Nothing moves: partial state stays where its tuples went. Pinned keys are keys on several
    channels, and the seconds are the time to route a window.
    """

    def __init__(
        self, series: Series, name: str, channels: Sequence[Channel], options: Mapping[str, Any]
    ) -> None:
        try:
            self.router = ROUTERS[name](series.hashes, channels, **options)
        except InputError as error:
            raise _named(name, error) from error
        self.hashes, self.capacities = series.hashes, self.router.capacities
        self.function = None
        self.last: StrategyRun | None = None

    @property
    def listed(self) -> None:
        """Return None, because a router uses no profile."""

    def step(
        self, profile: Profile, window: Window, unseen: Window, aim: float | None
    ) -> StrategyRun:
        """Route `unseen` after `window`, and score both."""
        before = self.last or self._route(window)
        self.last = self._route(unseen)
        return self.last | {
            "imbalance_learned": before["imbalance"],
            "plan_seconds": before["plan_seconds"],
        }

    def _route(self, window: Window) -> StrategyRun:
        began = time.process_time()
        number = np.searchsorted(self.hashes, window.hashes)
        routed = self.router.route(number[window.stream], window.weights)
        loads = sums_by(routed.channel, routed.load, len(self.capacities))
        copies = np.unique(routed.key, return_counts=True)[1]
        return {
            "imbalance": imbalance(loads, self.capacities),
            "moved": 0.0,
            "moved_keys": 0,
            "explicit_keys": int((copies > 1).sum()),
            "copies": float(copies.mean()),
            "plan_seconds": time.process_time() - began,
        }


def run_strategy(
    series: Series, name: str, channels: Sequence[Channel], options: Mapping[str, Any]
) -> Planned | Streamed:
    """Return the runner of a strategy: by its router if it has one, else by functions."""
    return (Streamed if name in ROUTERS else Planned)(series, name, channels, options)


def placed(function: PartitioningFunction, window: Window) -> tuple[Floats, float]:
    """Place a window by `function`: load of each channel, float64 (N,), and mean channels per key.

    Rows of split keys are placed one by one.
    """
    count = len(function.channels)
    whole = function.split.find(window.hashes) < 0
    loads = sums_by(function.lookup_hashes(window.hashes[whole]), window.load[whole], count)
    if whole.all():
        return loads, 1.0
    at = np.flatnonzero(~whole[window.stream])
    key = window.stream[at]
    rows = key_hash([window.hashes[key], at], ["bigint", "bigint"])
    owners = function.lookup_hashes(window.hashes[key], rows)
    weights = np.ones(len(at)) if window.weights is None else window.weights[at]
    copies = len(np.unique(key.astype(np.int64) * count + owners)) + whole.sum()
    return loads + sums_by(owners, weights, count), float(copies / len(whole))


def _named(name: str, error: InputError) -> InputError:
    where = f"strategy {name}" + (f", {error.where}" if error.where else "")
    return InputError(error.what, where, error.fix)
