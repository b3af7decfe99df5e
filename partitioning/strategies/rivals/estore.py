"""E-Store's greedy planner in two tiers: hot tuples one by one, then blocks of cold ones.

R. Taft et al., "E-Store: fine-grained elastic partitioning for distributed transaction processing
systems", PVLDB 8(3), 2014. Written after the authors' code, the classes GreedyPlacement and
GreedyExtendedPlacement of the repository rytaft/h-store. The paper itself was not at hand. Open
there, and our choice:

- Hot tuples are the keys that the profile lists, and a block of cold ones is a slot's light keys.
  There a block is a range of so many tuples, with the mean load of its channel's cold ones. Ours
  has the load that was measured.
- A hot tuple beside its own block is not listed any more, as there.
- Load of closed channels goes to the channels with the least load first.
- Channels may differ in capacity. Load is compared over capacity.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction, successor
from partitioning.strategies.hashing import checked_capacities
from partitioning.strategies.published.reshape import first_placement
from partitioning.workload.profile import Profile


def estore(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    cold: bool = True,
) -> PartitioningFunction:
    """While a channel is over its fair share, send what it has to the one with the least load.

    Hot tuples of all channels go first, hottest first. Then each channel sends its blocks, in
    order. Nothing asks whether the other channel gets too full.

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : where everything is; None: as `uniform` has it
    cold : false leaves out the blocks: the authors' "greedy", without "extended"

    Raises
    ------
    InputError : unusable channels, or a previous function with another S
    """
    capacities = checked_capacities(profile, previous, channels)
    open_ = np.flatnonzero(capacities)
    placed = first_placement(profile, None if previous is None else previous.unsplit, capacities)
    fair = float(profile.load.sum()) * capacities / capacities.sum()

    def emptiest() -> int:
        return int(open_[np.argmin(placed.loads[open_] / capacities[open_])])

    for key in np.argsort(-profile.heavy_load, kind="stable").tolist():
        (source,) = placed.keys[key]
        if profile.heavy_load[key] > 0 and placed.loads[source] > fair[source]:
            target = emptiest()
            if target != source:
                placed.move_key(key, source, target, 1.0)
    for source in open_.tolist() if cold else ():
        for slot in np.flatnonzero((placed.slots == source) & (placed.tail > 0)).tolist():
            target = emptiest()
            if placed.loads[source] <= fair[source] or target == source:
                break
            placed.move_slot(slot, target)
    at = {h: next(iter(c)) for h, c in zip(profile.heavy.tolist(), placed.keys, strict=True)}
    return successor(
        profile.key, previous, channels, placed.slots, "estore", {"cold": cold}, explicit=at
    )
