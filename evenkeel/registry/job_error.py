"""Reasons why jobs failed, as files `error.json`. Airflow decides by them whether to try again."""

from __future__ import annotations

from datetime import UTC, datetime

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.outcome_records import JobError
from evenkeel.registry.files.stored_file import StoredFile
from partitioning.errors import DamagedError, EvenkeelError


def leave_error(
    registry: Registry, job: str, run: str | None, attempt: str | None, error: Exception
) -> None:
    """Write why a job failed. An unforeseen exception may pass, so it can be tried again."""
    ours = isinstance(error, EvenkeelError)
    left = JobError(
        kind=type(error).__name__,
        exit_code=error.exit_code if isinstance(error, EvenkeelError) else 1,
        retry=error.retry if isinstance(error, EvenkeelError) else True,
        message=" ".join(str(error).split())[: None if ours else 500] or type(error).__name__,
        job=job,
        attempt=attempt,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    _file(registry, job, run).write(left)


def error_left(registry: Registry, job: str, run: str | None, attempt: str) -> JobError | None:
    """Return the error of this very try of a job.

    None: it left none, because it was killed, or because it never started.

    Raises
    ------
    StoreError : the store does not answer
    """
    try:
        left = _file(registry, job, run).find()
    except DamagedError:
        return None
    return left if left is not None and (left.job, left.attempt) == (job, attempt) else None


def _file(registry: Registry, job: str, run: str | None) -> StoredFile[JobError]:
    return registry.files.error(job) if run is None else registry.run(run).error
