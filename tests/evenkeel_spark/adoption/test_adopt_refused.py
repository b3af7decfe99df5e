"""What cannot be adopted is one error, and nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.jobs import adopt as job
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables import filesystem
from evenkeel_spark.tables.delta import state
from partitioning.errors import EvenkeelError, InputError
from tests.conftest import FIRST_DAY, World

pytestmark = pytest.mark.spark


def sql(text: str):
    return lambda spark, team: spark.sql(text.format(team.folder))


def spec_change(**changes: Any):
    return lambda spark, team: team.respec(**changes)


def other_registry(spark: SparkSession, team: World) -> None:
    adopt(spark, team.table)
    team.respec(registry="elsewhere")


WRONG = {
    "null keys": (
        sql("INSERT INTO delta.`{}/profiles` VALUES (NULL, 1)"),
        r"profiles .*: 1 rows have a null in the key \(dest\)",
    ),
    "duplicates": (
        sql("INSERT INTO delta.`{0}/profiles` SELECT * FROM delta.`{0}/profiles` LIMIT 2"),
        r"expected one row a key, found \d+ rows of \d+ keys.*rows: many",
    ),
    "taken": (
        sql("ALTER TABLE delta.`{}/orders` ADD COLUMN Channel INT"),
        "has a column 'Channel', which Evenkeel would add",
    ),
    "a map": (
        sql("ALTER TABLE delta.`{}/orders` ADD COLUMN m MAP<STRING, INT>"),
        "column 'm' is map<string,int>",
    ),
    "append-only": (
        sql("ALTER TABLE delta.`{}/orders` SET TBLPROPERTIES ('delta.appendOnly' = 'true')"),
        "is append-only",
    ),
    "append-only in capitals": (
        sql("ALTER TABLE delta.`{}/orders` SET TBLPROPERTIES ('delta.appendOnly' = 'TRUE')"),
        "is append-only",
    ),
    "Iceberg": (
        sql(
            "ALTER TABLE delta.`{}/profiles` SET TBLPROPERTIES ('delta.columnMapping.mode' = "
            "'name', 'delta.enableIcebergCompatV1' = 'True')"
        ),
        "profiles .*has delta.enableIcebergCompatV1, which allows no deletion vectors",
    ),
    "clustered": (
        sql("ALTER TABLE delta.`{}/profiles` CLUSTER BY (dest)"),
        "has liquid clustering, .* beside partitions.*copy the rows into a new table",
    ),
    "no such column": (
        spec_change(
            state={"orders": {"path": "orders", "rows": "many", "partitions": ["nothing"]}}
        ),
        "there is no column 'nothing'",
    ),
    "key of another type": (
        lambda spark, team: (
            spark.range(3)
            .selectExpr("struct(id) dest", "1 n")
            .write.format("delta")
            .mode("overwrite")
            .option("overwriteSchema", "true")
            .save(str(team.folder / "profiles"))
        ),
        r"profiles .*key column 'dest': expected string, as in the input, found struct<id:bigint>",
    ),
    "no Delta table": (
        lambda spark, team: (
            spark.range(3)
            .selectExpr("string(id) dest", "1 n")
            .write.mode("overwrite")
            .parquet(str(team.folder / "profiles"))
        ),
        r"expected a Delta table, found Parquet files.* CONVERT TO DELTA parquet\.`.*profiles`",
    ),
    "no table": (
        spec_change(state={"orders": {"path": "nowhere", "rows": "many"}}),
        "expected a Delta table, found nothing",
    ),
    "another registry": (other_registry, "is adopted as a table of 'trips' with registry"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_adopted_is_one_error_and_nothing_is_changed(
    spark: SparkSession, team: World, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    change, message = WRONG[what]
    change(spark, team)
    before = {p: state.table_version(spark, str(team.folder / p)) for p in ("orders", "profiles")}
    for arguments in ([], ["--dry-run"]):
        with pytest.raises(EvenkeelError, match=message):
            adopt(spark, team.table, dry_run=bool(arguments))
        assert job.main(["--spec", team.spec_path, *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 2
    for name, version in before.items():
        assert state.table_version(spark, str(team.folder / name)) == version
    assert team.table.registry.numbers() == []


def test_a_rewrite_without_room_is_refused(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [survey.size for survey in adopt(spark, team.table, dry_run=True)]
    # There is room for each of them alone.
    free = max(sizes) + 1
    monkeypatch.setattr(filesystem, "free_bytes", lambda spark, path: free)
    before = sorted(team.folder.rglob("*"))
    needs = f"a rewrite needs {sum(sizes):,} bytes, and {free:,} are free"
    with pytest.raises(InputError, match=rf"orders \(.*\), profiles \(.*{needs}"):
        adopt(spark, team.table)
    assert sorted(team.folder.rglob("*")) == before


def test_a_stream_that_still_writes_is_refused(spark: SparkSession, team: World) -> None:
    path, folder = str(team.folder / "orders"), team.folder
    source = str(folder / "source")
    spark.read.format("delta").load(path).limit(2).write.format("delta").save(source)
    query = (
        spark.readStream.format("delta").load(source).writeStream.format("delta")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True).start(path)
    )  # fmt: skip
    query.awaitTermination()
    with pytest.raises(InputError, match="a streaming query wrote version 1"):
        adopt(spark, team.table)


def test_jobs_for_state_of_our_own_refuse(spark: SparkSession, team: World) -> None:
    for act in (
        lambda: bootstrap(spark, team.table),
        lambda: apply_window(spark, team.table, FIRST_DAY.date(), FIRST_DAY.date()),
    ):
        with pytest.raises(InputError, match=r"the team's own \(`rows`\)"):
            act()


def test_state_of_our_own_is_not_adopted(spark: SparkSession, ready: World) -> None:
    with pytest.raises(InputError, match="Run bootstrap; or give `rows`"):
        adopt(spark, ready.table)
