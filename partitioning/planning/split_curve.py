"""The cost of balance if keys may be split: a curve of functions that split, and its bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partitioning.function.function import PartitioningFunction
from partitioning.moves.moves import moves_between
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.frontier.tradeoff import GRID, Curve, trace
from partitioning.workload.bounds import floor, least_bytes
from partitioning.workload.metrics import imbalance_of, placements
from partitioning.workload.profile import Profile


def shared_curve(
    profile: Profile,
    previous: PartitioningFunction,
    function: PartitioningFunction,
    splitting: bool,
    aims: Mapping[str, Any] | None = None,
    pinned: tuple[tuple[int, int], ...] = (),
    excluded: tuple[int, ...] = (),
    copies: int | None = None,
) -> Curve:
    """Return imbalance against bytes moved, where keys may be split.

    Its points are `function`, the function that frontier would make, no move at all where that is
    allowed, and all functions of whole keys.

    A shared key gives load away without moving a partial row. Only slots, copies for new owners,
    and partial rows on channels that are no owners any more cost bytes. The bound counts slots
    alone.

    Parameters
    ----------
    profile : lists the explicit and split keys of both functions
    splitting : whether keys may be split
    aims : options of the frontier that `function` is held to; None: to none
    pinned, excluded : as in `trace`
    copies : channels that may share a key, at most; None: all
    """
    channels = function.channels
    rivals = []
    if aims is not None:
        rivals = [frontier(profile, previous, channels, splitting=splitting, **aims)]
    points = [
        (sum(m.bytes for m in moves_between(previous, f, profile)), imbalance_of(f, profile))
        for f in (function, *rivals)
    ]
    shared_by = previous.split.most_owners
    allowed = splitting and (copies is None or shared_by <= copies)
    if previous.channels == channels and not pinned and (allowed or not shared_by):
        points.append((0.0, imbalance_of(previous, profile)))
    if not len(previous.split):
        whole = trace(profile, previous, channels, pinned, excluded)
        points += zip(whole.bytes.tolist(), whole.imbalance.tolist(), strict=True)
    kept: list[tuple[float, float]] = []
    for point in sorted(p for p in points if np.isfinite(p[1])):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    sizes, imbalances = np.array(kept).reshape(-1, 2).T
    least = floor(profile, channels, splitting)
    grid = np.linspace(imbalances.max(initial=least), least, GRID)
    item, owner, share = placements(previous, profile.heavy)
    bound = least_bytes(
        np.append(profile.tail(profile.load, profile.heavy_load), profile.heavy_load[item] * share),
        np.append(profile.tail(profile.bytes, profile.heavy_bytes), np.zeros(len(item))),
        np.append(previous.slots, owner),
        function.capacities,
        grid,
    )
    return Curve(sizes, imbalances, bound, grid, least)
