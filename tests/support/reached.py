"""Branches of property tests: a test fails if no example comes to a branch that checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

from hypothesis import event

_REACHED: Counter[str] = Counter()


def reach(branch: str) -> None:
    """Count that an example has come to a branch, and show it in Hypothesis' statistics."""
    _REACHED[branch] += 1
    event(branch)


def must_reach(*branches: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Fail a property test if none of its examples has come to one of these branches.

    It goes above `given` and `settings`.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def checked(*args: Any, **kwargs: Any) -> None:
            _REACHED.clear()
            test(*args, **kwargs)
            missing = [branch for branch in branches if not _REACHED[branch]]
            assert not missing, f"no example has come to {missing}: these checks were not run"

        return checked

    return decorate
