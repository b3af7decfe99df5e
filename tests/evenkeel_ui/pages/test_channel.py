"""A channel's page: what it carries, its load over windows, moves in and out, measured seconds."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from evenkeel.inspect.epoch_diff import compare
from evenkeel.inspect.status import table_status
from evenkeel.render.formatting import bytes_text, count_text, imbalance_text
from evenkeel.table import open_table
from partitioning.function.canonical import canonical_json
from partitioning.workload.metrics import channel_loads, imbalance
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.plugin_site import Site, made_site, profile, run_name  # noqa: F401  a fixture
from tests.support.worlds.shop import Shop

pytestmark = pytest.mark.airflow
HOME = "/evenkeel/tables/words"


@pytest.fixture(params=[3, 4])
def moved(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A random table with four windows and one rebalance after the second."""
    from evenkeel.pipeline import steps

    made = Shop(tmp_path)
    made.registry.store.remove_folder("runs")
    for number in range(1, 5):
        window = (f"2013-01-{number:02d}", f"2013-01-{number + 1:02d}")
        made.learn(run_name(number), replace(profile(request.param * 10 + number), window=window))
        if number == 2:
            made.plan(run_name(number), force=True, max_imbalance=1.01)
            steps.validate_plan(made.spec, run_name(number))
            made.verified(run_name(number))
            steps.publish(made.spec, run_name(number))
    for end in ("2013-01-02", "2013-01-03"):
        count = len(made.registry.current().function.channels)
        work = [{"channel": c, "rows": 1000 + c, "seconds": 0.5 + c} for c in range(count)]
        made.registry.store.write(f"windows/{end}.json", canonical_json({"channels": work}))
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    return made


def table(text: str, label: str) -> list[list[str]]:
    """The cells of the body of the table in the region of that name."""
    body = text.split(f'aria-label="{label}"')[-1].split("<tbody>")[1].split("</tbody>")[0]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", r, re.S) for r in body.split("<tr>")[1:]]
    return [[unescape(re.sub("<[^>]*>", "", cell)) for cell in row] for row in rows]


def test_its_figures_are_those_of_the_files(site: Site, moved: Shop) -> None:
    now = table_status(open_table(moved.spec))
    assert now.epoch and now.learned and now.shares and now.loads is not None
    function, learned = now.epoch.function, now.learned.profile
    registry = moved.registry
    before, after = registry.epoch(0).function, registry.epoch(1).function
    moves = compare(registry, 0, 1, learned).moves
    for number in range(len(function.channels)):
        text = site.client("vic").get(f"{HOME}/channels/{number}?every=true").text
        assert f"{imbalance_text(now.shares[number])}x fair share" in text
        parts = table(text, "Keys and slots")
        kinds = [row[1] for row in parts]
        assert kinds.count("slot") == int((function.slots == number).sum())
        keys = function.lookup_hashes(learned.heavy) == number
        named = {row[0]: row for row in parts if row[1] != "slot"}
        wanted = np.array(learned.heavy_names)[keys]
        assert {*named} == {*wanted}
        for at in np.flatnonzero(keys):
            row = named[learned.heavy_names[at]]
            told = count_text(learned.heavy_load[at]), bytes_text(learned.heavy_bytes[at])
            assert tuple(row[2:4]) == told
            pinned = np.isin(learned.heavy[at], function.explicit_keys)
            assert row[1] == ("pinned key" if pinned else "key, by its slot")
        # Windows come newest first, each on the epoch that was current when it was learned.
        windows = table(text, "Load over windows")
        assert [row[0][-10:] for row in windows] == [f"2013-01-0{d}" for d in (5, 4, 3, 2)]
        assert [row[3] for row in windows] == ["1", "1", "0", "0"]
        for row, run in zip(windows, (4, 3, 2, 1), strict=True):
            own = before if run < 3 else after
            seen = moved.registry.run(run_name(run))
            profiled = type(learned).from_bytes(seen.read("profile.npz"), "test")
            loads = channel_loads(own, profiled)
            share = loads[number] / (own.capacities[number] / own.capacities.sum() * loads.sum())
            assert row[1:3] == [
                imbalance_text(share), imbalance_text(imbalance(loads, own.capacities)),
            ]  # fmt: skip
        ours = [m for m in moves if number in (m.source, m.target)]
        shown = table(text, "Moves") if ours else []
        assert len(shown) == len(ours)
        assert sum(row[1] == "in" for row in shown) == sum(m.target == number for m in ours)
        assert table(text, "Measured seconds") == [
            [end, f"{1000 + number:,}", f"{0.5 + number:.1f}\u00a0s"]
            for end in ("2013-01-03", "2013-01-02")
        ]


def test_windows_and_seconds_sort(site: Site, moved: Shop) -> None:
    client = site.client("vic")
    for name, columns, label in (
        ("windows", ("window", "share", "imbalance", "epoch"), "Load over windows"),
        ("seconds", ("window", "rows", "seconds"), "Measured seconds"),
    ):
        for at, column in enumerate(columns):
            both = [
                [row[at] for row in table(client.get(f"{HOME}/channels/1?{name}={o}").text, label)]
                for o in (column, f"-{column}")
            ]
            assert both[0] == sorted(both[0]) and both[1] == sorted(both[1], reverse=True), column
    for at, column in enumerate(("window", "imbalance", "epoch")):
        text = client.get(f"{HOME}?past={column}").text
        shown = [row[at] for row in table(text, "Load over time")]
        assert len(shown) == 4 and shown == sorted(shown)
        assert '<details id="past" open>' in text


def test_bars_and_names_lead_to_it(site: Site, moved: Shop) -> None:
    text = site.client("vic").get(HOME).text
    for number in range(len(moved.registry.current().function.channels)):
        page = f"{HOME}/channels/{number}"
        assert re.search(rf'<a href="{page}" aria-label="channel [^"]*of the mean\)"><path', text)
        assert f'<th scope="row"><a href="{page}">' in text
        assert site.client("vic").get(page).status_code == 200
    assert "vega.github.io" not in text
    assert [row[2] for row in table(text, "Load over time")] == ["1", "1", "0", "0"]
    # A new epoch is marked where it came.
    assert ">epoch 1</text>" in text.split('id="windows"')[1].split("</svg>")[0]


def test_a_channel_that_is_not_there_is_told(site: Site, moved: Shop) -> None:
    client = site.client("vic")
    for number in ("99", "-1", "many"):
        assert client.get(f"{HOME}/channels/{number}").status_code == 404
    assert "There is no channel 99 of words" in client.get(f"{HOME}/channels/99").text
    moved.registry.run(run_name(4)).write("profile.npz", b"torn")
    text = client.get(f"{HOME}/channels/0").text
    assert "profile.npz" in text and "Moves in and out" in text


def test_a_channel_without_a_profile_or_a_window_says_so(site: Site, moved: Shop) -> None:
    for folder in ("runs", "windows", "epochs/00000001"):
        moved.registry.store.remove_folder(folder)
    text = site.client("vic").get(f"{HOME}/channels/0").text
    assert "No profile is learned yet" in text and "No window was folded" in text
