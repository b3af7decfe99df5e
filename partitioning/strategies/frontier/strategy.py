"""Our own strategy: the whole curve of imbalance against bytes moved, and the best point on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from partitioning.errors import InputError
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.strategies.frontier.local_search import SHARE_TOLERANCE
from partitioning.strategies.frontier.options import WORTH, FrontierOptions
from partitioning.strategies.frontier.request import Request
from partitioning.strategies.frontier.split_keys.chooser import choose_plan
from partitioning.strategies.frontier.whole_keys import plan_whole_keys
from partitioning.workload.profile import Profile


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
    """Return the fewest bytes for `max_imbalance`, or the least imbalance for `budget` bytes.

    The fullest channel (by capacity) sheds slots and heavy keys to the emptiest, most load per byte
    first. Two items are swapped where none fits. Few items are packed at the end (`pair_repack`).
    An item counts once however often it moves, and not at all once it is back. A heavy key is
    explicit only where its channel is not its slot's. Without a previous function the search starts
    from slots dealt out in turn, and no move costs anything.

    With several resources, imbalance is that of the worst. Without `max_imbalance`, the search
    lowers the mean square over all channels and resources.

    Options are as in `FrontierOptions`, profile, previous and channels as in `tradeoff.trace`.

    Raises
    ------
    InputError : unusable channels or options, a previous function with another S, or a budget
        that does not pay for channels to be emptied, or for keys to be whole again

    Examples
    --------
    >>> from partitioning.function.channels import numbered_channels
    >>> from partitioning.streams.zipf_stream import zipf_profile
    >>> frontier(zipf_profile(1000, 1.0, slots=64), None, numbered_channels(4)).strategy
    'frontier'
    """
    options = FrontierOptions(
        max_imbalance, budget, resources, pinned, excluded, seconds, splitting, copies, worth
    )
    request = Request.of(profile, previous, channels, options)
    problem = request.problem(profile, previous)
    if splitting:
        return choose_plan(request, problem)
    joining, left = request.bytes_to_join_at_home(problem), request
    if joining:
        if joining + problem.forced > request.budget * (1 + SHARE_TOLERANCE):
            forced = f", and channels that go and pinned keys {problem.forced:.0f}"
            raise InputError(
                f"making split keys whole takes {joining:.0f} bytes"
                f"{forced if problem.forced else ''}, over {request.budget:.0f}",
                "budget",
                "Raise the budget, or let keys be split",
            )
        if budget is not None:
            rest = max(problem.forced, budget - joining)
            left = replace(request, options=replace(options, budget=rest))
    return request.function(plan_whole_keys(left, problem))
