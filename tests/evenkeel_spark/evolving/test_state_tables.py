"""State tables that join a spec whose epochs go on, and that leave it again."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel.registry.files.records import EvolveRecord
from evenkeel_spark.evolving.changes import Intent, Kind
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs import bootstrap as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.tables.delta import constraints, state
from partitioning.errors import FenceError, InputError
from tests.chaos.home import RIVAL, RUN, dag
from tests.conftest import SEEN, SPEC, World
from tests.support.worlds.windows import day, rows

pytestmark = pytest.mark.spark

GONE = Intent.of((), ["seen"])


def test_a_state_table_joins_and_leaves(spark: SparkSession, ready: World):
    path = ready.with_seen().table.spec.state["seen"].path
    (planned,) = evolve(spark, ready.table, Intent.of(), dry_run=True)
    assert (
        planned.kind == Kind.add_table and "windows from 2013-01-08 on fill it" in planned.meaning
    )
    assert not Path(path).exists() and not ready.table.registry.files.evolved.exists()
    evolve(spark, ready.table, Intent.of())
    assert rows(spark, ready, "seen").empty
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}
    assert state.properties(spark, path)["evenkeel.columns"] == '{"latest": "max"}'
    assert evolve(spark, ready.table, Intent.of()) == []

    apply_window(spark, ready.table, day(8), day(10))
    assert dag(spark, ready, "learn", RUN)
    epoch = ready.table.epoch()
    assert epoch.number == 1 and set(epoch.tables) == {"totals", "seen"}
    events = ready.events
    days = events[(events["at"] >= "2013-01-08") & (events["at"] < "2013-01-10")]
    found = rows(spark, ready, "seen")
    assert (
        found["latest"].to_dict() == days.groupby("dest")["at"].max().dt.tz_localize(None).to_dict()
    )
    assert (found["channel"] == epoch.lookup(found.index)).all()
    with pytest.raises(InputError, match="epoch 0 has no state table 'seen': it came later"):
        ready.table.state("seen", 0, spark)

    ready.respec(state=SPEC["state"])
    with pytest.raises(InputError, match="'seen' is not in the spec, and nothing says"):
        evolve(spark, ready.table, Intent.of())
    (gone,) = evolve(spark, ready.table, GONE)
    assert gone.kind == Kind.release_table and path in gone.meaning
    left = state.properties(spark, path)
    assert not [p for p in left if "evenkeel" in p]
    assert evolve(spark, ready.table, GONE) == []
    # It is like any other table now.
    spark.sql(f"UPDATE delta.`{path}` SET channel = 99")
    assert spark.read.format("delta").load(path).count() == len(found)
    apply_window(spark, ready.table, day(10), day(11))
    assert dag(spark, ready, "learn", RIVAL) and set(ready.table.epoch().tables) == {"totals"}

    with pytest.raises(InputError, match=f"{path}.*: expected an empty folder"):
        evolve(spark, ready.with_seen().table, Intent.of())
    ready.respec(state={**SPEC["state"], "seen": {**SEEN, "path": "state/again"}})
    assert [c.kind for c in evolve(spark, ready.table, Intent.of())] == [Kind.add_table]


def test_a_table_joins_and_leaves_under_one_epoch(spark: SparkSession, ready: World):
    path = ready.with_seen().table.spec.state["seen"].path
    evolve(spark, ready.table, Intent.of())
    ready.respec(state=SPEC["state"])
    with pytest.raises(InputError, match="nothing says what became of it"):
        evolve(spark, ready.table, Intent.of())
    # A copy of the registry, with the spec, must not take the table away from this one.
    keeper, other = ready.table.registry.url, "/elsewhere/registry"
    kept = f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('evenkeel.registry' = '{{}}')"
    spark.sql(kept.format(other))
    assert evolve(spark, ready.table, Intent.of()) == []
    with pytest.raises(InputError, match=f"registry {other} keeps it") as error:
        evolve(spark, ready.table, GONE)
    assert kept.format(keeper) in str(error.value)
    spark.sql(kept.format(keeper))
    assert [c.kind for c in evolve(spark, ready.table, GONE)] == [Kind.release_table]


def test_a_first_commit_that_was_broken_off_is_made_again(spark: SparkSession, ready: World):
    path = Path(ready.with_seen().table.spec.state["seen"].path)
    log = path / "_delta_log"
    log.mkdir(parents=True)
    with pytest.raises(InputError, match="expected an empty folder"):
        evolve(spark, ready.table, Intent.of())
    ready.table.registry.files.evolved.write(EvolveRecord(epoch=0, state={"seen": str(path)}))
    with pytest.raises(FenceError, match="another job is making this table"):
        evolve(spark, ready.table, Intent.of())
    hour_ago = time.time() - 3600
    for folder in (log, path):
        os.utime(folder, (hour_ago, hour_ago))
    evolve(spark, ready.table, Intent.of())
    assert rows(spark, ready, "seen").empty


def test_the_job_says_what_it_does(spark: SparkSession, ready: World, capsys):
    given = ["--spec", ready.with_seen().spec_path, "--evolve"]
    path = ready.table.spec.state["seen"].path
    assert job.main([*given, "--dry-run", "--format=json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {k: told[k] for k in ("table", "epoch", "dry_run")} == {
        "table": "trips",
        "epoch": 0,
        "dry_run": True,
    }
    (change,) = told["changes"]
    assert (change["change"], change["table"], change["column"]) == ("add table", "seen", "")
    assert job.main([*given, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "add table" in said and "1 changes would be made; nothing was changed" in said
    assert not Path(path).exists()
    assert job.main(given) == 0
    assert "1 changes made" in capsys.readouterr().out and Path(path).exists()
    assert job.main([*given, "--format=table"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    for option, wrong in ((["--drop=seen"], "--drop: goes"), (["--dry-run"], "--dry-run: goes")):
        assert job.main(["--spec", ready.spec_path, *option]) == 2
        assert f"{wrong} with --evolve alone" in capsys.readouterr().err
    assert job.main([*given, "--end", "2013-01-08"]) == 2
    assert "--end: does not go with --evolve" in capsys.readouterr().err
