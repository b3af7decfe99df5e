"""Which fault, at which point of which step, and what is done after it: drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

#: Steps that faults are put into, and the stage of the table that each is begun from.
FLOWS = (
    ("bootstrapped", "learn"),
    ("planned", "migrate"),
    ("moved", "verify"),
    ("sealed", "publish"),
    ("moved", "roll_back"),
    ("sealed", "roll_back"),
)
#: Of every ten cases so many are of each kind; see `Case`.
KINDS = ("kill",) * 5 + ("inside", "full", "append", "rival", "clock")
#: What a kill inside of Spark waits for: so many new files of a kind in a table.
INSIDE = {
    "a part is being written": r"channel=\d+/.*\.parquet",
    "a deletion vector is being written": r"deletion_vector_.*\.bin",
    "a commit is being written": r"_delta_log/\.\d{20}\.json\..*\.tmp",
    "a commit is made": r"_delta_log/\d{20}\.json",
}
Points = Mapping[tuple[str, str], list[str]]


@dataclass(frozen=True)
class Case:
    """One fault.

    Parameters
    ----------
    kind : what happens: "kill" (SIGKILL at a point), "inside" (SIGKILL while Spark writes),
        "stop" (the step is left abruptly, in a session that lives on), "full" (no file can be
        written from the point on), "append" (another writer adds rows), "rival" (another run
        does all that it can), "clock" (files are suddenly days older or younger)
    stage, step : the step, and what the table has been through before
    at : number of the point, counted from 0; what `inside` waits for: how many files
    label : of the point; of `inside`: which files
    answer : "retry", "roll_back", or "again" (roll_back, then migrate and so on)
    sign : +1 or -1, for what has two directions
    """

    number: int
    kind: str
    stage: str
    step: str
    at: int
    label: str
    answer: str
    sign: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.step} of {self.stage}, {self.at} ({self.label}), {self.answer}"


def draw(points: Points, count: int, seed: int, kinds: tuple[str, ...] = KINDS) -> Iterator[Case]:
    """So many cases. Every point is the place of a fault once before any is twice.

    Parameters
    ----------
    points : labels of the points of each flow, in order
    """
    rng = random.Random(seed)
    decks: dict[str, list[tuple[str, str, int]]] = {}
    every = [(stage, step, i) for stage, step in FLOWS for i in range(len(points[stage, step]))]
    for number in range(count):
        kind = kinds[number % len(kinds)]
        if kind == "inside":
            stage, step = rng.choice([f for f in FLOWS if f[1] not in ("learn", "publish")])
            at, label = rng.randint(1, 3), rng.choice(list(INSIDE))
        else:
            if not decks.get(kind):
                decks[kind] = rng.sample(every, len(every))
            stage, step, at = decks[kind].pop()
            label = points[stage, step][at]
        answers = {"learn": ["retry"], "roll_back": ["retry", "again"]}
        answer = rng.choice(answers.get(step, ["retry", "retry", "roll_back", "again"]))
        yield Case(number, kind, stage, step, at, label, answer, rng.choice([-1, 1]))
