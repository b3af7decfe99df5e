"""The pages in Airflow's real API: who gets in, what they see, what cannot be found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from http import HTTPMethod
from itertools import product
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from markupsafe import escape

from evenkeel.inspect.status import table_status
from evenkeel.pipeline import steps
from evenkeel.pipeline.steps import read_plan
from evenkeel.render.formatting import bytes_text, imbalance_text
from evenkeel.runs.params import Params
from evenkeel.table import open_table
from partitioning.function.function import successor
from partitioning.function.hashing import slot_of
from partitioning.workload.metrics import channel_loads, imbalance
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
from tests.support.worlds.shop import KEY, Shop

#: Suite of checks -> how pages call it.
CHECKS = {"before": "Plan checks", "after": "Table checks"}
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


def test_overview_tells_how_tables_stand(site: Site) -> None:
    end_runs()  # those that other tests left under way
    text = site.client("vic").get("/evenkeel/").text
    assert 'href="/evenkeel/tables/words"' in text
    now = table_status(open_table(site.shop.spec))
    assert now.epoch and now.plan and now.learned and now.hottest is not None and now.shares
    body = text.split('aria-label="Tables"')[1].split("<tbody>")[1]
    cells = [re.sub(r"<[^>]*>", "", c).strip() for c in re.findall(r"<td.*?</td>", body, re.S)]
    assert cells.pop(0) == ("over trigger" if now.imbalance > now.table.spec.trigger else "fine")
    updated = cells.pop(8)
    assert re.fullmatch(r"[\d,]+\xa0d agoread just now", updated)
    assert cells == [
        "2",
        imbalance_text(now.imbalance),
        f"{now.table.spec.trigger:g}",
        imbalance_text(now.floor),
        f"{now.epoch.function.channels[now.hottest].name}, "
        f"{imbalance_text(now.shares[now.hottest])}x fair share",
        f"{now.epoch.published[:10]} {now.epoch.published[11:16]} UTC",
        bytes_text(now.plan.bytes),
        bytes_text(float(now.learned.profile.bytes.sum())),
        # Airflow pauses DAGs that it sees for the first time.
        "paused",
        ", ".join(f"{CHECKS[p.suite]} {'passed' if p.passed else 'failed'}" for p in now.gates),
    ]
    assert now.gates and len(set(cells)) == len(cells)


def test_overview_tells_when_a_table_runs_next(site: Site) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    def scheduled(paused: bool, moment: datetime | None) -> tuple[bool, datetime | None]:
        with create_session() as session:
            dag = session.get(DagModel, "rebalance_words")
            before = dag.is_paused, dag.next_dagrun_create_after
            dag.is_paused, dag.next_dagrun_create_after = paused, moment
            return before

    def told() -> str:
        body = site.client("vic").get("/evenkeel/").text.split("<tbody>")[1]
        return re.findall(r"<td.*?</td>", body, re.S)[10]

    moment = datetime(2031, 5, 6, 7, 30, tzinfo=UTC)
    before = scheduled(False, moment)
    try:
        assert (
            told() == '<td><time datetime="2031-05-06T07:30:00Z">2031-05-06 07:30 UTC</time></td>'
        )
        scheduled(False, None)
        assert told() == "<td>when asked</td>"
        scheduled(True, moment)
        assert told() == "<td>paused</td>"
    finally:
        scheduled(*before)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/tables/nothing", "no table &#39;nothing&#39;"),
        ("/tables/..%2f..%2fetc", "no such page"),
        ("/dags/some_other_dag", "not one of Evenkeel"),
        ("/nowhere/at/all", "no such page"),
        ("/tables/words/runs/other", "no run &#39;other&#39;"),
        ("/tables/words/runs/..%5c..", "no run"),
        ("/tables/words/runs/other/report", "no run"),
        ("/tables/words/quality?run=../epochs/00000001", "no run"),
        ("/tables/words/rollback?epoch=77", "no epoch 77"),
        ("/tables/words/rollback?epoch=x", "no epoch"),
        ("/tables/words/compare?old=5&new=6", "no epoch 5"),
        ("/tables/words/compare?old=x", "old: must be a whole number, got &#39;x&#39;"),
        ("/tables/words/data_docs/secret.txt", "no page &#39;secret.txt&#39;"),
        ("/tables/words/data_docs/..%2fepochs%2f00000001%2fepoch.json", "no such page"),
        ("/tables/words/data_docs/..%5cbootstrap.json", "no page"),
    ],
)
def test_what_is_not_there_gives_a_page_that_says_so(site: Site, path: str, told: str) -> None:
    site.registry.store.write("data_docs/secret.txt", b"no page")
    answer = site.client("vic").get(f"/evenkeel{path}")
    assert answer.status_code == 404 and told in answer.text and "Traceback" not in answer.text


def test_the_floor_of_a_table_that_splits_is_told_as_such(site: Site) -> None:
    client, pages = site.client("vic"), ("", "/rebalance?force=true", f"/runs/{run_name(2)}")
    whole = "the least possible without splitting keys"
    for page in pages:
        assert whole in client.get(f"/evenkeel/tables/words{page}").text, page
    site.shop.respec(split={"by": "id"})
    try:
        text = client.get("/evenkeel/tables/words").text
        assert whole not in text and "the least possible" in text
    finally:
        site.shop.respec()


def test_links_to_airflows_own_pages_leave_the_frame(site: Site) -> None:
    from evenkeel_ui.web import script

    text = site.client().get("/evenkeel/").text
    assert re.search(r'<a class="button" href="[^"]*/auth/[^"]*" target="_top"', text)
    # The sandbox of Airflow's frame lets no link out: the script presses it outside.
    assert "window.parent.document" in script("page.js")


ODD = ["", "-1", "0", "9" * 30, "1.5", "\x00", "../x", "٣", "<b>", "a,b", "true", "🛩" * 300]


@pytest.mark.slow
def test_no_odd_value_breaks_a_page(site: Site) -> None:
    client = site.client("uma")
    home = "/evenkeel/tables/words"
    asked = {
        home: ["key", "every", "channels", "keys"],
        f"{home}/runs/{run_name(1)}": ["every", "moves"],
        f"{home}/rebalance": [*Params.model_fields],
        f"{home}/rollback": ["epoch", "every"],
        f"{home}/compare": ["old", "new", "sort"],
        f"{home}/quality": ["run"],
        "/evenkeel/": ["sort"],
    }
    for path, names in asked.items():
        for name, value in product(names, ODD):
            answer = client.get(path, params={name: value})
            assert answer.status_code in (200, 404, 422), (path, name, value)
            assert "<b>" not in answer.text
    for value in filter(None, ODD):
        for path in (
            "/tables/{}",
            "/tables/words/runs/{}",
            "/tables/words/data_docs/{}",
            "/dags/{}",
        ):
            answer = client.get("/evenkeel" + path.format(quote(value)))
            assert answer.status_code in (404, 403), (path, value)


def test_a_damaged_profile_leaves_the_rest_of_the_page(site: Site) -> None:
    run = site.registry.run(site.learned(9))
    run.write("profile.npz", b"torn")
    left = {
        "": 'aria-label="Tables"',
        "/tables/words": 'aria-label="Epochs"',
        "/tables/words/rebalance": "Byte budget",
        "/tables/words/rollback?epoch=0": "Epochs to go back to",
        "/tables/words/compare?old=0&new=2": 'aria-label="What moved"',
    }
    try:
        for path, there in left.items():
            answer = site.client("vic").get(f"/evenkeel{path or '/'}")
            assert answer.status_code == 200, path
            assert "Missing here" in answer.text and "profile.npz" in answer.text, path
            assert there in answer.text, path
    finally:
        run.remove("profile.npz")
        run.remove("profile.json")


@pytest.mark.parametrize("left", [{}, [], [1], None])
def test_what_is_no_record_leaves_the_rest_of_every_page(site: Site, left: object) -> None:
    store, client, run = site.registry.store, site.client("vic"), run_name(2)
    home, of_run = "/tables/words", f"/tables/words/runs/{run}"
    store.write_json("windows/2013-02-02.json", {"channels": []})
    files = {f"runs/{run}/{n}.json": (of_run,) for n in ("decision", "approval", "rolled_back")}
    files |= {
        f"runs/{run}/gate_plan.json": (of_run, f"{home}/quality"),
        f"runs/{run}/profile.json": (of_run, "/", home),
        f"runs/{run}/migration.json": (of_run,),
        predicted(site, run): (of_run,),
        "epochs/00000001/migration.json": (f"{home}/rebalance",),
        "windows/2013-02-02.json": (f"{home}/rebalance",),
        # Read by the preview alone, which is what is missing then.
        f"spec_channels/{site.registry.current().plan_digest}.json": (f"{home}/rebalance",),
    }
    try:
        for file, paths in files.items():
            kept = store.read(file) if store.exists(file) else None
            store.write_json(file, left)
            for path in paths:
                answer = client.get(f"/evenkeel{path}")
                assert answer.status_code == 200, (file, path)
                assert f"/{file}: " in answer.text, (
                    file,
                    path,
                    re.findall("<p>.*?</p>", answer.text),
                )
                assert "Restore the file from a backup" in answer.text, (file, path)
                if path == of_run:
                    assert 'aria-label="Moves"' in answer.text, file
                if path == "/":
                    assert 'href="/evenkeel/tables/words"' in answer.text
            store.remove(file)
            if kept is not None:
                store.write(file, kept)
    finally:
        store.remove("windows/2013-02-02.json")


def predicted(site: Site, run: str) -> str:
    """The file with the prediction of a run's plan."""
    digest = read_plan(site.registry.run(run)).digest
    return f"runs/{run}/prediction_{digest[:12]}.json"


def test_a_plan_is_told_without_its_profile_or_what_runs_cost(site: Site) -> None:
    store, run = site.registry.store, run_name(2)
    torn = [f"runs/{run}/profile.npz", "epochs/00000001/migration.json"]
    # As earlier versions left a run: what it costs is predicted anew.
    earlier = predicted(site, run)
    kept = {n: store.read(n) for n in (*torn, earlier)}
    try:
        for name in torn:
            store.write(name, b"torn")
        store.remove(earlier)
        answer = site.client("vic").get(f"/evenkeel/tables/words/runs/{run}")
    finally:
        for name, data in kept.items():
            store.write(name, data)
    assert answer.status_code == 200 and 'aria-label="Moves"' in answer.text
    assert "profile.npz" in answer.text and "migration.json" in answer.text
    assert "what else could have moved" in answer.text


def test_a_key_is_found_with_where_it_lived(site: Site) -> None:
    client = site.client("vic")
    text = client.get("/evenkeel/tables/words", params={"key": ATTACK}).text
    assert "lives on channel" in text and "Where it lived" in text
    epoch = site.registry.current()
    owner = epoch.function.channels[int(epoch.lookup([ATTACK])[0])].name
    assert f"on channel <strong>{owner}</strong>" in text
    assert "bootstrap" in text


def test_a_key_that_was_not_seen_is_not_said_to_live_anywhere(site: Site) -> None:
    client = site.client("vic")
    text = client.get("/evenkeel/tables/words", params={"key": "no such word"}).text
    assert "was not seen" in text and "belongs on channel" in text
    assert "lives on channel" not in text and "spaces around it" not in text
    text = client.get("/evenkeel/tables/words", params={"key": " word 1 "}).text
    assert "spaces around it" in text and "“ word 1 ”" in text and "?key=word+1#search" in text


def test_a_torn_epoch_is_called_damaged_and_leaves_channels_and_search(site: Site) -> None:
    store, client = site.registry.store, site.client("vic")
    file = "epochs/00000002/epoch.json"
    kept = store.read(file)
    store.write(file, b"{}")
    try:
        text = client.get("/evenkeel/tables/words", params={"key": ATTACK}).text
        assert "this page shows epoch 1" in text and file in text
        assert "lives on channel" in text and 'aria-label="Channels"' in text
        answer = client.get("/evenkeel/tables/words/rollback?epoch=0")
        assert answer.status_code == 200 and "epoch 2 is torn" in answer.text
        assert file in answer.text and "no way back can be planned" in answer.text
        assert "I have read what moves" not in answer.text and "?epoch=1" in answer.text
        store.write(file, kept)
        file, kept = file.replace("2/", "1/"), store.read(file.replace("2/", "1/"))
        store.write(file, b"{}")
        answer = client.get("/evenkeel/tables/words/rollback?epoch=1")
        assert answer.status_code == 200 and "epoch 1 is torn" in answer.text
        assert "choose another epoch" in answer.text and "?epoch=0" in answer.text
    finally:
        store.write(file, kept)


def test_an_aim_out_of_reach_is_told(site: Site) -> None:
    client, path = site.client("vic"), "/evenkeel/tables/words/rebalance"
    # One key alone has more load than one of 16 channels should.
    text = client.get(path, params={"max_imbalance": "1.05", "channels": "16"}).text
    assert "The aim of 1.05 is out of reach" in text and "this plan reaches" in text
    assert "<code>split</code>" in text
    assert "out of reach" not in client.get(path, params={"max_imbalance": "50"}).text


def test_since_when_a_key_lives_somewhere_is_told_over_many_epochs(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, learned = Shop(tmp_path), profile(1)
    shop.learn("r", learned)
    shop.plan("r", force=True)
    shop.verified("r")
    steps.publish(shop.spec, "r")
    first, then = (shop.registry.epoch(n).function for n in (0, 1))
    moves = {(m.kind, m.item): m.reason for m in read_plan(shop.registry.run("r")).moves}
    hashes = learned.heavy
    changed = first.lookup_hashes(hashes) != then.lookup_hashes(hashes)
    at = int(np.argmax(np.where(changed, learned.heavy_load, 0)))
    slot = int(slot_of(hashes, len(then.slots))[at])
    assert changed[at]
    # Twelve epochs in which no key moves.
    explicit = dict(zip(then.explicit_keys.tolist(), then.explicit_channels.tolist(), strict=True))
    for _ in range(12):
        now = shop.registry.current()
        same = successor(KEY, now.function, then.channels, then.slots, "x", explicit=explicit)
        shop.registry.publish(same, now.tables)
    assert len(shop.registry.numbers()) == 14
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    client, name = site.client("vic"), learned.heavy_names[at]

    def since(query: str) -> str:
        text = client.get(f"/evenkeel/tables/words?{query}").text
        rows = text.split('aria-label="Heavy keys"')[1].split("<tr>")
        (row,) = [r for r in rows if f">{escape(name)}</a>" in r]
        return row

    listed = since("")
    assert '<td class="n">epoch 2 or earlier</td><td>the epochs that were read give no' in listed
    assert '<td class="n">epoch 1</td>' in since("every=true")
    text = client.get("/evenkeel/tables/words", params={"key": name}).text
    told = text.split("Where it lived")[1].split("</table>")[0]
    assert re.findall(r'<td class="n">([^<]*)</td><td>([^<]*)</td>', told) == [
        ("1", escape(moves.get(("key", int(hashes[at]))) or moves["slot", slot])),
        ("0", "bootstrap"),
    ]
    # The page's own list of epochs stays as short as it was.
    assert "12 of 14." in text


def test_before_the_first_rebalance_a_table_shows_what_balance_would_cost(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    text = site.client("vic").get("/evenkeel/tables/words").text
    assert "What balance would cost" in text and "as it is" in text
    standing_still = imbalance(
        channel_loads(shop.registry.current().function, shop.profile), np.ones(4)
    )
    assert f"{imbalance_text(standing_still)} for 0\u00a0bytes" in text
    assert 'aria-label="Heavy keys"' in text and "Imbalance of each epoch" not in text


def heavy_keys(site: Site) -> str:
    text = site.client("vic").get("/evenkeel/tables/words").text
    return text.split('<h2 id="keys">')[1].split("</table>")[0]


def test_a_split_key_shows_every_channel_and_its_share(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    learned, now = profile(1), shop.registry.current()
    split = {int(learned.heavy[learned.heavy_names.index("word 1")]): {2: 3.0, 1: 1.0}}
    made = successor(KEY, now.function, now.function.channels, now.function.slots, "x", split=split)
    shop.registry.publish(made, now.tables)
    shop.learn("r", learned)
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    text = site.client("vic").get("/evenkeel/tables/words?key=word+1").text
    rows = text.split('aria-label="Heavy keys"')[1].split("</table>")[0]
    assert "<td>2 (75%), 1 (25%), split</td>" in rows
    assert "on channel <strong>2 (75%), 1 (25%)</strong>, split" in text
    # It is split whether or not a profile lists it.
    heavy = [name for name in vars(learned) if name.startswith("heavy")]
    none = {name: getattr(learned, name)[:0] for name in heavy}
    shop.learn("r", replace(learned, **none))
    rows = heavy_keys(site)
    assert f"hash {next(iter(split))}" in rows and "<td>2 (75%), 1 (25%), split</td>" in rows
    assert rows.count("<tr>") == 2
    for file in ("profile.npz", "profile.json"):
        shop.registry.run("r").remove(file)
    rows = heavy_keys(site)
    assert "There is no profile to list them" in rows and "<td>2 (75%), 1 (25%), split</td>" in rows


def test_channels_sort_by_their_share(site: Site) -> None:
    client = site.client("vic")

    def column(query: str) -> list[float]:
        text = client.get(f"/evenkeel/tables/words?channels={query}").text
        region = text.split('aria-label="Channels"')[1].split("</table>")[0]
        return [float(v) for v in re.findall(r'</th><td class="n[^"]*">([\d.]+)</td>', region)]

    up, down = column("share"), column("-share")
    assert len(up) == 4 and up == sorted(up) and down == up[::-1] and len(set(up)) > 1


def tables(text: str) -> dict[str, str]:
    """Each table that scrolls, by its label."""
    found = re.findall(r'role="region" aria-label="([^"]*)">\s*(<table>.*?</table>)', text, re.S)
    return dict(found)


def cells(table: str, place: int) -> list[str]:
    """The texts of a column, without what is said beside a value."""
    rows = table.split("<tbody>")[1].split("</tr>")[:-1]
    rows = [re.sub(r"<span class=\"said\">.*?</span>", "", row) for row in rows]
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)[place] for row in rows]
    return [re.sub("<[^>]*>", "", cell).strip().split(", ")[0] for cell in found]


@pytest.mark.parametrize(
    ("page", "labels"),
    [
        ("/", {"Tables"}),
        ("/tables/words?every=true", {"Channels", "Heavy keys", "Epochs"}),
        (f"/tables/words/runs/{run_name(2)}", {"Moves", "Rejected moves"}),
        ("/tables/words/compare?old=0&new=2", {"What moved"}),
        (
            "/tables/words/quality?every=true",
            {
                "Plan checks",
                "Table checks",
                "Expectations over epochs",
                "Validations",
            },
        ),
        ("/tables/words/rebalance?max_imbalance=1.001&every=true", {"Moves"}),
        ("/tables/words/rollback?epoch=0&every=true", {"Moves", "Epochs"}),
    ],
)
def test_every_table_sorts_on_the_server(site: Site, page: str, labels: set[str]) -> None:
    client, address = site.client("vic"), f"/evenkeel{page}"
    first = client.get(address).text
    assert set(tables(first)) == labels
    path = address.split("?")[0]
    changed = set()
    for label, table in tables(first).items():
        heads = re.findall(r"<th scope=\"col\"[^>]*>(.*?)</th>", table, re.S)
        links = [(i, re.search(r'href="(\?[^"#]*)#([^"]*)"', h)) for i, h in enumerate(heads)]
        links = [(i, found) for i, found in links if found]
        assert len(links) >= 2, label
        for place, link in links:
            assert f'id="{link[2]}"' in first, (label, link[2])
            # What was asked for besides stays.
            up = client.get(path + unescape(link[1]))
            assert up.status_code == 200 and set(tables(up.text)) == labels, (label, link[1])
            ascending = tables(up.text)[label]
            assert ascending.count('aria-sort="ascending"') == 1
            again = re.findall(r'href="(\?[^"#]*)#', ascending.split("</thead>")[0])
            (back,) = [a for a in again if f"{link[2]}=-" in a]
            descending = tables(client.get(path + unescape(back)).text)[label]
            assert descending.count('aria-sort="descending"') == 1
            told, turned = cells(ascending, place), cells(descending, place)
            # What has no value comes last in either order.
            known = [value for value in told if value != "–"]
            assert [v for v in turned if v != "–"] == known[::-1], (label, heads[place])
            assert told[len(known) :] == turned[len(known) :], (label, heads[place])
            assert sorted(told) == sorted(cells(table, place)), (label, heads[place])
            if len(set(told)) > 1:
                changed.add(label)
    # The overview has one table here; of the suite after, all that this site knows is its verdict.
    assert changed >= labels - {"Tables", "Table checks"}


def test_sorting_below_a_form_that_came_back_keeps_what_it_asked_for(site: Site) -> None:
    client = site.client("uma")
    text = client.post(
        "/evenkeel/tables/words/rollback", data={"csrf": token("uma"), "epoch": "0"}
    ).text
    link = re.search(r'href="(\?[^"#]*)#moves"', text)
    assert link and "epoch=0" in link[1] and "csrf" not in link[1]
    shown = client.get(f"/evenkeel/tables/words/rollback{unescape(link[1])}").text
    assert '<details id="moves" open>' in shown and "back to epoch 0" in shown


def test_openapi_lists_the_pages(site: Site) -> None:
    found = site.client("vic").get("/evenkeel/openapi.json").json()
    assert "/tables/{table}" in found["paths"]


def test_tabs_of_airflow_lead_to_the_tables_pages(site: Site) -> None:
    client, run = site.client("vic"), "manual__2013-02-01T00:00:00+00:00"
    for dag in ("rebalance_words", "roll_back_words", "maintain_words", "repair_words"):
        to = client.get(f"/evenkeel/dags/{dag}").headers["location"]
        assert to == "/evenkeel/tables/words"
    # Their runs leave no folder, and so no page.
    for dag in ("maintain_words", "repair_words"):
        to = client.get(f"/evenkeel/dags/{dag}/runs/{run}").headers["location"]
        assert to == "/evenkeel/tables/words"
    for tail in ("", "/tasks/approve"):
        to = client.get(f"/evenkeel/dags/rebalance_words/runs/{run}{tail}").headers["location"]
        name = "rebalance_words--manual__2013-02-01T00-00-00-00-00"
        assert to == f"/evenkeel/tables/words/runs/{name}"


def test_a_plan_tells_moves_price_digest_and_what_was_rejected(site: Site) -> None:
    plan = read_plan(site.registry.run(run_name(2)))
    text = site.client("vic").get(f"/evenkeel/tables/words/runs/{run_name(2)}").text
    region = text.split('aria-label="Moves"')[1].split("</table>")[0]
    assert region.count("<tr>") == len(plan.moves) + 1
    assert [str(escape(m.reason)) in region for m in plan.moves] == [True] * len(plan.moves)
    assert plan.digest in text and plan.parent_digest[:12] in text
    assert 'aria-label="Rejected moves"' in text and "earlier migrations: they moved" in text


def test_moves_sort_by_what_is_asked(site: Site) -> None:
    path = f"/evenkeel/tables/words/runs/{run_name(2)}"

    def order(by: str) -> list[int]:
        text = site.client("vic").get(path, params={"moves": by}).text
        region = text.split('aria-label="Moves"')[1].split("</table>")[0]
        return [int(n) for n in re.findall(r'<tr><td class="n">(\d+)</td>', region)]

    moves = read_plan(site.registry.run(run_name(2))).moves
    assert order("order") == list(range(1, len(moves) + 1))
    assert order("bytes") == sorted(order("order"), key=lambda n: moves[n - 1].bytes)
    assert order("no such column") == order("order")


def test_no_script_of_a_report_or_of_data_docs_runs(site: Site) -> None:
    client, home = site.client("vic"), "/evenkeel/tables/words"
    report = client.get(f"{home}/runs/{run_name(1)}/report")
    pages = re.findall(r'href="(\.\./\.\./data_docs/[^"]*)"', report.text)
    assert len(pages) >= 2
    for page in pages:
        answer = client.get(f"{home}/{page.removeprefix('../../')}")
        assert answer.status_code == 200 and "<h1>" in answer.text
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        # The one script that runs is the one that takes over Airflow's theme.
        (nonce,) = re.findall(r"script-src 'nonce-([\w-]{20,})'$", policy)
        assert answer.text.count(nonce) == 1
        assert f'<script src="/evenkeel/static/theme.js" nonce="{nonce}"></script>' in answer.text
        again = client.get(f"{home}/{page.removeprefix('../../')}")
        assert nonce not in again.headers["content-security-policy"]


def test_quality_lines_up_expectations_over_epochs(site: Site) -> None:
    text = site.client("vic").get("/evenkeel/tables/words/quality").text
    region = text.split('aria-label="Expectations over epochs"')[1].split("</table>")[0]
    assert [int(n) for n in re.findall(r"epoch (\d+)", region)] == [2, 1, 0]
    assert "Nothing moves without a reason" in region and "✓" in region


def test_expectations_of_older_epochs_are_a_click_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_ui.pages import quality

    monkeypatch.setattr(quality, "EPOCHS", 2)
    client, home = site.client("vic"), "/evenkeel/tables/words/quality"
    for query, numbers in (("", ["2", "1"]), ("?every=true", ["2", "1", "0"])):
        text = client.get(home + query).text
        region = text.split('aria-label="Expectations over epochs"')[1].split("</table>")[0]
        assert re.findall(r"epoch (\d+)", region) == numbers
        assert ('2 of 3. <a href="?every=true#epochs">Show all</a>' in text) is (query == "")


def test_comparing_epochs_lists_what_changed(site: Site) -> None:
    text = site.client("vic").get("/evenkeel/tables/words/compare?old=0&new=2").text
    old, new = (site.registry.epoch(n).function for n in (0, 2))
    changed = np.flatnonzero(old.slots != new.slots).tolist()
    rows = set(re.findall(r'<th scope="row">slot (\d+)</th>', text))
    assert rows == {str(s) for s in changed} and "epoch 1: channel" in text


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["plugins", "elsewhere"])
def test_airflow_finds_it_by_its_folder_or_as_installed(tmp_path: Path, folder: str) -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry = ours["entry-points"]["airflow.plugins"]["evenkeel"]
    (tmp_path / "elsewhere").mkdir()
    # An editable installation is found beside its sources, too.
    places = [tmp_path / "once", tmp_path / "twice"]
    for place in places:
        info = place / "evenkeel-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evenkeel\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[airflow.plugins]\nevenkeel = {entry}\n")
    where = ROOT / "plugins" if folder == "plugins" else tmp_path / "elsewhere"
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nfrom airflow import plugins_manager as m\n"
            "print([p.name for p in m._get_plugins()[0]].count('evenkeel'), m.get_import_errors(),"
            " [n for n in ('evenkeel_ui.app', 'app', 'numpy') if n in sys.modules])",
        ],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([PATH, *map(str, places)]),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(where),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    # Loaded once, without an error, and without the app: workers load plugins too.
    assert found.stdout.splitlines()[-1] == "1 {} []"
