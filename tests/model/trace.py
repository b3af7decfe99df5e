"""Real steps held against the model: each change that is seen must be one that a job may make.

What is seen of the world is less than a state of the model. So all states that fit are kept, and
each job goes on from all of them. If none fits any more, the model and the code have parted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.model.checker.canonical import small_versions
from tests.model.protocols.protocol import Scenario, Variant
from tests.model.protocols.repair.tables import REPAIRING
from tests.model.rows import placed
from tests.model.state import State, Table, alone


class Seen(NamedTuple):
    """What can be seen of a table and its only run, in the model and in the world.

    Parameters
    ----------
    epoch : the current one
    constraints : epochs whose constraint stands
    moving : epochs whose function the plan's moving constraint admits; none: it does not stand
    repairing : whether repair's own constraint stands
    placed : by which epochs all rows are placed
    attempt : the newest
    verdict : on it: 0, or one of `attempts`
    mark : of it: 0: not rolled back, 1: begun, 2: ended
    verified : whether verify.json is there
    """

    epoch: int
    constraints: tuple[int, ...]
    moving: tuple[int, ...]
    repairing: bool
    placed: tuple[int, ...]
    attempt: int
    verdict: int
    mark: int
    verified: bool


class PartedError(AssertionError):
    """A job has made a change that the model does not allow."""


def seen(scenario: Scenario, state: State) -> Seen:
    """Look at a state of the model."""
    (table,), (run,) = state.tables, state.runs
    plan = state.plans[run.plan - 1]
    assert plan is not None
    epochs = range(len(scenario.functions))
    decided = plan.verdicts[plan.attempt - 1] if plan.attempt <= len(plan.verdicts) else 0
    return Seen(
        state.epoch,
        tuple(e for e in epochs if table.constraints & alone(e)),
        _admitted(state.epoch, table),
        bool(table.constraints & REPAIRING),
        tuple(e for e in epochs if placed(table.rows, scenario.functions[e])),
        plan.attempt,
        decided,
        plan.mark if plan.marked == plan.attempt else 0,
        run.verified == run.plan,
    )


def _admitted(epoch: int, table: Table) -> tuple[int, ...]:
    if not table.movers:
        return ()
    return (table.closed - 1,) if table.closed else (epoch, epoch + 1)


class Trace:
    """All states of the model that fit what was seen so far.

    Parameters
    ----------
    look : looks at the world
    """

    def __init__(self, variant: Variant, scenario: Scenario, look: Callable[[], Seen]) -> None:
        self.variant, self.scenario, self.look = variant, scenario, look
        self.states = {s for _, s in variant.start(scenario, scenario.first(), "plan", 0)}
        self.now, self.changes, self.told = look(), 0, ["learns and plans"]
        self.states = {s for s in self.states if seen(scenario, s) == self.now}
        assert self.states, "the model begins elsewhere"

    @contextmanager
    def job(self, name: str) -> Iterator[Callable[[str], None]]:
        """Follow one job. Call what this gives at each point that the job passes."""
        self.told.append(f"{name} starts")
        self.states = {
            s for one in self.states for _, s in self.variant.start(self.scenario, one, name, 0)
        }
        self._check(bool(self.states), f"{name} may not start")
        try:
            yield self.point
        except PartedError:
            raise
        except BaseException:
            self.point("the end")
            # A job that fails or is killed leaves what it has done, and is no more.
            self.states = {s._replace(procs=()) for s in self._reached()}
            raise
        self.point("the end")
        self.states = {s for s in self._reached() if not s.procs}
        self._check(bool(self.states), f"{name} may not end here")

    def point(self, label: str) -> None:
        """Look at the world, and follow the model to where it looks like that."""
        now = self.look()
        if now == self.now:
            return
        self.told.append(f"{label}: {now}")
        reached = self._reached()
        after = {s for one in reached for s in self._steps(one)}
        self.states = {s for s in after if seen(self.scenario, s) == now}
        allowed = {seen(self.scenario, s) for s in after} - {self.now}
        self._check(bool(self.states), f"the model allows {sorted(allowed) or 'nothing'}")
        self.now, self.changes = now, self.changes + 1

    def _reached(self) -> set[State]:
        """States that look as the world does, after steps that nobody can see."""
        found, todo = set(self.states), list(self.states)
        while todo:
            for after in self._steps(todo.pop()):
                if after not in found and seen(self.scenario, after) == self.now:
                    found.add(after)
                    todo.append(after)
        return found

    def _steps(self, state: State) -> Iterable[State]:
        for i, proc in enumerate(state.procs):
            rest = state._replace(procs=state.procs[:i] + state.procs[i + 1 :])
            for _, after in self.variant.steps[proc.job, proc.at](self.scenario, rest, proc):
                # A job that closes and opens for ever would make new versions for ever.
                yield small_versions(after)

    def _check(self, fine: bool, why: str) -> None:
        if not fine:
            raise PartedError("\n".join([*self.told, why]))
