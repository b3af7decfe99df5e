"""Even out several resources at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from partitioning.strategies.frontier.assignment import Assignment, Indices
from partitioning.strategies.frontier.local_search import Step
from partitioning.workload.profile import Floats

#: Steps for each item, at most. A larger value lets a search run longer; none has taken so many.
MOVES = 8
#: Unevenness (mean square, without a unit) that a step must remove. Less is rounding.
MIN_UNEVENNESS_GAIN = 1e-9
#: Items for each channel, the largest ones, among which exchanges are sought. A larger value finds
#: more exchanges, and takes time in proportion to its square.
SWAPPED = 32
#: Channels that exchange items with all others where nothing else helps: this over the number of
#: channels squared. The most uneven ones come first. A larger value finds more exchanges; each
#: takes longer where channels are many.
EFFORT = 1600
#: Least part of all bytes that a step counts as. It keeps gain per byte finite.
MIN_BYTES_PART = 1e-6


def even_out_resources(
    assignment: Assignment,
    measures: Floats,
    price: float,
    budget: float = np.inf,
) -> Iterator[Step]:
    """Move one item at a time, or exchange two, so that every measure comes even.

    Unevenness is the mean square of how far each channel is off its fair share, in parts of that
    share, summed over the measures. The most uneven channel gives or takes the item that lowers it
    most per byte, if that is worth the price. Each step is made in `assignment`, then yielded.

    Parameters
    ----------
    measures : float64 (R, n): what each item has of each measure, as parts of its total
    price : unevenness that moving all bytes is worth
    budget : most that `assignment.bytes` may be
    """
    search = _Search(assignment, measures, price, budget)
    for _ in range(MOVES * len(search.own)):
        step = search.next_step()
        if not step:
            return
        search.make(step)
        yield step


class _Search:
    """Hold the measures on each channel, and find the step that evens out most.

    Here n is the number of items, N of channels and R of measures.
    """

    def __init__(
        self, assignment: Assignment, measures: Floats, price: float, budget: float
    ) -> None:
        self.assignment, self.measures = assignment, measures
        self.price, self.budget = price, budget
        self.at, self.home, self.charged = assignment.at, assignment.home, assignment.charged
        fair = assignment.fair / assignment.fair.sum()
        self.open = np.flatnonzero(fair > 0)
        self.inverse = np.divide(1.0, fair, out=np.zeros_like(fair), where=fair > 0)
        # How far each channel is off its fair share, (R, N).
        self.off = np.array([np.bincount(self.at, m, minlength=len(fair)) for m in measures])
        self.off -= fair
        # Unevenness of an item alone on a fair share of 1, (n,).
        self.own: Floats = np.square(measures).sum(axis=0)
        self.items = np.ascontiguousarray(measures.T)
        self.all_bytes = float(self.charged.sum()) or 1.0
        none_fixed = np.zeros(len(self.own), dtype=np.bool_)
        self.fixed = none_fixed if assignment.fixed is None else assignment.fixed
        # Pull of each channel on each measure, (N, R), and on each item where it is, (n,).
        self.pull: Floats = (self.off * self.inverse).T
        self.here = np.einsum("ir,ir->i", self.items, self.pull[self.at])
        self.loose = np.flatnonzero(~self.fixed)
        heaviest = np.argsort(-self.own[self.loose], kind="stable")
        self.largest = self.loose[heaviest][: SWAPPED * len(self.open)]

    def next_step(self) -> Step:
        """Return the best step of the most uneven channel that has one; empty: there is none."""
        uneven = np.square(self.off).sum(axis=0) * self.inverse
        order = self.open[np.argsort(-uneven[self.open], kind="stable")].tolist()
        for channel in order:
            found = self.best_move(channel) or self.best_exchange(channel, self.largest)
            if found:
                return found
        for channel in order[: EFFORT // len(self.open) ** 2]:
            if found := self.best_exchange(channel, self.suited(channel)):
                return found
        return []

    def make(self, step: Step) -> None:
        """Make a step in the assignment, and bring the sums up to date."""
        pair = [int(self.at[step[0][0]]), step[0][1]]
        for item, target in step:
            sign = np.where(np.array(pair) == target, 1.0, -1.0)
            self.off[:, pair] += np.outer(self.measures[:, item], sign)
            self.assignment.put(item, target)
        self.pull[pair] = (self.off[:, pair] * self.inverse[pair]).T
        near = np.flatnonzero((self.at == pair[0]) | (self.at == pair[1]))
        self.here[near] = np.einsum("ir,ir->i", self.items[near], self.pull[self.at[near]])

    def best_move(self, channel: int) -> Step:
        """Return the move to the channel, or from it, that is worth most."""
        at, home, own = self.at, self.home, self.own
        pull, inverse, open_ = self.pull, self.inverse, self.open
        change = self.charged * ((home == at) * 1.0 - (home == channel))
        gain = 2 * (self.here - self.items @ pull[channel]) - own * (inverse[channel] + inverse[at])
        score = self.score(gain, change, (at == channel) | self.fixed)
        item = int(score.argmax())
        best, step = 0.0, Step()
        if score[item] > best:
            best, step = float(score[item]), [(item, channel)]
        mine = np.flatnonzero((at == channel) & ~self.fixed)
        change = self.charged[mine, None] * (
            (home[mine] == channel)[:, None] * 1.0 - (home[mine, None] == open_)
        )
        gain = 2 * (self.here[mine, None] - self.items[mine] @ pull[open_].T)
        gain -= own[mine, None] * (inverse[channel] + inverse[open_])
        score = self.score(gain, change, open_ == channel)
        if score.size and score.max() > best:
            i, c = np.unravel_index(int(score.argmax()), score.shape)
            step = [(int(mine[i]), int(open_[c]))]
        return step

    def best_exchange(self, channel: int, among: Indices) -> Step:
        """Return the exchange of one of the channel's items for another's that is worth most."""
        at, home, items, pull = self.at, self.home, self.items, self.pull
        mine, theirs = among[at[among] == channel], among[at[among] != channel]
        if not len(mine) or not len(theirs):
            return []
        to = at[theirs]
        shift = (items[mine] @ (pull[channel] - pull[to]).T) - np.einsum(
            "ir,ir->i", items[theirs], pull[channel] - pull[to]
        )
        both = self.own[mine, None] + self.own[theirs] - 2 * items[mine] @ self.measures[:, theirs]
        gain = 2 * shift - both * (self.inverse[channel] + self.inverse[to])
        change = self.charged[mine, None] * (
            (home[mine] == channel)[:, None] * 1.0 - (home[mine, None] == to)
        ) + self.charged[theirs] * ((home[theirs] == to) * 1.0 - (home[theirs] == channel))
        score = self.score(gain, change, np.zeros(len(theirs), dtype=np.bool_))
        i, j = np.unravel_index(int(score.argmax()), score.shape)
        if score[i, j] <= 0:
            return []
        return [(int(mine[i]), int(to[j])), (int(theirs[j]), channel)]

    def suited(self, channel: int) -> Indices:
        """Return the items that gain most in exchange for a mean one, the channel's and others'."""
        items, inverse = self.items, self.inverse
        on = [self.loose[self.at[self.loose] == c] for c in range(len(inverse))]
        means = [items[mine].mean(axis=0) if len(mine) else 0.0 for mine in on]
        found = [self.largest[:0]]
        for other in self.open[self.open != channel].tolist():
            pulled = self.pull[channel] - self.pull[other]
            for one, mate, toward in ((channel, other, pulled), (other, channel, -pulled)):
                off_mean = np.square(items[on[one]] - means[mate]).sum(axis=1)
                gain = 2 * items[on[one]] @ toward
                gain -= off_mean * (inverse[channel] + inverse[other])
                found.append(on[one][np.argsort(-gain, kind="stable")[:SWAPPED]])
        return np.unique(np.concatenate(found))

    def score(self, gain: Floats, change: Floats, stays: npt.NDArray[np.bool_]) -> Floats:
        """Return how good each step is; 0 where it is not allowed or not worth its bytes.

        Parameters
        ----------
        gain : unevenness that each step removes
        change : bytes that it adds to those that moved
        stays : steps that are not allowed
        """
        part = change / self.all_bytes
        score = gain / np.maximum(part, MIN_BYTES_PART)
        good = gain > self.price * part + MIN_UNEVENNESS_GAIN
        good &= change <= self.budget - self.assignment.bytes
        return np.where(good & ~stays, score, 0.0)
