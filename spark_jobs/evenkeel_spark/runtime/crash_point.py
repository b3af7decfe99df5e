"""Named steps of the jobs, at which a test lets one crash, or lets somebody else act."""

from __future__ import annotations

import os


def crash_point(step: str) -> None:
    """Tell that a job has come to a named step. Nothing happens unless a test asks for it."""
    reached(step)


def reached(step: str) -> None:
    """End the process, as a crash would, if EVENKEEL_CRASH_AT names this step."""
    if os.environ.get("EVENKEEL_CRASH_AT") == step:
        os._exit(137)
