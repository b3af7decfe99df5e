"""Parquet inputs whose files differ: Spark alone would give nulls, or its own words."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from evenkeel.registry.store_errors import StoreError
from evenkeel_spark.events import parquet_files
from evenkeel_spark.events.parquet_files import check_file_columns
from evenkeel_spark.events.read_errors import reading
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.jobs.learn import learn
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.windows import day, rows, versions

pytestmark = pytest.mark.spark


def in_files(world: World, **changed: object) -> World:
    """Write the events of each day to a file of its own, of which some are changed.

    Parameters
    ----------
    changed : day, as d12 -> what becomes of its events
    """
    path, events = Path(world.folder) / "events.parquet", world.events
    path.unlink() if path.is_file() else shutil.rmtree(path)
    path.mkdir()
    for number, of_day in events.groupby(events["at"].dt.day):
        change = changed.get(f"d{number}", lambda frame: frame)
        change(of_day).to_parquet(  # type: ignore[operator]
            path / f"a day%20 {number:02}.parquet", index=False, coerce_timestamps="us"
        )
    return world


def renamed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns={"miles": "flown"})


def test_a_file_that_lacks_a_column_is_refused_before_its_window_is_added(
    spark: SparkSession, ready: World
) -> None:
    """The column was renamed at its source, and its sums would have missed these days for ever."""
    in_files(ready, d10=renamed, d13=renamed)
    before = versions(spark, ready)
    with pytest.raises(InputError, match=r"a day%20 10\.parquet.*lacks column 'miles'.*flown"):
        apply_window(spark, ready.table, day(8), day(11))
    assert versions(spark, ready) == before
    # Files of other days do not matter: a column may have come later.
    apply_window(spark, ready.table, day(8), day(10))
    assert versions(spark, ready) != before
    until = ready.events[ready.events["at"].dt.date < date(2013, 1, 10)]
    found = rows(spark, ready, "totals")["miles"].sum()
    assert found == until["miles"].sum()


def test_a_folder_above_the_input_names_no_column(spark: SparkSession, ready: World) -> None:
    """Spark finds partitions below the input alone."""
    in_files(ready, d10=renamed)
    above = Path(ready.folder) / "miles=3"
    above.mkdir()
    (Path(ready.folder) / "events.parquet").rename(above / "events.parquet")
    moved = ready.respec(input={"path": "miles=3/events.parquet", "time": "at"})
    with pytest.raises(InputError, match=r"a day%20 10\.parquet.*lacks column 'miles'.*flown"):
        apply_window(spark, moved.table, day(8), day(11))


def test_a_column_in_other_letters_is_the_same_in_each_session(
    spark: SparkSession, ready: World
) -> None:
    """Spark would read nulls of that file on a cluster that tells letters apart."""
    until = ready.events[ready.events["at"].dt.date < date(2013, 1, 11)]
    in_files(ready, d10=lambda frame: frame.rename(columns={"miles": "Miles"}))
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        apply_window(spark, ready.table, day(8), day(11))
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert rows(spark, ready, "totals")["miles"].sum() == until["miles"].sum()


def test_a_file_without_the_time_is_refused_where_events_without_one_are_dropped(
    spark: SparkSession, ready: World
) -> None:
    """All of its events would be dropped, and nothing would tell."""

    def with_null(frame: pd.DataFrame) -> pd.DataFrame:
        times = frame["at"].where(frame.index > frame.index[1])
        return frame.assign(at=times)

    in_files(ready.respec(null_times="drop"), d9=with_null)
    apply_window(spark, ready.table, day(8), day(10))
    file = Path(ready.folder) / "events.parquet" / "a day%20 11.parquet"
    pd.read_parquet(file).rename(columns={"at": "ts"}).to_parquet(file, index=False)
    before = versions(spark, ready)
    refused = r"a day%20 11\.parquet.*lacks column 'at'.*ts"
    with pytest.raises(InputError, match=refused):
        apply_window(spark, ready.table, day(10), day(12))
    with pytest.raises(InputError, match=refused):
        learn(spark, ready.table, end=day(12))
    assert versions(spark, ready) == before


def test_a_field_of_structs_in_an_array_is_looked_for(
    spark: SparkSession, ready: World, tmp_path: Path
) -> None:
    """Spark names the items of an array list.element; other writers have one name, or others."""
    nested = "array(array(struct(1 AS {})))"
    for folder, field in (("a", "x"), ("b", "X"), ("c", "y")):
        rows = spark.sql(f"SELECT array(struct(5 AS {field})) AS many, {nested.format(field)} AS n")
        rows.write.option("spark.sql.parquet.writeLegacyFormat", folder == "b").parquet(
            str(tmp_path / folder)
        )
    read = spark.read.schema("many ARRAY<STRUCT<x INT>>, n ARRAY<ARRAY<STRUCT<x INT>>>")
    check_file_columns(read.parquet(str(tmp_path / "a"), str(tmp_path / "b")), ready.table.spec)
    # Protobuf's writers have no name at all between an array and its items.
    assert parquet_files._has({("many",), ("many", "x")}, ("many", "", "x"))
    assert not parquet_files._has({("many",), ("many", "y")}, ("many", "", "x"))
    with pytest.raises(InputError, match=r"/c/.* lacks column 'many\.x', 'n\.x', .*element\.y"):
        check_file_columns(read.parquet(str(tmp_path / "a"), str(tmp_path / "c")), ready.table.spec)


def test_a_field_of_a_struct_is_looked_for(
    spark: SparkSession, ready: World, tmp_path: Path
) -> None:
    """Spark gives a null for a renamed field of a struct, and says nothing."""
    for folder, field in (("a", "zip"), ("b", "ZIP"), ("c", "code")):
        rows = spark.sql(f"SELECT struct(5 AS {field}, array(struct(1 AS x)) AS many) AS place")
        rows.write.parquet(str(tmp_path / folder))
    read = spark.read.schema("place STRUCT<Zip INT, many ARRAY<STRUCT<x INT>>>")
    check_file_columns(read.parquet(str(tmp_path / "a"), str(tmp_path / "b")), ready.table.spec)
    events = read.parquet(str(tmp_path / "a"), str(tmp_path / "c"))
    with pytest.raises(InputError, match=r"/c/.* lacks column 'place\.Zip', .* place\.code, place"):
        check_file_columns(events, ready.table.spec)


def test_a_column_that_folders_name_is_no_column_of_files(
    spark: SparkSession, world: World
) -> None:
    frame = world.events
    path = Path(world.folder) / "events.parquet"
    path.unlink()
    frame.assign(miles=frame["miles"] % 3).to_parquet(
        path, partition_cols=["miles"], coerce_timestamps="us", index=False
    )
    assert bootstrap(spark, world.table, date(2013, 1, 8))


def test_of_a_column_with_two_types_both_are_told(spark: SparkSession, ready: World) -> None:
    in_files(ready, d10=lambda frame: frame.assign(miles=frame["miles"].astype(str)))
    with pytest.raises(InputError, match=r"10\.parquet.*column 'miles' is BINARY, and int in"):
        apply_window(spark, ready.table, day(8), day(11))


def test_a_file_that_goes_while_it_is_read_is_no_damaged_file(
    spark: SparkSession, ready: World
) -> None:
    in_files(ready)
    events = spark.read.parquet(ready.table.spec.input.path)
    next((Path(ready.folder) / "events.parquet").glob("*05.parquet")).unlink()
    with (
        pytest.raises(StoreError, match="the input has changed meanwhile"),
        reading(ready.table.spec),
    ):
        events.agg({"miles": "sum"}).collect()
