"""Parts of the fault injector that need no Spark: points, copies of tables, what is kept."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel_spark.tables.iceberg.table import IcebergTable
from tests.chaos.cases import CLAIMED, draw
from tests.chaos.formats import FORMATS
from tests.chaos.iceberg.copies import at_work, by_place, let_pass, make_place
from tests.chaos.kept import Kept
from tests.chaos.points import _label, stopped
from tests.conftest import SPEC, World

ORDERS = {"orders": {"path": "lake.db.orders", "format": "iceberg", "rows": "many"}}


class Listener:
    """In the place of a session: it lists the statements that it is given."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def sql(self, statement: str) -> Any:
        self.said.append(statement)
        return self

    def first(self) -> None:
        """Return no row."""


@pytest.mark.parametrize(
    ("statement", "label"),
    [
        ("ALTER TABLE {} CREATE BRANCH `evenkeel_a` AS OF VERSION 3", "CREATE BRANCH on orders"),
        ("ALTER TABLE {} RENAME COLUMN `slot_0` TO `slot_1`", "RENAME COLUMN on orders"),
        ("UPDATE {} SET `slot_0` = 1", "UPDATE on orders"),
        ("UPDATE {}.`branch_evenkeel_a` SET `slot_0` = 1", "UPDATE on orders"),
        ("MERGE INTO {}.`branch_evenkeel_a` s USING v ON TRUE", "MERGE on orders"),
        ("DELETE FROM {} t WHERE TRUE", "DELETE on orders"),
        ("SELECT * FROM {}", None),
    ],
)
def test_a_commit_to_an_iceberg_table_is_a_point(statement: str, label: str | None) -> None:
    table = IcebergTable(Listener(), "lake.db.orders")  # type: ignore[arg-type]
    assert _label(SparkSession, "sql", None, (statement.format(table.sql),)) == label


def test_a_procedure_that_the_jobs_call_is_a_point() -> None:
    spark = Listener()
    IcebergTable(spark, "lake.db.orders").call("fast_forward", {"to": "'b'"})  # type: ignore[arg-type]
    assert _label(SparkSession, "sql", None, (*spark.said,)) == "fast_forward on orders"


def test_a_step_is_stopped_at_the_first_point_of_a_label() -> None:
    from evenkeel_spark.iceberg import verify

    def step() -> None:
        for name in ("closed", "verified", "closed"):
            verify.crash_point(name)

    assert stopped(step, "named verified") == ["named closed", "named verified"]
    assert len(stopped(step, None)) == 3


def iceberg_world(folder: Path) -> World:
    made = make_place(folder)
    spec = {**SPEC, **by_place(made), "state": ORDERS}
    Path(made.spec_path).write_text(yaml.safe_dump(spec))
    return made


def test_one_place_leads_to_one_copy_at_a_time(tmp_path: Path) -> None:
    first = iceberg_world(tmp_path / "begun")
    (tmp_path / "1").mkdir()
    for name in ("trips.yaml", "place"):
        (tmp_path / "1" / name).write_text((first.folder / name).read_text())
    one = at_work(first)
    assert one.folder.resolve() == first.folder
    assert at_work(World(tmp_path / "1")) == one == at_work(one)
    assert one.folder.resolve() == tmp_path / "1"
    # The same registry in each copy, as the tables' properties name it.
    assert one.table.spec.registry == first.table.spec.registry == f"{one.folder}/registry"


def test_time_goes_by_for_a_table_whose_writer_was_ahead(tmp_path: Path) -> None:
    world, ahead = iceberg_world(tmp_path / "begun"), int(time.time() * 1000) + 10**8
    folder = world.folder / "lake/db/orders/metadata"
    folder.mkdir(parents=True)
    (folder / "v1.metadata.json").write_text(
        json.dumps({"last-updated-ms": ahead, "snapshots": [{"timestamp-ms": 5}]})
    )
    (folder / ".v1.metadata.json.crc").write_text("of before")
    let_pass(world)
    found = json.loads((folder / "v1.metadata.json").read_text())
    assert found["last-updated-ms"] <= time.time() * 1000
    assert found["snapshots"] == [{"timestamp-ms": 5}]
    assert not (folder / ".v1.metadata.json.crc").exists()


def test_a_later_run_goes_on_from_what_is_kept(tmp_path: Path) -> None:
    form, kept = FORMATS["iceberg"], Kept(tmp_path, ("iceberg", 28, 6, None))
    assert kept.rehearsed() is None and kept.done() == {}
    points = {("whole", *flow): ["a", "b"] for flow in form.flows}
    assert ("whole", CLAIMED, "roll_back") in points
    stages = {("whole", "begun"): World(tmp_path / "begun")}
    kept.keep(stages, points)
    assert kept.rehearsed() == (stages, points)
    first, second, *_ = cases = list(draw(points, 20, 6, iceberg=True))
    kept.well(first, True)
    kept.well(second, False)
    assert kept.done() == {0: (first.kind, True), 1: (second.kind, False)}
    assert "2 cases" in kept.told() and "1 were over" in kept.told()
    assert cases == list(draw(kept.rehearsed()[1], 20, 6, iceberg=True))  # type: ignore[index]
