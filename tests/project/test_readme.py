"""The README's own commands and code, run as they stand."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evenkeel.registry.epochs import Registry, TableVersion
from evenkeel.spec.loading import load_spec
from partitioning.function.function import KeyColumn, PartitioningFunction, numbered_channels
from tests.support.docs.readme import ROOT, TEXT, block


@pytest.fixture
def sales(tmp_path, monkeypatch):
    """The folder of the README's spec, as it stands, with an epoch in its registry."""
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "sales.yaml").write_text(block("yaml"))
    function = PartitioningFunction(
        (KeyColumn("product", "string"),), numbered_channels(16), np.arange(4096) % 16
    )
    registry = load_spec(tables / "sales.yaml").registry
    Registry(registry).publish(function, {"sales": TableVersion("state", 1)})
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


@pytest.mark.parametrize(
    "command", re.findall(r"evenkeel (?:check|epochs|show|locate)\b[^\n`]*?(?=  |$|`)", TEXT, re.M)
)
def test_the_console_commands_run(sales, command):
    command = re.sub(r"\(.*", "", command)
    values = {"SPEC": str(sales / "sales.yaml"), "TABLE": "sales", "[EPOCH]": "0", "KEY...": "tea"}
    words = [values.get(w, w.replace("tables/", f"{sales}/")) for w in command.split()[1:]]
    done = subprocess.run(
        [sys.executable, "-c", "from evenkeel.cli import main; main()", *words, "--format", "json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_the_make_targets_are_there():
    wanted = set(re.findall(r"make (\w+)", TEXT))
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
