"""What OpenLineage hears of tasks, through the listener of Airflow's own provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.airflow_env import DAGS, dag_of

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.utils.state import TaskInstanceState

from evenkeel.submit import job_file
from evenkeel_airflow.operators import AirflowGateError, lineage
from tests.support.cases.dag_runs import END
from tests.support.raw_json import read_json, write_json
from tests.support.worlds.shop import Shop
# isort: on

if TYPE_CHECKING:
    from tests.conftest import World

pytestmark = pytest.mark.airflow

RUNNING, SUCCESS = TaskInstanceState.RUNNING, TaskInstanceState.SUCCESS
FAILED, SKIPPED = TaskInstanceState.FAILED, TaskInstanceState.SKIPPED


def heard(task: Any, state: TaskInstanceState) -> Any:
    """What the provider's listener finds of a task of a run `r`."""
    ti = SimpleNamespace(dag_id=task.dag_id, run_id="r", state=state)
    run = SimpleNamespace(run_id="r")
    return ExtractorManager().extract_metadata(run, task, state, ti)


def names(datasets: list[Any]) -> list[str]:
    return [f"{d.namespace}|{d.name}" for d in datasets]


def found(datasets: list[Any]) -> list[Any]:
    return [a for d in datasets for a in d.inputFacets["dataQualityAssertions"].assertions]


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("/lake/state/", ("file", "/lake/state")),
        ("file:///lake/state", ("file", "/lake/state")),
        ("s3a://lake/state/x", ("s3://lake", "state/x")),
        ("s3://lake", ("s3://lake", "/")),
        ("s3://lake/a#b?c", ("s3://lake", "a#b?c")),
        ("gs://lake/x", ("gs://lake", "x")),
        ("abfs://c@a.dfs.core.windows.net/x", ("abfss://c@a.dfs.core.windows.net", "x")),
        ("hdfs://node:8020/lake/x", ("hdfs://node:8020", "/lake/x")),
    ],
)
def test_a_dataset_is_named_by_the_convention(place: str, name: tuple[str, str]) -> None:
    assert lineage.dataset_name(place) == name


def test_each_job_has_datasets() -> None:
    jobs = {file.stem for file in Path(job_file("learn")).parent.glob("*.py")}
    assert lineage._FLOWS.keys() == jobs - {"__init__", "generate"} | {"validate_plan"}


def test_a_gate_is_told_if_it_passed_or_stopped_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, run = Shop(tmp_path), "rebalance_words--r"
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    dag = dag_of("rebalance_words")
    registry, state = f"file|{tmp_path}/registry", f"file|{tmp_path}/state"
    task = dag.get_task("validate_plan")

    shop.learn(run)
    shop.plan(run, force=True)
    assert names(heard(task, RUNNING).inputs) == [registry]
    task.execute({"run_id": "r"})
    told = heard(task, SUCCESS)
    assert (names(told.inputs), told.outputs) == ([registry], [])
    passed = found(told.inputs)
    assert len(passed) > 5 and all(a.success for a in passed)
    assert {"No slot or key moves twice"} < {a.name for a in passed}
    # It broke off for another reason: the file is of an earlier try.
    assert heard(task, FAILED).inputs[0].inputFacets == {}

    shop.plan(run, strategy="uniform", budget=1, force=True)
    with pytest.raises(AirflowGateError):
        task.execute({"run_id": "r"})
    failed = found(heard(task, FAILED).inputs)
    assert {(a.severity, a.success) for a in failed if "budget" in a.name} == {("error", False)}

    verify = dag.get_task("verify")
    shop.checked(run, success=False)
    folder = shop.registry.run(run)
    wrong = {"what": "No row is lost", "success": False, "severity": "critical", "observed": 1}
    gate = read_json(folder, "gate_tables.json")
    write_json(folder, "gate_tables.json", {**gate, "results": [wrong]})
    verify.gate_failed = True
    told = heard(verify, FAILED)
    assert (names(told.inputs), names(told.outputs)) == ([state, registry], [state, registry])
    assert [(a.name, a.success, a.actual) for a in found(told.inputs[:1])] == [
        ("No row is lost", False, "1")
    ]
    folder.write("gate_tables.json", b"{")
    torn = heard(verify, SUCCESS)
    assert (names(torn.inputs), torn.inputs[0].inputFacets) == ([state, registry], {})

    back = dag.get_task("roll_back")
    assert names(heard(back, SUCCESS).outputs) == [state, registry]
    assert heard(back, SKIPPED).outputs == []
    repair = dag_of("repair_words").get_task("repair")
    repair.application_args = ["--spec", shop.spec, "--dry-run", "yes"]
    assert (names(heard(repair, SUCCESS).inputs), heard(repair, SUCCESS).outputs) == (
        [state, registry],
        [],
    )


def test_iceberg_tables_have_no_name_and_the_registry_has_their_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenLineage names them by a location that their catalog alone knows."""
    made = {"path": "lake.db.words", "format": "iceberg", "columns": {"uses": {"merge": "count"}}}
    shop, run = Shop(tmp_path, state={"counts": made}), "rebalance_words--r"
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    dag, registry = dag_of("rebalance_words"), f"file|{tmp_path}/registry"
    migrate = heard(dag.get_task("migrate"), SUCCESS)
    assert (names(migrate.inputs), migrate.outputs) == ([registry], [])
    shop.learn(run)
    shop.plan(run, force=True)
    shop.checked(run)
    folder = shop.registry.run(run)
    right = {"what": "No row is lost", "success": True, "severity": "critical", "observed": 0}
    gate = read_json(folder, "gate_tables.json")
    write_json(folder, "gate_tables.json", {**gate, "results": [right]})
    told = heard(dag.get_task("verify"), SUCCESS)
    assert (names(told.inputs), names(told.outputs)) == ([registry], [registry])
    assert [a.name for a in found(told.inputs)] == ["No row is lost"]


def test_a_dag_file_needs_no_provider() -> None:
    """Airflow's Spark provider imports it where it is installed; we do not."""
    code = (
        "import sys, runpy\n"
        "provider = ['openlineage', 'airflow.providers.openlineage.extractors']\n"
        "sys.modules |= dict.fromkeys(provider)\n"
        "dags = runpy.run_path(sys.argv[1])\n"
        "print(dags['rebalance_flights'].task_dict.keys() >= {'learn', 'validate_plan'})"
    )
    command = [sys.executable, "-c", code, str(DAGS / "evenkeel_dags.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_the_listener_tells_of_whole_runs(ready: World) -> None:
    """One run that fails at the plan's gate and one that publishes, on real Spark and Delta."""
    file = ready.folder / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    home = ready.folder / "airflow"
    env = {
        **os.environ,
        # An Airflow of its own: its runs of this table are not those of other tests.
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "EVENKEEL_TABLES": str(ready.folder),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
    }
    over_budget = {"strategy": "uniform", "budget": 1, "force": True}
    subprocess.run(["airflow", "db", "migrate"], env=env, capture_output=True, check=True)
    events = []
    for asked in (over_budget, {}):
        conf = json.dumps({"window_end": END, **asked})
        command = ["airflow", "dags", "test", "rebalance_trips", "--conf", conf]
        subprocess.run(command, env=env, capture_output=True, check=False)
        lines = file.read_text().splitlines() if file.exists() else []
        events.append(_by_task([json.loads(line) for line in lines]))
        file.unlink(missing_ok=True)
    stopped, published = events

    source, state, registry = (
        ("file", str(ready.folder / name))
        for name in ("events.parquet", "state/totals", "registry")
    )
    for kind in ("START", "COMPLETE"):
        assert _flow(published["learn", kind]) == ([source, state], [registry])
        assert _flow(published["migrate", kind]) == ([state, registry], [state])
        assert _flow(published["verify", kind]) == ([state, registry], [state, registry])
    for task in ("validate_plan", "verify"):
        told = _assertions(published[task, "COMPLETE"])
        assert len(told) > 5 and all(a["success"] for a in told if a["severity"] == "error")
        assert _assertions(published[task, "START"]) == []
    # Nothing had moved, so the task skipped itself.
    assert _flow(stopped["roll_back", "COMPLETE"]) == ([], [])

    assert _flow(stopped["validate_plan", "FAIL"]) == ([registry], [])
    wrong = [a["name"] for a in _assertions(stopped["validate_plan", "FAIL"]) if not a["success"]]
    assert any("budget" in name for name in wrong), wrong
    assert ("migrate", "START") not in stopped


def _by_task(events: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(e["job"]["name"].partition(".")[2], e["eventType"]): e for e in events}


def _flow(event: dict[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    inputs, outputs = (
        [(d["namespace"], d["name"]) for d in event.get(side, [])] for side in ("inputs", "outputs")
    )
    return inputs, outputs


def _assertions(event: dict[str, Any]) -> list[dict[str, Any]]:
    facets = [d.get("inputFacets", {}) for d in event["inputs"]]
    return [a for f in facets for a in f.get("dataQualityAssertions", {}).get("assertions", [])]
