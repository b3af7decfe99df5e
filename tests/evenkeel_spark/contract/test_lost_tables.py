"""A state table that is lost while a run is half moved: the run ends, and the others go on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel.inspect.half_moved import half_moved
from evenkeel_spark.jobs import apply_window, bootstrap, migrate, repair, roll_back, verify
from partitioning.errors import FenceError, InputError
from tests.conftest import SEEN, SPEC
from tests.support.iceberg.fed import at, crash
from tests.support.iceberg.stages import Crash
from tests.support.worlds.both_formats import Tables, events_of, folded

pytestmark = pytest.mark.spark

TOTALS = {"columns": SPEC["state"]["totals"]["columns"]}
WINDOW = ("--start", "2013-01-08", "--end", "2013-01-09")


class LostTables:
    """The tests. A subclass says the format, so that `make test` runs each test on both."""

    iceberg: bool
    #: A place without a table.
    elsewhere: str

    @pytest.fixture
    def tables(self, spark: SparkSession, tmp_path: Path) -> Tables:
        made = events_of(spark, tmp_path, self.iceberg)
        assert made.job(bootstrap, "--end", "2013-01-08") == 0
        return made

    @pytest.mark.parametrize("first", ["totals", "seen"])
    def test_a_run_is_taken_back_without_it(self, tables: Tables, first: str) -> None:
        respec(tables, first)
        asked = ("--run", "r1", "--digest", tables.plan("r1"))
        assert tables.job(migrate, *asked) == 0
        tables.lose("seen")
        assert tables.job(verify, *asked) == InputError.exit_code
        for _ in range(2):
            assert tables.job(roll_back, *asked) == 0
        check_goes_on(tables)

    def test_a_path_that_is_mistyped_and_a_store_that_is_away_end_no_run(
        self, tables: Tables
    ) -> None:
        asked = ("--run", "r1", "--digest", tables.plan("r1"))
        assert tables.job(migrate, *asked) == 0
        known = yaml.safe_load(Path(tables.world.spec_path).read_text())["state"]
        tables.world.respec(state={**known, "seen": {**known["seen"], "path": self.elsewhere}})
        check_refused(tables, *asked)
        tables.world.respec(state=known)
        for name in known:
            tables.lose(name)
        check_refused(tables, *asked)

    @pytest.mark.parametrize("first", ["totals", "seen"])
    def test_a_run_that_was_to_publish_ends_without_it(self, tables: Tables, first: str) -> None:
        respec(tables, first)
        asked = ("--run", "r1", "--digest", tables.plan("r1"))
        assert tables.job(migrate, *asked) == 0
        with die_decided(self.iceberg), pytest.raises(Crash):
            tables.job(verify, *asked)
        tables.lose("seen")
        for job in (verify, roll_back):
            assert tables.job(job, *asked) == InputError.exit_code
        assert tables.job(repair, "--dry-run") == InputError.exit_code
        assert half_moved(tables.world.table.registry, ["r1"]) is not None
        for _ in range(2):
            # It says that a table is lost, and has brought the others home.
            assert tables.job(repair) == InputError.exit_code
        for job in (migrate, verify, roll_back):
            assert tables.job(job, *asked) == FenceError.exit_code
        check_goes_on(tables)


class TestOnDelta(LostTables):
    iceberg = False
    elsewhere = "elsewhere"


class TestOnIceberg(LostTables):
    iceberg = True
    elsewhere = "lake.db.elsewhere"

    def test_a_claim_is_given_up_with_it(self, tables: Tables) -> None:
        asked = ("--run", "r1", "--digest", tables.plan("r1"))
        assert tables.job(migrate, *asked) == 0
        # Rows of totals have come to readers.
        with at("followed", crash), pytest.raises(Crash):
            tables.job(verify, *asked)
        tables.lose("seen")
        assert tables.job(repair) == InputError.exit_code
        assert half_moved(tables.world.table.registry, ["r1"]) is not None
        assert tables.job(repair, "--registry-older") == InputError.exit_code
        check_goes_on(tables)


def respec(tables: Tables, first: str = "totals", only: bool = False) -> None:
    """Give the spec both tables in an order, or totals alone."""
    parts = {"totals": TOTALS, "seen": {"columns": SEEN["columns"]}}
    names = ["totals"] if only else sorted(parts, key=lambda name: name != first)
    tables.respec(**{name: parts[name] for name in names})


def check_refused(tables: Tables, *asked: str) -> None:
    """See that no job takes a run for one that has ended."""
    assert tables.job(roll_back, *asked) == InputError.exit_code
    assert tables.job(repair) == InputError.exit_code
    assert half_moved(tables.world.table.registry, ["r1"]) is not None


def die_decided(iceberg: bool) -> AbstractContextManager[object]:
    """Let verify die once it is decided that the run is published."""
    if iceberg:
        return patch("evenkeel_spark.iceberg.publish.claim_epoch", side_effect=Crash)
    return at("publishing", crash, 1)


def check_goes_on(tables: Tables) -> None:
    """See that the table leaves, that totals has what pandas says, and that another one joins."""
    assert half_moved(tables.world.table.registry, ["r1"]) is None
    respec(tables, only=True)
    assert tables.job(bootstrap, "--evolve", "--drop", "seen") == 0
    assert tables.job(apply_window, *WINDOW) == 0
    found = tables.stored("totals").toPandas().set_index("dest").sort_index()
    assert found["miles"].to_dict() == folded(tables.world, "2013-01-09")["miles"].to_dict()
    assert not tables.misplaced() and tables.world.table.registry.numbers() == [0]
    respec(tables)
    assert tables.job(bootstrap, "--evolve") == 0
