"""The tables that the demo adopts: which it can make, and where their files are."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from evenkeel.demo import replay, team_tables
from evenkeel.demo.airflow.load_tables import create_incomplete_tables
from evenkeel.demo.progress import View
from evenkeel.demo.team_tables import catalog_settings, check_team_tables, files_of
from evenkeel.local_env import ROOT
from evenkeel.spec.loading import load_spec
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from partitioning.errors import InputError


def _spec(folder: Path, state: str) -> TableSpec:
    file = folder / "aircraft.yaml"
    file.write_text(
        "table: aircraft\nkey: [tailnum]\ninput: {path: flights.parquet, time: time_hour}\n"
        f"state: {{{state}}}\nregistry: registry\nchannels: 2\n"
    )
    return load_spec(str(file))


FLIGHTS = "flights: {path: demo.fleet.flights, format: iceberg, rows: many}"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("orders: {path: demo.fleet.orders, format: iceberg, rows: many}", "table 'orders', demo"),
        (FLIGHTS.replace("demo.fleet", "lake.sales"), "table 'flights', lake.sales.flights"),
        ("flights: {path: lake/flights, rows: many}", "found the state table 'flights'"),
    ],
)
def test_a_table_that_the_demo_does_not_make_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], state: str, said: str
) -> None:
    spec = _spec(tmp_path, state)
    with pytest.raises(InputError, match=f"expected flights and planes in .*{said}"):
        check_team_tables(spec)
    spark, specs = Mock(), {tmp_path / "aircraft.yaml": Table(spec)}
    with create_incomplete_tables(specs, tmp_path, {}, spark, View()):
        pass
    assert "aircraft: not changed" in capsys.readouterr().out
    assert not spark.mock_calls


def test_a_spark_without_iceberg_is_told_before_anything_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_tables, "ROOT", tmp_path)
    with pytest.raises(InputError, match="needs Iceberg.*--tables flights,carriers"):
        check_team_tables(_spec(tmp_path, FLIGHTS))
    (tmp_path / ".jars").mkdir()
    (tmp_path / ".jars" / "iceberg-spark-runtime-4.1_2.13-1.12.0.jar").touch()
    check_team_tables(_spec(tmp_path, FLIGHTS))


def test_a_replay_removes_the_tables_of_its_own_catalog_alone(tmp_path: Path) -> None:
    spec = _spec(tmp_path, FLIGHTS)
    folder = tmp_path / "lake" / "fleet" / "flights"
    assert files_of(spec.state["flights"], tmp_path) == str(folder)
    folder.mkdir(parents=True)
    replay.clear(Table(spec), tmp_path)
    assert not folder.exists() and folder.parent.exists()
    other = _spec(tmp_path, FLIGHTS.replace("demo.", "lake."))
    with pytest.raises(InputError, match="lake.fleet.flights must be inside"):
        replay.clear(Table(other), tmp_path)


def test_spark_has_the_tables_in_the_folder_of_the_replay() -> None:
    defaults = (ROOT / "setup" / "spark.sh").read_text()
    pattern = r"^spark\.sql\.catalog\.(\w+)\.warehouse +\$PWD/.run/lake$"
    (name,) = re.findall(pattern, defaults, re.M)
    folder = Path("/a b")
    assert catalog_settings(folder, {"PYSPARK_SUBMIT_ARGS": "--master x pyspark-shell"}) == {
        "PYSPARK_SUBMIT_ARGS": f"--conf 'spark.sql.catalog.{name}.warehouse=/a b/lake' "
        "--master x pyspark-shell"
    }
