"""Evening out several measures at once: the search behind frontier's resources and surprises."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from partitioning.profile import Floats
from partitioning.strategies.assignment import Assignment
from partitioning.strategies.descent import Step

#: Moves for each item, at most: far more than any search has taken.
MOVES = 8
#: A move must lower the unevenness by this much to count as one.
LEAST_GAIN = 1e-9


def spread(
    state: Assignment,
    measures: Floats,
    totals: Floats,
    weights: Floats,
    price: float,
    budget: float = np.inf,
) -> Iterator[Step]:
    """Move one item at a time such that the channels come even in every measure; yields each move
    after it is made in `state`.

    Unevenness is the mean square, over the channels by their fair share, of how far each is off
    that share, summed over the measures by weight. The channel that adds most to it gives or
    takes the item that lowers it most, less the price of its bytes.

    Parameters
    ----------
    measures : float64 (R, n): what each item has of each measure, as parts of its total
    totals : float64 (R,): 1, or 0 for a measure that shall come out at nothing everywhere
    weights : float64 (R,)
    price : unevenness that moving all bytes is worth
    budget : `state.bytes` stays within this
    """
    fair = state.fair / state.fair.sum()
    open_ = np.flatnonzero(fair > 0)
    inverse = np.divide(1.0, fair, out=np.zeros_like(fair), where=fair > 0)
    off = np.array([np.bincount(state.at, m, minlength=len(fair)) for m in measures])
    off -= totals[:, None] * fair
    own = weights @ np.square(measures)  # an item's unevenness, were it alone on a fair share of 1
    items = np.ascontiguousarray(measures.T * weights)
    charged = state.charged
    unit = price / (float(charged.sum()) or 1.0)
    at, home = state.at, state.home
    pull = (off * inverse).T  # of each channel on each measure, (N, R)
    here = np.einsum("ir,ir->i", items, pull[at])  # on each item where it is
    for _ in range(MOVES * len(own)):
        uneven = np.square(off).T @ weights * inverse
        left = budget - state.bytes
        best, step = LEAST_GAIN, (0, 0)
        for channel in open_[np.argsort(-uneven[open_], kind="stable")].tolist():
            # To it from anywhere, then from it to anywhere: gain less price, where in budget.
            change = charged * ((home == at) * 1.0 - (home == channel))
            gain = 2 * (here - items @ pull[channel]) - own * (inverse[channel] + inverse[at])
            gain -= unit * change
            gain[(at == channel) | (change > left)] = -np.inf
            item = int(gain.argmax())
            if gain[item] > best:
                best, step = float(gain[item]), (item, channel)
            mine = np.flatnonzero(at == channel)
            change = charged[mine, None] * (
                (home[mine] == channel)[:, None] * 1.0 - (home[mine, None] == open_)
            )
            gain = 2 * (here[mine, None] - items[mine] @ pull[open_].T)
            gain -= own[mine, None] * (inverse[channel] + inverse[open_])
            gain -= unit * change
            gain[(open_ == channel) | (change > left)] = -np.inf
            if gain.size and gain.max() > best:
                i, c = np.unravel_index(int(gain.argmax()), gain.shape)
                best, step = float(gain[i, c]), (int(mine[i]), int(open_[c]))
            if best > LEAST_GAIN:
                break
        else:
            return
        item, target = step
        pair = [int(at[item]), target]
        off[:, pair] += np.outer(measures[:, item], [-1.0, 1.0])
        pull[pair] = (off[:, pair] * inverse[pair]).T
        state.put(item, target)
        near = np.flatnonzero((at == pair[0]) | (at == target))
        here[near] = np.einsum("ir,ir->i", items[near], pull[at[near]])
        yield [step]
