"""The doctor's rows on the places of a table: its input, its state and its registry."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from evenkeel.doctor import Status, stores
from tests.conftest import World

pytestmark = pytest.mark.filterwarnings("ignore")


def test_an_input_is_read(world: World, tmp_path: Path) -> None:
    events = str(tmp_path / "events.parquet")
    day = tmp_path / "input" / "day=1"
    day.mkdir(parents=True)
    assert stores.readable("input", str(tmp_path / "input")).status is Status.warning
    (day / "part.parquet").write_bytes(b"rows")
    for good in (events, str(tmp_path / "input"), str(tmp_path / "*.parquet")):
        assert stores.readable("input", good).status is Status.ok, good
    gone = stores.readable("input", str(tmp_path / "gone"))
    assert gone.status is Status.wrong and "gone" in gone.found and "input.path" in gone.fix


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_columns_that_an_input_lacks_are_named_with_their_fields(
    kind: str, world: World, tmp_path: Path
) -> None:
    trips = pq.read_table(tmp_path / "events.parquet")
    folder = tmp_path / "input" / "dest=XYZ"
    folder.mkdir(parents=True)
    without = trips.drop_columns(["dest", "miles"])
    if kind == "csv":
        csv.write_csv(without, folder / "part.csv")
    else:
        pq.write_table(without, folder / "part.parquet")
    world.respec(input={"path": str(folder.parent), "format": kind, "time": "hour"})
    found = stores.readable("input", str(folder.parent), world.table.spec)
    assert found.status is Status.wrong
    assert "there is no column 'hour' (input.time), 'miles' (state." in found.found
    assert "dest" in found.fix and "'dest'" not in found.found


def test_a_delta_table_that_is_read_by_its_files_is_wrong(world: World, tmp_path: Path) -> None:
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)
    world.respec(input={"path": "lake", "time": "at"})
    found = stores.readable("input", str(tmp_path / "lake"), world.table.spec)
    assert (found.status, found.fix) == (Status.wrong, "Set input.format to delta")


def test_a_table_of_a_team_that_is_not_there_is_wrong(world: World, tmp_path: Path) -> None:
    for name, there in (("lake", Status.ok), ("laek", Status.wrong)):
        (tmp_path / "lake" / "_delta_log").mkdir(parents=True, exist_ok=True)
        world.respec(state={"orders": {"path": name, "rows": "many"}})
        rows = {r.what: r.status for r in stores.look_at_table(world.table.spec, {})}
        assert rows["trips: state orders"] is there


def test_a_csv_that_only_spark_reads_is_no_fault(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    world.respec(input={"path": str(folder), "format": "csv", "time": "at"})
    head = ",".join(world.table.spec.input_columns).encode()
    marked, packed = b"\xef\xbb\xbf" + head + b"\n", b"\x1f\x8b\x08"
    for name, content in (("mark.csv", marked), ("part.csv.gz", packed)):
        (folder / name).write_bytes(content)
        found = stores.readable("input", str(folder), world.table.spec)
        assert found.status is Status.ok, (name, found)
        (folder / name).unlink()


def test_a_state_folder_and_a_registry_are_tried_and_left_clean(tmp_path: Path) -> None:
    for look in (stores.writable, stores.exclusive):
        assert look("place", str(tmp_path / "not" / "yet")).status is Status.ok
        (tmp_path / "file").write_text("a file, and no folder")
        wrong = look("place", str(tmp_path / "file"))
        assert wrong.status is Status.wrong and "file" in wrong.found and wrong.fix
        assert look("place", "no-such-store://x").status is Status.wrong
        (tmp_path / "file").unlink()
        assert list(tmp_path.iterdir()) == []


def test_only_the_registry_cannot_be_on_hadoops_own_address() -> None:
    place = "hdfs://namenode:8020/lake/x"
    for look in (stores.readable, stores.writable):
        # The doctor has not seen it, and says so.
        assert look("place", place).status is Status.warning
    registry = stores.exclusive("registry", place)
    assert registry.status is Status.wrong and "webhdfs://" in registry.found + registry.fix


@pytest.mark.parametrize("place", ["abfss://c@a.dfs.core.windows.net/x", "gs://lake/x"])
def test_a_place_that_spark_s_connector_reaches_needs_no_client_here(place: str) -> None:
    for look in (stores.readable, stores.writable):
        row = look("place", place)
        assert row.status is Status.warning and place.partition("/")[0] in row.fix, row
    # Evenkeel itself reads and writes the registry.
    assert stores.exclusive("registry", place).status is Status.wrong


def test_a_table_on_s3_needs_a_log_store() -> None:
    look = lambda conf: stores.log_store("log", "s3a://lake/state", conf)  # noqa: E731
    assert stores.log_store("log", "/data/state", {}).status is Status.ok
    assert look({}).status is Status.warning and "S3DynamoDBLogStore" in look({}).fix
    assert look({"spark.delta.logStore.s3a.impl": "x.Y"}).found == "x.Y"
    assert look({"spark.evenkeel.oneDriver": "true"}).status is Status.ok


@pytest.mark.parametrize(
    ("place", "default", "scheme"),
    [
        ("cosn://lake/state", None, "cosn"),
        ("/lake/state", "s3a://lake", "s3a"),
        ("/lake/state", "hdfs://namenode", None),
        ("gs://lake/state", None, None),
    ],
)
def test_a_store_that_delta_may_not_know_needs_one_too(
    place: str, default: str | None, scheme: str | None
) -> None:
    conf = {} if default is None else {"spark.hadoop.fs.defaultFS": default}
    row = stores.log_store("log", place, conf)
    assert (row.status is Status.ok) == (scheme is None)
    assert scheme is None or f"spark.delta.logStore.{scheme}.impl" in row.fix


def test_a_place_that_cannot_be_looked_at_is_no_trace(tmp_path: Path) -> None:
    """A name that is too long fails for root, too, as a closed folder does for others."""
    place = str(tmp_path / ("n" * 300) / "state")
    assert stores.existing(place) == str(tmp_path)


def test_an_input_that_is_no_delta_table_is_wrong(world: World, tmp_path: Path) -> None:
    world.respec(input={"path": "lake", "format": "delta", "time": "at"})
    (tmp_path / "lake").mkdir()
    found = stores.readable("input", str(tmp_path / "lake"), world.table.spec)
    assert (found.status, found.fix) == (Status.wrong, "Correct input.path or input.format")
    (tmp_path / "lake" / "_delta_log").mkdir()
    found = stores.readable("input", str(tmp_path / "lake"), world.table.spec)
    assert found.status is not Status.wrong


def test_a_pattern_of_hadoops_own_is_not_called_wrong(tmp_path: Path) -> None:
    found = stores.readable("input", f"{tmp_path}/{{2025,2026}}/*.parquet")
    assert found.status is Status.warning and "only jobs" in found.found


@pytest.mark.parametrize("scheme", ["s3", "s3n", "s3a"])
def test_a_place_of_jobs_on_s3_is_written_as_s3a(world: World, scheme: str) -> None:
    world.respec(input={"path": f"{scheme}://lake/clicks", "time": "at"})
    rows = {row.what: row for row in stores.look_at_table(world.table.spec, {})}
    row = rows.get(f"trips: connector of {scheme}")
    assert (row is not None and "Write s3a://" in row.fix) == (scheme != "s3a")
    conf = {f"spark.hadoop.fs.{scheme}.impl": "x"}
    named = {row.what for row in stores.look_at_table(world.table.spec, conf)}
    assert f"trips: connector of {scheme}" not in named
