"""Keys on the pages: where they live and lived, who shares them, and whose nobody saw."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape

from evenkeel.pipeline import steps
from evenkeel.pipeline.steps import read_plan
from evenkeel.render.formatting import imbalance_text
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

pytestmark = pytest.mark.airflow


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
    text = site.client("vic").get("/evenkeel/tables/words?every=true").text
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
    # Its profile may know it by its hash alone, and that cannot be looked up.
    there = np.arange(len(learned.heavy)) != learned.heavy_names.index("word 1")
    fewer = {
        name: getattr(learned, name)[there]
        for name in vars(learned)
        if name.startswith("heavy") and name != "heavy_names"
    }
    fewer["heavy_names"] = tuple(n for n in learned.heavy_names if n != "word 1")
    light = replace(learned, **fewer).listing(np.array([*split], dtype=np.int64))
    shop.learn("r", light)
    rows = heavy_keys(site)
    assert f"hash {next(iter(split))}" in rows and f"key={next(iter(split))}" not in rows
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
