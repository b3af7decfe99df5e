"""Made-up pasts of sketches."""

import numpy as np

from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf
from partitioning.workload.profile import Profile, Sketch, profile_of_keys

SLOTS, N = 64, 4


def sketch(load, threshold=np.inf, listed=None) -> Sketch:
    hashes = hashed_keys(len(load))
    return profile_of_keys(KEY, hashes, load, SLOTS, threshold=threshold, listed=listed).sketch()


def steady(windows: int, seed: int = 0) -> list[Sketch]:
    """One truth, drawn from again and again."""
    random = np.random.default_rng(seed)
    return [sketch(random.poisson(2000 * zipf(300, 0.8)).astype(float), 60) for _ in range(windows)]


def profile_for(ahead) -> Profile:
    s = ahead.sketch
    none = np.zeros(len(s.heavy))
    bare = Profile(
        KEY, s.load, s.load, s.load, s.heavy, none, s.heavy_load, none, s.heavy_names, s.error
    )
    return ahead.onto(bare)
