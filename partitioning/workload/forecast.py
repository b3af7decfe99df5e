"""Forecast the next window's load from the sketches of the windows before it.

A function serves a window that nobody has seen. The last window is one draw of it, and older
windows are others. How much an older window is worth differs by data. So several weights are tried
on the windows that came, and the one whose forecasts were off least is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from partitioning.errors import FAULT, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, slot_of
from partitioning.workload.metrics import fit_slots, key_sums
from partitioning.workload.new_keys import MAX_NEW, new_shares, room_for
from partitioning.workload.profile import Floats, Profile, Sketch, merge, sums_by

#: A weight of a window against the one after it; auto: found by backtest; None: all weigh the same.
Decay = float | Literal["auto"] | None
#: Weights of a window against the one after it, of which one is chosen. 0 is the last window alone.
DECAYS = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
#: The decay as long as there are no forecasts to compare.
UNKNOWN = 0.5
#: A larger decay is preferred if its squared error is at most this many times the least one. A
#: larger value gives steadier forecasts, which move less state.
NEAR = 1.05
#: Forecasts that the chance of independent rows counts as. It keeps a few lucky forecasts from
#: hiding chance. A larger value trusts the errors of forecasts later.
PRIOR = 1.0
#: Windows that a forecast is made from, at most: the latest ones.
REACH = 60
#: Weight of the error of a forecast against that of the one after it.
ERROR_DECAY = 0.8
#: Part of the load above which a single key makes a forecast uncertain.
MAX_KEY_PART = 0.9
#: Times the mean load of earlier windows above which the last window makes a forecast uncertain.
#: One under a part of that mean, one over this, does so, too.
JUMP = 10.0


@dataclass(frozen=True, eq=False)
class Forecast:
    """Hold what to plan for.

    Parameters
    ----------
    sketch : the load expected, scaled to the total of the sketches that it was made from
    decay : weight of a window against the one after it
    best : the decay whose forecasts were off least; it tells chance from drift
    weights : float64 (W,), of each of `past` in the load expected; windows before it have the rest
    new : share of the load that is expected of keys that no sketch lists; it is spread over slots
    uncertain : why the forecast may be far off; empty: it is not known to be
    past : the windows with load that it was made from, oldest first
    """

    sketch: Sketch
    decay: float
    best: float
    weights: Floats
    new: float
    uncertain: str
    past: tuple[Sketch, ...]

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
            raise InputError("it lists keys that the forecast does not", "profile", FAULT)
        return replace(
            listed,
            load=self.sketch.load,
            heavy_load=self.sketch.heavy_load,
            error=self.sketch.error,
            chance=self.chance(function),
            uncertain=self.uncertain,
        )

    def errors(self) -> Iterator[Floats]:
        """Yield how far the best decay's forecast of each window but the first was off.

        Each is float64 (S + K): the share of the load of each slot's tail, then of each heavy key,
        less the share that was forecast. No more than one is held at a time.
        """
        mean, weight = None, 1.0
        for share in _shares(self.past, self.sketch.heavy):
            if mean is None:
                mean = share.copy()
                continue
            off = share - mean
            yield off
            weight = 1.0 + self.best * weight
            mean += off / weight

    def chance(self, function: PartitioningFunction | None) -> float:
        """Return how far a channel's load may be off by chance, in parts of its fair share.

        It is a standard deviation. Let d be the best decay. The part d of the squared error of one
        step is chance of the window. The rest is drift, and chance of the mean before. It is
        averaged with the chance of independent rows, which is all that is known at first. The load
        expected has as much of a window's chance as the last window weighs in it; and more, where
        the windows that weigh most have fewer rows than others.
        """
        if function is None:
            return 0.0
        capacities = function.capacities
        fair = capacities / capacities.sum()
        open_, slots, own = fair > 0, len(self.sketch.load), len(function.slots)
        squares = []
        for error in self.errors():
            off = sums_by(function.slots, fit_slots(error[:slots], own), len(fair))
            off += key_sums(function, self.sketch.heavy, error[slots:])
            squares.append(float(np.square(off[open_] / fair[open_]).mean()))
        rows = np.array([max(s.rows, 1) for s in self.past] or [1], dtype=np.float64)
        independent = np.count_nonzero(open_) / rows.mean()
        counts = ERROR_DECAY ** np.arange(len(squares))[::-1]
        square = PRIOR * independent + self.best * float(np.dot(counts, squares))
        square *= float(self.weights[-1]) / (PRIOR + counts.sum())
        # So far each window has mean rows. In a mean's variance the squares of weights add up.
        parts = np.square(self.weights) / np.square(self.weights).sum()
        return float(np.sqrt(square * (parts @ (rows.mean() / rows))))


def forecast(sketches: Sequence[Sketch], decay: Decay = "auto") -> Forecast:
    """Forecast the window after these.

    Each slot's tail, and each heavy key, gets a mean of its shares of the windows. The weights fall
    by a decay (exponential smoothing).

    A last window whose listed keys are all new is left out: nobody knows whether they come again.
    Once another window has come, it counts like any other. Lighter keys do no harm: a hash spreads
    them evenly.

    Parameters
    ----------
    sketches : one a window, oldest first; those without load count for nothing
    decay : 0 to 1. None: the windows are added up. "auto": each of `DECAYS` forecasts these very
        windows, each from those before it, and the largest with about the least error is taken

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
    if not (decay in ("auto", None) or (not isinstance(decay, str) and 0 <= decay <= 1)):
        raise InputError(
            f"{decay} is not from 0 to 1, auto or none",
            "decay",
            "Give auto to have the past choose it",
        )
    whole = merge(sketches)
    loaded = tuple(s for s in sketches if s.load.any())
    past = loaded[-REACH:]
    if not past:
        return Forecast(whole, UNKNOWN, UNKNOWN, np.ones(1), 0.0, "no window has load", ())
    came, all_new = new_shares(past, whole.heavy)
    new = room_for(came)
    silent = "" if sketches[-1].load.any() else "the last window has no load"
    uncertain = _doubt(past, whole, came) or silent
    if all_new and all_new[-1]:
        whole = _without_last(sketches, past[-1], whole)
        loaded, past, new = loaded[:-1], past[:-1], room_for(came[:-1])
    tried = sorted({*DECAYS, *([] if decay is None or isinstance(decay, str) else [decay])})
    means, weights, losses = _tried(past, whole.heavy, np.array(tried))
    best = _best(tried, losses)
    if decay is None:
        totals = np.array([s.load.sum() for s in loaded])
        parts = (totals / totals.sum())[-len(past) :]
        return Forecast(whole, 1.0, best, parts, 0.0, uncertain, past)
    chosen = best if isinstance(decay, str) else float(decay)
    at = tried.index(chosen)
    sketch = _expected(means[at], new, whole, past)
    parts = chosen ** np.arange(len(past), dtype=np.float64)[::-1]
    return Forecast(sketch, chosen, best, parts / weights[at], new, uncertain, past)


def _expected(mean: Floats, new: float, whole: Sketch, past: Sequence[Sketch]) -> Sketch:
    """Return the load expected from mean shares, (S + K), with room for new keys in all slots."""
    total, slots = float(whole.load.sum()), len(whole.load)
    tail, heavy = np.split(mean * (1 - new) / mean.sum() * total, [slots])
    return replace(
        whole,
        load=tail + new * total / slots + sums_by(slot_of(whole.heavy, slots), heavy, slots),
        heavy_load=heavy,
        error=max(s.error / float(s.load.sum()) for s in past) * total,
    )


def _tried(past: Sequence[Sketch], heavy: Hashes, decays: Floats) -> tuple[Floats, Floats, Floats]:
    """Return each decay's last means (D, S + K), their weights (D,), and squared errors (D,)."""
    means, weights, losses = np.empty(0), np.ones(len(decays)), np.zeros(len(decays))
    for share in _shares(past, heavy):
        if not means.size:
            means = np.tile(share, (len(decays), 1))
            continue
        off = share - means
        losses += np.square(off).sum(axis=1)
        weights = 1.0 + decays * weights
        means += off / weights[:, None]
    return means, weights, losses


def _best(decays: Sequence[float], losses: Floats) -> float:
    """Return the largest of `DECAYS` that did about as well as the best."""
    known = [(d, e) for d, e in zip(decays, losses.tolist(), strict=True) if d in DECAYS]
    least = min(e for _, e in known)
    if least == max(e for _, e in known):
        return UNKNOWN
    return max(d for d, e in known if e <= NEAR * least)


def _without_last(sketches: Sequence[Sketch], last: Sketch, whole: Sketch) -> Sketch:
    """Return the load of all but the last one, scaled to that of all, listing the same keys."""
    none, no_key = np.zeros_like(last.load), np.zeros_like(last.heavy_load)
    emptied = replace(last, load=none, heavy_load=no_key, error=0.0)
    rest = merge([emptied if s is last else s for s in sketches])
    times = float(whole.load.sum() / rest.load.sum())
    return replace(
        rest,
        load=rest.load * times,
        heavy_load=rest.heavy_load * times,
        error=rest.error * times,
    )


def _doubt(past: Sequence[Sketch], whole: Sketch, came: Sequence[float]) -> str:
    """Say why a forecast from these windows may be far off; empty: nothing is known against it."""
    totals = [float(s.load.sum()) for s in past]
    if len(past) == 1:
        return "one window with load does not tell chance from drift"
    if (new := max(came[-1], room_for(came))) > MAX_NEW:
        return f"{new:.0%} of the load came from keys that were not listed before"
    if totals[-1] > JUMP * float(np.mean(totals[:-1])):
        times = totals[-1] / float(np.mean(totals[:-1]))
        return f"the last window has {times:,.0f} times the load of those before"
    if totals[-1] * JUMP < float(np.mean(totals[:-1])):
        part = totals[-1] / float(np.mean(totals[:-1]))
        return f"the last window has {part:.1%} of the load of those before"
    largest = max(
        float(s.heavy_load.max(initial=0.0)) / float(s.load.sum()) for s in (whole, past[-1])
    )
    if largest > MAX_KEY_PART:
        return f"one key has {largest:.0%} of the load"
    return ""


def _shares(sketches: Sequence[Sketch], heavy: Hashes) -> Iterator[Floats]:
    """Yield the share of each window of each slot's tail and of each of `heavy`, (S + K).

    A key that a window does not list had its mean of the other windows there, as far as that
    window's error and slot allow. Else it would seem to come from nothing when it is listed.
    """
    if not sketches:
        return
    slots = len(sketches[0].load)
    keys = np.full((len(sketches), len(heavy)), np.nan)
    totals = [float(s.load.sum()) for s in sketches]
    for own, sketch, total in zip(keys, sketches, totals, strict=True):
        own[np.searchsorted(heavy, sketch.heavy)] = sketch.heavy_load / total
    known = ~np.isnan(keys)
    usual = np.where(known, keys, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    slot = slot_of(heavy, slots)
    for own, listed, sketch, total in zip(keys, known, sketches, totals, strict=True):
        own[~listed] = 0.0
        tail = np.maximum(sketch.load / total - sums_by(slot, own, slots), 0.0)
        guess = np.where(listed, 0.0, np.minimum(usual, sketch.error / total))
        wanted = sums_by(slot, guess, slots)
        guess *= np.minimum(tail / np.maximum(wanted, 1e-300), 1.0)[slot]
        tail = np.maximum(tail - sums_by(slot, guess, slots), 0.0)
        yield np.concatenate([tail, own + guess])
