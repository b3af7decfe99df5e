"""Run strategies over past windows, and score each function on a window it has not seen.

Each window is learned exactly. A strategy builds from its own previous function, and the next
window gives the score. The state of a key is assumed to have as many bytes as the key had load.

Our own strategy plans for a forecast from all windows so far, as a spec with `decay: auto` does
from days. It aims at what is even but for chance, unless an option says otherwise. Strategies of
the papers plan for the window learned. Routers, which choose a channel for each tuple, route every
row in stream order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Any

import numpy as np

from evenkeel.backtest.runners import run_strategy
from evenkeel.backtest.windows import Series, Window, salted
from partitioning.errors import InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.function import DEFAULT_SLOTS, PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.planning.aims import aim_for
from partitioning.strategies.options import check_options
from partitioning.workload.bounds import floor
from partitioning.workload.forecast import Decay, forecast
from partitioning.workload.profile import HEAVY_SHARE, Profile, Sketch, profile_of_keys

#: Strategies that plan for a forecast by default.
FORESEEING = frozenset({"frontier"})
Options = Mapping[str, Mapping[str, Any]]


class Forecasts(StrEnum):
    """Strategies that plan for a forecast; the others plan for the window learned."""

    own = "own"  # the strategies in FORESEEING
    none = "none"
    all = "all"
    oracle = "oracle"  # every strategy gets the next window itself


@dataclass(frozen=True)
class Foreseen:
    """Say which strategies plan for a forecast, and by which decay; as in `backtest`."""

    forecasts: Forecasts
    decay: Decay

    def by(self, strategy: str) -> bool:
        """Return whether the strategy plans for a forecast made from past windows."""
        own = self.forecasts is Forecasts.own and strategy in FORESEEING
        return own or self.forecasts is Forecasts.all


@dataclass(frozen=True)
class Score:
    """Score of one strategy on one window with one number of channels.

    Parameters
    ----------
    window, next_window : labels of the window learned from and of the window scored on
    rows : input rows of `window`
    imbalance_learned, imbalance : on `window` and on `next_window`
    floor : least imbalance on `next_window` of any function that splits no key
    moved : share of the learned window's load whose channel changed; 0 for the first function
    moved_keys : keys of the learned window that changed channel
    explicit_keys : keys that the function places or splits by name
    copies : mean channels per key of the next window (FlexD's replication factor, Eq. 3); 1 if no
        key is split
    plan_seconds : CPU time to forecast the load and build the function, or to route the window
    salt : number of the hash of the keys, from 0
    """

    window: str
    next_window: str
    strategy: str
    channels: int
    rows: int
    imbalance_learned: float
    imbalance: float
    floor: float
    moved: float
    moved_keys: int
    explicit_keys: int
    copies: float
    plan_seconds: float
    salt: int = 0

    def to_json(self) -> str:
        """Return one line of JSON; every value is finite, because all channels are open."""
        return json.dumps(asdict(self), allow_nan=False)


def backtest(
    series: Series,
    strategies: Sequence[str],
    channels: Sequence[int],
    options: Options | None = None,
    slots: int = DEFAULT_SLOTS,
    forecasts: Forecasts = Forecasts.own,
    decay: float | None = None,
    hashes: int = 1,
) -> Iterator[Score]:
    """Score every strategy on every window but the first, for each number of channels.

    Parameters
    ----------
    options : strategy -> option -> value
    forecasts : strategies that plan for a forecast instead of the window learned
    decay : weight of a window against the one after it; None: the forecast chooses
    hashes : how often all is played, each time with other hashes of the keys

    Raises
    ------
    InputError : as `check_inputs`, more channels than keys, fewer than 1 hash, or a decay that is
        not from 0 to 1
    """
    options = options or {}
    if hashes < 1:
        raise InputError(f"must be at least 1, got {hashes}", "--hashes", "Give at least 1")
    if decay is not None and not 0 <= decay <= 1:
        raise InputError(f"must be from 0 to 1, got {decay:g}", "--decay", "Give, say, 0.5")
    check_inputs(strategies, channels, options)
    if max(channels) > series.keys:
        raise InputError(
            f"{max(channels)} channels for {series.keys} keys",
            "--channels",
            "Give at most as many channels as there are keys",
        )
    foreseen = Foreseen(forecasts, "auto" if decay is None else decay)
    for count, salt in product(channels, range(hashes)):
        own = salted(series, salt)
        for score in _series(own, strategies, count, options, slots, foreseen):
            yield replace(score, salt=salt)


def _series(
    series: Series,
    strategies: Sequence[str],
    count: int,
    options: Options,
    slots: int,
    foreseen: Foreseen,
) -> Iterator[Score]:
    owners = numbered_channels(count)
    runs = {name: run_strategy(series, name, owners, options.get(name, {})) for name in strategies}
    seen: dict[str, list[Sketch]] = {name: [] for name in strategies}
    for window, unseen in zip(series.windows, series.windows[1:], strict=False):
        least = floor(learn_window(series, unseen, count, slots), owners)
        plain = learn_window(series, window, count, slots)
        for name in strategies:
            listed = runs[name].listed
            # Strategies that pin no key share one profile.
            named = listed is not None and len(listed)
            profile = learn_window(series, window, count, slots, listed) if named else plain
            seconds, aim = 0.0, None
            if foreseen.forecasts is Forecasts.oracle:
                profile = _with_next_load(
                    profile, learn_window(series, unseen, count, slots, profile.heavy)
                )
            elif foreseen.by(name):
                seen[name].append(sketch_of(profile, window))
                began = time.process_time()
                before = runs[name].function
                profile = expected_profile(profile, seen[name], foreseen.decay, before)
                aim = aim_for(profile, before, owners, plain=not options.get(name))
                seconds = time.process_time() - began
            found = runs[name].step(profile, window, unseen, aim)
            found["plan_seconds"] += seconds
            yield Score(
                window=window.label,
                next_window=unseen.label,
                strategy=name,
                channels=count,
                rows=window.rows,
                floor=least,
                **found,
            )


def learn_window(
    series: Series, window: Window, channels: int, slots: int, listed: Hashes | None = None
) -> Profile:
    """Learn a window as the `learn` job does: list heavy keys and keys that the function places."""
    least = HEAVY_SHARE / channels * float(window.load.sum())
    return profile_of_keys(
        series.key, window.hashes, window.load, slots, threshold=least, listed=listed
    )


def sketch_of(profile: Profile, window: Window) -> Sketch:
    """Return the sketch of a window; its error is the largest load that it does not list."""
    unlisted = ~np.isin(window.hashes, profile.heavy)
    error = float(window.load[unlisted].max(initial=0.0))
    return replace(profile.sketch(), error=error, rows=window.rows)


def expected_profile(
    profile: Profile,
    seen: Sequence[Sketch],
    decay: Decay,
    function: PartitioningFunction | None,
) -> Profile:
    """Return the profile with the forecast as its load, and bytes in proportion to that load.

    Parameters are as in `forecast` and `Forecast.onto`.
    """
    ahead = forecast(seen, decay).onto(profile, function)
    return replace(ahead, bytes=ahead.load, heavy_bytes=ahead.heavy_load)


def _with_next_load(profile: Profile, after: Profile) -> Profile:
    """Return the profile with the load of the next window, whose keys include its own."""
    state = profile.listing(after.heavy)
    after = after.listing(state.heavy)
    return replace(
        after,
        bytes=state.bytes,
        rows=state.rows,
        heavy_bytes=state.heavy_bytes,
        heavy_rows=state.heavy_rows,
    )


def check_inputs(strategies: Sequence[str], channels: Sequence[int], options: Options) -> None:
    """Refuse arguments that are wrong for any data; the parameters are those of `backtest`.

    Raises
    ------
    InputError : an unknown strategy or option, options of a strategy that is not run, 0 channels
    """
    for name in strategies:
        check_options(name, options.get(name, {}), "--strategy", "--option")
    for name in options:
        if name not in strategies:
            raise InputError(
                f"strategy {name!r} is not in --strategy",
                "--option",
                "Add it, or remove the option",
            )
    if min(channels) < 1:
        raise InputError(
            f"channels must be at least 1, got {min(channels)}", "--channels", "Give at least 1"
        )
