"""`load_tables` in a user's own DAG file: what it loads, what it refuses, and what it costs."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
import yaml

from partitioning.errors import InputError
from tests.support.airflow_env import airflow_db, dag_bag  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
import evenkeel_airflow
from airflow.sdk import Asset
from airflow.task.priority_strategy import get_airflow_priority_weight_strategies
from evenkeel_airflow import loading
from evenkeel_airflow.airflow_versions import NO_BACKFILLS
from evenkeel_airflow.notifiers import GateCallback
from evenkeel_airflow.provider import get_provider_info
# isort: on

if TYPE_CHECKING:
    from tests.conftest import World

pytestmark = pytest.mark.airflow

LINES = """# Airflow: the DAGs of every table.
from evenkeel_airflow import load_tables

load_tables(globals(), {folder!r})
"""
OTHER = """from airflow.sdk import DAG

dag = DAG("mine", schedule=None)
"""


@pytest.fixture
def dags(airflow_db: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """A user's own DAGs folder, with a DAG of theirs."""
    folder = tmp_path_factory.mktemp("dags")
    (folder / "mine.py").write_text(OTHER)
    return folder


def test_three_lines_load_every_table(dags: Path, world: World) -> None:
    (dags / "tables.py").write_text(LINES.format(folder=str(world.folder)))
    bag = dag_bag(dags)
    assert bag.import_errors == {}
    assert set(bag.dags) == {
        "mine", "rebalance_trips", "roll_back_trips", "maintain_trips", "repair_trips",
        "apply_trips",
    }  # fmt: skip
    dag = bag.dags["apply_trips"]
    assert set(dag.params) == {"start", "end"}
    arguments = dag.get_task("apply_window").application_args
    assert arguments[:2] == ["--spec", world.spec_path] and "{{ params.start }}" in arguments


def test_a_table_whose_events_have_no_time_has_no_windows_to_apply(
    dags: Path, world: World
) -> None:
    spec = yaml.safe_load(Path(world.spec_path).read_text())
    del spec["input"]["time"]
    Path(world.spec_path).write_text(yaml.safe_dump(spec))
    (dags / "tables.py").write_text(LINES.format(folder=str(world.folder)))
    bag = dag_bag(dags)
    assert bag.import_errors == {}
    assert "rebalance_trips" in bag.dags and "apply_trips" not in bag.dags


def test_a_folder_that_is_not_there_is_one_line_and_others_load(dags: Path, world: World) -> None:
    gone = str(world.folder / "gone")
    (dags / "tables.py").write_text(LINES.format(folder=gone))
    bag = dag_bag(dags)
    assert set(bag.dags) == {"mine"}
    (error,) = bag.import_errors.values()
    last = error.strip().splitlines()[-1]
    assert f"{gone}: there is no such folder of table specs. Create it" in last


def test_a_wrong_spec_is_an_import_error_where_it_is_asked_for(dags: Path, world: World) -> None:
    (world.folder / "broken.yaml").write_text("table: broken\nkee: [a]\n")
    lines = LINES.format(folder=str(world.folder))
    (dags / "tables.py").write_text(lines)
    (dags / "problems.py").write_text(lines.replace("load_tables", "report_problems").replace(
        "globals(), ", ""
    ))  # fmt: skip
    bag = dag_bag(dags)
    assert {"mine", "rebalance_trips"} <= set(bag.dags)
    ((file, error),) = bag.import_errors.items()
    assert Path(file).name == "problems.py"
    assert "broken.yaml" in error.strip().splitlines()[-1]


def test_a_table_around_a_place_of_another_one_has_no_vacuum(world: World) -> None:
    spec = yaml.safe_load(Path(world.spec_path).read_text())
    inside = f"{spec['state']['totals']['path']}/eu"
    other = {**spec, "table": "eu", "registry": f"{inside}/registry"}
    other["state"] = {"eu": {**spec["state"]["totals"], "path": "eu"}}
    (world.folder / "eu.yaml").write_text(yaml.safe_dump(other, sort_keys=False))
    namespace: dict[str, object] = {}
    evenkeel_airflow.load_tables(namespace, world.folder)
    assert {"rebalance_trips", "repair_trips"} <= namespace.keys()
    assert not {"maintain_trips", "rebalance_eu"} & namespace.keys()


def test_no_folder_at_all_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENKEEL_TABLES")
    with pytest.raises(loading.InputError, match=r"got none\. Name it there, or set EVENKEEL_T"):
        evenkeel_airflow.load_tables({})


def test_the_folder_may_stand_in_airflows_configuration(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENKEEL_TABLES")
    monkeypatch.setenv("AIRFLOW__EVENKEEL__TABLES", str(world.folder))
    namespace: dict[str, object] = {}
    evenkeel_airflow.load_tables(namespace)
    assert "rebalance_trips" in namespace


@pytest.mark.parametrize("wanted", ["rebalance_trips", "apply_trips", "mine", "rebalance_none"])
def test_a_task_builds_only_the_dag_that_it_needs(
    world: World, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    with Path(world.spec_path).open() as file:
        spec = yaml.safe_load(file)
    for i in range(3):
        state = {name: {**own, "path": f"s{i}/{name}"} for name, own in spec["state"].items()}
        other = {**spec, "table": f"t{i}", "registry": f"r{i}", "state": state}
        (world.folder / f"t{i}.yaml").write_text(yaml.safe_dump(other, sort_keys=False))
    (world.folder / "broken.yaml").write_text("table: broken\nkee: [a]\n")
    read = []
    real = loading.load_spec
    monkeypatch.setattr(loading, "load_spec", lambda file: read.append(file.name) or real(file))
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", wanted)
    namespace: dict[str, object] = {}
    evenkeel_airflow.load_tables(namespace, world.folder)
    ours = wanted.endswith("_trips")
    assert set(namespace) == ({wanted} if ours else set())
    assert read == (["trips.yaml"] if ours else [])


def test_a_task_of_a_table_whose_spec_is_wrong_by_now_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow itself says only that the DAG was not found."""
    file = Path(world.spec_path)
    file.write_text(f"{file.read_text()}kee: [a]\n")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "rebalance_trips")
    evenkeel_airflow.load_tables({}, world.folder)
    assert "no DAGs for a wrong spec" in caplog.text and "kee" in caplog.text


def made(world: World, **given: Any) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    evenkeel_airflow.load_tables(namespace, world.folder, **given)
    assert len(namespace) == 5
    return {f"{n}.{task.task_id}": task for n, dag in namespace.items() for task in dag.tasks}


def test_a_teams_default_args_are_those_of_all_tasks(world: World) -> None:
    """Ours fill what the team leaves out, and how tasks follow each other stays as it is."""

    def alarm(context: Any) -> None:
        pass

    theirs = {"retries": 5, "owner": "lake", "pool": "small", "queue": "spark"}
    notifier = GateCallback  # any callable
    given = {**theirs, "on_failure_callback": alarm, "conn_id": "spark_prod"}
    ours, own = made(world), made(world, default_args=given, notifiers=[notifier])
    for name, task in own.items():
        assert {n: getattr(task, n) for n in theirs} == theirs, name
        assert task.on_failure_callback[0] is alarm, name
        assert (ours[name].retries, ours[name].owner) == (2, "airflow"), name
        assert task.retry_delay == ours[name].retry_delay == timedelta(seconds=30), name
        assert task.trigger_rule == ours[name].trigger_rule, name
        if hasattr(task, "_conn_id"):
            assert (task._conn_id, ours[name]._conn_id) == ("spark_prod", "spark_default"), name
        # The gates' callback comes beside the team's own.
        assert len(task.on_failure_callback) == (1 if name.endswith("approve") else 2), name


def test_a_move_that_has_begun_goes_before_one_that_begins(world: World) -> None:
    """In a pool of one place for all jobs, which many tables want at midnight."""

    def weights(**given: Any) -> dict[str, int]:
        rules = get_airflow_priority_weight_strategies()
        tasks = made(world, **given).items()
        return {name: rules[t.weight_rule]().get_weight(Mock(task=t)) for name, t in tasks}

    found = weights()
    mover = [f"rebalance_trips.{name}" for name in ("learn", "migrate", "verify", "roll_back")]
    ordered = [found[name] for name in mover]
    assert ordered == sorted(set(ordered))
    assert found["repair_trips.repair"] > found["rebalance_trips.migrate"]
    theirs = weights(default_args={"weight_rule": "absolute", "priority_weight": 7})
    assert {theirs[name] for name in mover[:3]} == {7}


@pytest.mark.skipif(not NO_BACKFILLS, reason="this Airflow cannot tell kinds of runs apart")
def test_no_backfill_starts_ten_runs_of_the_newest_window(world: World) -> None:
    def backfilled(**asked: Any) -> set[str]:
        world.respec(**asked)
        namespace: dict[str, Any] = {}
        evenkeel_airflow.load_tables(namespace, world.folder)
        return {
            name.partition("_")[0]
            for name, dag in namespace.items()
            if dag.allowed_run_types is None or "backfill" in dag.allowed_run_types
        }

    by_hand = {"apply", "repair", "roll"}
    assert backfilled(schedule="@daily") == by_hand
    # Each run has a window of its own, or Airflow refuses a backfill itself.
    assert backfilled(schedule={"partitions": ["s3://lake/sales"]}) == by_hand | {"rebalance"}
    assert backfilled(schedule=["s3://lake/sales"]) == by_hand | {"rebalance"}


def test_default_args_that_no_task_takes_are_one_line(world: World) -> None:
    said = (
        "^default_args of load_tables: expected arguments of Airflow's BaseOperator or "
        r"SparkSubmitOperator, got retires \(like retries\?\), trigger_rule \(set by each task\)\."
    )
    with pytest.raises(InputError, match=said):
        made(world, default_args={"retires": 1, "trigger_rule": "all_done", "pool": "p"})


def test_airflow_is_told_what_this_package_brings() -> None:
    from airflow.providers_manager import _create_provider_info_schema_validator

    info = get_provider_info()
    _create_provider_info_schema_validator().validate(info)
    assert info["versions"][0] == evenkeel_airflow.provider.__version__
    for module in info["operators"][0]["python-modules"]:
        __import__(module)
    assert not [i for i in info["integrations"] if "external-doc-url" in i]


def test_airflow_reads_it_as_a_provider() -> None:
    """By Airflow's own manager. The pages come by their entry point alone: twice is an error."""
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    assert manager.providers["evenkeel"].version == evenkeel_airflow.provider.__version__
    assert "evenkeel" in dict(manager.provider_configs)
    assert "evenkeel" not in {plugin.provider_name for plugin in manager.plugins}


@pytest.mark.parametrize("uri", ["evenkeel:///trips", "evenkeel://trips/1", "evenkeel://t?x=1"])
def test_an_asset_that_no_table_updates_is_refused(uri: str) -> None:
    assert Asset("evenkeel://trips").uri in ("evenkeel://trips", "evenkeel://trips/")
    with pytest.raises(ValueError, match="expected evenkeel://TABLE"):
        Asset(uri)


@pytest.mark.parametrize("text", ["", "class Own:\n    pass\n"])
def test_a_module_that_hides_ours_is_named(text: str, tmp_path: Path) -> None:
    own = tmp_path / "partitioning.py"
    own.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", "from evenkeel_airflow import load_tables"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ") and f"found {own}" in last and "Rename" in last
