"""frontier's plans with split keys: over how few channels each goes, and what is left to plan."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np

from partitioning.function.function import PartitioningFunction
from partitioning.function.split import PARTS_OF_A_KEY
from partitioning.strategies.frontier.assignment import Ints
from partitioning.strategies.frontier.local_search import SHARE_TOLERANCE
from partitioning.strategies.frontier.problem import Problem
from partitioning.strategies.frontier.request import Candidate
from partitioning.strategies.frontier.split_keys.shares import (
    Owners,
    affordable_shares,
    largest,
    shared,
)
from partitioning.strategies.frontier.split_keys.split_candidates import (
    ALIKE,
    BESIDE,
    FULL,
    Cut,
    cut,
    remaining_problem,
)
from partitioning.strategies.frontier.tradeoff import (
    GOOD_ENOUGH_PART,
    best_assignment,
    check_forced,
    cleared,
)
from partitioning.workload.metrics import imbalance
from partitioning.workload.profile import sums_by

#: Keys of this part of the aim's share of a channel hardly fit beside others: they are split
#: where whole ones miss the aim.
HARD = 0.5
#: Under a budget, keys from these parts of the aim's share are split, too: it moves nothing.
FINER = (1 / 8, 1 / 32, 1 / 128)
#: Imbalances nearer than this, in part, are told apart by copies.
TIED_IMBALANCE_PART = 1e-4
#: Part of its limit that a channel gives to a key which the fewest hold: all, short of rounding.
FEWEST = 1 - 1e-6
#: Such parts, and pieces to try with each: less where slots cannot make room for that, or it is not
#: worth what moves.
DEPTHS = ((FEWEST, (BESIDE, ALIKE, FULL)), (2 / 3, (BESIDE, ALIKE)), (1 / 3, (BESIDE, ALIKE)))


def shared_plan(
    problem: Problem,
    previous: PartitioningFunction | None,
    aim: float,
    budget: float,
    copies: int | None,
    worth: float,
) -> Candidate:
    """Return the best plan that splits keys for this aim.

    Keys that fit on no channel go over as few as hold them, if slots can make room and the bytes
    are worth it. Otherwise they go over all channels with room, one after another. No slot has to
    move for that, and N channels have at most N - 1 more partial rows than there are keys.

    Parameters
    ----------
    aim : imbalance that is enough
    budget : bytes that may move
    copies : most channels that a key has; None: any number
    worth : channels' mean state that may move for each partial row that is spared

    Raises
    ------
    InputError : a budget that does not empty the channels that close

    Examples
    --------
    >>> from partitioning.function.channels import numbered_channels
    >>> from partitioning.strategies.frontier.problem import problem_of
    >>> from partitioning.streams.zipf_stream import KEY, hashed_keys
    >>> from partitioning.workload.profile import profile_of_keys
    >>> load = np.append(np.ones(99), 99.0)  # one key has half of the load
    >>> profile = profile_of_keys(KEY, hashed_keys(100, 0), load, 64, threshold=2.0)
    >>> problem = problem_of(profile, None, numbered_channels(4))
    >>> found = shared_plan(problem, None, 1.01, np.inf, None, 2.0)
    >>> len(found.shares), found.copies, found.imbalance <= 1.01
    (1, 4, True)
    """
    keys, count = cut(problem, previous, aim, 1.0), int(np.count_nonzero(problem.fair))
    forced = remaining_problem(problem, keys, {}, FULL).forced
    check_forced(forced + keys.forced, budget)
    found = _few(
        problem, keys, aim, budget, copies, worth * float(problem.sizes.sum()) / count, forced
    )
    if found is not None:
        return found
    tried = list[Candidate]()
    # If `copies` limits one key, the other keys need no more channels than before.
    again = [(1.0, FEWEST)] if copies else []
    # Keys that are light beside the best channel may be coarse beside the least.
    fair = problem.fair[problem.fair > 0]
    least = float(fair.min() / fair.max())
    coarse = [(HARD * least, 0.0)] if least < 1 else []
    finer = [(part, 0.0) for part in FINER] if budget < np.inf else []
    for part, depth in ((1.0, 0.0), *again, (HARD, 0.0), *coarse, *finer):
        keys = cut(problem, previous, aim, part)
        owners = keys.owners(depth, copies)
        rest = remaining_problem(problem, keys, owners, ALIKE)
        at = best_assignment(
            rest, max(aim, rest.floor * (1 + GOOD_ENOUGH_PART)), budget - keys.forced
        )
        tried.append(_carried_out(problem, keys, owners, rest, at, aim, budget, copies))
        if tried[-1].imbalance <= aim * (1 + SHARE_TOLERANCE):
            return tried[-1]
    enough = min(c.imbalance for c in tried) * (1 + TIED_IMBALANCE_PART)
    return min((c for c in tried if c.imbalance <= enough), key=lambda c: c.copies)


def _few(
    problem: Problem,
    keys: Cut,
    aim: float,
    budget: float,
    copies: int | None,
    price: float,
    forced: float,
) -> Candidate | None:
    """Return a plan with few owners of each key that fits on no channel.

    None means that it misses the aim, or costs more than sharing over all channels.

    Parameters
    ----------
    price : bytes that a partial row is worth
    forced : bytes of items that move before any search
    """
    if not keys.hot:
        return None
    # The cost of a plan is as over all channels, with the moves that must be made anyway.
    count, hot = int(np.count_nonzero(problem.fair)), slice(keys.hot)
    new = max(count - 1 + keys.hot - int(np.count_nonzero(keys.before[hot])), 0)
    found, least = None, forced + (count - 1) * price + new * float(keys.copies[hot].mean())
    fewest = ((keys.owners(depth, copies), layouts) for depth, layouts in DEPTHS)
    for owners, layouts in chain([(keys.as_now(copies), (BESIDE, ALIKE))], fewest):
        if len(owners) < keys.hot:
            continue
        moved = keys.moved(owners)
        cost = sum(len(o.channels) - 1 for o in owners.values()) * price + moved
        for layout in layouts:
            rest = remaining_problem(problem, keys, owners, layout)
            for exact in (False, True):
                # Quickly at first; the best then for as few bytes as can be.
                most = min(budget - keys.forced - moved, least - cost)
                at = cleared(rest, aim, most, exact)
                if at is None:
                    break
                done = _carried_out(problem, keys, owners, rest, at, aim, budget, copies)
                if done.imbalance > aim * (1 + SHARE_TOLERANCE):
                    break
                found, least = done, cost + rest.moved(at)
    return found


def _carried_out(
    problem: Problem,
    keys: Cut,
    owners: Mapping[int, Owners],
    rest: Problem,
    at: Ints,
    aim: float,
    budget: float,
    copies: int | None,
) -> Candidate:
    """Return the candidate in which what was left is at `at`."""
    spare, at = budget - keys.made_whole - rest.moved(at), at[: len(problem.load)]
    loads = sums_by(at, keys.whole, len(problem.fair))
    known = loads, problem.fair, keys.loads, keys.before, aim, owners
    after = shared(*known, held=True)
    if copies is not None:
        both = [largest(a, copies) for a in (after, shared(*known, held=False))]
        after = min(both, key=lambda a: imbalance(loads + keys.loads @ a, problem.capacities))
    weights = keys.had, keys.loads, keys.sizes, keys.copies
    after = affordable_shares(keys.before, after, *weights, spare)
    if copies is not None:
        # Owners that the budget does not move stay, so fewer may come.
        after = largest(after, copies, keys.before)
    reached = imbalance(loads + keys.loads @ after, problem.capacities)
    # Shares are whole parts: who would lose less than one has it of the last plan's rounding.
    there = keys.before.sum(axis=1) > 1 - 0.5 / PARTS_OF_A_KEY
    still = there & (keys.before - after < 1 / PARTS_OF_A_KEY).all(axis=1)
    after[still] = keys.before[still]
    hashes = problem.profile.heavy[keys.items - problem.profile.slots].tolist()
    shares = {
        h: {int(c): float(s[c]) for c in np.flatnonzero(s)}
        for h, s in zip(hashes, after, strict=True)
    }
    return Candidate(problem, at, reached, shares)
