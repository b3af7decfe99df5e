"""Odd values and damaged files: the page answers, and the rest of it stays."""

from __future__ import annotations

import re
from html import unescape
from itertools import product
from urllib.parse import quote

import pytest

from evenkeel.pipeline.steps import read_plan
from evenkeel.spec.run_params import Params
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
from tests.support.raw_json import write_json

pytestmark = pytest.mark.airflow


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
    write_json(site.registry.files, "windows/2013-02-02.json", {"channels": []})
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
            write_json(site.registry.files, file, left)
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


def test_a_report_that_somebody_edited_is_called_damaged(site: Site) -> None:
    run = site.registry.run(run_name(2))
    kept = run.find("report.html")
    run.write("report.html", b"<p>\xff\xfe</p>")
    try:
        answer = site.client("vic").get(f"/evenkeel/tables/words/runs/{run.name}/report")
    finally:
        run.remove("report.html")
        if kept is not None:
            run.write("report.html", kept)
    assert answer.status_code == 500 and "A file is damaged" in answer.text
    said = unescape(answer.text)
    assert "expected a page in UTF-8, found invalid start byte at byte 3" in said
    assert run.path("report.html") in said and "task report of a run makes its report again" in said


def said_of_epochs(text: str) -> list[str]:
    """What can be done with each epoch, the newest first."""
    lines = text.split('aria-label="Epochs"')[1].split("</table>")[0].split("<tr>")[2:]
    return [re.sub("<[^>]*>", "", line.split("<td>")[-1]).strip() for line in lines]


def test_a_torn_epoch_is_called_damaged_and_leaves_channels_and_search(site: Site) -> None:
    store, client = site.registry.store, site.client("vic")
    file = "epochs/00000002/epoch.json"
    kept = store.read(file)
    store.write(file, b"{}")
    try:
        text = client.get("/evenkeel/tables/words", params={"key": ATTACK}).text
        assert "this page shows epoch 1" in text and file in text
        assert said_of_epochs(text) == ["current", "on this page", "back to it, compare"]
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
        text = client.get("/evenkeel/tables/words").text
        assert said_of_epochs(text) == ["current", "–", "back to it, compare"]
        assert "choose another epoch" in answer.text and "?epoch=0" in answer.text
    finally:
        store.write(file, kept)
