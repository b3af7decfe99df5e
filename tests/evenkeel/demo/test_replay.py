"""The replay: a table's run whose processes are stand-ins, and its rounds."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenkeel.demo import replay, spark_process
from evenkeel.demo import table_run as table_runs
from evenkeel.demo.progress import View, summarize
from evenkeel.demo.schedule import fit
from evenkeel.demo.spark_process import SparkProcess
from evenkeel.demo.table_run import StepFailed, TableRun
from evenkeel.local_env import ROOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import open_table
from partitioning.errors import DamagedError, InputError
from tests.support.raw_json import write_json
from tests.support.worlds.shop import Shop

PLANS = {"before adoption": ["Exchange hashpartitioning(key, 2)"], "adopted": ["BatchScan t"]}
#: Stands in for the program that keeps a Spark up: it is up at once, or ends.
SERVER = """
import json, os, pathlib, sys, time
if {code}:
    print("no Java")
    sys.exit({code})
pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
told = dict(server=os.getpid(), port=0, secret="", versions="")
(pathlib.Path(sys.argv[1]) / "address.json").write_text(json.dumps(told))
time.sleep(600)
"""
AIRFLOW = """
import json, sys
from evenkeel.pipeline import steps
asked = json.loads(sys.argv[sys.argv.index("-c") + 1])
print("[DAG TEST] starting task_id=decide map_index=-1")
if {fail}:
    print("airflow says a great deal")
    print("evenkeel: error: the window is empty")
    sys.exit(1)
sys.path.insert(0, {tests!r})
from tests.support.worlds.shop import Registry, Shop, words_profile
shop = Shop.__new__(Shop)
shop.__dict__.update({shop!r})
shop.profile, shop.registry = words_profile(seed=hash(asked["window_end"]) % 7), Registry(shop.home)
shop.publish("run-" + asked["window_end"], force=asked["force"])
"""


def test_nothing_outside_the_folder_is_removed(tmp_path: Path) -> None:
    """A spec of the checkout may be edited so that its files are elsewhere."""
    with pytest.raises(InputError, match="because a replay starts by removing it"):
        replay.clear(open_table(str(ROOT / "tables" / "flights.yaml")), tmp_path)


@pytest.mark.parametrize("asked", [["--rounds", "0"], ["--days", "0"], ["--tables", "nothing"]])
def test_wrong_arguments_are_one_line(
    tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay.main([*asked, "--folder", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("evenkeel: error: ")


@pytest.mark.parametrize(
    ("there", "days", "rounds", "found"),
    [
        (365, None, None, (28, 3)),
        (112, None, None, (28, 3)),
        (111, None, None, (27, 3)),
        (30, None, None, (7, 3)),
        (3, None, None, (1, 2)),
        (30, 7, None, (7, 3)),
        (30, 14, None, (14, 1)),
        (30, None, 1, (15, 1)),
        (112, 28, 3, (28, 3)),
    ],
)
def test_rounds_are_those_that_fit(
    there: int, days: int | None, rounds: int | None, found: tuple[int, int]
) -> None:
    first = date(2024, 1, 1)
    span = (first, first + timedelta(days=there - 1))
    assert fit(span, days, rounds, 3, "x") == found
    assert found[0] * (found[1] + 1) <= there


@pytest.mark.parametrize(
    ("there", "asked", "said"),
    [
        (
            30,
            ["--rounds", "3", "--days", "28"],
            "3 rounds of 28 days and as many days before them need 112 days, "
            "the input has 30 days. Try ARGS='--days 7'",
        ),
        (30, ["--days", "28"], "1 round of 28 days and as many days before them need 56 days"),
        (3, ["--rounds", "5"], "Try ARGS='--rounds 2 --days 1'"),
        (1, [], "A replay needs at least two days of input"),
    ],
)
def test_rounds_that_do_not_fit_are_one_line_and_remove_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: int, asked: list[str], said: str
) -> None:
    days = [date(2024, 5, 1) + timedelta(days=i) for i in range(there)]
    file = tmp_path / "sales.parquet"
    pq.write_table(pa.table({"sku": ["a"] * there, "at": days}), file)
    kept = tmp_path / "state" / "sales" / "kept"
    kept.mkdir(parents=True)
    given = ["--data", str(file), "--key", "sku", "--time", "at", "--folder", str(tmp_path)]
    assert replay.main([*given, *asked]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line and str(file) in line
    assert kept.exists()


def test_a_spec_learns_from_as_many_days_as_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [date(2024, 5, 1) + timedelta(days=i) for i in range(30)]
    file = tmp_path / "sales.parquet"
    pq.write_table(pa.table({"sku": ["a"] * 30, "at": days}), file)
    ran: list[tuple[Any, ...]] = []
    monkeypatch.setattr(TableRun, "run", lambda self, *given: ran.append((self.table.spec, *given)))
    # Airflow's database is not needed.
    monkeypatch.setattr(replay, "empty_database", lambda *_: tmp_path / "sales.parquet")
    given = ["--data", str(file), "--key", "sku", "--time", "at", "--folder", str(tmp_path)]
    replay.main([*given, "--format", "json"])
    ((spec, start, length, rounds),) = ran
    assert (start, length, rounds) == (date(2024, 5, 1), 7, 3)
    assert spec.window == 7


def test_a_second_replay_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with replay.folder_lock(tmp_path):
        assert replay.main(["--folder", str(tmp_path)]) == 2
    assert "another replay is running here" in capsys.readouterr().err


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkProcess]:
    """A Spark that is up, for jobs that do nothing."""
    server = tmp_path / "server.py"
    server.write_text(SERVER.format(code=0))
    monkeypatch.setattr(spark_process, "spark_server", lambda: str(server))
    monkeypatch.setattr(table_runs, "job_command", lambda *_: [sys.executable, "-c", "pass"])
    tell = f"print({json.dumps(json.dumps(PLANS))})"
    monkeypatch.setattr(table_runs, "demo_command", lambda _: [sys.executable, "-c", tell])
    with SparkProcess(tmp_path / "spark", {}, tmp_path / "spark.log") as made:
        yield made


def _table_run(folder: Path, spark: SparkProcess, fail: bool) -> TableRun:
    shop = Shop(folder)
    kept = {"folder": folder, "spec": shop.spec, "home": shop.registry.url}
    tests = str(Path(__file__).resolve().parents[3])
    programs = folder / "bin"
    programs.mkdir()
    code = AIRFLOW.format(fail=fail, tests=tests, shop=kept)
    code = code.replace("PosixPath(", "__import__('pathlib').Path(")
    (programs / "airflow").write_text(f"#!{sys.executable}\n{code}")
    (programs / "airflow").chmod(0o755)
    environment = {"PATH": str(programs), "PYTHONPATH": tests}
    home: Future[Path] = Future()
    home.set_result(folder / "airflow")
    return TableRun(
        table=open_table(shop.spec),
        spec=Path(shop.spec),
        home=home,
        logs=folder / "logs",
        spark=spark,
        environment=environment,
        force=True,
        say=View(quiet=True).say,
        stop=threading.Event(),
    )


def test_a_table_run_goes_through_its_rounds(tmp_path: Path, spark: SparkProcess) -> None:
    table_run = _table_run(tmp_path, spark, fail=False)
    table_run.run(date(2024, 1, 1), 7, 2)
    assert table_run.error is None
    found = summarize(table_run)
    assert found.passed
    assert [line.epoch for line in found.lines] == [1, 2]
    assert [line.window_end for line in found.lines] == ["2024-01-15", "2024-01-22"]
    first, second = found.lines
    assert first.next == second.before
    assert second.next is None
    assert sorted(p.name for p in table_run.logs.iterdir()) == [
        "01-bootstrap.log", "02-apply_window.log", "03-rebalance.log",
        "04-apply_window.log", "05-rebalance.log",
    ]  # fmt: skip


def test_a_teams_own_tables_are_adopted_and_get_no_events(
    tmp_path: Path, spark: SparkProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_run = _table_run(tmp_path, spark, fail=False)
    monkeypatch.setattr(TableSpec, "plain", True)
    table_run.run(date(2024, 1, 1), 7, 2)
    assert table_run.error is None and summarize(table_run).passed
    logs = sorted(p.name for p in table_run.logs.iterdir())
    assert summarize(table_run).plans == PLANS
    runs = ["03-rebalance.log", "04-rebalance.log"]
    assert logs == ["01-tables.log", "02-adopt.log", *runs, "05-join.log"]


def test_a_lane_tells_a_damaged_file_of_its_run(
    tmp_path: Path, spark: SparkProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_run = _table_run(tmp_path, spark, fail=False)
    real = TableRun._dag

    def damaged(self: TableRun, *asked: Any) -> None:
        real(self, *asked)
        (run,) = {*self.table.registry.store.names("runs")} - {"r"}
        write_json(self.table.registry.run(run), "decision.json", ["no decision"])

    monkeypatch.setattr(TableRun, "_dag", damaged)
    table_run.run(date(2024, 1, 1), 7, 1)
    assert isinstance(table_run.error, DamagedError)
    assert "decision.json: expected an object" in str(table_run.error)


def test_a_gate_that_failed_is_no_success(tmp_path: Path, spark: SparkProcess) -> None:
    table_run = _table_run(tmp_path, spark, fail=False)
    table_run.run(date(2024, 1, 1), 7, 1)
    (ran,) = table_run.rounds
    assert ran.parts.gate_tables is not None
    failed = ran.parts.gate_tables.model_copy(update={"success": False})
    table_run.rounds[0] = replace(ran, parts=replace(ran.parts, gate_tables=failed))
    assert not summarize(table_run).passed


def test_a_lane_that_fails_says_why_and_stops_the_others(
    tmp_path: Path, spark: SparkProcess
) -> None:
    table_run = _table_run(tmp_path, spark, fail=True)
    table_run.run(date(2024, 1, 1), 7, 2)
    assert isinstance(table_run.error, StepFailed)
    assert "decide failed with exit code 1" in str(table_run.error)
    assert table_run.error.tail == "evenkeel: error: the window is empty"
    assert table_run.stop.is_set()
    assert not summarize(table_run).passed


def test_a_spark_that_does_not_start_fails_the_first_job(
    tmp_path: Path, spark: SparkProcess
) -> None:
    (tmp_path / "server.py").write_text(SERVER.format(code=3))
    with SparkProcess(tmp_path / "other", {}, tmp_path / "other.log") as broken:
        table_run = _table_run(tmp_path, broken, fail=False)
        table_run.run(date(2024, 1, 1), 7, 1)
    assert isinstance(table_run.error, StepFailed)
    assert "Spark failed with exit code 3" in str(table_run.error)
    assert table_run.error.tail == "no Java"


def test_a_spark_ends_where_its_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER.format(code=0))
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from evenkeel.demo import spark_process\n"
        "spark_process.spark_server = lambda: sys.argv[1] + '/server.py'\n"
        "folder = Path(sys.argv[1])\n"
        "with spark_process.SparkProcess(folder / 'spark', {}, folder / 'log') as spark:\n"
        "    spark.wait(); print(spark.process.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        server = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    server.wait(60)


def test_a_replay_has_an_airflow_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://prod/airflow")
    monkeypatch.setenv("AIRFLOW_CONN_PROD", "secret")
    made = replay.airflow_environment(tmp_path, tmp_path)
    ours = {name: value for name, value in made.items() if name.startswith("AIRFLOW_")}
    assert ours["AIRFLOW__CORE__LOAD_EXAMPLES"] == "False"
    assert not {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW_CONN_PROD"} & set(ours)
