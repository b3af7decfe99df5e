"""The next window, as the past ones let it be expected: sketches in, one sketch out.

A function serves a window that nobody has seen. What was learned last is one draw of it; older
windows are others, staler. How much each is worth differs by data, and is found by asking what
would have foretold the windows that came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from partitioning.errors import InputError
from partitioning.hashing import Hashes, slot_of
from partitioning.profile import Floats, Profile, Sketch, merge, sums_by

#: What a window counts against the one after it: 0 is the last window alone, 1 all alike.
DECAYS = (0.0, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)
#: The decay while there is nothing to find it by.
UNKNOWN = 0.5
#: Windows that are looked at, at most, the latest ones.
REACH = 60
#: Principal directions that surprises are told by.
DIRECTIONS = 8


@dataclass(frozen=True, eq=False)
class Forecast:
    """What to plan for.

    Parameters
    ----------
    sketch : the load expected, scaled to the total of the sketches that it was made from
    decay : weight of a window against the one after it
    surprises : float64 (E, S + K): how each slot's tail, then each heavy key, came out against
        what the same forecast would have said, for the windows that have one before them: the
        principal directions of it, whose products sum up to the mean ones
    """

    sketch: Sketch
    decay: float
    surprises: Floats

    def onto(self, profile: Profile) -> Profile:
        """The profile with this for its load; keys that it did not list get no state."""
        listed = profile.listing(self.sketch.heavy)
        if len(listed.heavy) > len(self.sketch.heavy):
            raise InputError("it lists keys that the forecast does not", "profile")
        return replace(
            listed,
            load=self.sketch.load,
            heavy_load=self.sketch.heavy_load,
            error=self.sketch.error,
            surprises=self.surprises,
        )


def forecast(sketches: Sequence[Sketch], decay: float | None = None) -> Forecast:
    """What the window after these is expected to be.

    Each slot's tail and each heavy key is a mean over the windows, of weights that fall by
    `decay` (exponential smoothing), of its share of the window. Extremes are chance in part and
    will not last: tails are drawn to their mean, and keys to 0, by the least-squares slope of
    what came on what was foretold. With a decay of 0 nothing is drawn in and no surprise is told:
    where the last window alone says most, what differs from it is drift, a few large keys that come
    and go; it teaches nothing of the keys that stay, and planning for it only moves more.

    Parameters
    ----------
    sketches : one a window, oldest first; those without load count for nothing
    decay : 0 to 1; None: that of `DECAYS` whose forecasts of these very windows, each made from
        those before it, were off by the least sum of squares

    Raises
    ------
    InputError : nothing to go by, numbers of slots that differ, or a decay out of range
    """
    if decay is not None and not 0 <= decay <= 1:
        raise InputError(f"{decay} is not from 0 to 1", "decay")
    whole = merge(sketches)
    total = float(whole.load.sum())
    seen = [s for s in sketches if s.load.any()][-REACH:]
    if not seen:
        return Forecast(whole, UNKNOWN if decay is None else decay, _none(whole))
    shares = _shares(seen, whole.heavy)
    if decay is None:
        tried = DECAYS if len(shares) > 2 else (UNKNOWN,)
        decay = min(tried, key=lambda d: _missed(shares, d))
    *past, said = _smoothed(shares, decay)
    came = shares[1:]
    if not decay:
        past, came = [], []
    slots = len(whole.load)
    parts = (slice(0, slots), slice(slots, None))
    slopes = [
        _slope([f[part] for f in past], [s[part] for s in came], i == 0)
        for i, part in enumerate(parts)
    ]

    def drawn_in(values: Floats) -> Floats:
        tail, heavy = (values[part] for part in parts)
        mean = tail.mean()
        drawn = np.concatenate([mean + slopes[0] * (tail - mean), slopes[1] * heavy])
        return drawn / drawn.sum()

    items = drawn_in(said) * total
    tail, heavy = items[:slots], items[slots:]
    sketch = replace(
        whole,
        load=tail + sums_by(slot_of(whole.heavy, slots), heavy, slots),
        heavy_load=heavy,
        error=max(s.error / float(s.load.sum()) for s in seen) * total,
    )
    off = [(s - drawn_in(f)) * total for f, s in zip(past, came, strict=True)]
    return Forecast(sketch, decay, _directions(np.array(off)) if off else _none(whole))


def _directions(off: Floats) -> Floats:
    """At most DIRECTIONS rows with nearly the mean products of the columns that `off` (T, n) has:
    what went up and down together, without most of the chance."""
    values, vectors = np.linalg.eigh(off @ off.T)
    return vectors[:, values > 0][:, -DIRECTIONS:].T @ off / np.sqrt(len(off))


def _shares(sketches: Sequence[Sketch], heavy: Hashes) -> list[Floats]:
    """Share of each window of each slot's tail and each of `heavy`, (S + K,).

    Where a window does not list a key it had its mean of the others, as far as that window's
    error and slot allow: else it would seem to come from nothing when it is listed.
    """
    slots = len(sketches[0].load)
    keys = np.full((len(sketches), len(heavy)), np.nan)
    totals = [float(s.load.sum()) for s in sketches]
    for own, sketch, total in zip(keys, sketches, totals, strict=True):
        own[np.searchsorted(heavy, sketch.heavy)] = sketch.heavy_load / total
    known = ~np.isnan(keys)
    usual = np.where(known, keys, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    slot = slot_of(heavy, slots)
    found = []
    for own, listed, sketch, total in zip(keys, known, sketches, totals, strict=True):
        own[~listed] = 0.0
        tail = np.maximum(sketch.load / total - sums_by(slot, own, slots), 0.0)
        guess = np.where(listed, 0.0, np.minimum(usual, sketch.error / total))
        wanted = sums_by(slot, guess, slots)
        guess *= np.minimum(tail / np.maximum(wanted, 1e-300), 1.0)[slot]
        tail = np.maximum(tail - sums_by(slot, guess, slots), 0.0)
        found.append(np.concatenate([tail, own + guess]))
    return found


def _smoothed(shares: Sequence[Floats], decay: float) -> Iterator[Floats]:
    """What each window, with those before it, says of the next one."""
    mean, weight = shares[0], 1.0
    yield mean
    for share in shares[1:]:
        weight = 1.0 + decay * weight
        mean = mean + (share - mean) / weight
        yield mean


def _missed(shares: Sequence[Floats], decay: float) -> float:
    """Sum of squares that the forecasts were off by."""
    said = _smoothed(shares, decay)
    return sum(float(np.square(s - f).sum()) for f, s in zip(said, shares[1:], strict=False))


def _slope(said: Sequence[Floats], came: Sequence[Floats], around_mean: bool) -> float:
    """Least-squares slope of what came on what was said, 0 to 1; 1 where a single pair would
    have to tell."""
    if len(said) < 2:
        return 1.0
    over = under = 0.0
    for f, s in zip(said, came, strict=True):
        mean = f.mean() if around_mean else 0.0
        over += float(((f - mean) * (s - mean)).sum())
        under += float(np.square(f - mean).sum())
    return min(max(over / under, 0.0), 1.0) if under > 0 else 1.0


def _none(sketch: Sketch) -> Floats:
    return np.zeros((0, len(sketch.load) + len(sketch.heavy)))
