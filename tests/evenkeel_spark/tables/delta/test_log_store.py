"""Stores that cannot keep two writers apart are refused before anything is touched."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from evenkeel.log_store import ONE_DRIVER
from evenkeel_spark.jobs import learn
from evenkeel_spark.tables.delta.log_store import check_log_store
from partitioning.errors import InputError
from tests.conftest import SPEC, World

pytestmark = pytest.mark.spark


def test_state_on_s3_needs_a_log_store_that_excludes(
    spark: SparkSession, world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    check_log_store(spark, world.table.spec)
    world.respec(state={"totals": {**SPEC["state"]["totals"], "path": "s3a://lake/totals"}})
    assert learn.main(["--spec", world.spec_path, "--run", "r1"]) == 2
    (line,) = [x for x in capfd.readouterr().err.splitlines() if "evenkeel: error" in x]
    assert "s3a://lake/totals" in line
    assert "spark.delta.logStore.s3a.impl" in line
    assert not (world.folder / "registry").exists()
    ways = {"spark.delta.logStore.s3a.impl": "a.Store", "spark.delta.logStore.class": "a.Store"}
    for name, value in {ONE_DRIVER: "true", **ways}.items():
        spark.conf.set(name, value)
        try:
            check_log_store(spark, world.table.spec)
        finally:
            spark.conf.unset(name)
    with pytest.raises(InputError, match="on s3a:// Delta may let .* overwrite another's commit"):
        check_log_store(spark, world.table.spec)
    # A path alone is in Hadoop's default file system.
    world.respec(state=SPEC["state"])
    spark.conf.set("spark.hadoop.fs.defaultFS", "cosn://lake")
    try:
        with pytest.raises(InputError, match="on cosn://.*spark.delta.logStore.cosn.impl"):
            check_log_store(spark, world.table.spec)
    finally:
        spark.conf.unset("spark.hadoop.fs.defaultFS")
