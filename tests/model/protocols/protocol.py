"""What variants of the protocol share: a table of steps by job and name, and the moves between
them. A step does one thing: it reads, or it writes one file, or it is one commit of Delta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tests.model.rows import Function
from tests.model.state import Plan, Proc, Run, State, Table

#: What can happen next: a text for the story, and the state then.
Outcome = tuple[str, State]


class Scenario(NamedTuple):
    """What takes part.

    Parameters
    ----------
    functions : of epochs 0, 1, ...; no plan leads further than the last
    table : each state table at first
    tables : how many
    runs : how many
    jobs : that may be started, any number of times and in any order
    hands : names of what others may do, each once
    at_once : jobs under way at most; more than one a run: one of them is a zombie or paused
    sleepers : jobs that may still be under way when another job of their run starts: their task was
        given up, their process was not
    alike : whether runs planned at one version of the tables have one plan (its digest); else a
        plan is its run's alone
    """

    functions: tuple[Function, ...]
    table: Table
    tables: int = 1
    runs: int = 1
    jobs: tuple[str, ...] = ("plan", "migrate", "verify", "publish", "roll_back", "repair")
    hands: tuple[str, ...] = ()
    at_once: int = 1
    sleepers: tuple[str, ...] = ()
    alike: bool = True

    def first(self) -> State:
        """Return the state after bootstrap."""
        return State(
            epochs=(0,),
            tables=(self.table,) * self.tables,
            runs=(Run(),) * self.runs,
            plans=(None,) * (self.runs + self.at_once + len(self.functions)),
            procs=(),
            hands=(1 << len(self.hands)) - 1,
        )


#: A step: the scenario, the state without the job, and the job.
Step = Callable[[Scenario, State, Proc], Iterable[Outcome]]
Steps = Mapping[tuple[str, str], Step]


class Variant(NamedTuple):
    """A protocol: its steps, and how jobs start. `start` starts a job of a run by its name."""

    name: str
    steps: Steps
    start: Callable[[Scenario, State, str, int], Iterable[Outcome]]
    hands: Callable[[Scenario, State], Iterable[Outcome]]


def on(state: State, proc: Proc, at: str, **changes: int) -> State:
    """Let the job go on at another step."""
    return state._replace(procs=(*state.procs, proc._replace(at=at, **changes)))


def with_run(state: State, proc: Proc, **changes: int) -> State:
    """Write files of the job's run."""
    number = proc.run
    run = state.runs[number]._replace(**changes)
    return state._replace(runs=(*state.runs[:number], run, *state.runs[number + 1 :]))


def plan_of(state: State, proc: Proc) -> Plan:
    """The plan that a job was started for."""
    plan = state.plans[proc.plan - 1]
    assert plan is not None
    return plan
