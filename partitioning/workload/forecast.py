"""The next window, as the past ones let it be expected: sketches in, one sketch out.

A function serves a window that nobody has seen. What was learned last is one draw of it; older
windows are others, staler. How much each is worth differs by data, and is found by asking what
would have foretold the windows that came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from partitioning.errors import InputError
from partitioning.function.hashing import Hashes, slot_of
from partitioning.workload.profile import Floats, Profile, Sketch, merge, sums_by

#: What a window counts against the one after it: 0 is the last window alone, 1 all alike.
DECAYS = (0.0, 0.15, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
#: The decay while there is nothing to find it by.
UNKNOWN = 0.5
#: Windows that are looked at, at most, the latest ones.
REACH = 60
#: Windows that are looked at, at most, to find by which sketches they are best foretold.
JUDGED = 20
#: Principal directions that surprises are told by.
DIRECTIONS = 8
#: Bits that a direction's largest surprise is told in.
TOLD = 20
#: Directions of less than this part of the first one's squares are rounding's own.
LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Forecast:
    """What to plan for.

    Parameters
    ----------
    sketch : the load expected, scaled to the total of the sketches that it was made from
    decays : weight of a window against the one after it, for slots' tails and for heavy keys
    surprises : float64 (E, S + K): how each slot's tail, then each heavy key, came out against
        what the same forecast would have said, for the windows that have one before them: the
        principal directions of it, whose products sum up to the mean ones
    """

    sketch: Sketch
    decays: tuple[float, float]
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
    a decay (exponential smoothing), of its share of the window. Tails hold more chance than heavy
    keys do and drift less: each of the two has its own decay. Extremes are chance in part and
    will not last: tails are drawn to their mean, and keys to 0, by the least-squares slope of
    what came on what was foretold. With a decay of 0 nothing is drawn in and no surprise is told:
    where the last window alone says most, what differs from it is drift, a few large keys that come
    and go; it teaches nothing of the keys that stay, and planning for it only moves more.

    Parameters
    ----------
    sketches : one a window, oldest first; those without load count for nothing
    decay : 0 to 1, for both; None: those of `DECAYS` whose forecasts of these very windows, each
        made from those before it, were off by the least sum of squares

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
        given = UNKNOWN if decay is None else decay
        return Forecast(whole, (given, given), _none(whole))
    shares, slots = _shares(seen, whole.heavy), len(whole.load)
    decays = _decays(shares, slots, decay)
    said = _foretold(shares, slots, decays)
    parts = slice(0, slots), slice(slots, None)
    slopes = [
        _slope(said[:-1, part], shares[1:, part], i == 0) if decays[i] else 1.0
        for i, part in enumerate(parts)
    ]

    def drawn_in(values: Floats) -> Floats:
        tail, heavy = (values[part] for part in parts)
        mean = tail.mean()
        drawn = np.concatenate([mean + slopes[0] * (tail - mean), slopes[1] * heavy])
        left = float(drawn.sum())
        # Where every key is listed, and none comes back, nothing would be.
        return drawn / left if left > 0 else values

    items = drawn_in(said[-1]) * total
    tail, heavy = items[:slots], items[slots:]
    sketch = replace(
        whole,
        load=tail + sums_by(slot_of(whole.heavy, slots), heavy, slots),
        heavy_load=heavy,
        error=max(s.error / float(s.load.sum()) for s in seen) * total,
    )
    told = np.repeat([d > 0 for d in decays], [slots, len(whole.heavy)])
    off = [(s - drawn_in(f)) * total * told for f, s in zip(said, shares[1:], strict=False)]
    if not off or not told.any():
        return Forecast(sketch, decays, _none(whole))
    return Forecast(sketch, decays, _directions(np.array(off)))


def next_window(windows: Sequence[Sequence[Sketch]]) -> Forecast:
    """The forecast of the next window from the sketches of the pieces of those before it.

    Made from `best_sketches`. Where these are of pieces, so are the surprises; those of a window
    of p like pieces, one as much off as the other, are smaller by the root of p.

    Parameters
    ----------
    windows : the sketches of each window's pieces, oldest first

    Raises
    ------
    InputError : as `forecast`
    """
    sketches = best_sketches(windows)
    ahead = forecast(sketches or [s for window in windows for s in window])
    pieces = max(len(sketches) / max(len(windows), 1), 1.0)
    return replace(ahead, surprises=ahead.surprises / np.sqrt(pieces))


def best_sketches(windows: Sequence[Sequence[Sketch]]) -> list[Sketch]:
    """What to forecast the next window from: the sketches of all windows' pieces, or those of
    whole windows, whichever have better foretold the windows that came.

    Pieces tell sooner what drifts, and of few windows what drifts together; in whole windows
    there is less chance. Until there are two windows, pieces.

    Parameters
    ----------
    windows : the sketches of each window's pieces, oldest first

    Returns
    -------
    sketches for `forecast`, oldest first; those without load are left out
    """
    loaded = [[s for s in window if s.load.any()] for window in windows]
    loaded = [window for window in loaded if window]
    fine, coarse = [s for window in loaded for s in window], [merge(w) for w in loaded]
    judged = loaded[-JUDGED:]
    if len(judged) < 2 or len(fine) == len(coarse):
        return fine
    heavy, slots = merge(fine).heavy, len(fine[0].load)
    whole = _shares(coarse[-JUDGED:], heavy)
    ends = np.cumsum([len(window) for window in judged]) - 1
    parts = _shares([s for window in judged for s in window], heavy)

    def missed(shares: Floats, last: npt.NDArray[np.int64]) -> float:
        said = _foretold(shares, slots, _decays(shares, slots, None))
        return float(np.square(whole[1:] - said[last[:-1]]).sum())

    return fine if missed(parts, ends) < missed(whole, np.arange(len(whole))) else coarse


def _decays(shares: Floats, slots: int, given: float | None) -> tuple[float, float]:
    """For the first `slots` columns of `shares` (T, S + K), and for the others."""
    if given is None and len(shares) <= 2:
        given = UNKNOWN
    if given is not None:
        return given, given
    tail, heavy = (
        min(DECAYS, key=lambda d, own=own: _missed(own, d))  # type: ignore[misc]
        for own in (shares[:, :slots], shares[:, slots:])
    )
    return tail, heavy if shares.shape[1] > slots else tail


def _foretold(shares: Floats, slots: int, decays: tuple[float, float]) -> Floats:
    """What each window, with those before it, says of the next one, (T, S + K)."""
    own = shares[:, :slots], shares[:, slots:]
    return np.hstack([_smoothed(s, d) for s, d in zip(own, decays, strict=True)])


def _directions(off: Floats) -> Floats:
    """At most DIRECTIONS rows with nearly the mean products of the columns that `off` (T, n) has:
    what went up and down together, without most of the chance."""
    values, vectors = np.linalg.eigh(off @ off.T)
    found = vectors[:, values > LEAST * values[-1]][:, -DIRECTIONS:].T @ off / np.sqrt(len(off))
    # The last bits, and the sign, are the linear algebra library's, which chooses by the processor;
    # a search that goes by them would end elsewhere on another machine.
    rows, largest = np.arange(len(found)), np.abs(found).argmax(axis=1)
    found *= np.sign(found[rows, largest])[:, None]
    grain = np.exp2(np.ceil(np.log2(found[rows, largest])) - TOLD)[:, None]
    return np.round(found / grain) * grain


def _shares(sketches: Sequence[Sketch], heavy: Hashes) -> Floats:
    """Share of each window (T) of each slot's tail and each of `heavy`, (T, S + K).

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
    return np.array(found)


def _smoothed(shares: Floats, decay: float) -> Floats:
    """What each window, with those before it, says of the next one, (T, n) as `shares`."""
    said, weight = shares.copy(), 1.0
    for t in range(1, len(said)):
        weight = 1.0 + decay * weight
        said[t] = said[t - 1] + (shares[t] - said[t - 1]) / weight
    return said


def _missed(shares: Floats, decay: float) -> float:
    """Sum of squares that the forecasts were off by."""
    return float(np.square(shares[1:] - _smoothed(shares, decay)[:-1]).sum())


def _slope(said: Floats, came: Floats, around_mean: bool) -> float:
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
