"""A plan as pandas frames for the gate's expectations: channels, placement, moves, summary."""

from __future__ import annotations

import numpy as np
import pandas as pd

from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.moves.partial_rows import shared_keys
from partitioning.planning.plan import Plan
from partitioning.workload.metrics import channel_loads, placements
from partitioning.workload.profile import Profile

#: Decimal digits of a share that are compared. Shares are multiples of 2^-24 (6e-8); sums of them
#: as floats differ in later digits, so a higher number would report equal shares as different.
SHARE_DIGITS = 9


def channels(plan: Plan, profile: Profile | None) -> pd.DataFrame:
    """Build one row for each channel of the longer of the two channel lists.

    Columns: `share_after`, load over the channel's fair share; None for a channel that is closed
    or dropped, and then `stranded` has its load. `off_profile` needs a profile: the
    difference from the load that the profile gives, as a part of the total load.
    """
    after = np.array(plan.loads_after, dtype=np.float64)
    capacity = np.zeros(len(after))
    own = plan.function.capacities
    capacity[: len(own)] = own
    open_ = capacity > 0
    fair = capacity / capacity.sum() * after.sum()
    # No load at all is perfect balance, as in `metrics.imbalance`.
    share = np.divide(after, fair, out=np.ones(len(after)), where=fair > 0)
    frame = pd.DataFrame(
        {
            "channel": np.arange(len(after)),
            "capacity": capacity,
            "load_before": np.array(plan.loads_before, dtype=np.float64),
            "load_after": after,
            "share_after": np.where(open_, share, np.nan),
            "stranded": np.where(open_, 0.0, after),
        }
    )
    if profile is not None:
        known = profile.listing(plan.function.exceptions)
        loads = np.zeros(len(after))
        loads[: len(own)] = channel_loads(plan.function, known)
        frame["off_profile"] = np.abs(loads - after) / (float(profile.load.sum()) or 1.0)
    return frame


def placement(plan: Plan, previous: PartitioningFunction) -> pd.DataFrame:
    """Build one row for each slot, each heavy or moved key, and each owner of a split key.

    Columns: the channel before and after, where a move of the item starts, and where the plan
    leaves it. For an owner of a split key these are its shares, not channels.
    """
    function = plan.function
    previous = previous.refined(len(function.slots))
    named = [m.item for m in plan.moves if m.kind == "key"]
    shared = shared_keys(previous, function)
    keys = np.setdiff1d(
        np.concatenate(
            [previous.explicit_keys, function.explicit_keys, np.array(named, dtype=np.int64)]
        ),
        shared,
    )
    slots = np.arange(len(function.slots))
    had, has = (_owned(f, shared) for f in (previous, function))
    owners = sorted({*had, *has})
    before, after = (
        np.concatenate([f.slots, f.lookup_hashes(keys), *([shares.get(o, 0.0)] for o in owners)])
        for f, shares in ((previous, had), (function, has))
    )
    place = {("slot", int(s)): int(s) for s in slots}
    place |= {("key", int(k)): len(slots) + i for i, k in enumerate(keys)}
    own = {o: len(slots) + len(keys) + i for i, o in enumerate(owners)}
    source, planned = before.copy(), before.copy()
    for move in plan.moves:
        if move.kind == "share":
            start, end = own.get((move.item, move.source)), own.get((move.item, move.target))
            if start is not None:
                planned[start] -= move.share
                # This channel is not an owner: no move can start there.
                source[start] = before[start] or -1.0
            if end is not None:
                planned[end] += move.share
        elif (at := place.get((move.kind, move.item))) is not None:
            source[at], planned[at] = move.source, move.target
    items = [h for h, _ in owners]
    placed = np.concatenate([function.slots, function.lookup_hashes(keys)])
    capacity = [*function.capacities[placed]]
    # A channel that owns no share of the key after the plan may be closed or dropped.
    capacity += [function.capacities[c] if (h, c) in has else 1.0 for h, c in owners]
    return pd.DataFrame(
        {
            "kind": ["slot"] * len(slots) + ["key"] * len(keys) + ["share"] * len(owners),
            "item": np.concatenate([slots, keys, np.array(items, dtype=np.int64)]),
            "before": before,
            "source": source,
            "after": np.round(after, SHARE_DIGITS),
            "planned": np.round(planned, SHARE_DIGITS),
            "capacity": capacity,
        }
    )


def _owned(function: PartitioningFunction, hashes: Hashes) -> dict[tuple[int, int], float]:
    """Return the share of each (key's hash, channel) of some keys."""
    item, channel, share = placements(function, hashes)
    return dict(
        zip(zip(hashes[item].tolist(), channel.tolist(), strict=True), share.tolist(), strict=True)
    )


def moves(plan: Plan) -> pd.DataFrame:
    """Build one row for each move; `way` tells the moves of one key's shares apart."""
    return pd.DataFrame(
        {
            "kind": [m.kind for m in plan.moves],
            "item": np.array([m.item for m in plan.moves], dtype=np.int64),
            "way": [f"{m.source}>{m.target}" if m.kind == "share" else "" for m in plan.moves],
            "goes": np.array([m.source != m.target for m in plan.moves], dtype=bool),
            "bytes": np.array([m.bytes for m in plan.moves], dtype=np.float64),
            "least": np.array([min(m.load, m.bytes, m.rows) for m in plan.moves], np.float64),
            "reason": np.array([m.reason.strip() or None for m in plan.moves], dtype=object),
        }
    )


def summary(plan: Plan) -> pd.DataFrame:
    """Build one row on the plan as a whole.

    Columns: the digest of the parent epoch's function; how far the stated imbalance is from that
    of the plan's loads.
    """
    after = np.array(plan.loads_after)[: len(plan.function.channels)]
    own = plan.function.capacities
    open_ = own > 0
    total = float(sum(plan.loads_after))
    worst = float((after[open_] / own[open_]).max() * own.sum() / total) if total else 1.0
    parents = {plan.parent_digest, plan.function.parent}
    return pd.DataFrame(
        {
            "parent": [parents.pop() if len(parents) == 1 else "two different parents"],
            "imbalance_off": [abs(plan.imbalance_after - worst)],
        }
    )
