"""The search behind frontier: an assignment evened out step by step, for few bytes."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from partitioning.strategies.frontier.assignment import (
    NOTHING,
    SAME_DENSITY,
    Assignment,
    Indices,
    densest,
    density_of,
)
from partitioning.workload.profile import Floats

#: One change: the items that move, each with the channel it goes to.
Step = list[tuple[int, int]]
#: A step must bring the fuller channel of its pair down by this part of its fair share, or to its
#: aim.
MIN_STEP_GAIN = 1e-5
#: Steps for each item, at most: far more than any search has taken.
STEPS_PER_ITEM = 8
#: Shares that differ by this part are equal, and are so in whatever order they are summed.
SHARE_TOLERANCE = 1e-12
#: A donor that has this many mean items too much sheds them in one run.
RUN = 8
#: Decimals that logarithms of densities are told apart by.
DENSITY_DECIMALS = 9
#: Emptier channels that are looked at together where nothing fits on the emptiest.
RECEIVERS = 8
#: Items that are tried for an exchange against several, least load first.
EXCHANGED = 8
#: Part of its score that a step keeps if it brings the donor as far below fair as it was above.
WASTED = 0.1


def descend(
    assignment: Assignment, aim: float, stop: float, budget: float = np.inf, *, others: bool = False
) -> Iterator[Step]:
    """Even out `assignment` in place; yield the (item, target) moves of each step once made.

    Each step takes from the fullest channel and gives to the emptiest that helps. Each makes
    the fuller of the two less full, so that the search ends.

    Parameters
    ----------
    aim : no channel is brought below, or filled above, this part of its fair share on purpose
    stop : ends when no channel has more than this part of its fair share
    budget : `assignment.bytes` stays within this
    others : go on with the other channels where the fullest cannot shed; they only shed what fits
    """
    # Donors shed down to half of the allowed margin only, because fits are imperfect. Else the last
    # channels move more bytes, to make up for the first ones.
    shed_to = (aim + stop) / 2
    closed = np.where(assignment.fair > 0, 0.0, np.inf)
    stuck = np.zeros(len(assignment.fair), dtype=np.bool_)
    for _ in range(STEPS_PER_ITEM * len(assignment.load)):
        shares = np.where(stuck, 0.0, assignment.shares)
        donor = int(shares.argmax())
        if shares[donor] <= stop * (1 + SHARE_TOLERANCE):
            return
        shares[donor] = 0.0
        rest = max(float(shares.max()), stop * (1 + SHARE_TOLERANCE))
        many = False
        for step in _Giver(assignment, donor, shed_to, aim, budget).run(closed, rest):
            many = True
            yield step
        if many:
            continue
        shares = assignment.shares
        giver = _Giver(assignment, donor, shed_to, aim, budget)
        step = giver.fitting(int((shares + closed).argmin()))
        if not step and not others:
            order = np.argsort(shares + closed, kind="stable")
            lower = order[: int(np.count_nonzero(shares + closed < shares[donor]))].tolist()
            for way in (giver.nearest, giver.exchange):
                for some in range(0, len(lower), RECEIVERS):
                    if not step:
                        step = way(lower[some : some + RECEIVERS])
        if not step:
            if not others:
                return
            stuck[donor] = True
            continue
        for item, target in step:
            assignment.put(item, target)
        yield step


class _Giver:
    """The fullest channel, and the ways in which it can shed load to others.

    Parameters
    ----------
    donor : its number
    shed_to, fill_to : parts of their fair shares that donors are brought down to, and others up
    budget : bytes that may have moved in the end
    """

    def __init__(
        self, assignment: Assignment, donor: int, shed_to: float, fill_to: float, budget: float
    ) -> None:
        self.assignment, self.donor, self.left = assignment, donor, budget - assignment.bytes
        self.shed_to, self.fill_to = shed_to, fill_to
        self.spare = float((fill_to - 1.0) * assignment.fair[donor])
        self.own = assignment.on(donor)
        self.load = assignment.load[self.own]
        self.top = float(assignment.loads[donor] / assignment.fair[donor])
        self.least = min(MIN_STEP_GAIN, self.top - shed_to) * (1 - SAME_DENSITY)

    def run(self, closed: Floats, rest: float) -> Iterator[Step]:
        """Give the densest items to the emptiest channel while the donor has more than `rest`.

        `rest` is in parts of the donor's fair share. The result is that of `fitting`, which looks
        at all items each time. It ends where another step may be denser: an item that sheds too
        much, or fits in exchange.
        """
        assignment, donor = self.assignment, self.donor
        over = float(assignment.loads[donor]) - rest * float(assignment.fair[donor])
        if over * len(self.load) < RUN * float(self.load.sum()):
            return
        cost = assignment.charged[self.own] * (assignment.home[self.own] == donor)
        density = density_of(self.load, cost)
        # Rounded, so that sizes in proportion to load are one density.
        dense = np.round(np.log(density), DENSITY_DECIMALS)
        least, spent = self.least * assignment.fair[donor], 0.0
        # Items passed over so far: the densest they could be alone, and the lightest of those that
        # are denser than what comes now; `same` of those that are as dense.
        alone, lightest, same, last = -np.inf, np.inf, np.inf, np.inf
        order = np.lexsort((-self.load, -dense))
        for i in order[self.load[order] >= least].tolist():
            receiver = int((assignment.shares + closed).argmin())
            load, excess = float(self.load[i]), self._excess()
            fit = min(excess + self.spare, self._room(receiver))
            if dense[i] < last:
                lightest, same, last = min(lightest, same), np.inf, float(dense[i])
            if load > min(fit, excess):
                same = min(same, load)
                if load <= fit:
                    alone = max(alone, last + math.log(excess / load))
                continue
            spent += float(cost[i])
            if spent > self.left:
                return
            if alone > last or lightest <= self._swappable(receiver, fit):
                return
            item = int(self.own[i])
            assignment.put(item, receiver)
            yield [(item, receiver)]
            if assignment.loads[donor] <= rest * assignment.fair[donor]:
                return

    def fitting(self, receiver: int) -> Step:
        """Return the move or swap that sheds most excess per byte, and of equal ones sheds most.

        It leaves the donor above its fair share and the receiver below its part.
        """
        excess, room = self._excess(), self._room(receiver)
        # An item may shed more than it must if the aim is above fair: its score is the excess.
        fit = min(excess + self.spare, room)
        cost = self.assignment.cost(self.own, self.donor, receiver)
        shed = np.minimum(self.load, excess)
        density = density_of(shed, cost)
        least = self.least * self.assignment.fair[self.donor]
        fits = (self.load <= fit) & (shed >= least) & (cost <= self.left)
        best = densest(density, shed, fits)
        if best == NOTHING:
            return []
        move = [(int(self.own[best]), receiver)]
        # Only where items too heavy to fit are denser can a swap of two be denser than this move.
        heavier = (self.load > fit) & (self.load <= self._swappable(receiver, fit))
        denser = np.flatnonzero(heavier & (density > density[best] * (1 + SAME_DENSITY)))
        if not len(denser):
            return move
        swaps = _Swaps(self, receiver, denser, fit, above=False)
        shed = np.minimum(swaps.shed, excess)
        swapped = density_of(shed, swaps.cost)
        near = (swaps.shed <= fit) & (shed >= least) & (swaps.cost <= self.left)
        pick = densest(swapped, shed, near)
        if pick == NOTHING or swapped[pick] <= density[best] * (1 + SAME_DENSITY):
            return move
        return swaps.step(pick)

    def nearest(self, receivers: list[int]) -> Step:
        """Return the best swap or oversized move where no item fits.

        It brings a pair down most per byte, and of equal ones most.
        """
        best, found = (0.0, 0.0), []
        for receiver in receivers:
            fit = self._fit(receiver)
            swaps = _Swaps(self, receiver, np.arange(len(self.own)), fit, above=True)
            gain, score = self._gain(receiver, swaps.shed)
            density = density_of(score, swaps.cost)
            pick = densest(density, gain, (gain >= self.least) & (swaps.cost <= self.left))
            if pick != NOTHING and (float(density[pick]), float(gain[pick])) > best:
                best, found = (float(density[pick]), float(gain[pick])), swaps.step(pick)
        return found

    def exchange(self, receivers: list[int]) -> Step:
        """Return an exchange of one item for several of a receiver's, where no swap helps.

        The largest that fit are taken. The exchange brings a pair down most per byte.
        """
        best, found = 0.0, []
        for receiver in receivers:
            fit = self._fit(receiver)
            back = self.assignment.on(receiver)
            # An item that fills the receiver as much as it does the donor gains nothing.
            most = (self.top - self.least) * self.assignment.fair[receiver]
            heavier = np.flatnonzero((self.load > fit) & (self.load <= most))[:EXCHANGED]
            loads = self.assignment.load[back].tolist() if len(heavier) else []
            for item in heavier.tolist():
                rest, end, bundle = float(self.load[item]) - fit, len(loads), []
                while (end := bisect_right(loads, rest, 0, end) - 1) >= 0:
                    bundle.append(int(back[end]))
                    rest -= loads[end]
                given, taken = self.own[[item]], np.array(bundle, dtype=np.intp)
                cost = self.assignment.cost(given, self.donor, receiver).sum()
                cost += self.assignment.cost(taken, receiver, self.donor).sum()
                gain, score = self._gain(receiver, np.array([fit + rest]))
                density = float(density_of(score, np.array([cost]))[0])
                if gain[0] >= self.least and cost <= self.left and density > best:
                    best = density
                    found = [(int(given[0]), receiver), *((b, self.donor) for b in bundle)]
        return found

    def _excess(self) -> float:
        """Return the load that the donor has too much."""
        return float(
            self.assignment.loads[self.donor] - self.shed_to * self.assignment.fair[self.donor]
        )

    def _room(self, receiver: int) -> float:
        """Return the load that the receiver has room for."""
        return float(
            self.fill_to * self.assignment.fair[receiver] - self.assignment.loads[receiver]
        )

    def _swappable(self, receiver: int, fit: float) -> float:
        """Return the load of the heaviest item that fits if one of the receiver's leaves."""
        return fit + self.assignment.heaviest(receiver)

    def _fit(self, receiver: int) -> float:
        """Return the load that would suit both, at least 0."""
        return max(min(self._excess(), self._room(receiver)), 0.0)

    def _gain(self, receiver: int, shed: Floats) -> tuple[Floats, Floats]:
        """Return the part of its fair share that the fuller comes down by, and its score.

        Falling below the fair share takes room that others will have to pay for.
        """
        assignment = self.assignment
        left = (assignment.loads[self.donor] - shed) / assignment.fair[self.donor]
        after = np.maximum(left, (assignment.loads[receiver] + shed) / assignment.fair[receiver])
        gain = self.top - np.maximum(after, self.shed_to)
        return gain, np.maximum(gain - np.maximum(1.0 - left, 0.0), gain * WASTED)


class _Swaps:
    """Hold the swaps and moves that shed nearest to `fit`.

    They are of `picked` items (ascending) of the donor's with each item of the receiver's, and with
    none. They shed less than `fit`, and if asked more.

    shed, cost : float64 (c,) of each candidate
    """

    def __init__(
        self, giver: _Giver, receiver: int, picked: Indices, fit: float, *, above: bool
    ) -> None:
        assignment = giver.assignment
        self.donor, self.receiver = giver.donor, receiver
        load, own = giver.load[picked], giver.own[picked]
        back = assignment.on(receiver)
        back_load = np.append(assignment.load[back], 0.0)
        over = np.searchsorted(load, back_load + fit, side="right")
        at, other = over - 1, np.arange(len(back_load))
        if above:
            at, other = np.concatenate([at, over]), np.tile(other, 2)
        there = (at >= 0) & (at < len(own))
        at, other = at[there], other[there]
        self.given, self.back = own[at], np.append(back, NOTHING)[other]
        self.shed = load[at] - back_load[other]
        back_cost = np.append(assignment.cost(back, receiver, giver.donor), 0.0)
        self.cost = assignment.cost(own, giver.donor, receiver)[at] + back_cost[other]

    def step(self, pick: int) -> Step:
        """Return the moves of a candidate."""
        step = [(int(self.given[pick]), self.receiver)]
        if self.back[pick] != NOTHING:
            step.append((int(self.back[pick]), self.donor))
        return step
