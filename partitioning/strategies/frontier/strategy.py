"""Our own strategy: the whole curve of imbalance against bytes moved, and a point picked on it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from partitioning.errors import InputError
from partitioning.function.function import Channel, PartitioningFunction, check_channels, successor
from partitioning.function.hashing import Hashes
from partitioning.moves.moves import moves_between
from partitioning.strategies.frontier.assignment import Ints, gathered
from partitioning.strategies.frontier.pinned_keys import hashes_of, places_of
from partitioning.strategies.frontier.problem import Problem, problem_of
from partitioning.strategies.frontier.split_keys.splitting import Shared, shared_plan
from partitioning.strategies.frontier.tradeoff import CLOSE, best_state, lowest
from partitioning.workload.metrics import channel_loads, imbalance
from partitioning.workload.profile import Profile

#: Parts of a mean slot's load and bytes up to which a key is not worth a name.
LIGHT = 0.1
#: Channels' mean state that may move for each partial that readers are spared. A key of half of the
#: load fits on half of the channels, for no more than one each.
WORTH = 2.0
#: What split keys aim below the goal, as a part of it.
SHARED = 2e-6


def frontier(
    profile: Profile,
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    *,
    max_imbalance: float | None = None,
    budget: float | None = None,
    resources: str = "L",
    pinned: Mapping[str, str] | None = None,
    excluded: Sequence[str] | None = None,
    seconds: float | None = None,
    splitting: bool = False,
    copies: int | None = None,
    worth: float = WORTH,
) -> PartitioningFunction:
    """The least bytes for `max_imbalance`, or the least imbalance for `budget` bytes.

    From the previous function, the fullest channel (by capacity) sheds slots and heavy keys, most
    load per byte first, to the emptiest; where none fits, two are swapped. Few items are packed in
    the end: pairs of channels share theirs anew (`pairwise`). An item counts once however often it
    moves, and not at all once it is back. A heavy key is explicit only where its channel is not its
    slot's; once it is light it goes back there when others move. Without a previous function the
    search starts from consistent hashing, and everything is free.

    Of several resources, every one counts: imbalance is that of the worst, and without a
    `max_imbalance` the mean square over all channels and resources is brought down. A profile
    that is a forecast knows by what forecasts were off: without a `max_imbalance` the function is
    then not as even as it gets on what is expected, but has the least mean square over the past
    surprises, so that keys that rise together sit apart, and moves nothing that is not worth its
    bytes.

    Parameters
    ----------
    profile, previous, channels : as in `curve.trace`
    max_imbalance : stop here; None, or out of reach: as even as it gets
    budget : bytes of state that may move, net; None: no limit. It comes before `max_imbalance`
    resources : what shall be even: letters of L (load), C (keys: rows of state), B (bytes of
        state) and Q (square of each key's load); "LCL" is Gedik's way to write L and C
    pinned : channel, by name, that a key is put on; keys are written as plans write them
    excluded : keys that stay where they are, unless their channel closes
    seconds : the search ends after so long with the best found; None: when nothing helps, and
        the same input gives the same function
    splitting : keys too heavy to stay whole, and lighter ones where a budget is too short for whole
        items, are shared by several channels, by weights that fill the room that slots and whole
        keys leave; none where whole keys reach `max_imbalance`, or where, without it, a forecast
        has no key too heavy. Of keys that are split past surprises do not count. To share a
        key, or to share it otherwise, moves nothing; a new owner's copy and the partial of an
        owner that leaves or closes count in full
    copies : most channels that share a key, 2 or more, where a budget does not end the way to them;
        None: any number
    worth : state, as a part of a channel's mean, that may move for each partial fewer: slots make
        room for a key so that few channels hold it, and what it has elsewhere is gathered; 0: no
        slot makes room, and all that have room share it

    Raises
    ------
    InputError : unusable channels or options, a previous function with another S, or a budget
        that does not empty the channels to be emptied
    """
    if max_imbalance is not None and not max_imbalance >= 1:
        raise InputError(f"{max_imbalance} is below 1, perfect balance", "max_imbalance")
    if budget is not None and not budget >= 0:
        raise InputError(f"{budget} is not a number of bytes", "budget")
    if seconds is not None and not seconds > 0:
        raise InputError(f"{seconds} seconds are no time", "seconds", "Give more than 0")
    if copies is not None and (copies < 2 or not splitting):
        raise InputError(f"{copies} copies of a key", "copies", "Give 2 or more, and splitting")
    if not 0 <= worth < np.inf:
        raise InputError(f"{worth} is no price of a partial", "worth", "Give 0 or more")
    check_channels(channels)
    put = places_of(profile.key, pinned or {}, channels)
    stay = hashes_of(profile.key, excluded or (), "excluded").tolist()
    until = np.inf if seconds is None else time.monotonic() + seconds

    def items(profile: Profile, previous: PartitioningFunction | None) -> Problem:
        named = tuple(put.items()), tuple(stay)
        task = problem_of(profile, previous, tuple(channels), resources, *named)
        return task if seconds is None else replace(task, deadline=until)

    # Without a previous function nothing moves.
    limit = np.inf if budget is None or previous is None else budget
    known = np.setdiff1d(profile.heavy, [*put, *stay])
    count = profile.slots

    def whole(task: Problem) -> tuple[Problem, Ints]:
        """As few bytes, or as even, as whole keys get; light ones may go back to their slots."""
        at = best_state(task, max_imbalance, limit)
        light = _light(task, previous, at, known)
        if previous is None or not len(light):
            return task, at
        gone = np.isin(task.profile.heavy, light)
        rest = limit - float(task.sizes[count:][gone].sum())
        named = ~np.isin(previous.explicit_keys, light)
        without = replace(
            previous,
            explicit_keys=previous.explicit_keys[named],
            explicit_channels=previous.explicit_channels[named],
        )
        fewer = items(task.profile.without(light), without)
        if fewer.forced > rest:
            return task, at
        again = best_state(fewer, max_imbalance, rest)
        best = task.floor * (1 + CLOSE) if budget is None else 1.0
        worse = fewer.worst(again) > max(task.worst(at), max_imbalance or best)
        return (task, at) if worse else (fewer, again)

    options: dict[str, Any] = {
        "max_imbalance": max_imbalance,
        "budget": budget,
        "resources": resources,
    }
    options |= {"pinned": dict(pinned or {}), "excluded": list(excluded or ())}
    options |= {"seconds": seconds} | ({"splitting": True} if splitting else {})
    options |= {} if copies is None else {"copies": copies}
    options |= {} if worth == WORTH else {"worth": worth}

    def filled(
        task: Problem, at: Ints, shared: Mapping[int, Mapping[int, float]]
    ) -> PartitioningFunction:
        if not len(task.surprises) and len(task.measures):
            kinds = np.vstack([task.measures, task.sizes])[:, :count]
            at[:count] = gathered(at[:count], task.home[:count], kinds)
        heavy = zip(task.profile.heavy.tolist(), at[count:].tolist(), strict=True)
        explicit = {h: c for h, c in heavy if h not in shared}
        return successor(
            profile.key, previous, channels, at[:count], "frontier", options, explicit, shared
        )

    task = items(profile, previous)
    if not splitting:
        return filled(*whole(task), {})
    if len(set(resources)) > 1:
        raise InputError("splitting evens out one resource", "resources", "Give one, say L")
    none_split = previous is None or not len(previous.split)
    if max_imbalance is None and len(task.surprises) and none_split and task.floor <= 1 + CLOSE:
        # No key is too heavy: what past surprises say of whole keys is worth more than shares.
        return filled(*whole(task), {})
    if max_imbalance is not None and task.forced <= limit:
        # What whole keys reach, they reach.
        unsplit = filled(*whole(task), {})
        reached = imbalance(channel_loads(unsplit, profile), unsplit.capacities)
        if reached <= max_imbalance and _joined(task, previous, unsplit) <= limit:
            return unsplit
    # Shares are rounded.
    goal = 1 + CLOSE if max_imbalance is None else max(1.0, max_imbalance * (1 - SHARED))

    level, tried, stays = np.inf, list[Shared](), None
    if previous is not None and previous.channels == tuple(channels):
        level = imbalance(channel_loads(previous, profile), previous.capacities)
        named = previous.split.find(task.profile.heavy[task.fixed[count:]]) >= 0
        few = copies is None or np.diff(previous.split.starts).max(initial=1) <= copies
        if (task.start == task.home).all() and not named.any():
            stays = level, task.home.copy(), previous.split.weights
            if level <= goal * (1 + SHARED) and few:
                return filled(task, *stays[1:])
            # More copies than are allowed stay only where a budget ends the way to fewer.
            stays = stays if few or limit < np.inf else None

    def within(goal: float) -> tuple[float, Shared] | None:
        found = shared_plan(task, previous, goal, limit, copies, worth)
        tried.append(found)
        return (found[0], found) if found[0] <= goal * (1 + SHARED) else None

    found = within(goal)
    if stays is not None:
        fewer = found is not None and _copies(found[1]) < _copies(stays)
        if stays[0] <= goal * (1 + SHARED) and not fewer:
            return filled(task, *stays[1:])
        if found is None:
            tried.append(stays)
    reached = min(map(itemgetter(0), tried))
    if limit < np.inf and reached > goal * (1 + SHARED):
        # A budget too small for the goal is spent before all channels have had of it.
        if level < tried[0][0]:
            within(level * (1 + SHARED))
        lowest(goal, min(map(itemgetter(0), tried)), within, until)
    # What misses its aim may still be the most even.
    return filled(task, *min(tried, key=itemgetter(0))[1:])


def _copies(shared: Shared) -> int:
    """Owners of all split keys."""
    return sum(map(len, shared[2].values()))


def _joined(
    task: Problem, previous: PartitioningFunction | None, function: PartitioningFunction
) -> float:
    """Bytes that move to a function of whole keys from one that splits some; 0 from any other: of
    them the search itself has kept count."""
    if previous is None or not len(previous.split):
        return 0.0
    return sum(m.bytes for m in moves_between(previous, function, task.profile))


def _light(task: Problem, previous: PartitioningFunction | None, at: Ints, known: Hashes) -> Hashes:
    """Explicit keys, of those whose load is known, that could as well go with their slot, where
    anything moves at all: of load and of bytes they have no more than LIGHT of a mean slot."""
    if previous is None or (at == task.home).all():
        return np.empty(0, dtype=np.int64)
    count = task.profile.slots
    items = count + np.searchsorted(task.profile.heavy, previous.explicit_keys)
    few = np.ones(len(items), dtype=np.bool_)
    for values in (task.load, task.sizes):
        few &= values[items] <= LIGHT * float(values.sum()) / count
    return previous.explicit_keys[few & np.isin(previous.explicit_keys, known)]
