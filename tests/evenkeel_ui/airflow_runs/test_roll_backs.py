"""Rolling back from the pages: what it shows, asks and pauses, and who may see it."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.pipeline import steps
from evenkeel.quality.data_docs import pages
from evenkeel.registry.run_folder import folder_name
from tests.support.airflow_env import airflow_db, waits  # noqa: F401  a fixture
from tests.support.pages.questions import HOME
from tests.support.plugin_site import (
    Site,
    airflow_knows,
    dag_runs,
    deny,
    made_site,  # noqa: F401  a fixture
    paused,
    profile,
    run_name,
    start,
    token,
)

if TYPE_CHECKING:
    pass


pytestmark = pytest.mark.airflow


def csrf(client: Any, path: str) -> str:
    return re.search(r'name="csrf" value="([^"]*)"', client.get(path).text)[1]  # type: ignore[index]


def test_the_right_to_rebalance_is_none_to_roll_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = site.client("uma")
    token = csrf(client, f"{HOME}/rebalance")
    deny(monkeypatch, "roll_back_words")
    assert "You may not start runs of words" in client.get(f"{HOME}/rollback?epoch=0").text
    data = {"csrf": token, "epoch": "0", "sure": "yes"}
    assert client.post(f"{HOME}/rollback", data=data).status_code == 403
    assert start(client, f"{HOME}/rebalance", {}).status_code == 303


def test_runs_that_roll_back_are_for_who_may_read_that_dag(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, data = site.client("uma"), {"csrf": token("uma")}
    names = {}
    for path, more in (("rebalance", {}), ("rollback", {"epoch": "0"})):
        started = start(client, f"{HOME}/{path}", more, sure=bool(more))
        names[path] = started.headers["location"].rsplit("/", 1)[1]
    there = [f"{HOME}/runs/{names['rollback']}", f"{HOME}/runs/{names['rollback']}/report"]
    site.registry.run(names["rollback"]).write("report.html", b"a report")
    going_on(names["rebalance"])
    try:
        assert [client.get(path).status_code for path in there] == [200, 200]
        under_way = client.get(HOME).text.split("Under way:")[1].split("</p>")[0]
        assert names["rebalance"] in under_way and names["rollback"] in under_way
        deny(monkeypatch, "roll_back_words")
        assert [client.get(path).status_code for path in there] == [403, 403]
        assert client.post(f"{there[0]}/answer", data=data).status_code == 403
        assert client.get(f"{HOME}/runs/{names['rebalance']}").status_code == 200
        under_way = client.get(HOME).text.split("Under way:")[1].split("</p>")[0]
        assert names["rebalance"] in under_way and names["rollback"] not in under_way
    finally:
        site.registry.run(names["rollback"]).remove("report.html")
        monkeypatch.undo()
        ended(names)


@pytest.mark.parametrize("airflow_knows_it", [True, False])
def test_no_list_names_a_run_that_rolls_back_to_who_may_not_read_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, airflow_knows_it: bool
) -> None:
    client, run, names = site.client("uma"), "manual__2013-03-01T00-00-00", {}
    if airflow_knows_it:
        started = start(client, f"{HOME}/rollback", {"epoch": "0"}, sure=True)
        run = names["rollback"] = started.headers["location"].rsplit("/", 1)[1]
    site.shop.learn(run, profile(5))
    folder = site.registry.run(run)
    steps.plan_rollback(site.shop.spec, run, 0)
    steps.validate_plan(site.shop.spec, run)
    if airflow_knows_it:
        # What an older run has not kept, Airflow knows.
        folder.remove("params.json")
    (doc,) = {p.name for p in pages(site.registry.store) if p.run == run}
    shown = ("", "/quality", "/rebalance", "/rollback?epoch=0")
    there = {HOME + path: client.get(HOME + path).text for path in shown}
    of_run = [f"{HOME}/runs/{run}", f"{HOME}/quality?run={run}"]
    of_run += [f"{HOME}/data_docs/{name}" for name in (doc, "index.html")]
    try:
        assert all(run in text for text in there.values())
        assert [client.get(path).status_code for path in of_run] == [200] * 4
        deny(monkeypatch, "roll_back_words")
        assert [path for path in there if run in client.get(path).text] == []
        assert [client.get(path).status_code for path in of_run] == [403] * 4
        quality = client.get(f"{HOME}/quality").text
        assert run_name(2) in quality and "index.html" not in quality
        assert run_name(2) in client.get(HOME).text
    finally:
        monkeypatch.undo()
        for name in site.registry.store.names(f"runs/{run}"):
            folder.remove(name)
        site.registry.store.remove(f"data_docs/{doc}")
        ended(names)


def going_on(name: str) -> None:
    """Let a run of the rebalance go on again, beside another: Airflow's own form allows it."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        for run in session.scalars(select(DagRun).where(DagRun.dag_id == "rebalance_words")):
            if folder_name(run.dag_id, run.run_id) == name:
                run.state = "queued"


def ended(names: dict[str, str]) -> None:
    """Take these runs away: other tests count those of the DAG."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        for run in session.query(DagRun).all():
            if folder_name(run.dag_id, run.run_id) in names.values():
                session.delete(run)


def test_rolling_back_shows_what_moves_and_asks_once_more(site: Site) -> None:
    client = site.client("uma")
    before = len(dag_runs("roll_back_words"))
    page = client.get(f"{HOME}/rollback?epoch=0").text
    assert "I have read what moves" in page and "back to epoch 0" in page
    token = csrf(client, f"{HOME}/rollback?epoch=0")
    hasty = client.post(f"{HOME}/rollback", data={"epoch": "0", "csrf": token})
    assert hasty.status_code == 422 and "Say that you have read" in hasty.text
    assert len(dag_runs("roll_back_words")) == before
    answer = start(client, f"{HOME}/rollback", {"epoch": "0"}, sure=True)
    assert answer.status_code == 303
    assert dag_runs("roll_back_words")[-1].conf == {"epoch": 0, "dry_run": False}


def test_a_way_back_over_the_trigger_can_pause_the_schedule(site: Site) -> None:
    dag = "rebalance_words"
    client, path = site.client("uma"), f"{HOME}/rollback?epoch=0"
    site.shop.respec(schedule="@daily")
    try:
        paused(dag, True)
        assert "its DAG is paused" in client.get(path).text
        paused(dag, False)
        text = client.get(path).text
        assert "Epoch 0 is over the trigger" in text and 'name="pause"' in text
        # A dry run changes nothing, so it pauses nothing.
        asked = {"epoch": "0", "pause": "true", "dry_run": "true"}
        assert start(client, f"{HOME}/rollback", asked, sure=True).status_code == 303
        assert dag_runs("roll_back_words")[-1].conf == {"epoch": 0, "dry_run": True}
        assert not paused(dag)
        answer = start(client, f"{HOME}/rollback", {"epoch": "0", "pause": "true"}, sure=True)
        assert answer.status_code == 303 and paused(dag)
        assert dag_runs("roll_back_words")[-1].conf == {"epoch": 0, "dry_run": False}
    finally:
        paused(dag, False)
        site.shop.respec()


def test_a_way_back_that_the_watch_would_undo_can_pause_it_too(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(value: bool | None = None) -> set[str]:
        return {dag for dag in ("rebalance_words", "watch_words") if paused(dag, value)}

    client, path = site.client("uma"), f"{HOME}/rollback?epoch=0"
    watch = {"eta": 1.05, "tau": 0.1}
    site.shop.respec(watch=watch, schedule=None)
    airflow_knows()
    try:
        both(False)
        text = unescape(client.get(path).text)
        assert "On a load like the profile's, watch_words would move keys away" in text
        assert "Pause watch_words, so that" in text and "scheduled run" not in text
        # Its own rule says whether it acts: so much load never waits.
        site.shop.respec(watch={"eta": 50}, schedule=None)
        text = client.get(path).text
        assert "watch_words would" not in text and 'name="pause"' not in text
        site.shop.respec(watch=watch, schedule="@daily")
        assert "Pause rebalance_words and watch_words, so that" in client.get(path).text
        asked = {"epoch": "0", "pause": "true"}
        assert start(client, f"{HOME}/rollback", asked, sure=True).status_code == 303
        assert both() == {"rebalance_words", "watch_words"}
        assert "its DAG is paused" in client.get(path).text
        # Who may pause one of them pauses that one, who may pause none is refused.
        both(False)
        deny(monkeypatch, "watch_words")
        assert "Pause rebalance_words, so that" in client.get(path).text
        assert start(client, f"{HOME}/rollback", asked, sure=True).status_code == 303
        assert both() == {"rebalance_words"}
        site.shop.respec(watch=watch, schedule=None)
        assert 'name="pause"' not in client.get(path).text
        assert start(client, f"{HOME}/rollback", asked, sure=True).status_code == 403
    finally:
        both(False)
        site.shop.respec()


@pytest.mark.parametrize("epoch", ["77", "-1", "x", "99999999999", "2"])
def test_there_is_no_way_back_to_what_is_no_earlier_epoch(site: Site, epoch: str) -> None:
    client = site.client("uma")
    before = len(dag_runs("roll_back_words"))
    token = csrf(client, f"{HOME}/rollback?epoch=0")
    data = {"epoch": epoch, "sure": "yes", "csrf": token}
    assert client.post(f"{HOME}/rollback", data=data).status_code == 404
    assert len(dag_runs("roll_back_words")) == before
