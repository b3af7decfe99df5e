"""Strategies: plain functions, one family a file, named in one dict.

Each takes (profile, previous function or None, channels, **options) and returns the next
function. Adding one takes a function and a line here. Those that choose a channel for each tuple
have a router, too: backtests run it instead.
"""

from collections.abc import Callable

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
from partitioning.strategies.water_filling import Router

Strategy = Callable[..., PartitioningFunction]

STRATEGIES: dict[str, Strategy] = {
    "uniform": uniform,
    "consistent": consistent,
    "scan": scan,
    "redist": redist,
    "readj": readj,
    "dkg": dkg,
    "dkg_pkg": dkg_pkg,
    "dkg_wosim": dkg_wosim,
    "oapx": oapx,
    "sia": sia,
    "universal": universal,
    "elb": elb,
    "clb": clb,
    "uhlb": uhlb,
    "pkg": pkg,
    "dchoices": dchoices,
    "wchoices": wchoices,
    "flexd": flexd,
    "pstream": pstream,
    "dalton": dalton,
    "sbk": sbk,
    "sbr": sbr,
    "flux": flux,
    "flowjoin": flowjoin,
    "frontier": frontier,
}

#: Those that may split keys; frontier does where it is told to.
SPLITTING = frozenset(
    {"dkg_pkg", "pkg", "dchoices", "wchoices", "flexd", "pstream", "dalton", "sbr", "flowjoin"}
)
#: Those that leave every key whole: what a table can be planned by that does not allow splitting.
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
