"""Time two sides in turn and compare them pair by pair, for a noisy, shared machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def seconds(action: Callable[[], object]) -> float:
    """Return the wall seconds that an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare(
    ours: str,
    us: Callable[[], object],
    theirs: str,
    them: Callable[[], object],
    runs: int,
    unmeasured: int = 1,
) -> float:
    """Run both unmeasured, then `runs` times in turn; print and return the median ratio."""
    for _ in range(unmeasured):
        us()
        them()
    pairs = [(seconds(us), seconds(them)) for _ in range(runs)]
    ratios = sorted(a / b for a, b in pairs)
    ratio = statistics.median(ratios)
    a, b = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(
        f"{ours}: {a:.3f} s; {theirs}: {b:.3f} s; "
        f"ratio {ratio:.3f} (of {runs}: {ratios[0]:.3f} to {ratios[-1]:.3f})",
        flush=True,
    )
    return ratio
