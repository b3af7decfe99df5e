"""The end of the story: the way back, which was run while every page was looked at."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import numpy as np
import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.tables.delta import state
from tests.evenkeel_ui.browser.conftest import TEST, People, has
from tests.support.raw_json import read_json

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(TEST)]


def test_the_way_back_leads_to_where_every_row_was(people: People, spark: SparkSession) -> None:
    page, site = people.page("op"), people.site
    api = site.api("op")
    if not api.runs("roll_back_flights"):
        pytest.skip("the story (test_a_story.py) has started no way back")
    run = str(api.runs("roll_back_flights")[0]["dag_run_id"])
    page.goto(f"{site.url}/evenkeel/dags/roll_back_flights/runs/{quote(run)}")
    people.watch(page, "success")
    has(page, "Approved by op")
    first, now = site.registry.epoch(0).function, site.registry.current()
    assert now.number == 2 and now.plan_digest is not None
    has(page, now.plan_digest)
    assert np.array_equal(now.function.slots, first.slots)
    assert np.array_equal(now.function.explicit_keys, first.explicit_keys)
    moved = read_json(site.registry.archive(1), "migration.json")["tables"]
    for name, part in now.tables.items():
        rows = state.read_version(spark, part.path, part.version)
        before = state.read_version(spark, part.path, moved[name]["before"])
        assert rows.count() == before.count() > 0
        assert rows.exceptAll(before).isEmpty()
    told = api.get(f"/api/v2/dags/roll_back_flights/dagRuns/{quote(run)}")
    began, ended = (datetime.fromisoformat(told[f"{w}_date"]) for w in ("start", "end"))
    site.walk["roll back"] = (ended - began).total_seconds()
    parts = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in site.walk.items())
    print(f"\na newcomer's walk: {parts}: {sum(site.walk.values()):.0f} s in all")
