"""Which fault, at which point of which step, and what is done after it: drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

#: Steps that faults are put into, and the stage of the table that each is begun from.
FLOWS = (
    ("begun", "learn"),
    ("planned", "migrate"),
    ("moved", "verify"),
    ("sealed", "publish"),
    ("moved", "roll_back"),
    ("sealed", "roll_back"),
    ("moved", "repair"),
    ("sealed", "repair"),
)
#: What there is of Iceberg tables only: the epoch is claimed, so nobody can go back.
CLAIMED = "claimed"
CLAIMED_FLOWS = ((CLAIMED, "roll_back"), (CLAIMED, "repair"))
#: The same of tables that a team made itself: no rival run fits them.
TEAM = "team"
TEAM_FLOWS = (("own", "adopt"), ("adopted", "release"))
#: Jobs that no run has: each is begun from a stage that has its name. See `flows`.
JOB_STEPS = ("apply_window", "evolve", "forget", "maintain", "bootstrap")
#: The writes of each step, where it does not make all: see `INSIDE`.
_PART, _COMMITS = "a part is being written", ("a commit is being written", "a commit is made")
_WRITES = {"evolve": ("a commit is made",)}
_WRITES |= dict.fromkeys(
    ("adopt", "release", "forget", "maintain", "bootstrap"), (_PART, *_COMMITS)
)
_MANIFEST = "a manifest is being written"
_ICEBERG_WRITES = dict.fromkeys(("verify", "roll_back", "repair", "release", "maintain"), _COMMITS)
_ICEBERG_WRITES |= dict.fromkeys(("adopt", "forget", "bootstrap"), (_PART, _MANIFEST, *_COMMITS))
_ICEBERG_WRITES["evolve"] = _COMMITS
#: Most files of a kind that a kill inside of Spark waits for.
_MOST_FILES = dict.fromkeys(("adopt", "release", *JOB_STEPS), 2)
#: Of every fourteen cases so many are of each kind; see `Case`.
KINDS = (
    *("kill",) * 6,
    *("inside", "full", "append", "rival", "clock", "error", "stall", "executor"),
)
#: Of these every other one does not begin at its point, but up to so much later; see `Case`.
LATER = {"error": 150, "stall": 150, "executor": 100, "full": 3000}
#: Of these one half goes another way; see `Case`.
TWO_WAYS = ("append", "rival", "clock", "error")
#: What a kill inside of Spark waits for: so many new files of a kind in a table.
INSIDE = {
    "a part is being written": r"channel=\d+/.*\.parquet",
    "a deletion vector is being written": r"deletion_vector_.*\.bin",
    "a commit is being written": r"_delta_log/\.\d{20}\.json\..*\.tmp",
    "a commit is made": r"_delta_log/\d{20}\.json",
}
#: The same in an Iceberg table. A file of metadata has another name until it is whole.
ICEBERG_INSIDE = {
    _PART: r"data/.*\.parquet",
    "a deletion vector is being written": r"data/.*\.puffin",
    _MANIFEST: r"metadata/[^/]*\.avro",
    "a commit is being written": r"metadata/[0-9a-f-]{36}\.metadata\.json",
    "a commit is made": r"metadata/v\d+\.metadata\.json",
}
#: A table's name and its stage; the two and a step; labels of the points of each flow, in order.
Stage = tuple[str, str]
Flow = tuple[str, str, str]
Points = Mapping[Flow, list[str]]


@dataclass(frozen=True)
class Case:
    """One fault.

    Parameters
    ----------
    kind : what happens: "kill" (SIGKILL at a point), "inside" (SIGKILL while Spark writes),
        "stop" (the step is left abruptly, in a session that lives on), "full" (files can be
        written no further than to some length from the point on), "append" (another writer adds
        rows), "rival" (another run does all that it can, in a process of its own: before the step
        goes on, or while it does), "clock" (it is set forward or back by days until the step has
        ended), "error" (every request of the store fails until the step has ended: before it is
        done, or the first one only after it), "stall" (each
        stands still for some seconds), "executor" (one is killed by SIGKILL, and Spark goes on)
    table, stage, step : the step, of which table, and what it has been through before
    at : number of the point, counted from 0; what `inside` waits for: how many files
    label : of the point; of `inside`: which files
    answer : "retry", "roll_back", or "again" (roll_back, then migrate and so on); of a job that no
        run has "retry", "repair" (then the job again), or "run" (a whole run, then the job again)
    sign : for what goes two ways, +1: rows by the function that is planned, another run before
        this one goes on, the clock forward, a request fails before it is done; -1: by that of the
        epoch, beside this one, back, after it is done
    later : how much after the point: requests that the store still answers before an error or a
        stall, hundredths of a second until an executor is killed, bytes of a file that a full disk
        still takes
    """

    number: int
    kind: str
    table: str
    stage: str
    step: str
    at: int
    label: str
    answer: str
    sign: int
    later: int = 0

    def __str__(self) -> str:
        kind = self.kind + ("+-"[self.sign < 0] if self.kind in TWO_WAYS else "")
        what = f"{self.step} of {self.table} {self.stage}"
        at = f"{self.at} + {self.later}" if self.kind in LATER else f"{self.at}"
        return f"{kind}, {what}, {at} ({self.label}), {self.answer}"


def draw(
    points: Points,
    count: int,
    seed: int,
    kinds: tuple[str, ...] = KINDS,
    iceberg: bool = False,
) -> Iterator[Case]:
    """So many cases. Every point is the place of a fault once before any is twice."""
    inside, writes = (ICEBERG_INSIDE, _ICEBERG_WRITES) if iceberg else (INSIDE, _WRITES)
    rng = random.Random(seed)
    decks: dict[str, list[tuple[Flow, int]]] = {}
    every = [(flow, i) for flow, seen in points.items() for i in range(len(seen))]
    # Before a bootstrap there is no table that others could write to, or move.
    apart = [(flow, i) for flow, i in every if flow[2] != "bootstrap"]
    places = {"append": apart, "rival": [(flow, i) for flow, i in apart if flow[0] != TEAM]}
    writing = [flow for flow in points if flow[2] not in ("learn", "publish")]
    for number in range(count):
        kind = kinds[number % len(kinds)]
        if kind == "inside":
            flow = rng.choice(writing)
            # An adoption of Delta tables makes one commit each, and no deletion vector.
            label = rng.choice(writes.get(flow[2], tuple(inside)))
            at = rng.randint(1, _MOST_FILES.get(flow[2], 3))
        else:
            if not decks.get(kind):
                those = places.get(kind, every)
                decks[kind] = rng.sample(those, len(those))
            flow, at = decks[kind].pop()
            label = points[flow][at]
        answers = {"learn": ["retry"], "roll_back": ["retry", "again"], "repair": ["retry"]}
        answers |= {step: ["retry"] for step in ("adopt", "release", "bootstrap")}
        answers |= {step: ["retry", "repair", "run"] for step in JOB_STEPS if step != "bootstrap"}
        answer = rng.choice(answers.get(flow[2], ["retry", "retry", "roll_back", "again"]))
        later = rng.choice([0, rng.randint(1, LATER.get(kind, 1))])
        yield Case(number, kind, *flow, at, label, answer, rng.choice([-1, 1]), later)
