"""Keys as typed: one text a key, its columns by comma or, as plans write them, by " | "."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from partitioning.errors import InputError
from partitioning.function.hashing import KEY_TYPES

BETWEEN = " | "


def key_columns(keys: Sequence[str], types: Sequence[str]) -> list[pa.Array]:
    """Parse keys as typed: one Arrow array (n,) a key column. Binary is typed in hexadecimal.

    Raises
    ------
    InputError : another number of columns than the key has, or a value not of its type
    """
    parts = [
        [key] if len(types) == 1 else key.split(BETWEEN if BETWEEN in key else ",") for key in keys
    ]
    for key, values in zip(keys, parts, strict=True):
        if len(values) != len(types):
            raise InputError(
                f"key {key!r} has {len(values)} columns, the table's has {len(types)}",
                fix="Write one value for each key column, with commas between them",
            )
    columns = []
    for i, kind in enumerate(types):
        texts = [values[i] for values in parts]
        try:
            typed = map(bytes.fromhex, texts) if kind == "binary" else texts
            columns.append(pa.array(list(typed)).cast(KEY_TYPES[kind]))
        except ValueError as error:  # Arrow's, too
            raise InputError(
                f"a key is not of type {kind} ({error})",
                fix="Write it as its type asks; binary is written in hexadecimal",
            ) from error
    return columns
