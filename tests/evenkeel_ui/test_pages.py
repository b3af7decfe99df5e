"""The pages in Airflow's real API: who gets in, what they see, what cannot be found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape

from evenkeel.inspect.status import table_status
from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.epochs import Registry
from evenkeel.registry.store_errors import DeniedError, StoreError
from evenkeel.render.formatting import bytes_text, imbalance_text
from evenkeel.table import open_table
from partitioning.errors import DamagedError, EvenkeelError, FenceError, GateError
from tests.support.airflow_env import PATH, ROOT, airflow_db  # noqa: F401  a fixture
from tests.support.plugin_site import (  # noqa: F401  a fixture
    ATTACK,
    Site,
    deny,
    end_runs,
    forget_runs,
    made_site,
    profile,
    run_name,
    token,
)

#: Suite of checks -> how pages call it.
CHECKS = {"before": "Plan checks", "after": "Table checks"}
pytestmark = pytest.mark.airflow


def test_overview_tells_how_tables_stand(site: Site) -> None:
    forget_runs()  # those of other tests: one that failed is told first
    text = site.client("vic").get("/evenkeel/").text
    assert 'href="/evenkeel/tables/words"' in text
    now = table_status(open_table(site.shop.spec))
    assert now.epoch and now.plan and now.learned and now.fullest is not None and now.shares
    body = text.split('aria-label="Tables"')[1].split("<tbody>")[1]
    cells = [re.sub(r"<[^>]*>", "", c).strip() for c in re.findall(r"<td.*?</td>", body, re.S)]
    assert cells.pop(0) == ("over trigger" if now.imbalance > now.limit else "fine")
    updated, next_run = cells.pop(8), cells.pop(8)
    assert re.fullmatch(r"[\d-]{10} 00:00 UTC", next_run)
    assert re.fullmatch(r"[\d,]+\xa0d agoread just now", updated)
    assert cells == [
        "2",
        imbalance_text(now.imbalance),
        f"{now.table.spec.trigger:g}",
        imbalance_text(now.floor),
        f"{now.epoch.function.channels[now.fullest].name}, "
        f"{imbalance_text(now.shares[now.fullest])}x fair share",
        f"{now.epoch.published[:10]} {now.epoch.published[11:16]} UTC",
        bytes_text(now.plan.bytes),
        bytes_text(float(now.learned.profile.bytes.sum())),
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
        for schedule in (["s3://events"], {"partitions": ["s3://events"]}):
            site.shop.respec(schedule=schedule)
            assert told() == "<td>when its assets are updated</td>"
        scheduled(True, moment)
        assert told() == "<td>paused</td>"
    finally:
        site.shop.respec()
        scheduled(*before)


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


def test_an_aim_out_of_reach_is_told(site: Site) -> None:
    client, path = site.client("vic"), "/evenkeel/tables/words/rebalance"
    # One key alone has more load than one of 16 channels should.
    text = client.get(path, params={"max_imbalance": "1.05", "channels": "16"}).text
    assert "The aim of 1.05 is out of reach" in text and "this plan reaches" in text
    assert "<code>split</code>" in text
    assert "out of reach" not in client.get(path, params={"max_imbalance": "50"}).text


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
        # The scripts that run are those that take over Airflow's theme and zone.
        (nonce,) = re.findall(r"script-src 'nonce-([\w-]{20,})'$", policy)
        assert answer.text.count(nonce) == 2
        for name in ("theme.js", "times.js"):
            assert f'<script src="/evenkeel/static/{name}" nonce="{nonce}"' in answer.text
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

    monkeypatch.setattr(quality, "EPOCHS_COMPARED", 2)
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
            "import sys\nfrom airflow import plugins_manager as m\nm.ensure_plugins_loaded()\n"
            "heavy = [n for n in ('evenkeel_ui.app', 'app', 'numpy') if n in sys.modules]\n"
            "errors = getattr(m, 'get_import_errors', lambda: m.import_errors)()\n"
            "names = [p['name'] for p in m.get_plugin_info(['source'])]\n"
            "print(names.count('evenkeel'), errors, heavy)",
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


@pytest.mark.parametrize(
    ("error", "status", "heading"),
    [
        (DamagedError("is torn"), 500, "A file is damaged"),
        (DeniedError("read", "it refuses", "here"), 503, "The server lacks a right"),
        (StoreError("is away"), 503, "A store cannot be reached"),
        (FenceError("has changed"), 409, "Too late"),
        (GateError("did not pass"), 409, "The request failed"),
    ],
)
def test_an_error_is_answered_by_its_kind(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: EvenkeelError, status: int, heading: str
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(Registry, "epoch", fails)
    found = site.client("vic").get("/evenkeel/tables/words/compare?old=0&new=1")
    assert found.status_code == status
    assert f"<h1>{heading}</h1>" in found.text and str(error) in found.text
