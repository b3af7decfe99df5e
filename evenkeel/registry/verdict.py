"""What becomes of an attempt to carry out a plan: its epoch is published, or it is rolled back.

The verdict is one file, created exclusively. Whoever creates it first wins, and the other obeys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenkeel.registry.run_folder import RunFolder
from evenkeel.registry.store import shaped

#: How far rolling back has come: the plan's digest, the attempt, and whether it has ended.
ROLLED_BACK = "rolled_back.json"
PUBLISH, ROLL_BACK = "publish", "roll_back"


@dataclass(frozen=True)
class Attempt:
    """The newest attempt of a run to carry out its plan.

    Parameters
    ----------
    number : from 1
    verdict : PUBLISH, ROLL_BACK, or None as long as neither is decided
    ended : whether rolling back has ended
    """

    number: int
    verdict: str | None
    ended: bool


def newest_attempt(run: RunFolder, digest: str) -> Attempt:
    """Read the newest attempt of the run at the plan of that digest; DamagedError where a file is
    torn: whether this run may go on, nobody knows."""
    number = _number(run, digest)
    back = read_rolled_back(run, digest)
    verdict, file = None, _file(digest, number)
    if run.exists(file):
        verdict = shaped(run.read_json(file), run.path(file), verdict=str)["verdict"]
    elif back is not None:
        # Earlier versions of Evenkeel left the mark alone.
        verdict = ROLL_BACK
    return Attempt(number, verdict, back is not None and bool(back["done"]))


def settle(run: RunFolder, digest: str, number: int, verdict: str) -> str:
    """Decide an attempt, unless it is decided; returns the verdict that holds."""
    try:
        run.create_json(
            _file(digest, number), {"digest": digest, "attempt": number, "verdict": verdict}
        )
    except FileExistsError:
        file = _file(digest, number)
        return str(shaped(run.read_json(file), run.path(file), verdict=str)["verdict"])
    return verdict


def mark(run: RunFolder, digest: str, number: int, *, done: bool) -> None:
    """Say how far rolling back has come."""
    run.write_json(ROLLED_BACK, {"digest": digest, "attempt": number, "done": done})


def next_attempt(run: RunFolder, digest: str, number: int) -> None:
    """Begin the attempt after attempt `number`, which was rolled back to its end."""
    run.write_json(_attempt(digest), {"digest": digest, "attempt": number + 1})
    # Of the attempt before, and so read by nobody who knows of attempts.
    run.remove(ROLLED_BACK)


def read_rolled_back(run: RunFolder, digest: str) -> dict[str, Any] | None:
    """The mark that roll_back leaves on the plan of that digest before it touches a table:
    `done` says whether it has ended. None: not rolled back, or begun anew since. What is left of
    an attempt that has ended may leave its mark late: it says nothing of a newer one.

    Raises
    ------
    DamagedError : it is torn: whether this run may go on, nobody knows
    """
    if not run.exists(ROLLED_BACK):
        return None
    mark = shaped(run.read_json(ROLLED_BACK), run.path(ROLLED_BACK), digest=str, done=bool)
    if mark["digest"] != digest or mark.get("attempt", 1) != _number(run, digest):
        return None
    return mark


def _number(run: RunFolder, digest: str) -> int:
    file = _attempt(digest)
    if not run.exists(file):
        return 1
    return int(shaped(run.read_json(file), run.path(file), attempt=int)["attempt"])


def _attempt(digest: str) -> str:
    """File with the number of the newest attempt; missing: it is the first."""
    return f"attempt_{digest[:12]}.json"


def _file(digest: str, number: int) -> str:
    return f"verdict_{digest[:12]}_{number}.json"
