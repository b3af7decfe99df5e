"""Strategies: plain functions, one family a file, named in one dict.

Each takes (profile, previous function or None, channels, **options) and returns the next
function. Adding one takes a function and a line here. Those that choose a channel for each tuple
have a router, too: backtests run it instead.

A strategy is declared as "production" or "baseline". A production strategy honours capacities. It
hashes, or moves only what the load asks to move. Tables may be planned by it. A baseline is
there to be compared with, in backtests and papers. It may move most of the state, split every key,
or be bad on purpose.
"""

from collections.abc import Callable
from typing import Literal

from partitioning.function.function import PartitioningFunction
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.hashing import consistent, uniform
from partitioning.strategies.published.choices import (
    DChoicesRouter,
    HeadRouter,
    PkgRouter,
    dchoices,
    pkg,
    wchoices,
)
from partitioning.strategies.published.dkg import dkg, dkg_pkg, dkg_wosim, oapx, sia, universal
from partitioning.strategies.published.flexd import dalton, flexd, pstream
from partitioning.strategies.published.flexd_routers import DaltonRouter, FlexdRouter, PStreamRouter
from partitioning.strategies.published.gedik import readj, redist, scan
from partitioning.strategies.published.reshape import flowjoin, flux, sbk, sbr
from partitioning.strategies.published.substreams import clb, elb, uhlb
from partitioning.strategies.trino import trino
from partitioning.strategies.water_filling import Router

Strategy = Callable[..., PartitioningFunction]

_DECLARED: dict[str, tuple[Strategy, Literal["production", "baseline"]]] = {
    "uniform": (uniform, "production"),
    "consistent": (consistent, "production"),
    "scan": (scan, "production"),
    "redist": (redist, "production"),
    "readj": (readj, "production"),
    "dkg": (dkg, "baseline"),
    "dkg_pkg": (dkg_pkg, "baseline"),
    "dkg_wosim": (dkg_wosim, "baseline"),
    "oapx": (oapx, "baseline"),
    "sia": (sia, "baseline"),
    "universal": (universal, "baseline"),
    "elb": (elb, "baseline"),
    "clb": (clb, "baseline"),
    "uhlb": (uhlb, "baseline"),
    "pkg": (pkg, "baseline"),
    "dchoices": (dchoices, "baseline"),
    "wchoices": (wchoices, "baseline"),
    "flexd": (flexd, "baseline"),
    "pstream": (pstream, "baseline"),
    "dalton": (dalton, "baseline"),
    "sbk": (sbk, "baseline"),
    "sbr": (sbr, "baseline"),
    "flux": (flux, "baseline"),
    "flowjoin": (flowjoin, "baseline"),
    "trino": (trino, "baseline"),
    "frontier": (frontier, "production"),
}
#: Every strategy by name: what backtests and papers offer.
STRATEGIES: dict[str, Strategy] = {name: function for name, (function, _) in _DECLARED.items()}
#: Names of those that specs, runs and the UI offer.
PRODUCTION = tuple(name for name, (_, use) in _DECLARED.items() if use == "production")

#: Those that may split keys; frontier does where it is told to.
SPLITTING = frozenset(
    {
        "dkg_pkg",
        "pkg",
        "dchoices",
        "wchoices",
        "flexd",
        "pstream",
        "dalton",
        "sbr",
        "flowjoin",
        "trino",
    }
)
#: Those that leave every key whole.
WHOLE = tuple(name for name in STRATEGIES if name not in SPLITTING)

#: name -> what is made from (hashes of the keys, channels, **options of the strategy).
ROUTERS: dict[str, Callable[..., Router]] = {
    "pkg": PkgRouter,
    "dchoices": DChoicesRouter,
    "wchoices": HeadRouter,
    "flexd": FlexdRouter,
    "pstream": PStreamRouter,
    "dalton": DaltonRouter,
}
