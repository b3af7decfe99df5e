"""Reshape's two ways to take load off a skewed channel, by key and by record, and its baselines.

A. Kumar et al., "Reshape: adaptive result-aware skew handling for exploratory analysis on big
data", sections 2.2 and 3.1: sbk, sbr; M. Shah et al., "Flux", ICDE 2003: flux; W. Roediger et al.,
"Flow-Join", ICDE 2016: flowjoin. `skew` decides who is skewed and who helps.

The papers act while a job runs. Here each window is one iteration from the previous function, and
its load stands for the load to come. Only the second phase is planned: the first one, in which the
helper catches up, has no place between windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from partitioning.errors import IN_RANGE, InputError
from partitioning.function.channels import Channel, check_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.strategies.frontier.assignment import Ints, evacuate
from partitioning.strategies.hashing import check_slots, in_turn
from partitioning.strategies.skew import skewed_pairs
from partitioning.workload.metrics import placements
from partitioning.workload.profile import Floats, Profile, sums_by

#: Thresholds of the skew test, in mean loads of a channel. The paper's are tuples in a queue.
ETA, TAU = 1.0, 0.02
#: Flow-Join: a key is heavy from this share of a channel's fair load.
FLOW_JOIN_SHARE = 0.2


@dataclass(eq=False)
class Placed:
    """Slots' tails and heavy keys on channels, keys perhaps in parts; changed in place.

    Parameters
    ----------
    slots : int32 (S,): channel of each slot
    keys : (K,) of {channel: share}, each adding up to 1
    loads : float64 (N,): load of each channel
    tail : float64 (S,): load of each slot without its heavy keys
    """

    profile: Profile
    slots: Ints
    keys: list[dict[int, float]]
    loads: Floats
    tail: Floats

    def move_slot(self, slot: int, target: int) -> None:
        """Bring a slot's light keys to another channel."""
        self.loads[self.slots[slot]] -= self.tail[slot]
        self.loads[target] += self.tail[slot]
        self.slots[slot] = target

    def move_key(self, key: int, source: int, target: int, share: float) -> None:
        """Bring so much of a key, as a share of all of it, from one channel to another."""
        load, parts = float(self.profile.heavy_load[key]), self.keys[key]
        parts[source] -= share
        if parts[source] <= 1e-12:
            share += parts.pop(source)
        parts[target] = parts.get(target, 0.0) + share
        self.loads[source] -= load * share
        self.loads[target] += load * share


#: (what is placed, skewed channel, helper, load to bring over) -> None
Transfer = Callable[[Placed, int, int, float], None]


def sbk(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    eta: float = ETA,
    tau: float = TAU,
) -> PartitioningFunction:
    """Split by keys: the helper gets whole keys, largest first as they fit, to half the gap.

    The paper leaves open which keys. A slot's light keys count as one.

    Parameters
    ----------
    profile, channels : what to place, and where
    previous : where everything is; None: as `uniform` has it
    eta, tau : a channel with this load (in mean ones) is skewed if another has so much less

    Raises
    ------
    InputError : unusable channels or options, or a previous function with another S

    Source: sections 2.1 and 3.1.
    """
    return _mitigated(profile, previous, channels, "sbk", {"eta": eta, "tau": tau}, _by_keys)


def sbr(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    eta: float = ETA,
    tau: float = TAU,
) -> PartitioningFunction:
    """Split by records: the helper gets a part of the records, to half the gap.

    The part is of the skewed channel's heaviest keys, one after another, so that few are in parts.
    (In the paper, too, the 9 of 26 tuples are all December's.) Keys that the profile does not list
    cannot be split. Parameters and errors as in `sbk`.

    Source: section 3.1.
    """
    return _mitigated(profile, previous, channels, "sbr", {"eta": eta, "tau": tau}, _by_records)


def flux(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    eta: float = ETA,
    tau: float = TAU,
) -> PartitioningFunction:
    """Move as `sbk` does, in mini-partitions that never change: our slots with their heavy keys."""
    slots = profile.without(profile.heavy)
    return _mitigated(slots, previous, channels, "flux", {"eta": eta, "tau": tau}, _by_keys)


def flowjoin(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    eta: float = ETA,
    tau: float = TAU,
    hot: float = FLOW_JOIN_SHARE,
) -> PartitioningFunction:
    """Give half of each heavy key of a skewed channel to its helper, once and for good.

    Neither the helper's load nor later windows change that half. Parameters and errors as in
    `sbk`; `hot` is the share of a channel's fair load from which a key is heavy.

    Source: Reshape's section 7.1, which compares with it in this form.
    """
    if not hot > 0:
        raise InputError(f"expected more than 0, got {hot}", "hot", IN_RANGE)

    def halve(placed: Placed, skewed: int, helper: int, load: float) -> None:
        least = hot * placed.loads.sum() / len(placed.loads)
        for key, parts in enumerate(placed.keys):
            if parts == {skewed: 1.0} and placed.profile.heavy_load[key] >= least:
                placed.move_key(key, skewed, helper, 0.5)

    options = {"eta": eta, "tau": tau, "hot": hot}
    return _mitigated(profile, previous, channels, "flowjoin", options, halve)


def _by_keys(placed: Placed, skewed: int, helper: int, load: float) -> None:
    slots = np.flatnonzero((placed.slots == skewed) & (placed.tail > 0))
    keys = [k for k, parts in enumerate(placed.keys) if parts == {skewed: 1.0}]
    loads = np.concatenate([placed.tail[slots], placed.profile.heavy_load[keys]])
    for i in np.argsort(-loads, kind="stable").tolist():
        if loads[i] <= load:
            load -= float(loads[i])
            if i < len(slots):
                placed.move_slot(int(slots[i]), helper)
            else:
                placed.move_key(keys[i - len(slots)], skewed, helper, 1.0)


def _by_records(placed: Placed, skewed: int, helper: int, load: float) -> None:
    there = {k: parts[skewed] for k, parts in enumerate(placed.keys) if skewed in parts}
    weights = {k: share * float(placed.profile.heavy_load[k]) for k, share in there.items()}
    for key in sorted(weights, key=lambda k: (-weights[k], k)):
        if weights[key] > 0 and load > 0:
            part = min(load, weights[key])
            placed.move_key(key, skewed, helper, there[key] * part / weights[key])
            load -= part


def _mitigated(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    name: str,
    options: dict[str, float],
    transfer: Transfer,
) -> PartitioningFunction:
    """Run one iteration: each skewed channel and its helper come to the same load over capacity."""
    check_slots(profile, previous)
    check_channels(channels)
    for option in ("eta", "tau"):
        if not options[option] >= 0:
            raise InputError(f"{options[option]} is below 0", option, "Give 0 or more")
    capacities = np.array([c.capacity for c in channels], dtype=np.float64)
    placed = first_placement(profile, previous, capacities)
    levels = np.divide(placed.loads, capacities, out=np.full(len(capacities), np.inf),
                       where=capacities > 0)  # fmt: skip
    mean = placed.loads.sum() / capacities.sum()
    for skewed, helper in skewed_pairs(levels, options["eta"] * mean, options["tau"] * mean):
        gap = float(levels[skewed] - levels[helper])
        transfer(placed, skewed, helper, gap / (1 / capacities[skewed] + 1 / capacities[helper]))
    hashes = profile.heavy.tolist()
    return successor(
        profile.key, previous, channels, placed.slots, name, options,
        split=dict(zip(hashes, placed.keys, strict=True)),
    )  # fmt: skip


def first_placement(
    profile: Profile, previous: PartitioningFunction | None, capacities: Floats
) -> Placed:
    """Place everything as it is; load of channels that are closed or gone, on the emptiest."""
    tail = profile.tail(profile.load, profile.heavy_load)
    every = np.arange(profile.slots + len(profile.heavy), dtype=np.int32)
    every[profile.slots :] = profile.heavy_slots
    if previous is None:
        slots = in_turn(profile.slots, capacities)
        at = np.concatenate([slots, slots[profile.heavy_slots]])
    else:
        at = np.concatenate([previous.slots, previous.lookup_hashes(profile.heavy)])
    at = evacuate(at, np.concatenate([tail, profile.heavy_load]), capacities, every)
    keys: list[dict[int, float]] = [{c: 1.0} for c in at[profile.slots :].tolist()]
    if previous is not None:
        rows = zip(*(a.tolist() for a in placements(previous, profile.heavy)), strict=True)
        parts: dict[int, dict[int, float]] = {}
        for item, channel, share in rows:
            if share < 1 and channel < len(capacities) and capacities[channel] > 0:
                parts.setdefault(item, {})[channel] = share
        for item, shares in parts.items():
            keys[item] = {c: s / sum(shares.values()) for c, s in shares.items()}
    loads = sums_by(at[: profile.slots], tail, len(capacities))
    for load, shares in zip(profile.heavy_load.tolist(), keys, strict=True):
        for channel, share in shares.items():
            loads[channel] += load * share
    return Placed(profile, at[: profile.slots].copy(), keys, loads, tail)
