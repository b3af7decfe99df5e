"""Rows of runs: what a run does now, which failure is history, and how often its log is read."""

from __future__ import annotations

import re
import sqlite3
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.registry.run_folder import folder_name
from partitioning.errors import InputError
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import ERROR, HOME, ended, failed_at, run_called
from tests.support.pages.overview import lines
from tests.support.plugin_site import Site, end_runs, made_site  # noqa: F401  a fixture

pytestmark = pytest.mark.airflow


def test_a_task_that_is_tried_again_says_so_with_its_error(site: Site, broken: str) -> None:
    from airflow.utils.session import create_session

    with create_session() as session:
        run = run_called(session, broken)
        run.state, run.end_date = "running", None
        for task in run.task_instances:
            if task.task_id == "migrate":
                task.state = "up_for_retry"
    for path in ("/evenkeel/", HOME, f"{HOME}/runs/{broken}"):
        text = unescape(site.client("vic").get(path).text)
        assert "retries migrate after an error" in text and ERROR in text, path
        assert "/tasks/migrate" in text and "waits for its turn" not in text, path


def test_a_failed_run_is_history_once_a_later_mover_succeeded(site: Site, alone: None) -> None:
    from evenkeel_ui.airflow_runs.triage import pressing, recent

    def state() -> str:
        return lines(site.client("ada").get("/evenkeel/").text)["words"]

    from airflow.utils.session import create_session

    site.client("ada").post("/api/v2/dags/rebalance_words/dagRuns", json={"logical_date": None})
    end_runs()
    fine = state()
    assert fine != "failed"
    ended("roll_back_words", "failed", 365)
    assert state() == "failed"
    ended("repair_words", "success", 364, conf={"dry_run": True})
    ended("maintain_words", "success", 363)
    ended("watch_words", "success", 362, tasks={"publish": "skipped"})
    assert state() == "failed"
    ended("rebalance_words", "failed", 361)
    ended("rebalance_words", "success", 360, conf={"dry_run": False})
    assert state() == fine
    # Tonight's run goes on, and a newer rollback fails.
    ended("roll_back_words", "failed", 0.1)
    assert state() == "failed"
    with create_session() as session:
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        user = SimpleAuthManagerUser(username="ada", role="admin")
        rows = pressing(session, recent(session, user, ["words"], 1))
        assert [r.dag for r in rows if r.state == "failed"] == ["roll_back_words"]
    text = site.client("ada").get("/evenkeel/").text
    assert "since <time" in text.split('aria-label="Tables"')[1]
    ended("watch_words", "success", 0.05, tasks={"publish": "success"})
    assert state() == fine


def test_a_dry_run_of_the_same_dag_hides_no_failed_run(site: Site, alone: None) -> None:
    client = site.client("ada")
    client.post("/api/v2/dags/rebalance_words/dagRuns", json={"logical_date": None})
    end_runs()
    failed = ended("rebalance_words", "failed", 0.2)
    # More dry runs than a page lists of each DAG.
    for count in range(7):
        ended("rebalance_words", "success", 0.1 - count / 1000, conf={"dry_run": True})
        text = client.get("/evenkeel/").text
        assert lines(text)["words"] == "failed", count
        assert f"rebalance_words--{failed}" in text.split('id="pressing"')[1].split("</ul>")[0]
        text = client.get(HOME).text
        assert "The newest run failed" in text and f"rebalance_words--{failed}" in text, count
    ended("rebalance_words", "success", 0.01, conf={"dry_run": False})
    assert lines(client.get("/evenkeel/").text)["words"] != "failed"
    assert "The newest run failed" not in client.get(HOME).text


def test_a_failed_run_whose_error_is_not_shown_says_why(site: Site, alone: None) -> None:
    """A page reads only so many logs, and people without the right to logs see none."""
    client = site.client("ada")
    names = []
    for _ in range(7):
        answer = client.post("/api/v2/dags/rebalance_words/dagRuns", json={"logical_date": None})
        names.append(folder_name("rebalance_words", answer.json()["dag_run_id"]))
        failed_at(names[-1], "migrate", f"the error of {names[-1]}")

    def notes(path: str, name: str) -> list[tuple[str, str]]:
        """What each failed run of the list says, beside its result."""
        text = unescape(site.client(name).get(path).text)
        lines = re.findall(r'<li>[^<]*<strong class="badge bad">.*?</li>', text, re.S)
        assert len(lines) >= 5, text
        return [re.findall(r'<p class="(wrong|note)">(.*?)</p>', line)[0] for line in lines]

    shown = notes(HOME, "ada")
    assert [kind for kind, _ in shown] == ["wrong"] * 3 + ["note"] * (len(shown) - 3)
    assert all("the error of" in said for kind, said in shown if kind == "wrong")
    assert {said for kind, said in shown if kind == "note"} == {
        "Its error was not read for this list: open the run, or its log."
    }
    # The overview lists the newest failed run of each DAG.
    for dag in ("roll_back", "watch", "repair", "maintain", "apply", "release"):
        ended(f"{dag}_words", "failed", 0.1, tasks={"migrate": "failed"})
    said = [said for _, said in notes("/evenkeel/", "ada")]
    assert len(said) == 7 and sum("not read for this list" in each for each in said) == 2
    # A log without an error line is no secret.
    failed_at(names[-1], "migrate", " ")
    assert ("note", "Its log has no line that tells the error.") in notes(HOME, "ada")


def test_who_may_not_read_logs_is_told_so(
    site: Site, alone: None, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_ui.airflow_runs import task_error

    told = "You may not read its log, and so not its error."
    paths = ("/evenkeel/", HOME, f"{HOME}/runs/{broken}")
    for path in paths:
        assert told not in unescape(site.client("vic").get(path).text), path
    may = task_error.may
    monkeypatch.setattr(
        task_error, "may", lambda *asked: "TASK_LOGS" not in str(asked) and may(*asked)
    )
    for path in paths:
        text = unescape(site.client("vic").get(path).text)
        assert told in text and ERROR not in text, path


def test_a_log_is_read_once_for_each_try(
    site: Site,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from evenkeel_ui.airflow_runs import task_error

    read: list[int] = []
    real = task_error._read_log
    monkeypatch.setattr(
        task_error, "_read_log", lambda task: (read.append(task.try_number), real(task))[1]
    )
    task_error._LINES.clear()
    for _ in range(3):
        assert ERROR in unescape(site.client("vic").get("/evenkeel/").text)
    assert read == [1]
    failed_at(broken, "migrate", "another error of the second try")
    assert "another error" in site.client("vic").get("/evenkeel/").text
    assert read == [1, 1]


RUN_IDS = st.from_regex(
    r"(manual|scheduled)__20[0-9]{2}-0[1-9]-1[0-9]T00:00:00\+00:00", fullmatch=True
)


@given(st.one_of(RUN_IDS, st.text(min_size=1, max_size=250).filter(str.isprintable)))
def test_a_run_is_sought_among_few_and_is_among_them(run: str) -> None:
    from evenkeel_ui.airflow_runs.runs import like

    dags = ["watch_words", "rebalance_words"]
    try:
        name = folder_name("rebalance_words", run)
    except InputError:
        return
    dag, alike = like(dags, name)
    assert dag.right.value == "rebalance_words"

    def fits(other: str) -> bool:
        asked = "SELECT ? LIKE ?", (other, alike.right.value)
        return bool(sqlite3.connect(":memory:").execute(*asked).fetchone()[0])

    assert fits(run)
    if run.startswith("manual__20"):
        assert not fits(run.replace("manual", "scheduled"))
    # A folder of release 0.1.0 has the run's name alone.
    assert like(dags, "manual__2013-02-01T00-00-00-00-00") == []
