"""Iceberg tables of a team, in a catalog of each test's own.

They need Iceberg's runtime, which there is for Spark 4.1 and not for 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from evenkeel_spark.jobs.bootstrap import bootstrap
from tests.conftest import SEEN, SPEC, World, some_events
from tests.support.iceberg.catalogs import ANY_KIND, CatalogServer, catalog_of, lake_in
from tests.support.iceberg.stages import Stages
from tests.support.iceberg.tables import team_in


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CatalogServer | None]:
    """Have a catalog of the kind that a test is parametrized by; yield its server, if it has one.

    ICEBERG_CATALOG=jdbc, say, gives all other tests a catalog of that kind.
    """
    with catalog_of(tmp_path, getattr(request, "param", ANY_KIND)) as found:
        yield found


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, server: CatalogServer | None) -> SparkSession:
    return lake_in(spark, tmp_path)


@pytest.fixture
def as_jobs(lake: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the jobs have the session with the catalog."""
    monkeypatch.setattr("evenkeel_spark.runtime.command.session", lambda name: lake)


@pytest.fixture
def team(lake: SparkSession, tmp_path: Path) -> World:
    return team_in(lake, tmp_path, some_events())


@pytest.fixture(scope="session")
def stages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """Small tables at each stage of their life, to begin a case from: see `Stages`."""
    folder = tmp_path_factory.mktemp("stages")
    made = Stages(spark, folder / "now", folder / "kept", lake_in)
    events = some_events(count=200, keys=30)
    # Few days, so that there are few files.
    events["at"] = events["at"].dt.floor("14D") + (events["at"] - events["at"].dt.floor("1D"))
    (folder / "now").mkdir()
    with catalog_of(made.now, ANY_KIND):
        team_in(lake_in(spark, made.now), made.now, events, files=1)
        made.keep("team")
        yield made


@pytest.fixture
def fed(lake: SparkSession, tmp_path: Path) -> World:
    """Events of 14 days, and a spec of two Iceberg tables; nothing is bootstrapped."""
    made = World(tmp_path)
    columns = {"totals": SPEC["state"]["totals"]["columns"], "seen": SEEN["columns"]}
    state = {
        name: {"path": f"lake.db.{name}", "format": "iceberg", "columns": columns[name]}
        for name in columns
    }
    spec = {**SPEC, "state": state, "trigger": 1.01, "max_imbalance": 1.01}
    Path(made.spec_path).write_text(yaml.safe_dump(spec, sort_keys=False))
    return made.write_events(some_events())


@pytest.fixture
def kept(lake: SparkSession, fed: World) -> World:
    """The same, with state of the first seven days under epoch 0."""
    assert bootstrap(lake, fed.table, date(2013, 1, 8))
    return fed
