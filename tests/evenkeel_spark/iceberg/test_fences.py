"""Writers and jobs that are too late for Iceberg tables: refused, or their rows are placed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evenkeel.registry.files.migration_records import PlanMark
from evenkeel_spark.iceberg import migrate, verify
from partitioning.errors import FenceError
from tests.support.iceberg.stages import Case, Stages, meanwhile

pytestmark = pytest.mark.spark
ORDERS = "lake.db.orders"
slow = pytest.mark.slow


def late_rows(case: Case) -> Callable[[], None]:
    """Write every order once more, where it is now, and return what commits them to main.

    A writer had begun before the table changed, so it refers to columns by their ids.
    """
    case.table("orders").alter("CREATE BRANCH late")
    case.spark.sql(f"INSERT INTO {ORDERS}.branch_late SELECT * FROM {ORDERS}")
    snapshot = case.table("orders").refs()["late"]

    def land() -> None:
        table = case.table("orders")
        table.call("cherrypick_snapshot", {"snapshot_id": str(snapshot)})
        table.alter("DROP BRANCH late")

    return land


def twice(rows: dict[str, list[tuple[str, ...]]]) -> dict[str, list[tuple[str, ...]]]:
    """The rows of both tables with each order twice."""
    return {**rows, "orders": sorted(rows["orders"] * 2)}


# Writers


def test_a_writer_without_the_columns_is_refused_once_adopted(stages: Stages) -> None:
    case = stages.go("team")
    source = case.spark.table(ORDERS).limit(3)
    source = source.toPandas()
    case = stages.go("adopted")
    before, source = case.rows(), case.spark.createDataFrame(source)
    case.table("orders")
    with pytest.raises(Exception, match="slot_0|channel"):
        source.writeTo(ORDERS).append()
    source.createOrReplaceTempView("source")
    with pytest.raises(Exception, match="slot_0|channel"):
        case.spark.sql(
            f"MERGE INTO {ORDERS} t USING source s ON t.dest = s.dest AND false "
            "WHEN NOT MATCHED THEN INSERT *"
        )
    stages.anew().check(before, 0)


def test_a_writer_by_the_epoch_before_is_refused(stages: Stages) -> None:
    case = stages.go("adopted")
    old = case.spark.table(ORDERS).limit(3).toPandas()
    for stage, epoch in (("verified", 0), ("published", 1)):
        case = stages.go(stage)
        before, source = case.rows(), case.spark.createDataFrame(old)
        case.table("orders")
        with pytest.raises(Exception, match="slot_[01]"):
            source.writeTo(ORDERS).append()
        source.createOrReplaceTempView("source")
        with pytest.raises(Exception, match="slot_[01]"):
            case.spark.sql(
                f"MERGE INTO {ORDERS} t USING source s ON t.dest = s.dest AND t.at = s.at "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        case = stages.anew()
        assert case.rows() == before and case.world.table.epoch().number == epoch


def test_a_writer_by_the_epoch_is_admitted(stages: Stages) -> None:
    case = stages.go("published")
    before, epoch = case.rows(), case.world.table.epoch()
    source = case.spark.table(ORDERS).drop("slot_1", "channel")
    routed = source.withColumn("slot_1", epoch.slot()).withColumn("channel", epoch.route())
    routed.writeTo(ORDERS).append()
    stages.anew().check(twice(before), 1)


# Rows that land late


@pytest.mark.parametrize(
    "point",
    [
        "closed",
        "claimed",
        "landed",
        pytest.param("verified", marks=slow),
        pytest.param("followed", marks=slow),
    ],
)
def test_rows_that_land_while_verify_runs_are_placed_by_it(stages: Stages, point: str) -> None:
    case = stages.go("migrated")
    before, land = case.rows(), late_rows(case)
    with meanwhile(point, land):
        case.verify()
    stages.anew().check(twice(before), 1)


def test_rows_that_land_after_verify_are_placed_by_maintain_and_the_next_run(
    stages: Stages,
) -> None:
    case = stages.go("migrated")
    before, land = case.rows(), late_rows(case)
    case.verify()
    land()
    assert stages.anew().misplaced() > 0
    stages.keep("late")
    stages.anew().maintain("late rows")
    stages.anew().check(twice(before), 1)
    case = stages.back("late")
    case.plan("r2", (1, 0.3, 1, 1))
    case.migrate("r2")
    case.verify("r2")
    stages.anew().check(twice(before), 2)


def test_rows_in_a_channel_of_the_epoch_before_are_placed_by_maintain(stages: Stages) -> None:
    before = stages.go("migrated").rows()
    old = stages.anew().spark.table(ORDERS).toPandas().rename(columns={"slot_0": "slot_1"})
    case = stages.go("published")
    case.spark.createDataFrame(old).writeTo(ORDERS).append()
    case = stages.anew()
    assert case.misplaced() > 0
    case.maintain("late rows")
    stages.anew().check(twice(before), 1)


def test_rows_that_the_team_brought_back_are_placed_by_maintain(stages: Stages) -> None:
    case = stages.go("migrated")
    before, head = case.rows(), case.table("orders").head()
    case.verify()
    table = case.table("orders")
    table.call("rollback_to_snapshot", {"snapshot_id": str(head)})
    case = stages.anew()
    assert case.misplaced() > 0
    # Its rows are where the epoch before has them.
    with pytest.raises(FenceError, match="no version left at which epoch 1 alone holds"):
        case.world.table.snapshot(case.spark)
    case.maintain("late rows")
    assert case.world.table.snapshot(case.spark).versions["orders"] == case.heads()["orders"]
    stages.anew().check(before, 1)


# Main that the team has rolled back


@pytest.mark.parametrize("stage", ["planned", "migrated"])
def test_main_that_was_rolled_back_since_the_plan_needs_another_plan(
    stages: Stages, stage: str
) -> None:
    case = stages.go("adopted")
    before, head = case.rows(), case.table("orders").head()
    late_rows(case)()
    case.plan("r1")
    if stage == "migrated":
        case.migrate()
    case.table("orders").call("rollback_to_snapshot", {"snapshot_id": str(head)})
    case = stages.anew()
    with pytest.raises(FenceError, match="Plan again"):
        case.migrate() if stage == "planned" else case.verify()
    case.repair()
    stages.anew().check(before, 0)
    case = stages.anew()
    case.plan("r2")
    case.migrate("r2")
    case.verify("r2")
    stages.anew().check(before, 1)


# Jobs that wake after a rollback


@pytest.mark.parametrize(
    ("stage", "job", "step", "calls"),
    [
        ("planned", migrate, "move", 2),
        ("migrated", verify, "measure_branch", 2),
        ("migrated", verify, "_stale", 4),
        # The last table has another snapshot by then, and is moved again.
        ("late", verify, "move", 1),
    ],
)
def test_a_job_that_wakes_after_a_rollback_leaves_no_record(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, stage: str, job: Any, step: str, calls: int
) -> None:
    """The run may have another plan by then, and a late job would write over its record."""
    case, reached = stages.go(stage.replace("late", "migrated")), getattr(job, step)
    if stage == "late":
        name = case.table("profiles").sql
        case.spark.sql(f"INSERT INTO {name} SELECT * FROM {name} WHERE false")
    left = [*range(calls)]
    names = ["migration.json", "gate_tables.json", "verify.json"]

    def then(*arguments: Any) -> Any:
        found = reached(*arguments)
        left.pop()
        if not left:
            stages.anew().roll_back()
            for name in names:
                case.world.table.registry.run("r1").remove(name)
        return found

    monkeypatch.setattr(job, step, then)
    with pytest.raises(FenceError, match="this run was rolled back"):
        case.migrate() if job is migrate else case.verify()
    run = stages.anew().world.table.registry.run("r1")
    assert [name for name in names if run.exists(name)] == []


def test_a_plan_that_is_withdrawn_as_it_claims_its_epoch_moves_no_table(stages: Stages) -> None:
    case = stages.go("migrated")
    run, digest = case.migration("r1").run, case.migration("r1").plan.digest
    heads = case.heads()
    with (
        meanwhile("claimed", lambda: run.withdrawn(digest).create(PlanMark(digest=digest))),
        pytest.raises(FenceError, match="its plan was withdrawn"),
    ):
        case.verify()
    assert stages.anew().heads() == heads
