"""A watched Iceberg table, at two moments to begin a case from: calm, and hot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.jobs.bootstrap import bootstrap
from tests.support.iceberg.catalogs import ANY_KIND, catalog_of, lake_in
from tests.support.iceberg.stages import Stages
from tests.support.iceberg.watched import FIRST_ENDS, MADE, ONE, SECOND_DAY, Watched


@pytest.fixture(scope="session")
def watched(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """Keep it under epoch 0 after an even micro-batch; hot: one with two hot keys follows."""
    folder = tmp_path_factory.mktemp("watched")
    made = Stages(spark, folder / "now", folder / "kept", lake_in)
    made.now.mkdir()
    with catalog_of(made.now, ANY_KIND):
        lake, live = lake_in(spark, made.now), Watched(made.now).write_spec(MADE)
        live.batch(0, 0.1)
        bootstrap(lake, live.table, FIRST_ENDS)
        live.batch(SECOND_DAY, 0.1)
        assert not live.look(lake, SECOND_DAY)
        made.keep("calm")
        live.hot_pair(ONE)
        made.keep("hot")
        yield made
