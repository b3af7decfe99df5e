"""Evening out several measures at once: the search behind frontier's resources and surprises."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from partitioning.strategies.frontier.assignment import Assignment, Indices
from partitioning.strategies.frontier.local_search import Step
from partitioning.workload.profile import Floats

#: Moves for each item, at most: far more than any search has taken.
MOVES = 8
#: A move must lower the unevenness by this much to count as one.
LEAST_GAIN = 1e-9
#: Items, times the channels, that exchanges are sought among.
SWAPPED = 32
#: Over the channels squared: how many of them, the most uneven ones, exchange items with all others
#: where nothing else helps. Where there are many, others do, and each exchange costs more time.
EFFORT = 1600
#: Moves of less than this part of all bytes count as of this much.
LEAST_PART = 1e-6


def even_out_resources(
    state: Assignment,
    measures: Floats,
    totals: Floats,
    price: float,
    budget: float = np.inf,
    *,
    dense: bool = True,
) -> Iterator[Step]:
    """Move one item at a time, or exchange two, such that the channels come even in every
    measure; yields each step after it is made in `state`.

    Unevenness is the mean square, over the channels by their fair share, of how far each is off
    that share, summed over the measures. The channel that adds most to it gives or
    takes the item that lowers it most per byte, if that is worth the price.
    Bytes first is right where every measure must come even; where some are chance, large items
    that settle much at once leave less to it.

    Parameters
    ----------
    measures : float64 (R, n): what each item has of each measure, as parts of its total
    totals : float64 (R,): 1, or 0 for a measure that shall come out at nothing everywhere
    price : unevenness that moving all bytes is worth
    budget : `state.bytes` stays within this
    dense : choose by what is gained per byte; else by what is gained, less the price
    """
    fair = state.fair / state.fair.sum()
    open_ = np.flatnonzero(fair > 0)
    inverse = np.divide(1.0, fair, out=np.zeros_like(fair), where=fair > 0)
    off = np.array([np.bincount(state.at, m, minlength=len(fair)) for m in measures])
    off -= totals[:, None] * fair
    own = np.square(measures).sum(axis=0)  # unevenness of an item alone on a fair share of 1
    items = np.ascontiguousarray(measures.T)
    charged = state.charged
    whole = float(charged.sum()) or 1.0

    def worth_of(gain: Floats, change: Floats, stays: npt.NDArray[np.bool_]) -> Floats:
        """How good each is; 0 where that is not allowed or not worth it."""
        part = change / whole
        worth = gain / np.maximum(part, LEAST_PART) if dense else gain - price * part
        good = (gain > price * part + LEAST_GAIN) & (change <= budget - state.bytes)
        return np.where(good & ~stays, worth, 0.0)

    at, home = state.at, state.home
    fixed = np.zeros(len(own), dtype=np.bool_) if state.fixed is None else state.fixed
    pull = (off * inverse).T  # of each channel on each measure, (N, R)
    here = np.einsum("ir,ir->i", items, pull[at])  # on each item where it is
    loose = np.flatnonzero(~fixed)
    largest = loose[np.argsort(-own[loose], kind="stable")][: SWAPPED * len(open_)]

    def suited(channel: int) -> Indices:
        """Items that would gain most in exchange for a mean one, the channel's and others'."""
        on = [loose[at[loose] == c] for c in range(len(fair))]
        means = [items[mine].mean(axis=0) if len(mine) else 0.0 for mine in on]
        found = []
        for other in open_[open_ != channel].tolist():
            pulled = pull[channel] - pull[other]
            for one, mate, toward in ((channel, other, pulled), (other, channel, -pulled)):
                off_mean = np.square(items[on[one]] - means[mate]).sum(axis=1)
                gain = 2 * items[on[one]] @ toward
                gain -= off_mean * (inverse[channel] + inverse[other])
                found.append(on[one][np.argsort(-gain, kind="stable")[:SWAPPED]])
        return np.unique(np.concatenate([largest[:0], *found]))

    def swap(channel: int, loose: Indices) -> Step:
        """The exchange of one of the channel's items for another's that is worth most."""
        mine, theirs = loose[at[loose] == channel], loose[at[loose] != channel]
        if not len(mine) or not len(theirs):
            return []
        to = at[theirs]
        shift = (items[mine] @ (pull[channel] - pull[to]).T) - np.einsum(
            "ir,ir->i", items[theirs], pull[channel] - pull[to]
        )
        both = own[mine, None] + own[theirs] - 2 * items[mine] @ measures[:, theirs]
        gain = 2 * shift - both * (inverse[channel] + inverse[to])
        change = charged[mine, None] * (
            (home[mine] == channel)[:, None] * 1.0 - (home[mine, None] == to)
        ) + charged[theirs] * ((home[theirs] == to) * 1.0 - (home[theirs] == channel))
        worth = worth_of(gain, change, np.zeros(len(theirs), dtype=np.bool_))
        i, j = np.unravel_index(int(worth.argmax()), worth.shape)
        if worth[i, j] <= 0:
            return []
        return [(int(mine[i]), int(to[j])), (int(theirs[j]), channel)]

    for _ in range(MOVES * len(own)):
        uneven = np.square(off).sum(axis=0) * inverse
        best, step = 0.0, (0, 0)
        order = open_[np.argsort(-uneven[open_], kind="stable")].tolist()
        for channel in order:
            # To it from anywhere, then from it to anywhere.
            change = charged * ((home == at) * 1.0 - (home == channel))
            gain = 2 * (here - items @ pull[channel]) - own * (inverse[channel] + inverse[at])
            worth = worth_of(gain, change, (at == channel) | fixed)
            item = int(worth.argmax())
            if worth[item] > best:
                best, step = float(worth[item]), (item, channel)
            mine = np.flatnonzero((at == channel) & ~fixed)
            change = charged[mine, None] * (
                (home[mine] == channel)[:, None] * 1.0 - (home[mine, None] == open_)
            )
            gain = 2 * (here[mine, None] - items[mine] @ pull[open_].T)
            gain -= own[mine, None] * (inverse[channel] + inverse[open_])
            worth = worth_of(gain, change, open_ == channel)
            if worth.size and worth.max() > best:
                i, c = np.unravel_index(int(worth.argmax()), worth.shape)
                best, step = float(worth[i, c]), (int(mine[i]), int(open_[c]))
            if best > 0:
                found = [step]
                break
            if found := swap(channel, largest):
                break
        else:
            found = next(
                filter(None, (swap(c, suited(c)) for c in order[: EFFORT // len(open_) ** 2])), []
            )
            if not found:
                return
        pair = [int(at[found[0][0]]), found[0][1]]
        for item, target in found:
            change_by = np.where(np.array(pair) == target, 1.0, -1.0)
            off[:, pair] += np.outer(measures[:, item], change_by)
            state.put(item, target)
        pull[pair] = (off[:, pair] * inverse[pair]).T
        near = np.flatnonzero((at == pair[0]) | (at == pair[1]))
        here[near] = np.einsum("ir,ir->i", items[near], pull[at[near]])
        yield found
