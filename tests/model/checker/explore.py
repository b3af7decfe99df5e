"""Visit every state that can be reached, nearest first, and look for those with no way out."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from tests.model.checker.canonical import in_order
from tests.model.checker.invariants import WAY_OUT, at_rest, broken_by, under, violated
from tests.model.protocols.changes import CHANGES
from tests.model.protocols.protocol import Scenario, Variant
from tests.model.protocols.windows import DAYS
from tests.model.state import Proc, State

#: Who takes a step: a job under way (its name and run), a job that starts, a kill, or hands.
HAND = "by hand"
#: Jobs that belong to no run.
ALONE = {*DAYS, *CHANGES, "maintain", "holds", "undo", "repair"}
#: Of these, jobs that may be under way beside any other.
BESIDE = ALONE - {"repair"}


class Edge(NamedTuple):
    """A step: who takes it, what it does, whether a job does it, and the state then."""

    who: str
    text: str
    by_job: bool
    state: State


class Finding(NamedTuple):
    """An invariant that is broken, and the state (its number) where it shows first."""

    invariant: str
    number: int
    text: tuple[str, str] | None = None


class Explored(NamedTuple):
    """What a search has found.

    Parameters
    ----------
    states : every state, nearest first
    parents : number of the state that each was first reached from; -1: none
    findings : the nearest of each invariant that is broken
    stuck : how many states have no way out
    edges : steps taken
    complete : whether every reachable state was visited
    """

    states: list[State]
    parents: array[int]
    findings: dict[str, Finding]
    stuck: int
    edges: int
    complete: bool


def edges(variant: Variant, scenario: Scenario, state: State) -> Iterator[Edge]:
    """Every step that can be taken in a state."""
    yield from _steps(variant, scenario, state)
    if len(state.procs) < scenario.at_once:
        yield from _starts(variant, scenario, state)
    if state.hands:
        for text, after in variant.hands(scenario, state):
            yield Edge(HAND, text, False, after)


def _steps(variant: Variant, scenario: Scenario, state: State) -> Iterator[Edge]:
    """Every next step of a job that runs, and its end by a kill."""
    steps, procs = variant.steps, state.procs
    for i, proc in enumerate(procs):
        if i and proc == procs[i - 1]:
            continue
        rest = state._replace(procs=procs[:i] + procs[i + 1 :])
        who = proc.job if proc.run < 0 else f"run {proc.run + 1}, {proc.job}"
        for text, after in steps[proc.job, proc.at](scenario, rest, proc):
            yield Edge(who, text, True, after)
        yield Edge(who, "is killed", True, rest)


def _starts(variant: Variant, scenario: Scenario, state: State) -> Iterator[Edge]:
    """Every start of a job."""
    procs = state.procs
    for job in scenario.jobs:
        if not may_start(scenario, procs, job):
            continue
        if job in ALONE:
            for text, after in variant.start(scenario, state, job, -1):
                yield Edge(job, text, True, after)
            continue
        for run in range(scenario.runs):
            if all(p.run != run or p.job in scenario.sleepers for p in procs):
                for text, after in variant.start(scenario, state, job, run):
                    yield Edge(f"run {run + 1}, {job}", text, True, after)


def may_start(scenario: Scenario, procs: tuple[Proc, ...], job: str) -> bool:
    """Return whether a job may start beside those under way: Airflow keeps repair and the jobs of
    runs apart, as long as it knows of them."""
    if job == "repair":
        return all(p.job in scenario.sleepers or p.job in BESIDE for p in procs)
    return job in BESIDE or "repair" in scenario.sleepers or all(p.job != "repair" for p in procs)


def explore(
    variant: Variant, scenario: Scenario, limit: int = 10_000_000, first: str = ""
) -> Explored:
    """Visit every reachable state, or `limit` of them.

    Parameters
    ----------
    first : end at the first state that breaks this invariant
    """
    begin = in_order(scenario.first())
    numbers, states, parents = {begin: 0}, [begin], array("q", [-1])
    sources, targets = array("I"), array("I")
    findings: dict[str, Finding] = {}
    done = at = 0
    while at < len(states) and len(states) < limit:
        state = states[at]
        wrong = violated(scenario, state)
        if wrong is not None:
            findings.setdefault(wrong, Finding(wrong, at))
            if wrong == first:
                break
            at += 1
            continue
        fine = under(state)
        for edge in edges(variant, scenario, state):
            done += 1
            # It brings the constraints of then back, too. The same job repairs them.
            own = edge.by_job and edge.who != "undo"
            broken = broken_by(state, edge.state, fine) if own else None
            after = in_order(edge.state)
            number = numbers.get(after)
            if number is None:
                number = numbers[after] = len(states)
                states.append(after)
                parents.append(at)
            if edge.by_job:
                sources.append(at)
                targets.append(number)
            if broken is not None and broken not in findings:
                findings[broken] = Finding(broken, at, (edge.who, edge.text))
        if first in findings:
            break
        at += 1
    complete = at == len(states)
    stuck: list[int] = []
    if complete:
        out = ways_out(scenario, states, sources, targets)
        broken_at = {f.number for f in findings.values() if f.text is None}
        stuck = [n for n in stuck_in(scenario, states, out) if n not in broken_at]
    if stuck:
        findings.setdefault(WAY_OUT, Finding(WAY_OUT, stuck[0]))
    return Explored(states, parents, findings, len(stuck), done, complete)


def stuck_in(scenario: Scenario, states: list[State], out: bytearray) -> Iterator[int]:
    """Number of each state that breaks nothing and has no way out, nearest first."""
    for number, state in enumerate(states):
        if not out[number] and violated(scenario, state) is None:
            yield number


def ways_out(
    scenario: Scenario, states: list[State], sources: array[int], targets: array[int]
) -> bytearray:
    """Return for each state 1 if some sequence of jobs leads from it to rest."""
    count = len(states)
    first = array("I", bytes(4 * (count + 1)))
    for target in targets:
        first[target + 1] += 1
    for i in range(count):
        first[i + 1] += first[i]
    fill, into = array("I", first), array("I", bytes(4 * len(targets)))
    for source, target in zip(sources, targets, strict=True):
        into[fill[target]] = source
        fill[target] += 1
    out = bytearray(count)
    todo = [i for i, state in enumerate(states) if at_rest(scenario, state)]
    for i in todo:
        out[i] = 1
    while todo:
        i = todo.pop()
        for j in into[first[i] : first[i + 1]]:
            if not out[j]:
                out[j] = 1
                todo.append(j)
    return out
