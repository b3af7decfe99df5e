"""The protocol as it was on commit f9aded6 (evenkeel/pipeline/steps.py and the Spark jobs): each
job as a
sequence of steps between which it can be killed or sleep."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.hands import by_hand
from tests.model.protocols.moves import MOVES, fence
from tests.model.protocols.protocol import Outcome, Scenario, Step, Variant, on, plan_of, with_run
from tests.model.protocols.windows import BY_DAY, start_before
from tests.model.rows import OF_OWNERS, placed
from tests.model.state import FRESH, OURS, Plan, Proc, State, alone


def published(state: State, plan: int) -> bool:
    """Return whether the epoch that a plan leads to is published, by this very digest."""
    one = state.plans[plan - 1]
    return one is not None and state.epochs[one.parent + 1 : one.parent + 2] == (plan,)


def start(scenario: Scenario, state: State, job: str, run: int) -> Iterable[Outcome]:
    """Start a job; a plan is made in one step."""
    if job in ("window", "maintain", "late window"):
        return start_before(scenario, state, job)
    if job == "repair":
        return []
    if job == "plan":
        return make_plan(scenario, state, run)
    if not state.runs[run].plan:
        return []
    return [("starts", on(state, Proc(job, "start", run, state.runs[run].plan), "start"))]


def make_plan(scenario: Scenario, state: State, number: int) -> Iterable[Outcome]:
    """Learn and plan: same epoch and same versions of the tables give the same digest."""
    run = state.runs[number]
    if state.epoch + 1 >= len(scenario.functions):
        return []
    fresh = Plan(state.epoch, (FRESH,) * scenario.tables)
    if scenario.alike and fresh in state.plans:
        made = state.plans.index(fresh) + 1
    else:
        made = state.plans.index(None) + 1
        state = state._replace(plans=(*state.plans[: made - 1], fresh, *state.plans[made:]))
    if run.plan and state.plans[run.plan - 1] == fresh:
        return []
    under_way = run.plan and run.migration >> 1 == run.plan and run.mark != 2 * run.plan + 1
    if made == run.plan or (under_way and not published(state, run.plan)):
        return []
    state = with_run(state, Proc("plan", "", number, made), plan=made)
    return [("learns and plans", state)]


def migrate_start(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if published(state, proc.plan):
        return [("finds its epoch published", on(state, proc, "record"))]
    mark = state.runs[proc.run].mark
    if mark >> 1 != proc.plan:
        return [("looks: not rolled back", on(state, proc, "fences"))]
    if not mark & 1:
        return [("stops: rolling back has not ended", state)]
    return [("finds that it was rolled back", on(state, proc, "forget"))]


def forget(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    state = with_run(state, proc, gate=0, verified=0, migration=0)
    return [("removes what was verified", on(state, proc, "unmark"))]


def unmark(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("removes the mark", on(with_run(state, proc, mark=0), proc, "fences"))]


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


def record(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [
        ("ends: migration.json has the tables", with_run(state, proc, migration=2 * proc.plan + 1))
    ]


def verify_start(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if published(state, proc.plan):
        return [("ends: its epoch is published", state)]
    return [("looks: not published", on(state, proc, "sweep"))]


def sweep(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Look at a table before it is measured."""
    if (why := fence(state, proc)) is not None:
        return [(why, state)]
    stands, parent = state.tables[proc.table].constraints, plan_of(state, proc).parent
    if stands & alone(parent):
        return [("stops: migrate first", state)]
    if stands & alone(parent + 1):
        return verify_moved(scenario, state, proc)
    return [("looks before sweeping", on(state, proc, "move"))]


def verify_moved(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if proc.table + 1 < scenario.tables:
        return [("is through with the table", on(state, proc, "sweep", table=proc.table + 1))]
    return [("is through with sweeping", on(state, proc, "gate", table=0))]


def gate(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Measure: nothing misplaced, no key in two rows, nor a split one in two of a channel."""
    if not state.runs[proc.run].migration & 1:
        return [("stops: not migrated to the end", state)]
    after = scenario.functions[plan_of(state, proc).parent + 1]
    for table in state.tables:
        ids = [
            (r[0], r[1] if r[0] in OF_OWNERS and len(after.owners) > 1 else 0) for r in table.rows
        ]
        if not placed(table.rows, after) or len(set(ids)) < len(ids):
            return [("stops: the gate refuses", with_run(state, proc, gate=0))]
    return [("passes the gate", on(with_run(state, proc, gate=1), proc, "seal", table=0))]


def verify_sealed(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if proc.table + 1 < scenario.tables:
        return [("is through with sealing", on(state, proc, "seal", table=proc.table + 1))]
    return [("has sealed every table", on(state, proc, "write verified", table=0))]


def write_verified(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("ends: leaves verify.json", with_run(state, proc, verified=proc.plan))]


def publish_start(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    run = state.runs[proc.run]
    if not run.gate or run.verified != proc.plan:
        return [("stops: not verified", state)]
    if published(state, proc.plan):
        return [("ends: published already", state)]
    return [("reads what was verified", on(state, proc, "look"))]


def publish_look(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if state.runs[proc.run].mark >> 1 == proc.plan:
        return [("stops: this run was rolled back", state)]
    return [("looks: not rolled back", on(state, proc, "create"))]


def publish_create(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if plan_of(state, proc).parent != state.epoch:
        return [("stops: another epoch is current", state)]
    return [("publishes the epoch", state._replace(epochs=(*state.epochs, proc.plan)))]


def back_start(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if published(state, proc.plan):
        return [("ends: its epoch is published", state)]
    return [("looks: not published", on(state, proc, "mark"))]


def mark(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("marks the run", on(with_run(state, proc, mark=2 * proc.plan), proc, "asks again"))]


def asks_again(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if published(state, proc.plan):
        return [("ends: its epoch is published", state)]
    return [("looks: still not published", on(state, proc, "back"))]


def back(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    """Ask whether a table is this plan's."""
    if not plan_of(state, proc).seen[proc.table] & OURS:
        return back_sealed(scenario, state, proc)
    if (why := fence(state, proc)) is not None:
        return [(why, state)]
    if state.tables[proc.table].constraints == alone(plan_of(state, proc).parent):
        return back_sealed(scenario, state, proc)
    return [("finds moves of this plan", on(state, proc, "open constraint"))]


def back_sealed(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    if proc.table + 1 < scenario.tables:
        return [("is through with the table", on(state, proc, "back", table=proc.table + 1))]
    return [("is back", on(state, proc, "done", table=0))]


def done(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("ends: the mark says so", with_run(state, proc, mark=2 * proc.plan + 1))]


def back_moved(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
    return [("is through with moving", on(state, proc, "seal"))]


def steps() -> dict[tuple[str, str], Step]:
    """The steps of every job, by its name and theirs."""
    jobs: dict[str, dict[str, Step]] = {
        "migrate": {
            "start": migrate_start,
            "forget": forget,
            "unmark": unmark,
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
        },
        "publish": {"start": publish_start, "look": publish_look, "create": publish_create},
        "roll_back": {
            "start": back_start,
            "mark": mark,
            "asks again": asks_again,
            "back": back,
            **MOVES,
            "moved": back_moved,
            "sealed": back_sealed,
            "done": done,
        },
        **BY_DAY,
    }
    return {(job, name): step for job, its in jobs.items() for name, step in its.items()}


BEFORE = Variant("before", steps(), start, by_hand)
