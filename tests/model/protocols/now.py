"""The protocol since each plan names its run: attempts, verdicts, and a look at tables to publish
(spark_jobs/evenkeel_spark/migration/fence.py, publish.py; evenkeel/registry/verdict.py)."""

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
from tests.model.protocols.before import gate, published, record
from tests.model.protocols.changes import CHANGES, CHANGING, start_change
from tests.model.protocols.hands import by_hand
from tests.model.protocols.now_moves import MOVES, fence
from tests.model.protocols.protocol import Outcome, Scenario, Step, Variant, on, plan_of, with_run
from tests.model.protocols.repair import REPAIR, start_repair
from tests.model.protocols.windows import BY_DAY, DAYS, WINDOWS, start_alone
from tests.model.state import FRESH, Plan, Proc, State, alone, stands


def start(scenario: Scenario, state: State, job: str, run: int) -> Iterable[Outcome]:
    """Start a job; a plan is made in one step, and is its run's alone."""
    if job in (*DAYS, "maintain", "holds", "undo"):
        return start_alone(scenario, state, job)
    if job in CHANGES:
        return start_change(scenario, state, job)
    if job == "repair":
        return start_repair(scenario, state)
    if job == "plan":
        return _plan(scenario, state, run)
    # publish keeps files: the epoch is there already.
    if job == "publish" or not state.runs[run].plan:
        return []
    return [("starts", on(state, Proc(job, "start", run, state.runs[run].plan), "start"))]


def _plan(scenario: Scenario, state: State, number: int) -> Iterable[Outcome]:
    run = state.runs[number]
    if state.epoch + 1 >= len(scenario.functions) or None not in state.plans:
        return []
    fresh = Plan(state.epoch, (FRESH,) * scenario.tables, number)
    there = state.plans[run.plan - 1] if run.plan else None
    if there is not None:
        same = there.parent == fresh.parent and there.seen == fresh.seen
        begun = run.migration >> 1 == run.plan and not _ended(there)
        if same or (begun and not published(state, run.plan)):
            return []
    made = state.plans.index(None) + 1
    state = state._replace(plans=(*state.plans[: made - 1], fresh, *state.plans[made:]))
    return [("learns and plans", with_run(state, Proc("", "", number, made), plan=made))]


def _ended(plan: Plan) -> bool:
    return plan.mark == 2 and plan.marked == plan.attempt


def migrate_start(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if published(state, proc.plan):
        return [("finds its epoch published", on(state, proc, "record"))]
    if plan_of(state, proc).withdrawn:
        return [("stops: its plan was withdrawn", state)]
    number = newest(state, proc)
    if verdict(state, proc, number) != ROLL_BACK:
        return [("looks: not rolled back", on(state, proc, "fences", attempt=number))]
    if not ended(state, proc, number):
        return [("stops: rolling back has not ended", state)]
    return [("finds that it was rolled back", on(state, proc, "next attempt", attempt=number))]


def next_attempt(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Create the next attempt's file. Marks and verify.json then read as of another attempt."""
    number = proc.attempt + 1
    plan = plan_of(state, proc)
    if plan.attempt >= number:
        return [("finds the next attempt begun", on(state, proc, "fences", attempt=number))]
    verdicts = plan.verdicts + (0,) * (number - len(plan.verdicts))
    state = with_plan(state, proc, attempt=number, verdicts=verdicts, mark=0)
    if state.runs[proc.run].verified == proc.plan:
        state = with_run(state, proc, verified=0)
    return [("begins the next attempt", on(state, proc, "clear", attempt=number))]


def clear(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state = with_run(state, proc, gate=0, verified=0, migration=2 * proc.plan)
    return [("removes what was verified", on(state, proc, "fences"))]


def fences(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Fence every table; remember those that are sealed."""
    sealed = 0
    for t, table in enumerate(state.tables):
        if (why := fence(state, proc._replace(table=t))) is not None:
            return [(why, state)]
        if table.constraints & alone(plan_of(state, proc).parent + 1):
            sealed |= 1 << t
    return [("looks at every table", on(state, proc, "begin", note=sealed))]


def begin(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if state.runs[proc.run].migration >> 1 != proc.plan:
        state = with_run(state, proc, migration=2 * proc.plan)
    return _next_table(state, proc, "leaves migration.json", -1)


def _next_table(state: State, proc: Proc, text: str, last: int) -> Iterable[Outcome]:
    for t in range(last + 1, len(state.tables)):
        if not proc.note >> t & 1:
            return [(text, on(state, proc, "open constraint", table=t))]
    return [(text, on(state, proc, "record", table=0, note=0))]


def migrate_moved(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return _next_table(state, proc, "is through with the table", proc.table)


def verify_start(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if published(state, proc.plan):
        return [("ends: its epoch is published", state)]
    return [("looks: not published", on(state, proc, "sweep", attempt=newest(state, proc)))]


def sweep(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look at a table before it is measured."""
    if (why := fence(state, proc)) is not None:
        return [(why, state)]
    bits, parent = state.tables[proc.table].constraints, plan_of(state, proc).parent
    if bits & alone(parent):
        return [("stops: migrate first", state)]
    if bits & alone(parent + 1):
        return verify_moved(scenario, state, proc)
    return [("looks before sweeping", on(state, proc, "shut"))]


def verify_moved(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if proc.table + 1 < scenario.tables:
        return [("is through with the table", on(state, proc, "sweep", table=proc.table + 1))]
    return [("is through with sweeping", on(state, proc, "gate", table=0))]


def verify_sealed(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if proc.table + 1 < scenario.tables:
        return [("is through with sealing", on(state, proc, "seal", table=proc.table + 1))]
    return [("has sealed every table", on(state, proc, "write verified", table=0))]


def write_verified(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    # verify.json names its attempt: one of an earlier attempt reads like none.
    own = proc.attempt == newest(state, proc)
    state = with_run(state, proc, verified=proc.plan if own else 0)
    return [("leaves verify.json", on(state, proc, "publish"))]


def publish(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    run, number = state.runs[proc.run], newest(state, proc)
    if published(state, proc.plan):
        return [("ends: its epoch is published", state)]
    holds = verdict(state, proc, number)
    passed = run.gate and run.verified == proc.plan
    if holds == ROLL_BACK or not (passed or holds == PUBLISH):
        return [("stops: not verified, or rolled back", state)]
    return [("goes to publish", on(state, proc, "look", attempt=number, table=0, note=0))]


def look(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look at a table: before the verdict (note 0) and after (note 1)."""
    if (why := fence(state, proc)) is not None:
        return [(why, state)]
    if stands(state, state.tables[proc.table]) != alone(plan_of(state, proc).parent + 1):
        return [("stops: a table is not sealed", state)]
    if proc.table + 1 < scenario.tables:
        return [("finds the table sealed", on(state, proc, "look", table=proc.table + 1))]
    after = "create" if proc.note else "verdict"
    changes = {} if proc.note else {"other": 0}
    return [("finds the table sealed", on(state, proc, after, table=0, **changes))]


def verdict_publish(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state, holds = settled(state, proc, PUBLISH)
    if holds != PUBLISH:
        return [("stops: this run was rolled back", state)]
    return [("creates the verdict: publish", on(state, proc, "look", note=1))]


def create(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if published(state, proc.plan):
        return [("finds its epoch published", state)]
    if plan_of(state, proc).parent != state.epoch:
        return [("stops: another epoch is current", state)]
    state = state._replace(epochs=(*state.epochs, proc.plan))
    # The look changes nothing. So it is a step only where it finds something.
    return [("publishes the epoch", on(state, proc, "look again") if proc.other else state)]


def look_again(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("fails: a table no longer admits the published epoch; names repair", state)]


def back_start(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if state.epoch > plan_of(state, proc).parent:
        return [("ends: the epoch is published", state)]
    after = on(state, proc, "settle", attempt=newest(state, proc))
    return [("looks: not published", after)]


def settle(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state, holds = settled(state, proc, ROLL_BACK)
    if holds == PUBLISH:
        return [("finds the verdict: publish", on(state, proc, "publish"))]
    return [("creates the verdict: roll back", on(state, proc, "mark"))]


def mark(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state = with_plan(state, proc, mark=1, marked=proc.attempt)
    return [("marks the run", on(state, proc, "back"))]


def back(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Ask whether a table is this plan's."""
    from tests.model.protocols.now_moves import constraint_problem, owned, sealed_by_none

    if not stands(state, state.tables[proc.table]):
        return [("stops: the table has lost its constraint", state)]
    if not owned(state, proc):
        if sealed_by_none(state, proc):
            return [("stops: no commit tells which plan brought the table there", state)]
        return back_sealed(scenario, state, proc)
    if (why := constraint_problem(state, proc)) is not None:
        return [(why, state)]
    return [("finds moves of this plan", on(state, proc, "open constraint"))]


def back_sealed(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if proc.table + 1 < scenario.tables:
        return [("is through with the table", on(state, proc, "back", table=proc.table + 1))]
    return [("is back", on(state, proc, "done", table=0))]


def done(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("ends: the mark says so", with_plan(state, proc, mark=2, marked=proc.attempt))]


def back_moved(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("is through with moving", on(state, proc, "seal"))]


PUBLISHING: dict[str, Step] = {
    "publish": publish,
    "look": look,
    "verdict": verdict_publish,
    "create": create,
    "look again": look_again,
}
JOBS: dict[str, dict[str, Step]] = {
    "migrate": {
        "start": migrate_start,
        "next attempt": next_attempt,
        "clear": clear,
        "fences": fences,
        "begin": begin,
        **MOVES,
        "moved": migrate_moved,
        "record": record,
    },
    "verify": {
        "start": verify_start,
        "sweep": sweep,
        **MOVES,
        "moved": verify_moved,
        "gate": gate,
        "sealed": verify_sealed,
        "write verified": write_verified,
        **PUBLISHING,
    },
    "roll_back": {
        "start": back_start,
        "settle": settle,
        "mark": mark,
        "back": back,
        **MOVES,
        "moved": back_moved,
        "sealed": back_sealed,
        "done": done,
        **PUBLISHING,
    },
    "repair": REPAIR,
    **WINDOWS,
    **CHANGING,
}
STEPS = {(job, name): step for job, its in JOBS.items() for name, step in its.items()}
NOW = Variant("now", STEPS, start, by_hand)

#: An earlier protocol: the transaction id of a window is the day of its end.
_BY_DAY = {(job, name): step for job in DAYS for name, step in BY_DAY[job].items()}
DAY_IDS = Variant("day ids", {**STEPS, **_BY_DAY}, start, by_hand)
