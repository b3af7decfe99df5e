"""A request for one plan, and the candidates that answer it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from partitioning.function.channels import Channel, check_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.moves.moves import moves_between
from partitioning.strategies.frontier.assignment import Ints, gathered
from partitioning.strategies.frontier.options import FrontierOptions, named_keys
from partitioning.strategies.frontier.problem import Problem, problem_of
from partitioning.workload.profile import Profile


@dataclass(frozen=True, eq=False)
class Candidate:
    """Hold one assignment that a plan may end in.

    Parameters
    ----------
    problem : the items that it places
    at : int32 (n,): channel of each item of the problem
    imbalance : what it reaches, where 1 is perfect
    shares : {hash of a split key: {channel: its share}}

    Examples
    --------
    >>> Candidate(None, None, 1.25, {7: {0: 0.5, 1: 0.5}, 9: {0: 0.3, 1: 0.3, 2: 0.4}}).copies
    5
    """

    problem: Problem
    at: Ints
    imbalance: float
    shares: Mapping[int, Mapping[int, float]] = field(default_factory=dict)

    @property
    def copies(self) -> int:
        """Number of owners of all split keys."""
        return sum(map(len, self.shares.values()))

    @property
    def most_copies(self) -> int:
        """Most owners that one split key has; 1 where no key is split."""
        return max(map(len, self.shares.values()), default=1)


@dataclass(frozen=True, eq=False)
class Request:
    """Hold what one plan is made from; parameters as in `frontier`.

    Parameters
    ----------
    pinned : (hash of a key, number of its channel) of each key put by hand
    excluded : hashes of the keys that stay
    deadline : time of `time.monotonic` at which the search ends
    """

    profile: Profile
    previous: PartitioningFunction | None
    channels: tuple[Channel, ...]
    options: FrontierOptions
    pinned: tuple[tuple[int, int], ...]
    excluded: tuple[int, ...]
    deadline: float

    @classmethod
    def of(
        cls,
        profile: Profile,
        previous: PartitioningFunction | None,
        channels: Sequence[Channel],
        options: FrontierOptions,
    ) -> Request:
        """Find the named keys, and start the clock.

        Raises
        ------
        InputError : unusable channels, or a named key or channel that there is not
        """
        check_channels(channels)
        named = named_keys(profile.key, channels, vars(options))
        seconds = np.inf if options.seconds is None else options.seconds
        deadline = time.monotonic() + seconds
        return cls(profile, previous, tuple(channels), options, *named, deadline)

    @property
    def budget(self) -> float:
        """Bytes that may move; infinite without a previous function, where nothing moves."""
        budget = self.options.budget
        return np.inf if budget is None or self.previous is None else budget

    def problem(self, profile: Profile, previous: PartitioningFunction | None) -> Problem:
        """Return the items of a profile, with what the request asks of them."""
        problem = problem_of(
            profile, previous, self.channels, self.options.resources, self.pinned, self.excluded
        )
        # Without a deadline the cached value itself is used, so that its searches are cached too.
        return problem if self.options.seconds is None else replace(problem, deadline=self.deadline)

    def function(self, candidate: Candidate) -> PartitioningFunction:
        """Return the function that puts every key where a candidate has it."""
        problem, at, count = candidate.problem, candidate.at, self.profile.slots
        slots = at[:count]
        if len(problem.measures):
            kinds = np.vstack([problem.measures, problem.sizes])[:, :count]
            slots = gathered(slots, problem.home[:count], kinds)
        heavy = zip(problem.profile.heavy.tolist(), at[count:].tolist(), strict=True)
        explicit = {h: c for h, c in heavy if h not in candidate.shares}
        return successor(
            self.profile.key,
            self.previous,
            self.channels,
            slots,
            "frontier",
            self.options.recorded(),
            explicit,
            candidate.shares,
        )

    def bytes_to_join(self, problem: Problem, function: PartitioningFunction) -> float:
        """Return the bytes that move to a function of whole keys from one that splits some.

        It is 0 from a function that splits none: the search itself counts those bytes.
        """
        if self.previous is None or not len(self.previous.split):
            return 0.0
        return sum(m.bytes for m in moves_between(self.previous, function, problem.profile))

    def bytes_to_join_at_home(self, problem: Problem) -> float:
        """Return the bytes of partial rows that join those of their key's home.

        A search counts none of them. It counts a key that leaves its home in full, with all of its
        partial rows. So those of keys that must leave are not counted here.
        """
        if self.previous is None or not len(self.previous.split):
            return 0.0
        profile, split = problem.profile, self.previous.split
        keys, owners = np.searchsorted(profile.heavy, split.keys), np.diff(split.starts)
        rows = profile.heavy_bytes[keys] / owners - profile.heavy_copy_bytes[keys]
        items = profile.slots + keys
        stays = problem.start[items] == problem.home[items]
        return float((np.maximum(rows, 0.0) * (owners - 1))[stays].sum())
