"""The console's commands that start Spark, where the jobs are not installed."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel import spark_commands
from evenkeel.cli import main
from evenkeel.submit import submit
from partitioning.errors import InputError, SetupError
from tests.support.worlds.old_registry import spec_path  # noqa: F401  a fixture

#: The console, in an installation without the package `evenkeel_spark`.
CODE = """
from evenkeel import submit
submit.find_spec = lambda name: None
from evenkeel.cli import main
main()
"""


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["job", "learn"], 2)])
def test_without_the_jobs_the_console_starts_and_says_what_to_do(
    arguments: list[str], code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done.stderr
    if code:
        (line,) = done.stderr.splitlines()
        assert "expected the package evenkeel_spark" in line and "evenkeel doctor" in line


def test_forget_hands_every_key_to_the_job(
    spec_path: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(spark_commands, "submit", lambda job, args, env: asked.append(args) or 2)
    monkeypatch.setattr(sys, "argv", ["evenkeel", "forget", spec_path, "D008", "a b", "--dry-run"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert asked == [["--spec", spec_path, "--forget=D008", "--forget=a b", "--dry-run"]]


def test_forget_takes_a_key_below_zero_and_no_misspelt_option(
    spec_path: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(spark_commands, "submit", lambda job, args, env: asked.append(args) or 2)
    for words in (["-5", "--dry-run"], ["--dry-rum"], ["--dry-run", "--", "-x"]):
        monkeypatch.setattr(sys, "argv", ["evenkeel", "forget", spec_path, *words])
        with pytest.raises(SystemExit):
            main()
    given = [[arg for arg in args if arg.startswith("--forget")] for args in asked]
    assert given == [["--forget=-5"], ["--forget=-x"]]
    assert "No such option: --dry-rum" in capsys.readouterr().err


def test_forget_refuses_a_key_of_another_number_of_columns_before_spark_starts(
    spec_path: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(spark_commands, "submit", lambda job, args, env: pytest.fail("started"))
    monkeypatch.setattr(sys, "argv", ["evenkeel", "forget", spec_path, '["D008", null]'])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "has 2 columns, the table's has 1" in said and "or a JSON list" in said


def test_evolve_hands_what_the_spec_cannot_say_to_the_job(
    spec_path: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(spark_commands, "submit", lambda job, args, env: asked.append(args) or 2)
    given = ["--rename", "t.a=b", "--drop", "t.c", "--drop", "t.d", "--dry-run", "--format", "json"]
    monkeypatch.setattr(sys, "argv", ["evenkeel", "evolve", spec_path, *given])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    passed = ["--rename=t.a=b", "--drop=t.c", "--drop=t.d", "--dry-run"]
    assert asked == [["--spec", spec_path, "--evolve", "--format=json", *passed]]


@pytest.mark.parametrize(
    "command",
    [("evenkeel.cli", "job", "learn"), ("evenkeel.cli", "repair"), ("evenkeel_spark.jobs.learn",)],
    ids=["job", "repair", "module"],
)
def test_a_job_refuses_to_start_where_spark_connect_is_asked_for(
    spec_path: str,  # noqa: F811
    command: tuple[str, ...],
) -> None:
    module, *words = command
    options = [spec_path] if "repair" in words else ["--spec", spec_path, "--run", "r1"]
    start = f"import sys; from {module} import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", start, *words, *options],
        env={**os.environ, "SPARK_REMOTE": "sc://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    (line,) = done.stderr.splitlines()
    assert "$SPARK_REMOTE: expected a Spark of the job's own, found the Spark Connect" in line
    assert "Unset SPARK_REMOTE" in line and done.returncode == 2


#: Reads a table twice over Spark Connect, with a client that calls itself older.
READS = """
import contextlib, sys
import pyspark
from pyspark.sql import SparkSession
import evenkeel.table
spark = SparkSession.builder.getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect")
for client in (pyspark.__version__, "3.9.0"):
    pyspark.__version__ = client
    evenkeel.table._asked.clear()
    for _ in range(2):
        # There is no such Delta table; the session is looked at before it is asked for.
        with contextlib.suppress(Exception):
            evenkeel.open_table(sys.argv[1]).snapshot()
    print("read as", client, file=sys.stderr, flush=True)
from datetime import datetime
import evenkeel_spark
from partitioning.errors import SetupError
clicks = evenkeel.open_table(sys.argv[1])
for refused in (
    lambda: evenkeel_spark.commit_session(spark, "mine", 1, {}).__enter__(),
    lambda: evenkeel_spark.meet(spark, clicks, sys.argv[1], spark.range(1), 1, "s", datetime.now()),
):
    try:
        refused()
    except SetupError as error:
        print("refused:", error, file=sys.stderr, flush=True)
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_connect_server_of_another_version_is_one_warning(
    spec_path: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READS, spec_path],
        cwd=tmp_path,
        # PySpark starts a server of its own for such a name.
        env={**os.environ, "SPARK_REMOTE": "local[1]"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    here = importlib.metadata.version("pyspark")
    before, after = done.stderr.split(f"read as {here}")
    assert "one version of Spark" not in before
    (line,) = (line for line in after.splitlines() if "one version of Spark" in line)
    assert f"found PySpark 3.9.0 and Spark {here} on the Spark Connect server" in line
    # A session without a JVM refuses in words what needs one.
    refused = [line for line in after.splitlines() if line.startswith("refused: ")]
    assert len(refused) == 2, done.stderr
    assert all("by spark-submit, without SPARK_REMOTE" in line for line in refused)
    # One of the two alone would mix both in one folder.
    names = re.findall(r"'([a-z-]+)==(\S+)'", line)
    assert [n for n, _ in names] == ["pyspark", "pyspark-client"] and names[0][1] == names[1][1]


def test_without_java_the_last_line_says_so(
    spec_path: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Spark's own text comes first: spark-submit prints it."""
    variables = {n: v for n, v in os.environ.items() if n != "JAVA_HOME"}
    for program in ("bash", "dirname", "env", "ls", "cat"):
        (tmp_path / program).symlink_to(shutil.which(program) or program)
    # A checkout knows the Java that its set-up found.
    code = (
        "from evenkeel import spark_commands as c; c.environment = dict; "
        "from evenkeel.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "job", "learn", "--spec", spec_path, "--run", "r"],
        env={**variables, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2, done.stderr
    assert "expected a Java for Spark, found none" in last and "evenkeel doctor" in last


@pytest.mark.parametrize("code", [1, 2, 75, 77, 137])
def test_a_job_that_fails_with_a_java_of_spark_s_own_keeps_its_code(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's spark-env.sh sets JAVA_HOME, and the environment has no Java."""
    home = tmp_path / "spark"
    for folder in ("bin", "conf"):
        (home / folder).mkdir(parents=True)
    program = home / "bin" / "spark-submit"
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("JAVA_HOME", "EVENKEEL_SPARK", "SPARK_REMOTE", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(home))
    if code == 1:
        with pytest.raises(SetupError, match="expected a Java for Spark, found none"):
            submit("learn", [], {})
    else:
        assert submit("learn", [], {}) == code
    # A Java that only the variables of the job know.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(0o755)
    assert submit("learn", [], {"JAVA_HOME": str(tmp_path)}) == code
    (home / "conf" / "spark-env.sh").touch()
    assert submit("learn", [], {}) == code
    monkeypatch.setenv("PATH", str(home / "bin"), prepend=":")
    monkeypatch.delenv("SPARK_HOME")
    assert submit("learn", [], {}) == code
    monkeypatch.setenv("SPARK_CONF_DIR", str(home / "conf"))
    assert submit("learn", [], {}) == code


#: Stands for spark-submit: on Ctrl-C it takes a second to end in order.
SLOW_END = """#!{python}
import signal, sys, time

def end(*_):
    time.sleep(1)
    print("ended in order", flush=True)
    sys.exit(130)

signal.signal(signal.SIGINT, end)
print("at work", flush=True)
time.sleep(60)
"""


def test_ctrl_c_lets_a_job_end_in_its_own_way(tmp_path: Path) -> None:
    """The terminal sends it to the console and to the job."""
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(SLOW_END.format(python=sys.executable))
    program.chmod(0o755)
    variables = {n: v for n, v in os.environ.items() if n not in ("EVENKEEL_SPARK", "SPARK_REMOTE")}
    console = subprocess.Popen(
        [sys.executable, "-c", "from evenkeel.submit import submit; exit(submit('learn', [], {}))"],
        env={**variables, "SPARK_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert console.stdout is not None and console.stdout.readline() == "at work\n"
    os.killpg(console.pid, signal.SIGINT)
    assert console.communicate(timeout=60)[0] == "ended in order\n"
    assert console.returncode == 130


def test_a_quote_without_its_end_is_one_line() -> None:
    with pytest.raises(InputError, match="cannot be split .No closing quotation.. Close the"):
        submit("learn", [], {}, "--name 'x")
