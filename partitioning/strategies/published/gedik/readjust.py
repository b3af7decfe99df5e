"""Gedik's Algorithm 4: readjusting keys from where they are, by moves and swaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from partitioning.strategies.published.gedik.task import SAME_GAIN, GedikTask, Ints, Utility
from partitioning.workload.profile import Floats

Indices = npt.NDArray[np.integer[Any]]


def readjust(task: GedikTask, utility: Utility, moves: int = 0) -> Ints:
    """Run Algorithm 4's main loop, a round's candidates at once: channel of each key, int32 (R,).

    Parameters
    ----------
    utility : U(rho, gamma), of which a lower value is better
    moves : times that a key may move (c of section 4.2.4); 0: no limit
    """
    at = task.start.copy()
    # None, past the last key, may always be moved.
    free = np.full(len(at) + 1, float(moves or np.inf))
    free[-1] = np.inf
    count, open_ = len(at), np.flatnonzero(task.weights > 0)
    # A candidate takes one key to the channel of another in exchange (swap), or of none (move).
    # None is written as an item past the last one, without load or state.
    loads_of = np.pad(task.loads, ((0, 0), (0, 1)))
    shares, state = np.append(task.shares, 0.0), np.append(task.state, 0.0)
    old = np.append(task.old, -2)
    cost = task.untracked + float(task.state[at != task.old].sum())
    means = task.means[:, None]
    while count:
        loads = task.channel_loads(at)
        rho = float(task.rho(np.nanmax(loads, axis=1), np.nanmin(loads, axis=1), task.means))
        # Only a pair with the fullest or the emptiest channel of some resource can lower rho.
        ends = np.unique([np.nanargmax(loads, axis=1), np.nanargmin(loads, axis=1)])
        first, second, target = _candidates(at, ends, open_)
        source = at[first]
        change = loads_of[:, first] - loads_of[:, second]
        moved = np.abs(shares[first] - shares[second])
        left = loads[:, source] - change / task.weights[source]
        taken = loads[:, target] + change / task.weights[target]
        most = _fullest_besides(loads, source, target)
        least = -_fullest_besides(-loads, source, target)
        after = task.rho(
            np.maximum(np.maximum(left, taken), most),
            np.minimum(np.minimum(left, taken), least),
            means,
        )
        # Eq. 22: leaving the old channel costs, coming back pays.
        costs = (
            cost
            + state[first] * ((old[first] == source) * 1.0 - (old[first] == target))
            + state[second] * ((old[second] == target) * 1.0 - (old[second] == source))
        )
        now = utility(np.array(rho), np.array(cost / task.ideal))
        better = (after < rho * (1 - 1e-12)) & (moved > 0) & (free[first] > 0) & (free[second] > 0)
        if not better.any():
            break
        gain = now - utility(after, np.maximum(costs, 0.0) / task.ideal)
        gain = np.divide(gain, moved, out=np.full(len(gain), -np.inf), where=better)
        near = gain >= gain.max() - SAME_GAIN * abs(gain.max())
        best = int(np.where(near, after, np.inf).argmin())
        cost = float(costs[best])
        free[[first[best], second[best]]] -= 1
        if second[best] < count:
            at[second[best]] = source[best]
        at[first[best]] = target[best]
    return at


def _candidates(at: Ints, ends: Indices, open_: Indices) -> tuple[Indices, Indices, Indices]:
    """List every swap and move between a channel of `ends` and another.

    A swap is listed from one side only.

    Returns
    -------
    first key, second key (R for a move), and channel that the first goes to, each (c,)
    """
    count = len(at)
    at_end = np.isin(at, ends)
    keys = np.flatnonzero(at_end)
    a, b = np.nonzero((at[keys][:, None] != at) & ~(at_end & (np.arange(count) < keys[:, None])))
    c, d = np.nonzero((at[:, None] != open_) & (at_end[:, None] | np.isin(open_, ends)))
    first = np.concatenate([keys[a], c])
    second = np.concatenate([b, np.full(len(c), count)])
    return first, second, np.concatenate([at[b], open_[d]])


def _fullest_besides(loads: Floats, source: Indices, target: Indices) -> Floats:
    """Return the load of the fullest channel besides each candidate's two, (k, c); -inf: none."""
    known = np.where(np.isnan(loads), -np.inf, loads)
    known = np.pad(known, ((0, 0), (0, 3)), constant_values=-np.inf)
    top = np.argsort(-known, axis=1, kind="stable")[:, :3]
    load = np.take_along_axis(known, top, axis=1)[:, :, None]
    taken = (top[:, :, None] == source) | (top[:, :, None] == target)
    second = np.where(taken[:, 1], load[:, 2], load[:, 1])
    return np.where(taken[:, 0], second, load[:, 0])
