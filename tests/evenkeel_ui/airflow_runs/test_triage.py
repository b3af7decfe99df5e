"""Runs that went wrong: seen on every page, told why, stopped, gone on with, undone."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evenkeel.inspect.half_moved import half_moved
from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.profiles import run_names
from partitioning.errors import InputError
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import (
    DONE,
    ERROR,
    HOME,
    PLANNED,
    SO_FAR,
    failed_at,
    press,
    run_called,
    states,
    undo_failed,
)
from tests.support.plugin_site import Site, end_runs, made_site, scheduler, start, token  # noqa: F401  a fixture
from tests.support.raw_json import write_json

if TYPE_CHECKING:
    pass


pytestmark = pytest.mark.airflow


def test_a_half_moved_table_is_told_on_every_page(site: Site, broken: str) -> None:
    half = half_moved(site.registry, run_names(site.registry))
    assert half and half.progress and half.run == broken
    assert (half.progress.rows, half.progress.planned) == (DONE, PLANNED)
    for path in ("/evenkeel/", HOME, f"{HOME}/runs/{broken}"):
        text = site.client("uma").get(path).text
        assert "words is half moved" in text and SO_FAR in text, path
        assert "Writers of both epochs are admitted" in text
        assert 'value="go_on"' in text and 'value="undo"' in text
        assert "is moving from" not in text
        # Who may only look sees it as well, and no button.
        text = site.client("vic").get(path).text
        assert "words is half moved" in text and 'value="undo"' not in text


def test_a_run_that_failed_is_told_with_its_error_and_its_log(site: Site, broken: str) -> None:
    client = site.client("vic")
    overview = client.get("/evenkeel/").text.split('id="pressing"')[1].split("</section>")[0]
    assert "failed at migrate" in overview and f"/runs/{broken}" in overview
    for path in (HOME, f"{HOME}/runs/{broken}"):
        text = unescape(client.get(path).text)
        assert ERROR in text and "failed at migrate" in text, path
        assert "/dags/rebalance_words/runs/manual__" in text and "/tasks/migrate" in text


def test_a_run_that_release_0_1_0_began_has_its_page_and_goes_on(site: Site, broken: str) -> None:
    """Its folder is named by the run's id alone; links name it by the DAG, too."""
    folders, old = Path(site.registry.url) / "runs", broken.split("--", 1)[1]
    (folders / broken).rename(folders / old)
    try:
        for name in (broken, old):
            text = site.client("uma").get(f"{HOME}/runs/{name}").text
            assert "words is half moved" in text and 'value="undo"' in text
        assert press(site, "uma", old, "undo").status_code == 303
        assert states(broken)["migrate"] == "failed"
    finally:
        (folders / old).rename(folders / broken)


def test_the_error_that_the_job_left_is_told(site: Site, broken: str) -> None:
    from airflow.utils.session import create_session

    from evenkeel.registry.job_error import leave_error

    with create_session() as session:
        tasks = {t.task_id: str(t.id) for t in run_called(session, broken).task_instances}
    left = "from the file that the job left"
    for job, attempt, seen in (
        ("migrate", tasks["migrate"], True),
        ("migrate", "an earlier try", False),
        ("roll_back", tasks["roll_back"], False),
    ):
        leave_error(site.registry, job, broken, attempt, InputError(left))
        for path in (HOME, f"{HOME}/runs/{broken}"):
            text = unescape(site.client("vic").get(path).text)
            assert (left in text) == seen, (job, path)
        # The page of the table shows older runs, too.
        assert (ERROR in text) != seen, job


def test_an_undo_that_failed_is_told_with_its_own_error_and_log(
    site: Site, alone: None, broken: str
) -> None:
    told = undo_failed(site, broken)
    for path in ("/evenkeel/", HOME, f"{HOME}/runs/{broken}"):
        text = unescape(site.client("vic").get(path).text)
        assert "failed at migrate, and rolling back failed" in text, path
        assert told in text and ERROR not in text, path
        assert "/tasks/roll_back" in text and "/tasks/migrate" in text, path


def test_an_undo_that_is_tried_again_shows_its_own_error(
    site: Site, alone: None, broken: str
) -> None:
    told = undo_failed(site, broken, "up_for_retry")
    for path in ("/evenkeel/", HOME, f"{HOME}/runs/{broken}"):
        text = unescape(site.client("vic").get(path).text)
        assert "retries roll_back after an error" in text, path
        assert told in text and "/tasks/roll_back" in text, path
    end_runs()


def test_an_error_line_of_blanks_breaks_no_page(site: Site, broken: str) -> None:
    failed_at(broken, "migrate", "  ")
    for path in (HOME, f"{HOME}/runs/{broken}"):
        answer = site.client("vic").get(path)
        assert answer.status_code == 200, path
        assert "failed at migrate" in unescape(answer.text), path


def test_nothing_starts_that_cannot_work(site: Site, broken: str) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    def seen(stale: bool) -> None:
        with create_session() as session:
            for dag in ("rebalance_words", "roll_back_words"):
                session.get(DagModel, dag).is_stale = stale

    client = site.client("uma")
    folder = site.registry.run(broken)

    def refused(why: str) -> None:
        for path, asked in (("rebalance", {}), ("rollback", {"epoch": "0"})):
            text = client.get(f"{HOME}/{path}", params=asked).text
            assert "No run can start now" in text and why in text, (path, why)
            assert 'disabled aria-describedby="not-now"' in text
            data = {**asked, "csrf": token("uma"), "sure": "yes"}
            if path == "rebalance":
                del data["sure"]
            answer = client.post(f"{HOME}/{path}", data=data)
            assert answer.status_code == 409 and why in answer.text

    refused(f"half moved by run {broken}")
    folder.remove("migration.json")
    assert "No run can start now" not in client.get(f"{HOME}/rebalance").text
    scheduler(alive=False)
    try:
        refused("scheduler does not run")
        for path in ("/evenkeel/", HOME):
            text = client.get(path).text
            assert "Airflow's scheduler does not run</strong>: no run starts" in text, path
    finally:
        scheduler(alive=True)
    seen(stale=True)
    try:
        refused("does not know the DAG")
    finally:
        seen(stale=False)
    name = start(client, f"{HOME}/rebalance", {}).headers["location"].rsplit("/", 1)[1]
    refused(f"Run {name} is under way")


def test_a_run_is_stopped_gone_on_with_and_undone(site: Site, broken: str) -> None:
    folder = site.registry.run(broken)
    for decision in ("stop", "go_on", "undo"):
        assert press(site, "vic", broken, decision).status_code == 403
    assert press(site, "uma", broken, "stop").status_code == 409
    assert press(site, "uma", broken, "undo").status_code == 303
    now = states(broken)
    assert now[""] == "queued" and (now["roll_back"], now["report"]) == (None, None)
    assert now["migrate"] == "failed"
    # It is under way: no alarm, and nothing to press but to stop it.
    text = site.client("uma").get(f"{HOME}/runs/{broken}").text
    assert "is half moved" not in text and "Stop this run" in text
    assert press(site, "uma", broken, "undo").status_code == 409
    assert press(site, "uma", broken, "stop").status_code == 303
    assert states(broken)[""] == "failed"
    # Once rolling back has begun, it must end first.
    digest = read_plan(folder).digest
    write_json(folder, "rolled_back.json", {"digest": digest, "done": False})
    assert press(site, "uma", broken, "go_on").status_code == 409
    assert 'value="go_on"' not in site.client("uma").get(HOME).text
    folder.remove("rolled_back.json")
    assert press(site, "uma", broken, "go_on").status_code == 303
    now = states(broken)
    assert now[""] == "queued" and now["plan"] == "success"
    assert {now[t] for t in ("migrate", "verify", "publish", "roll_back", "report")} == {None}
    press(site, "uma", broken, "stop")
    write_json(folder, "rolled_back.json", {"digest": digest, "done": True})
    assert "is half moved" not in site.client("uma").get(HOME).text
    assert press(site, "uma", broken, "undo").status_code == 409


def test_a_run_that_was_stopped_between_two_tasks_can_be_undone(site: Site, broken: str) -> None:
    from airflow.utils.session import create_session

    with create_session() as session:
        for task in run_called(session, broken).task_instances:
            task.state = "success" if task.task_id == "migrate" else "skipped"
    assert press(site, "uma", broken, "undo").status_code == 303
    # roll_back runs where one before it has failed.
    assert states(broken)["publish"] == "failed" and states(broken)["roll_back"] is None
