"""Adopting again: after a release, with another spec, and while others write."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenkeel_spark.adoption import adopt as adopting
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.tables.delta import commits, constraints, state
from partitioning.errors import FenceError, InputError
from tests.conftest import World
from tests.support.worlds.team_tables import both, content, partitions, placed, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def files(spark: SparkSession, team: World, name: str) -> set[str]:
    return {r.path for r in state.files(spark, str(team.folder / name)).collect()}


@pytest.mark.parametrize("registry", ["the same", "a new one"])
def test_what_fits_is_one_commit_of_metadata(
    spark: SparkSession, team: World, registry: str
) -> None:
    before = both(spark, team)
    adopt(spark, team.table)
    run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
    release(spark, team.table)
    stored = {name: files(spark, team, name) for name in before}
    if registry == "a new one":
        team.respec(registry="second")
    versions = {n: state.table_version(spark, str(team.folder / n)) for n in before}
    adopt(spark, team.table)
    assert placed(spark, team) and both(spark, team) == before
    same = {name: files(spark, team, name) for name in before} == stored
    # Rows moved since epoch 0: they fit the epoch that they were released at, and no other.
    assert same == (registry == "the same")
    for name, version in versions.items():
        path = str(team.folder / name)
        assert state.table_version(spark, path) == version + 1
        assert len(constraints.our_constraints(spark, path)) == 1
    if registry == "the same":
        run(spark, team, "r2", capacities=(1, 1, 0.3, 1))
        assert both(spark, team) == before and placed(spark, team)
    release(spark, team.table, drop_columns=True)
    assert partitions(spark, str(team.folder / "orders")) == ["day"]
    assert both(spark, team) == before


def test_rows_that_came_since_the_release_are_placed(spark: SparkSession, team: World) -> None:
    path = str(team.folder / "orders")
    adopt(spark, team.table)
    release(spark, team.table)
    more = spark.read.format("delta").load(path).limit(5).drop("slot")
    more = more.withColumn("channel", F.lit(77))
    more.write.format("delta").mode("append").save(path)
    before = both(spark, team)
    adopt(spark, team.table)
    assert both(spark, team) == before and placed(spark, team)


def test_an_append_beside_the_metadata_is_not_left_out(
    spark: SparkSession, adopted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = adopted
    release(spark, team.table)
    path, real, times = str(team.folder / "orders"), adopting.change, []

    def late(own, at, *args: Any, **kwargs: Any) -> None:
        if not times and Path(at).name == "orders":
            times.append(at)
            more = spark.read.format("delta").load(path).limit(3)
            more.withColumn("channel", F.lit(77)).write.format("delta").mode("append").save(path)
        real(own, at, *args, **kwargs)

    monkeypatch.setattr(adopting, "change", late)
    adopt(spark, team.table)
    assert times and placed(spark, team)
    assert len(content(spark, team, "orders")) == len(team.events) + 3


def test_columns_that_the_team_made_again_are_not_ours(spark: SparkSession, team: World) -> None:
    path = str(team.folder / "orders")
    adopt(spark, team.table)
    release(spark, team.table, drop_columns=True)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN slot INT")
    with pytest.raises(InputError, match="has a column 'slot', which Evenkeel would add"):
        adopt(spark, team.table)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": "many"}, "adopted with rows: one.*"),
        ({"rows": "one", "partitions": ["most"]}, r"partitioned by channel; .*partitions: most"),
    ],
)
def test_a_second_run_with_another_spec_is_refused(
    spark: SparkSession, team: World, changed: dict[str, Any], message: str
) -> None:
    adopt(spark, team.table)
    spec = yaml.safe_load(Path(team.spec_path).read_text())
    spec["state"]["profiles"] = {"path": "profiles", **changed}
    team.respec(state=spec["state"])
    with pytest.raises(InputError, match=message):
        adopt(spark, team.table)


def test_the_partitions_of_a_retry_are_those_that_release_finds(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, times = str(team.folder / "profiles"), adopting.change, []

    def late(own, at, *args: Any, **kwargs: Any) -> None:
        if not times and at == path:
            times.append(at)
            rows = spark.read.format("delta").load(path)
            rows.write.format("delta").mode("overwrite").option(
                "overwriteSchema", True
            ).partitionBy("most").save(path)
        real(own, at, *args, **kwargs)

    monkeypatch.setattr(adopting, "change", late)
    adopt(spark, team.table)
    release(spark, team.table, drop_columns=True)
    assert times and partitions(spark, path) == ["most"]


def test_writers_can_route_at_every_moment(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = adopting.change, []

    def write_one(name: str) -> None:
        path = str(team.folder / name)
        rows = spark.read.format("delta").load(path).limit(1).drop("slot", "channel")
        rows = rows.withColumn("dest", F.lit(f"NEW{len(written)}"))
        if state.CHANNEL in state.schema(spark, path).fieldNames():
            epoch = team.table.epoch()
            rows = rows.withColumn("slot", epoch.slot()).withColumn("channel", epoch.route())
        rows.write.format("delta").mode("append").save(path)
        written.append(name)

    def between(own, at, *args: Any, **kwargs: Any) -> None:
        real(own, at, *args, **kwargs)
        for name in ("orders", "profiles"):
            write_one(name)

    monkeypatch.setattr(adopting, "change", between)
    adopt(spark, team.table)
    assert len(written) >= 4 and placed(spark, team)


def test_an_epoch_that_is_published_while_a_table_is_rewritten_leaves_a_way_out(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run had a spec without the table, so it moved no row of it."""
    adopt(spark, team.table)
    path, before = str(team.folder / "profiles"), both(spark, team)
    parts = yaml.safe_load(Path(team.spec_path).read_text())["state"]
    orders, profiles = ({name: parts[name]} for name in ("orders", "profiles"))
    team.respec(state=profiles)
    release(spark, team.table)
    real = adopting.change

    def late(own, at, *args: Any, **kwargs: Any) -> None:
        team.respec(state=orders)
        run(spark, team, "r1", capacities=(1, 1, 1, 0.3))
        team.respec(state=profiles)
        real(own, at, *args, **kwargs)

    monkeypatch.setattr(adopting, "change", late)
    with pytest.raises(
        FenceError, match="epoch 1 was published meanwhile.*evenkeel release SPEC.*alone"
    ):
        adopt(spark, team.table)
    assert constraints.our_constraints(spark, path) == {"evenkeel_epoch_0"}
    assert release(spark, team.table) == ["profiles"]
    assert constraints.our_constraints(spark, path) == set()
    assert both(spark, team) == before
    with pytest.raises(InputError, match="epoch 1 knows no state table 'profiles'"):
        adopt(spark, team.table)


def test_retention_never_shrinks(spark: SparkSession, team: World) -> None:
    team.respec(keep=14)
    adopt(spark, team.table)
    found = state.properties(spark, str(team.folder / "orders"))
    # Delta keeps its log for 30 days if nobody says otherwise, and removed files for 7.
    assert found.get("delta.logRetentionDuration", "interval 30 days") == "interval 30 days"
    assert found["delta.deletedFileRetentionDuration"] == "interval 14 days"


def test_a_large_channel_is_written_by_several_tasks(
    spark: SparkSession, team: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenkeel_spark.adoption.row_tasks.TASK_BYTES", 4_000)
    adopt(spark, team.table)
    path, ranges = str(team.folder / "orders"), {}
    for file in files(spark, team, "orders"):
        rows = spark.read.parquet(f"{path}/{file}").agg(F.min("slot"), F.max("slot")).first()
        ranges.setdefault(file.split("/")[0], []).append(tuple(rows))
    assert placed(spark, team) and max(map(len, ranges.values())) > 1
    for found in ranges.values():
        found.sort()
        assert all(a[1] < b[0] for a, b in itertools.pairwise(found))


def test_the_dry_run_tells_of_the_protocol_and_of_downstream_readers(
    spark: SparkSession, team: World, capsys: pytest.CaptureFixture[str]
) -> None:
    adopt(spark, team.table, dry_run=True)
    said = capsys.readouterr().out
    assert "deletionVectors" in said and "DROP FEATURE" in said
    assert "change data feed" in said and "stream" in said
    assert "orders: a rewrite takes about" in said


def test_a_second_adoption_says_what_it_would_do(
    spark: SparkSession, adopted: World, capsys: pytest.CaptureFixture[str]
) -> None:
    team = adopted
    release(spark, team.table)
    capsys.readouterr()
    adopt(spark, team.table, dry_run=True)
    assert "orders: one commit would set" in capsys.readouterr().out


def test_commits_are_ours_in_the_history(spark: SparkSession, adopted: World) -> None:
    team = adopted
    newest = next(commits.newest_first(spark, str(team.folder / "orders")))
    assert newest.meta == {"epoch": 0, "step": "adopt"}
