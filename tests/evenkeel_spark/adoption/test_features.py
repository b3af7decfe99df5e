"""Adopted tables with columns that Delta fills, checks or widens: values and rules stay."""

from __future__ import annotations

from typing import Any

import pytest
from delta.tables import DeltaTable, IdentityGenerator
from pyspark.sql import DataFrame, SparkSession

from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.tables.delta import constraints, state
from evenkeel_spark.tables.delta.preflight import check_tables
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.team_tables import content, placed, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: The third column of a table, by what Delta does to it.
FILLED: dict[str, dict[str, Any]] = {
    "generated": {"dataType": "INT", "generatedAlwaysAs": "miles * 2"},
    "identity": {"dataType": "BIGINT", "generatedAlwaysAs": IdentityGenerator(5, 3)},
    "identity by default": {"dataType": "BIGINT", "generatedByDefaultAs": IdentityGenerator()},
}
ALTERED = {
    "default": [
        "SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER COLUMN miles SET DEFAULT 7",
    ],
    "check": ["ADD CONSTRAINT few CHECK (miles < 5000)"],
    "wider": [
        "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER COLUMN miles TYPE BIGINT",
    ],
}
#: Delta's note of the last value that an identity column gave.
MARK = "delta.identity.highWaterMark"


def rules(spark: SparkSession, path: str) -> Any:
    """Types and rules of the table's own columns."""
    kept = {f.name: (f.dataType, {**f.metadata, MARK: None}) for f in state.schema(spark, path)}
    ours = {state.SLOT, state.CHANNEL}
    checks = {n: s for n, s in constraints.of(spark, path).items() if n == "few"}
    return {name: found for name, found in kept.items() if name not in ours}, checks


def append(rows: DataFrame, path: str) -> None:
    rows.write.format("delta").mode("append").save(path)


@pytest.mark.parametrize("feature", [*FILLED, *ALTERED])
def test_values_and_rules_stay(spark: SparkSession, team: World, feature: str) -> None:
    path = str(team.folder / "odd")
    table = DeltaTable.create(spark).location(path).addColumn("dest", "STRING")
    table = table.addColumn("miles", "INT")
    if feature in FILLED:
        table = table.addColumn("more", **FILLED[feature])
    table.execute()
    append(spark.createDataFrame(team.events[["dest", "miles"]].head(500)), path)
    for statement in ALTERED.get(feature, []):
        spark.sql(f"ALTER TABLE delta.`{path}` {statement}")
    if feature == "wider":
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ('D001', 5000000000)")
    before, asked = content(spark, team, "odd"), rules(spark, path)
    adopt(spark, team.respec(state={"odd": {"path": "odd", "rows": "many"}}).table)
    assert content(spark, team, "odd") == before and rules(spark, path) == asked
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    assert content(spark, team, "odd") == before and placed(spark, team)
    kind = "bigint" if feature == "wider" else "int"
    new, epoch = (
        spark.createDataFrame([("NEW", 9)], f"dest string, miles {kind}"),
        team.table.epoch(),
    )
    append(new.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route()), path)
    wanted = content(spark, team, "odd")
    assert len(wanted) == len(before) + 1
    release(spark, team.table, drop_columns=True)
    assert content(spark, team, "odd") == wanted and rules(spark, path) == asked
    append(new, path)
    found = spark.read.format("delta").load(path)
    if feature == "generated":
        assert found.where("more <> miles * 2").isEmpty()
    elif feature in FILLED:
        # No value is given twice.
        assert found.select("more").distinct().count() == found.count() == len(wanted) + 1
    if feature == "check":
        with pytest.raises(Exception, match="few"):
            append(new.withColumn("miles", new["miles"] + 5000), path)


@pytest.mark.parametrize("compat", ["V1", "V2"])
def test_a_table_that_iceberg_reads_is_adopted_once_that_is_off(
    spark: SparkSession, team: World, compat: str
) -> None:
    spark.sql(
        f"ALTER TABLE delta.`{team.folder / 'profiles'}` SET TBLPROPERTIES "
        f"('delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompat{compat}' = 'True')"
    )
    with pytest.raises(InputError, match=f"profiles .*has delta.enableIcebergCompat{compat}") as no:
        adopt(spark, team.table)
    spark.sql(f"ALTER TABLE {str(no.value).partition('ALTER TABLE ')[2]}")
    adopt(spark, team.table)
    assert placed(spark, team)


def test_a_property_is_true_in_any_letters(spark: SparkSession, adopted: World) -> None:
    path = adopted.table.spec.state["orders"].path
    on = "'delta.enableDeletionVectors' = 'TRUE'"
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({on})")
    check_tables(spark, adopted.table.spec)
