"""Each row of the doctor, right and wrong, and the command as a whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel import extras
from evenkeel.doctor import Finding, Status, airflow_setup, command, packages
from evenkeel.shared_spark import Address, SharedSpark
from evenkeel.submit import RM_ADDRESS, check_own_driver
from evenkeel_spark.runtime import attached
from partitioning.errors import SetupError
from tests.conftest import World
from tests.evenkeel.doctor.conftest import answers

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_version_of_a_package() -> None:
    spark = lambda found: packages.package("pyspark", found, "spark", extras.TESTED_SPARK)  # noqa: E731
    assert spark("4.1.4").status is Status.ok
    absent = spark(None)
    assert absent.status is Status.absent and "pip install 'delta-spark" in absent.fix
    old = spark("3.5.9")
    assert old.status is Status.wrong and "expected 4.0 or newer" in old.found
    untested = spark("4.9.0")
    assert untested.status is Status.warning and "4.1, 4.2" in untested.found
    airflow = packages.package("apache-airflow", "2.11.0", "airflow", extras.TESTED_AIRFLOW)
    assert airflow.status is Status.wrong and "apache-airflow<" in airflow.fix


def test_two_versions_of_pyspark_break_each_other() -> None:
    assert packages.one_pyspark("4.1.4", None).status is Status.ok
    assert packages.one_pyspark("4.1.4", "4.1.4").status is Status.ok
    both = packages.one_pyspark("4.1.4", "4.2.0")
    assert both.status is Status.wrong and "'pyspark-client==4.1.3'" in both.fix


@pytest.mark.parametrize(
    ("spark", "client", "wanted"),
    [
        # PyPI has no pyspark-client 4.1.4, and a pyspark of each of its releases.
        ("4.1.4", "4.1.3", "'pyspark==4.1.3' 'pyspark-client==4.1.3'"),
        ("4.0.2", "4.0.10", "'pyspark==4.0.2' 'pyspark-client==4.0.2'"),
        ("4.1.4", "4.2.0", "'pyspark==4.1.3' 'pyspark-client==4.1.3'"),
        # No client is of these series.
        ("4.3.0", "4.2.0", "'pyspark==4.2.0' 'pyspark-client==4.2.0'"),
        ("3.5.9", "4.2.0", "'pyspark==4.2.0' 'pyspark-client==4.2.0'"),
    ],
)
def test_the_command_for_one_pyspark_names_releases_that_there_are(
    spark: str, client: str, wanted: str
) -> None:
    assert extras.one_pyspark_command(spark, client).endswith(wanted)


@pytest.mark.parametrize(("submits", "status"), [(False, Status.absent), (True, Status.wrong)])
def test_where_only_the_client_is_installed_the_rows_of_jobs_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submits: bool, status: Status
) -> None:
    """A program over Spark Connect needs none of them; a Spark of SPARK_HOME takes jobs."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    if submits:
        (home / "bin" / "spark-submit").touch(0o755)
    for name, value in {
        "JAVA_HOME": str(tmp_path / "none"),
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(home / "conf"),
        "SPARK_REMOTE": "sc://spark",
        "PATH": str(tmp_path),
        "EVENKEEL_SPARK": str(tmp_path / "shared"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(packages, "installed", {"pyspark-client": "4.1.3"}.get)
    rows = {row.what: row.status for row in packages.look_at_packages()}
    assert rows["Java"] is rows["SPARK_REMOTE"] is status
    assert rows["spark-submit"] is (Status.ok if submits else Status.absent)
    assert rows["Delta's jars"] is (Status.warning if submits else Status.absent)
    # Who sets it wants jobs.
    assert rows["EVENKEEL_SPARK"] is Status.wrong


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        (("pyspark",), "'pyspark==4.0.*'"),
        (("pyspark", "pyspark-client"), "'pyspark==4.0.4' 'pyspark-client==4.0.4'"),
        (("pyspark-client",), "'pyspark-client==4.0.4'"),
    ],
)
def test_pip_is_not_asked_for_a_vendor_s_version(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], asked: str
) -> None:
    """EMR, Dataproc and others put a part of their own behind the version."""
    monkeypatch.setattr(extras, "installed", dict.fromkeys(names, "4.1.3").get)
    (row,) = packages.one_spark("4.1.3", "4.0.2-amzn-0")
    assert row.fix.endswith(f"pip install {asked}")


def test_spark_submit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert packages.submit_program().status is Status.wrong
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "spark-submit"
    program.touch(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert packages.submit_program() == Finding("spark-submit", Status.ok, str(program))


def test_a_server_of_spark_connect_is_wrong_for_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert not list(packages.own_driver())
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark")
    (found,) = packages.own_driver()
    assert found.status is Status.wrong and "sc://spark" in found.found


def test_a_spark_home_without_spark_is_wrong_for_jobs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="expected a folder with bin/spark-submit, found none"):
        check_own_driver()
    (found,) = packages.own_driver()
    assert (found.what, found.status) == ("SPARK_HOME", Status.wrong)
    with monkeypatch.context() as patch:
        patch.setenv("PYSPARK_GATEWAY_PORT", "1")
        check_own_driver()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch(0o755)
    assert not list(packages.own_driver())


def test_a_spark_that_stays_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", str(tmp_path))
    (found,) = packages.own_driver()
    assert found.status is Status.wrong and found.fix == f"evenkeel spark {tmp_path}"
    here = attached.versions()
    SharedSpark(tmp_path).tell(Address(os.getpid(), 1, "", here))
    assert [f.status for f in packages.own_driver()] == [Status.ok]
    # It goes on with what it began with, and each job then fails.
    for upgraded in ("Evenkeel", "PySpark"):
        SharedSpark(tmp_path).tell(Address(os.getpid(), 1, "", here.replace(upgraded, "old")))
        (found,) = packages.own_driver()
        assert found.status is Status.wrong and here in found.found
        assert found.fix == f"End process {os.getpid()}, then: evenkeel spark {tmp_path}"


def test_the_plugin_is_registered_or_in_the_plugins_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_setup, "entry_points", lambda group: [])
    assert airflow_setup.plugin(None).status is Status.warning
    assert airflow_setup.plugin(str(tmp_path)).status is Status.warning
    (tmp_path / "evenkeel_plugin.py").touch()
    assert airflow_setup.plugin(str(tmp_path)).status is Status.ok


@pytest.mark.parametrize(
    ("fields", "extra", "status", "said"),
    [
        ({"host": "local[*]"}, {}, Status.ok, "local[*], deploy mode client"),
        ({"host": "spark://m", "port": 7077}, {}, Status.ok, "spark://m:7077, deploy mode client"),
        ({"host": "m", "port": 7077}, {"deploy-mode": "cluster"}, Status.wrong, "spark://m:7077"),
        ({"host": None}, {}, Status.wrong, "names no master"),
        ({"host": "k8s://https://m"}, {"deploy-mode": "client"}, Status.ok, "mode client"),
        ({"host": "k8s://https://m"}, {"deploy-mode": "cluster"}, Status.wrong, "mode cluster"),
        ({"host": "yarn"}, {"deploy-mode": "cluster"}, Status.warning, "yarn, deploy mode cluster"),
        (
            {"host": "yarn"},
            {"deploy-mode": "cluster", RM_ADDRESS: "rm:8088"},
            Status.ok,
            "yarn, deploy mode cluster",
        ),
    ],
)
def test_the_connection_and_its_mode(
    airflow: Path, fields: dict[str, object], extra: dict[str, str], status: Status, said: str
) -> None:
    answers(airflow, json.dumps([{"conn_type": "spark", **fields, "extra_dejson": extra}]))
    row = next(airflow_setup.connection("spark_default"))
    assert row.status is status and said in row.found, row


@pytest.mark.parametrize(
    ("answer", "migrates"),
    [
        ("", False),
        ("TimeoutError: There are still unapplied migrations after 1 seconds.", True),
        ("OperationalError: connection refused", False),
    ],
)
def test_a_connection_is_added_once_the_database_is_there(
    airflow: Path, answer: str, migrates: bool
) -> None:
    asked = f'[ "$1" = db ] && {{ echo "{answer}" >&2; exit {1 if answer else 0}; }}'
    airflow.write_text(f"#!/bin/sh\n{asked}\necho not found.; exit 1\n")
    (row,) = airflow_setup.connection("spark_default")
    assert row.status is Status.wrong and "connections add" in row.fix
    assert row.fix.startswith("airflow db migrate && ") is migrates
    assert ("not found" in row.found) is not migrates


def test_airflows_tasks_find_spark_submit_on_path_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-submit").touch(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    row = airflow_setup.submit_on_path("spark-submit")
    assert row.status is Status.wrong and f"with {tmp_path} on PATH" in row.fix
    monkeypatch.setenv("PATH", str(tmp_path))
    assert airflow_setup.submit_on_path("spark-submit").status is Status.ok
    # A checkout's own folder is on the doctor's PATH. An Airflow of this shell has it not.
    own = airflow_setup.submit_on_path("spark-submit", str(tmp_path / "none"))
    assert own.status is Status.warning and f"with {tmp_path} on PATH" in own.fix


def test_an_airflow_that_hangs_or_fails_is_one_row(
    airflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_setup, "MAX_ANSWER_SECONDS", 1)
    airflow.write_text("#!/bin/sh\nexec sleep 20\n")
    (row,) = airflow_setup.look_at_airflow()
    assert row.status is Status.wrong and "did not answer within 1 seconds" in row.found
    assert airflow_setup.setting("core", "dags_folder") is None
    answers(airflow, "no such file: airflow.db", 1)
    (row,) = airflow_setup.look_at_airflow()
    assert row.status is Status.wrong and "airflow.db" in row.found


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, without an Airflow on PATH."""
    code = (
        "from evenkeel.doctor import command; command.look_at_airflow = lambda path: []; "
        "from evenkeel.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, "doctor", *arguments],
        capture_output=True,
        text=True,
        env={"PATH": "", "COLUMNS": "150", **variables},
        timeout=120,
    )


def test_the_command_fails_if_something_is_wrong(world: World, tmp_path: Path) -> None:
    good = run(world.spec_path, "--format", "json")
    rows = {row["what"]: row for row in json.loads(good.stdout)}
    assert rows["trips: input"]["status"] == "ok", good.stdout
    (tmp_path / "events.parquet").unlink()
    (tmp_path / "wrong.yaml").write_text("table: wrong\n")
    bad = run(EVENKEEL_TABLES=str(tmp_path))
    assert bad.returncode == 1
    assert "trips: input" in bad.stdout and "wrong" in bad.stdout
    assert "Correct input.path" in bad.stdout and "Correct the spec" in bad.stdout
    nowhere = run("--format", "json", EVENKEEL_TABLES=str(tmp_path / "none"))
    assert nowhere.returncode == 1 and "Set EVENKEEL_TABLES" in nowhere.stdout


def test_a_look_that_nobody_foresaw_to_fail_hides_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> Iterator[Finding]:
        yield Finding("first", Status.ok, "")
        raise RuntimeError("no such thing\n  at line 7")

    monkeypatch.setattr(command, "look_at_packages", fail)
    monkeypatch.setattr(command, "look_at_airflow", fail)
    rows = list(command.examine([world.spec_path]))
    assert [row.what for row in rows[:2]] == ["first", "packages"]
    assert rows[1].status is Status.wrong
    assert rows[1].found == "could not be looked at: RuntimeError: no such thing"
    assert "trips: input" in {row.what for row in rows}
    assert rows[-1].what == "Airflow"
