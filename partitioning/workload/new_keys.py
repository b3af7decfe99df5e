"""How much of the load comes from keys that were not there before, as sketches tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partitioning.function.hashing import Hashes, slot_of
from partitioning.workload.profile import Sketch, sums_by

#: Part of the slots that must have had no load so that they tell of new keys. A smaller value lets
#: few slots, and so chance, tell.
MIN_EMPTY = 0.02
#: Rows up to which a key may be new by chance alone. A larger value leaves out fewer last windows.
FEW_ROWS = 4
#: Share of the load for which room is left at most, so that a forecast never forgets all it knows.
MAX_ROOM = 0.95
#: Part of the load above which new keys make a forecast uncertain.
MAX_NEW = 0.5
#: Part of the load of listed keys from which on all of them count as new. A smaller value also
#: leaves out windows of streams whose keys change quickly.
ALL_NEW = 0.95
#: Weight of the share of new keys in a window against that in the window after it.
NEW_DECAY = 0.5


def room_for(shares: Sequence[float]) -> float:
    """Return the share of the load expected of new keys, by those of past windows, oldest first.

    Later windows weigh more. It is `MAX_ROOM` at most, and 0 where there are no windows.

    Examples
    --------
    >>> room_for([0.5, 0.25])
    0.375
    """
    new = shares[0] if shares else 0.0
    for came in shares[1:]:
        new = NEW_DECAY * new + (1 - NEW_DECAY) * came
    return min(float(new), MAX_ROOM)


def new_shares(past: Sequence[Sketch], heavy: Hashes) -> tuple[list[float], list[bool]]:
    """Return what share of each window but the first comes from keys not there before.

    Also returns whether listed keys have most of its load, and all of them are new. Keys of few
    rows do not count there.

    A key that is listed for the first time is new by what it has over the largest load of an
    unlisted key in the window before. Slots that never had load tell of lighter keys: these slots
    get their part of all that is new.

    Parameters
    ----------
    past : one a window with load, oldest first
    heavy : int64 (K,): sorted hashes of all keys that they list

    """
    slots = len(past[0].load)
    known, filled = np.zeros(len(heavy), dtype=np.bool_), np.zeros(slots, dtype=np.bool_)
    shares, all_new, before = [], [], 0.0
    for sketch in past:
        total = float(sketch.load.sum())
        at = np.searchsorted(heavy, sketch.heavy)
        tail = sketch.load - sums_by(slot_of(sketch.heavy, slots), sketch.heavy_load, slots)
        if filled.any():
            came = np.maximum(sketch.heavy_load / total - before, 0.0) * ~known[at]
            many = sketch.heavy_load > FEW_ROWS * total / max(sketch.rows, 1)
            listed = float(sketch.heavy_load[many].sum())
            fresh = float(sketch.heavy_load[many & ~known[at]].sum())
            all_new.append(listed > MAX_NEW * total and fresh >= ALL_NEW * listed)
            new, empty = float(came.sum()), slots - np.count_nonzero(filled)
            if empty >= MIN_EMPTY * slots:
                new += float(tail[~filled].sum()) / total * slots / empty
            shares.append(new)
        known[at] = True
        filled |= sketch.load > 0
        before = sketch.error / total
    return shares, all_new
