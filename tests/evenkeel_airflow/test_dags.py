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

from evenkeel_airflow.airflow_versions import AirflowFailException, AirflowSkipException
from evenkeel_airflow.operators import Approve, SparkJob, one_line
from evenkeel.pipeline import steps
from evenkeel.registry.job_error import leave_error
from evenkeel.registry.run_folder import find_folder, folder_name
from evenkeel.registry.store_errors import DeniedError, StoreError
from partitioning.errors import InputError
from tests.support.worlds.shop import Shop
from tests.support.raw_json import read_json
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
        for kind in ("rebalance", "roll_back", "maintain", "repair", "apply"):
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


@pytest.mark.parametrize("kind", ["rebalance", "roll_back"])
def test_two_dags_given_one_run_id_share_no_folder(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda *_: None)
    dag = dag_bag().dags[f"{kind}_words"]
    for name in ("learn", "migrate", "verify", "roll_back"):
        task = dag.get_task(name)
        task.application_args[task.application_args.index("--run") + 1] = "same"
        ti = Mock(get_task_states=lambda **_: {"same": {"migrate": "failed"}})
        task.execute({"ti": ti, "run_id": "same"})
        given = dict(zip(task.application_args[::2], task.application_args[1::2], strict=True))
        assert given["--run"] == f"{kind}_words--same"
    # The steps between the jobs go by the same name.
    shop.learn(f"{kind}_words--same")
    with DAG(f"{kind}_words"):
        task = Approve(task_id="approve", spec=shop.spec)
    shop.plan(f"{kind}_words--same", force=True)
    task.execute({"run_id": "same", "params": {}})
    assert shop.registry.run(f"{kind}_words--same").exists("approval.json")
    assert not shop.registry.store.names("runs/same")


@pytest.mark.parametrize("kind", ["rebalance", "roll_back"])
def test_late_rows_can_be_learned(kind: str) -> None:
    dag = dag_bag().dags[f"{kind}_flights"]
    assert dag.params["relearn"] is False
    for relearn, given in ((True, "yes"), (False, "")):
        task = dag.get_task("learn")
        rendered = task.render_template(
            task.application_args,
            {"params": {**dag.params.dump(), "relearn": relearn}, "run_id": "r", "ti": Mock(id=7)},
            task.get_template_env(),
        )
        assert rendered[-4:] == ["--relearn", given, "--attempt", "7"]


def test_parsing_loads_nothing_heavy() -> None:
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


@pytest.mark.parametrize(("choice", "approved"), [("Approve", True), ("Reject", False)])
def test_a_person_is_asked_over_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, approved: bool
) -> None:
    shop = Shop(tmp_path)
    shop.plan()
    shop.respec(approve_over=0)
    asked: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **told: asked.update(told))
    with DAG("rebalance_d"):
        task = Approve(task_id="approve", spec=shop.spec)
        task >> EmptyOperator(task_id="migrate")
    ti = Mock(map_index=-1)
    context = {"run_id": "r", "params": {}, "task_instance": ti, "ti": ti, "task": task}
    with pytest.raises(airflow_env.question()):
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
        with pytest.raises(airflow_env.exception("DownstreamTasksSkipped")):
            task.execute_complete(context, answer)
    kept = read_json(shop.registry.run("r"), "approval.json")
    assert (kept["approved"], kept["by"], kept["digest"]) == (approved, "vic", plan.digest)


def test_an_answer_counts_for_the_plan_that_was_shown_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleared with what comes before it, the task asks again; Airflow keeps the first question."""
    shop = Shop(tmp_path)
    shop.plan()
    shop.respec(approve_over=0)
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **_: None)
    with DAG("rebalance_d"):
        task = Approve(task_id="approve", spec=shop.spec)
    ti = Mock(map_index=-1)
    context = {"run_id": "r", "params": {}, "task_instance": ti, "ti": ti, "task": task}
    for _ in range(2):
        with pytest.raises(airflow_env.question()):
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
    assert read_json(shop.registry.run("r"), "approval.json")["by"] == "the spec's limit"


def test_nobody_is_asked_under_the_limit(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.plan()
    with DAG("rebalance_d"):
        task = Approve(task_id="approve", spec=shop.spec)
    task.execute({"run_id": "r", "params": {}})
    assert read_json(shop.registry.run("r"), "approval.json")["approved"]
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
    registry = ready.table.registry
    left = read_json(registry.run(folder_name(run.dag_id, run.run_id)), "error.json")
    # By the id of the try the UI finds the error that belongs to it.
    assert (left["class"], left["retry"], left["attempt"]) == ("InputError", False, str(learn.id))
    assert _states(run)["migrate"] == "upstream_failed"


def test_a_cluster_that_cannot_be_reached_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real spark-submit, with jobs that only fail."""
    shop = Shop(tmp_path)
    job = tmp_path / "learn.py"
    monkeypatch.setattr("evenkeel_airflow.operators.spark_job.job_file", lambda _: str(job))
    given = {"--spec": shop.spec, "--run": "fails"}
    for raises, raised in (
        ("UnreachableError('down')", AirflowException),
        ("InputError('no')", AirflowFailException),
        ("ValueError('nobody foresaw it')", AirflowException),
        ("SystemExit('killed')", AirflowException),
    ):
        job.write_text(FAILS.format(raises=raises))
        with DAG("rebalance_d"):
            task = SparkJob(task_id="learn", job="learn", arguments=given)
        # As Airflow renders it: each try has an id of its own.
        task.application_args[-1] = raises
        with pytest.raises(AirflowException) as error:
            task.execute({})
        assert type(error.value) is raised, raises
        if raised is AirflowFailException:
            assert str(error.value) == "no"
    left = read_json(shop.registry.run("rebalance_d--fails"), "error.json")
    assert (left["class"], left["exit_code"], left["retry"], left["job"]) == (
        "ValueError", 1, True, "learn",
    )  # fmt: skip
    # A spec that is wrong by now is final, too.
    shop.respec(channels=0)
    with pytest.raises(AirflowFailException, match="channels: "):
        task.execute({})


#: A job that ends as it is told to, before Spark starts.
FAILS = """
import sys
from evenkeel_spark.runtime import command
from partitioning.errors import InputError, UnreachableError

def _body(spark, table, options):
    raise {raises}

command.session = command.check_log_store = lambda *_: None
sys.exit(command.run_job(command.parser("job", run=True), _body))
"""


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
    monkeypatch.setattr("evenkeel_airflow.tasks.gauge", gauges.__setitem__)
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


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_table_broken_by_hand_is_repaired(
    ready: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_spark.tables.delta import constraints

    monkeypatch.setenv("EVENKEEL_TABLES", str(ready.folder))
    rows, path = _rows(ready, spark), ready.table.spec.state["totals"].path
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT evenkeel_epoch_0")
    spark.sql(f"UPDATE delta.`{path}` SET channel = (channel + 1) % 4 WHERE slot < 9")
    broken = _rows(ready, spark)
    assert broken != rows
    assert dag_of("repair_trips").test(run_conf={"dry_run": True}).state == "success"
    assert _rows(ready, spark) == broken
    assert constraints.our_constraints(spark, path) == set()
    assert dag_of("repair_trips").test().state == "success"
    assert _rows(ready, spark) == rows
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}


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
    return set(registry.store.names(f"runs/{find_folder(registry.store, run.dag_id, run.run_id)}"))


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


@pytest.mark.parametrize("job", ["migrate", "maintain"])
def test_the_error_of_another_try_or_job_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """What an earlier try, or another job of the run, left says nothing of one that was killed."""
    shop = Shop(tmp_path)
    run = "r" if job == "migrate" else None
    arguments = {"--spec": shop.spec} | ({"--run": run} if run else {})

    def execute(self: Any, context: Any) -> None:
        raise AirflowException("Cannot execute: spark-submit. Error code is: 137.")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)

    def ends(left_by: str, attempt: str) -> bool:
        """Whether the task ends for good."""
        leave_error(shop.registry, left_by, run, attempt, InputError("is wrong", "registry"))
        task = SparkJob(task_id=job, job=job, arguments=arguments)
        task.application_args[-1] = "this"
        with pytest.raises(AirflowException) as caught:
            task.execute({})
        final = isinstance(caught.value, AirflowFailException)
        assert str(caught.value) == "registry: is wrong" or not final
        return final

    assert ends(job, "this")
    assert not ends(job, "another")
    if run:
        assert not ends("verify", "this")
        shop.registry.run("r").write("error.json", b"{torn")
    else:
        shop.registry.store.write("errors/maintain.json", b"{torn")
    task = SparkJob(task_id=job, job=job, arguments=arguments)
    with pytest.raises(AirflowException) as caught:
        task.execute({})
    assert not isinstance(caught.value, AirflowFailException)


def test_a_store_that_is_down_is_tried_again_and_what_is_wrong_is_not() -> None:
    down, wrong = StoreError("cannot be read", "registry"), InputError("is wrong", "registry")
    denied = DeniedError("read", "no rights", "registry")
    for error, final in ((down, False), (wrong, True), (denied, True)):
        with pytest.raises(AirflowException) as caught, one_line():
            raise error
        assert isinstance(caught.value, AirflowFailException) == final
