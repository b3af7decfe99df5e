"""State of split keys: each row is a partial row of its key, on one of the key's owners.

Events are routed (`PartitioningFunction.lookup`, `sql.channel_sql`). Partial rows stay where they
are while their channel is an owner, and else join the key's home. Build sides are copied to every
owner instead (`owners_sql`). A whole key has one owner, which is its home.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, KeyColumn, slot_of
from partitioning.function.sql import among_sql, channel_sql, hash_sql, quoted
from partitioning.workload.metrics import placements


def shared_keys(*functions: PartitioningFunction) -> Hashes:
    """Return hashes of the keys that any function splits, int64 (K,), ascending."""
    return np.unique(np.concatenate([f.split.keys for f in functions]))


def listed_sql(key: Sequence[KeyColumn], slots: int, hashes: Hashes, slot: str | None) -> str:
    """Write SQL (BOOLEAN) for whether a row's key is one of these.

    Parameters
    ----------
    slots : number of slots that rows know, R
    hashes : int64 (K,), at least one
    slot : name of the column with the key's slot: files without such a slot need not be read;
        None: go by the hash alone, because slots may be wrong
    """
    if slot is None:
        return among_sql(hash_sql(key), hashes.tolist())
    near = ", ".join(map(str, np.unique(slot_of(hashes, slots)).tolist()))
    return f"({quoted(slot)} IN ({near}) AND {among_sql(hash_sql(key), hashes.tolist())})"


def settled_sql(function: PartitioningFunction, slot: str | None, channel: str) -> str:
    """Write SQL (INT) for the channel where a row of state belongs.

    A partial row on an owner belongs there. For a function that splits no key this is
    `channel_sql`, which reads neither column.

    Parameters
    ----------
    slot, channel : names of the columns with the key's slot (None: do not rely on it) and the
        row's channel
    """
    own = quoted(channel)
    return _by_owners(
        function,
        slot,
        channel_sql(function.unsplit),
        lambda owners, home: f"IF({own} IN ({owners}), {own}, {home})",
    )


def owners_sql(function: PartitioningFunction, slot: str) -> str:
    """Write SQL (ARRAY<INT>) for all channels that own a row's key.

    Parameters
    ----------
    slot : name of the column with the key's slot
    """
    whole = f"array({channel_sql(function.unsplit)})"
    return _by_owners(function, slot, whole, lambda owners, home: f"array({owners})")


def _by_owners(
    function: PartitioningFunction, slot: str | None, whole: str, shared: Callable[[str, int], str]
) -> str:
    """Write SQL that is `whole` for whole keys, and depends on the owners for split keys.

    Parameters
    ----------
    shared : makes the SQL of a split key from its owners, as a list in SQL, and its home
    """
    split = function.split
    if not len(split):
        return whole
    said: dict[str, list[int]] = {}
    owners = np.split(split.channels, split.starts[1:-1])
    for key, channels, home in zip(split.keys.tolist(), owners, split.homes.tolist(), strict=True):
        its = ", ".join(map(str, sorted(channels.tolist())))
        said.setdefault(shared(its, home), []).append(key)
    h = hash_sql(function.key)
    cases = " ".join(f"WHEN {among_sql(h, keys)} THEN {stands}" for stands, keys in said.items())
    # Asked first of all keys at once: few rows come to the cases, of which there may be hundreds.
    listed = listed_sql(function.key, function.row_slots, split.keys, slot)
    return f"CASE WHEN {listed} THEN CASE {cases} END ELSE {whole} END"


@dataclass(frozen=True)
class Flow:
    """Describe what goes from one channel to another as a key's owners change.

    Parameters
    ----------
    source, target : channel numbers
    share : part of the key's load that goes, 0 to 1
    partials : number of its partial rows that go
    copies : number of copies that go, of tables where every owner has one
    """

    source: int
    target: int
    share: float
    partials: int
    copies: int

    def size(self, partial: float, copy: float) -> float:
        """Return the size of the flow, given the size of one partial row and of one copy."""
        return self.partials * partial + self.copies * copy


def flows(
    before: PartitioningFunction, after: PartitioningFunction, hashes: Hashes
) -> Iterator[list[Flow]]:
    """Yield what of each key, int64 (n,), goes where; nothing of one that stays as it is.

    An owner that gives load gives it to those that take, its home first; one that is none any
    longer gives its partial to the home. One that is new gets its copy once, from the first that
    gives to it.
    """
    old, new = (_owners(f, hashes) for f in (before, after))
    homes = after.lookup_hashes(hashes).tolist()
    for had, has, home in zip(old, new, homes, strict=True):
        gone = dict.fromkeys(((c, home) for c in had if c not in has), 1)
        left = {c: had[c] - has.get(c, 0.0) for c in had if had[c] > has.get(c, 0.0)}
        wanted = {c: has[c] - had.get(c, 0.0) for c in has if has[c] > had.get(c, 0.0)}
        load: dict[tuple[int, int], float] = {}
        # First the ways that partial rows take, then all others, lowest channels first.
        ways = [*gone, *((c, d) for c in sorted(left) for d in sorted(wanted))]
        for c, d in ways:
            part = min(left.get(c, 0.0), wanted.get(d, 0.0))
            if part > 0.0:
                load[c, d] = load.get((c, d), 0.0) + part
                left[c] -= part
                wanted[d] -= part
        pairs = [(c, d) for c, d in sorted({*gone, *load}) if c != d]
        first = {d: c for c, d in reversed(pairs) if d not in had}
        yield [
            Flow(c, d, load.get((c, d), 0.0), gone.get((c, d), 0), int(first.get(d) == c))
            for c, d in pairs
        ]


def _owners(function: PartitioningFunction, hashes: Hashes) -> list[dict[int, float]]:
    """Return each key's owners and their shares."""
    found: list[dict[int, float]] = [{} for _ in hashes]
    for item, channel, share in zip(
        *(a.tolist() for a in placements(function, hashes)), strict=True
    ):
        found[item][channel] = share
    return found
