"""`make chaos`: hundreds of faults, drawn from a seed; one line each, and how to repeat one."""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from partitioning.errors import InputError
from tests.chaos.cases import JOB_STEPS, KINDS, Case, Points, Stage, draw
from tests.chaos.faults.clock import NoCompiler, clock
from tests.chaos.formats import FORMATS
from tests.chaos.home import Content, World, contents, copied
from tests.chaos.iceberg.copies import at_work
from tests.chaos.jobs.checks import check_job
from tests.chaos.jobs.flows import truth
from tests.chaos.kept import Kept
from tests.chaos.run import check, recover, rehearse, strike
from tests.chaos.sessions import Cluster, Rival, Victim, start
from tests.support.wheel import ROOT

#: Cases that one process is killed in the middle of.
TOGETHER = 8
KILLED = ("kill", "inside")
#: Kinds of what is done to a process with executors.
APART = ("executor", "clock")
#: Part of the cases that may end before their fault begins.
MAX_LATE = 0.1


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=200, help="how many (default: %(default)s)")
    options.add_argument("--seed", type=int, default=6, help="(default: %(default)s)")
    options.add_argument("--only", type=int, nargs="*", help="numbers of the cases to repeat")
    options.add_argument(
        "--keep", type=Path, help="absolute path of a folder, from which a later run goes on"
    )
    options.add_argument("--steps", nargs="*", help="steps that faults are put into (default: all)")
    options.add_argument(
        "--format", choices=FORMATS, default="delta", help="of the tables (default: %(default)s)"
    )
    asked = options.parse_args()
    if asked.format == "iceberg" and not list((ROOT / ".jars").glob("iceberg-spark-runtime-*")):
        sys.stderr.write(
            "evenkeel: error: this Spark has no Iceberg: run make setup with requirements.lock\n"
        )
        return 2
    with ExitStack() as ended:
        folder = asked.keep
        if folder is None:
            made = tempfile.TemporaryDirectory(prefix="evenkeel-chaos-")
            folder = Path(ended.enter_context(made))
        try:
            return _all(folder, asked)
        except InputError as error:
            sys.stderr.write(f"evenkeel: error: {error}\n")
            return error.exit_code
        except NoCompiler:
            sys.stderr.write("evenkeel: error: to set a clock takes a C compiler: install gcc\n")
            return 2


def _all(folder: Path, asked: argparse.Namespace) -> int:
    steps = None if asked.steps is None else [*asked.steps]
    apart, kept = folder / "apart", Kept(folder, (asked.format, asked.cases, asked.seed, steps))
    shutil.rmtree(apart, ignore_errors=True)
    apart.mkdir(parents=True)
    gone = kept.done()
    numbers = [
        n for n in range(asked.cases) if n not in gone and (not asked.only or n in asked.only)
    ]
    check_some(numbers or gone, asked)
    kinds = {KINDS[n % len(KINDS)] for n in numbers}
    environment = clock(apart) if "clock" in kinds else {}
    began, spark = time.monotonic(), start()
    iceberg = asked.format == "iceberg"
    made, points = _rehearsed(spark, kept, asked)
    before = {
        (table, stage): truth(world, table) if iceberg else contents(spark, world)
        for (table, stage), world in made.items()
        if stage not in JOB_STEPS
    }
    print(f"{sum(map(len, points.values()))} points in {len(points)} steps", flush=True)
    drawn = draw(points, asked.cases, asked.seed, iceberg=iceberg)
    chosen = [c for c in drawn if c.number in numbers]
    done: Counter[str] = Counter()
    failed, late = list[tuple[str, Case]](), list[Case]()

    def fresh(case: Case) -> World:
        """A copy for the case; an earlier run may have left one."""
        shutil.rmtree(folder / str(case.number), ignore_errors=True)
        return copied(made[case.table, case.stage], folder / str(case.number))

    def finish(case: Case, fault: Callable[[World], tuple[Content, bool]]) -> None:
        """The fault on a table of its own, then recovery and check; one line."""
        world, at = World(folder / str(case.number)), time.monotonic()
        stage = case.table, case.stage
        begun = len(at_work(made[stage]).table.registry.numbers()) - 1
        said, wrong = io.StringIO(), "FAILED"
        try:
            with contextlib.redirect_stdout(said):
                added, met = fault(world)
                wrong = "STUCK"
                recover(spark, case, world)
                wrong = "LOST"
                if case.step in JOB_STEPS:
                    check_job(spark, case, world, added)
                else:
                    expected = {n: [*r, *added.get(n, [])] for n, r in before[stage].items()}
                    check(spark, case, world, begun, expected)
            end = "ok" if met else "ok, over before the fault"
            late.extend([] if met else [case])
            kept.well(case, met)
            shutil.rmtree(world.folder)
        except (Exception, AssertionError):
            failed.append((wrong, case))
            end = f"{wrong}\n{said.getvalue()}{traceback.format_exc()}"
        done[case.kind] += 1
        print(f"{case.number:4} {time.monotonic() - at:5.1f} s  {case}: {end}", flush=True)

    for batch, victim in _victims([c for c in chosen if c.kind in KILLED], apart):
        worlds = list(map(fresh, batch))
        met = victim.run(list(zip(batch, worlds, strict=True)))
        for case, was in zip(batch, met, strict=True):
            finish(case, lambda world, was=was: ({}, was))
    with ExitStack() as ended:
        cluster, rival = _beside(apart, kinds, environment, ended)
        for case in chosen:
            if case.kind not in KILLED:
                fresh(case)
                if case.kind in APART and cluster:
                    finish(case, lambda world, case=case: ({}, cluster.run(case, world)))
                else:
                    of = rival if case.kind == "rival" else None
                    finish(case, lambda world, case=case, of=of: strike(spark, case, world, of))
    what = ", ".join(f"{n} {kind}" for kind, n in done.items())
    print(f"{len(chosen)} cases ({what}) in {time.monotonic() - began:.0f} s: {len(failed)} failed")
    ends = Counter(wrong for wrong, _ in failed)
    print(f"{ends['LOST']} lost, {ends['STUCK']} stuck")
    print(f"{len(late)} steps were over before their fault")
    if asked.keep:
        print(kept.told())
    if failed:
        again = " ".join(str(c.number) for _, c in failed)
        steps = f" --steps {' '.join(asked.steps)}" if asked.steps else ""
        form = f"--format {asked.format} " if iceberg else ""
        same = f"{form}--cases {asked.cases} --seed {asked.seed}{steps}"
        print(f"Again: make chaos ARGS='{same} --only {again}'")
    # A fault that is not met tries nothing.
    return 1 if failed or len(late) > MAX_LATE * len(chosen) else 0


def check_some(numbers: Collection[int], asked: argparse.Namespace) -> None:
    """Refuse a run that tries nothing: it would seem well."""
    if not numbers:
        raise InputError(f"no case of {asked.cases} has such a number", "--only", "Give others")


def _rehearsed(
    spark: SparkSession, kept: Kept, asked: argparse.Namespace
) -> tuple[dict[Stage, World], Points]:
    """As `rehearse`, unless an earlier run has done it."""
    if (found := kept.rehearsed()) is None:
        folder = kept.folder / "stages"
        shutil.rmtree(folder, ignore_errors=True)
        found = rehearse(spark, folder, asked.steps or (), FORMATS[asked.format])
        kept.keep(*found)
    return found


def _beside(
    folder: Path, kinds: set[str], environment: dict[str, str], ended: ExitStack
) -> tuple[Cluster | None, Rival | None]:
    """The processes that go on beside this one, as kinds of cases want them; none outlives them."""
    cluster, rival = None, None
    if kinds & set(APART):
        cluster = Cluster(folder / "cluster", **environment)
        ended.callback(cluster.kill)
    if "rival" in kinds:
        rival = Rival(folder / "rival")
        ended.callback(rival.kill)
    return cluster, rival


def _victims(cases: list[Case], folder: Path) -> Iterator[tuple[list[Case], Victim]]:
    """Cases that are killed together, and the process for it; the next one starts meanwhile."""
    kills = [c for c in cases if c.kind == "kill"]
    inside = [c for c in cases if c.kind == "inside"]
    batches = []
    while kills or inside:
        batches.append([*kills[: TOGETHER - 1], *inside[:1]])
        kills, inside = kills[TOGETHER - 1 :], inside[1:]
    following = Victim(folder / "victim 0") if batches else None
    for number, batch in enumerate(batches, 1):
        victim = following
        following = Victim(folder / f"victim {number}") if number < len(batches) else None
        yield batch, victim


if __name__ == "__main__":
    sys.exit(main())
