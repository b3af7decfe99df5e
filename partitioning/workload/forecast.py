"""Forecast the next window's load from the sketches of the windows before it.

A function serves a window that nobody has seen. The last window is one draw of it, and older
windows are others. How much an older window is worth differs by data. So several weights are tried
on the windows that came, and the one whose forecasts were off least is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, slot_of
from partitioning.workload.metrics import key_sums
from partitioning.workload.profile import Floats, Profile, Sketch, merge, sums_by

#: Weights of a window against the one after it, of which one is chosen. 0 is the last window alone.
DECAYS = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
#: The decay as long as there are no forecasts to compare.
UNKNOWN = 0.5
#: A larger decay is preferred if its squared error is at most this many times the least one. A
#: larger value gives steadier forecasts, which move less state.
NEAR = 1.05
#: Windows that a forecast is made from, at most: the latest ones.
REACH = 60
#: Weight of the error of a forecast against that of the one after it.
ERROR_DECAY = 0.8


@dataclass(frozen=True, eq=False)
class Forecast:
    """Hold what to plan for.

    Parameters
    ----------
    sketch : the load expected, scaled to the total of the sketches that it was made from
    decay : weight of a window against the one after it
    errors : float64 (T - 1, S + K): share of the load of each slot's tail, then of each heavy key,
        less the share that was forecast, for each window that has one before it
    """

    sketch: Sketch
    decay: float
    errors: Floats

    def onto(self, profile: Profile, function: PartitioningFunction | None = None) -> Profile:
        """Return the profile with this for its load.

        Parameters
        ----------
        profile : of the state; keys that it lists and the forecast does not are refused
        function : the one in force, by which chance is told; None: there is none yet

        Raises
        ------
        InputError : the profile lists keys that the forecast does not
        """
        listed = profile.listing(self.sketch.heavy)
        if len(listed.heavy) > len(self.sketch.heavy):
            raise InputError("it lists keys that the forecast does not", "profile")
        return replace(
            listed,
            load=self.sketch.load,
            heavy_load=self.sketch.heavy_load,
            error=self.sketch.error,
            chance=self.chance(function),
        )

    def chance(self, function: PartitioningFunction | None) -> float:
        """Return how far a channel's forecast is off by chance, in parts of its fair share.

        Of a mean of decay d, the part d (1 - d) of the squared error is chance of the windows: no
        move should follow it. Where nothing was forecast yet, it is the chance of independent rows.
        """
        if function is None:
            return 0.0
        capacities = function.capacities
        fair = capacities / capacities.sum()
        channels, slots = len(fair), len(self.sketch.load)
        if not len(self.errors):
            return float(np.sqrt(np.count_nonzero(fair) / max(self.sketch.rows, 1)))
        off = np.array(
            [
                sums_by(function.slots, e[:slots], channels)
                + key_sums(function, self.sketch.heavy, e[slots:])
                for e in self.errors
            ]
        )
        weights = ERROR_DECAY ** np.arange(len(off))[::-1]
        square = np.average(np.square(off[:, fair > 0] / fair[fair > 0]).mean(axis=1), 0, weights)
        return float(np.sqrt(self.decay * (1 - self.decay) * square))


def forecast(sketches: Sequence[Sketch], decay: float | None = None) -> Forecast:
    """Forecast the window after these.

    Each slot's tail, and each heavy key, gets a mean of its shares of the windows. The weights fall
    by a decay (exponential smoothing).

    Parameters
    ----------
    sketches : one a window, oldest first; those without load count for nothing
    decay : 0 to 1; None: of `DECAYS` the largest one whose forecasts of these very windows, each
        from those before it, had about the least sum of squared errors

    Raises
    ------
    InputError : no sketches, numbers of slots that differ, or a decay out of range

    Examples
    --------
    >>> from partitioning.streams.zipf_stream import KEY, hashed_keys
    >>> from partitioning.workload.profile import profile_of_keys
    >>> loads = [np.array([1.0, 3.0]), np.array([3.0, 1.0])]
    >>> past = [profile_of_keys(KEY, hashed_keys(2), l, 4, threshold=1).sketch() for l in loads]
    >>> sorted(forecast(past, decay=0).sketch.heavy_load.tolist())
    [2.0, 6.0]
    """
    if decay is not None and not 0 <= decay <= 1:
        raise InputError(f"{decay} is not from 0 to 1", "decay")
    whole = merge(sketches)
    total, slots = float(whole.load.sum()), len(whole.load)
    loaded = [s for s in sketches if s.load.any()][-REACH:]
    if not loaded:
        none = np.zeros((0, slots + len(whole.heavy)))
        return Forecast(whole, UNKNOWN if decay is None else decay, none)
    shares = _shares(loaded, whole.heavy)
    if decay is None:
        decay = _best_decay(shares)
    means = _smoothed(shares, decay)
    tail, heavy = np.split(means[-1] / means[-1].sum() * total, [slots])
    sketch = replace(
        whole,
        load=tail + sums_by(slot_of(whole.heavy, slots), heavy, slots),
        heavy_load=heavy,
        error=max(s.error / float(s.load.sum()) for s in loaded) * total,
    )
    return Forecast(sketch, decay, shares[1:] - means[:-1])


def _best_decay(shares: Floats) -> float:
    """Return the decay for shares of windows, (T, S + K)."""
    errors = [float(np.square(shares[1:] - _smoothed(shares, d)[:-1]).sum()) for d in DECAYS]
    if min(errors) == max(errors):
        return UNKNOWN
    return max(d for d, e in zip(DECAYS, errors, strict=True) if e <= NEAR * min(errors))


def _smoothed(shares: Floats, decay: float) -> Floats:
    """Return what each window, with those before it, says of the next one, (T, n) as `shares`."""
    means, weight = shares.copy(), 1.0
    for t in range(1, len(means)):
        weight = 1.0 + decay * weight
        means[t] = means[t - 1] + (shares[t] - means[t - 1]) / weight
    return means


def _shares(sketches: Sequence[Sketch], heavy: Hashes) -> Floats:
    """Return the share of each window (T) of each slot's tail and each of `heavy`, (T, S + K).

    Where a window does not list a key, the key had its mean of the other windows, as far as that
    window's error and slot allow. Else it would seem to come from nothing when it is listed.
    """
    slots = len(sketches[0].load)
    keys = np.full((len(sketches), len(heavy)), np.nan)
    totals = [float(s.load.sum()) for s in sketches]
    for own, sketch, total in zip(keys, sketches, totals, strict=True):
        own[np.searchsorted(heavy, sketch.heavy)] = sketch.heavy_load / total
    known = ~np.isnan(keys)
    usual = np.where(known, keys, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    slot = slot_of(heavy, slots)
    rows = []
    for own, listed, sketch, total in zip(keys, known, sketches, totals, strict=True):
        own[~listed] = 0.0
        tail = np.maximum(sketch.load / total - sums_by(slot, own, slots), 0.0)
        guess = np.where(listed, 0.0, np.minimum(usual, sketch.error / total))
        wanted = sums_by(slot, guess, slots)
        guess *= np.minimum(tail / np.maximum(wanted, 1e-300), 1.0)[slot]
        tail = np.maximum(tail - sums_by(slot, guess, slots), 0.0)
        rows.append(np.concatenate([tail, own + guess]))
    return np.array(rows)
