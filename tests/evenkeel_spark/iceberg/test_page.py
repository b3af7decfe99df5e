"""The page docs/how-to/formats/iceberg.md: its spec, its writer, and its join without a shuffle."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.iceberg.adopt import adopt
from evenkeel_spark.tables.iceberg.table import IcebergTable

pytestmark = pytest.mark.spark
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "formats" / "iceberg.md"


def block(language: str, begins: str) -> str:
    """The block of the page that begins so."""
    found = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.S)
    (text,) = (text for text in found if text.startswith(begins))
    return text


def totals(rows: DataFrame) -> list[tuple[str, float, int]]:
    """Key, sum and clicks of each row; sums in another order differ in their last digits."""
    return sorted((r[1], round(r[2], 6), r[3]) for r in rows.collect())


@pytest.fixture
def customers(lake: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Adopt tables of the page's names, by the page's spec."""
    clicks = lake.range(4000).select(
        F.concat(F.lit("C"), F.floor(200 * F.pow(F.rand(7), 3)).cast("int")).alias("customer"),
        F.timestamp_seconds(1_767_225_600 + F.col("id") * 30).alias("at"),
    )
    clicks.write.parquet(str(tmp_path / "lake/clicks"))
    clicks = lake.read.parquet(str(tmp_path / "lake/clicks"))
    for name, rows in (
        ("profiles", clicks.groupBy("customer").agg(F.count("*").alias("clicks"))),
        ("orders", clicks.select("customer", F.rand(8).alias("amount"))),
    ):
        made = rows.writeTo(f"lake.sales.{name}").using("iceberg")
        made.tableProperty("format-version", "3").create()
    (tmp_path / "tables").mkdir()
    spec = tmp_path / "tables/customers.yaml"
    spec.write_text(block("yaml", "# tables/customers.yaml"))
    monkeypatch.setenv("EVENKEEL_TABLES", str(spec.parent))
    table = Table(load_spec(spec))
    adopt(lake, table)
    return table


def test_the_writer_of_the_page_is_admitted(lake: SparkSession, customers: Table) -> None:
    before = lake.table("lake.sales.orders").count()
    rows = lake.createDataFrame([("C1", 2.0)], "customer string, amount double")
    exec(block("python", "import evenkeel"), {"rows": rows})
    table = IcebergTable(lake, "lake.sales.orders")
    table.refresh()
    found = table.rows()
    assert found.count() == before + 1
    epoch = customers.epoch()
    assert found.where(F.col("channel") != epoch.route()).count() == 0


def test_the_join_of_the_page_has_no_exchange(lake: SparkSession, customers: Table) -> None:
    lake.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    join = block("sql", "SELECT")
    settings = dict(line.split() for line in block("properties", "spark.sql.sources").splitlines())
    shuffled = lake.sql(join)
    plan = shuffled._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" in plan, "a shuffle is no longer seen"
    expected = totals(shuffled)
    for name, value in settings.items():
        lake.conf.set(name, value)
    found = lake.sql(join)
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan and "SortMergeJoin" in plan
    assert totals(found) == expected
