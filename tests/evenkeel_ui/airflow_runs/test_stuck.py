"""What blocks a run: one answer for Start, Repair, Go on and Undo, also where files are torn."""

from __future__ import annotations

from html import unescape

import pytest

from evenkeel.inspect.half_moved import mark_moving
from evenkeel.pipeline.steps import read_plan
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import HOME, press, states
from tests.support.pages.overview import lines
from tests.support.pages.repairs import press as repair
from tests.support.plugin_site import (  # noqa: F401  a fixture
    Site,
    dag_runs,
    deny,
    end_runs,
    made_site,
    scheduler,
    token,
)
from tests.support.raw_json import write_json

pytestmark = pytest.mark.airflow


def start(site: Site) -> str:
    """Press Start; return why nothing started, or ""."""
    before = len(dag_runs("rebalance_words"))
    data = {"csrf": token("uma"), "dry_run": "true"}
    answer = site.client("uma").post(f"{HOME}/rebalance", data=data)
    assert answer.status_code in (409, 303)
    assert len(dag_runs("rebalance_words")) == before + (answer.status_code == 303)
    return unescape(answer.text)


def test_a_torn_record_of_a_migration_blocks_start_and_is_told(site: Site, broken: str) -> None:
    site.registry.run(broken).write("migration.json", b"{")
    assert "Nobody knows whether the table is half moved" in start(site)
    text = unescape(site.client("uma").get(f"{HOME}/rebalance").text)
    assert "Nobody knows whether the table is half moved" in text and "migration.json" in text
    # Its run failed, so the table has failed; once that is history, it is still not fine.
    assert lines(site.client("uma").get("/evenkeel/").text)["words"] == "failed"
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagRun).values(state="success"))
    assert lines(site.client("uma").get("/evenkeel/").text)["words"] == "cannot be read"


def test_a_torn_mark_of_rolling_back_stops_both_ways(site: Site, broken: str) -> None:
    folder = site.registry.run(broken)
    mark_moving(site.registry, folder)
    folder.write("rolled_back.json", b"{")
    try:
        for path in ("/evenkeel/", HOME, f"{HOME}/runs/{broken}"):
            text = unescape(site.client("uma").get(path).text)
            assert "words is half moved" in text and "rolled_back.json" in text, path
            assert 'value="undo" class="stop" disabled aria-describedby="not-now-' in text
        for decision in ("go_on", "undo"):
            answer = press(site, "uma", broken, decision)
            assert answer.status_code == 409 and "rolled_back.json" in answer.text
        assert "half moved" in start(site)
    finally:
        site.registry.store.remove_folder("moving")


@pytest.mark.parametrize("mover", ["repair_words", "roll_back_words", "watch_words"])
def test_a_half_moved_run_waits_for_every_other_mover(
    site: Site,
    broken: str,
    mover: str,
) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        known = session.query(DagRun).filter(DagRun.dag_id == "rebalance_words").first()
        run = DagRun(dag_id=mover, run_id="other", run_type="manual", run_after=known.run_after)
        run.state = "running"
        session.add(run)
    try:
        for decision in ("go_on", "undo"):
            answer = press(site, "uma", broken, decision)
            assert answer.status_code == 409, decision
            assert f"Run {mover}--other is under way" in answer.text
        assert states(broken)[""] == "failed"
        assert repair(site, "uma").status_code == 409
        site.registry.run(broken).remove("migration.json")
        assert f"Run {mover}--other is under way" in start(site)
    finally:
        with create_session() as session:
            session.query(DagRun).filter(DagRun.run_id == "other").delete()


def test_a_run_of_a_teams_own_dag_is_left_to_go_on(site: Site, broken: str) -> None:
    """A task group in a DAG of any name moves state, too."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    folder, own = site.registry.run(broken), site.registry.run("nightly--first")
    record = folder.read("migration.json")
    folder.remove("migration.json")
    own.write("plan.json", folder.read("plan.json"))
    own.write("migration.json", record)
    mark_moving(site.registry, own)
    try:
        told = unescape(site.client("uma").get(HOME).text)
        assert "No DAG of this table has this run" in told
        with create_session() as session:
            known = session.query(DagRun).filter(DagRun.dag_id == "rebalance_words").first()
            run = DagRun(
                dag_id="nightly", run_id="first", run_type="manual", run_after=known.run_after
            )
            run.state = "running"
            session.add(run)
        assert "half moved" not in unescape(site.client("uma").get(HOME).text)
        answer = repair(site, "uma")
        assert answer.status_code == 409 and "nightly--first is under way" in answer.text
    finally:
        with create_session() as session:
            session.query(DagRun).filter(DagRun.dag_id == "nightly").delete()
        site.registry.store.remove_folder("moving")
        site.registry.store.remove_folder(f"runs/{own.name}")


def test_without_a_scheduler_nothing_goes_on(site: Site, broken: str) -> None:
    scheduler(alive=False)
    try:
        answer = press(site, "uma", broken, "undo")
        assert answer.status_code == 409 and "scheduler" in answer.text
    finally:
        scheduler(alive=True)
    assert press(site, "uma", broken, "undo").status_code == 303


def test_who_may_not_read_rollbacks_reads_no_name_of_one(
    site: Site,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, back = site.registry.run(broken), site.registry.run("roll_back_words--secret")
    plan = read_plan(folder)
    folder.remove("migration.json")
    write_json(back, "params.json", {"to_epoch": 0})
    record = {"digest": plan.digest, "epoch": plan.function.epoch, "tables": {}}
    write_json(back, "migration.json", record)
    mark_moving(site.registry, back)
    try:
        assert "roll_back_words--secret" in start(site)
        deny(monkeypatch, "roll_back_words")
        told = start(site)
        assert "half moved by a run that you may not read" in told
        for path in ("/evenkeel/", HOME, f"{HOME}/rebalance"):
            text = site.client("uma").get(path).text
            assert "half moved" in text and "secret" not in text, path
    finally:
        site.registry.store.remove_folder("moving")
        site.registry.store.remove_folder(f"runs/{back.name}")
