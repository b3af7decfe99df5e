"""What moves state from the pages: starting, answering, rolling back; and who may not."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
from markupsafe import escape

from evenkeel.pipeline import steps
from evenkeel.spec.run_params import Params
from tests.support.airflow_env import airflow_db, waits  # noqa: F401  a fixture
from tests.support.pages.questions import HOME
from tests.support.plugin_site import (
    Site,
    dag_runs,
    end_runs,
    made_site,  # noqa: F401  a fixture
    start,
    token,
)

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
        shown = forms._next_preview(open_table(site.shop.spec), params, [])["plan"]
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

    monkeypatch.setattr(forms, "FORM_MOVES", 1)
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
