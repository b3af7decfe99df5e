"""Verdicts on attempts to carry out a plan: its epoch is published, or it is rolled back.

The verdict is one file, created exclusively. The first to create it wins, and the other obeys.
Each attempt after the first is one file, too. No job replaces or removes these files, so attempts
never go backwards, however late a job wakes.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.registry.files.migration_records import (
    AttemptNumber,
    MigrationRecord,
    PlanMark,
    RolledBack,
    Verdict,
)
from evenkeel.registry.files.run_files import RegistryFiles, RunFiles
from partitioning.errors import FenceError

PUBLISH, ROLL_BACK = "publish", "roll_back"


@dataclass(frozen=True)
class Attempt:
    """The newest attempt of a run to carry out its plan.

    Parameters
    ----------
    number : from 1
    verdict : PUBLISH, ROLL_BACK, or None if neither is decided
    ended : whether the rollback has ended
    withdrawn : whether no later attempt may begin
    """

    number: int
    verdict: str | None
    ended: bool
    withdrawn: bool = False

    @property
    def over(self) -> bool:
        """Whether no job carries it on: it is rolled back to the end, or given up."""
        if self.verdict == PUBLISH:
            return self.withdrawn
        return self.verdict == ROLL_BACK and self.ended


def newest_attempt(run: RunFiles, digest: str) -> Attempt:
    """Read the newest attempt of the run at the plan of that digest.

    Raises
    ------
    DamagedError : a file is torn, so nobody knows whether this run may continue
    """
    number = _newest_number(run, digest)
    back = read_rolled_back(run, digest)
    decided = run.verdict(digest, number).find()
    verdict = None if decided is None else decided.verdict
    if decided is None and back is not None:
        # Earlier versions of Evenkeel wrote only the mark, no verdict.
        verdict = ROLL_BACK
    withdrawn = run.withdrawn(digest).exists()
    return Attempt(number, verdict, back is not None and back.done, withdrawn)


def settle(run: RunFiles, digest: str, number: int, verdict: str) -> str:
    """Decide an attempt if it is not decided yet. Return the verdict that holds."""
    file = run.verdict(digest, number)
    made = file.create(Verdict(digest=digest, attempt=number, verdict=verdict))
    return verdict if made else file.read().verdict


def claim_epoch(files: RegistryFiles, number: int, digest: str) -> None:
    """Claim an epoch for the plan of that digest, before its rows come to readers.

    Raises
    ------
    FenceError : another plan has claimed it
    """
    file = files.claim(number)
    if not file.create(PlanMark(digest=digest)) and (other := file.read().digest) != digest:
        raise FenceError(
            f"plan {other[:12]} is about to publish epoch {number}",
            file.path,
            "Let its run end, or run repair; then start a new run",
        )


def mark(run: RunFiles, digest: str, number: int, *, done: bool) -> None:
    """Write the progress of a rollback."""
    run.rolled_back.write(RolledBack(digest=digest, attempt=number, done=done))


def withdraw(run: RunFiles, digest: str) -> bool:
    """Roll back a plan that has not begun to move state, so that no attempt ever does.

    Its verdict stays, so that a job of the run that still sleeps stops at its next fence. migrate
    leaves its file first and then looks at the verdict. Here the verdict comes first. So one of two
    sees the other.

    Returns
    -------
    False if it has begun to move state.

    Raises
    ------
    DamagedError : as for `newest_attempt`
    """
    attempt = newest_attempt(run, digest)
    if not (attempt.verdict == ROLL_BACK and attempt.ended):
        if has_started(run, digest):
            return False
        verdict = settle(run, digest, attempt.number, ROLL_BACK)
        if verdict == PUBLISH or has_started(run, digest):
            return False
        mark(run, digest, attempt.number, done=True)
    forbid(run, digest)
    # A later attempt may have begun before it could see that.
    return newest_attempt(run, digest).number == attempt.number


def forbid(run: RunFiles, digest: str) -> None:
    """Let no job carry out the plan of that digest any more, also if it is decided to publish."""
    run.withdrawn(digest).create(PlanMark(digest=digest))


def has_started(run: RunFiles, digest: str) -> bool:
    """Return whether migrate has begun to carry out the plan of that digest.

    It leaves its file before it changes the first table. A plan that was made again in the same run
    still has the file of the one before.
    """
    begun = run.migration.find()
    return begun is not None and begun.digest == digest


def begin_attempt(run: RunFiles, digest: str, number: int) -> bool:
    """Begin attempt `number`; the rollback of the one before it has ended.

    Returns
    -------
    False if it was begun before.
    """
    return run.attempt(digest, number).create(AttemptNumber(digest=digest, attempt=number))


def clear_earlier(run: RunFiles, begun: MigrationRecord) -> None:
    """Remove the results of earlier attempts, which pages would show, unless that is done.

    Parameters
    ----------
    begun : record of the attempt that begins
    """
    known = run.migration.find()
    if known is not None and known.digest == begun.digest and known.attempt >= begun.attempt:
        return
    for file in (run.progress, run.verify, run.gate_tables):
        file.remove()
    # Last: it tells that the others are gone.
    run.migration.write(begun)


def read_rolled_back(run: RunFiles, digest: str) -> RolledBack | None:
    """Read the mark that roll_back leaves on a plan before it touches a table.

    `done` says whether the rollback has ended. A killed roll_back may write its mark late. Such a
    mark of an earlier attempt does not count.

    Returns
    -------
    The mark; None: the newest attempt was not rolled back.

    Raises
    ------
    DamagedError : it is torn, so nobody knows whether this run may continue
    """
    mark = run.rolled_back.find()
    if mark is None or mark.digest != digest or mark.attempt != _newest_number(run, digest):
        return None
    return mark


def _newest_number(run: RunFiles, digest: str) -> int:
    number = 1
    while run.attempt(digest, number + 1).exists():
        number += 1
    return number
