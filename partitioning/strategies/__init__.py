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
from typing import NamedTuple

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
from partitioning.strategies.published.gedik.constructions import readj, redist, scan
from partitioning.strategies.published.reshape import flowjoin, flux, sbk, sbr
from partitioning.strategies.published.substreams import clb, elb, uhlb
from partitioning.strategies.rivals.estore import estore
from partitioning.strategies.rivals.kip import kip
from partitioning.strategies.rivals.mixed import mixed
from partitioning.strategies.rivals.trino import trino
from partitioning.strategies.water_filling import Router

Strategy = Callable[..., PartitioningFunction]


class _Entry(NamedTuple):
    """A strategy: if tables may be planned by it, if it may split keys, what makes its router."""

    function: Strategy
    production: bool = False
    splits: bool = False
    router: Callable[..., Router] | None = None


_DECLARED = {
    "uniform": _Entry(uniform, production=True),
    "consistent": _Entry(consistent, production=True),
    "scan": _Entry(scan, production=True),
    "redist": _Entry(redist, production=True),
    "readj": _Entry(readj, production=True),
    "dkg": _Entry(dkg),
    "dkg_pkg": _Entry(dkg_pkg, splits=True),
    "dkg_wosim": _Entry(dkg_wosim),
    "oapx": _Entry(oapx),
    "sia": _Entry(sia),
    "universal": _Entry(universal),
    "elb": _Entry(elb),
    "clb": _Entry(clb),
    "uhlb": _Entry(uhlb),
    "pkg": _Entry(pkg, splits=True, router=PkgRouter),
    "dchoices": _Entry(dchoices, splits=True, router=DChoicesRouter),
    "wchoices": _Entry(wchoices, splits=True, router=HeadRouter),
    "flexd": _Entry(flexd, splits=True, router=FlexdRouter),
    "pstream": _Entry(pstream, splits=True, router=PStreamRouter),
    "dalton": _Entry(dalton, splits=True, router=DaltonRouter),
    "sbk": _Entry(sbk),
    "sbr": _Entry(sbr, splits=True),
    "flux": _Entry(flux),
    "flowjoin": _Entry(flowjoin, splits=True),
    "trino": _Entry(trino, splits=True),
    "mixed": _Entry(mixed),
    "kip": _Entry(kip),
    "estore": _Entry(estore),
    "frontier": _Entry(frontier, production=True),
}
#: Every strategy by name: what backtests and papers offer.
STRATEGIES: dict[str, Strategy] = {name: one.function for name, one in _DECLARED.items()}
#: Names of those that specs, runs and the UI offer.
PRODUCTION = tuple(name for name, one in _DECLARED.items() if one.production)
#: Names of those that split keys, and of all others. frontier is among these: it splits on request.
SPLITTING = frozenset(name for name, one in _DECLARED.items() if one.splits)
WHOLE = tuple(name for name, one in _DECLARED.items() if not one.splits)
#: name -> what is made from (hashes of the keys, channels, **options of the strategy).
ROUTERS = {name: one.router for name, one in _DECLARED.items() if one.router is not None}
