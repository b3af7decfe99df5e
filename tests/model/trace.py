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
from tests.model.rows import MOVED, NEXT, WINDOW, placed, sums
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


class WindowsSeen(NamedTuple):
    """The windows in a table, as one can see them in the model and in the world.

    Parameters
    ----------
    until : day before which all events are in, by the commits. UNKNOWN: they do not say
    held : how often the rows have the events of the first day, and of the second
    count : newest transaction id of a window or note
    """

    until: int
    held: tuple[int, int]
    count: int


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


def windows_seen(scenario: Scenario, state: State) -> WindowsSeen:
    """Look at the windows of a state of the model."""
    (table,) = state.tables
    value = sums(table.rows)[MOVED]
    held = value // WINDOW % 8, value // NEXT % 8
    return WindowsSeen(table.until, held, table.count)


def _jobs(state: State) -> tuple[str, ...]:
    return tuple(sorted(proc.job for proc in state.procs))


def _without(state: State, job: str) -> State:
    """Return a state after a job was killed; of two of one name it is the one that began last."""
    at = [i for i, proc in enumerate(state.procs) if proc.job == job][-1:]
    return state._replace(procs=tuple(p for i, p in enumerate(state.procs) if i not in at))


def _admitted(epoch: int, table: Table) -> tuple[int, ...]:
    if not table.movers:
        return ()
    return (table.closed - 1,) if table.closed else (epoch, epoch + 1)


class Trace:
    """All states of the model that fit what was seen so far.

    Parameters
    ----------
    look : looks at the world
    view : looks at a state of the model in the same way
    planned : whether the only run has its plan already; else numbers of windows can be seen, and
        are not made small
    """

    def __init__(
        self,
        variant: Variant,
        scenario: Scenario,
        look: Callable[[], NamedTuple],
        view: Callable[[Scenario, State], NamedTuple] = seen,
        planned: bool = True,
    ) -> None:
        self.variant, self.scenario, self.look, self.view = variant, scenario, look, view
        self.small = small_versions if planned else lambda state: state
        first = scenario.first()
        self.states = {s for _, s in variant.start(scenario, first, "plan", 0)}
        if not planned:
            self.states = {first}
        self.now, self.changes, self.told = look(), 0, ["begins"]
        self.states = {s for s in self.states if view(scenario, s) == self.now}
        assert self.states, f"the model begins elsewhere: {self.now}"

    @contextmanager
    def job(self, name: str) -> Iterator[Callable[[str], None]]:
        """Follow one job. Call what this gives at each point that the job passes.

        Another one may run whole while it does.
        """
        beside = {_jobs(s) for s in self.states}
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
            self.states = {_without(s, name) for s in self._reached()}
            raise
        self.point("the end")
        self.states = {s for s in self._reached() if _jobs(s) in beside}
        self._check(bool(self.states), f"{name} may not end here")

    def point(self, label: str) -> None:
        """Look at the world, and follow the model to where it looks like that."""
        now = self.look()
        if now == self.now:
            return
        self.told.append(f"{label}: {now}")
        self._follow({s for one in self._reached() for s in self._steps(one)}, now)

    def hand(self, what: str, act: Callable[[], object]) -> None:
        """Do something by hand, which the model must know."""
        act()
        self.told.append(f"by hand: {what}")
        done = (self.variant.hands(self.scenario, one) for one in self._reached())
        self._follow({self.small(s) for some in done for _, s in some}, self.look())

    def _follow(self, after: set[State], now: NamedTuple) -> None:
        self.states = {s for s in after if self.view(self.scenario, s) == now}
        allowed = {self.view(self.scenario, s) for s in after} - {self.now}
        self._check(bool(self.states), f"the model allows {sorted(allowed) or 'nothing'}")
        self.now, self.changes = now, self.changes + 1

    def _reached(self) -> set[State]:
        """States that look as the world does, after steps that nobody can see."""
        found, todo = set(self.states), list(self.states)
        while todo:
            for after in self._steps(todo.pop()):
                if after not in found and self.view(self.scenario, after) == self.now:
                    found.add(after)
                    todo.append(after)
        return found

    def _steps(self, state: State) -> Iterable[State]:
        for i, proc in enumerate(state.procs):
            rest = state._replace(procs=state.procs[:i] + state.procs[i + 1 :])
            for _, after in self.variant.steps[proc.job, proc.at](self.scenario, rest, proc):
                # A job that closes and opens for ever would make new versions for ever.
                yield self.small(after)

    def _check(self, fine: bool, why: str) -> None:
        if not fine:
            raise PartedError("\n".join([*self.told, why]))
