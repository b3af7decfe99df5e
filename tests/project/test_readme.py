"""The README's own commands and code, run as they stand."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from evenkeel.registry.epochs import Registry, TableVersion
from evenkeel.spec.loading import load_spec
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.planning.plan import make_plan
from partitioning.workload.profile import profile_of_keys
from tests.support.docs.readme import ROOT, TEXT, block, shell
from tests.support.docs.readme import sales as made_up

#: Commands of the console that are run here, by name alone; test_newcomer runs jobs.
PLAIN = ("check", "cost", "epochs", "locate", "runs", "show", "sql")


@pytest.fixture
def sales(tmp_path, monkeypatch):
    """The folder of the README's spec, as it stands, with events, an epoch and a plan."""
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "sales.yaml").write_text(block("yaml"))
    function = PartitioningFunction(
        (KeyColumn("product", "string"),), numbered_channels(16), np.arange(4096) % 16
    )
    lake = tmp_path / "lake" / "sales"
    lake.mkdir(parents=True)
    made_up(lake / "day.parquet", 7)
    registry = Registry(load_spec(tables / "sales.yaml").registry)
    registry.publish(function, {"sales": TableVersion("state", 1)})
    load = 1.0 / np.arange(1, 301)
    profile = profile_of_keys(function.key, np.arange(300) * 2**50, load, 4096, threshold=0.1)
    registry.run("day").plan.write(make_plan("sales", profile, function, function.channels))
    monkeypatch.setenv("EVENKEEL_TABLES", str(tables))
    return tables


def test_it_is_read_in_one_go():
    assert len(TEXT.splitlines()) < 120


def test_the_spec_is_good(tmp_path):
    file = tmp_path / "tables" / "sales.yaml"
    file.parent.mkdir()
    file.write_text(block("yaml"))
    spec = load_spec(file)
    assert spec.channels == 16
    # Nothing of it is on a store, which would need settings that the README does not have.
    places = [spec.input.path, spec.registry, *(state.path for state in spec.state.values())]
    assert [p for p in places if not Path(p).resolve().is_relative_to(tmp_path / "lake")] == []


@pytest.mark.spark
def test_the_python_runs(sales, spark):
    names = {"rows": spark.createDataFrame([("teapot", 1), ("kettle", 2)], "product string, n int")}
    exec(compile(block("python"), "README.md", "exec"), names)
    routed = {r["product"]: r["channel"] for r in names["rows"].collect()}
    expected = names["epoch"].lookup(["teapot", "kettle"]).tolist()
    assert [routed["teapot"], routed["kettle"]] == expected
    assert names["rows"].rdd.getNumPartitions() == 16


def evenkeel(folder, *words, form="json", **variables):
    """What a command of the console prints to a reader, in a folder."""
    done = subprocess.run(
        [ROOT / ".venv/bin/evenkeel", *words, "--format", form],
        cwd=folder,
        env={**shell(), **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("command", re.findall(rf"evenkeel (?:{'|'.join(PLAIN)})\b[^`]*", TEXT))
def test_the_console_commands_run(sales, command):
    values = {"SPEC": "tables/sales.yaml", "TABLE": "sales", "[EPOCH]": "0", "KEY...": "tea"}
    values["[RUN]"] = "day"
    words = [values.get(word, word) for word in command.split()[1:]]
    assert json.loads(evenkeel(sales.parent, *words))


def test_each_command_is_run():
    named = set(re.findall(r"evenkeel ([a-z_]+)[ `]", TEXT))
    assert named == {*PLAIN, "doctor", "backtest", "job"}


@pytest.mark.airflow
def test_the_doctor_finds_nothing_wrong_after_the_steps(sales):
    told = evenkeel(
        sales.parent,
        "doctor",
        AIRFLOW_HOME=str(sales.parent / "airflow"),
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW_CONN_SPARK_DEFAULT="spark://local",
    )
    found = {row["what"]: row["status"] for row in json.loads(told)}
    assert found["sales: input"] == found["sales: registry"] == "ok"


def test_the_backtest_runs(tmp_path):
    (asked,) = re.findall(r"evenkeel (backtest sales\.parquet.*?)`", TEXT, re.S)
    made_up(tmp_path / "sales.parquet", 21)
    lines = evenkeel(tmp_path, *asked.split(), form="jsonl").splitlines()
    scores = [json.loads(line) for line in lines]
    assert len(scores) == 2 * 4
    assert {s["strategy"] for s in scores} == {"frontier", "consistent", "readj", "elb"}


def test_the_make_targets_are_there():
    wanted = set(re.findall(r"(?:^|`)make (\w+)", TEXT, re.M))
    assert {"run", "test", "bench"} <= wanted
    for target in wanted:
        done = subprocess.run(
            [shutil.which("make"), "-n", "-o", "setup", target], cwd=ROOT, capture_output=True
        )
        assert done.returncode == 0, target


def test_files_that_it_points_to_are_there():
    # Pages of the repository's host, such as the state of its tests, are no files.
    links = [link for link in re.findall(r"\]\(([^)#:]+)\)", TEXT) if "/actions/" not in link]
    assert len(links) > 15
    assert [file for file in links if not (ROOT / file).exists()] == []
