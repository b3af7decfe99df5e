"""Sketches and profiles: what a window's load and the state's weight look like, key-free.

A sketch sums up one piece of a window (a day, say). Slot totals are exact; keys are listed
only where they are heavy. A profile is sketches merged, plus what the state weighs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from partitioning.errors import FAULT, DamagedError, InputError, without_advice
from partitioning.function.hashing import Hashes, KeyColumn, positions, slot_of
from partitioning.workload.npz import make_read_only, pack, unpack

Floats = npt.NDArray[np.float64]
Packed = bytes  # `bytes` is a field's name below
#: Least load of a heavy key, as a share of one channel's fair load. Lower: more keys can be placed
#: by name, and sketches and profiles grow.
HEAVY_SHARE = 0.01

Record = TypeVar("Record", "Sketch", "Profile")


def sums_by(index: npt.NDArray[Any], values: Floats, count: int) -> Floats:
    """Return the sum of `values` (n,) for each value of `index` (n,), 0 to count - 1: (count,)."""
    return np.bincount(index, values, minlength=count).astype(np.float64, copy=False)


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
        make_read_only(self)

    def without(self, hashes: Hashes) -> Sketch:
        """Return the sketch without listing these keys: their load stays with their slot."""
        return _without(self, hashes)

    def by_hour(self) -> Floats:
        """Return the load of each hour of the day, float64 (24,); unknown: equal parts."""
        return self.hours if self.hours.size else np.full(24, float(self.load.sum()) / 24)

    def to_bytes(self) -> Packed:
        """Write the sketch as an .npz without pickle."""
        return pack(self)

    @classmethod
    def from_bytes(cls, data: Packed, where: str = "sketch") -> Sketch:
        """Read what `to_bytes` wrote; raise DamagedError if it is not a whole sketch."""
        try:
            made = cls(**unpack(data, where))
            if made.hours.shape not in ((0,), (24,)):
                raise ValueError(f"{made.hours.shape} hours")
            return made
        except (KeyError, TypeError, ValueError) as error:
            what = f"not a sketch ({error})"
            raise DamagedError(what, where, "Delete it and learn again") from error


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
    chance : how far a channel's load may be off by chance, in parts of its fair share; 0 if it is
        not known
    uncertain : why `load` may be far from what comes; empty: nothing is known against it
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
    chance: float = 0.0
    uncertain: str = ""
    heavy_copy_bytes: Floats = field(default_factory=lambda: np.zeros(0))
    heavy_copy_rows: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        copies = ("heavy_copy_bytes", "heavy_copy_rows")
        for name in copies:
            if not getattr(self, name).size:
                object.__setattr__(self, name, np.zeros(len(self.heavy)))
            if getattr(self, name).shape != self.heavy.shape:
                raise InputError(f"{name} must be one a heavy key", "profile", FAULT)
        for name in ("load", "bytes", "rows", "heavy_load", "heavy_bytes", "heavy_rows", *copies):
            values = getattr(self, name)
            if not np.isfinite(values).all() or (values < 0).any():
                what = f"{name} must be finite and not negative"
                raise InputError(what, "profile", "Correct the load of the events")
        if not 0 <= self.chance < np.inf:
            what = f"chance must be finite and not negative, got {self.chance}"
            raise InputError(what, "profile", FAULT)
        make_read_only(self)

    @property
    def slots(self) -> int:
        """S, the number of slots."""
        return len(self.load)

    @property
    def heavy_slots(self) -> npt.NDArray[np.int32]:
        """Slot of each heavy key, int32 (K,)."""
        return slot_of(self.heavy, self.slots)

    def tail(self, values: Floats, heavy_values: Floats) -> Floats:
        """Return `values` (S,) of each slot without its heavy keys' `heavy_values` (K,)."""
        left = values - sums_by(self.heavy_slots, heavy_values, self.slots)
        return np.maximum(left, 0.0)

    def listing(self, hashes: Hashes) -> Profile:
        """Return the same profile with these keys listed too.

        A key that was not listed gets no load of its own: its load stays with its slot.
        """
        # Not by np.setdiff1d, which hashes both since NumPy 2.3, at hundreds of times the cost.
        extra = np.unique(hashes[positions(hashes, self.heavy) < 0])
        if not len(extra):
            return self
        order = np.argsort(np.concatenate([self.heavy, extra]))
        names = (*self.heavy_names, *(str(h) for h in extra))

        def padded(values: Floats) -> Floats:
            return np.concatenate([values, np.zeros(len(extra))])[order]

        return replace(
            self,
            heavy=np.concatenate([self.heavy, extra])[order],
            heavy_load=padded(self.heavy_load),
            heavy_bytes=padded(self.heavy_bytes),
            heavy_rows=padded(self.heavy_rows),
            heavy_copy_bytes=padded(self.heavy_copy_bytes),
            heavy_copy_rows=padded(self.heavy_copy_rows),
            heavy_names=tuple(names[i] for i in order),
        )

    def without(self, hashes: Hashes) -> Profile:
        """Return the profile without listing these keys: their load stays with their slot."""
        return _without(self, hashes)

    def sketch(self) -> Sketch:
        """Return its load alone."""
        return Sketch(
            self.load, self.heavy, self.heavy_load, self.heavy_names, self.error, self.events
        )

    def to_bytes(self) -> Packed:
        """Write the profile as an .npz without pickle."""
        return pack(self)

    @classmethod
    def from_bytes(cls, data: Packed, where: str = "profile") -> Profile:
        """Read what `to_bytes` wrote; raise DamagedError if it is not a whole profile."""
        values = unpack(data, where)
        try:
            kinds = zip(values.pop("key_names"), values.pop("key_types"), strict=True)
            values["key"] = tuple(KeyColumn(str(n), str(t)) for n, t in kinds)
            values["window"] = tuple(str(t) for t in values["window"])
            values.pop("surprises", None)  # of plans that earlier versions of Evenkeel made
            return cls(**values)
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise DamagedError(
                f"not a profile ({without_advice(error)})", where, "Learn again: start a new run"
            ) from error


def _without(record: Record, hashes: Hashes) -> Record:
    kept = ~np.isin(record.heavy, hashes)
    names = zip(record.heavy_names, kept.tolist(), strict=True)
    arrays = [f.name for f in fields(record) if f.name.startswith("heavy")]
    return replace(
        record,
        error=max(record.error, float(record.heavy_load[~kept].max(initial=0.0))),
        **{n: getattr(record, n)[kept] for n in arrays if n != "heavy_names"},
        heavy_names=tuple(name for name, k in names if k),
    )


def merge(sketches: Sequence[Sketch]) -> Sketch:
    """Merge the sketches of several pieces into one.

    Slot totals add up exactly. A key that some pieces do not list is understated by at most the sum
    of those pieces' errors.

    Raises
    ------
    InputError : nothing to merge, or sketches with different numbers of slots
    """
    if not sketches:
        raise InputError("there is no sketch to merge", fix=FAULT)
    if len({len(s.load) for s in sketches}) > 1:
        raise InputError(
            f"sketches disagree on the number of slots: {sorted({len(s.load) for s in sketches})}",
            fix=FAULT,
        )
    every = np.concatenate([s.heavy for s in sketches])
    heavy, first, inverse = np.unique(every, return_index=True, return_inverse=True)
    names = [n for s in sketches for n in s.heavy_names]
    loads = np.concatenate([s.heavy_load for s in sketches])
    return Sketch(
        load=reduce(np.add, [s.load for s in sketches]),  # holds no copy of them all
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
    """Build an exact profile from every key's load: for tests, benchmarks and backtests.

    Parameters
    ----------
    hashes, load : int64 and float64 (n,): each key's hash (distinct) and load
    slots : S
    state : float64 (n,): bytes of state of each key; 1 row of `state` bytes a key; default: load
    threshold : keys with at least this load are listed as heavy
    listed : hashes of keys that are listed whatever their load
    names : (n,): how a person writes each key; default: its hash
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
