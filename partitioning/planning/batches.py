"""A migration in batches: where to stop on the way from one function to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

import numpy as np

from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.split import Split
from partitioning.moves.moves import Move
from partitioning.moves.safe_order import safe_order
from partitioning.planning.plan import Plan


class BatchLimit(NamedTuple):
    """The most that a batch may be: bytes and rows of state that move, and files written."""

    bytes: float = np.inf
    rows: float = np.inf
    files: float = np.inf


@dataclass(frozen=True, eq=False)
class Stops(Sequence[PartitioningFunction]):
    """Hold the functions at which a migration stops.

    Each is made when it is asked for, because there may be thousands.

    Parameters
    ----------
    made : the plan's moves, in order
    ends : how many of them are made at each stop
    """

    plan: Plan
    previous: PartitioningFunction
    made: Sequence[Move]
    ends: Sequence[int]

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> PartitioningFunction: ...

    @overload
    def __getitem__(self, at: slice) -> Stops: ...

    def __getitem__(self, at: int | slice) -> PartitioningFunction | Stops:
        if isinstance(at, slice):
            return replace(self, ends=self.ends[at])
        made = self.made[: self.ends[at]]
        return _after(self.plan.function, self.previous, self.plan.moves, made)


def stops(
    plan: Plan,
    previous: PartitioningFunction,
    most: BatchLimit,
    tasks: Sequence[int] | None = None,
) -> Stops:
    """Functions between `previous` and the plan's own, in order; neither end is among them.

    From each to the next no more than `most` moves, unless a single move is larger, or a
    swap or chain that has to be made together. At none is an open channel fuller, by its
    capacity, than the fullest is at the start or the end (`safe_order`). At each, every
    key stands where it stood before or where the plan puts it. Keys that are split before or after
    are left to the end, with whatever can only move together with them: their few partials move at
    once.

    Parameters
    ----------
    previous : the function of the epoch that the plan starts from
    tasks : that read each channel, each of which writes a file for every channel that its rows go
        to; None: one a channel
    """
    parts = batches(plan, most, tasks)
    ends = np.cumsum([len(part) for part in parts])[:-1].tolist()
    return Stops(plan, previous, [m for part in parts for m in part], ends)


def batches(plan: Plan, most: BatchLimit, tasks: Sequence[int] | None = None) -> list[list[Move]]:
    """Return the plan's moves in the order and the batches in which a migration makes them.

    Parameters
    ----------
    most, tasks : as for `stops`
    """
    parts: list[list[Move]] = [[]]
    size, rows, ways = 0.0, 0.0, set[tuple[int, int]]()
    for batch in _together(plan, by_way=most.files < np.inf):
        more = sum(m.bytes for m in batch), sum(m.rows for m in batch)
        # A move without rows writes no file.
        to = {(m.source, m.target) for m in batch if m.rows > 0 and most.files < np.inf}
        files = sum(1 if tasks is None else tasks[source] for source, _ in ways | to)
        over = size + more[0] > most.bytes or rows + more[1] > most.rows or files > most.files
        if (size or rows) and over:
            parts.append([])
            size, rows, ways = 0.0, 0.0, set()
        parts[-1] += batch
        size, rows, ways = size + more[0], rows + more[1], ways | to
    return parts


def _together(plan: Plan, by_way: bool) -> list[list[Move]]:
    """Return the plan's moves, in the order and the batches in which they are safe.

    Parameters
    ----------
    by_way : moves between the same two channels follow one another, as far as that is safe
    """
    moves, capacities = plan.moves, plan.function.capacities
    count = len(plan.loads_before)
    batches = safe_order(
        [m.source for m in moves],
        [m.target for m in moves],
        [m.load for m in moves],
        np.array(plan.loads_before),
        np.pad(capacities, (0, count - len(capacities))),
        last=[i for i, m in enumerate(moves) if m.kind == "share"],
        alike=[m.source * count + m.target for m in moves] if by_way else None,
    )
    return [[moves[i] for i in batch] for batch in batches]


def _after(
    function: PartitioningFunction,
    previous: PartitioningFunction,
    moves: Sequence[Move],
    made: Sequence[Move],
) -> PartitioningFunction:
    """Return the function under which only the moves `made` are made."""
    slots = previous.refined(len(function.slots)).slots.copy()
    moved = [m.item for m in made if m.kind == "slot"]
    slots[moved] = function.slots[moved]
    # A key that moves by itself stands apart from its slot, which may move before or after it.
    own = np.array([m.item for m in moves if m.kind == "key"], dtype=np.int64)
    keys = np.union1d(np.union1d(previous.explicit_keys, function.explicit_keys), own)
    done = np.isin(keys, np.array([m.item for m in made if m.kind == "key"], dtype=np.int64))
    channels = np.where(done, function.lookup_hashes(keys), previous.lookup_hashes(keys))
    # Channels that are being dropped are there until all have left them.
    count = max(len(previous.channels), len(function.channels))
    return replace(
        function,
        channels=numbered_channels(count),
        slots=slots,
        explicit_keys=keys,
        explicit_channels=channels,
        split=Split(),
        row=None,
    )
