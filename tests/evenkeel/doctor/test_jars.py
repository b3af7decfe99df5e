"""The jars of Delta, Iceberg and S3 that Spark's settings bring, right and wrong."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from evenkeel import submit
from evenkeel.doctor import Status, jars, packages
from evenkeel.doctor.iceberg_settings import EXTENSIONS, look_at_iceberg
from evenkeel.doctor.stores import look_at_table
from evenkeel.spec.table_spec import TableSpec

DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


@pytest.mark.parametrize(
    ("conf", "status"),
    [
        ("spark.jars.packages  io.delta:delta-spark_4.1_2.13:4.4.0", Status.ok),
        ("spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0", Status.wrong),
        ("spark.jars.packages io.delta:delta-spark_4.1_2.12:4.4.0", Status.wrong),
        ("spark.jars.packages io.delta:delta-spark_2.13:3.3.2", Status.wrong),
        ("spark.jars.packages io.delta:delta-spark_2.13:4.0.1", Status.wrong),
        ("spark.jars.packages io.delta:delta-spark_4.1_2.13:4.9.0", Status.warning),
        ("spark.driver.extraClassPath {folder}/*", Status.ok),
        ("# spark.jars.packages io.delta:delta-spark_4.1_2.13:4.4.0", Status.warning),
    ],
)
def test_the_jars_of_delta_are_for_this_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: str, status: Status
) -> None:
    (tmp_path / "delta-spark_4.1_2.13-4.4.0.jar").touch()
    (tmp_path / "spark-defaults.conf").write_text(conf.format(folder=tmp_path))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    found = jars.delta_jars("4.1.4")
    assert found.status is status
    if status is not Status.ok:
        assert "io.delta:delta-spark_4.1_2.13:4.4.0" in found.fix


def test_settings_in_another_encoding_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"# für alle\nspark.jars.packages {DELTA}\n"
    (tmp_path / "spark-defaults.conf").write_bytes(text.encode("latin-1"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert jars.spark_defaults() == {"spark.jars.packages": DELTA}


def test_the_hadoop_of_a_spark_is_told_by_its_jar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert jars.hadoop_version() is None
    (tmp_path / "jars" / "hadoop-client-api-3.4.2.jar").touch()
    assert jars.hadoop_version() == (3, 4, 2)


def test_the_spark_of_spark_home_is_the_one_that_delta_s_jars_are_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.1.2.jar").touch()
    (tmp_path / "jars" / "delta-spark_4.1_2.13-4.4.0.jar").touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "installed", lambda name: "4.2.0" if name == "pyspark" else None)
    rows = {row.what: row for row in packages.look_at_packages()}
    assert rows["Delta's jars"].status is Status.ok, rows["Delta's jars"]
    two = rows["PySpark and SPARK_HOME"]
    assert two.status is Status.warning and two.found == "PySpark 4.2.0, Spark 4.1.2"
    assert "pip install 'pyspark==4.1." in two.fix
    monkeypatch.setattr(packages, "installed", lambda name: "4.1.4" if name == "pyspark" else None)
    assert "PySpark and SPARK_HOME" not in {row.what for row in packages.look_at_packages()}


@pytest.mark.parametrize(
    ("brought", "status"),
    [
        ("", Status.warning),
        ("org.apache.hadoop:hadoop-aws:3.4.2", Status.ok),
        ("org.apache.hadoop:hadoop-aws:3.3.4", Status.wrong),
    ],
)
def test_s3_needs_the_connector_of_sparks_hadoop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brought: str, status: Status
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars/hadoop-client-api-3.4.2.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    row = jars.s3_connector("connector", {"spark.jars.packages": brought})
    assert row.status is status
    if status is not Status.ok:
        assert "hadoop-aws:3.4.2" in row.fix


@pytest.mark.parametrize("place", ["on PATH", "of pip"])
def test_without_spark_home_the_jars_are_those_of_the_spark_that_starts(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.touch(0o755)
    home = tmp_path
    if place == "of pip":
        # Its program lies beside Python, and asks this file where the package is.
        (program.parent / "find_spark_home.py").touch()
        home = tmp_path / "pyspark"
        found = SimpleNamespace(origin=str(home / "__init__.py"))
        monkeypatch.setattr(submit, "find_spec", lambda name: found)
    (home / "jars").mkdir(parents=True)
    for jar in ("hadoop-client-api-3.4.2", "spark-core_2.13-4.1.2", "hadoop-aws-3.3.4"):
        (home / "jars" / f"{jar}.jar").touch()
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(program.parent))
    row = jars.s3_connector("connector", {})
    assert row.status is Status.wrong and "hadoop-aws 3.3.4, and this Spark's" in row.found
    assert "hadoop-aws:3.4.2" in row.fix
    (home / "jars" / "hadoop-aws-3.3.4.jar").rename(home / "jars" / "hadoop-aws-3.4.2.jar")
    assert jars.s3_connector("connector", {}).status is Status.ok
    assert jars.spark_of_home() == "4.1.2"


def test_without_a_spark_the_connector_s_version_cannot_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    row = jars.s3_connector("connector", {"spark.jars.packages": "hadoop-aws:3.3.4"})
    assert row.status is Status.warning and "was not compared" in row.found
    assert "hadoop-client-api" in row.fix


CUSTOMERS = {
    "table": "customers",
    "key": ["customer"],
    "input": {"path": "/lake/clicks", "time": "at"},
    "state": {"orders": {"path": "lake.sales.orders", "format": "iceberg", "rows": "many"}},
    "registry": "/lake/registry",
    "channels": 4,
}
RIGHT = {
    "spark.jars.packages": f"{DELTA},{ICEBERG}",
    "spark.sql.extensions": f"io.delta.sql.DeltaSparkSessionExtension, {EXTENSIONS}",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
}
RUNTIME, EXTENSION, CATALOG = "Iceberg's runtime", "Iceberg's extension", "catalog lake"


@pytest.mark.parametrize(
    ("changes", "row", "status", "said"),
    [
        ({}, RUNTIME, Status.ok, "Iceberg 1.12.0"),
        ({"jars.packages": DELTA}, RUNTIME, Status.warning, "none in spark-defaults.conf"),
        ({"jars.packages": ICEBERG.replace("4.1", "4.0")}, RUNTIME, Status.wrong, "for Spark 4.0"),
        ({"jars.packages": ICEBERG.replace("2.13", "2.12")}, RUNTIME, Status.wrong, "Scala 2.12"),
        ({"jars.packages": ICEBERG.replace("12.0", "13.0")}, RUNTIME, Status.warning, "1.13.0"),
        ({}, EXTENSION, Status.ok, "spark.sql.extensions"),
        ({"sql.extensions": ""}, EXTENSION, Status.warning, "lacks it"),
        ({}, CATALOG, Status.ok, "SparkCatalog"),
        ({"sql.catalog.lake": ""}, CATALOG, Status.warning, "no spark.sql.catalog.lake"),
    ],
)
def test_an_iceberg_table_needs_a_runtime_an_extension_and_a_catalog(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    changes: dict[str, str],
    row: str,
    status: Status,
    said: str,
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.1.2.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    spec = TableSpec.model_validate(CUSTOMERS)
    conf = RIGHT | {f"spark.{key}": value for key, value in changes.items()}
    rows = {found.what: found for found in look_at_table(spec, conf)}
    found = rows[f"customers: {row}"]
    assert found.status is status and said in found.found, found
    if status is not Status.ok:
        assert ICEBERG in found.fix or EXTENSIONS in found.fix or "SparkCatalog" in found.fix


def test_a_spark_without_a_runtime_is_told_of_the_one_that_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.2.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    spec = TableSpec.model_validate(CUSTOMERS)
    found = next(look_at_iceberg(spec, RIGHT))
    assert found.status is Status.wrong and found.fix == f"Use {ICEBERG} on Spark 4.1"
    state = {"orders": {"path": "/lake/orders", "rows": "many"}}
    assert not list(look_at_iceberg(TableSpec.model_validate({**CUSTOMERS, "state": state}), {}))
