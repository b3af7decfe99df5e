"""Adoptions and releases of Iceberg tables that were given up and go on, or meet a run."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel_spark.iceberg import adopt as adoption
from evenkeel_spark.iceberg.release import release
from evenkeel_spark.plans.attempts import mark_started
from evenkeel_spark.tables.table_properties import TABLE_PROPERTY
from partitioning.errors import FenceError, InputError, UnderWayError
from tests.support.iceberg.stages import (
    NAMES,
    Stages,
    meanwhile,
)

pytestmark = pytest.mark.spark


def test_a_release_leaves_its_tables_to_a_run_that_has_begun(stages: Stages) -> None:
    """The run has looked whose the tables are just before."""
    case = stages.go("planned")
    before = case.rows()
    with (
        meanwhile("unowned", lambda: mark_started(case.migration("r1"))),
        pytest.raises(UnderWayError, match="run r1 is moving rows"),
    ):
        release(case.spark, case.world.table)
    case = stages.anew()
    case.migrate()
    case.roll_back()
    case = stages.anew()
    case.check(before, 0)
    assert release(case.spark, case.world.table) == list(NAMES)


@pytest.mark.parametrize("look", [1, 3])
def test_an_adoption_that_another_registry_has_overtaken_says_so(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """The other one ends during its look at the first table, or at rows that came since."""
    case, looks = stages.go("team"), count(1)
    survey, own = adoption.survey_table, case.world.table

    def then_other(*args: Any) -> Any:
        found, number = survey(*args), next(looks)
        if number == look:
            other = stages.anew().world.respec(registry="registry of another")
            adoption.adopt(case.spark, other.table)
        elif number == len(NAMES) < look:
            more = case.table("orders").rows().limit(1).toPandas()
            case.spark.createDataFrame(more).writeTo("lake.db.orders").append()
        return found

    monkeypatch.setattr(adoption, "survey_table", then_other)
    with pytest.raises(InputError, match="is adopted as a table of .*registry of another"):
        adoption.adopt(case.spark, own)
    assert next(looks) > look


def test_an_adoption_under_an_epoch_that_is_over_says_so(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of a spec without the table has published while it was rewritten."""
    case = stages.go("team")
    before, take = case.rows(), adoption._rewrite
    registry = case.world.table.registry

    def late(*given: Any) -> None:
        take(*given)
        first = registry.current()
        if first.number == 0:
            others = {"another": next(iter(first.tables.values()))}
            after = replace(first.function, epoch=1, parent=first.function.digest)
            registry.publish(after, others)

    monkeypatch.setattr(adoption, "_rewrite", late)
    with pytest.raises(FenceError, match="epoch 1 was published meanwhile, and epoch 0 is over"):
        adoption.adopt(case.spark, case.world.table)
    case = stages.anew()
    # Nothing says that the table is adopted, and no row is lost.
    assert case.rows() == before
    assert not any(TABLE_PROPERTY in case.table(name).properties() for name in NAMES)


def test_an_adoption_that_another_has_overtaken_takes_away_no_row(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes to a branch that the other one has dropped, so Iceberg makes the branch again."""
    case = stages.go("team")
    writing, go_on = tmp_path / "writing", tmp_path / "go on"
    spread, first = adoption.by_slot_range, [True]

    @F.udf("boolean")
    def wait(_: int) -> bool:
        writing.touch()
        while not go_on.exists():
            time.sleep(0.1)
        return True

    def slowly_once(rows: DataFrame, tasks: npt.NDArray[np.int32], slots: int) -> DataFrame:
        if not first:
            return spread(rows, tasks, slots)
        first.clear()
        # One task waits, so that the other adoption has a core.
        return spread(rows, tasks, slots).coalesce(1).where(wait.asNondeterministic()("slot"))

    monkeypatch.setattr(adoption, "by_slot_range", slowly_once)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(adoption.adopt, case.spark, case.world.table)
        try:
            until = time.monotonic() + 240
            while not writing.exists():
                assert not late.done() and time.monotonic() < until
                time.sleep(0.1)
            other = stages.anew()
            adoption.adopt(other.spark, other.world.table)
            more = other.table("orders").rows().limit(5).toPandas()
            named = other.spark.createDataFrame(more).withColumnRenamed("slot", "slot_0")
            named.writeTo("lake.db.orders").append()
            before = stages.anew().rows()
        finally:
            go_on.touch()
        # It ends well, too.
        late.result()
    stages.anew().check(before, 0)
