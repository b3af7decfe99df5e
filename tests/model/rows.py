"""Rows of a state table in the model: a whole key that moves, a split key, a late key.

A row is (key, channel, value). Values are sums of events, each of which is a power of 8: a lost or
doubled event shows in the sum whatever else was added.
"""

from __future__ import annotations

from typing import NamedTuple

#: Keys: one that moves, one that is split in some epochs, one that comes late, and one of which
#: each owner of the split key has a copy.
MOVED, SHARED, LATE, COPIED = range(4)
KEYS = ("whole key", "split key", "late key", "copied key")
#: Keys whose rows may stand on several channels.
OF_OWNERS = (SHARED, COPIED)
#: Events: each key's first ones, those of a first and a second day of windows, a partial row by
#: another writer, a late row.
FIRST, SECOND, WINDOW, PARTIAL, LATE_ROW, NEXT = (8**i for i in range(6))

Row = tuple[int, int, int]
Rows = tuple[Row, ...]


class Function(NamedTuple):
    """A partitioning function.

    Parameters
    ----------
    whole : channel of the whole key and of the late one
    owners : channels of the split key, its home first; a key with one owner is whole
    """

    whole: int
    owners: tuple[int, ...]

    def belongs(self, row: Row) -> int:
        """Return the channel where a row belongs: its own, for a partial or copy on an owner."""
        if row[0] not in OF_OWNERS:
            return self.whole
        return row[1] if row[1] in self.owners else self.owners[0]


def placed(rows: Rows, *functions: Function) -> bool:
    """Return whether each row stands where one of the functions puts it."""
    return all(any(f.belongs(row) == row[1] for f in functions) for row in rows)


def sums(rows: Rows) -> tuple[int, ...]:
    """Return the sum of each key's values; of copies, the value that all of them have."""
    found = [0] * len(KEYS)
    for key, _, value in rows:
        found[key] = value if key == COPIED else found[key] + value
    return tuple(found)


def copied(rows: Rows, function: Function) -> bool:
    """Return whether the owners, and no other channels, have copies, if there are copies at all."""
    channels = {row[1] for row in rows if row[0] == COPIED}
    return not channels or channels == {*function.owners}


def shared(*functions: Function) -> bool:
    """Return whether any of the functions splits the split key."""
    return any(len(f.owners) > 1 for f in functions)


def whole_moved(rows: Rows, source: Function, target: Function) -> Rows | None:
    """Return the rows after the UPDATE of whole keys; None if it has nothing to move."""
    split = shared(source, target)
    after = tuple(
        sorted(
            row if row[0] in OF_OWNERS and split else (row[0], target.belongs(row), row[2])
            for row in rows
        )
    )
    return None if after == rows else after


def joined(rows: Rows, target: Function, at_once: bool) -> Rows | str | None:
    """Return the rows after the MERGE that brings partial rows and copies to their owners.

    Parameters
    ----------
    at_once : duplicates (several partial rows on one channel) are joined first, as today's
        protocol does not

    Returns
    -------
    None if nothing is left to do; a text if Delta refuses the MERGE
    """
    wanted = rows
    if not copied(rows, target):
        value = sums(rows)[COPIED]
        left = [row for row in rows if row[0] != COPIED]
        wanted = tuple(sorted([*left, *((COPIED, owner, value) for owner in target.owners)]))
    parts = [row for row in rows if row[0] == SHARED]
    leaving = [row for row in parts if target.belongs(row) != row[1]]
    if not leaving:
        return None if wanted == rows else wanted
    rows, home = wanted, target.owners[0]
    others = [row for row in rows if row[0] != SHARED or target.belongs(row) == row[1] != home]
    at_home = [row for row in parts if row[1] == home]
    total = sum(row[2] for row in parts if target.belongs(row) == home)
    if at_once:
        return tuple(sorted([*others, (SHARED, home, total)]))
    channels = [row[1] for row in leaving]
    if len(set(channels)) < len(channels):
        return "several source rows match one target row"
    # One row of the source meets every row of the home: each becomes the total.
    return tuple(sorted([*others, *((SHARED, home, total) for _ in at_home or [None])]))


def windowed(rows: Rows, function: Function, value: int = WINDOW) -> Rows | None:
    """Return the rows after a window's MERGE, routed by `function`; None if the key has moved
    since, so that the constraint refuses all of it. Each of several rows on one channel gets it.
    """
    split, after = shared(function), []
    met = {MOVED: False, SHARED: False}
    for row in rows:
        key, channel, held = row
        owner = function.owners[0] if key == SHARED else function.whole
        if key in (LATE, COPIED) or (key == SHARED and split and channel != owner):
            after.append(row)
            continue
        if channel != owner:
            return None
        after.append((key, channel, held + value))
        met[key] = True
    for key, seen in met.items():
        if not seen:
            owner = function.owners[0] if key == SHARED else function.whole
            after.append((key, owner, value))
    return tuple(sorted(after))


def several(rows: Rows) -> bool:
    """Return whether a key has several rows on one channel."""
    at = [row[:2] for row in rows]
    return len(set(at)) < len(at)


def gathered(rows: Rows, function: Function) -> Rows:
    """Return the rows after a MERGE that leaves each key one row a channel, where it belongs."""
    total: dict[tuple[int, int], int] = {}
    for row in rows:
        at = row[0], function.belongs(row) if row[0] == SHARED else row[1]
        total[at] = total.get(at, 0) + row[2]
    return tuple(sorted((*at, value) for at, value in total.items()))
