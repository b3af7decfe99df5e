"""One number for one thing: a run's page, its report, its JSON, the console and its files agree."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from typer.testing import CliRunner

from evenkeel.cli import app
from evenkeel.pipeline import metrics, steps
from evenkeel.render.formatting import bytes_text
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.whole_runs import KINDS, whole_run
from tests.support.plugin_site import Site, made_site, profile, run_name  # noqa: F401  a fixture
from tests.support.raw_json import read_json, table_moved, write_json

pytestmark = pytest.mark.airflow
HOME = "/evenkeel/tables/words"
Figures = dict[str, tuple[str, str]]


def on_page(html: str) -> Figures:
    """What the table of prices of a page says: title -> predicted, measured."""
    table = re.search(r'<table class="price">(.*?)</table>', html, re.S)
    assert table, html
    rows = re.findall(r"<tr>(.*?)</tr>", table[1].split("</thead>")[1], re.S)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in rows]
    return {
        re.sub(r" ?<span.*", "", unescape(c[0])): (unescape(c[1]), unescape(c[2])) for c in cells
    }


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_every_page_says_the_same_of_one_migration(site: Site, seed: int) -> None:
    name = whole_run(site.shop, seed, seed)
    client, folder = site.client("vic"), site.registry.run(name)
    page = client.get(f"{HOME}/runs/{name}").text
    report = client.get(f"{HOME}/runs/{name}/report").text
    told = client.get(f"{HOME}/runs/{name}/figures.json").json()
    shown = CliRunner().invoke(app, ["cost", site.shop.spec, name, "--format", "json"])
    plan = steps.read_plan(folder)
    assert json.loads(shown.output) == {**told["figures"], "run": name, "plan": plan.digest}
    assert told["plan"] == plan.digest
    assert on_page(page) == on_page(report)
    numbers = told["figures"]
    for title, (kind, text) in KINDS.items():
        expected = (text(numbers[kind]["predicted"]), text(numbers[kind]["measured"]))
        assert on_page(page)[title] == expected, title
    # ... and these are the numbers of the files.
    cost = read_json(folder, "migration.json")["tables"]["counts"]
    weight = plan.bytes / sum(m.rows for m in plan.moves)
    assert numbers["rows"]["measured"] == cost["rows"]
    assert numbers["bytes_moved"]["predicted"] == plan.bytes
    assert numbers["bytes_moved"]["measured"] == pytest.approx(cost["rows"] * weight)
    assert numbers["bytes_written"]["measured"] == cost["bytes"]
    assert numbers["seconds"]["measured"] == cost["elapsed"]
    kept = folder.prediction(plan.digest).find()
    assert kept and numbers["bytes_written"]["predicted"] == kept.written
    assert numbers["seconds"]["predicted"] == kept.seconds
    measured = metrics.run_metrics(site.shop.spec, name)[1]
    assert measured["bytes_moved"] == numbers["bytes_moved"]["measured"]
    assert measured["bytes_written"] == cost["bytes"]
    # What is planned to move is "to move" on every page, and never "moved".
    planned, moved = bytes_text(plan.bytes), bytes_text(numbers["bytes_moved"]["measured"])
    for html in (page, report):
        text = " ".join(unescape(re.sub(r"<[^>]*>", " ", html.split("</style>")[-1])).split())
        planned, moved = (" ".join(t.split()) for t in (planned, moved))
        assert f"It moved {moved} of state" in text and f"{planned} were predicted" in text
        assert f"state to move {planned}" in text
        assert f"for moving {planned}" not in text


def test_what_an_approver_saw_stays_after_the_migration(site: Site) -> None:
    name = run_name(9)
    site.shop.learn(name, profile(9))
    site.shop.plan(name, force=True, max_imbalance=1.005, rate=1000)
    client, path = site.client("vic"), f"{HOME}/runs/{name}"
    before = client.get(path).text
    saw = {title: told[0] for title, told in on_page(before).items()}
    pays = re.search(r"Break-even: [^<]*", before)
    assert saw["time"] != "–" and pays
    # The run ends, and windows and migrations are measured anew.
    plan = steps.read_plan(site.registry.run(name))
    slow = table_moved(rows=1, bytes=9 * 10**9, files=900, commits=[2], seconds=900.0)
    record = {"digest": plan.digest, "epoch": plan.function.epoch, "tables": {"counts": slow}}
    write_json(site.registry.run(name), "migration.json", record)
    steps.validate_plan(site.shop.spec, name)
    site.shop.verified(name)
    steps.publish(site.shop.spec, name)
    window = {"channels": [{"channel": 0, "rows": 10, "seconds": 1000.0}]}
    write_json(site.registry.files, "windows/2013-03-01.json", window)
    try:
        after = client.get(path).text
        assert {title: told[0] for title, told in on_page(after).items()} == saw
        assert pays[0] in after
        assert on_page(after)["time"][1] == "15 min 0 s".replace(" ", "\u00a0", 1).replace(
            "0 s", "0\u00a0s"
        )
    finally:
        site.registry.store.remove("windows/2013-03-01.json")


def test_a_move_that_does_not_pay_says_so_in_words(site: Site) -> None:
    name = run_name(10)
    site.shop.learn(name, profile(10))
    window = {"channels": [{"channel": 0, "rows": 10**6, "seconds": 1e-3}]}
    write_json(site.registry.files, "windows/2013-03-01.json", window)
    try:
        site.shop.plan(name, force=True, max_imbalance=1.005, rate=10)
        text = unescape(site.client("vic").get(f"{HOME}/runs/{name}").text)
        assert re.search(r"pays back after [\d,.]+ days; the horizon is 28: it does not pay", text)
        asked = {"force": "true", "rate": "10", "max_imbalance": "1.005"}
        text = unescape(site.client("vic").get(f"{HOME}/rebalance", params=asked).text)
        assert re.search(r"pays back after [\d,.]+ days; the horizon is 28: it does not pay", text)
    finally:
        site.registry.store.remove("windows/2013-03-01.json")
