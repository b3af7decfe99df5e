"""Run strategies over past windows, and score each function on a window it has not seen.

Each window is learned exactly. A strategy builds from its own previous function, and the next
window gives the score. The state of a key is assumed to have as many bytes as the key had load.

Our own strategy plans for a forecast from the sketches of all windows so far. Here a sketch covers
a part of a window; a spec with `decay: auto` uses the sketches of days. The plan gets the forecast
loads, not their error. Strategies of the papers plan for the window learned. Routers, which choose
a channel for each tuple, route every row in stream order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from evenkeel.backtest.runners import run
from evenkeel.backtest.windows import Series, Window
from partitioning.errors import InputError
from partitioning.function.function import DEFAULT_SLOTS, numbered_channels
from partitioning.function.hashing import Hashes
from partitioning.strategies.options import check_options
from partitioning.workload.bounds import floor
from partitioning.workload.forecast import next_window
from partitioning.workload.profile import Profile, Sketch, profile_of_keys

#: Least load of a heavy key, as a share of one channel's fair load; the `learn` job uses the same.
HEAVY_SHARE = 0.01
#: Sketches per window for forecasts: one per day of a week.
PIECES = 7
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
    plan_seconds : time to build the function, or to route the window
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
    pieces: int = PIECES,
) -> Iterator[Score]:
    """Score every strategy on every window but the first, for each number of channels.

    Parameters
    ----------
    options : strategy -> option -> value
    forecasts : strategies that plan for a forecast instead of the window learned
    pieces : sketches per window that forecasts are made from, at least 1

    Raises
    ------
    InputError : as `check`, more channels than keys, or fewer than 1 piece
    """
    options = options or {}
    if pieces < 1:
        raise InputError(f"must be at least 1, got {pieces}", "--pieces", "Give at least 1")
    check(strategies, channels, options)
    if max(channels) > series.keys:
        raise InputError(
            f"{max(channels)} channels for {series.keys} keys",
            "--channels",
            "Give at most as many channels as there are keys",
        )
    for count in channels:
        yield from _series(series, strategies, count, options, slots, forecasts, pieces)


def _series(
    series: Series,
    strategies: Sequence[str],
    count: int,
    options: Options,
    slots: int,
    forecasts: Forecasts,
    pieces: int,
) -> Iterator[Score]:
    owners = numbered_channels(count)
    runs = {name: run(series, name, owners, options.get(name, {})) for name in strategies}
    seen: dict[str, list[list[Sketch]]] = {name: [] for name in strategies}
    for window, unseen in zip(series.windows, series.windows[1:], strict=False):
        least = floor(_learn(series, unseen, count, slots), owners)
        plain = _learn(series, window, count, slots)
        for name in strategies:
            listed = runs[name].listed
            # Strategies that place no key by name share one profile.
            named = listed is not None and len(listed)
            profile = _learn(series, window, count, slots, listed) if named else plain
            if forecasts is Forecasts.oracle:
                profile = _with_next_load(
                    profile, _learn(series, unseen, count, slots, profile.heavy)
                )
            elif forecasts is Forecasts.all or (forecasts is Forecasts.own and name in FORESEEING):
                seen[name].append(list(_sketches(profile, window, pieces)))
                profile = _with_forecast(profile, seen[name])
            yield Score(
                window=window.label,
                next_window=unseen.label,
                strategy=name,
                channels=count,
                rows=window.rows,
                floor=least,
                **runs[name].step(profile, window, unseen),
            )


def _learn(
    series: Series, window: Window, channels: int, slots: int, listed: Hashes | None = None
) -> Profile:
    """Learn a window as the `learn` job does: list heavy keys and keys that the function places."""
    least = HEAVY_SHARE / channels * float(window.load.sum())
    return profile_of_keys(
        series.key, window.hashes, window.load, slots, threshold=least, listed=listed
    )


def _sketches(profile: Profile, window: Window, pieces: int) -> Iterator[Sketch]:
    """Yield the sketch of each piece of the window; it lists the keys of the window's profile."""
    for hashes, load in window.pieces(pieces):
        own = profile_of_keys(
            profile.key, hashes, load, profile.slots, threshold=np.inf, listed=profile.heavy
        )
        unlisted = ~np.isin(hashes, profile.heavy)
        yield replace(own.sketch(), error=float(load[unlisted].max(initial=0.0)))


def _with_forecast(profile: Profile, seen: Sequence[Sequence[Sketch]]) -> Profile:
    """Return the profile with the forecast as its load, and bytes in proportion to that load."""
    ahead = next_window(seen).onto(profile)
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


def check(strategies: Sequence[str], channels: Sequence[int], options: Options) -> None:
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


def parse_names(text: str, where: str) -> list[str]:
    """Split names at commas, and keep each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"{text!r} has an empty name", where, "Separate names by single commas")
    return list(dict.fromkeys(names))


def parse_channels(text: str) -> list[int]:
    """Parse whole numbers separated by commas."""
    names = parse_names(text, "--channels")
    if not all(name.isascii() and name.lstrip("-").isdigit() for name in names):
        raise InputError(f"must be whole numbers, got {text!r}", "--channels", "Give, say, 5,10")
    return [int(name) for name in names]


def parse_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parse texts NAME.k=v to {NAME: {k: v}}.

    A value v is JSON if it parses as JSON, else a number as people write it (.05, 1e6), else text.
    """
    options: dict[str, dict[str, Any]] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        strategy, dot, name = path.partition(".")
        if not (equals and dot and strategy and name):
            raise InputError(
                f"must be NAME.k=v, got {text!r}", "--option", "Give, say, readj.sigma=0.05"
            )
        options.setdefault(strategy, {})[name] = _value(value)
    return options


def _value(text: str) -> Any:
    for read in (json.loads, float):
        try:
            found = read(text)
        except ValueError:
            continue
        whole = isinstance(found, float) and found.is_integer()
        return int(found) if whole else found
    return text
