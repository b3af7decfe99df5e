"""Keys that frontier splits: which channels share each, and how much each of them takes.

Whole items are brought under the aim first; split keys, which can be cut anywhere, fill the room
that is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from partitioning.function.split import PARTS_OF_A_KEY
from partitioning.strategies.water_filling import settled_loads, surface
from partitioning.workload.metrics import Indices
from partitioning.workload.profile import Floats

#: Most of its key, as a share, that an owner keeps whose partial row the budget does not move.
STAYING = 1e-5
#: Least share of a key. Smaller ones come from rounding and count as none.
MIN_KEY_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class Owners:
    """Name the channels that are to share a key, and the load that each takes.

    Parameters
    ----------
    channels : int64 (m,)
    pieces : float64 (m,): load of each, if all but the last are filled up
    """

    channels: Indices
    pieces: Floats


def fewest_owners(
    loads: Floats,
    before: Floats,
    limit: Floats,
    stays: Floats,
    resting: Floats,
    depth: float,
    copies: int | None,
) -> dict[int, Owners]:
    """Return the owners of each key that is over any channel's limit, by its number.

    They are the fewest that hold it. A key that every channel may own is left out. Present owners
    come first. One more of them than needed stays, so that a load that varies about a whole number
    of channels changes nothing. Then come the channels with most room.

    Parameters
    ----------
    loads : float64 (F,), largest first
    before : float64 (F, N): shares where the keys are
    limit, stays, resting : float64 (N,): load that each channel may have, 0: closed; what of it
        cannot give way to a key; and what whole items it has now
    depth : most of its limit that a channel gives to one key, as a part. Less means more channels,
        and less that must give way. 0: as many channels as may be
    copies : most channels that a key has; None: any number
    """
    open_, owners = np.flatnonzero(limit > 0), {}
    free, room = np.maximum(limit - stays, 0.0), limit - resting
    most = min(copies or len(open_), len(open_))
    for key in np.flatnonzero(loads > limit.max()).tolist():
        load = float(loads[key])
        hold = np.minimum(free, np.maximum(depth * limit, load / most))
        order = open_[np.lexsort((-room[open_], -hold[open_], -before[key, open_]))]
        enough = 1 + int(np.searchsorted(np.cumsum(hold[order]), load))
        own = order[: min(enough, most)]
        now = np.flatnonzero(before[key])
        if len(own) <= len(now) <= min(len(own) + 1, most) and hold[now].sum() >= load:
            own = now
        if len(own) == len(open_):
            continue
        pieces = np.diff(np.minimum(np.cumsum(hold[own]), load), prepend=0.0)
        owners[key] = Owners(own, pieces)
        free[own] -= pieces
        room[own] -= pieces
    return owners


def evenly(
    loads: Floats, owners: Mapping[int, Owners], resting: Floats, fair: Floats
) -> list[Floats]:
    """Return the load of each key with owners on each of them.

    The owners come as even as they can beside what rests there, float64 (N,). `loads` is as in
    `fewest_owners`, `fair` as in `poured`.
    """
    few = np.array([*owners], dtype=np.intp)
    return settled_loads(loads[few], [o.channels for o in owners.values()], resting, fair)


def shared(
    rest: Floats,
    fair: Floats,
    loads: Floats,
    before: Floats,
    aim: float,
    owners: Mapping[int, Owners],
    held: bool,
) -> Floats:
    """Return the share of each key on each channel, float64 (F, N).

    A key with owners is shared evenly by them; others are as `poured` has them. Parameters are as
    there.
    """
    others = np.setdiff1d(np.arange(len(loads)), np.array([*owners], dtype=np.intp))
    after, parts = np.zeros_like(before), evenly(loads, owners, rest, fair)
    for key, own, load in zip(owners, owners.values(), parts, strict=True):
        after[key, own.channels] = load / loads[key]
    after[others] = poured(rest + loads @ after, fair, loads[others], before[others], aim, held)
    return after


def poured(
    rest: Floats, fair: Floats, loads: Floats, before: Floats, aim: float, held: bool
) -> Floats:
    """Return the share of each key on each channel, float64 (F, N), poured like water.

    No channel has over `aim` of its fair share, if that is possible. As much as possible stays
    where it is. Load that must go takes the fewest channels.

    Parameters
    ----------
    rest, fair : float64 (N,): load of whole items, and fair share of all load; 0: closed
    loads : float64 (F,), in the order in which they take room; one that fits whole stays whole
    before : float64 (F, N): shares where the keys are
    held : True: first give room to the load that stays, then to the load that comes. Else one
        key that comes drives out the next, but the first keys go to fewer channels
    """
    open_ = fair > 0
    level = surface(rest[open_] / fair[open_], fair[open_], float(loads.sum()))
    room = np.where(open_, np.maximum(max(level, aim) * fair - rest, 0.0), 0.0)
    stays = np.zeros_like(before)
    for key, load in enumerate(loads.tolist() if held else ()):
        stays[key] = np.minimum(before[key] * load, room)
        room -= stays[key]
    after = np.zeros_like(before)
    for key, load in enumerate(loads.tolist()):
        room += stays[key]
        fits = open_ & (room >= load)
        if fits.any():
            owner = int(np.lexsort((room, before[key], fits))[-1])
            after[key, owner] = 1.0
        else:
            parts = np.minimum(before[key] * load, room)
            left = load - float(parts.sum())
            for channel in np.argsort(parts - room, kind="stable").tolist():
                taken = min(left, float(room[channel] - parts[channel]))
                parts[channel] += taken
                left -= taken
            parts[parts <= MIN_KEY_SHARE * load] = 0.0
            if not parts.any():
                parts = fair
            after[key] = parts / parts.sum()
        room = np.maximum(room - after[key] * load, 0.0)
    return after


def largest(shares: Floats, copies: int, before: Floats | None = None) -> Floats:
    """Return shares (F, N) with at most so many owners a key: those with most of it.

    With shares `before`, (F, N), its owners of then come first, and none of them is left out.
    """
    there = np.zeros(shares.shape, dtype=bool) if before is None else (before > 0) & (shares > 0)
    order = np.argsort(-shares - there, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    kept = np.where(there | (rank < copies), shares, 0.0)
    return kept / kept.sum(axis=1, keepdims=True)


def emptied(before: Floats, had: Indices, sizes: Floats, copies: Floats) -> Floats:
    """Return the bytes of each key that move as channels close, float64 (F,).

    They are the partial rows there and, where no owner is left, a copy. Parameters are as in
    `affordable_shares`.
    """
    owners = np.count_nonzero(before, axis=1)
    partial = np.maximum(sizes / had - copies, 0.0)
    return np.where(had > owners, (had - owners) * partial + (owners == 0) * copies, 0.0)


def affordable_shares(
    before: Floats,
    after: Floats,
    had: Indices,
    loads: Floats,
    sizes: Floats,
    copies: Floats,
    budget: float,
) -> Floats:
    """Return shares (F, N) as near to `after` as a budget pays for.

    A change of shares alone moves nothing, because partial rows stay where they are. The budget
    pays first for what is on channels that close, which moves anyway (`emptied`). Then it pays for
    copies of new owners, and then for the partial rows of owners that leave. A key's partial rows
    move all or not at all. Owners that are not paid for stay.

    Parameters
    ----------
    before : float64 (F, N): shares where the keys are
    had : int64 (F,): owners now, 1 or more, with those that close, which `before` leaves out
    loads, sizes, copies : float64 (F,): each key's load, the bytes of all its state, and those that
        each new owner gets a copy of
    """
    spare = max(budget - float(emptied(before, had, sizes, copies).sum()), 0.0)
    stays = np.count_nonzero(before, axis=1) > 0
    before = np.where(stays[:, None], before, np.eye(before.shape[1])[after.argmax(axis=1)])
    after = _copied(before, after, loads, copies, spare)
    spare -= float(np.count_nonzero((before <= 0) & (after > 0), axis=1) @ copies)
    partials = np.where(stays, np.maximum(sizes / had - copies, 0.0), 0.0)
    gone = (before > 0) & (after < 1 / PARTS_OF_A_KEY)
    left = np.count_nonzero(gone, axis=1) * partials
    order = np.argsort(left, kind="stable")
    dear = order[np.cumsum(left[order]) > spare]
    kept = after.copy()
    kept[dear] += np.where(gone[dear], np.minimum(before[dear], STAYING), 0.0)
    return kept / kept.sum(axis=1, keepdims=True)


def _copied(before: Floats, after: Floats, loads: Floats, copies: Floats, spare: float) -> Floats:
    """Return `after` without the new owners whose copies the bytes do not pay for.

    Those with most load a byte come first. The shares of the others stay where they are.
    """
    key, channel = np.nonzero((before <= 0) & (after > 0) & (copies > 0)[:, None])
    score = np.maximum(after[key, channel] * loads[key], MIN_KEY_SHARE)
    order = np.argsort(copies[key] / score, kind="stable")
    dear = order[np.cumsum(copies[key[order]]) > spare]
    if not len(dear):
        return after
    kept = after.copy()
    kept[key[dear], channel[dear]] = 0.0
    given = np.maximum(before - after, 0.0)
    part = (1.0 - kept.sum(axis=1)) / np.maximum(given.sum(axis=1), MIN_KEY_SHARE)
    return kept + given * np.clip(part, 0.0, 1.0)[:, None]
