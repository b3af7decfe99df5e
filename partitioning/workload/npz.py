"""Records of arrays: read-only in memory, and as .npz files."""

from __future__ import annotations

import io
from dataclasses import fields
from typing import Any

import numpy as np

from partitioning.errors import DamagedError


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
        elif f.name in ("heavy_names", "window"):
            arrays[f.name] = np.array(item, dtype=np.str_)
        else:
            arrays[f.name] = np.asarray(item)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def unpack(data: bytes, where: str) -> dict[str, Any]:
    """Read the fields of a record; key columns stay as `key_names` and `key_types`.

    Raises
    ------
    DamagedError : bytes that are no whole .npz; zip's checksums find a torn file
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            values: dict[str, Any] = {name: archive[name] for name in archive.files}
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
    if "heavy_names" in values:
        values["heavy_names"] = tuple(str(n) for n in values["heavy_names"])
    return values
