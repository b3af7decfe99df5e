"""Options of frontier: checked when they are made, with the keys that a person names in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partitioning.errors import InputError
from partitioning.function.channels import Channel
from partitioning.function.hashing import Hashes, KeyColumn, key_hash
from partitioning.function.key_text import BETWEEN, key_columns

#: Default of the option `worth`, in channels' mean state for each partial row that is spared. A
#: larger value moves more slots so that fewer channels share a key. Chosen because a key with half
#: of the load fits on half of the channels, for at most one channel's state each.
WORTH = 2.0


@dataclass(frozen=True, eq=False)
class FrontierOptions:
    """Hold the options of `frontier`, which are checked here.

    Parameters
    ----------
    max_imbalance : imbalance to stop at, 1 or more (1 is perfect). None, or less than can be
        reached: as even as possible
    budget : bytes of state that may move in all. None: no limit. It comes before `max_imbalance`
    resources : what to even out, as letters: L (load), C (keys, one row of state each), B (bytes
        of state), Q (square of each key's load). "LCL" is how Gedik writes L and C. A spec must
        have L, and only one of them with `split`
    pinned : {key: name of the channel that it is put on}. Keys are written as plans write them
    excluded : keys that stay on their channel, unless it closes
    seconds : time after which the search ends with the best plan found. None: it ends when nothing
        helps, and equal input gives an equal function
    splitting : share keys between channels. It applies to keys too heavy for one channel, and to
        lighter ones where the budget is too small to move whole items. No key is split where whole
        keys reach `max_imbalance`. A change of shares moves no bytes. A new owner's
        copy counts in full, and so does the partial row of an owner that leaves or closes
    copies : most channels that share a key, 2 or more, unless the budget does not allow the change.
        None: any number
    worth : state to move for each partial row spared, in channels' mean state. Slots make room for
        a key so that few channels hold it. 0: no slot makes room, and every channel with room
        shares the key

    Raises
    ------
    InputError : a value out of its range

    Examples
    --------
    >>> FrontierOptions(max_imbalance=1.05).recorded()["max_imbalance"]
    1.05
    >>> FrontierOptions(copies=3)
    Traceback (most recent call last):
    partitioning.errors.InputError: copies: expected 2 or more, and splitting=True, got 3. Leave \
it out for any number
    """

    max_imbalance: float | None = None
    budget: float | None = None
    resources: str = "L"
    pinned: Mapping[str, str] | None = None
    excluded: Sequence[str] | None = None
    seconds: float | None = None
    splitting: bool = False
    copies: int | None = None
    worth: float = WORTH

    def __post_init__(self) -> None:
        if self.max_imbalance is not None and not self.max_imbalance >= 1:
            raise InputError(
                f"expected 1 (perfect) or more, got {self.max_imbalance}",
                "max_imbalance",
                "Give 1.05 to allow 5 % over the mean",
            )
        if self.budget is not None and not self.budget >= 0:
            raise InputError(
                f"expected 0 bytes or more, got {self.budget}",
                "budget",
                "Leave it out for no limit",
            )
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(
                f"expected more than 0 seconds, got {self.seconds}",
                "seconds",
                "Leave it out for no limit",
            )
        if self.copies is not None and (self.copies < 2 or not self.splitting):
            raise InputError(
                f"expected 2 or more, and splitting=True, got {self.copies}",
                "copies",
                "Leave it out for any number",
            )
        if not 0 <= self.worth < np.inf:
            raise InputError(
                f"expected 0 or more, finite, got {self.worth}",
                "worth",
                "Leave it out for its default",
            )

    def recorded(self) -> dict[str, Any]:
        """Return the options as the function records them; newer ones only where they are set.

        Functions that were made before an option existed then keep their digest.
        """
        options: dict[str, Any] = {
            "max_imbalance": self.max_imbalance,
            "budget": self.budget,
            "resources": self.resources,
            "pinned": dict(self.pinned or {}),
            "excluded": list(self.excluded or ()),
            "seconds": self.seconds,
        }
        options |= {"splitting": True} if self.splitting else {}
        options |= {} if self.copies is None else {"copies": self.copies}
        return options | ({} if self.worth == WORTH else {"worth": self.worth})


def hashes_of(key: Sequence[KeyColumn], names: Iterable[str], option: str) -> Hashes:
    """Return the hash of each key, int64 (n,); keys are written as for `key_columns`.

    Raises
    ------
    InputError : a key that does not have the columns, or values that are not of their types
    """
    types = [c.type for c in key]
    found = []
    for name in map(str, names):
        try:
            found.append(key_hash(key_columns([name], types), types)[0])
        except InputError as error:
            columns = BETWEEN.join(f"{c.name} {c.type}" for c in key)
            raise InputError(
                f"expected a key ({columns}), got {name!r}",
                option,
                "Write one value for each column, in this order",
            ) from error
    return np.array(found, dtype=np.int64)


def places_of(
    key: Sequence[KeyColumn], pinned: Mapping[str, str], channels: Sequence[Channel]
) -> dict[int, int]:
    """Return the channel number of each pinned key's hash.

    Raises
    ------
    InputError : as `hashes_of`; also a channel that is not there, or is closed
    """
    numbers = {c.name: i for i, c in enumerate(channels) if c.capacity > 0}
    if unknown := sorted(set(map(str, pinned.values())) - set(numbers)):
        raise InputError(
            f"no open channel {', '.join(unknown)}",
            "pinned",
            "Name a channel with a capacity above 0",
        )
    hashes = hashes_of(key, pinned, "pinned").tolist()
    return {h: numbers[str(c)] for h, c in zip(hashes, pinned.values(), strict=True)}


def named_keys(
    key: Sequence[KeyColumn], channels: Sequence[Channel], options: Mapping[str, Any]
) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Return (hash, number of its channel) of each pinned key, and the hash of each excluded one.

    Parameters
    ----------
    options : of the frontier

    Raises
    ------
    InputError : as `places_of`
    """
    put = places_of(key, options.get("pinned") or {}, channels)
    stay = hashes_of(key, options.get("excluded") or (), "excluded")
    return tuple(put.items()), tuple(stay.tolist())
