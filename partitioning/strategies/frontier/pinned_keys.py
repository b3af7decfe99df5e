"""Keys that a person names: those that stay where they are, and those put by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from partitioning.errors import InputError
from partitioning.function.function import Channel, KeyColumn
from partitioning.function.hashing import Hashes, key_hash
from partitioning.function.key_text import BETWEEN, key_columns


def hashes_of(key: Sequence[KeyColumn], names: Iterable[str], option: str) -> Hashes:
    """Hash of each key, int64 (n,), written as for `key_columns`.

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
            raise InputError(f"{name!r} is no key ({columns})", option) from error
    return np.array(found, dtype=np.int64)


def places_of(
    key: Sequence[KeyColumn], pinned: Mapping[str, str], channels: Sequence[Channel]
) -> dict[int, int]:
    """Channel number of each pinned key's hash.

    Raises
    ------
    InputError : as `hashes_of`; also a channel that is not there, or is closed
    """
    numbers = {c.name: i for i, c in enumerate(channels) if c.capacity > 0}
    if unknown := sorted(set(map(str, pinned.values())) - set(numbers)):
        raise InputError(f"no open channel {', '.join(unknown)}", "pinned")
    hashes = hashes_of(key, pinned, "pinned").tolist()
    return {h: numbers[str(c)] for h, c in zip(hashes, pinned.values(), strict=True)}
