"""Key hashing: 64-bit hashes that equal Spark's `xxhash64(columns...)` bit for bit.

Owns the list of key types. Spark's rules (org.apache.spark.sql.catalyst.expressions.XXH64): the
seed is 42. Each further column is hashed with the hash so far as its seed. A null leaves the hash
unchanged. Types tinyint, smallint, int and date hash as 4 little-endian bytes, bigint as 8, string
and binary as their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from partitioning.errors import InputError

Hashes = npt.NDArray[np.int64]

#: Seed of Spark's xxhash64. Any other gives other hashes than Spark's.
SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)

#: Spark SQL's name of each key type -> the Arrow type that its values are read as.
KEY_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
}


@dataclass(frozen=True)
class KeyColumn:
    """A column of the key: its name and its Spark SQL type (one of `hashing.KEY_TYPES`)."""

    name: str
    type: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(
                f"expected text, got {self.name!r}",
                "name of a key column",
                "Put the name in quotes",
            )
        if self.type not in KEY_TYPES:
            raise InputError(
                f"type {self.type!r} cannot be a key",
                f"column {self.name!r}",
                f"Allowed: {', '.join(KEY_TYPES)}",
            )


_U64 = npt.NDArray[np.uint64]


def _rotate(x: _U64, bits: int) -> _U64:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _avalanche(x: _U64) -> _U64:
    x = (x ^ (x >> np.uint64(33))) * _P2
    x = (x ^ (x >> np.uint64(29))) * _P3
    return x ^ (x >> np.uint64(32))


def _hash_4_bytes(values: pa.Array, seeds: _U64) -> _U64:
    words = values.cast(pa.int32()).to_numpy(zero_copy_only=False).view(np.uint32)
    x = (seeds + _P5 + np.uint64(4)) ^ (words.astype(np.uint64) * _P1)
    return _avalanche(_rotate(x, 23) * _P2 + _P3)


def _hash_8_bytes(values: pa.Array, seeds: _U64) -> _U64:
    words = values.to_numpy(zero_copy_only=False).view(np.uint64)
    x = (seeds + _P5 + np.uint64(8)) ^ (_rotate(words * _P2, 31) * _P1)
    return _avalanche(_rotate(x, 27) * _P1 + _P4)


def _hash_bytes(values: pa.Array, seeds: _U64) -> _U64:
    data = values.cast(pa.binary()).to_pylist()
    return np.fromiter(
        (xxhash.xxh64_intdigest(d, s) for d, s in zip(data, seeds.tolist(), strict=True)),
        dtype=np.uint64,
        count=len(data),
    )


_HASHERS: dict[str, Callable[[pa.Array, _U64], _U64]] = {
    "string": _hash_bytes,
    "binary": _hash_bytes,
    "tinyint": _hash_4_bytes,
    "smallint": _hash_4_bytes,
    "int": _hash_4_bytes,
    "bigint": _hash_8_bytes,
    "date": _hash_4_bytes,
}


def key_hash(columns: Sequence[Any], types: Sequence[str]) -> Hashes:
    """Hash composite keys as Spark's `xxhash64` would.

    Parameters
    ----------
    columns : one array-like of shape (n,) for each key column (list, NumPy, pandas or Arrow);
        None, NaN in an object column, and Arrow nulls count as null
    types : the Spark SQL type of each column, from `KEY_TYPES`

    Returns
    -------
    int64 array of shape (n,)

    Raises
    ------
    InputError : an unknown type, columns of different lengths, or values that do not fit a type

    Source: docs/ARCHITECTURE.md, "The function"; XXH64 by Y. Collet.
    """
    if len(columns) != len(types):
        raise InputError(
            f"{len(columns)} key columns given where {len(types)} are declared",
            fix="Give one array for each key column",
        )
    arrays = [_to_arrow(c, t, i) for i, (c, t) in enumerate(zip(columns, types, strict=True))]
    if len({len(a) for a in arrays}) > 1:
        raise InputError(
            f"key columns of different lengths: {[len(a) for a in arrays]}",
            fix="Give as many values of each",
        )
    hashes = np.full(len(arrays[0]) if arrays else 0, SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for array, kind in zip(arrays, types, strict=True):
            present = array.is_valid().to_numpy(zero_copy_only=False)
            if present.all():
                hashes = _HASHERS[kind](array, hashes)
            else:
                hashes[present] = _HASHERS[kind](array.drop_null(), hashes[present])
    return hashes.view(np.int64)


def _to_arrow(column: Any, kind: str, position: int) -> pa.Array:
    if kind not in KEY_TYPES:
        raise InputError(
            f"a key of type {kind!r} cannot be hashed",
            f"key column {position + 1}",
            f"Allowed: {', '.join(KEY_TYPES)}",
        )
    try:
        array = column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_dictionary(array.type):  # a pandas categorical
            array = array.dictionary_decode()
        if hexadecimal(array, kind):
            raise TypeError("a text in hexadecimal, which Spark casts to no number")
        if _rounded(array, kind):
            raise TypeError(f"a {array.type} so large that it may have been another number")
        if array.null_count < len(array) and _unlike_spark(array.type, kind):
            raise TypeError(f"{array.type}, which Spark casts to another value")
        return array.cast(KEY_TYPES[kind])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"values are not of the declared type {kind} ({error})",
            f"key column {position + 1}",
            f"Convert them to {kind} first",
        ) from error


_IS_TEXT = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view


def hexadecimal(array: pa.Array, kind: str) -> bool:
    """Return whether texts for a whole number are in hexadecimal, as 0x10: Arrow would take 16."""
    text = any(is_(array.type) for is_ in _IS_TEXT)
    if not text or not pa.types.is_integer(KEY_TYPES[kind]):
        return False
    return any(text is not None and "x" in text.lower() for text in array.to_pylist())


#: Arrow's floats -> the least number that each also makes of the whole number after it.
_ROUNDED_FROM = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}


def _rounded(array: pa.Array, kind: str) -> bool:
    """Return whether floats for a whole number may have been rounded, as pandas does by a null."""
    limit = _ROUNDED_FROM.get(array.type)
    if limit is None or not pa.types.is_integer(KEY_TYPES[kind]):
        return False
    return bool((np.abs(array.drop_null().to_numpy(zero_copy_only=False)) >= limit).any())


def _unlike_spark(found: pa.DataType, kind: str) -> bool:
    """Return whether Arrow casts some values to others than Spark's CAST to the key type `kind`."""
    if kind == "date":
        return pa.types.is_timestamp(found) and found.tz is not None
    if pa.types.is_temporal(found):
        return not pa.types.is_date(found)
    # Arrow writes decimals of other scales with an exponent: 0E-8.
    exponent = pa.types.is_decimal(found) and not 0 <= found.scale <= 6
    return kind == "string" and (exponent or pa.types.is_floating(found))


def slot_of(hashes: Hashes, slots: int) -> npt.NDArray[np.int32]:
    """Return the slot of each hash: h mod S, never negative; shape (n,)."""
    return np.mod(hashes, slots).astype(np.int32)


def positions(hashes: Hashes, keys: Hashes) -> npt.NDArray[np.int64]:
    """Return where each hash is among the keys, int64 (n,); -1: it is not among them.

    Parameters
    ----------
    hashes : int64 (n,)
    keys : int64 (K,), ascending
    """
    if not len(keys):
        return np.full(len(hashes), -1)
    at = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
    return np.where(keys[at] == hashes, at, -1)
