"""Attempts of a run to learn: the newest one alone leaves its profile."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from evenkeel.registry.epochs import Epoch
from evenkeel.registry.files.records import LearningMark
from evenkeel.registry.files.run_files import RunFiles
from partitioning.errors import FenceError


def mark_learning(run: RunFiles, epoch: Epoch) -> LearningMark:
    """Mark that an attempt of a run begins to learn at this epoch.

    Remove what an earlier attempt of the run has learned and decided. The watch looks for the mark
    and publishes nothing meanwhile, because a profile fits the epoch at which it was learned.
    """
    run.decision.remove()
    run.learned.remove()
    mark = LearningMark(epoch=epoch.number, at=datetime.now(UTC), attempt=uuid4().hex)
    run.learning.write(mark)
    return mark


def check_newest(run: RunFiles, mark: LearningMark) -> None:
    """Refuse an attempt that is not the newest: a plan may be made from another profile.

    Raises
    ------
    FenceError : another attempt has begun, or the run was removed
    """
    if run.learning.find() != mark:
        raise FenceError(
            "another attempt to learn has begun in this run, or the run was removed",
            run.url,
            "Nothing: the newest attempt leaves its profile",
        )


def unmark_learning(run: RunFiles, mark: LearningMark) -> None:
    """Remove the mark of an attempt that has failed, unless it is another attempt's by now."""
    if run.learning.find() == mark:
        run.learning.remove()
