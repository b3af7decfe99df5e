"""Tables that a team has made itself: what holds for them on Delta as on Iceberg."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.jobs import adopt, apply_window, maintain, migrate, repair, roll_back
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import InputError
from tests.support.placed import crashing_at, meanwhile
from tests.support.worlds.both_formats import Tables, team_of

pytestmark = pytest.mark.spark


class TeamTables:
    """The tests. A subclass says the format, so that `make test` runs each test on both."""

    iceberg: bool

    @pytest.fixture
    def tables(self, spark: SparkSession, tmp_path: Path) -> Tables:
        return team_of(spark, tmp_path, self.iceberg)

    def test_a_table_is_adopted_moved_and_released(self, tables: Tables) -> None:
        before, heads = tables.content(), tables.heads()
        columns = {name: tables.stored(name).columns for name in before}
        assert tables.job(adopt, "--dry-run") == 0
        assert tables.heads() == heads and not tables.world.table.registry.numbers()
        for _ in range(2):
            assert tables.job(adopt) == 0
            assert tables.content() == before and not tables.misplaced()
        with pytest.raises(InputError, match="epoch 0 is of before the table was adopted"):
            tables.world.table.state("orders", 0, tables.spark)
        tables.move("r1", tables.plan("r1"))
        assert tables.content() == before and not tables.misplaced()
        assert tables.job(repair) == 0 and tables.job(maintain) == 0
        assert tables.content() == before
        assert tables.job(adopt, "--release", "--drop-columns") == 0
        assert tables.content() == before
        assert {name: tables.stored(name).columns for name in before} == columns

    def test_a_run_is_taken_back(self, tables: Tables) -> None:
        before = tables.content()
        assert tables.job(adopt) == 0
        asked = ("--run", "r1", "--digest", tables.plan("r1"))
        assert tables.job(migrate, *asked) == 0 and tables.job(roll_back, *asked) == 0
        assert tables.content() == before and not tables.misplaced()

    def test_a_writer_goes_by_the_epoch(self, tables: Tables) -> None:
        assert tables.job(adopt) == 0
        tables.move("r1", tables.plan("r1"))
        before, key = tables.content(), tables.moved_key()
        with pytest.raises(SPARK_ERRORS):
            tables.append_as("orders", 0, key)
        assert tables.content() == before
        tables.append_as("orders", 1, key)
        assert len(tables.content()["orders"]) == len(before["orders"]) + 1
        assert not tables.misplaced()

    @pytest.mark.parametrize("wrong", ["null", "twice"])
    def test_keys_that_cannot_be_kept_even_are_refused(self, tables: Tables, wrong: str) -> None:
        first = "CAST(null AS string) AS dest" if wrong == "null" else "dest"
        rows = tables.stored("profiles").limit(1).selectExpr(first, "most")
        tables.append("profiles", rows)
        heads = tables.heads()
        assert tables.job(adopt) == InputError.exit_code
        assert tables.heads() == heads and not tables.world.table.registry.numbers()

    def test_a_column_of_that_name_is_refused(self, tables: Tables) -> None:
        rows = tables.stored("profiles").selectExpr("*", "1 AS channel")
        tables.respec(own={"rows": "one"}).make("own", rows)
        heads = tables.heads()
        assert tables.job(adopt) == InputError.exit_code
        assert tables.heads() == heads

    def test_a_second_registry_is_refused(self, tables: Tables) -> None:
        assert tables.job(adopt) == 0
        heads = tables.heads()
        tables.world.respec(registry="another")
        assert tables.job(adopt) == InputError.exit_code
        assert tables.job(adopt, "--release") == InputError.exit_code
        assert tables.heads() == heads and not tables.world.table.registry.numbers()

    def test_one_that_was_broken_off_is_of_its_registry(
        self, tables: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, own = tables.content(), tables.world.table.spec.registry
        for point in ("noted", "rewritten") if self.iceberg else ("adopted",):
            with crashing_at(point, monkeypatch):
                tables.job(adopt)
            heads = tables.heads()
            tables.world.respec(registry="another")
            assert tables.job(adopt) == InputError.exit_code
            assert tables.job(adopt, "--release") == InputError.exit_code
            assert tables.heads() == heads and not tables.world.table.registry.numbers()
            tables.world.respec(registry=own)
        assert tables.job(adopt) == 0
        assert tables.content() == before and not tables.misplaced()

    def test_what_comes_before_its_turn_is_looked_at(
        self, tables: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second table has one row a key until the first one is adopted."""
        twice = tables.stored("profiles").limit(1)
        done = "rewritten" if self.iceberg else "adopted"
        with meanwhile(done, lambda: tables.append("profiles", twice), monkeypatch):
            assert tables.job(adopt) == InputError.exit_code

    def test_no_window_is_folded_into_it(self, tables: Tables) -> None:
        assert tables.job(adopt) == 0
        heads = tables.heads()
        window = ("--start", "2013-01-08", "--end", "2013-01-09")
        assert tables.job(apply_window, *window) == InputError.exit_code
        assert tables.heads() == heads


class TestOnDelta(TeamTables):
    iceberg = False


class TestOnIceberg(TeamTables):
    iceberg = True
