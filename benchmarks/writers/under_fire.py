"""Migrate a table beside a writer that commits every other second, and measure both.

`python -m benchmarks.writers.under_fire` moves 10% of the slots of 10 channels in batches. It runs
the migration alone, then beside the writer, from the same table. The writer has a process of its
own (`busy_writer`). Its commits are measured beside the idle table first, then while rows move
(migrate), and then until the epoch is published (verify). Each try counts in the phase in which it
ended. Each commit's time counts in every phase in which it was under way. At the end the table's
rows and visits must be those of the first table and of all commits of the writer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from pyspark.sql import SparkSession

from benchmarks.spark.migrate import KEY, SLOTS, build, linked, moved
from benchmarks.writers.busy_writer import Commit
from benchmarks.writers.fire_chart import fire_chart
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import Migration, approved_migration
from evenkeel_spark.runtime.retry import PATIENCE_SETTING
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.delta import state
from partitioning.errors import EvenkeelError
from partitioning.planning.plan import plan_for
from partitioning.workload.profile import Profile

#: Commits of the writer before it is measured: a JVM's first statements take longer.
WARM_COMMITS = 6


class Writer:
    """The process that writes, and what it says of its commits."""

    def __init__(self, table: Table, options: argparse.Namespace) -> None:
        home = Path(table.spec.registry).parent
        self._said = home / "commits.jsonl"
        asked = {"spec": home / "bench.yaml", "period": options.period, "rows": options.batch_rows}
        given = [f"--{k}={v}" for k, v in {**asked, "there": options.rows}.items()]
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.writers.busy_writer", *given],
                stdin=subprocess.PIPE,
                stdout=said,
            )

    def commits(self) -> list[Commit]:
        """Return the commits so far, without the line that is being written."""
        lines = self._said.read_text().splitlines(keepends=True)
        return [Commit(**json.loads(line)) for line in lines if line.endswith("\n")]

    def wait_for(self, count: int) -> None:
        """Wait until so many commits are made."""
        while len(self.commits()) < count:
            if self._process.poll() is not None:
                raise RuntimeError(f"the writer has ended with code {self._process.returncode}")
            time.sleep(0.2)

    def stop(self) -> list[Commit]:
        """Let it end its commit, and return all commits."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait() != 0:
            raise RuntimeError(f"the writer has ended with code {self._process.returncode}")
        return self.commits()


class Outcome(NamedTuple):
    """When a migration began, had moved its rows, and ended; and its error ("": it was through)."""

    began: float
    moved: float
    ended: float
    error: str


def fresh(
    spark: SparkSession, table: Table, folder: Path, options: argparse.Namespace
) -> Migration:
    """Make a copy of the table, and a plan to move a part of it in batches."""
    home = linked(Path(table.spec.registry).parent, folder)
    spec = yaml.safe_load((home / "bench.yaml").read_text())
    # A row weighs one byte in this profile, so a batch's bytes are its rows.
    spec["batch"] = int(options.rows * options.percent / 100 / options.batches)
    (home / "bench.yaml").unlink()
    (home / "bench.yaml").write_text(yaml.safe_dump(spec))
    copy = Table(load_spec(home / "bench.yaml"))
    each, none = np.full(SLOTS, options.rows / SLOTS), np.zeros(0)
    profile = Profile(KEY, each, each, each, np.zeros(0, np.int64), none, none, none, ())
    before = copy.epoch().function
    version = state.table_version(spark, copy.spec.state["visits"].path)
    after = moved(before, "random", options.percent)
    plan = plan_for("bench", profile, before, after, tables={"visits": version})
    plan = replace(plan, run="bench")
    run = copy.registry.run("bench")
    run.plan.write(plan)
    run.write("profile.npz", profile.to_bytes())
    return approved_migration(copy, "bench", plan.digest)


def carry_out(spark: SparkSession, migration: Migration) -> Outcome:
    """Migrate, verify and publish."""
    began, moved_at, error = time.time(), None, ""
    try:
        migrate(spark, migration)
        moved_at = time.time()
        verify(spark, migration)
        publish(spark, migration)
    except EvenkeelError as found:
        error = str(found)
    ended = time.time()
    return Outcome(began, moved_at or ended, ended, error)


def lost(spark: SparkSession, migration: Migration, made: Sequence[Commit]) -> tuple[int, int]:
    """Return the rows and the visits that the table lacks."""
    path, version = migration.path("visits"), migration.plan.tables["visits"]
    first = spark.read.format("delta").option("versionAsOf", version).load(path)
    sums = ("count(1)", "count(DISTINCT key)", "sum(visits)")
    (rows, keys, visits), (rows_now, keys_now, visits_now) = (
        tuple(r.selectExpr(*sums).first() or ())
        for r in (first, spark.read.format("delta").load(path))
    )
    added = sum(c.rows for c in made)
    assert rows == keys
    if rows_now != keys_now:
        raise RuntimeError(f"{rows_now - keys_now} keys have two rows")
    return rows + added - rows_now, visits + sum(c.visits for c in made) - visits_now


class Phase(NamedTuple):
    """What one kind of commits met between two moments.

    Parameters
    ----------
    took : seconds of each commit that was under way then; the next phase may have it, too
    ended, conflicts, refusals : tries that committed, lost and were refused then
    """

    took: list[float]
    ended: int
    conflicts: int
    refusals: int


def phase(made: Sequence[Commit], kind: str, start: float, end: float) -> Phase:
    """Count the tries of a phase by when each of them ended, however long its commit took."""
    own = [c for c in made if c.kind == kind]

    def within(moments: Iterable[float]) -> int:
        return sum(start < at <= end for at in moments)

    return Phase(
        [c.ended - c.began for c in own if c.began <= end and c.ended > start],
        within(c.ended for c in own),
        within(at for c in own for at in c.conflicts),
        within(at for c in own for at in c.refusals),
    )


def told(
    what: str, made: Sequence[Commit], start: float, end: float, idle: Sequence[Commit] = ()
) -> None:
    """Print how long commits took, how many tries were lost, and how that is beside others."""
    for kind in ("append", "MERGE"):
        took, ended, conflicts, refusals = phase(made, kind, start, end)
        beside = [c.ended - c.began for c in idle if c.kind == kind]
        tries = ended + conflicts + refusals
        if not took or not tries:
            print(f"  {what}, {kind}: no try ended", flush=True)
            continue
        middle, most = (float(np.quantile(took, q)) for q in (0.5, 0.99))
        ratios = ""
        if beside:
            quiet, rare = (float(np.quantile(beside, q)) for q in (0.5, 0.99))
            ratios = f" (ratio {middle / quiet:.2f} and {most / rare:.2f})"
        print(
            f"  {what}, {kind}: {len(took)} commits under way, median {middle:.2f} s, "
            f"p99 {most:.2f} s{ratios}; of {tries} tries {conflicts} lost and {refusals} "
            f"were refused: aborts {(conflicts + refusals) / tries:.1%}",
            flush=True,
        )


def under_fire(
    spark: SparkSession, table: Table, folder: Path, options: argparse.Namespace
) -> Outcome:
    """Carry out a migration beside the writer, and print what both took."""
    migration = fresh(spark, table, folder, options)
    writer = Writer(migration.table, options)
    try:
        writer.wait_for(WARM_COMMITS)
        quiet = time.time()
        time.sleep(options.idle)
        found = carry_out(spark, migration)
        time.sleep(options.idle / 4)
    finally:
        made = writer.stop()
    idle = [c for c in made if quiet <= c.began and c.ended <= found.began]
    told("idle table", idle, quiet, found.began)
    told("while rows move", made, found.began, found.moved, idle)
    told("while verified", made, found.moved, found.ended, idle)
    if options.chart:
        steps = {"migrate": found.began, "verify": found.moved, "published": found.ended}
        options.chart.write_text(fire_chart([c for c in made if c.began >= quiet], steps, quiet))
    rows, visits = lost(spark, migration, made)
    print(f"  lost: {rows} rows, {visits} visits of {len(made)} commits", flush=True)
    if rows or visits or found.error:
        raise RuntimeError(found.error or "rows were lost")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--doubles", type=int, default=4, help="columns beside key, count and tag")
    parser.add_argument("--percent", type=int, default=10, help="of the slots that move")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--period", type=float, default=2.0, help="seconds between two commits")
    parser.add_argument("--batch-rows", type=int, default=200, help="rows of the writer's commit")
    parser.add_argument("--idle", type=float, default=40.0, help="seconds beside the idle table")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--patience", type=float, default=600.0, help="seconds to try a commit for")
    parser.add_argument("--chart", type=Path, help="SVG of the last run's commits")
    options = parser.parse_args()
    spark = session(
        "under fire", **{"spark.log.level": "ERROR", PATIENCE_SETTING: str(options.patience)}
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = build(spark, folder / "table", options.rows, options.doubles)
        # The first statements in a JVM pay for its warming up.
        carry_out(spark, fresh(spark, table, folder, options))
        ratios = []
        for _ in range(options.runs):
            alone = carry_out(spark, fresh(spark, table, folder, options))
            fired = under_fire(spark, table, folder, options)
            for what, one in (("alone", alone), ("under fire", fired)):
                print(
                    f"  {what}: migrate {one.moved - one.began:.1f} s, verify and publish "
                    f"{one.ended - one.moved:.1f} s: {one.error or 'it ended'}",
                    flush=True,
                )
            ratios.append((fired.ended - fired.began) / (alone.ended - alone.began))
        print(
            f"{options.rows:,} rows, under fire over alone: {statistics.median(ratios):.2f} (of "
            f"{options.runs}: {min(ratios):.2f} to {max(ratios):.2f})"
        )
    spark.stop()


if __name__ == "__main__":
    main()
