"""One case: the fault, what is done about it, and whether all is well then."""

from __future__ import annotations

import resource
from pathlib import Path

from pyspark.sql import SparkSession

from evenkeel.steps import read_plan, read_rolled_back
from partitioning.errors import EvenkeelError
from spark_jobs import constraints, state
from spark_jobs.maintain import maintain
from tests.chaos import home
from tests.chaos.cases import FLOWS, Case, Points
from tests.chaos.home import RIVAL, RUN, Content, World, copied, dag, persist, task
from tests.chaos.leftovers import DAYS, age, leftovers, shift
from tests.chaos.points import Fault, Stop, watched


def rehearse(
    spark: SparkSession, folder: Path, both: bool = True
) -> tuple[dict[str, World], Points]:
    """The table at each stage of a run, and the points of every flow, run without a fault."""
    made = home.bootstrapped(spark, folder / "bootstrapped", both)
    stages, points = {"bootstrapped": made}, {}
    for stage, tasks in home.STAGES.items():
        before, made = made, copied(made, folder / stage)
        for name, run in tasks:
            seen = Fault()
            with watched(seen):
                task(spark, made, name, run)
            points.setdefault((before.folder.name, name), seen.seen)
        stages[stage] = made
    for stage, step in FLOWS:
        if (stage, step) not in points:
            seen, world = Fault(), copied(stages[stage], folder / f"{stage} {step}")
            with watched(seen):
                task(spark, world, step)
            points[stage, step] = seen.seen
    return stages, points


def strike(spark: SparkSession, case: Case, world: World) -> Content:
    """Let a fault happen that needs no process to be killed; returns the rows that came with it."""
    added: Content = {}

    def act() -> None:
        if case.kind == "stop":
            raise Stop
        if case.kind == "append":
            added.update(home.append(spark.newSession(), world, planned=case.sign > 0))
        elif case.kind == "rival":
            home.rival(spark.newSession(), world)
        elif case.kind == "clock":
            shift(world, case.sign * 2 * DAYS)
        else:
            limits.enter()

    limits = _NoSpace(spark)
    try:
        with watched(Fault(case.at, act)):
            task(spark, world, case.step)
    except Stop:
        return added
    except EvenkeelError:
        assert case.kind in ("rival", "append"), "a fault of the machine is no error of ours"
        persist(lambda: task(spark, world, "roll_back"))
        return added
    except Exception:
        assert case.kind in ("full", "append", "rival")
    finally:
        limits.leave()
    return added


def recover(spark: SparkSession, case: Case, world: World) -> None:
    """What Airflow, or a person, does after the fault."""
    if case.step == "roll_back":
        task(spark, world, "roll_back")
    elif case.answer == "retry":
        dag(spark, world, case.step)
        return
    else:
        task(spark, world, "roll_back")
    if case.answer == "again":
        dag(spark, world, "migrate")


def check(spark: SparkSession, case: Case, world: World, expected: Content) -> None:
    """Whether all is well: nothing lost or doubled, the state as before or as planned, nothing
    half done, and nothing left that maintain does not remove."""
    table = world.table
    registry = table.registry
    numbers = registry.numbers()
    assert numbers in ([0], [0, 1]), f"epochs {numbers}"
    epoch = registry.current()
    if case.kind not in ("rival", "append"):
        wanted = 0 if case.answer == "roll_back" or case.step == "roll_back" else 1
        if case.answer == "again":
            wanted = 1
        # A publish that was over before the fault stays.
        assert epoch.number == wanted or (case.step == "publish" and epoch.number == 1)
    runs = [r for r in map(registry.run, (RUN, RIVAL)) if r.exists("plan.json")]
    plans = {read_plan(run).digest: run for run in runs}
    assert epoch.number == 0 or epoch.plan_digest in plans
    for digest, run in plans.items():
        mark = read_rolled_back(run, digest)
        assert mark is None or mark["done"], f"{run.name} is half rolled back"
    for name, part in table.spec.state.items():
        stands = set(constraints.of(spark, part.path))
        assert stands == {constraints.epoch_name(epoch.number)}, f"{name} stands under {stands}"
        newest, version = state.table_version(spark, part.path), epoch.tables[name].version
        for v in {newest, version}:
            rows = state.read_version(spark, part.path, v).collect()
            owners = epoch.lookup([r["dest"] for r in rows]).tolist()
            assert [r["channel"] for r in rows] == owners, f"{name}, version {v}: misplaced"
            found = home.content(rows)
            assert v != newest or found == sorted(expected[name]), f"{name}: rows lost or doubled"
    left = leftovers(world)
    # An UPDATE that empties a file leaves the deletion vector that it did not need: that alone is
    # not worth a maintain.
    if any("deletion_vector" not in file.name for file in left):
        age(left, 3)
        maintain(spark, table)
        left = leftovers(world)
        assert not left, f"maintain leaves files that nobody names: {left}"
        assert home.contents(spark, world) == {n: sorted(r) for n, r in expected.items()}


class _NoSpace:
    """The kernel refuses to write files, to this process and to its JVM: as on a full disk."""

    def __init__(self, spark: SparkSession) -> None:
        java = spark._jvm.java.lang.ProcessHandle.current()
        self._processes = (0, int(java.pid()))
        self._before: list[tuple[int, int]] = []

    def enter(self) -> None:
        for process in self._processes:
            _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
            self._before.append(resource.prlimit(process, resource.RLIMIT_FSIZE, (0, hard)))

    def leave(self) -> None:
        for process, limits in zip(self._processes, self._before, strict=False):
            resource.prlimit(process, resource.RLIMIT_FSIZE, limits)
        self._before.clear()
