"""Ten pages of random tables: every figure is the one of the files, and of Airflow's API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape

import numpy as np
import pytest

from evenkeel.pipeline import steps
from evenkeel.render.formatting import (
    bytes_text,
    count_text,
    imbalance_text,
    observed_text,
    percent_text,
)
from partitioning.planning.plan import Plan
from partitioning.workload.metrics import imbalance
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.page_facts import Facts, facts
from tests.support.pages.run_files import Files
from tests.support.pages.whole_runs import KINDS, whole_run
from tests.support.plugin_site import (  # noqa: F401  a fixture
    Site,
    end_runs,
    forget_runs,
    made_site,
    run_name,
)

pytestmark = pytest.mark.airflow
HOME = "/evenkeel/tables/words"


@pytest.fixture(scope="module", params=[13, 14])
def made(site: Site, request: pytest.FixtureRequest) -> Iterator[tuple[Site, Files]]:
    """A random table: its keys, its loads, and what its newest migration cost."""
    forget_runs()
    name = whole_run(site, request.param, request.param)
    registry, run = site.registry, site.registry.run(name)
    found = Files(registry, name, registry.current(), steps.read_plan(run), run.profile.read())
    yield site, found
    forget_runs()


def page(site: Site, path: str) -> Facts:
    answer = site.client("vic").get(f"{HOME}{path}" if path != "overview" else "/evenkeel/")
    assert answer.status_code == 200, answer.text
    return facts(answer.text)


def plain(text: str) -> str:
    """As a page says it, with single spaces."""
    return " ".join(text.split())


def of_plan(plan: Plan) -> dict[str, str]:
    """The figures of a plan, by the names that every page gives them."""
    return {
        "imbalance before": imbalance_text(plan.imbalance_before),
        "imbalance after": imbalance_text(plan.imbalance_after),
        "floor": imbalance_text(plan.floor),
        "hashing alone": imbalance_text(plan.imbalance_hashing),
        "state to move": plain(bytes_text(plan.bytes)),
        "moves": f"{len(plan.moves):,}",
    }


def moves_of(plan: Plan) -> list[dict[str, str]]:
    names = [c.name for c in plan.function.channels]
    return [
        {
            "No.": str(number),
            "What": plain(move.name),
            "From": names[move.source],
            "To": names[move.target],
            "Load": count_text(move.load),
            "State": plain(bytes_text(move.bytes)),
            "Because": plain(move.reason),
        }
        for number, move in enumerate(plan.moves, 1)
    ]


def test_the_overview(made: tuple[Site, Files]) -> None:
    site, files = made
    (row,) = [r for r in page(site, "overview").tables["Tables"] if r["Table"] == "words"]
    function = files.epoch.function
    told = imbalance_text(imbalance(files.loads, function.capacities))
    hottest = f"{function.channels[files.hottest].name}, {told}x fair share"
    assert row["Imbalance"] == told == imbalance_text(files.plan.imbalance_after)
    assert row["Hottest channel"] == hottest
    assert row["Epoch"] == str(files.epoch.number) and row["Trigger"] == "1.1"
    assert row["Floor"] == imbalance_text(files.plan.floor)
    assert row["Planned then"] == plain(bytes_text(files.plan.bytes))
    assert row["State size"] == plain(bytes_text(float(files.profile.bytes.sum())))
    assert row["Last rebalance"] == f"{files.epoch.published[:16].replace('T', ' ')} UTC"
    # The shop writes no page of table checks; the job verify does.
    assert row["Checks"] == "Plan checks passed"


def test_the_table(made: tuple[Site, Files]) -> None:
    site, files = made
    seen, function = page(site, "?every=true"), files.epoch.function
    assert seen.named == {
        "imbalance now": imbalance_text(imbalance(files.loads, function.capacities)),
        "trigger": "1.1",
        "floor": imbalance_text(files.plan.floor),
        "state": plain(bytes_text(float(files.profile.bytes.sum()))),
        "channels": str(len(function.channels)),
    }
    slots = np.bincount(function.slots, minlength=len(function.channels))
    keys = np.bincount(function.explicit_channels, minlength=len(function.channels))
    assert sorted(seen.tables["Channels"], key=lambda row: row["Channel"]) == [
        {
            "Channel": channel.name,
            "x fair share": imbalance_text(files.shares[i]),
            "Load": count_text(files.loads[i]),
            "Capacity": f"{channel.capacity:g}",
            "Slots": f"{slots[i]:,}",
            "Pinned keys": f"{keys[i]:,}",
        }
        for i, channel in enumerate(function.channels)
    ]
    profile = files.profile
    shares = profile.heavy_load / profile.load.sum()
    wanted = {
        plain(name): (plain(percent_text(shares[i])), plain(bytes_text(profile.heavy_bytes[i])))
        for i, name in enumerate(profile.heavy_names)
    }
    told = {r["Key"]: (r["Share of load"], r["State"]) for r in seen.tables["Heavy keys"]}
    assert told == wanted
    assert len(seen.tables["Epochs"]) == files.epoch.number + 1
    for row in seen.tables["Epochs"][:-1]:
        plan = files.registry.archive(int(row["Epoch"])).plan.read()
        shown = {
            "imbalance before": row["Before"],
            "imbalance after": row["After"],
            "floor": row["Floor"],
            "hashing alone": row["Hashing alone"],
            "state to move": row["Planned then"],
            "moves": row["Moves"],
        }
        assert shown == of_plan(plan), row["Epoch"]
        assert row["Strategy"] == plan.function.strategy


def test_the_run_and_its_report_and_its_json(made: tuple[Site, Files]) -> None:
    site, files = made
    path, plan = f"/runs/{files.run}", files.plan
    run, report = page(site, f"{path}?every=true"), page(site, f"{path}/report")
    for seen in (run, report):
        assert {k: seen.named[k] for k in of_plan(plan)} == of_plan(plan)
    assert run.tables["Moves"] == moves_of(plan)
    listed = [
        (r["What"], *r["From → to"].split(" → "), r["Load"], r["State"])
        for r in report.tables["moves"]
    ]
    wanted = [tuple(m[k] for k in ("What", "From", "To", "Load", "State")) for m in moves_of(plan)]
    assert len(listed) == min(200, len(wanted)) and {*listed} <= {*wanted}
    told = site.client("vic").get(f"{HOME}{path}/figures.json").json()
    kept = json.loads(files.registry.run(files.run).read("migration.json"))["tables"]["counts"]
    predicted = files.registry.run(files.run).prediction(plan.digest).read()
    figures = told["figures"]
    assert told["plan"] == plan.digest == files.epoch.plan_digest
    assert figures["rows"]["measured"] == kept["rows"]
    assert figures["bytes_written"] == {"predicted": predicted.written, "measured": kept["bytes"]}
    assert figures["files"] == {"predicted": predicted.files, "measured": kept["files"]}
    assert figures["commits"] == {
        "predicted": predicted.commits,
        "measured": len(kept["commits"]),
    }
    assert figures["seconds"] == {"predicted": predicted.seconds, "measured": kept["elapsed"]}
    for seen in (run, report):
        for row in seen.tables["price"]:
            ((kind, text),) = [k for title, k in KINDS.items() if row["What"].startswith(title)][:1]
            both = (plain(text(figures[kind][when])) for when in ("predicted", "measured"))
            assert (row["Predicted"], row["Measured"]) == tuple(both), row


def test_the_channel(made: tuple[Site, Files]) -> None:
    site, files = made
    for number, channel in enumerate(files.epoch.function.channels):
        seen = page(site, f"/channels/{number}?every=true")
        assert seen.named["load"] == f"{imbalance_text(files.shares[number])}x fair share"
        assert seen.named["capacity"] == f"{channel.capacity:g}"
        came = [m for m in files.plan.moves if number in (m.source, m.target)]
        rows = [r for r in seen.tables.get("Moves", []) if r["Epoch"] == str(files.epoch.number)]
        assert sorted((r["What"], r["In or out"]) for r in rows) == sorted(
            (plain(m.name), "in" if m.target == number else "out") for m in came
        )


def test_the_comparison(made: tuple[Site, Files]) -> None:
    site, files = made
    ours = {(m["What"], m["From"], m["To"], m["Load"], m["State"]) for m in moves_of(files.plan)}
    # Whatever was learned since, the figures are those of the plan.
    later = site.learned(28)
    try:
        seen = page(site, "/compare?every=true").tables["What moved"]
        told = {(m["What"], m["From"], m["To"], m["Load"], m["State"]) for m in seen}
        assert told == ours
        text = plain(site.client("vic").get(f"{HOME}/compare").text)
        assert f"{plain(bytes_text(files.plan.bytes))} of state by the weights of its plan" in text
    finally:
        site.registry.store.remove_folder(f"runs/{later}")
    old = files.registry.epoch(0).function
    new = files.epoch.function
    seen = page(site, f"/compare?old=0&new={files.epoch.number}&every=true").tables["What moved"]
    slots = np.flatnonzero(old.slots != new.slots)
    assert {r["What"] for r in seen if r["What"].startswith("slot ")} == {
        f"slot {s}" for s in slots
    }


def test_the_quality(made: tuple[Site, Files]) -> None:
    site, files = made
    seen = page(site, f"/quality?run={files.run}")
    for name, label in (("gate_plan.json", "Plan checks"), ("gate_tables.json", "Table checks")):
        gate = json.loads(files.registry.run(files.run).read(name))
        told = sorted(
            (r["What"], "✓" in r["Verdict"], r["Expected"], r["Observed"].split(" fail")[0])
            for r in seen.tables.get(label, [])
        )
        assert told == sorted(
            (
                plain(f"{r['what']} {r.get('detail') or ''}"),
                r["success"],
                plain(r["expected"]),
                plain(observed_text(r["observed"])),
            )
            for r in gate["results"]
        )
        # The newest epoch's column of the history holds the same figures.
        column = f"epoch {files.epoch.number}"
        history = {r["What"]: r[column] for r in seen.tables["Expectations over epochs"]}
        for r in gate["results"]:
            (shown,) = [
                history[what]
                for what in history
                if what.startswith(plain(r["what"])) and what.endswith(label)
            ]
            assert shown.startswith(plain(observed_text(r["observed"])))


def test_both_previews_are_what_a_run_would_plan(made: tuple[Site, Files]) -> None:
    site, files = made
    name = run_name(28)
    site.shop.learn(name, files.profile)
    try:
        site.shop.plan(name, force=True, max_imbalance=1.001)
        plan = steps.read_plan(site.registry.run(name))
        seen = page(site, "/rebalance?force=true&max_imbalance=1.001&every=true")
        assert {k: seen.named[k] for k in of_plan(plan)} == of_plan(plan)
        assert seen.tables.get("Moves", []) == moves_of(plan)
        steps.plan_rollback(site.shop.spec, name, 0)
        plan = steps.read_plan(site.registry.run(name))
        seen = page(site, "/rollback?epoch=0&every=true")
        assert {k: seen.named[k] for k in of_plan(plan)} == of_plan(plan)
        assert seen.tables["Moves"] == moves_of(plan)
    finally:
        site.registry.store.remove_folder(f"runs/{name}")


def test_runs_are_those_of_airflows_api(made: tuple[Site, Files]) -> None:
    site, _ = made
    client, dag = site.client("ada"), "rebalance_words"
    for state in ("success", "failed"):
        answer = client.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None})
        assert answer.status_code == 200
        end_runs(state)
    client.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None})
    known = client.get(f"/api/v2/dags/{dag}/dagRuns").json()["dag_runs"]
    assert len(known) == 3
    text = unescape(site.client("vic").get(HOME).text).split('id="runs"')[1]
    lines = [re.sub("<[^>]*>", "", line) for line in text.split("<li>")[1:]]
    for run in known:
        (line,) = [x for x in lines if x.split("in Airflow: ")[-1].startswith(run["dag_run_id"])]
        assert line.startswith(f"{run['state']}, "), line
        assert f"by {run['triggering_user_name']})" in line
    # The overview has the newest of them.
    newest = max(known, key=lambda run: run["run_after"])
    row = page(site, "overview")
    assert [r["State"] for r in row.tables["Tables"] if r["Table"] == "words"] == ["moving"]
    assert newest["dag_run_id"] in unescape(client.get("/evenkeel/").text)
