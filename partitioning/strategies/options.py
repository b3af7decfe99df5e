"""Options of strategies: their keyword arguments, checked before anything is built from them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from partitioning.errors import InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.strategies import PRODUCTION, STRATEGIES
from partitioning.strategies.hashing import MOST_POINTS
from partitioning.workload.profile import profile_of_keys

#: No option is so large; it is still a float.
_TOO_LARGE = 1e300


def production_problem(strategy: str) -> str | None:
    """Return why tables cannot be planned by a strategy; None: it is a production strategy.

    >>> production_problem("sia")
    "expected one of uniform, consistent, scan, redist, readj, frontier; found 'sia', a baseline, \
which only backtests run: set frontier"
    """
    if strategy in PRODUCTION:
        return None
    known = strategy in STRATEGIES
    found = "a baseline, which only backtests run" if known else "which is no strategy"
    return f"expected one of {', '.join(PRODUCTION)}; found {strategy!r}, {found}: set frontier"


def check_options(
    strategy: str, options: Mapping[str, Any], names: str = "strategy", values: str = "options"
) -> None:
    """Refuse a strategy or an option that there is not, and a value of the wrong kind.

    Parameters
    ----------
    names, values : where the strategy and its options were given, as errors tell it

    Raises
    ------
    InputError : says what there is
    """
    if strategy not in STRATEGIES:
        raise InputError(
            f"there is no strategy {strategy!r}", names, f"Allowed: {', '.join(STRATEGIES)}"
        )
    function = STRATEGIES[strategy]
    hints = get_type_hints(function)
    signature = inspect.signature(function).parameters.values()
    known = [p.name for p in signature if p.kind is p.KEYWORD_ONLY]
    for name, value in options.items():
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise InputError(f"{strategy} has no option {name!r}", values, f"It has: {allowed}")
        # A whole number will do for a float; true and false are no numbers.
        hint = hints[name]
        every = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        kinds = tuple(get_origin(kind) or kind for kind in every)
        fits = isinstance(value, kinds) or (type(value) is int and float in kinds)
        if isinstance(value, bool):
            fits = hints[name] is bool
        elif isinstance(value, str) and str not in kinds:
            fits = False  # a text is no list of its letters
        if not fits or (isinstance(value, int | float) and not abs(value) < _TOO_LARGE):
            kind = getattr(hints[name], "__name__", hints[name])
            raise InputError(f"{strategy}.{name} cannot be {value!r}", values, f"It takes: {kind}")
        if isinstance(value, Mapping | list) and (
            other := [key for key in value if not isinstance(key, str)]
        ):
            # YAML reads NO as false, 007 as 7 and 2024-01-05 as a date: these are other keys.
            raise InputError(
                f"{strategy}.{name}: expected keys as text, found {other[0]!r}",
                values,
                "Put it in quotes",
            )


def check_ranges(strategy: str, options: Mapping[str, Any]) -> None:
    """Refuse what `check_options` does, and a value out of its range, by a plan of few keys.

    Options that name keys are not tried: these are of types that only the events tell.

    Raises
    ------
    InputError : what `check_options` raises, or the strategy about one of the options
    """
    check_options(strategy, options)
    given = {name: value for name, value in options.items() if name not in ("pinned", "excluded")}
    key, hashes = (KeyColumn("key", "bigint"),), key_hash([[*range(8)]], ["bigint"])
    load = np.arange(1.0, 9.0)
    profile = profile_of_keys(key, hashes, load, 8, state=load, threshold=7.0)
    channels = numbered_channels(2)
    previous = STRATEGIES["uniform"](profile, None, channels)
    if 1 <= given.get("points", 0) <= MOST_POINTS:
        # Each number of points makes a ring, and many take seconds.
        given["points"] = 1
    try:
        STRATEGIES[strategy](profile, previous, channels, **given)
    except InputError as error:
        # Anything else is about these few keys.
        if error.where in given:
            raise
