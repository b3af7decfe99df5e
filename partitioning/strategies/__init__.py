"""Strategies: plain functions, one family a file, named in one dict.

Each takes (profile, previous function or None, channels, **options) and returns the next
function. Adding one takes a function and a line here.
"""

from collections.abc import Callable

from partitioning.function import PartitioningFunction
from partitioning.strategies.dkg import dkg
from partitioning.strategies.frontier import frontier
from partitioning.strategies.gedik import readj, redist, scan
from partitioning.strategies.hashing import consistent, uniform
from partitioning.strategies.substreams import clb, elb, uhlb

Strategy = Callable[..., PartitioningFunction]

STRATEGIES: dict[str, Strategy] = {
    "uniform": uniform,
    "consistent": consistent,
    "scan": scan,
    "redist": redist,
    "readj": readj,
    "dkg": dkg,
    "elb": elb,
    "clb": clb,
    "uhlb": uhlb,
    "frontier": frontier,
}
