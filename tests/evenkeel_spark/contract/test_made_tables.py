"""Tables that Evenkeel makes from events: what holds for them on Delta as on Iceberg."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from evenkeel.pipeline import steps
from evenkeel.registry.epochs import Registry
from evenkeel_spark.jobs import (
    apply_window,
    bootstrap,
    maintain,
    migrate,
    repair,
    roll_back,
    verify,
)
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import DamagedError, FenceError, InputError
from tests.conftest import SEEN
from tests.support.iceberg.stages import Crash
from tests.support.worlds.both_formats import Tables, events_of, folded
from tests.support.worlds.evolved import COLUMNS

pytestmark = pytest.mark.spark

WINDOW = ("--start", "2013-01-08", "--end", "2013-01-09")


class MadeTables:
    """The tests. A subclass says the format, so that `make test` runs each test on both."""

    iceberg: bool

    @pytest.fixture
    def tables(self, spark: SparkSession, tmp_path: Path) -> Tables:
        made = events_of(spark, tmp_path, self.iceberg)
        assert made.job(bootstrap, "--end", "2013-01-08") == 0
        return made

    def test_tables_of_one_bootstrap_are_of_the_same_values(
        self, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It was killed between two tables, and an amount was corrected before it ran again."""
        tables = events_of(spark, tmp_path, self.iceberg)
        with patch.object(Registry, "publish", side_effect=Crash), pytest.raises(Crash):
            tables.job(bootstrap, "--end", "2013-01-08")
        tables.lose("seen")
        events = tables.world.events
        tables.world.write_events(events.assign(miles=events["miles"] + 1))
        assert tables.job(bootstrap, "--end", "2013-01-08") == DamagedError.exit_code
        assert "from other events than there are now" in capsys.readouterr().err
        assert not tables.world.table.registry.numbers()
        # The advice works.
        tables.lose("totals")
        assert tables.job(bootstrap, "--end", "2013-01-08") == 0
        check_folded(tables, "2013-01-08")

    def test_a_window_is_folded_once(self, tables: Tables) -> None:
        check_folded(tables, "2013-01-08")
        for _ in range(2):
            assert tables.job(bootstrap, "--end", "2013-01-08") == 0
        assert tables.job(apply_window, *WINDOW) == 0
        check_folded(tables, "2013-01-09")
        before = tables.heads()
        assert tables.job(apply_window, *WINDOW) == 0
        gap = ("--start", "2013-01-11", "--end", "2013-01-12")
        assert tables.job(apply_window, *gap) == InputError.exit_code
        assert tables.heads() == before

    def test_a_run_moves_rows_and_changes_none(self, tables: Tables) -> None:
        before, digest = tables.content(), tables.plan("r1")
        tables.move("r1", digest)
        epoch = tables.world.table.epoch()
        assert (epoch.number, epoch.plan_digest) == (1, digest)
        assert tables.content() == before and not tables.misplaced()
        done = tables.heads()
        for job in (migrate, verify):
            assert tables.job(job, "--run", "r1", "--digest", digest) == 0
        assert tables.heads() == done
        assert tables.job(apply_window, *WINDOW) == 0
        check_folded(tables, "2013-01-09")
        assert tables.world.table.state("totals", 0, tables.spark).count() == len(before["totals"])
        snapshot = tables.world.table.snapshot(tables.spark)
        totals, seen = (snapshot.rows[name] for name in ("totals", "seen"))
        assert totals.join(seen, ["channel", "dest"]).count() == totals.count() > 0

    def test_a_run_is_taken_back(self, tables: Tables) -> None:
        before, digest = tables.content(), tables.plan("r1")
        asked = ("--run", "r1", "--digest", digest)
        assert tables.job(migrate, *asked) == 0
        for _ in range(2):
            assert tables.job(roll_back, *asked) == 0
        assert tables.content() == before and not tables.misplaced()
        assert tables.job(verify, *asked) == FenceError.exit_code
        assert tables.job(apply_window, *WINDOW) == 0
        check_folded(tables, "2013-01-09")
        assert tables.world.table.registry.numbers() == [0]

    def test_of_two_runs_one_publishes(self, tables: Tables) -> None:
        before, first = tables.content(), tables.plan("r1")
        second = tables.plan("r2", capacities=(0, 1, 1, 1))
        assert tables.job(migrate, "--run", "r1", "--digest", first) == 0
        moved = tables.heads()
        # Rows of Iceberg tables move on branches, and two runs may have some.
        answer = 0 if self.iceberg else FenceError.exit_code
        assert tables.job(migrate, "--run", "r2", "--digest", second) == answer
        assert tables.heads() == moved
        assert tables.job(verify, "--run", "r1", "--digest", first) == 0
        steps.publish(tables.world.spec_path, "r1")
        sealed = tables.heads()
        # By now its plan is from an epoch of before.
        for job in (migrate, verify):
            assert tables.job(job, "--run", "r2", "--digest", second) == FenceError.exit_code
        assert tables.heads() == sealed and tables.world.table.epoch().plan_digest == first
        assert tables.content() == before and not tables.misplaced()

    def test_a_plan_that_was_not_approved_moves_nothing(self, tables: Tables) -> None:
        digest, before = tables.plan("r1"), tables.heads()
        other = ("--run", "r1", "--digest", digest[::-1])
        assert tables.job(migrate, *other) == FenceError.exit_code
        assert tables.heads() == before

    def test_a_window_beside_a_run_is_in_once(self, tables: Tables) -> None:
        digest = tables.plan("r1")
        asked = ("--run", "r1", "--digest", digest)
        assert tables.job(migrate, *asked) == 0
        assert tables.job(apply_window, *WINDOW) in (0, FenceError.exit_code)
        assert tables.job(verify, *asked) == 0
        steps.publish(tables.world.spec_path, "r1")
        assert tables.job(apply_window, *WINDOW) == 0
        check_folded(tables, "2013-01-09")
        assert not tables.misplaced()

    def test_a_writer_of_the_epoch_before_adds_nothing(self, tables: Tables) -> None:
        tables.move("r1", tables.plan("r1"))
        before, key = tables.content(), tables.moved_key()
        with pytest.raises(SPARK_ERRORS):
            tables.append_as("seen", 0, key)
        assert tables.content() == before
        tables.append_as("seen", 1, key)
        assert len(tables.content()["seen"]) == len(before["seen"]) + 1 and not tables.misplaced()

    def test_columns_change_under_an_epoch_of_later(self, tables: Tables) -> None:
        tables.move("r1", tables.plan("r1"))
        stay = {name: merge for name, merge in COLUMNS.items() if name != "first"}
        columns = {**stay, "least": {"merge": "min", "of": "miles"}}
        tables.respec(totals={"columns": columns}, seen={"columns": SEEN["columns"]})
        before = tables.heads()
        assert tables.job(apply_window, *WINDOW) == InputError.exit_code
        assert tables.job(bootstrap, "--evolve") == InputError.exit_code
        assert tables.job(bootstrap, "--evolve", "--drop", "totals.first", "--dry-run") == 0
        assert tables.heads() == before
        assert tables.job(bootstrap, "--evolve", "--drop", "totals.first") == 0
        assert tables.job(apply_window, *WINDOW) == 0
        check_folded(tables, "2013-01-09")
        events = tables.world.events
        day = events[events["at"].dt.date == date(2013, 1, 8)]
        found = tables.stored("totals").toPandas().set_index("dest")["least"].dropna()
        assert found.astype("int64").to_dict() == day.groupby("dest")["miles"].min().to_dict()

    def test_a_key_is_forgotten_in_all_tables(self, tables: Tables) -> None:
        key, before = "D001", tables.content()
        assert tables.job(maintain, "--forget", key, "--dry-run") == 0
        assert tables.content() == before
        assert tables.job(maintain, "--forget", key) == 0
        left = {n: [r for r in rows if key not in r] for n, rows in before.items()}
        assert tables.content() == left != before

    def test_upkeep_changes_no_row(self, tables: Tables) -> None:
        assert tables.job(apply_window, *WINDOW) == 0
        before = tables.content()
        assert tables.job(maintain) == 0 and tables.job(repair) == 0
        assert tables.content() == before and not tables.misplaced()

    def test_another_registry_has_no_say(self, tables: Tables) -> None:
        digest, before = tables.plan("r1"), tables.heads()
        tables.world.respec(registry="another")
        assert tables.job(migrate, "--run", "r1", "--digest", digest) != 0
        assert tables.job(apply_window, *WINDOW) == InputError.exit_code
        assert tables.job(bootstrap, "--end", "2013-01-08") != 0
        assert tables.heads() == before and not tables.world.table.registry.numbers()


class TestOnDelta(MadeTables):
    iceberg = False


class TestOnIceberg(MadeTables):
    iceberg = True


def check_folded(tables: Tables, end: str) -> None:
    """See that both tables are as pandas folds the events before a day, each row in its place."""
    wanted = folded(tables.world, end)
    totals = tables.stored("totals").toPandas().set_index("dest").sort_index()
    assert totals.index.is_unique
    assert totals["trips"].to_dict() == wanted["trips"].to_dict()
    assert totals["miles"].to_dict() == wanted["miles"].to_dict()
    seen = tables.stored("seen").toPandas().set_index("dest")["latest"].dt.tz_localize("UTC")
    assert seen.to_dict() == wanted["latest"].to_dict()
    assert not tables.misplaced()
