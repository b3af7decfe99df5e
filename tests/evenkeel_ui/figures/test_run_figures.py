"""Pages of runs of random tables, of every shape: every figure is that of files or of Airflow."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import numpy as np
import pytest

from evenkeel.pipeline import steps
from evenkeel.render.formatting import (
    bytes_text,
    count_text,
    imbalance_text,
    observed_text,
    seconds_text,
)
from evenkeel.spec.loading import load_spec
from partitioning.planning.rejected_moves import rejected
from tests.evenkeel_ui.figures.conftest import Pages
from tests.support.pages.run_files import Files, moves_of, names_of, of_plan, plain
from tests.support.pages.whole_runs import KINDS
from tests.support.plugin_site import end_runs, run_name

pytestmark = pytest.mark.airflow


def test_the_run_and_its_report_and_its_json(made: Pages) -> None:
    files = made.files
    path, plan = f"/runs/{files.run}", files.plan
    run, report = made.seen(f"{path}?every=true"), made.seen(f"{path}/report")
    for seen in (run, report):
        assert {k: seen.named[k] for k in of_plan(plan)} == of_plan(plan)
    moves = moves_of(plan, files.names)
    assert run.tables["Moves"] == moves
    listed = [
        (r["What"], *r["From → to"].split(" → "), r["Load"], r["State"])
        for r in report.tables["moves"]
    ]
    wanted = [tuple(m[k] for k in ("What", "From", "To", "Load", "State")) for m in moves]
    assert len(listed) == min(200, len(wanted)) and {*listed} <= {*wanted}
    told = made.site.client("vic").get(f"{made.home}{path}/figures.json").json()
    kept = migrated(files)
    predicted = files.registry.run(files.run).prediction(plan.digest).read()
    figures = told["figures"]
    assert told["plan"] == plan.digest == files.epoch.plan_digest
    assert figures["rows"]["measured"] == kept["rows"]
    assert figures["bytes_written"] == {"predicted": predicted.written, "measured": kept["bytes"]}
    assert figures["files"] == {"predicted": predicted.files, "measured": kept["files"]}
    assert figures["commits"] == {
        "predicted": predicted.commits,
        "measured": kept["commits"],
    }
    assert figures["seconds"] == {
        "predicted": predicted.seconds,
        "measured": pytest.approx(kept["elapsed"]),
    }
    for seen in (run, report):
        for row in seen.tables["price"]:
            ((kind, text),) = [k for title, k in KINDS.items() if row["What"].startswith(title)][:1]
            both = (plain(text(figures[kind][when])) for when in ("predicted", "measured"))
            assert (row["Predicted"], row["Measured"]) == tuple(both), row


def migrated(files: Files) -> dict[str, float]:
    """What moving all state tables has cost."""
    tables = json.loads(files.registry.run(files.run).read("migration.json"))["tables"].values()
    assert len(tables) == len(files.epoch.tables)
    found = {name: sum(t[name] for t in tables) for name in ("rows", "bytes", "files", "elapsed")}
    return {**found, "commits": sum(len(t["commits"]) for t in tables)}


def test_what_a_run_rejected(made: Pages) -> None:
    files = made.files
    seen = made.seen(f"/runs/{files.run}").tables.get("Rejected moves", [])
    assert seen == [
        {
            "What": plain(r.name),
            "On": files.names[r.source],
            "Not to": files.names[r.target],
            "Load": count_text(r.load),
            "State": plain(bytes_text(r.bytes)),
            "Because": plain(r.reason),
        }
        for r in rejected(files.plan, files.profile)
    ]
    # They stay where the epoch has them.
    function, moved = files.epoch.function, {plain(m.name) for m in files.plan.moves}
    for row in seen:
        assert row["What"] not in moved
        if row["What"].startswith("slot "):
            slot = int(row["What"].removeprefix("slot "))
            assert function.channels[function.slots[slot]].name == row["On"]


def test_the_reports_channels_and_state(made: Pages) -> None:
    files = made.files
    plan, report = files.plan, made.seen(f"/runs/{files.run}/report")
    own = [c.capacity for c in plan.function.channels]
    own += [0.0] * (len(plan.loads_before) - len(own))
    fair = [w / sum(own) * sum(plan.loads_after) for w in own]

    def count(channel: int, way: str) -> str:
        return str(sum(getattr(m, way) == channel for m in plan.moves) or "")

    assert report.tables[""] == [
        {
            "Channel": name,
            "Capacity": f"{own[i]:g}",
            "Load before": count_text(plan.loads_before[i]),
            "after": count_text(plan.loads_after[i]),
            "Share": imbalance_text(plan.loads_after[i] / fair[i]) if own[i] else "closed",
            "Moved out": count(i, "source"),
            "Moved in": count(i, "target"),
        }
        for i, name in enumerate(files.names)
    ]
    tables = json.loads(files.registry.run(files.run).read("migration.json"))["tables"]
    assert report.tables["State"] == [
        {
            "Table": name,
            "Measured at": f"v{plan.tables[name]}",
            "Before": f"v{t['before']}",
            "After": f"v{t['after']}",
            "Rows moved": count_text(t["rows"]),
            "Bytes written": plain(bytes_text(t["bytes"])),
            "Took": plain(seconds_text(t["seconds"])),
        }
        for name, t in sorted(tables.items())
    ]


def test_the_quality(made: Pages) -> None:
    files = made.files
    seen = made.seen(f"/quality?run={files.run}")
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


def test_both_previews_are_what_a_run_would_plan(made: Pages) -> None:
    files = made.files
    name, splits = run_name(28), load_spec(made.shop.spec).split is not None
    (made.shop.learn_row if splits else made.shop.learn)(name, files.profile)
    try:
        made.shop.plan(name, force=True, max_imbalance=1.001)
        plan = steps.read_plan(files.registry.run(name))
        seen = made.seen("/rebalance?force=true&max_imbalance=1.001&every=true")
        assert {k: seen.named[k] for k in of_plan(plan)} == of_plan(plan)
        assert seen.tables.get("Moves", []) == moves_of(plan, names_of(plan))
        steps.plan_rollback(made.shop.spec, name, 0)
        plan = steps.read_plan(files.registry.run(name))
        seen = made.seen("/rollback?epoch=0&every=true")
        assert {k: seen.named[k] for k in of_plan(plan)} == of_plan(plan)
        assert seen.tables["Moves"] == moves_of(plan, names_of(plan))
    finally:
        files.registry.store.remove_folder(f"runs/{name}")
    for row in seen.tables["Epochs"]:
        number, then = int(row["Epoch"]), "–"
        if number:
            kept = files.registry.archive(number).plan.read()
            then = imbalance_text(kept.imbalance_after)
        assert row["Imbalance then"] == then, row
        assert row["Channels"] == str(len(files.registry.epoch(number).function.channels))


def timed(dag: str, rng: np.random.Generator) -> None:
    """Let each run of the DAG have begun, and have ended if it has, after random seconds."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        for run in session.query(DagRun).filter(DagRun.dag_id == dag):
            going = str(run.state) not in ("success", "failed")
            run.start_date = datetime.now(UTC) - timedelta(minutes=65 if going else 300)
            seconds = float(rng.uniform(0.1, 9000))
            run.end_date = None if going else run.start_date + timedelta(seconds=seconds)


def test_runs_are_those_of_airflows_api(made: Pages) -> None:
    site = made.site
    client, dag = site.client("ada"), "rebalance_words"
    for state in ("success", "failed"):
        answer = client.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None})
        assert answer.status_code == 200
        end_runs(state)
    client.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None})
    timed(dag, np.random.default_rng(len(made.files.plan.moves)))
    known = client.get(f"/api/v2/dags/{dag}/dagRuns").json()["dag_runs"]
    assert len(known) == 3
    text = unescape(site.client("vic").get(made.home).text).split('id="runs"')[1]
    lines = [re.sub("<[^>]*>", "", line) for line in text.split("<li>")[1:]]
    for run in known:
        (line,) = [x for x in lines if x.split("in Airflow: ")[-1].startswith(run["dag_run_id"])]
        assert line.startswith(f"{run['state']}, "), line
        assert f"by {run['triggering_user_name']})" in line
        began = datetime.fromisoformat(run["start_date"])
        assert f"({dag}, started {began:%Y-%m-%d %H:%M} UTC, " in line
        if run["end_date"] is None:
            assert re.search(r" UTC, so far 1\u00a0h \d+\u00a0min", line), line
        else:
            took = (datetime.fromisoformat(run["end_date"]) - began).total_seconds()
            assert f" UTC, took {seconds_text(took)}" in line, line
    # The overview has the newest of them.
    newest = max(known, key=lambda run: run["run_after"])
    (row,) = [r for r in made.seen("overview").tables["Tables"] if r["Table"] == "words"]
    since = datetime.fromisoformat(newest["start_date"])
    assert row["State"] == f"movingsince {since:%Y-%m-%d %H:%M} UTC (1 h ago)"
    assert newest["dag_run_id"] in unescape(client.get("/evenkeel/").text)
