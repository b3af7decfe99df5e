"""Streams whose shares wander, and the key of each rank in a window."""

from __future__ import annotations

import numpy as np

from partitioning.streams.zipf_stream import (
    Stream,
    key_of_rank,
)

ROWS = 50_000


def first_key(stream: Stream, window: int = 0) -> int:
    return int(key_of_rank(stream, np.array([0]), window)[0])


WANDERING = Stream(rows=2_000, keys=400, z=0.7, windows=200, wander=(0.4, 0.8), days=1, seed=6)
