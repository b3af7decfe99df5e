"""Split keys: keys that several channels share by weight, each row with one of them.

Knows hashes, channel numbers and shares only; `partitioning.function.function` holds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from partitioning.errors import FAULT, InputError
from partitioning.function.hashing import Hashes, positions

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: A key's shares are whole numbers that add up to this: the same on disk, in NumPy and in SQL.
PARTS_OF_A_KEY = 2**24
#: Bits that a channel's number has at most. Two numbers and a share must fit 64 bits.
CHANNEL_BITS = 20


@dataclass(frozen=True, eq=False)
class Split:
    """K split keys and their M owners.

    Parameters
    ----------
    keys : int64 (K,), ascending: hashes of the keys
    starts : int64 (K + 1,): the owners of key i are numbers starts[i] to starts[i + 1] - 1
    channels : int32 (M,): each owner; a key's first one is its home
    shares : int64 (M,): share of the key's rows, over 0, in `PARTS_OF_A_KEY`

    Raises
    ------
    InputError : fewer than 2 owners of a key, or shares that do not add up
    """

    keys: Hashes = field(default_factory=lambda: np.empty(0, np.int64))
    starts: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    channels: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    shares: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        for name, kind in (("keys", "i8"), ("starts", "i8"), ("channels", "i4"), ("shares", "i8")):
            array = np.array(getattr(self, name), dtype=kind)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if np.any(self.keys[1:] <= self.keys[:-1]):
            raise InputError("split keys must be ascending and distinct", fix=FAULT)
        copies = np.diff(self.starts)
        key = np.repeat(np.arange(len(copies)), copies)
        if len(copies) != len(self.keys) or self.starts[0] != 0 or (copies < 2).any():
            raise InputError("a split key needs 2 owners or more", fix=FAULT)
        if not len(key) == len(self.channels) == len(self.shares):
            raise InputError("owners of split keys and their shares differ in number", fix=FAULT)
        if len(np.unique((key << CHANNEL_BITS) + self.channels)) != len(key):
            raise InputError("an owner of a split key is named twice", fix=FAULT)
        sums = np.bincount(key, self.shares, minlength=len(copies))
        if (self.shares < 1).any() or (sums != PARTS_OF_A_KEY).any():
            raise InputError(
                f"shares of a split key must be over 0 and add up to {PARTS_OF_A_KEY}", fix=FAULT
            )

    @classmethod
    def of(cls, weights: Mapping[int, Mapping[int, float]]) -> Split:
        """Build the split keys from {key hash: {channel: weight}}.

        Weights are in any unit; each key needs two or more over 0 after rounding. The owner with
        the largest weight comes first, of equal ones the lowest channel.
        """
        channels, shares, starts = [], [], [0]
        for h in sorted(weights):
            owners = sorted(weights[h].items(), key=lambda item: (-item[1], item[0]))
            given = np.array([w for _, w in owners], dtype=np.float64)
            exact = given / given.sum() * PARTS_OF_A_KEY
            parts = np.floor(exact).astype(np.int64)
            # None is off by more than one: a share over its channel's room would miss the aim.
            parts[
                np.argsort(parts - exact, kind="stable")[: PARTS_OF_A_KEY - int(parts.sum())]
            ] += 1
            channels += [c for (c, _), part in zip(owners, parts, strict=True) if part]
            shares += parts[parts > 0].tolist()
            starts.append(len(channels))
        return cls(
            np.array(sorted(weights), dtype=np.int64),
            np.array(starts),
            np.array(channels, dtype=np.int32),
            np.array(shares, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def homes(self) -> npt.NDArray[np.int32]:
        """First owner of each key, int32 (K,)."""
        return self.channels[self.starts[:-1]]

    @property
    def weights(self) -> dict[int, dict[int, float]]:
        """Inverse of `of`."""
        owners = zip(self.channels.tolist(), self.shares.tolist(), strict=True)
        copies = np.diff(self.starts).tolist()
        return {
            h: {c: float(parts) for c, parts in islice(owners, count)}
            for h, count in zip(self.keys.tolist(), copies, strict=True)
        }

    def find(self, hashes: Hashes) -> Ints:
        """Return the number of each hash among the keys, int64 (n,); -1: it is not split."""
        return positions(hashes, self.keys)

    def pick(self, key: Ints, rows: Hashes) -> npt.NDArray[np.int32]:
        """Return the owner of each row, int32 (n,).

        Parameters
        ----------
        key : int64 (n,): number of each row's key
        rows : int64 (n,): hash of each row; its highest bits draw a cell of the key's in `table`,
            its lowest 24 one of the cell's two owners
        """
        drawn = rows.view(np.uint64) >> np.uint64(64 - self.bits)
        cell = self.table[(key << self.bits) + drawn.astype(np.int64)].view(np.uint64)
        first = (rows & (PARTS_OF_A_KEY - 1)).view(np.uint64) < cell >> np.uint64(2 * CHANNEL_BITS)
        owner = cell >> np.where(first, 0, CHANNEL_BITS).astype(np.uint64)
        return (owner & np.uint64(2**CHANNEL_BITS - 1)).astype(np.int32)

    def owners(self, key: Ints) -> tuple[Ints, npt.NDArray[np.int32], Floats]:
        """Return all owners of some keys, m in total.

        Parameters
        ----------
        key : int64 (n,): numbers of the keys

        Returns
        -------
        position in `key`, channel, and share from 0 to 1 of each owner, all (m,)
        """
        copies = self.starts[key + 1] - self.starts[key]
        item = np.repeat(np.arange(len(key)), copies)
        at = np.arange(len(item)) + np.repeat(self.starts[key] - np.cumsum(copies) + copies, copies)
        return item, self.channels[at], self.shares[at] / PARTS_OF_A_KEY

    @property
    def most_owners(self) -> int:
        """Most channels that share a key; 0: no key is split."""
        return int(np.diff(self.starts).max(initial=0))

    @property
    def bits(self) -> int:
        """Each key has 2^bits cells in `table`."""
        return (max(self.most_owners, 2) - 1).bit_length()

    @cached_property
    def table(self) -> Ints:
        """Return the cells that rows draw their owner from, int64 (K 2^bits,).

        A cell holds one owner in its lowest bits, and another `CHANNEL_BITS` higher. Above both is
        the part of its rows, in `PARTS_OF_A_KEY`, that the first owner gets.

        This is the alias method (Walker, 1977; Vose, 1991) in whole numbers. NumPy and SQL read the
        same table.
        """
        size = 1 << self.bits
        cells = []
        for first, end in zip(self.starts.tolist(), self.starts[1:].tolist(), strict=False):
            owners = self.channels[first:end].tolist()
            left = [parts * size for parts in self.shares[first:end].tolist()]
            left += [0] * (size - len(left))
            small = [i for i, parts in enumerate(left) if parts < PARTS_OF_A_KEY]
            large = [i for i, parts in enumerate(left) if parts > PARTS_OF_A_KEY]
            own = [owners[i] if i < len(owners) else 0 for i in range(size)]
            keep, other = [0] * size, own.copy()  # a full cell: all its rows go to `other`
            while small and large:
                i, j = small.pop(), large[-1]
                keep[i], other[i] = left[i], owners[j]
                left[j] -= PARTS_OF_A_KEY - left[i]
                if left[j] <= PARTS_OF_A_KEY and left[large.pop()] < PARTS_OF_A_KEY:
                    small.append(j)
            cells += [
                k << 2 * CHANNEL_BITS | b << CHANNEL_BITS | a
                for a, b, k in zip(own, other, keep, strict=True)
            ]
        return np.array(cells, dtype=np.uint64).view(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "keys": self.keys.tolist(),
            "owners": [c.tolist() for c in np.split(self.channels, self.starts[1:-1])],
            "shares": [s.tolist() for s in np.split(self.shares, self.starts[1:-1])],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Split:
        """Build it from `to_dict`; raise InputError, KeyError, TypeError or ValueError."""
        return cls(
            np.array(data["keys"], dtype=np.int64),
            np.cumsum([0, *(len(owners) for owners in data["owners"])]),
            np.array([c for owners in data["owners"] for c in owners], dtype=np.int32),
            np.array([s for shares in data["shares"] for s in shares], dtype=np.int64),
        )
