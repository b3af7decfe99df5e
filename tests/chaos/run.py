"""One case: the fault, what is done about it, and whether all is well then."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pyspark.sql import SparkSession

from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.verdict import read_rolled_back
from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import DamagedError, EvenkeelError, GateError, UnreachableError
from tests.chaos import home
from tests.chaos.cases import CLAIMED, TEAM, TEAM_FLOWS, Case, Flow, Points, Stage
from tests.chaos.faults.no_space import NoSpace
from tests.chaos.faults.outage import Outage, outage
from tests.chaos.formats import DELTA, Format
from tests.chaos.home import RIVAL, RUN, Content, World, copied, dag, persist, task
from tests.chaos.iceberg.checks import check_tables, check_team
from tests.chaos.iceberg.copies import at_work, opened
from tests.chaos.jobs.checks import lead_out
from tests.chaos.jobs.flows import JOBS
from tests.chaos.leftovers import leftovers, maintain_away
from tests.chaos.points import Fault, Stop, stopped, watched
from tests.chaos.sessions import Rival
from tests.support.worlds.team_tables import check_done

#: Seconds that a store stands still.
STALL = 3
#: Requests of a step for each that changes something, at least.
CHANGES = 10
#: Steps that bring a run back which has not published.
_BACK = ("roll_back", "repair")


def rehearse(
    spark: SparkSession, folder: Path, steps: Collection[str] = (), form: Format = DELTA
) -> tuple[dict[Stage, World], Points]:
    """Each table at each stage of a run, and the points of every flow, run without a fault.

    Parameters
    ----------
    steps : of the flows that are wanted; none: of all
    """
    stages: dict[Stage, World] = {}
    points: dict[Flow, list[str]] = {}
    wanted = {step: JOBS[step] for step in form.jobs if not steps or step in steps}
    beside = set(steps) - set(JOBS) or not steps
    for table, make in form.tables.items():
        made = stages[table, "begun"] = make(spark, folder / table / "begun")
        # A team's own have no events.
        jobs = {} if made.table.spec.plain else wanted
        for stage, tasks in form.stages.items():
            if not beside and stage not in {job.stage for job in jobs.values()}:
                break
            before, made = made, copied(made, folder / table / stage)
            for name, run in tasks:
                until = form.stopped.get(stage)
                seen = _rehearsed(spark, made, name, run, until)
                if until is None:
                    points.setdefault((table, before.folder.name, name), seen)
            stages[table, stage] = made
        for stage, step in form.flows if beside else ():
            if (table, stage, step) not in points:
                world = copied(stages[table, stage], folder / table / f"{stage} {step}")
                points[table, stage, step] = _rehearsed(spark, world, step, RUN)
        for step, job in jobs.items():
            world = stages[table, step] = copied(stages[table, job.stage], folder / table / step)
            job.prepare(*opened(spark, world))
            tried = copied(world, folder / table / f"{step} done")
            points[table, step, step] = _rehearsed(spark, tried, step, RUN)
    if beside:
        _rehearse_team(spark, form, folder / TEAM, stages, points)
    flows = {*form.flows, *TEAM_FLOWS, *((step, step) for step in JOBS)}
    return stages, {
        f: seen for f, seen in points.items() if f[1:] in flows and (not steps or f[2] in steps)
    }


def _rehearse_team(
    spark: SparkSession,
    form: Format,
    folder: Path,
    stages: dict[Stage, World],
    points: dict[Flow, list[str]],
) -> None:
    own = stages[TEAM, "own"] = form.team(spark, folder / "own")
    stages[TEAM, "adopted"] = adopted = copied(own, folder / "adopted")
    points[TEAM, "own", "adopt"] = _rehearsed(spark, adopted, "adopt", RUN)
    free = copied(adopted, folder / "free")
    points[TEAM, "adopted", "release"] = _rehearsed(spark, free, "release", RUN)


def _rehearsed(
    spark: SparkSession, world: World, name: str, run: str, until: str | None = None
) -> list[str]:
    return stopped(lambda: task(spark, world, name, run), until)


def _act(
    spark: SparkSession,
    case: Case,
    world: World,
    rival: Rival | None,
    store: Outage,
    limits: NoSpace,
    added: Content,
) -> None:
    """Let the fault happen; `added` gets the rows that come with it."""
    if case.kind == "stop":
        raise Stop
    if case.kind == "append":
        added.update(home.append(spark.newSession(), world, planned=case.sign > 0))
    elif rival is not None:
        rival.begin(world)
        if case.sign > 0:
            rival.wait()
    elif case.kind == "stall":
        store.begin(case.later, STALL)
    elif case.kind == "error":
        # There are fewer changes than requests.
        lost = case.sign < 0
        store.begin(case.later // CHANGES if lost else case.later, lost=lost)
    else:
        limits.enter(case.later)


def strike(
    spark: SparkSession, case: Case, world: World, rival: Rival | None = None
) -> tuple[Content, bool]:
    """Let a fault happen that needs no process to be killed; returns the rows that came with it,
    and whether the step has met it, or was over before.

    Parameters
    ----------
    rival : runs the other run, where that is the fault
    """
    added: Content = {}
    limits = NoSpace(spark)
    with outage(spark, at_work(world)) as store:
        fault = Fault(case.at, lambda: _act(spark, case, world, rival, store, limits, added))
        try:
            with watched(fault):
                task(spark, world, case.step)
        except Stop:
            pass
        except UnreachableError:
            assert case.kind in ("full", "error")
            limits.refused = True
        except (GateError, DamagedError):
            # Neither a writer nor another run can break a table.
            raise
        except EvenkeelError:
            assert case.kind in ("rival", "append"), "a fault of the machine is no error of ours"
            if rival is not None:
                # While the other run is under way this one may not even go back.
                rival.wait()
            if case.table != TEAM and case.step not in JOBS:
                undo = case.step if case.step in _BACK else "roll_back"
                persist(lambda: task(spark, world, undo))
        except AssertionError:
            # The fault could not be done: a rival has ended by itself, for instance.
            raise
        except home.STATEMENTS:
            assert case.kind in ("full", "append", "rival", "error")
            limits.refused = True
        except OSError:
            assert case.kind == "full", "no error of Spark's, and none of ours"
            limits.refused = True
        finally:
            limits.leave()
            if rival is not None:
                rival.wait()
    passed = len(fault.seen) > case.at
    suffered = {"error": store.met > 0, "stall": store.met > 0, "full": limits.refused}
    return added, passed and suffered.get(case.kind, True)


def recover(spark: SparkSession, case: Case, world: World) -> None:
    """What Airflow, or a person, does after the fault."""
    if case.table == TEAM:
        persist(lambda: task(spark, world, case.step))
    elif case.step in JOBS:
        lead_out(spark, case, world)
    elif case.step in _BACK:
        task(spark, world, case.step)
    elif case.answer == "retry":
        dag(spark, world, case.step)
        return
    else:
        task(spark, world, "roll_back")
    if case.answer == "again":
        dag(spark, world, "migrate")


def check(spark: SparkSession, case: Case, world: World, begun: int, expected: Content) -> None:
    """Whether all is well: nothing lost or doubled, the state as before or as planned, nothing
    half done, and nothing left that maintain does not remove.

    Parameters
    ----------
    begun : number of the epoch before the fault
    """
    if case.table == TEAM:
        done = check_team if world.table.spec.iceberg else check_done
        done(spark, world, case.step, {n: sorted(r) for n, r in expected.items()})
        return
    table = at_work(world).table
    registry = table.registry
    numbers = registry.numbers()
    # A run that learns once its rival has published plans from that epoch, and publishes the next.
    both = case.kind == "rival" and case.step == "learn"
    assert numbers == list(range(len(numbers))), numbers
    assert begun + 1 <= len(numbers) <= begun + 2 + both, numbers
    epoch = registry.current()
    if case.kind not in ("rival", "append"):
        back = case.answer == "roll_back" or case.step in _BACK
        wanted = begun if back and case.answer != "again" else begun + 1
        # A publish that was over before the fault stays. From its claim on it goes forward.
        ends = case.stage == CLAIMED or case.step in (
            ("verify", "publish") if table.spec.iceberg else ("publish",)
        )
        assert epoch.number == wanted or (ends and epoch.number == begun + 1)
    runs = [r for r in map(registry.run, (RUN, RIVAL)) if r.exists("plan.json")]
    plans = {read_plan(run).digest: run for run in runs}
    assert epoch.number == begun or epoch.plan_digest in plans
    for digest, run in plans.items():
        mark = read_rolled_back(run, digest)
        assert mark is None or mark.done, f"{run.name} is half rolled back"
    if table.spec.iceberg:
        if case.kind == "append":
            # Some may have come where they should not be.
            task(spark, world, "maintain")
        check_tables(spark, world, epoch)
    for name, part in () if table.spec.iceberg else table.spec.state.items():
        stands = set(constraints.of(spark, part.path))
        assert stands == {constraints.epoch_name(epoch.number)}, (
            f"{name} has the constraint {stands}"
        )
        newest, version = state.table_version(spark, part.path), epoch.tables[name].version
        for v in {newest, version}:
            rows = state.read_version(spark, part.path, v).collect()
            stray = home.misplaced(epoch.function, rows)
            assert not stray, f"{name}, version {v}: misplaced: {stray[:3]}"
            lacking = home.uncopied(epoch.function, rows)
            assert not lacking, f"{name}, version {v}: owners without a copy: {lacking}"
            found = home.content(rows)
            assert v != newest or found == sorted(expected[name]), f"{name}: rows lost or doubled"
    maintain_away(spark, world, leftovers(world))
    assert home.contents(spark, world) == {n: sorted(r) for n, r in expected.items()}
