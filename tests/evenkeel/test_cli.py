"""The console: what it answers for people and machines, and its errors."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date, datetime

import numpy as np
import pytest
import yaml

import evenkeel as package
from evenkeel.registry.epochs import Registry, TableVersion
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.function.split import Split
from partitioning.function.sql import channel_sql, slot_sql


@pytest.fixture
def tables(tmp_path):
    spec = {
        "table": "trips",
        "key": ["dest", "day"],
        "input": {"path": "in.parquet"},
        "state": {"trips": {"path": "state", "columns": {"n": {"merge": "count"}}}},
        "registry": "registry",
        "channels": 3,
    }
    (tmp_path / "trips.yaml").write_text(yaml.safe_dump(spec))
    function = PartitioningFunction(
        (KeyColumn("dest", "string"), KeyColumn("day", "date")),
        numbered_channels(3),
        np.arange(64) % 3,
        strategy="uniform",
    )
    Registry(str(tmp_path / "registry")).publish(function, {"trips": TableVersion("state", 1)})
    return tmp_path, function


def evenkeel(folder, *arguments, columns=120):
    return subprocess.run(
        [sys.executable, "-c", "from evenkeel.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        env={"EVENKEEL_TABLES": str(folder), "PATH": "", "COLUMNS": str(columns)},
        timeout=60,
    )


def test_check_epochs_show(tables):
    folder, function = tables
    checked = evenkeel(folder, "check", str(folder / "trips.yaml"), "--format", "json")
    assert json.loads(checked.stdout)["channels"] == 3
    (listed,) = json.loads(evenkeel(folder, "epochs", "trips", "--format", "json").stdout)
    assert (listed["epoch"], listed["strategy"]) == (0, "uniform")
    shown = json.loads(evenkeel(folder, "show", "trips", "--format", "json").stdout)
    assert shown["digest"] == function.digest
    assert sum(o["slots"] for o in shown["owned"]) == 64
    assert "uniform" in evenkeel(folder, "show", "trips", "0").stdout


@pytest.mark.parametrize("columns", [80, 60])
def test_a_narrow_console_does_not_cut_the_time_of_an_epoch(tables, columns):
    folder, _ = tables
    (fact,) = json.loads(evenkeel(folder, "epochs", "trips", "--format", "json").stdout)
    shown = evenkeel(folder, "epochs", "trips", columns=columns).stdout
    assert "published (UTC)" in shown
    assert f" {datetime.fromisoformat(fact['published']):%Y-%m-%d %H:%M} " in shown


def test_epochs_says_where_there_is_no_registry(tables):
    folder, _ = tables
    (folder / "registry").rename(folder / "elsewhere")
    listed = evenkeel(folder, "epochs", "trips")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.startswith(f"no epoch is published yet in {folder / 'registry'}: ")
    assert evenkeel(folder, "epochs", "trips", "--format", "json").stdout == "[]\n"


def test_version_is_that_of_the_package(tables):
    asked = evenkeel(tables[0], "--version")
    assert (asked.returncode, asked.stdout) == (0, f"evenkeel {package.__version__}\n")


def test_check_notes_a_file_that_is_not_named_as_its_table(tables):
    folder, _ = tables
    assert not evenkeel(folder, "check", "trips").stderr
    (folder / "trips.yaml").rename(folder / "01-trips.yaml")
    for given in (str(folder / "01-trips.yaml"), "trips"):
        checked = evenkeel(folder, "check", given, "--format", "json")
        assert checked.returncode == 0 and json.loads(checked.stdout)["table"] == "trips"
        assert "know the table as 'trips', and refuse '01-trips'" in checked.stderr
    assert evenkeel(folder, "epochs", "01-trips").returncode == 2


def test_sql_is_the_expressions_of_the_epoch(tables):
    folder, function = tables
    slot, channel = slot_sql(function.key, 64), channel_sql(function)
    printed = evenkeel(folder, "sql", "trips").stdout
    assert printed == f"{slot} AS slot,\n{channel} AS channel\n"
    answer = json.loads(evenkeel(folder, "sql", "trips", "0", "--format", "json").stdout)
    assert answer == {"epoch": 0, "slot": slot, "channel": channel}
    assert evenkeel(folder, "sql", "trips", "--dialect", "spark").stdout == printed
    refused = evenkeel(folder, "sql", "trips", "7")
    assert (refused.returncode, refused.stdout) == (2, "") and "7" in refused.stderr


@pytest.mark.parametrize(
    ("dialect", "why"),
    [
        ("duckdb", "DuckDB has no xxhash64"),
        ("polars", "Polars has no xxhash64"),
        ("Trino", "Trino's xxhash64 takes no seed"),
        ("presto", "its hash is not known to equal Spark's xxhash64"),
    ],
)
def test_sql_of_another_dialect_is_refused_with_why_and_what_to_do(tables, dialect, why):
    folder, _ = tables
    refused = evenkeel(folder, "sql", "trips", "--dialect", dialect)
    assert (refused.returncode, refused.stdout) == (2, "")
    (line,) = refused.stderr.splitlines()
    assert f"expected the dialect spark, got {dialect!r}: {why}" in line
    assert "--dialect" in line and "evenkeel locate" in line


def test_locate_agrees_with_the_function(tables):
    folder, function = tables
    answer = evenkeel(
        folder, "locate", "trips", "ORD,2013-01-01", "JFK,2013-02-01", "--format", "json"
    )
    owners = function.lookup(["ORD", "JFK"], [date(2013, 1, 1), date(2013, 2, 1)])
    assert [a["number"] for a in json.loads(answer.stdout)] == owners.tolist()


def test_a_key_may_be_below_zero_and_an_option_misspelt_is_no_key(tables):
    folder, _ = tables
    spec = yaml.safe_load((folder / "trips.yaml").read_text())
    spec |= {"table": "runs", "key": ["id"], "registry": "runs"}
    (folder / "runs.yaml").write_text(yaml.safe_dump(spec))
    function = PartitioningFunction(
        (KeyColumn("id", "bigint"),), numbered_channels(3), np.arange(64) % 3, strategy="uniform"
    )
    Registry(str(folder / "runs")).publish(function, {"trips": TableVersion("state", 1)})
    answer = evenkeel(folder, "locate", "runs", "-5", "7", "--epoch", "0", "--format", "json")
    found = [(a["key"], a["number"]) for a in json.loads(answer.stdout)]
    owners = function.lookup([-5, 7]).tolist()
    assert found == [("-5", owners[0]), ("7", owners[1])]
    for wrong in ("--epcoh", "-x"):
        misspelt = evenkeel(folder, "locate", "runs", "-5", wrong)
        assert misspelt.returncode == 2 and f"No such option: {wrong}" in misspelt.stderr


def test_locate_names_every_channel_of_a_split_key(tables):
    folder, function = tables
    day = date(2013, 1, 1)
    (h,) = key_hash([["ORD"], [day]], [c.type for c in function.key]).tolist()
    split = replace(
        function,
        split=Split.of({h: {0: 1.0, 1: 3.0}}),
        row=KeyColumn("id", "bigint"),
        epoch=1,
        parent=function.digest,
    )
    Registry(str(folder / "registry")).publish(split, {})
    answer = evenkeel(folder, "locate", "trips", "ORD,2013-01-01", "--format", "json")
    (found,) = json.loads(answer.stdout)
    names = [c.name for c in function.channels]
    assert found["channel"] == f"{names[1]} (75%), {names[0]} (25%)"
    assert (found["placed_by"], found["number"]) == ("split", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["epochs", "nope"], "there is no table 'nope'"),
        (["show", "trips", "9"], "there is no epoch 9"),
        (["locate", "trips", "ORD"], "has 1 columns, the table's has 2"),
        (["locate", "trips", "ORD,soon"], "not of type date"),
        (["check", "missing.yaml"], "cannot be read"),
    ],
)
def test_an_error_is_one_line_and_exit_2(tables, arguments, message):
    answer = evenkeel(tables[0], *arguments)
    assert answer.returncode == 2 and answer.stdout == ""
    assert message in answer.stderr and answer.stderr.count("\n") == 1


@pytest.mark.parametrize("asked", [["show", "trips"], ["locate", "trips", "ORD,2013-01-01"]])
def test_an_edited_epoch_is_refused(tables, asked):
    file = tables[0] / "registry/epochs/00000000/epoch.json"
    file.write_text(file.read_text().replace("uniform", "unlucky"))
    answer = evenkeel(tables[0], *asked)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "epoch.json" in answer.stderr and "digest" in answer.stderr


def test_help_names_every_command(tables):
    text = evenkeel(tables[0], "--help").stdout
    assert all(command in text for command in ("check", "epochs", "show", "locate", "backtest"))
