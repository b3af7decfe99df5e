"""The moves that a plan does not make, and what speaks against each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partitioning.planning.plan import Plan
from partitioning.workload.metrics import channel_loads
from partitioning.workload.profile import Profile


@dataclass(frozen=True)
class RejectedMove:
    """Describe a slot's tail or heavy key that stays.

    Fields are as in `Move`. `target` is where it would have gone: the emptiest channel by the plan.
    """

    kind: str
    name: str
    source: int
    target: int
    load: float
    bytes: float
    reason: str


def rejected(plan: Plan, profile: Profile, most: int = 50) -> tuple[RejectedMove, ...]:
    """Return what stays on channels that are over the plan's aim before or after it.

    Most load comes first.

    Parameters
    ----------
    profile : what the plan was made from
    most : most items to return

    Returns
    -------
    each with the first of these reasons that holds:

    - moving it would only make another channel as full
    - its channel is even enough after the plan
    - it would exceed the budget
    - the strategy found better ones
    """
    function = plan.function
    profile = profile.listing(function.exceptions)
    count = len(function.channels)
    aim = plan.max_imbalance or 1.0
    capacities = function.capacities
    after = channel_loads(function, profile)
    fair = capacities / capacities.sum() * (float(after.sum()) or 1.0)
    open_ = fair > 0
    if open_.sum() < 2:
        return ()
    share = np.divide(after, fair, out=np.full(count, np.inf), where=open_)
    share_before = np.divide(
        np.array(plan.loads_before)[:count], fair, out=np.full(count, np.inf), where=open_
    )
    target = int(np.argmin(np.where(open_, share, np.inf)))
    # Slot tails, then heavy keys.
    tail = profile.tail(profile.load, profile.heavy_load)
    load = np.concatenate([tail, profile.heavy_load])
    size = np.concatenate([profile.tail(profile.bytes, profile.heavy_bytes), profile.heavy_bytes])
    home = np.concatenate([function.slots, function.lookup_hashes(profile.heavy)])
    slots = len(function.slots)
    moved = np.zeros(len(load), dtype=bool)
    gone = {(m.kind, m.item) for m in plan.moves}
    moved[[i for kind, i in gone if kind == "slot"]] = True
    moved[slots:] = [("key", int(h)) in gone for h in profile.heavy]
    # A split key stands on several channels: it is not one of them that it stays on.
    moved[slots:] |= function.split.find(profile.heavy) >= 0
    moved[slots:] |= np.array([("share", int(h)) in gone for h in profile.heavy], dtype=bool)
    full = (share > aim) | (share_before > aim)
    stays = np.flatnonzero(~moved & (load > 0) & full[home] & (home != target))
    stays = stays[np.argsort(-load[stays], kind="stable")][:most]
    found = []
    for i in stays.tolist():
        source = int(home[i])
        then = float((after[target] + load[i]) / fair[target])
        names = function.channels[source].name, function.channels[target].name
        if then >= share[source]:
            reason = (
                f"channel {names[1]}, the emptiest, would carry {then:.3f}x fair share, "
                f"channel {names[0]} carries {share[source]:.3f}x"
            )
        elif share[source] <= aim:
            reason = (
                f"channel {names[0]} is even enough without it: {share[source]:.3f}x fair share, "
                f"the aim is {aim:g}"
            )
        elif plan.budget is not None and plan.bytes + size[i] > plan.budget:
            left = max(plan.budget - plan.bytes, 0)
            reason = f"it needs {size[i]:,.0f} bytes, {left:,.0f} of the budget remain"
        else:
            reason = "the strategy found moves that bring more"
        kind = "slot" if i < slots else "key"
        name = f"slot {i}" if i < slots else profile.heavy_names[i - slots]
        found.append(
            RejectedMove(kind, name, source, target, float(load[i]), float(size[i]), reason)
        )
    return tuple(found)
