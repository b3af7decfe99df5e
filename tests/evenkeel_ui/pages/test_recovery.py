"""Repairing a table, finding the run that left it half moved, and who may do what."""

from __future__ import annotations

import re
from html import unescape

import pytest

from evenkeel.inspect.half_moved import half_moved, mark_moving
from evenkeel.pipeline import steps
from evenkeel.registry.profiles import run_names
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import failed_at
from tests.support.pages.failed_runs import press as press_on_run
from tests.support.pages.repairs import HOME, press
from tests.support.plugin_site import (  # noqa: F401  a fixture
    Site,
    dag_runs,
    deny,
    end_runs,
    made_site,
    paused,
    token,
)
from tests.support.raw_json import write_json

pytestmark = pytest.mark.airflow


def test_a_half_moved_table_is_repaired_by_who_may_run_the_dag(
    site: Site,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for path in (HOME, "/evenkeel/", f"{HOME}/runs/{broken}"):
        text = site.client("uma").get(path).text
        assert f'action="{HOME}/repair"' in text, path
    text = unescape(site.client("vic").get(HOME).text)
    assert f"{HOME}/repair" not in text and "You may not start runs of repair_words" in text
    assert "You may not start runs of words" in press(site, "vic").text
    before = len(dag_runs("repair_words"))
    answer = press(site, "uma")
    assert answer.status_code == 303 and answer.headers["location"] == f"{HOME}#runs"
    run = dag_runs("repair_words")[-1]
    assert len(dag_runs("repair_words")) == before + 1 and run.conf == {}
    # Its run has no page of its own: its name leads to the table's runs.
    text = site.client("uma").get(HOME).text
    assert f'href="{HOME}#runs"' in text.split("repair_words")[0].rsplit("<li>", 1)[1]
    # While it goes on no other starts, and no alarm is raised.
    assert press(site, "uma").status_code == 409
    assert "is half moved" not in text
    end_runs()
    assert press(site, "uma", "true").status_code == 303
    assert dag_runs("repair_words")[-1].conf == {"dry_run": True}
    end_runs()
    assert press(site, "uma", "tru").status_code == 422
    deny(monkeypatch, "repair_words")
    assert press(site, "uma").status_code == 403


@pytest.mark.parametrize("dag", ["repair_words", "rebalance_words"])
def test_a_paused_dag_is_no_way_out(site: Site, alone: None, broken: str, dag: str) -> None:
    """A run that waits in its queue would hide the alarm, and block all other ways out."""
    paused(dag, True)
    try:
        if dag == "repair_words":
            answer = press(site, "uma")
        else:
            answer = press_on_run(site, "uma", broken, "go_on")
        assert answer.status_code == 409
        assert f"The DAG {dag} is paused, so nothing would start. Turn it on" in answer.text
        assert not dag_runs("repair_words")
        assert "words is half moved" in site.client("uma").get(HOME).text
    finally:
        paused(dag, False)


def test_rows_that_may_be_misplaced_offer_a_repair(site: Site, alone: None, broken: str) -> None:
    site.registry.run(broken).remove("migration.json")
    text = site.client("uma").get(HOME).text
    assert "may be misplaced" not in text and f"{HOME}/repair" not in text
    said = "rows stand where epoch 2 does not put them. Run the DAG repair_words"
    failed_at(broken, "migrate", said)
    text = site.client("uma").get(HOME).text
    assert "Rows may be misplaced" in text and f'action="{HOME}/repair"' in text


def test_a_half_moved_run_is_found_behind_any_number_of_newer_ones(
    site: Site,
    broken: str,
) -> None:
    registry, folder = site.registry, site.registry.run(broken)
    mark_moving(registry, folder)
    newer = [f"manual__2099-01-{i:03d}" for i in range(150)]
    for name in newer:
        write_json(registry.run(name), "params.json", {})
    try:
        half = half_moved(registry, run_names(registry))
        assert half is not None and half.run == broken
        assert "words is half moved" in site.client("uma").get("/evenkeel/").text
        # The next run that moves removes the marks of those that have ended, and no other.
        other = registry.run(newer[0])
        mark_moving(registry, other)
        assert set(registry.files.moving_runs()) == {broken, newer[0]}
        digest = steps.read_plan(folder).digest
        write_json(folder, "rolled_back.json", {"digest": digest, "done": True})
        assert half_moved(registry, run_names(registry)) is None
        mark_moving(registry, other)
        assert registry.files.moving_runs() == [newer[0]]
    finally:
        for name in newer:
            registry.store.remove_folder(f"runs/{name}")
        registry.store.remove_folder("moving")


def test_who_lacks_the_right_is_told_of_the_right_and_not_of_a_form(site: Site) -> None:
    client = site.client("vic")
    paths = [f"{HOME}/{p}" for p in ("rebalance", "rollback", "repair")]
    for path in paths:
        for data in ({}, {"csrf": "made up"}):
            answer = client.post(path, data=data)
            assert answer.status_code == 403
            assert "You may not start runs of words" in unescape(answer.text), path
    runs = re.findall(rf"{HOME}/runs/([\w.-]+)", client.get(HOME).text)
    for what in ("answer", "recover"):
        answer = client.post(f"{HOME}/runs/{runs[0]}/{what}", data={})
        assert answer.status_code == 403
        assert "You may not change runs of words" in unescape(answer.text), what
