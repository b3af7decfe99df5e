"""A key with half of the load, from events to state: split, applied, read, and whole again."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel.pipeline import steps
from evenkeel.registry.files.outcome_records import WindowRecord
from evenkeel.spec.run_params import Params
from evenkeel_spark.jobs import learn
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import approved_migration
from partitioning.errors import InputError
from tests.conftest import DAYS, FIRST_DAY, World

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOT, EVENTS, CHANNELS = "HOT", 800_000, 8
COLUMNS = {
    "trips": {"merge": "count"},
    "miles": {"merge": "sum", "of": "miles"},
    "weight": {"merge": "sum", "of": "weight"},
    "first": {"merge": "min", "of": "at"},
    "longest": {"merge": "max", "of": "miles"},
    "seen": {"merge": "last", "of": "carrier"},
    "carriers": {"merge": "set", "of": "carrier"},
    "flights": {"merge": "hll", "of": "id"},
    "days": {"merge": "theta", "of": "hour"},
}
SPEC = {
    "table": "trips",
    "key": ["dest"],
    "input": {"path": "events.parquet", "time": "at"},
    "window": 7,
    "decay": None,
    "state": {"totals": {"path": "state/totals", "columns": COLUMNS}},
    "registry": "registry",
    "channels": CHANNELS,
    "slots": 1024,
    "max_imbalance": 1.004,
    "split": {"by": "id"},
}


def hot_events(seed: int = 3) -> pd.DataFrame:
    """Half of all events are of one key; the others are of 2,000, by Zipf."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, 2001) ** 0.5
    keys = rng.choice(2000, EVENTS, p=weights / weights.sum())
    seconds = np.sort(rng.choice(DAYS * 86400 * 10, EVENTS, replace=False)) / 10
    return pd.DataFrame(
        {
            "dest": np.where(rng.random(EVENTS) < 0.5, HOT, np.char.add("D", keys.astype(np.str_))),
            "at": FIRST_DAY + pd.to_timedelta(seconds, unit="s"),
            "id": rng.permutation(EVENTS).astype(np.int64),
            "hour": (seconds // 3600).astype(np.int64),
            "miles": rng.integers(1, 3000, EVENTS).astype(np.int32),
            "weight": rng.random(EVENTS),
            "carrier": rng.choice(["AA", "B6", "DL", "UA", "é✈"], EVENTS),
        }
    )


def day(number: int) -> date:
    return date(2013, 1, number)


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """State of the first week, under epoch 0."""
    made = World(tmp_path_factory.mktemp("hot"))
    Path(made.spec_path).write_text(yaml.safe_dump(SPEC, sort_keys=False))
    made.write_events(hot_events())
    bootstrap(spark, made.table, day(8))
    return made


def rebalance(spark: SparkSession, world: World, run: str, end: int) -> int:
    """The steps of the DAG, one after another; the epoch that they publish."""
    spec = world.spec_path
    assert learn.main(["--spec", spec, "--run", run, "--end", f"{day(end)}"]) == 0
    assert steps.decide(spec, run, Params()).rebalance
    digest = steps.plan(spec, run, Params())
    steps.validate_plan(spec, run)
    migration = approved_migration(world.table, run, digest)
    migrate(spark, migration)
    verify(spark, migration)
    publish(spark, migration)
    epoch = steps.publish(spec, run)
    assert steps.report(spec, run)
    return epoch


def held(spark: SparkSession, world: World) -> pd.DataFrame:
    """What readers see of the state."""
    rows = world.table.state("totals", spark=spark)
    shown = rows.withColumn("flights", F.hll_sketch_estimate("flights")).withColumn(
        "days", F.theta_sketch_estimate("days")
    )
    found = shown.select("dest", *COLUMNS).toPandas().set_index("dest").sort_index()
    assert found.index.is_unique
    return found


def check(found: pd.DataFrame, events: pd.DataFrame) -> None:
    """The state is what pandas makes of the events."""
    grouped = events.groupby("dest")
    assert (found["trips"] == grouped.size()).all() and len(found) == grouped.ngroups
    assert (found["miles"] == grouped["miles"].sum()).all()
    assert np.allclose(found["weight"], grouped["weight"].sum(), rtol=1e-9)
    assert (found["first"].dt.tz_localize("UTC") == grouped["at"].min()).all()
    assert (found["longest"] == grouped["miles"].max()).all()
    last = events.sort_values("at").groupby("dest").last()
    assert [s["value"] for s in found["seen"]] == last["carrier"].tolist()
    carriers = grouped["carrier"].unique().map(sorted)
    assert [list(c) for c in found["carriers"]] == carriers.tolist()
    assert np.allclose(found["flights"], grouped["id"].nunique(), rtol=0.08)
    assert (found["days"] == grouped["hour"].nunique()).all()


def imbalance(record: WindowRecord) -> float:
    rows = [c.rows for c in record.channels]
    assert len(rows) == CHANNELS
    return max(rows) * CHANNELS / sum(rows)


def test_a_hot_key_is_split_applied_read_and_whole_again(spark: SparkSession, world: World) -> None:
    events = world.events
    assert rebalance(spark, world, "r1", 8) == 1
    function = world.table.epoch().function
    hot = function.lookup_hashes(function.split.keys)
    owners = len(function.split.channels)
    assert len(function.split) == 1 and owners == 4
    first = held(spark, world)
    check(first, events[events["at"] < "2013-01-08"])

    # The next window, which no plan has seen; and once more, which changes nothing.
    record = apply_window(spark, world.table, day(8), day(15))
    assert apply_window(spark, world.table, day(8), day(15)) == record
    assert imbalance(record) <= 1.02
    path = world.table.spec.state["totals"].path
    rows = spark.read.format("delta").load(path)
    partials = rows.where(f"dest = '{HOT}'").select("channel").toPandas()["channel"]
    assert sorted(partials) == sorted(function.split.channels.tolist()) and hot[0] in set(partials)
    assert rows.count() == events["dest"].nunique() + owners - 1
    second = held(spark, world)
    check(second, events)
    at_epoch = world.table.state("totals", 1, spark).agg(F.sum("trips")).first()[0]
    assert at_epoch == (events["at"] < "2013-01-08").sum()
    # Each event went where NumPy sends it, too.
    window = events[events["at"] >= "2013-01-08"]
    routed = world.table.epoch().lookup(window["dest"], row=window["id"])
    assert np.bincount(routed).tolist() == [c.rows for c in record.channels]

    # Planning again finds nothing to do, and the balance holds.
    assert not steps.decide(world.spec_path, learned(world, "again"), Params()).rebalance

    # To leave it: take `split` out of the spec, and rebalance.
    spec = {k: v for k, v in SPEC.items() if k != "split"}
    Path(world.spec_path).write_text(yaml.safe_dump(spec, sort_keys=False))
    run = learned(world, "whole")
    digest = steps.plan(world.spec_path, run, Params(force=True))
    plan = steps.read_plan(world.table.registry.run(run))
    joined = [m for m in plan.moves if m.kind == "share" and m.rows]
    assert len(joined) == owners - 1 and all(m.bytes > 0 for m in joined)
    steps.validate_plan(world.spec_path, run)
    migration = approved_migration(world.table, run, digest)
    migrate(spark, migration)
    verify(spark, migration)
    assert publish(spark, migration).number == 2
    assert spark.read.format("delta").load(path).count() == events["dest"].nunique()
    third = held(spark, world)
    exact = [c for c in COLUMNS if c != "weight"]
    assert third[exact].astype(str).equals(second[exact].astype(str))
    assert np.allclose(third["weight"], second["weight"], rtol=1e-9)
    with pytest.raises(InputError, match="epoch 1 splits keys, and the spec does not allow it"):
        steps.plan_rollback(world.spec_path, learned(world, "back"), 1)


def learned(world: World, run: str) -> str:
    """The run, with a profile of the last week."""
    assert learn.main(["--spec", world.spec_path, "--run", run, "--end", f"{day(15)}"]) == 0
    return run


def test_a_profile_from_before_the_spec_allowed_it_is_learned_again(
    spark: SparkSession, world: World
) -> None:
    run = learned(world, "before")
    spec = {**yaml.safe_load(Path(world.spec_path).read_text()), "split": {"by": "id"}}
    Path(world.spec_path).write_text(yaml.safe_dump(spec))
    with pytest.raises(InputError, match="learned without column 'id'.* Learn again"):
        steps.plan(world.spec_path, run, Params(force=True))
    for by, message in (("no", "there is no column 'no'"), ("weight", "type 'double' cannot be")):
        Path(world.spec_path).write_text(yaml.safe_dump({**spec, "split": {"by": by}}))
        with pytest.raises(InputError, match=message):
            apply_window(spark, world.table, day(15), day(16))
