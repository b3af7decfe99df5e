"""Keys that a person names: those that stay where they are, and those put by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from partitioning.errors import InputError
from partitioning.function import Channel, KeyColumn
from partitioning.hashing import Hashes, key_hash

BETWEEN = " | "


def hashes_of(key: Sequence[KeyColumn], names: Iterable[str], option: str) -> Hashes:
    """Hash of each key, written as plans write it: its columns' values, " | " between them.

    Raises
    ------
    InputError : a key that does not have the columns, or values that are not of their types
    """
    found = []
    for name in names:
        values = str(name).split(BETWEEN) if len(key) > 1 else [str(name)]
        try:
            typed = [[_value(v, c.type)] for v, c in zip(values, key, strict=True)]
            found.append(key_hash(typed, [c.type for c in key])[0])
        except (ValueError, InputError) as error:
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


def _value(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    if kind == "binary":
        return bytes.fromhex(text)
    return date.fromisoformat(text) if kind == "date" else int(text)
