"""Backtests: strategies run over past windows, each function scored on a window it has not seen.

For each window: learn it exactly, build from the strategy's own previous function, score on the
next. State is taken to be what the window left behind: as many bytes a key as it had load. Our
own strategy plans for a forecast, made from the sketches of all windows so far; here a sketch is of
a part of a window. A spec with `decay: auto` makes it of the sketches of days, and gives the plan
the foretold loads alone, not how far they surprise. Those of the papers plan for the window
learned. Strategies that choose a channel for each tuple route every row in the order of the stream.
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

#: A key is heavy from this share of one channel's fair load, as in the `learn` job.
HEAVY_SHARE = 0.01
#: Sketches that a window is stored in, where forecasts are made: a week's, of a day each.
PIECES = 7
#: Strategies that plan for a forecast of their own accord.
FORESEEING = frozenset({"frontier"})
Options = Mapping[str, Mapping[str, Any]]


class Forecasts(StrEnum):
    """Who plans for a forecast, and who for the window learned."""

    own = "own"  # those of FORESEEING
    none = "none"
    all = "all"
    oracle = "oracle"  # all are told the next window itself


@dataclass(frozen=True)
class Score:
    """One window, strategy and number of channels.

    Parameters
    ----------
    window, next_window : labels of the one learned from and the one scored on
    rows : input rows learned from
    imbalance_learned, imbalance : on the one and on the other
    floor : of the next window: no function without splitting reaches less
    moved : share of the learned window's load whose channel changed; 0 for the first function
    moved_keys : its keys that changed channel
    explicit_keys : keys that the function places or splits by name
    copies : mean channels a key of the next window, counted (FlexD's replication factor, Eq. 3);
        1 where none is split
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
        """One line of JSON; an infinite imbalance does not occur: all channels are open."""
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
    options : of each strategy, by its name
    forecasts : who plans for a forecast, not for the window learned
    pieces : sketches of a window that forecasts are made from, at least 1

    Raises
    ------
    InputError : as `check`, more channels than keys, or fewer than 1 piece
    """
    options = options or {}
    if pieces < 1:
        raise InputError(f"{pieces} asked for", "--pieces", "Give at least 1")
    check(strategies, channels, options)
    if max(channels) > series.keys:
        raise InputError(
            f"{max(channels)} channels for {series.keys} keys",
            "--channels",
            "Give no more than there are keys",
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
            # Those that place no key by name share one profile.
            named = listed is not None and len(listed)
            profile = _learn(series, window, count, slots, listed) if named else plain
            if forecasts is Forecasts.oracle:
                profile = _told(profile, _learn(series, unseen, count, slots, profile.heavy))
            elif forecasts is Forecasts.all or (forecasts is Forecasts.own and name in FORESEEING):
                seen[name].append(list(_sketches(profile, window, pieces)))
                profile = _foreseen(profile, seen[name])
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
    """As the `learn` job does: heavy keys are listed, and those that the function places."""
    least = HEAVY_SHARE / channels * float(window.load.sum())
    return profile_of_keys(
        series.key, window.hashes, window.load, slots, threshold=least, listed=listed
    )


def _sketches(profile: Profile, window: Window, pieces: int) -> Iterator[Sketch]:
    """Of each piece of the window, listing the keys that the window's profile lists."""
    for hashes, load in window.pieces(pieces):
        own = profile_of_keys(
            profile.key, hashes, load, profile.slots, threshold=np.inf, listed=profile.heavy
        )
        unlisted = ~np.isin(hashes, profile.heavy)
        yield replace(own.sketch(), error=float(load[unlisted].max(initial=0.0)))


def _foreseen(profile: Profile, seen: Sequence[Sequence[Sketch]]) -> Profile:
    """The profile with the forecast for its load, and state in proportion to that."""
    ahead = next_window(seen).onto(profile)
    return replace(ahead, bytes=ahead.load, heavy_bytes=ahead.heavy_load)


def _told(profile: Profile, after: Profile) -> Profile:
    """The profile with the load of the next window, whose keys include its own."""
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
    """Refuse what no data could make good; the parameters are those of `backtest`.

    Raises
    ------
    InputError : an unknown strategy or option, options of a strategy that is not run, 0 channels
    """
    for name in strategies:
        check_options(name, options.get(name, {}), "--strategy", "--option")
    for name in options:
        if name not in strategies:
            raise InputError(f"an option of {name!r}, which is not run", "--option")
    if min(channels) < 1:
        raise InputError(f"{min(channels)} channels asked for", "--channels", "Give at least 1")


def parse_names(text: str, where: str) -> list[str]:
    """Names separated by commas, each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"{text!r} has an empty name", where, "Separate names by single commas")
    return list(dict.fromkeys(names))


def parse_channels(text: str) -> list[int]:
    """Whole numbers separated by commas."""
    names = parse_names(text, "--channels")
    if not all(name.isascii() and name.lstrip("-").isdigit() for name in names):
        raise InputError(f"{text!r} are no numbers of channels", "--channels", "Give, say, 5,10")
    return [int(name) for name in names]


def parse_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """NAME.k=v, each -> {NAME: {k: v}}; v is JSON where it can be read as such, or a number as
    people write it (.05, 1e6), else text."""
    options: dict[str, dict[str, Any]] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        strategy, dot, name = path.partition(".")
        if not (equals and dot and strategy and name):
            raise InputError(f"{text!r} is not NAME.k=v", "--option", "Give, say, readj.sigma=0.05")
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
