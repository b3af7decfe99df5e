"""The session: what it insists on, what conf may override, and one clear error without Delta."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from evenkeel.extras import TESTED_SPARK, delta_package
from evenkeel.local_env import environment
from evenkeel_spark.jobs import bootstrap
from evenkeel_spark.migration.row_moves import LIST
from evenkeel_spark.runtime.session import _with_delta, check_series, own_spark
from partitioning.errors import InputError, SetupError, UnreachableError
from tests.conftest import World

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("found", ["4.2.0", "4.2.17", "4.2.0-SNAPSHOT", "4.1.4", "4.0.4"])
def test_any_release_of_a_tested_series_will_do(found):
    assert check_series("Spark", found, TESTED_SPARK) is None


@pytest.mark.parametrize(("what", "found"), [("Spark", "4.20.0"), ("Delta Lake", "4.3.1")])
def test_another_series_is_a_warning_that_names_what_was_tested(what, found):
    told = check_series(what, found, ["4.1", "4.2"])
    assert told == f"{what} {found} was not tested with Evenkeel (tested: 4.1, 4.2)"


def test_a_spark_that_is_too_old_is_refused():
    with pytest.raises(InputError, match=r"Spark 3\.5\.9 is too old: .* 4\.0 or newer.*4\.2"):
        check_series("Spark", "3.5.9", TESTED_SPARK)


@pytest.mark.spark
def test_a_spark_of_another_series_than_pyspark_is_named_before_delta_s_jars(spark, monkeypatch):
    """Then SPARK_HOME is another Spark than the one that PySpark brings."""
    monkeypatch.setattr(pyspark, "__version__", "4.9.0")
    said = (
        rf"\$SPARK_HOME.*: expected one version of Spark, found PySpark 4\.9\.0 and Spark "
        rf"{spark.version}.*Unset SPARK_HOME, or run: pip install 'pyspark=={spark.version[:4]}"
    )
    with pytest.raises(SetupError, match=said):
        own_spark("test")


def test_extensions_of_others_stay():
    delta = "io.delta.sql.DeltaSparkSessionExtension"
    assert _with_delta("") == delta
    assert _with_delta("a.B, c.D") == f"a.B,c.D,{delta}"
    assert _with_delta(f"{delta},a.B") == f"{delta},a.B"


@pytest.mark.spark
def test_the_tests_run_in_the_jobs_own_session(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    conf = spark.sparkContext.getConf()
    # A default of ours, and one of ours to which set-up's conf says otherwise.
    assert conf.get("spark.hadoop.parquet.block.size") == str(1 << 20)
    assert conf.get("spark.sql.parquet.pushdown.inFilterThreshold") == str(LIST)
    if environment():
        assert conf.get("spark.databricks.delta.snapshotPartitions") == "1"


@pytest.mark.spark
def test_a_callers_conf_wins_over_that_of_the_machine(tmp_path: Path):
    """Benchmarks on one core say so: set-up's defaults name all cores."""
    (tmp_path / "apart.py").write_text(
        "from evenkeel_spark.runtime.session import session\n"
        'conf = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "5"}\n'
        'made = session("apart", **conf)\n'
        "print(made.sparkContext.defaultParallelism, made.conf.get(list(conf)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "apart.py")],
        env={**os.environ, **environment(), "PYTHONPATH": f"{ROOT / 'spark_jobs'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["1", "5"], done.stderr


@pytest.mark.spark
@pytest.mark.parametrize(
    ("jar", "said"),
    [
        ("none.jar", "Delta Lake is not on the class path"),
        ("delta-spark_4.9_2.13-4.4.0.jar", "Delta's jars are built for Spark 4.9: expected those"),
    ],
)
def test_without_delta_for_this_spark_on_the_class_path(
    world: World, tmp_path: Path, jar: str, said: str
):
    bare = tmp_path / "conf"
    bare.mkdir()
    (delta,) = (ROOT / ".jars").glob("delta-spark_*.jar")
    shutil.copy(delta, tmp_path / "delta-spark_4.9_2.13-4.4.0.jar")
    (bare / "spark-defaults.conf").write_text(
        "spark.master local[1]\nspark.ui.enabled false\n"
        f"spark.driver.extraClassPath {tmp_path / jar}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "evenkeel_spark.jobs.bootstrap", "--spec", world.spec_path],
        env={**os.environ, **environment(), "SPARK_CONF_DIR": str(bare)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    ours = [line for line in done.stderr.splitlines() if line.startswith("evenkeel: error: ")]
    assert done.returncode == 2
    assert len(ours) == 1
    assert said in ours[0] and f"--packages {delta_package(pyspark.__version__)}" in ours[0]
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr
    assert not (world.folder / "state").exists()


@pytest.mark.spark
def test_a_cluster_that_is_not_there_is_one_line_that_names_it(world: World):
    """One without a port, as Spark waits a minute for one that does not answer."""
    master = "spark://127.0.0.1"
    done = subprocess.run(
        [sys.executable, "-m", "evenkeel_spark.jobs.bootstrap", "--spec", world.spec_path],
        env={
            **os.environ,
            **environment(),
            "PYSPARK_SUBMIT_ARGS": f"--master {master} --driver-memory 512m pyspark-shell",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == UnreachableError.exit_code, done.stderr
    ours = [line for line in done.stderr.splitlines() if line.startswith("evenkeel: error: ")]
    assert len(ours) == 1
    assert f"master {master}: Spark could not be started" in ours[0]
    assert "Traceback" not in done.stderr
    assert not (world.folder / "state").exists()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ("s3a://lake/events", "--packages org.apache.hadoop:hadoop-aws:3."),
        ("gs://lake/events", "Put a connector of gs:// among Spark's jars"),
    ],
)
def test_a_place_that_spark_cannot_open_is_one_line_before_any_work(
    world: World, spark, capsys, place: str, advice: str
):
    world.respec(input={"path": place, "time": "at"})
    code = bootstrap.main(["--spec", world.spec_path, "--end", "2013-01-08"])
    assert code == SetupError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert place in line and advice in line and "evenkeel doctor" in line
    assert not (world.folder / "registry").exists()
