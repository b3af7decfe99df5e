"""A rebalance that nobody forces, because it pays: the picture of the README (`make shots`).

Its table has millions of events a window: on the few flights of the story nothing pays, because no
task there waits for long.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from urllib.parse import quote

import pytest
import yaml

from evenkeel.registry.run_folder import find_folder
from evenkeel.table import open_table
from tests.evenkeel_ui.browser.conftest import RUN, SHOTS, TEST, People, Site, has, picture

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.timeout(2 * TEST),
    pytest.mark.skipif(not SHOTS, reason="minutes, for a picture alone: `make shots`"),
]
#: Events of a week, of a stream in which one key turns hot in the third.
STREAM = ("--rows", "4e6", "--keys", "2e5", "--zipf", "1", "--hot", "2:0.08", "--windows", "3")
WEEKS = ("2024-01-01", "2024-01-08", "2024-01-15", "2024-01-22")
SPEC = {
    "table": "visits",
    "key": ["key"],
    "input": {"path": "../.run/visits/events", "time": "day"},
    "window": 7,
    "state": {
        "visits": {
            "path": "../.run/visits/state",
            "columns": {"visits": {"merge": "count"}, "last": {"merge": "max", "of": "day"}},
        }
    },
    "registry": "../.run/visits/registry",
    "channels": 8,
}


def test_a_run_that_pays(people: People) -> None:
    site, page = people.site, people.page("op")
    spec = site.spec.with_name("visits.yaml")
    events = site.folder / "visits" / "events"
    _run("evenkeel_spark.jobs.generate", *STREAM, "--out", str(events))
    spec.write_text(yaml.safe_dump(SPEC, sort_keys=False))
    _job(site, "bootstrap", "--end", WEEKS[1])
    _week(site, 1)
    # One run that is forced measures how fast state moves.
    _rebalanced(site, force=True, window_end=WEEKS[2])
    _week(site, 2)
    run = _rebalanced(site, window_end=WEEKS[3])
    registry = open_table(str(spec)).registry
    told = json.loads(
        registry.run(find_folder(registry.store, "rebalance_visits", run)).read("decision.json")
    )
    assert registry.current().number == 2, told
    page.goto(f"{site.url}/evenkeel/dags/rebalance_visits/runs/{quote(run)}")
    has(page, "visits went from epoch 1 to epoch 2")
    has(page, "within the horizon of 28")
    assert re.fullmatch(r"imbalance [\d.]+ is over the trigger, [\d.]+", told["reason"])
    assert told["saved_seconds"] > told["cost_seconds"] > 0
    picture(page, "run")


def _week(site: Site, number: int) -> None:
    _job(site, "apply_window", "--start", WEEKS[number], "--end", WEEKS[number + 1])


def _job(site: Site, name: str, *options: str) -> None:
    _run(
        f"evenkeel_spark.jobs.{name}",
        "--spec",
        str(site.spec.with_name("visits.yaml")),
        *options,
    )


def _run(module: str, *options: str) -> None:
    ended = subprocess.run([sys.executable, "-m", module, *options], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _rebalanced(site: Site, **params: object) -> str:
    """Run the DAG with these Params to its end, and return the run's id."""
    api, until = site.api("op"), time.monotonic() + RUN
    while "rebalance_visits" not in api.dags():
        assert time.monotonic() < until, api.dags()
        time.sleep(2)
    run = api.trigger("rebalance_visits", **params)
    assert api.wait("rebalance_visits", run, RUN) == "success", site.failures()
    return run
