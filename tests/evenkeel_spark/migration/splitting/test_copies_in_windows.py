"""Copies of split keys that windows bring: every owner gets them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.events.state_weights import weigh
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.migration.migrate import migrate
from evenkeel_spark.migration.publish import publish
from evenkeel_spark.migration.verify import verify
from evenkeel_spark.plans.approved_plan import approved_migration
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.function.split import Split
from partitioning.planning.plan import plan_for
from partitioning.workload.profile import Sketch
from tests.conftest import DAYS, SPEC, World, some_events
from tests.support.placed import (
    HEAVY,
    hashes,
)
from tests.support.raw_json import write_json

(HASH,) = hashes([HEAVY]).tolist()


pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_windows_give_every_owner_what_they_bring(spark: SparkSession, world: World) -> None:
    """Of a key that had no state when it was split, too, and wherever its events go."""
    events = some_events()
    late = pd.DataFrame({**events.tail(1), "dest": ["NEW"]})
    events = pd.concat([events, late], ignore_index=True).assign(id=range(len(events) + 1))
    # Few events tell what the key is.
    told = events.groupby("dest").cumcount() % 5 == 0
    events["city"] = ("City of " + events["dest"]).where(told, None)
    dims = {"path": "state/dims", "columns": {"city": {"merge": "copy", "of": "city"}}}
    world.write_events(events)
    world.respec(state={**SPEC["state"], "dims": dims}, split={"by": "id"})
    bootstrap(spark, world.table, date(2013, 1, 8))
    epoch = world.table.epoch()
    slots = len(epoch.function.slots)
    first, new = key_hash([["D000", "NEW"]], ["string"]).tolist()
    owners = {first: {0: 1.0, 1: 1.0, 3: 1.0}, new: {1: 2.0, 2: 1.0}}
    function = replace(epoch.function, split=Split.of(owners), row=KeyColumn("id", "bigint"))
    names, listed = ("D000", "NEW"), np.array(sorted(owners))
    sketch = Sketch(np.ones(slots), listed, np.full(2, 0.5), names, 0.0, slots)
    weight = weigh(spark, world.table.spec, epoch.function, listed)
    profile = weight.onto(sketch, epoch.function.key)
    plan = plan_for("trips", profile, epoch.function, function, tables=weight.versions)
    run = world.table.registry.run("split")
    write_json(run, "plan.json", plan.to_dict())
    run.write("profile.npz", profile.to_bytes())
    migration = approved_migration(world.table, "split", plan.digest)
    migrate(spark, migration)
    verify(spark, migration)
    publish(spark, migration)

    def cities() -> dict[str, dict[int, str]]:
        rows = spark.read.format("delta").load(world.table.spec.state["dims"].path)
        held = rows.where("dest IN ('D000', 'NEW')").toPandas()
        assert not held.duplicated(["dest", "channel"]).any()
        return {
            str(k): dict(zip(g["channel"], g["city"], strict=True)) for k, g in held.groupby("dest")
        }

    everywhere = dict.fromkeys((0, 1, 3), "City of D000")
    assert cities() == {"D000": everywhere}
    apply_window(spark, world.table, date(2013, 1, 8), date(2013, 1, DAYS + 1))
    assert cities() == {"D000": everywhere, "NEW": dict.fromkeys((1, 2), "City of NEW")}
    held = world.table.state("dims", spark=spark).toPandas().set_index("dest")["city"]
    assert held.sort_index().to_dict() == {d: f"City of {d}" for d in sorted(set(events["dest"]))}
