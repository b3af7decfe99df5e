"""Records of arrays: read-only in memory, and as .npz files."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from partitioning.errors import DamagedError

#: Heads of .npy files that a process keeps parsed. Profiles of one table share theirs.
KEPT_HEADERS = 1024
#: Array that names which an array of texts cannot hold are in, as JSON.
_JSON = "heavy_names_json"
#: Characters that an array of texts may have, whatever the texts' own lengths.
_MOST_PLAIN = 1 << 20


def make_read_only(record: Any) -> None:
    """Make the arrays of a record read-only, because plans are cached by its identity.

    An array is copied unless it and every array under it are read-only: its maker, or a view that
    its maker took before, could still write to it.
    """
    for name, values in vars(record).items():
        if isinstance(values, np.ndarray) and _writeable(values):
            values = values.copy()
            values.flags.writeable = False
            object.__setattr__(record, name, values)


def _writeable(values: Any) -> bool:
    """Return whether the array, or memory that it is a view of, can be written to."""
    while isinstance(values, np.ndarray):
        if values.flags.writeable:
            return True
        values = values.base
    return values is not None and not isinstance(values, bytes)


def pack(record: Any) -> bytes:
    """Write the fields of a record as an .npz, without pickle."""
    arrays: dict[str, Any] = {}
    for f in fields(record):
        item = getattr(record, f.name)
        if f.name == "key":
            arrays["key_names"] = np.array([c.name for c in item], dtype=np.str_)
            arrays["key_types"] = np.array([c.type for c in item], dtype=np.str_)
        elif f.name == "heavy_names" and _need_json(item):
            arrays[_JSON] = np.frombuffer(json.dumps(item).encode(), dtype=np.uint8)
        elif f.name in ("heavy_names", "window"):
            arrays[f.name] = np.array(item, dtype=np.str_)
        else:
            arrays[f.name] = np.asarray(item)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _need_json(names: Sequence[str]) -> bool:
    """Return whether an array of texts would change names, or be far larger than they are.

    NumPy gives each text the length of the longest, and drops null characters at its end.
    """
    most = max(map(len, names), default=0)
    return any(n.endswith("\0") for n in names) or (
        most * len(names) > max(_MOST_PLAIN, 4 * sum(map(len, names)))
    )


def unpack(data: bytes, where: str) -> dict[str, Any]:
    """Read the fields of a record; key columns stay as `key_names` and `key_types`.

    Raises
    ------
    DamagedError : bytes that are no whole .npz; zip's checksums find a torn file
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            values: dict[str, Any] = {n: _array(archive.read(f"{n}.npy")) for n in names}
    except Exception as e:  # zip, zlib, struct and NumPy raise their own
        raise DamagedError(f"cannot be read ({e})", where, "Delete it and learn again") from e
    for name, convert in (
        ("error", float),
        ("chance", float),
        ("rows", int),
        ("events", int),
        ("uncertain", str),
    ):
        if name in values and values[name].ndim == 0:
            values[name] = convert(values[name])
    if _JSON in values:
        values["heavy_names"] = json.loads(values.pop(_JSON).tobytes())
    if "heavy_names" in values:
        values["heavy_names"] = tuple(str(n) for n in values["heavy_names"])
    return values


def _array(data: bytes) -> npt.NDArray[Any]:
    """Return the array of an .npy file, as a view of its bytes.

    NumPy's own reader parses the header as Python each time. A profile has 17 small arrays, and
    most of their time would go there.
    """
    start = 10 + int.from_bytes(data[8:10], "little")
    dtype, shape, order = _header(data[:start])
    count = int(np.prod(shape))
    if len(data) != start + count * dtype.itemsize:
        raise ValueError(f"{len(data) - start} bytes of an array, expected {count} x {dtype}")
    return np.frombuffer(data, dtype, count, start).reshape(shape, order=order)


@lru_cache(KEPT_HEADERS)
def _header(data: bytes) -> tuple[np.dtype[Any], tuple[int, ...], Literal["C", "F"]]:
    """Return the type, the shape and the order that the head of an .npy file tells."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"an array of .npy version {version}, expected (1, 0)")
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which may run code")
    return dtype, shape, "F" if by_column else "C"
