"""The MERGE that docs give to writers of split keys: exact, or an error, for each type of a sum."""

from __future__ import annotations

import decimal
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from tests.support.docs.readme import ROOT, block

pytestmark = pytest.mark.spark
# Else Python rounds what Spark holds.
decimal.getcontext().prec = 100


@pytest.fixture(params=["true", "false"], ids=["ANSI", "not ANSI"])
def writer(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    """A session as a writer may have it."""
    made = spark.newSession()
    made.conf.set("spark.sql.ansi.enabled", request.param)
    return made


def told_merges() -> tuple[str, str]:
    """The MERGE of docs/SPLITTING.md as it stands there: as it is, and for a DECIMAL(38, 18)."""
    text = (ROOT / "docs" / "SPLITTING.md").read_text().partition("## Your own writer\n")[2]
    (merge,) = re.findall(r"```python\n.*?^(path = .*?)```", text, re.S | re.M)
    casts = re.findall(r"`(try_cast\([^`]*)`", text)
    assert len(casts) == 2
    return merge, merge.replace("try_add(s.units, w.units)", f"try_add({', '.join(casts)})")


class Sales:
    """The table of the README, at the place that its spec names in a folder of a test's own."""

    def __init__(self, folder: Path) -> None:
        spec = folder / "tables" / "sales.yaml"
        spec.parent.mkdir()
        spec.write_text(block("yaml"))
        self.table = Table(load_spec(spec))
        self.path = self.table.spec.state["sales"].path

    def merge(self, spark: SparkSession, batch: DataFrame, code: str) -> None:
        """Run the page's code, as it stands there."""
        exec(
            compile(code, "SPLITTING.md", "exec"),
            {"spark": spark, "table": self.table, "batch": batch},
        )


@pytest.fixture
def sales(tmp_path: Path) -> Sales:
    """The README's spec in an empty folder."""
    return Sales(tmp_path)


def test_the_page_of_split_keys_gives_the_same_sum() -> None:
    page = (ROOT / "docs" / "how-to" / "writers" / "split.md").read_text()
    found = re.search(r'^SUM = """(.*?)"""', page, re.S | re.M)
    assert found is not None
    assert " ".join(found[1].split()) in " ".join(told_merges()[0].split())


def test_a_writer_with_legacy_casts_loses_the_sum_as_the_page_says(
    spark: SparkSession, sales: Sales
) -> None:
    writer = spark.newSession()
    writer.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
    most = Decimal(10**20 - 1).scaleb(-2)
    rows = writer.createDataFrame([("a", most)], "product string, units decimal(20,2)")
    rows = rows.selectExpr("*", "0 AS channel", "1 AS slot")
    rows.write.format("delta").save(sales.path)
    sales.merge(writer, rows.withColumn("split", F.lit(False)), told_merges()[0])
    assert [r["units"] for r in writer.read.format("delta").load(sales.path).collect()] == [None]


#: Type, digits of the greatest value, scale, and whether the page has it cast first.
WRITERS = [
    ("bigint", None, 0, False),
    ("decimal(20,2)", 20, 2, False),
    ("decimal(38,0)", 38, 0, False),
    # The cast leaves one digit less before the point.
    ("decimal(38,18)", 37, 18, True),
]


@pytest.mark.parametrize(("kind", "digits", "scale", "cast"), WRITERS)
def test_the_writers_sql_is_exact_or_an_error(
    writer: SparkSession, sales: Sales, kind: str, digits: int | None, scale: int, cast: bool
) -> None:
    """Nulls, values of each size, and those at the ends of the type, drawn by property."""
    most = 2**63 - 1 if digits is None else 10**digits - 1
    size = st.sampled_from([10, 10**6, most // 2, most])
    Pair = tuple[int | None, int | None]
    drawn: list[Pair] = [(most, 1), (-most, -2), (None, most), (0, None)]

    @settings(max_examples=200, derandomize=True, phases=[Phase.generate])
    @given(st.tuples(*(st.none() | size.flatmap(lambda n: st.integers(-n, n)),) * 2))
    def draw(pair: Pair) -> None:
        drawn.append(pair)

    draw()
    merge = told_merges()[cast]

    def merged(pairs: list[Pair]) -> list[int | None]:
        """Let the page's MERGE put the second of each pair into a row of the first."""

        def frame(side: int) -> DataFrame:
            values = [
                (str(i), n if n is None or digits is None else Decimal(n).scaleb(-scale))
                for i, n in enumerate(p[side] for p in pairs)
            ]
            rows = writer.createDataFrame(values, f"product string, units {kind}")
            return rows.selectExpr("*", "0 AS channel", "pmod(xxhash64(product), 4096) AS slot")

        frame(0).coalesce(1).write.format("delta").mode("overwrite").save(sales.path)
        sales.merge(writer, frame(1).withColumn("split", F.lit(False)), merge)
        found = writer.read.format("delta").load(sales.path).collect()
        assert len(found) == len(pairs)
        units = {int(row["product"]): row["units"] for row in found}
        return [
            None if units[i] is None else int(Decimal(units[i]).scaleb(scale))
            for i in range(len(pairs))
        ]

    def total(a: int | None, b: int | None) -> int | None:
        return None if a is None and b is None else (a or 0) + (b or 0)

    held = 10**38 - 1 if cast else most
    fits = [p for p in drawn if abs(total(*p) or 0) <= held]
    assert merged(fits) == [total(*p) for p in fits]
    beyond = [p for p in drawn if p not in fits]
    assert cast or beyond
    for pair in beyond[:2]:
        with pytest.raises(Exception, match="units are too many|CAST_OVERFLOW_IN_TABLE_WRITE"):
            merged([pair])
