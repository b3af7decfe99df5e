"""Jobs in a Spark that stays up: each as if it had one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from evenkeel.demo.spark_process import SparkProcess
from evenkeel.shared_spark import SharedSpark
from evenkeel.submit import job_command, spark_server
from evenkeel_spark.runtime import spark_server as server
from tests.support.placed import Placed, placed, planned

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
#: What a job sees: its JVM, whether anything of another job is there, and its settings.
SEES = """
from evenkeel_spark.runtime.session import session
spark = session("sees")
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
cached = not spark._jsparkSession.sharedState().cacheManager().isEmpty()
views = [view.name for view in spark.catalog.listTables()]
ansi, zone = (spark.conf.get(f"spark.sql.{n}") for n in ("ansi.enabled", "session.timeZone"))
print(jvm, cached, views, ansi, zone)
"""
#: A job that leaves what it can; with an argument it never ends.
LEAVES = """
import sys
from evenkeel_spark.runtime.session import session
spark = session("leaves")
spark.conf.set("spark.sql.ansi.enabled", "false")
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
spark.range(10).cache().count()
spark.range(10).createOrReplaceTempView("left")
print("leaves", flush=True)
if sys.argv[1:]:
    spark.range(10**14).selectExpr("sum(id % 7)").collect()
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProcess]:
    """A Spark that stays up for the tests here."""
    folder = tmp_path_factory.mktemp("shared")
    with SparkProcess(folder / "spark", os.environ, folder / "spark.log") as process:
        assert process.wait() is None, process.log.read_text()
        yield process


def started(shared: SparkProcess, *command: str, **environment: str) -> subprocess.Popen[str]:
    env = {**os.environ, **shared.variables, **environment}
    return subprocess.Popen(
        [sys.executable, *command],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(shared: SparkProcess, *command: str, code: int = 0, **environment: str) -> str:
    """Run it to its end, and return its output."""
    process = started(shared, *command, **environment)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == code, output
    return output


def java_of(shared: SparkProcess) -> list[int]:
    children = psutil.Process(shared.process.pid).children(recursive=True)
    return [p.pid for p in children if "java" in p.name()]


def test_jobs_share_a_jvm_and_nothing_else(shared: SparkProcess) -> None:
    said(shared, "-c", LEAVES)
    (jvm,) = java_of(shared)
    assert said(shared, "-c", SEES).splitlines()[-1] == f"{jvm} False [] true UTC"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_job_uses_the_jvm_of_one_that_was_killed(
    shared: SparkProcess, number: signal.Signals
) -> None:
    (jvm,) = java_of(shared)
    with started(shared, "-c", LEAVES, "for ever") as leaves:
        assert leaves.stdout is not None
        assert any(line == "leaves\n" for line in leaves.stdout)
        waits = started(shared, "-c", SEES)
        assert waits.stdout is not None
        assert waits.stdout.readline() == f"waits for leaves (process {leaves.pid})\n"
        leaves.send_signal(number)
    output, _ = waits.communicate(timeout=300)
    assert output.splitlines()[-1].endswith(" False [] true UTC"), output
    assert not psutil.pid_exists(jvm)
    assert str(jvm) not in output


def test_a_migration_that_dies_there_is_rolled_back(
    shared: SparkProcess, spark: SparkSession, tmp_path: Path
) -> None:
    home = placed(spark, tmp_path)
    migration, before = planned(spark, home), rows(spark, home)
    given = ["--spec", str(home.spec_path), "--run", "r1", "--digest", migration.plan.digest]
    said(shared, *job_command("migrate", given)[1:], code=137, EVENKEEL_CRASH_AT="moved")
    assert rows(spark, home) != before
    assert "rows moved back" in said(shared, *job_command("roll_back", given)[1:])
    assert rows(spark, home) == before


def rows(spark: SparkSession, home: Placed) -> list[tuple[object, ...]]:
    found = spark.read.format("delta").load(home.path("visits")).collect()
    return sorted((row["key"], row["channel"], row["visits"]) for row in found)


def test_a_folder_has_one_spark(shared: SparkProcess) -> None:
    folder = shared.variables["EVENKEEL_SPARK"]
    done = subprocess.run([sys.executable, spark_server(), folder], capture_output=True, text=True)
    assert done.returncode == 2 and "a Spark stays up here already" in done.stderr
    assert SharedSpark(Path(folder)).address() is not None


def test_a_job_without_its_spark_says_so(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    for folder in (tmp_path / "gone", tmp_path / "never"):
        command = [sys.executable, "-c", SEES]
        env = {**os.environ, "EVENKEEL_SPARK": str(folder)}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert f"EVENKEEL_SPARK={folder}: expected a Spark that stays up, found none" in done.stderr


def jvm_of_a_job(shared: SparkProcess) -> int:
    return int(said(shared, "-c", SEES).splitlines()[-1].split()[0])


def test_a_jvm_that_dies_or_is_old_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        "import sys\nfrom evenkeel import shared_spark\nshared_spark.JOBS_PER_JVM = 2\n"
        f"from {server.__name__} import main\nsys.exit(main())\n"
    )
    monkeypatch.setattr("evenkeel.demo.spark_process.spark_server", lambda: str(program))
    with SparkProcess(tmp_path / "spark", os.environ, tmp_path / "spark.log") as process:
        assert process.wait() is None
        first, second = (jvm_of_a_job(process) for _ in range(2))
        assert first == second
        _gone(first)
        third = jvm_of_a_job(process)
        assert third != first
        # Its program sees that only after the next job has.
        os.kill(process.process.pid, signal.SIGSTOP)
        os.kill(third, signal.SIGKILL)
        job = started(process, "-c", SEES)
        while f"process {job.pid})" not in (tmp_path / "spark" / "turn.lock").read_text():
            assert job.poll() is None
            time.sleep(0.1)
        time.sleep(1)
        os.kill(process.process.pid, signal.SIGCONT)
        output, _ = job.communicate(timeout=300)
        fourth = int(output.splitlines()[-1].split()[0])
        assert fourth != third
    _gone(fourth)


def _gone(jvm: int) -> None:
    until = time.monotonic() + 120
    while psutil.pid_exists(jvm):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    command = [sys.executable, spark_server(), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and f"chmod 700 {tmp_path}" in done.stderr
