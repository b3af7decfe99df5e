"""The DAGs: their shape, their lightness, and whole runs through Airflow, Spark and Delta."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from tests.support import airflow_env
from tests.support.airflow_env import airflow_db, dag_bag, dag_of  # noqa: F401  a fixture

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators import hitl
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
    ParamValidationError,
    TaskAwaitingInput,
)

from evenkeel_airflow.operators import Approve, SparkJob, one_line
from evenkeel.pipeline import steps
from evenkeel.registry.store import StoreError
from partitioning.errors import InputError, UnreachableError
from tests.evenkeel.pipeline.test_steps import Shop
# isort: on

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from pyspark.sql import SparkSession

    from tests.conftest import World

pytestmark = pytest.mark.airflow

PIPELINE = [
    "learn", "decide", "plan", "validate_plan", "approve", "migrate", "verify", "publish", "report",
]  # fmt: skip
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
END = "2013-01-08"


@pytest.fixture(autouse=True)
def _home(airflow_db: None) -> None:  # noqa: F811
    """Every test here needs the database."""


def test_every_spec_has_its_dags() -> None:
    bag = dag_bag()
    assert bag.import_errors == {}
    for table in ("flights", "aircraft", "carriers"):
        for kind in ("rebalance", "roll_back", "maintain", "repair"):
            dag = bag.dags[f"{kind}_{table}"]
            assert (dag.max_active_runs, dag.catchup) == (1, False)


def test_tasks_and_arrows_of_a_rebalance() -> None:
    dag = dag_bag().dags["rebalance_flights"]
    assert {t.task_id: t.downstream_task_ids for t in dag.tasks} == ARROWS
    assert dag.get_task("publish").outlets == [Asset("evenkeel://flights")]


def test_going_back_takes_the_same_way_without_a_decision() -> None:
    dag = dag_bag().dags["roll_back_flights"]
    assert {t.task_id for t in dag.tasks} == {*PIPELINE, "roll_back"} - {"decide"}
    assert dag.get_task("learn").downstream_task_ids == {"plan"}


def test_a_watched_table_has_one_dag_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(world.folder))
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
    for name, dag in dag_bag().dags.items():
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
    "wrong", [{"channels": 0}, {"max_imbalance": 0.5}, {"budget": -1}, {"strategy": "magic"}]
)
def test_a_wrong_param_is_refused_before_anything_runs(wrong: dict[str, Any]) -> None:
    dag = dag_bag().dags["rebalance_flights"]
    name, value = next(iter(wrong.items()))
    with pytest.raises(ParamValidationError, match="is less than the minimum|is not one of"):
        dag.params.get_param(name).resolve(value)


@pytest.mark.parametrize("kind", ["rebalance", "roll_back"])
def test_late_rows_can_be_learned(kind: str) -> None:
    dag = dag_bag().dags[f"{kind}_flights"]
    assert dag.params["relearn"] is False
    for relearn, given in ((True, "yes"), (False, "")):
        task = dag.get_task("learn")
        rendered = task.render_template(
            task.application_args,
            {"params": {**dag.params.dump(), "relearn": relearn}, "run_id": "r"},
            task.get_template_env(),
        )
        assert rendered[-2:] == ["--relearn", given]


def test_parsing_loads_nothing_heavy() -> None:
    code = (
        "import sys, json\n"
        f"sys.path.insert(0, {str(airflow_env.DAGS)!r})\n"
        "import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit\n"
        "import airflow.providers.standard.operators.hitl\n"
        "before = set(sys.modules)\n"
        "import evenkeel_dags\n"
        "heavy = {'pyspark', 'delta', 'great_expectations', 'altair', 'pandas'}\n"
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
    }
    ((file, error),) = bag.import_errors.items()
    assert Path(file).name == "evenkeel_specs.py"
    assert "broken.yaml: " in error
    assert "kee: there is no such field" in error
    assert "trips.yaml: table: 'trips' is already the name of again.yaml" in error
    assert "beside.yaml: registry: " in error and "is already that of again.yaml" in error


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


@pytest.mark.parametrize(("choice", "approved"), [("Approve", True), ("Reject", False)])
def test_a_person_is_asked_over_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, approved: bool
) -> None:
    shop = Shop(tmp_path)
    shop.plan()
    shop.respec(approve_over=0)
    asked: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **told: asked.update(told))
    with DAG("d"):
        task = Approve(task_id="approve", spec=shop.spec)
        task >> EmptyOperator(task_id="migrate")
    ti = Mock(map_index=-1)
    context = {"run_id": "r", "params": {}, "task_instance": ti, "ti": ti, "task": task}
    with pytest.raises(TaskAwaitingInput):
        task.execute(context)
    plan = steps.read_plan(shop.registry.run("r"))
    assert f"{plan.bytes:,.0f} bytes" in asked["subject"]
    assert plan.digest in asked["body"]
    assert asked["options"] == ["Approve", "Reject"]
    answer = {
        "chosen_options": [choice],
        "params_input": {},
        "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "responded_by_user": {"id": "1", "name": "vic"},
    }
    if approved:
        task.execute_complete(context, answer)
    else:
        with pytest.raises(DownstreamTasksSkipped):
            task.execute_complete(context, answer)
    kept = shop.registry.run("r").read_json("approval.json")
    assert (kept["approved"], kept["by"], kept["digest"]) == (approved, "vic", plan.digest)


def test_an_answer_counts_for_the_plan_that_was_shown_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleared with what comes before it, the task asks again; Airflow keeps the first question."""
    shop = Shop(tmp_path)
    shop.plan()
    shop.respec(approve_over=0)
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **_: None)
    with DAG("d"):
        task = Approve(task_id="approve", spec=shop.spec)
    ti = Mock(map_index=-1)
    context = {"run_id": "r", "params": {}, "task_instance": ti, "ti": ti, "task": task}
    for _ in range(2):
        with pytest.raises(TaskAwaitingInput):
            task.execute(context)
    shop.plan(force=True, max_imbalance=1.3)
    with pytest.raises(AirflowFailException, match="start a new run"):
        task.execute(context)
    answer = {
        "chosen_options": ["Approve"],
        "params_input": {},
        "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "responded_by_user": {"id": "1", "name": "vic"},
    }
    with pytest.raises(AirflowFailException, match="start a new run"):
        task.execute_complete(context, answer)
    assert not shop.registry.run("r").exists("approval.json")
    # Under the limit nobody need be asked.
    shop.respec()
    task.execute(context)
    assert shop.registry.run("r").read_json("approval.json")["by"] == "the spec's limit"


def test_nobody_is_asked_under_the_limit(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.plan()
    with DAG("d"):
        task = Approve(task_id="approve", spec=shop.spec)
    task.execute({"run_id": "r", "params": {}})
    assert shop.registry.run("r").read_json("approval.json")["approved"]
    with pytest.raises(AirflowSkipException, match="dry run"):
        task.execute({"run_id": "r", "params": {"dry_run": True}})


@pytest.mark.slow
def test_a_dry_run_and_a_refusal_change_nothing(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    before = _files(ready)

    dry = _run(ready, 1, {"dry_run": True})
    assert dry.state == "success"
    assert _states(dry) == dict.fromkeys(PIPELINE, "success") | dict.fromkeys(
        ["approve", "migrate", "verify", "publish", "roll_back"], "skipped"
    )
    assert _left(ready, dry) >= {"plan.json", "gate_plan.json", "report.html"}

    # Hashing anew moves far more than a budget of one byte.
    refused = _run(ready, 2, {"strategy": "uniform", "budget": 1, "force": True})
    assert refused.state == "failed"
    states = _states(refused)
    assert states["validate_plan"] == "failed"
    assert states["migrate"] == "upstream_failed"
    assert states["roll_back"] == "skipped"
    assert "report.html" in _left(ready, refused)

    # Nothing to do: even enough.
    ready.respec(trigger=100)
    idle = _run(ready, 3, {})
    assert idle.state == "success"
    assert _states(idle)["plan"] == "skipped"
    assert "report.html" in _left(ready, idle)

    assert _files(ready) == before
    assert ready.table.epoch().number == 0


@pytest.mark.slow
def test_an_input_that_cannot_be_read_is_tried_once(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    (ready.folder / "events.parquet").write_bytes(b"PAR1 this was a table once PAR1")
    dag = dag_bag().dags["rebalance_trips"]
    assert dag.get_task("learn").retries == 2
    dag.get_task("learn").retry_delay = timedelta(0)
    run = dag.test(run_conf={"window_end": END})
    assert run.state == "failed"
    (learn,) = (t for t in run.get_task_instances() if t.task_id == "learn")
    assert (learn.state, learn.try_number) == ("failed", 1)
    assert _states(run)["migrate"] == "upstream_failed"


def test_a_cluster_that_cannot_be_reached_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real spark-submit; the job is one that only ends as one without a cluster does."""
    job = tmp_path / "job.py"
    monkeypatch.setattr("evenkeel_airflow.operators.job_file", lambda _: str(job))
    for code, raised in ((UnreachableError.exit_code, AirflowException), (2, AirflowFailException)):
        job.write_text(
            f"import sys\nprint('evenkeel: error: no', file=sys.stderr)\nsys.exit({code})\n"
        )
        with DAG("d"):
            task = SparkJob(task_id="learn", job="learn", arguments={"--spec": "x"})
        with pytest.raises(AirflowException) as error:
            task.execute({})
        assert type(error.value) is raised


@pytest.mark.timeout(1500)
def test_a_failure_is_rolled_back_and_the_next_run_publishes(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    rows = _rows(ready, spark)
    with monkeypatch.context() as patch:
        # verify dies between measuring and sealing, as if its machine went away.
        patch.setenv("EVENKEEL_CRASH_AT", "measured")
        broken = _run(ready, 5, {})
    states = _states(broken)
    assert (states["migrate"], states["verify"], states["roll_back"]) == (
        "success", "failed", "success",
    )  # fmt: skip
    assert states["publish"] == "upstream_failed"
    assert broken.state == "failed"
    assert ready.table.epoch().number == 0
    assert _rows(ready, spark) == rows

    gauges: dict[str, float] = {}
    monkeypatch.setattr("airflow.sdk.observability.stats.gauge", gauges.__setitem__)
    run = dag_of("rebalance_trips").test(run_conf={"window_end": END})
    assert run.state == "success"
    assert gauges["evenkeel.trips.imbalance_after"] < gauges["evenkeel.trips.imbalance_before"]
    assert gauges["evenkeel.trips.bytes_moved"] > 0
    assert gauges["evenkeel.trips.gate_failures"] == 0
    assert {"evenkeel.trips.seconds_learn", "evenkeel.trips.seconds_migrate_totals"} <= set(gauges)
    assert _states(run) == dict.fromkeys(PIPELINE, "success") | {"roll_back": "skipped"}
    epoch = ready.table.epoch()
    assert epoch.number == 1
    assert set(epoch.tables) == set(ready.table.spec.state)
    assert _events("evenkeel://trips/") == [{"epoch": 1}]
    kept = ready.table.registry.store.names("epochs/00000001")
    assert {"epoch.json", "report.html", "plan.json", "gate_tables.json"} <= set(kept)
    assert _rows(ready, spark) != rows


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_an_epoch_is_gone_back_from_and_maintained(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    rows = _rows(ready, spark)
    assert _run(ready, 6, {}).state == "success"
    assert _rows(ready, spark) != rows

    back = dag_of("roll_back_trips").test(run_conf={"epoch": 0})
    assert back.state == "success"
    assert ready.table.epoch().number == 2
    assert _rows(ready, spark) == rows

    assert dag_of("maintain_trips").test().state == "success"
    assert _rows(ready, spark) == rows


def _run(ready: World, number: int, asked: dict[str, Any]) -> DagRun:
    """A run of rebalance_trips whose profile is learned here, in the session that there is."""
    from evenkeel_spark.jobs import learn

    when = datetime(2026, 1, 1, number, tzinfo=UTC)
    run_id = f"manual__{when.isoformat()}"
    assert learn.main(["--spec", ready.spec_path, "--run", run_id, "--end", END]) == 0
    run = dag_of("rebalance_trips").test(
        run_after=when, logical_date=when, run_conf=asked, mark_success_pattern="learn"
    )
    assert run.run_id == run_id
    return run


def _states(run: DagRun) -> dict[str, str]:
    return {t.task_id: str(t.state) for t in run.get_task_instances()}


def _left(ready: World, run: DagRun) -> set[str]:
    registry = ready.table.registry
    return set(registry.store.names(f"runs/{registry.run(run.run_id).name}"))


def _files(ready: World) -> dict[str, bytes]:
    """All of state, and the epochs."""
    found = [*(ready.folder / "state").rglob("*"), *(ready.folder / "registry/epochs").rglob("*")]
    return {str(f): f.read_bytes() for f in found if f.is_file()}


def _rows(ready: World, spark: SparkSession) -> list[list[Any]]:
    paths = [part.path for part in ready.table.spec.state.values()]
    return [sorted(spark.read.format("delta").load(p).collect()) for p in paths]


def _events(uri: str) -> list[dict[str, Any]]:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        return [e.extra for e in session.scalars(found.where(AssetModel.uri == uri))]


def test_a_store_that_is_down_is_tried_again_and_what_is_wrong_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    down, wrong = StoreError("cannot be read", "registry"), InputError("is wrong", "registry")
    for error, final in ((down, False), (wrong, True)):
        with pytest.raises(AirflowException) as caught, one_line():
            raise error
        assert isinstance(caught.value, AirflowFailException) == final
        ended = f"Error code is: {error.exit_code}.\nevenkeel: error: {error}\n"

        def execute(self: Any, context: Any, ended: str = ended) -> None:
            raise AirflowException(f"Cannot execute: spark-submit. {ended}")

        monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
        job = SparkJob(task_id="learn", job="learn", arguments={})
        with pytest.raises(AirflowException, match="registry: ") as caught:
            job.execute({})
        assert isinstance(caught.value, AirflowFailException) == final
