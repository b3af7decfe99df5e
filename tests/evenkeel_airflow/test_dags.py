"""The DAGs: their shape, their params and their lightness; a wrong spec takes no other with it."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from tests.conftest import SPEC
from tests.support import airflow_env
from tests.support.airflow_env import airflow_db, dag_bag, dag_of  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset

from evenkeel_airflow.operators import Approve, ValidatePlan
from tests.support.worlds.shop import Shop
from tests.support.cases.dag_runs import PIPELINE
# isort: on

if TYPE_CHECKING:
    from tests.conftest import World


pytestmark = pytest.mark.airflow
ARROWS = {
    "learn": {"decide"},
    "decide": {"plan"},
    "plan": {"validate_plan"},
    "validate_plan": {"approve"},
    "approve": {"migrate"},
    "migrate": {"verify", "roll_back"},
    "verify": {"publish", "roll_back"},
    "publish": {"report", "roll_back"},
    "roll_back": {"report"},
    "report": set(),
}
IN_ICEBERG = {
    "totals": {**SPEC["state"]["totals"], "path": "lake.db.totals", "format": "iceberg"},
}


@pytest.fixture(autouse=True)
def _home(airflow_db: None) -> None:  # noqa: F811
    """Every test here needs the database."""


def test_every_spec_has_its_dags() -> None:
    bag = dag_bag()
    assert bag.import_errors == {}
    of_all, made = ("rebalance", "roll_back", "maintain", "repair"), ("apply",)
    more = {"flights": made, "aircraft": ("adopt", "release"), "carriers": made}
    for table, own in more.items():
        for kind in (*of_all, *own):
            dag = bag.dags[f"{kind}_{table}"]
            assert (dag.max_active_runs, dag.catchup) == (1, False)


def test_tasks_and_arrows_of_a_rebalance() -> None:
    dag = dag_bag().dags["rebalance_flights"]
    assert {t.task_id: t.downstream_task_ids for t in dag.tasks} == ARROWS
    assert dag.get_task("publish").outlets == [Asset("evenkeel://flights")]


def test_a_schedule_may_be_assets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
    world.respec(schedule=["s3://lake/sales", "s3://lake/prices"])
    bag = dag_bag()
    assert bag.import_errors == {}
    waits_for = bag.dags["rebalance_trips"].timetable.asset_condition
    assert {asset.uri for asset in waits_for.objects} == {"s3://lake/sales", "s3://lake/prices"}
    assert bag.dags["roll_back_trips"].schedule is None
    # A URI that Airflow refuses is an error of this spec alone.
    world.respec(schedule=["airflow://mine"])
    (error,) = dag_bag().import_errors.values()
    assert "trips.yaml: schedule: " in error and "airflow://mine" in error


def test_going_back_takes_the_same_way_without_a_decision() -> None:
    dag = dag_bag().dags["roll_back_flights"]
    assert {t.task_id for t in dag.tasks} == {*PIPELINE, "roll_back"} - {"decide"}
    assert dag.get_task("learn").downstream_task_ids == {"plan"}


@pytest.mark.parametrize("state", [SPEC["state"], IN_ICEBERG])
def test_a_watched_table_has_one_dag_more(
    world: World, monkeypatch: pytest.MonkeyPatch, state: dict[str, Any]
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.respec(state=state).folder))
    assert "watch_trips" not in dag_bag().dags
    world.respec(watch={"every": 15})
    bag = dag_bag()
    assert bag.import_errors == {}
    dag = bag.dags["watch_trips"]
    assert dag.schedule == timedelta(minutes=15)
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    # From the plan on it is the way of every plan.
    assert {t.task_id: t.downstream_task_ids for t in dag.tasks} == {
        "watch": {"plan"},
        **{task: ARROWS[task] for task in ARROWS if task not in ("learn", "decide")},
    }
    for task in ("plan", "watch"):
        assert dag.get_task(task).retries == 2


def test_every_task_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is down for a moment ends no run: `one_line`."""
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
    world.respec(watch={"every": 15})
    dags = dag_bag().dags
    assert len(dags) > 3
    for name, dag in dags.items():
        assert dag.tasks
        assert {t.task_id: t.retries for t in dag.tasks} == dict.fromkeys(dag.task_ids, 2), name


@pytest.mark.parametrize("running", [[], ["roll_back_trips"]])
def test_the_watch_is_told_of_runs_that_move_state(
    world: World, monkeypatch: pytest.MonkeyPatch, running: list[str]
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.respec(watch={}).folder))
    task = dag_of("watch_trips").get_task("watch")
    ti = Mock(get_dr_count=lambda dag_id, states: int(dag_id in running))
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda *_: None)
    task.execute({"ti": ti})
    told = [f"{dag} is running" for dag in running]
    assert [a for a in task.application_args if "running" in a] == told
    assert ("--busy" in task.application_args) == bool(told)


@pytest.mark.parametrize(
    "wrong",
    [
        {"channels": 0},
        {"max_imbalance": 0.5},
        {"budget": -1},
        {"strategy": "magic"},
        {"strategy": "sia"},
    ],
)
def test_a_wrong_param_is_refused_before_anything_runs(wrong: dict[str, Any]) -> None:
    dag = dag_bag().dags["rebalance_flights"]
    name, value = next(iter(wrong.items()))
    error = airflow_env.exception("ParamValidationError")
    with pytest.raises(error, match="is less than the minimum|is not one of"):
        dag.params.get_param(name).resolve(value)


def test_a_table_in_iceberg_has_no_params_for_commits_of_delta(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a Param would fail the run: rows move in one commit on a branch."""
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
    limits = {"batch", "batch_files", "rate", "rate_rows"}
    every = {*dag_of("rebalance_trips").params}
    assert limits < every
    world.respec(state=IN_ICEBERG)
    assert {*dag_of("rebalance_trips").params} == every - limits


@pytest.mark.parametrize("kind", ["rebalance", "roll_back"])
def test_two_dags_given_one_run_id_share_no_folder(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda *_: None)
    # The steps before the jobs that move rows go by the same name.
    shop.learn(f"{kind}_words--same")
    shop.plan(f"{kind}_words--same", force=True)
    with DAG(f"{kind}_words"):
        before = [step(task_id=step.__name__, spec=shop.spec) for step in (ValidatePlan, Approve)]
    for task in before:
        task.execute({"run_id": "same", "params": {}})
    assert shop.registry.run(f"{kind}_words--same").exists("approval.json")
    dag = dag_bag().dags[f"{kind}_words"]
    for name in ("learn", "migrate", "verify", "roll_back"):
        task = dag.get_task(name)
        # As Airflow renders them.
        for option, value in (("--run", "same"), ("--end", ""), ("--partition", "")):
            if option in task.application_args:
                task.application_args[task.application_args.index(option) + 1] = value
        ti = Mock(get_task_states=lambda **_: {"same": {"migrate": "failed"}})
        task.execute({"ti": ti, "run_id": "same"})
        given = dict(zip(task.application_args[::2], task.application_args[1::2], strict=True))
        assert given["--run"] == f"{kind}_words--same"
    assert not shop.registry.store.names("runs/same")


@pytest.mark.parametrize("kind", ["rebalance", "roll_back"])
def test_late_rows_can_be_learned(kind: str) -> None:
    dag = dag_bag().dags[f"{kind}_flights"]
    assert dag.params["relearn"] is False
    for relearn, given in ((True, "yes"), (False, "")):
        rendered = _rendered(dag, "learn", relearn=relearn)
        assert rendered[-2:] == ["--attempt", "7"]
        assert rendered[rendered.index("--relearn") + 1] == given


@pytest.mark.parametrize("asked", [None, "registry_older", "undo_window"])
def test_a_repair_gives_up_epochs_or_takes_a_window_back_only_if_asked(asked: str | None) -> None:
    dag = dag_bag().dags["repair_flights"]
    options = _rendered(dag, "repair", **({asked: True} if asked else {}))[2:8]
    switches = ("dry_run", "registry_older", "undo_window")
    expected = [(f"--{s.replace('_', '-')}", "yes" if s == asked else "") for s in switches]
    assert list(zip(options[::2], options[1::2], strict=True)) == expected


def _rendered(dag: DAG, task_id: str, **asked: object) -> list[str]:
    """Render the arguments of a task of a run that asks for these Params."""
    task = dag.get_task(task_id)
    context = {
        "params": {**dag.params.dump(), **asked},
        "run_id": "r",
        "ti": Mock(id=7),
        "dag_run": Mock(partition_key=None),
    }
    rendered: list[str] = task.render_template(
        task.application_args, context, task.get_template_env()
    )
    return rendered


def test_parsing_loads_neither_spark_nor_the_pipeline() -> None:
    code = (
        "import sys, json\n"
        f"sys.path.insert(0, {str(airflow_env.DAGS)!r})\n"
        "import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit\n"
        "import airflow.providers.standard.operators.hitl\n"
        "before = set(sys.modules)\n"
        "import evenkeel_dags\n"
        "heavy = {'pyspark', 'delta', 'great_expectations', 'pandas', 'vl_convert', 'typer',\n"
        "    'evenkeel.table', 'evenkeel.registry', 'evenkeel.pipeline', 'evenkeel.render'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip().splitlines()[-1:] == ["[]"], done.stderr


def test_a_spec_with_a_typo_takes_no_other_dag_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.folder / "broken.yaml").write_text("table: broken\nkee: [a]\n")
    text = Path(world.spec_path).read_text()
    (world.folder / "again.yaml").write_text(text)
    (world.folder / "beside.yaml").write_text(text.replace("table: trips", "table: beside"))
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
    bag = dag_bag()
    assert set(bag.dags) == {
        "rebalance_trips",
        "roll_back_trips",
        "repair_trips",
        "maintain_trips",
        "apply_trips",
    }
    ((file, error),) = bag.import_errors.items()
    assert Path(file).name == "evenkeel_specs.py"
    assert "broken.yaml: " in error
    assert "kee: there is no such field" in error
    assert "trips.yaml: table: 'trips' is already the name of again.yaml" in error
    assert "beside.yaml: registry: " in error and "is already that of again.yaml" in error


def test_a_teams_own_tables_have_dags_to_adopt_and_release_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.respec(state={"orders": {"path": "orders", "rows": "many"}})
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
    bag = dag_bag()
    assert not bag.import_errors
    others = {f"{kind}_trips" for kind in ("rebalance", "roll_back", "repair", "maintain")}
    assert set(bag.dags) == {*others, "adopt_trips", "release_trips"}
    (adopt,), (release,) = (bag.dags[f"{kind}_trips"].tasks for kind in ("adopt", "release"))
    assert "--release" not in adopt.application_args
    assert release.application_args[2:4] == ["--release", "yes"]


def test_a_spec_with_an_impossible_schedule_takes_no_other_dag_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(world.spec_path).read_text()
    (world.folder / "odd.yaml").write_text(
        text.replace("table: trips", "table: odd").replace(": registry", ": elsewhere")
        + "schedule: now and then\n"
    )
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
    bag = dag_bag()
    assert "rebalance_trips" in bag.dags
    (error,) = bag.import_errors.values()
    assert "odd.yaml: schedule: " in error
    assert "'now and then'" in error
