"""Who gets in, what they may see and start, and that no other site can act for them."""

from __future__ import annotations

import logging
import re
import sys
from http import HTTPMethod
from itertools import product
from typing import Any, cast
from urllib.parse import unquote

import pytest

from tests.support.airflow_env import PATH, ROOT, airflow_db  # noqa: F401  a fixture
from tests.support.plugin_site import (  # noqa: F401  a fixture
    ATTACK,
    Site,
    deny,
    end_runs,
    made_site,
    profile,
    run_name,
    token,
)

pytestmark = pytest.mark.airflow
FILL = {
    "table": "words",
    "dag_id": "rebalance_words",
    "run_id": "manual__2013-02-01T00:00:00+00:00",
    "run": run_name(1),
    "task_id": "approve",
    "name": "index.html",
    "path": "nowhere",
    "number": "0",
}


def routes() -> list[tuple[str, str]]:
    """Method and path of every route of the app, its places filled; of the last, which answers
    whatever else is asked for in every way, as a browser asks."""
    from fastapi.routing import APIRoute

    from evenkeel_ui.app import app

    found = []
    for route in app.routes:
        assert isinstance(route, APIRoute)
        path = re.sub(r"{(\w+)(:path)?}", lambda m: FILL[m[1]], route.path)
        methods = {"GET"} if path == "/nowhere" else route.methods - {"HEAD"}
        found += [(method, f"/evenkeel{path}") for method in sorted(methods)]
    return found


def test_an_auth_manager_is_asked_once_for_all_dags_of_a_team(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of Keycloak or of AWS asks another host at each call."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from evenkeel_ui import access

    asked: list[list[str]] = []

    def batch(self: object, *, dag_ids: set[str], **more: object) -> set[str]:
        asked.append(sorted(dag_ids))
        return {dag for dag in dag_ids if "secret" not in dag}

    monkeypatch.setattr(SimpleAuthManager, "filter_authorized_dag_ids", batch)
    user = SimpleAuthManagerUser(username="vic", role="viewer")
    one = []
    with monkeypatch.context() as patch:
        patch.setattr(SimpleAuthManager, "is_authorized_dag", lambda *_, **asked: one.append(asked))
        dags = [f"rebalance_t{number}" for number in range(1000)]
        assert access.readable_dags(user, [*dags, "rebalance_secret"]) == {*dags}
        assert len(asked) == 1 and not one
    asked.clear()
    assert "words" in site.client("vic").get("/evenkeel/").text
    each = [dag for dags in asked for dag in dags]
    assert "rebalance_words" in each and len(each) == len({*each})


def form(method: str, user: str) -> dict[str, str] | None:
    """What a form of that user's sends."""
    return {"csrf": token(user)} if method == "POST" else None


def test_airflow_has_loaded_the_plugin_once(site: Site) -> None:
    from airflow import plugins_manager

    assert "evenkeel" in [p.name for p in plugins_manager._get_plugins()[0]]
    assert not plugins_manager.get_import_errors()
    views = site.client("vic").get("/api/v2/plugins").json()["plugins"]
    places = [
        v["destination"] for p in views if p["name"] == "evenkeel" for v in p["external_views"]
    ]
    assert places == ["nav", "dag", "dag_run", "task_instance"]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("3.0.6", "SetupError: apache-airflow 3.0.6 is too old: expected 3.1 or newer"),
        (None, "ModuleNotFoundError: import of evenkeel_ui.app halted"),
    ],
)
def test_pages_that_cannot_be_imported_do_not_stop_airflow(
    version: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel import extras
    from evenkeel_ui import plugin

    lines: list[str] = []
    monkeypatch.setattr(logging.Logger, "error", lambda _, what, *of: lines.append(what % of))
    if version:
        monkeypatch.setattr(extras, "installed", lambda _: version)
    else:
        monkeypatch.setitem(sys.modules, "evenkeel_ui.app", None)
    assert plugin.EvenkeelPlugin().fastapi_apps == []
    (line,) = lines
    assert line.startswith(f"Airflow starts without Evenkeel's pages: {said}")
    assert "\n" not in line


def test_nobody_gets_in_without_a_login(site: Site) -> None:
    client = site.client()
    assert len(routes()) > 6
    for method, path in routes():
        answer = client.request(method, path, data=form(method, "ada"))
        assert answer.status_code in (401, 403), path
        assert "Not logged in" in answer.text and "words</" not in answer.text
    # Where not even styles are served, the page brings its own, and the way in.
    assert "<style>:root" in answer.text and 'rel="stylesheet"' not in answer.text
    assert "behind Airflow&#39;s login" in answer.text
    assert "style-src 'unsafe-inline'" in answer.headers["content-security-policy"]
    assert re.search(r'<a class="button" href="[^"]*/auth/[^"]*next=', answer.text)
    client.cookies.set("_token", "made.up.token")
    for method, path in routes():
        assert client.request(method, path).status_code in (401, 403), path


def test_a_refused_press_leads_back_to_its_page(site: Site) -> None:
    """Also by way of the login: Airflow follows `next` with a GET, which no press has."""
    home, run = "/evenkeel/tables/words", f"/evenkeel/tables/words/runs/{run_name(1)}"
    forms = {f"{run}/answer": run, f"{run}/recover": run, f"{home}/repair": home}
    forms |= {f"{home}/{part}?previewed=x": f"{home}/{part}" for part in ("rebalance", "rollback")}
    for path, page in forms.items():
        (after,) = re.findall('[?&]next=([^"&]*)"', site.client().post(path).text)
        assert unquote(after) == page, path
        answer = site.client("uma").post(path, data={"csrf": "too old"})
        assert answer.status_code == 403 and "too old or not ours" in answer.text, path
        assert f'<a href="{page}">Back to the page</a>' in answer.text, path
    asked = f"{home}?key=word+1&every=true"
    (after,) = re.findall('[?&]next=([^"&]*)"', site.client().get(asked).text)
    assert unquote(after) == asked


def test_nobody_learns_by_another_method_what_there_is(site: Site) -> None:
    stranger, viewer = site.client(), site.client("vic")
    ways = {path: [m for m, p in routes() if p == path] for _, path in routes()}
    assert len(ways) > 6
    for path, method in product([*ways, "/evenkeel/tables/nothing"], HTTPMethod):
        if method in ways.get(path, []):
            continue
        assert stranger.request(method, path).status_code in (401, 403), (method, path)
        known = path in ways and path != "/evenkeel/nowhere"
        if known or method != "GET":
            answer = viewer.request(method, path)
            there = known or "/tables/" in path
            assert answer.status_code == (405 if there else 404), (method, path)
            allowed = answer.headers.get("allow", "").split(", ")
            assert not known or allowed == sorted(ways[path]), (method, path)


def test_a_viewer_reads_and_starts_nothing(site: Site) -> None:
    client = site.client("vic")
    assert {method for method, _ in routes()} >= {"GET", "POST"}
    for method, path in routes():
        # With a form of their own: it is the right that they lack.
        status = client.request(method, path, data=form(method, "vic"))
        wanted = (403,) if method == "POST" else (200, 307, 404)
        assert status.status_code in wanted, path
        assert method == "GET" or re.search(
            r"Airflow&#39;s rights( on \w+)? decide", status.text
        ), path


def test_rights_are_asked_of_the_tables_own_dag(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = site.client("ada")
    assert "words" in client.get("/evenkeel/").text
    deny(monkeypatch, "rebalance_words")
    assert "words" not in client.get("/evenkeel/").text
    for method, path in routes():
        if "words" in path:
            answer = client.request(method, path, data=form(method, "ada"))
            assert answer.status_code == 403, path
            assert "too old or not ours" not in answer.text, path


def test_a_table_is_named_whose_name_begins_as_a_dag(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastapi import HTTPException

    from evenkeel_ui.access import require

    monkeypatch.setattr("evenkeel_ui.access.may", lambda *_: False)
    with pytest.raises(HTTPException) as refused:
        require(cast(Any, None), "GET", "rebalance_watch_events")
    assert refused.value.detail.startswith("You may not see watch_events. ")


CROSS = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "https://elsewhere.example"},
    {"origin": "null"},
]


def test_nothing_is_changed_but_by_a_form_of_ours(site: Site) -> None:
    client, mine = site.client("ada"), token("ada")
    posts = [path for method, path in routes() if method == "POST"]
    assert {path.rsplit("/", 1)[1] for path in posts} >= {"rebalance", "rollback", "answer"}
    # Wrong in what they ask, so that nothing starts: what comes after the form's own check.
    asked = {"budget": "ten", "epoch": "77"}
    for path in posts:
        passed = client.post(path, data={**asked, "csrf": mine})
        assert passed.status_code in (404, 409, 422), path
        for data in ({}, {"csrf": "made up"}, {"csrf": token("uma")}):
            answer = client.post(path, data={**asked, **data})
            assert answer.status_code == 403, (path, data)
            assert "too old or not ours" in answer.text
        for headers in CROSS:
            answer = client.post(path, data={**asked, "csrf": mine}, headers=headers)
            assert answer.status_code == 403, (path, headers)


def test_every_page_escapes_and_asks_no_other_host(site: Site) -> None:
    client = site.client("vic")
    seen = ""
    for method, path in routes():
        answer = client.get(path) if method == "GET" else None
        if answer is None or answer.status_code != 200:
            continue
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'") and "http" not in policy
        if "html" in answer.headers["content-type"]:
            assert "<script>alert" not in answer.text, path
            links = re.findall(r'(?:src|href|action)="(?!data:)([^"]*)"', answer.text)
            assert not [link for link in links if "//" in link], path
        seen += answer.text
    assert "&lt;script&gt;alert(1)" in seen
