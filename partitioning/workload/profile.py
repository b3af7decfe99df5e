"""Sketches and profiles: what a window's load and the state's weight look like, key-free.

A sketch sums up one piece of a window (a day, say). Slot totals are exact; keys are listed
only where they are heavy. A profile is sketches merged, plus what the state weighs.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from partitioning.errors import DamagedError, InputError
from partitioning.function.function import KeyColumn
from partitioning.function.hashing import Hashes, slot_of

Floats = npt.NDArray[np.float64]
Packed = bytes  # `bytes` is a field's name below


def sums_by(index: npt.NDArray[Any], values: Floats, count: int) -> Floats:
    """Sum of `values` (n,) for each value 0 to count - 1 of `index` (n,): shape (count,)."""
    return np.bincount(index, values, minlength=count).astype(np.float64, copy=False)


def _freeze(record: Sketch | Profile) -> None:
    """Make the arrays of a record read-only, because plans are cached by its identity.

    An array that owns its memory is kept and locked, so that its maker cannot write to it either.
    A view of writable memory is copied, because its owner could still write to it.
    """
    for name, values in vars(record).items():
        if isinstance(values, np.ndarray) and values.flags.writeable:
            values = values if values.base is None else values.copy()
            values.flags.writeable = False
            object.__setattr__(record, name, values)


@dataclass(frozen=True, eq=False)
class Sketch:
    """Describe the load of one piece of a window; its arrays are read-only.

    Parameters
    ----------
    load : float64 (S,): load of each slot, heavy keys included
    heavy : int64 (K,), ascending: hashes of the keys that this piece lists
    heavy_load : float64 (K,): load of each
    heavy_names : (K,): how a person writes each key
    error : no key that is not listed has more load than this
    rows : input rows counted
    hours : float64 (24,): load of each hour of the day that the piece is; empty: it is not told
    """

    load: Floats
    heavy: Hashes
    heavy_load: Floats
    heavy_names: tuple[str, ...]
    error: float
    rows: int
    hours: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        _freeze(self)

    def by_hour(self) -> Floats:
        """Load of each hour of the day, float64 (24,): evenly, where it is not told."""
        return self.hours if self.hours.size else np.full(24, float(self.load.sum()) / 24)


@dataclass(frozen=True, eq=False)
class Profile:
    """Describe the load of the window and the weight of the state, by slot and heavy key.

    A plan is made from it. Its arrays are read-only.

    Parameters
    ----------
    key : the key's columns
    load, bytes, rows : float64 (S,): per slot, heavy keys included: load of the window (in the
        spec's unit, rows by default), bytes and rows of state
    heavy : int64 (K,), ascending: hashes of the heavy keys
    heavy_load, heavy_bytes, heavy_rows : float64 (K,): the same for each heavy key
    heavy_names : (K,): how a person writes each key
    error : bound on how far any key's load may be understated
    window : (first day, day after the last) as ISO dates; ("", "") where there is no time
    events : input rows of the window
    surprises : float64 (E, S + K): errors of E past forecasts, in the unit of load: of each slot's
        tail, then of each heavy key; none where `load` is no forecast
    heavy_copy_bytes, heavy_copy_rows : float64 (K,), counted in `heavy_bytes` and `heavy_rows`: one
        copy of what each heavy key has in state tables that every owner has a copy of; empty: none
        has any
    """

    key: tuple[KeyColumn, ...]
    load: Floats
    bytes: Floats
    rows: Floats
    heavy: Hashes
    heavy_load: Floats
    heavy_bytes: Floats
    heavy_rows: Floats
    heavy_names: tuple[str, ...]
    error: float = 0.0
    window: tuple[str, str] = ("", "")
    events: int = 0
    surprises: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    heavy_copy_bytes: Floats = field(default_factory=lambda: np.zeros(0))
    heavy_copy_rows: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        copies = ("heavy_copy_bytes", "heavy_copy_rows")
        for name in copies:
            if not getattr(self, name).size:
                object.__setattr__(self, name, np.zeros(len(self.heavy)))
            if getattr(self, name).shape != self.heavy.shape:
                raise InputError(f"{name} must be one a heavy key", "profile")
        for name in ("load", "bytes", "rows", "heavy_load", "heavy_bytes", "heavy_rows", *copies):
            values = getattr(self, name)
            if not np.isfinite(values).all() or (values < 0).any():
                raise InputError(f"{name} must be finite and not negative", "profile")
        fits = self.surprises.shape[1:] == (len(self.load) + len(self.heavy),)
        if len(self.surprises) and not (fits and np.isfinite(self.surprises).all()):
            raise InputError("surprises must be finite, one an item", "profile")
        _freeze(self)

    @property
    def slots(self) -> int:
        """S, the number of slots."""
        return len(self.load)

    @property
    def heavy_slots(self) -> npt.NDArray[np.int32]:
        """Slot of each heavy key, int32 (K,)."""
        return slot_of(self.heavy, self.slots)

    def tail(self, values: Floats, heavy_values: Floats) -> Floats:
        """Per slot, what is left of `values` (S,) without the heavy keys' `heavy_values` (K,)."""
        left = values - sums_by(self.heavy_slots, heavy_values, self.slots)
        return np.maximum(left, 0.0)

    def listing(self, hashes: Hashes) -> Profile:
        """The same profile with these keys listed too; those it did not list get no load of
        their own (theirs stays with their slot)."""
        extra = np.setdiff1d(hashes, self.heavy)
        if not len(extra):
            return self
        order = np.argsort(np.concatenate([self.heavy, extra]))
        names = (*self.heavy_names, *(str(h) for h in extra))

        def padded(values: Floats) -> Floats:
            return np.concatenate([values, np.zeros(len(extra))])[order]

        surprises = self.surprises
        if len(surprises):
            keys = np.pad(surprises[:, self.slots :], ((0, 0), (0, len(extra))))[:, order]
            surprises = np.hstack([surprises[:, : self.slots], keys])
        return replace(
            self,
            surprises=surprises,
            heavy=np.concatenate([self.heavy, extra])[order],
            heavy_load=padded(self.heavy_load),
            heavy_bytes=padded(self.heavy_bytes),
            heavy_rows=padded(self.heavy_rows),
            heavy_copy_bytes=padded(self.heavy_copy_bytes),
            heavy_copy_rows=padded(self.heavy_copy_rows),
            heavy_names=tuple(names[i] for i in order),
        )

    def without(self, hashes: Hashes) -> Profile:
        """The same profile not listing these keys: what they have stays with their slot."""
        kept = ~np.isin(self.heavy, hashes)
        surprises = self.surprises
        if len(surprises):
            slots, keys = surprises[:, : self.slots].copy(), surprises[:, self.slots :]
            np.add.at(slots.T, self.heavy_slots[~kept], keys[:, ~kept].T)
            surprises = np.hstack([slots, keys[:, kept]])
        return replace(
            self,
            surprises=surprises,
            heavy=self.heavy[kept],
            heavy_load=self.heavy_load[kept],
            heavy_bytes=self.heavy_bytes[kept],
            heavy_rows=self.heavy_rows[kept],
            heavy_copy_bytes=self.heavy_copy_bytes[kept],
            heavy_copy_rows=self.heavy_copy_rows[kept],
            heavy_names=tuple(n for n, k in zip(self.heavy_names, kept.tolist(), strict=True) if k),
            error=max(self.error, float(self.heavy_load[~kept].max(initial=0.0))),
        )

    def sketch(self) -> Sketch:
        """Its load alone."""
        return Sketch(
            self.load, self.heavy, self.heavy_load, self.heavy_names, self.error, self.events
        )

    def to_bytes(self) -> Packed:
        """As an .npz without pickle; zip's checksums find a torn file."""
        return _pack(self)

    @classmethod
    def from_bytes(cls, data: Packed, where: str = "profile") -> Profile:
        """Inverse of `to_bytes`; raises DamagedError."""
        values = _unpack(data, where)
        try:
            kinds = zip(values.pop("key_names"), values.pop("key_types"), strict=True)
            values["key"] = tuple(KeyColumn(str(n), str(t)) for n, t in kinds)
            values["window"] = tuple(str(t) for t in values["window"])
            return cls(**values)
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise DamagedError(
                f"not a profile ({error})", where, "Learn again: start a new run"
            ) from error


def sketch_to_bytes(sketch: Sketch) -> bytes:
    """As an .npz without pickle."""
    return _pack(sketch)


def sketch_from_bytes(data: bytes, where: str = "sketch") -> Sketch:
    """Inverse of `sketch_to_bytes`; raises DamagedError."""
    try:
        made = Sketch(**_unpack(data, where))
        if made.hours.shape not in ((0,), (24,)):
            raise ValueError(f"{made.hours.shape} hours")
        return made
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"not a sketch ({error})", where, "Delete it and learn again") from error


def _pack(value: Any) -> bytes:
    arrays: dict[str, Any] = {}
    for f in fields(value):
        item = getattr(value, f.name)
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


def _unpack(data: bytes, where: str) -> dict[str, Any]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            values: dict[str, Any] = {name: archive[name] for name in archive.files}
    except Exception as e:  # of zip, zlib, struct and NumPy: each damage has its own
        raise DamagedError(f"cannot be read ({e})", where, "Delete it and learn again") from e
    for name, convert in (("error", float), ("rows", int), ("events", int)):
        if name in values and values[name].ndim == 0:
            values[name] = convert(values[name])
    if "heavy_names" in values:
        values["heavy_names"] = tuple(str(n) for n in values["heavy_names"])
    return values


def merge(sketches: Sequence[Sketch]) -> Sketch:
    """One sketch for several pieces. Slot totals add up exactly; a key that some pieces do not
    list is understated by at most the sum of those pieces' errors.

    Raises
    ------
    InputError : nothing to merge, or sketches with different numbers of slots
    """
    if not sketches:
        raise InputError("there is no sketch to merge")
    if len({len(s.load) for s in sketches}) > 1:
        raise InputError(
            f"sketches disagree on the number of slots: {sorted({len(s.load) for s in sketches})}"
        )
    every = np.concatenate([s.heavy for s in sketches])
    heavy, first, inverse = np.unique(every, return_index=True, return_inverse=True)
    names = [n for s in sketches for n in s.heavy_names]
    loads = np.concatenate([s.heavy_load for s in sketches])
    return Sketch(
        load=np.sum([s.load for s in sketches], axis=0),
        heavy=heavy,
        heavy_load=sums_by(inverse, loads, len(heavy)),
        heavy_names=tuple(names[i] for i in first),
        error=float(sum(s.error for s in sketches)),
        rows=sum(s.rows for s in sketches),
    )


def profile_of_keys(
    key: tuple[KeyColumn, ...],
    hashes: Hashes,
    load: Floats,
    slots: int,
    *,
    state: Floats | None = None,
    threshold: float = 0.0,
    listed: Hashes | None = None,
    names: Sequence[str] | None = None,
) -> Profile:
    """An exact profile from every key's load: for tests, benchmarks and backtests.

    Parameters
    ----------
    hashes, load : int64 and float64 (n,): each key's hash (distinct) and load
    state : float64 (n,): bytes of state of each key; 1 row of `state` bytes a key; default: load
    threshold : keys with at least this load are listed as heavy
    listed : hashes of keys that are listed whatever their load
    """
    state = load if state is None else state
    slot = slot_of(hashes, slots)
    wanted = load >= threshold
    if listed is not None:
        wanted |= np.isin(hashes, listed)
    picked = np.flatnonzero(wanted)
    picked = picked[np.argsort(hashes[picked])]
    return Profile(
        key=key,
        load=sums_by(slot, load, slots),
        bytes=sums_by(slot, state, slots),
        rows=np.bincount(slot, minlength=slots).astype(np.float64),
        heavy=hashes[picked],
        heavy_load=load[picked],
        heavy_bytes=state[picked],
        heavy_rows=np.ones(len(picked)),
        heavy_names=tuple(str(hashes[i] if names is None else names[int(i)]) for i in picked),
        error=threshold,
        events=int(load.sum()),
    )
