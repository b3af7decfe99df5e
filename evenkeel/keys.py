"""Keys as people type them: one text a key, the columns of a composite key by comma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partitioning.errors import InputError
from partitioning.hashing import KEY_TYPES


def key_columns(keys: Sequence[str], types: Sequence[str]) -> list[Any]:
    """Keys as typed -> one Arrow array (n,) for each key column.

    Raises
    ------
    InputError : another number of columns than the key has, or a value not of its type
    """
    import pyarrow as pa

    parts = [[k] if len(types) == 1 else k.split(",") for k in keys]
    for key, values in zip(keys, parts, strict=True):
        if len(values) != len(types):
            raise InputError(f"key {key!r} has {len(values)} columns, the table's has {len(types)}")
    columns = []
    for texts, kind in zip(zip(*parts, strict=True), types, strict=True):
        try:
            columns.append(pa.array(list(texts), pa.string()).cast(KEY_TYPES[kind]))
        except pa.ArrowInvalid as error:
            raise InputError(f"a key is not of type {kind} ({error})") from error
    return columns
