"""Tables on the pages sort on the server, and a sort keeps what else was asked."""

from __future__ import annotations

import re
from html import unescape

import pytest

from evenkeel.pipeline.steps import read_plan
from tests.support.airflow_env import PATH, ROOT, airflow_db  # noqa: F401  a fixture
from tests.support.pages.tables import cells, tables
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
