"""The data that a replay takes: the flights, or files of one's own."""

from __future__ import annotations

import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenkeel.demo.flights import FLIGHTS_IN_FILE, write_flights
from evenkeel.demo.team_tables import files_of
from evenkeel.demo.user_data import input_days, own_spec, shipped_spec
from evenkeel.local_env import ROOT
from evenkeel.table import open_table
from partitioning.errors import DamagedError, InputError


def test_flights_are_typed_and_complete(tmp_path: Path) -> None:
    file = tmp_path / "data" / "flights.parquet"
    assert write_flights(file) == FLIGHTS_IN_FILE
    table = pq.read_table(file)
    assert table.schema.field("time_hour").type == pa.timestamp("us", tz="UTC")
    assert table.schema.field("distance").type == pa.int32()
    assert (table["tailnum"].null_count, table["dest"].null_count) == (2512, 0)
    assert [p.name for p in file.parent.iterdir()] == ["flights.parquet"]


def test_another_file_is_not_the_flights(tmp_path: Path) -> None:
    source = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("flights.csv", "year,month\n2013,1\n")
    with pytest.raises(DamagedError, match=r"flights\.csv\.zip: cannot be read"):
        write_flights(tmp_path / "flights.parquet", source)


def _own(folder: Path, values: Any, key: str = "sku,shop", time: str = "at") -> Path:
    file = folder / "my sales 2024.parquet"
    pq.write_table(pa.table({"sku": ["a", "b"], "shop": [1, 2], "at": values}), file)
    return own_spec(str(file), key, time, 7, folder)


@pytest.mark.parametrize(
    "values",
    [
        [datetime(2024, 5, 6, 7), datetime(2024, 5, 4, 23)],
        [date(2024, 5, 6), date(2024, 5, 4)],
    ],
)
def test_own_data_becomes_a_spec(tmp_path: Path, values: Any) -> None:
    table = open_table(str(_own(tmp_path, values)))
    assert table.spec.table == "my_sales_2024"
    assert table.spec.key == ["sku", "shop"]
    assert table.spec.window == 7
    assert Path(table.spec.registry).is_relative_to(tmp_path)
    assert input_days(table)[0] == date(2024, 5, 4)


@pytest.mark.parametrize(
    "values",
    [
        [date(2024, 5, 4), date(9999, 12, 31)],
        pa.array([datetime(2024, 5, 4), datetime(2099, 12, 31)], pa.timestamp("us", "UTC")),
        pa.array([datetime(2024, 5, 4), datetime(2099, 12, 31)], pa.timestamp("ms")),
    ],
)
def test_a_day_to_come_is_not_the_last(tmp_path: Path, values: Any) -> None:
    days = input_days(open_table(str(_own(tmp_path, values))))
    assert days == (date(2024, 5, 4), date(2024, 5, 4))


@pytest.mark.parametrize(
    ("values", "time", "said"),
    [
        ([date(2099, 12, 31), date(9999, 12, 31)], "at", "at has no day that is over"),
        (["2024-05-06", "2024-05-04"], "at", "at must be a date or timestamp, found text"),
        (
            pa.array(["2024-05-06", "2024-05-04"], pa.large_string()),
            "at",
            "at must be a date or timestamp, found text",
        ),
        (["2024-05-06", "2024-05-04"], "when", "when cannot be read as dates"),
        (pa.nulls(2, pa.date32()), "at", "at has no dates"),
        (pa.nulls(2), "at", "at has no dates"),
        (
            [1_700_000_000, 1_700_086_400],
            "at",
            "at must be a date or timestamp, found int64. Store it as a date or timestamp$",
        ),
        (pa.array([1.5, 2.5]), "at", "at must be a date or timestamp, found double. Store it"),
        (
            pa.array([1, 2], pa.time64("us")),
            "at",
            r"at must be a date or timestamp, found time64\[us\]. Store it",
        ),
        (pa.array([-(2**62), 0], pa.timestamp("us")), "at", "outside of the years 1 to 9999"),
        (pa.array([-(10**7), 0], pa.date32()), "at", "outside of the years 1 to 9999"),
    ],
)
def test_own_data_without_days_is_refused(
    tmp_path: Path, values: Any, time: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        input_days(open_table(str(_own(tmp_path, values, time=time))))


def test_a_folder_of_parquet_is_read_as_parquet(tmp_path: Path) -> None:
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / ".notes.csv").write_text("")
    pq.write_table(
        pa.table({"sku": ["a"], "at": [date(2024, 5, 4)]}), tmp_path / "sales" / "1.parquet"
    )
    table = open_table(str(own_spec(str(tmp_path / "sales"), "sku", "at", 7, tmp_path)))
    assert table.spec.input.format == "parquet"
    assert input_days(table)[0] == date(2024, 5, 4)


def test_a_folder_of_csv_is_read_as_csv(tmp_path: Path) -> None:
    (tmp_path / "sales").mkdir()
    for beside in ("._1.txt.swp", ".1.csv.crc", "_SUCCESS"):
        (tmp_path / "sales" / beside).write_text("")
    (tmp_path / "sales" / "1.csv").write_text("sku,at\na,2024-05-04\nb,2024-05-06\n")
    table = open_table(str(own_spec(str(tmp_path / "sales"), "sku", "at", 7, tmp_path)))
    assert table.spec.input.format == "csv"
    assert input_days(table)[0] == date(2024, 5, 4)
    for wrong, said in (
        ("sku,at\na,soon\nb,later\n", "at cannot be read as dates"),
        (
            "sku,at\na,1700000000\n",
            "at must be a date or timestamp, found int64. Write it as 2013-01-31 or",
        ),
    ):
        (tmp_path / "sales" / "1.csv").write_text(wrong)
        with pytest.raises(InputError, match=said):
            input_days(table)


@pytest.mark.parametrize(("key", "time"), [(None, "at"), ("sku", None)])
def test_own_data_needs_key_and_time(tmp_path: Path, key: str | None, time: str | None) -> None:
    with pytest.raises(InputError, match="DATA needs KEY"):
        own_spec(str(tmp_path), key, time, 7, tmp_path)


@pytest.mark.parametrize("name", ["flights", "aircraft", "carriers"])
def test_a_replay_in_another_folder_keeps_to_it(tmp_path: Path, name: str) -> None:
    file = ROOT / "tables" / f"{name}.yaml"
    assert shipped_spec(name, ROOT / ".run") == file
    spec, before = (open_table(str(s)).spec for s in (shipped_spec(name, tmp_path), file))
    state = [files_of(s, tmp_path) for s in spec.state.values()]
    for path in (spec.input.path, spec.registry, *state):
        assert Path(path).is_relative_to(tmp_path)
    left_out = {"input", "registry", "state"}
    assert spec.model_dump(exclude=left_out) == before.model_dump(exclude=left_out)
