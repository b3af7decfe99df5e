"""Jobs that look at Airflow's other runs before they start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.support import airflow_env  # noqa: F401  it sets the environment

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.sdk import DAG

from evenkeel.inspect.half_moved import mark_moving
from evenkeel.pipeline import approval, steps
from evenkeel.registry.files.run_files import RunFiles
from evenkeel_airflow import tasks
from evenkeel_airflow.airflow_versions import AirflowFailException, AirflowSkipException
from evenkeel_airflow.operators import ApplyWindow, Approve, Learn, Repair, SparkJob, ValidatePlan
from evenkeel_airflow.operators.jobs import Migrate, PlanJob, RollBack
from tests.support.raw_json import write_json
from tests.support.worlds.shop import Shop
# isort: on

pytestmark = pytest.mark.airflow


def test_repair_waits_for_the_dag_that_moves_rows_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task group in a DAG of the team's own moves state, too."""
    ran: list[str] = []
    monkeypatch.setattr(SparkJob, "execute", lambda self, _: ran.append(self.job))
    shop, run = Shop(tmp_path), "nightly--first"
    shop.learn(run)
    folder = shop.registry.run(run)
    digest = shop.plan(run, force=True)
    write_json(folder, "migration.json", {"digest": digest, "epoch": 1, "tables": {}})
    mark_moving(shop.registry, folder)
    with DAG("repair_words"):
        task = Repair(task_id="repair", others=["rebalance_words"], arguments={"--spec": shop.spec})
    under_way = {"nightly"}
    ti = Mock(get_dr_count=lambda dag_id, states: int(dag_id in under_way))
    with pytest.raises(AirflowFailException, match="nightly is running. Let it end"):
        task.execute({"ti": ti, "params": {}})
    task.execute({"ti": ti, "params": {"dry_run": True}})
    under_way.clear()
    task.execute({"ti": ti, "params": {}})
    assert ran == ["repair", "repair"]


@dataclass(frozen=True)
class PlannedRun:
    """A run with a plan, and its jobs, which note the digest that they are given."""

    shop: Shop
    digest: str
    ran: list[str]

    @property
    def folder(self) -> RunFiles:
        return self.shop.registry.run("rebalance_words--first")

    def move(self) -> None:
        """Leave the record of a migration that has begun."""
        record = {"digest": self.digest, "epoch": 1, "tables": {}}
        write_json(self.folder, "migration.json", record)

    def execute(
        self, job: str, kind: type[PlanJob] = PlanJob, given: str = "None", **states: str | None
    ) -> None:
        """Run a task with the digest that the task plan has left, by the states of the others."""
        with DAG("rebalance_words"):
            arguments = {"--spec": self.shop.spec, "--run": "first", "--digest": given}
            task = kind(task_id=job, job=job, arguments=arguments)
        said = {"first": states or {"migrate": "failed"}}
        ti = Mock(dag_id="rebalance_words", get_task_states=lambda **_: said)
        task.execute({"ti": ti, "run_id": "first"})


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlannedRun:
    ran: list[str] = []
    monkeypatch.setattr(SparkJob, "execute", lambda self, _: ran.append(self._given()["--digest"]))
    shop, run = Shop(tmp_path), "rebalance_words--first"
    shop.learn(run)
    return PlannedRun(shop, shop.plan(run, force=True), ran)


@pytest.mark.parametrize("state", ["skipped", "upstream_failed", None])
def test_a_rollback_runs_where_rows_are_half_moved_whatever_airflow_says_of_migrate(
    planned: PlannedRun, state: str | None
) -> None:
    """A run that was stopped between two tries, or whose tasks before were cleared and failed."""

    def roll_back(given: str = "None") -> None:
        planned.execute("roll_back", RollBack, given, migrate=state, verify="failed")

    with pytest.raises(AirflowSkipException, match="nothing has moved"):
        roll_back()
    planned.move()
    roll_back()
    assert planned.ran == [planned.digest]
    planned.folder.write("migration.json", b"{")
    # The job says what is torn.
    roll_back(planned.digest)
    assert planned.ran == [planned.digest, planned.digest]
    # Nobody knows what has moved.
    Path(planned.shop.spec).unlink()
    with pytest.raises(AirflowFailException, match="cannot be read"):
        roll_back()


def test_rows_that_have_moved_go_on_though_their_plan_was_cleared_and_failed(
    planned: PlannedRun,
) -> None:
    for job in ("migrate", "verify"):
        with pytest.raises(AirflowFailException, match="Clear plan with all tasks after it"):
            planned.execute(job)
    planned.move()
    planned.execute("migrate")
    planned.execute("verify")
    planned.execute("roll_back", RollBack)
    # The job itself refuses another plan than the one that was approved.
    planned.execute("migrate", given="d1")
    assert planned.ran == [planned.digest, planned.digest, planned.digest, "d1"]


def test_a_task_that_is_marked_as_a_success_lets_no_plan_pass(planned: PlannedRun) -> None:
    """Whoever may edit tasks need not have the right to answer for a plan."""
    shop, run = planned.shop, "rebalance_words--first"

    def refused(advice: str) -> None:
        with pytest.raises(AirflowFailException, match=advice):
            planned.execute("migrate", Migrate, planned.digest)

    refused("has not looked.* Clear the task validate_plan")
    steps.validate_plan(shop.spec, run)
    refused("nobody was asked.* Clear the task approve")
    approval.record(shop.spec, run, True, "ana", "2026-01-01")
    planned.execute("migrate", Migrate, planned.digest)
    passed = planned.folder.gate_plan.read()
    planned.folder.gate_plan.write(passed.model_copy(update={"success": False}))
    refused("found that it did not.* Clear the task validate_plan")
    steps.validate_plan(shop.spec, run)
    # The gate has passed another plan than this one.
    other = shop.plan(run, force=True, max_imbalance=1.5)
    assert other != planned.digest
    refused("has not looked.* Clear the task validate_plan")
    assert shop.plan(run, force=True) == planned.digest
    # Rows that have moved go on: a move is never left half done.
    planned.move()
    planned.execute("migrate", Migrate, planned.digest)
    assert planned.ran == [planned.digest] * 2


@pytest.mark.parametrize(("given", "retries"), [({}, 2), ({"retries": 0}, 0)])
def test_an_operator_takes_the_retries_of_the_users_dag(
    given: dict[str, int], retries: int
) -> None:
    window = {"start": "2026-01-01", "end": "2026-01-02"}
    with DAG("mine", schedule=None, default_args=given) as dag:
        ApplyWindow(task_id="apply", spec="t.yaml", **window)
        ValidatePlan(task_id="validate", spec="t.yaml")
        Approve(task_id="approve", spec="t.yaml")
        ApplyWindow(task_id="own", spec="t.yaml", retries=9, **window)
    assert [task.retries for task in dag.tasks] == [retries, retries, retries, 9]


@pytest.mark.parametrize("given", [{}, {"response_timeout": timedelta(days=2)}])
def test_a_plan_waits_for_its_answer_whatever_the_time_limit_of_jobs(given: dict[str, Any]) -> None:
    with DAG("mine", schedule=None, default_args={"execution_timeout": timedelta(hours=1)}):
        task = Approve(task_id="approve", spec="t.yaml", **given)
        job = SparkJob(task_id="job", job="learn", arguments={})
    with DAG("other", schedule=None, default_args={"execution_timeout": timedelta(1), **given}):
        other = Approve(task_id="approve", spec="t.yaml")
    assert task.response_timeout == other.response_timeout == given.get("response_timeout")
    assert job.execution_timeout == timedelta(hours=1)


def test_a_plan_that_nobody_answers_in_time_fails_at_once_and_is_refused(tmp_path: Path) -> None:
    """A retry would ask again, and wait as long again. The watch would wait for the plan."""
    shop, run = Shop(tmp_path), "nightly--first"
    shop.learn(run)
    digest = shop.plan(run, force=True)
    with DAG("nightly"):
        hours = timedelta(hours=8)
        task = Approve(task_id="approve", spec=shop.spec, response_timeout=hours)
    event = {"error": "The timeout has passed", "error_type": "timeout"}
    with pytest.raises(AirflowFailException, match="nobody has answered in 8:00:00"):
        task.execute_complete({"run_id": "first"}, event)
    answer = shop.registry.run(run).approval.read()
    assert answer.refuses(digest) and answer.by == "the time limit"
    # A cleared task asks again, and the earlier answer no longer counts.
    approval.ask(shop.spec, run, digest)
    assert not shop.registry.run(run).approval.exists()


def test_a_time_limit_ends_a_run_although_it_cannot_be_noted(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with DAG("nightly"):
        task = Approve(task_id="approve", spec=shop.spec, response_timeout=timedelta(hours=8))
    shop.registry.run("nightly--first").write("plan.json", b"{")
    with pytest.raises(AirflowFailException, match="nobody has answered in 8:00:00"):
        task.execute_complete({"run_id": "first"}, {"error": "", "error_type": "timeout"})


def test_a_decide_that_was_marked_a_success_by_hand_is_named() -> None:
    with pytest.raises(AirflowFailException, match="Clear decide"):
        tasks.plan.function("t.yaml", None)


@pytest.mark.parametrize("job", ["apply", "learn"])
def test_a_text_that_is_no_day_fails_at_once(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job would end without a word to Airflow, which would try it again for an hour."""
    ran: list[str] = []
    monkeypatch.setattr(SparkJob, "execute", lambda self, _: ran.append(self.job))
    for end, good in (("2026-01-02T00:00:00+00:00", False), ("2026-01-02", True)):
        if job == "apply":
            task = ApplyWindow(task_id="t", spec="t.yaml", start="2026-01-01", end=end)
        else:
            task = Learn(task_id="t", arguments={"--spec": "t.yaml", "--end": end})
            # As Airflow renders it for a run without a partition.
            task.application_args[task.application_args.index("--partition") + 1] = ""
        if good:
            task.execute({"run_id": "r"})
            continue
        with pytest.raises(AirflowFailException, match="--end: expected a day as YYYY-MM-DD"):
            task.execute({"run_id": "r"})
    assert len(ran) == 1
