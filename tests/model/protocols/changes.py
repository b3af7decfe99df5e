"""Jobs that change tables by no plan, and withdraw the plans that wait: evolve, which changes
columns, and forget, which deletes the rows of the whole key and its names
(spark_jobs/evenkeel_spark/evolving, forgetting; evenkeel/registry/forgetting.py, verdict.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.attempts import (
    PUBLISH,
    ROLL_BACK,
    ended,
    newest,
    settled,
    verdict,
    with_plan,
)
from tests.model.protocols.protocol import Outcome, Scenario, Step, on, plan_of
from tests.model.rows import MOVED
from tests.model.state import Plan, Proc, State, alone, commit, stands

CHANGES = ("evolve", "forget")


def start_change(scenario: Scenario, state: State, job: str) -> Iterable[Outcome]:
    """Start where no run has begun to move state; evolve needs every table at rest, too."""
    resting = all(stands(state, t) == alone(state.epoch) for t in state.tables)
    if any(_begun(state, i) for i in _may_move(state)) or (job == "evolve" and not resting):
        return []
    proc = Proc(job, "", -1, 0, note=state.epoch)
    if job == "evolve":
        return _next_run(state, proc, "finds plans that wait", _waiting(state), "look")
    return [("finds that no run moves state", on(state, proc, "delete"))]


def _plan_of_run(state: State, i: int) -> Plan | None:
    number = state.runs[i].plan
    return state.plans[number - 1] if number else None


def _may_move(state: State) -> Iterable[int]:
    """Yield the runs whose plan starts from the current epoch and has not been rolled back."""
    for i in range(len(state.runs)):
        plan = _plan_of_run(state, i)
        if plan is None or plan.parent < state.epoch:
            continue
        if not (_begun(state, i) and plan.mark == 2 and plan.marked == plan.attempt):
            yield i


def _begun(state: State, i: int) -> bool:
    return bool(state.runs[i].plan) and state.runs[i].migration >> 1 == state.runs[i].plan


def _waiting(state: State) -> tuple[tuple[int, int], ...]:
    """Return the plans from the current epoch, also those that were rolled back."""
    found = [(run.plan, _plan_of_run(state, i)) for i, run in enumerate(state.runs)]
    return tuple(
        (number, plan.attempt)
        for number, plan in found
        if plan is not None and plan.parent >= state.epoch and not plan.withdrawn
    )


def _next_run(
    state: State, proc: Proc, text: str, left: tuple[tuple[int, int], ...], after: str
) -> Iterable[Outcome]:
    """Go on to the next plan that waits; to `after` if none is left."""
    proc = proc._replace(plan=left[0][0] if left else 0, attempt=0, runs=left)
    if left:
        return [(text, on(state, proc, "settle"))]
    return [(text, on(state, proc, after) if after else state)]


def settle(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    number = newest(state, proc)
    proc = proc._replace(attempt=number)
    if verdict(state, proc, number) == ROLL_BACK and ended(state, proc, number):
        return [("finds the plan rolled back", on(state, proc, "withdraw"))]
    state, holds = settled(state, proc, ROLL_BACK)
    if holds == PUBLISH:
        return [("stops: the run has the verdict to publish", state)]
    return [("creates the verdict: roll back", on(state, proc, "ask begun"))]


def ask_begun(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if state.runs[plan_of(state, proc).run].migration >> 1 == proc.plan:
        return [("stops: the run has begun to move state", state)]
    return [("looks: it has not begun to move state", on(state, proc, "mark"))]


def mark(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state = with_plan(state, proc, mark=2, marked=proc.attempt)
    return [("marks the run as rolled back", on(state, proc, "withdraw"))]


def withdraw(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state = with_plan(state, proc, withdrawn=1)
    return [("withdraws the plan for good", on(state, proc, "ask attempt"))]


def ask_attempt(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if newest(state, proc) != proc.attempt:
        return [("stops: another attempt has begun", state)]
    after = "look" if proc.job == "evolve" else ""
    return _next_run(state, proc, "looks: no other attempt has begun", proc.runs[1:], after)


def look(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if stands(state, state.tables[proc.table]) != alone(proc.note):
        return [("stops: the table is not under the epoch alone", state)]
    return [("looks: the table is under the epoch alone", on(state, proc, "alter"))]


def alter(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state = commit(state, proc.table, state.tables[proc.table], 0, ordinary=False)
    if proc.table + 1 < scenario.tables:
        return [("alters the table", on(state, proc, "look", table=proc.table + 1))]
    return [("ends: it has altered every table", state)]


def delete(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Delete the key's rows wherever they are, in one commit; its events count no more."""
    table, at = state.tables[proc.table], proc.table
    rows = tuple(row for row in table.rows if row[0] != MOVED)
    if rows != table.rows:
        truth = tuple(0 if key == MOVED else total for key, total in enumerate(table.truth))
        state = commit(state, at, table._replace(rows=rows, truth=truth), 0)
    if at + 1 < scenario.tables:
        return [("deletes the key's rows", on(state, proc, "delete", table=at + 1))]
    return [("deletes the key's rows", on(state, proc, "list", table=0))]


def list_runs(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return _next_run(state, proc, "lists the plans that name the key", _waiting(state), "")


_WITHDRAWING: dict[str, Step] = {
    "settle": settle,
    "ask begun": ask_begun,
    "mark": mark,
    "withdraw": withdraw,
    "ask attempt": ask_attempt,
}
CHANGING: dict[str, dict[str, Step]] = {
    "evolve": {**_WITHDRAWING, "look": look, "alter": alter},
    "forget": {"delete": delete, "list": list_runs, **_WITHDRAWING},
}
