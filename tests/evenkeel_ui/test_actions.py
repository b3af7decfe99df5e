"""What moves state from the pages: starting, answering, rolling back; and who may not."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
from markupsafe import escape

from evenkeel.pipeline import steps
from evenkeel.quality.data_docs import pages
from evenkeel.registry.run_folder import folder_name
from evenkeel.render.formatting import bytes_text, seconds_text
from evenkeel.runs.params import Params
from tests.support.airflow_env import airflow_db, waits  # noqa: F401  a fixture
from tests.support.pages.questions import HOME, approve_of
from tests.support.plugin_site import (
    Site,
    dag_runs,
    deny,
    end_runs,
    made_site,  # noqa: F401  a fixture
    profile,
    run_name,
    start,
    token,
)
from tests.support.raw_json import write_json

if TYPE_CHECKING:
    pass


pytestmark = pytest.mark.airflow


def csrf(client: Any, path: str) -> str:
    return re.search(r'name="csrf" value="([^"]*)"', client.get(path).text)[1]  # type: ignore[index]


def test_a_rebalance_is_previewed_then_started_with_the_same_params(site: Site) -> None:
    client = site.client("uma")
    asked = {
        "max_imbalance": "1.05",
        "budget": "10 MB",
        "dry_run": "true",
        "window_end": "2013-02-01",
    }
    page = client.get(f"{HOME}/rebalance", params=asked)
    assert page.status_code == 200 and "What it would do" in page.text
    assert "without a Spark job" in page.text and "<svg" in page.text
    assert "Start the dry run" in page.text
    answer = start(client, f"{HOME}/rebalance", asked)
    assert answer.status_code == 303
    made = dag_runs("rebalance_words")[-1]
    assert made.conf == {
        "max_imbalance": 1.05,
        "budget": 10_000_000,
        "dry_run": True,
        "window_end": "2013-02-01",
    }
    assert made.triggering_user_name == "uma"
    followed = client.get(answer.headers["location"])
    assert followed.status_code == 200 and "queued" in followed.text
    assert "data-follow" in followed.text
    name = answer.headers["location"].rsplit("/", 1)[1]
    assert f'Under way: <a href="{HOME}/runs/{name}">' in client.get(HOME).text


def test_what_was_not_previewed_does_not_start(site: Site) -> None:
    end_runs()
    client, path = site.client("uma"), f"{HOME}/rebalance"
    before = len(dag_runs("rebalance_words"))
    shown = client.get(path, params={"max_imbalance": "1.05", "dry_run": "true"}).text
    to = re.search(r'formaction="([^"]*)"', shown)[1]  # type: ignore[index]
    stale = {"max_imbalance": "1.5", "csrf": token("uma")}
    for address, data in ((to, stale), (path, stale)):
        answer = client.post(address, data=data)
        assert answer.status_code == 409 and "Nothing was started" in answer.text
        assert "not the ones that were previewed" in answer.text
        # The page shows what these values would do, and its own button may start that.
        assert 'value="1.5"' in answer.text and to not in answer.text
    assert len(dag_runs("rebalance_words")) == before


def test_a_preview_on_an_older_profile_does_not_start(site: Site) -> None:
    end_runs()
    client = site.client("uma")
    for path, data in (("rebalance", {}), ("rollback", {"epoch": "0", "sure": "yes"})):
        before = len(dag_runs("rebalance_words")) + len(dag_runs("roll_back_words"))
        shown = client.get(f"{HOME}/{path}", params={k: v for k, v in data.items() if k != "sure"})
        to = re.search(r'action="([^"]*\?previewed=[^"]*)"', shown.text)[1]  # type: ignore[index]
        run = site.registry.run(site.learned(4))
        try:
            answer = client.post(to, data={**data, "csrf": token("uma")})
        finally:
            for name in ("profile.npz", "profile.json"):
                run.remove(name)
        assert answer.status_code == 409 and "a newer profile" in answer.text, path
        assert len(dag_runs("rebalance_words")) + len(dag_runs("roll_back_words")) == before


@pytest.mark.parametrize(
    ("end", "other"), [("2013-02-01", True), ("2013-01-29", False), ("", False)]
)
def test_a_preview_of_another_window_than_was_asked_for_says_so(
    site: Site, end: str, other: bool
) -> None:
    text = site.client("vic").get(f"{HOME}/rebalance", params={"window_end": end}).text
    assert "window 2013-01-01 to 2013-01-29" in text
    told = "This preview is of the window to 2013-01-29</strong>: you asked for 2013-02-01, which"
    assert (told in text) is other and ("This preview is of the window" in text) is other


def test_a_preview_plans_what_the_run_would(site: Site) -> None:
    from evenkeel.table import open_table
    from evenkeel_ui.pages import forms

    run = site.learned(3)
    try:
        params = Params.of({"max_imbalance": 1.01, "budget": 40_000, "capacities": [1, 1, 2, 1]})
        shown = forms._preview(open_table(site.shop.spec), params, [])["plan"]
        # The run's plan also names its run.
        assert replace(shown, run=run).digest == steps.plan(site.shop.spec, run, params)
        assert [c.capacity for c in shown.function.channels] == [1, 1, 2, 1]
        assert 0 < shown.bytes <= 40_000
    finally:
        for name in ("profile.npz", "profile.json", "plan.json"):
            site.registry.run(run).remove(name)


@pytest.mark.parametrize("page", ["rebalance?max_imbalance=1.001", "rollback?epoch=0"])
def test_who_must_have_read_what_moves_can_read_all_of_it(
    site: Site, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_ui.pages import forms

    monkeypatch.setattr(forms, "LISTED", 1)
    client = site.client("vic")
    first = client.get(f"{HOME}/{page}").text
    told = re.search(r">(\d+) of (\d+)\. <a href=\"(\?[^\"]*)#moves\">Show all</a>", first)
    assert told and first.split('aria-label="Moves"')[1].count('<tr><td class="n">') == 1
    shown = client.get(f"{HOME}/{page.split('?')[0]}{unescape(told[3])}").text
    rows = re.findall(r'<tr><td class="n">(\d+)</td>', shown)
    assert rows == [str(n) for n in range(1, int(told[2]) + 1)] and len(rows) > 1
    assert '<details id="moves" open>' in shown and '#moves">Show all' not in shown


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("max_imbalance", "0.5", "must be 1 or more, got &#39;0.5&#39;"),
        ("budget", "ten", "must be whole bytes"),
        ("channels", "0", "must be 1 or more"),
        ("capacities", "1, -1", "not negative"),
        ("capacities", "1, x", "must be a number, got &#39;x&#39;"),
        ("capacities", "1, 1, 1", "3 weights for 2 channels"),
        ("strategy", "<script>", "expected one of uniform"),
        ("window_end", "soon", "must be a date, such as 2013-01-29"),
    ],
)
def test_a_wrong_value_comes_back_beside_its_field(
    site: Site, field: str, value: str, told: str
) -> None:
    client = site.client("uma")
    token, before = csrf(client, f"{HOME}/rebalance"), len(dag_runs("rebalance_words"))
    data = {"channels": "2", field: value, "csrf": token}
    answer = client.post(f"{HOME}/rebalance", data=data)
    assert answer.status_code == 422
    beside = re.search(rf'<p class="wrong" id="{field}-hint">([^<]*)</p>', answer.text)
    assert beside and told in beside[1]
    assert len(dag_runs("rebalance_words")) == before


@pytest.mark.parametrize("said", ["1", "0", "True", "y", "maybe", "true false"])
def test_a_dry_run_never_becomes_a_real_one(site: Site, said: str) -> None:
    client = site.client("uma")
    asked = {"csrf": token("uma"), "epoch": "0", "sure": "yes", "dry_run": said}
    before = len(dag_runs("rebalance_words")), len(dag_runs("roll_back_words"))
    for path, names in (("rebalance", ("csrf", "dry_run")), ("rollback", asked)):
        answer = client.post(f"{HOME}/{path}", data={name: asked[name] for name in names})
        assert answer.status_code == 422, path
        beside = re.search(r'<p class="wrong" id="dry_run-hint">([^<]*)</p>', answer.text)
        assert beside and "must be one of true, on, yes, false, off, no" in beside[1]
        assert 'aria-invalid="true" aria-describedby="dry_run-hint"' in answer.text
    assert client.get(f"{HOME}/rebalance", params={"dry_run": said}).status_code == 422
    assert (len(dag_runs("rebalance_words")), len(dag_runs("roll_back_words"))) == before


@pytest.mark.parametrize("name", ["dryrun", "dry-run", "<b>"])
def test_a_field_that_there_is_not_is_refused(site: Site, name: str) -> None:
    client, asked = site.client("uma"), {"csrf": token("uma"), name: "true"}
    before = len(dag_runs("rebalance_words")), len(dag_runs("roll_back_words"))
    for path, more in (("rebalance", {}), ("rollback", {"epoch": "0", "sure": "yes"})):
        answer = client.post(f"{HOME}/{path}", data={**asked, **more})
        assert answer.status_code == 422, path
        told = re.search(r'<p class="wrong" role="alert">([^<]*)</p>', answer.text)
        assert told and str(escape(repr(name))) in told[1]
    assert (len(dag_runs("rebalance_words")), len(dag_runs("roll_back_words"))) == before


@pytest.mark.parametrize(
    ("said", "dry"), [("true", True), ("on", True), ("yes", True), ("false", False), ("", False)]
)
def test_both_forms_read_a_switch_alike(said: str, dry: bool) -> None:
    from evenkeel_ui.pages import forms

    params, problems = forms.read_params({"dry_run": said, "csrf": "x"})
    assert not problems and params is not None and params.dry_run is dry
    assert forms._read_way_back({"dry_run": said, "sure": "yes"})[0]["dry_run"] is dry


def test_a_viewer_with_a_token_of_their_own_starts_nothing(site: Site) -> None:
    client = site.client("vic")
    before = len(dag_runs("rebalance_words")) + len(dag_runs("roll_back_words"))
    for path in ("rebalance", "rollback", "runs/any/answer"):
        data = {
            "csrf": token("vic"),
            "epoch": "0",
            "sure": "yes",
            "digest": "x",
            "decision": "approve",
        }
        assert client.post(f"{HOME}/{path}", data=data).status_code == 403, path
    for path in ("rebalance", "rollback?epoch=0"):
        assert "You may not start runs of words" in client.get(f"{HOME}/{path}").text
    assert len(dag_runs("rebalance_words")) + len(dag_runs("roll_back_words")) == before


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
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    def paused(value: bool | None = None) -> bool:
        with create_session() as session:
            dag = session.get(DagModel, "rebalance_words")
            if value is not None:
                dag.is_paused = value
            return bool(dag.is_paused)

    client, path = site.client("uma"), f"{HOME}/rollback?epoch=0"
    site.shop.respec(schedule="@daily")
    try:
        assert paused()
        assert "its DAG is paused" in client.get(path).text
        paused(False)
        text = client.get(path).text
        assert "Epoch 0 is over the trigger" in text and 'name="pause"' in text
        # A dry run changes nothing, so it pauses nothing.
        asked = {"epoch": "0", "pause": "true", "dry_run": "true"}
        assert start(client, f"{HOME}/rollback", asked, sure=True).status_code == 303
        assert dag_runs("roll_back_words")[-1].conf == {"epoch": 0, "dry_run": True}
        assert not paused()
        answer = start(client, f"{HOME}/rollback", {"epoch": "0", "pause": "true"}, sure=True)
        assert answer.status_code == 303 and paused()
        assert dag_runs("roll_back_words")[-1].conf == {"epoch": 0, "dry_run": False}
    finally:
        paused(True)
        site.shop.respec()


@pytest.mark.parametrize("epoch", ["77", "-1", "x", "99999999999", "2"])
def test_there_is_no_way_back_to_what_is_no_earlier_epoch(site: Site, epoch: str) -> None:
    client = site.client("uma")
    before = len(dag_runs("roll_back_words"))
    token = csrf(client, f"{HOME}/rollback?epoch=0")
    data = {"epoch": epoch, "sure": "yes", "csrf": token}
    assert client.post(f"{HOME}/rollback", data=data).status_code == 404
    assert len(dag_runs("roll_back_words")) == before


def chosen(name: str) -> tuple[list[str] | None, str]:
    """What was answered, by Airflow's own record, and the state of the task."""
    from airflow.utils.session import create_session

    with create_session() as session:
        task = approve_of(session)
        return task.hitl_detail.chosen_options, str(task.state)


def test_a_question_of_this_very_moment_cannot_be_answered_yet(
    site: Site, asking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_ui.airflow_runs import runs

    monkeypatch.setattr(runs, "SETTLED", timedelta(minutes=2))
    client, path = site.client("uma"), f"{HOME}/runs/{asking}"
    text = client.get(path).text
    assert 'data-follow="the run"' in text and 'value="approve"' not in text
    data = {"csrf": csrf(client, f"{HOME}/rebalance"), "decision": "approve"}
    assert client.post(f"{path}/answer", data=data).status_code == 409
    assert chosen(asking) == (None, waits())


def test_a_question_can_be_answered_once_its_scheduler_has_gone_on(site: Site, asking: str) -> None:
    """Told by its heartbeat, while it lives; a task that has ended asks nothing."""
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session

    client, path = site.client("uma"), f"{HOME}/runs/{asking}"
    now = datetime.now(UTC)
    with create_session() as session:
        job = Job(job_type="SchedulerJob", state="running")
        job.latest_heartbeat = now - timedelta(minutes=2)
        session.add(job)
        session.flush()
        approve_of(session).queued_by_job_id = job.id
        number = job.id
    for beat, state, task, offered in (
        (-120, "running", waits(), False),
        (-50, "running", waits(), True),
        (-120, "failed", waits(), True),
        (-50, "running", "failed", False),
    ):
        with create_session() as session:
            job = session.get(Job, number)
            assert job is not None
            job.latest_heartbeat, job.state = now + timedelta(seconds=beat), state
            found = approve_of(session)
            found.state, found.updated_at = task, now - timedelta(minutes=1)
        assert ('value="approve"' in client.get(path).text) == offered, (beat, state, task)
    data = {"csrf": csrf(client, f"{HOME}/rebalance"), "decision": "approve"}
    assert client.post(f"{path}/answer", data=data).status_code == 409
    assert chosen(asking) == (None, "failed")


@pytest.mark.parametrize(("decision", "option"), [("approve", "Approve"), ("refuse", "Reject")])
def test_an_answer_is_airflows_own_and_for_that_plan_alone(
    site: Site, asking: str, decision: str, option: str
) -> None:
    client, path = site.client("uma"), f"{HOME}/runs/{asking}"
    digest = steps.read_plan(site.registry.run(asking)).digest
    site.registry.run(asking).write("report.html", b"of an earlier attempt")
    text = client.get(path).text
    site.registry.run(asking).remove("report.html")
    # It goes on where somebody answers elsewhere.
    assert 'value="approve"' in text and 'data-follow="what it asks"' in text
    assert "4,800 rows moved" not in text
    for whose, shown in (("another", False), (digest, True)):
        left = {
            "digest": whose,
            "back": False,
            "rows": 1200,
            "planned": 4800.0,
            "bytes": 34_000,
            "left": 90.0,
        }
        write_json(site.registry.run(asking), "progress.json", left)
        now = client.get(path).text
        assert (
            f"1,200 of 4,800 rows moved, {bytes_text(34e3)} written; about {seconds_text(90)} left"
            in now
        ) == shown
    site.registry.run(asking).remove("progress.json")
    # Nor does it tell of an earlier attempt, which was answered.
    assert "Report of this run" not in text
    looked = site.client("vic").get(path).text
    assert "You may not answer plans of words" in looked and 'value="approve"' not in looked
    data = {"csrf": csrf(client, path), "decision": decision, "digest": digest}
    extra = client.post(f"{path}/answer", data={**data, "dry-run": "<b>"})
    assert extra.status_code == 422 and "Unknown fields: &#39;dry-run&#39;" in extra.text
    assert chosen(asking) == (None, waits())
    other = client.post(f"{path}/answer", data={**data, "digest": "0" * 64})
    assert other.status_code == 409 and "another one" in other.text
    assert chosen(asking) == (None, waits())
    # The plan was replaced after Airflow asked: nobody has been asked about this one.
    site.shop.plan(asking, force=True, max_imbalance=1.3)
    newer = steps.read_plan(site.registry.run(asking)).digest
    assert newer != digest
    assert client.post(f"{path}/answer", data={**data, "digest": newer}).status_code == 409
    assert chosen(asking) == (None, waits())
    site.shop.plan(asking, force=True)
    assert client.post(f"{path}/answer", data=data).status_code == 303
    assert chosen(asking) == ([option], "scheduled")
    assert client.post(f"{path}/answer", data=data).status_code == 409
