"""A table that has no epoch or no profile yet says what to do; many epochs come in pages."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest
import yaml

from evenkeel.registry.files.records import ReleaseRecord
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.empty_tables import another_epoch
from tests.support.plugin_site import Site, made_site  # noqa: F401  a fixture
from tests.support.worlds.shop import SPEC, Shop

pytestmark = pytest.mark.airflow
HOME = "/evenkeel/tables/words"


def test_a_table_without_an_epoch_shows_the_command(site: Site, shop: Shop) -> None:
    shop.registry.store.remove_folder("epochs")
    text = unescape(site.client("vic").get(HOME).text)
    assert "evenkeel job bootstrap --spec words --end 20" in text
    overview = unescape(site.client("vic").get("/evenkeel/").text)
    assert "evenkeel job bootstrap --spec words --end 20" in overview
    assert "read just now" in re.sub("<[^>]*>", "", overview)
    # Bootstrap refuses a day for events without a time.
    shop.respec(input={name: value for name, value in SPEC["input"].items() if name != "time"})
    for path in (HOME, "/evenkeel/"):
        text = unescape(site.client("vic").get(path).text)
        assert "evenkeel job bootstrap --spec words</code>" in text, path


@pytest.fixture
def another_day(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server where it is another day than in UTC: tomorrow in the east, yesterday in the west."""
    with monkeypatch.context() as patch:
        east = datetime.now(UTC).hour >= 10
        patch.setenv("TZ", "Pacific/Kiritimati" if east else "Etc/GMT+12")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("another_day")
def test_days_are_those_of_utc(site: Site, shop: Shop) -> None:
    today = datetime.now(UTC).date().isoformat()
    client = site.client("uma")
    assert f"last, as {today}." in unescape(client.get(f"{HOME}/rebalance").text)
    shop.registry.store.remove_folder("epochs")
    for path in (HOME, "/evenkeel/"):
        text = unescape(client.get(path).text)
        assert f"evenkeel job bootstrap --spec words --end {today}" in text, path


def test_a_released_table_says_so(site: Site, shop: Shop) -> None:
    assert "were released" not in site.client("vic").get(HOME).text
    shop.registry.files.released.write(ReleaseRecord(time="2026-11-30T08:00:00+00:00"))
    text = unescape(site.client("vic").get(HOME).text)
    assert "The tables were released on" in text and "evenkeel adopt words" in text


def test_a_table_without_a_profile_leads_to_a_dry_run(site: Site, shop: Shop) -> None:
    assert "You may not start runs of words" in site.client("vic").get(HOME).text
    text = site.client("uma").get(HOME).text
    link = re.search(r'href="([^"]*/rebalance\?dry_run=true)"', text)
    assert link and "No profile is learned yet" in text
    assert "Start the dry run" in site.client("uma").get(link[1]).text


def test_one_epoch_is_compared_with_nothing(site: Site, shop: Shop) -> None:
    text = site.client("vic").get(f"{HOME}/compare").text
    assert "There is one epoch only" in text
    text = site.client("vic").get(f"{HOME}/compare?old=0&new=0").text
    assert "There is one epoch only" in text


def test_many_epochs_come_in_pages(site: Site, shop: Shop) -> None:
    for _ in range(30):
        another_epoch(shop)
    client, path, seen = site.client("vic"), HOME, []
    for _ in range(9):
        text = client.get(path).text
        body = text.split('aria-label="Epochs"')[1].split("</table>")[0]
        seen += [int(n) for n in re.findall(r'<th scope="row">(\d+)</th>', body)]
        link = re.search(r'href="(\?before=\d+)#epochs">Older', text)
        if link is None:
            break
        path = HOME + link[1]
    assert seen == list(range(30, -1, -1))
    assert "Newest epochs" in text


def test_a_table_of_the_teams_own_is_adopted(site: Site, shop: Shop) -> None:
    shop.registry.store.remove_folder("epochs")
    spec = yaml.safe_load(Path(shop.spec).read_text())
    state = {n: {"path": s["path"], "rows": "one"} for n, s in spec["state"].items()}
    Path(shop.spec).write_text(yaml.safe_dump({**spec, "state": state}))
    for path in (HOME, "/evenkeel/"):
        text = unescape(site.client("vic").get(path).text)
        assert "<code>evenkeel adopt words</code>" in text and "job bootstrap" not in text, path
