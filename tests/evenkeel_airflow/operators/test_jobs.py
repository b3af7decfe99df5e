"""Jobs that look at Airflow's other runs before they start."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.support import airflow_env  # noqa: F401  it sets the environment

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.sdk import DAG

from evenkeel.inspect.half_moved import mark_moving
from evenkeel_airflow.airflow_versions import AirflowFailException
from evenkeel_airflow.operators import ApplyWindow, Approve, Repair, SparkJob, ValidatePlan
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
    with pytest.raises(AirflowFailException, match="nightly is running: let it end"):
        task.execute({"ti": ti, "params": {}})
    task.execute({"ti": ti, "params": {"dry_run": True}})
    under_way.clear()
    task.execute({"ti": ti, "params": {}})
    assert ran == ["repair", "repair"]


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
