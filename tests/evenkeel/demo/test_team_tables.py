"""The tables that the demo adopts: as a team has them, and nothing of Evenkeel in them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from evenkeel.demo.airflow.load_tables import create_incomplete_tables
from evenkeel.demo.progress import View
from evenkeel.demo.team_tables import check_team_tables, write_team_tables
from evenkeel.spec.loading import load_spec
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from partitioning.errors import InputError, MissingExtraError


def _spec(folder: Path, state: str) -> TableSpec:
    first = datetime(2024, 1, 1, tzinfo=UTC)
    flights = {
        "tailnum": ["N1", "N1", None, "N2", "N3"],
        "time_hour": [first + timedelta(days=days) for days in (0, 1, 1, 6, 7)],
    }
    pq.write_table(pa.table(flights), folder / "flights.parquet")
    file = folder / "aircraft.yaml"
    file.write_text(
        "table: aircraft\nkey: [tailnum]\ninput: {path: flights.parquet, time: time_hour}\n"
        f"window: 7\nstate: {state}\nregistry: registry\nchannels: 2\n"
    )
    return load_spec(str(file))


def test_tables_are_written_as_a_team_has_them(tmp_path: Path) -> None:
    tables = "{flights: {path: lake/flights, rows: many}, planes: {path: lake/planes, rows: one}}"
    spec = _spec(tmp_path, tables)
    write_team_tables(spec)
    flights = DeltaTable(spec.state["flights"].path).to_pyarrow_table()
    # One flight has no aircraft, and one came after the first window.
    assert flights["tailnum"].to_pylist() == ["N1", "N1", "N2"]
    planes = DeltaTable(spec.state["planes"].path).to_pyarrow_table()
    assert planes.num_rows == len(set(planes["tailnum"].to_pylist())) == 3_322
    assert not {"slot", "channel"} & {*flights.column_names, *planes.column_names}


def test_nothing_is_written_for_a_table_that_bootstrap_makes(tmp_path: Path) -> None:
    made = "{flights: {path: lake/flights, columns: {seen: {merge: count}}}}"
    write_team_tables(_spec(tmp_path, made))
    assert not (tmp_path / "lake").exists()


def test_a_table_that_the_demo_lacks_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = _spec(tmp_path, "{orders: {path: lake/orders, rows: many}}")
    with pytest.raises(InputError, match="flights, planes, found the state table 'orders'"):
        check_team_tables(spec)
    orders = DeltaTable.create(spec.state["orders"].path, pa.schema([("tailnum", pa.string())]))
    spark, specs = Mock(), {tmp_path / "aircraft.yaml": Table(spec)}
    with create_incomplete_tables(specs, tmp_path, {}, spark, View()):
        pass
    assert "aircraft: not changed (expected one of flights, planes" in capsys.readouterr().out
    assert DeltaTable(orders.table_uri).version() == 0 and not spark.mock_calls


def test_a_package_that_is_missing_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    spec = _spec(tmp_path, "{flights: {path: lake/flights, rows: many}}")
    with pytest.raises(MissingExtraError, match="deltalake is not installed.*pip install"):
        check_team_tables(spec)
