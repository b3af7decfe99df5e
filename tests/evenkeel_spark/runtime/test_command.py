"""What every job's `main` has in common."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.local_env import environment
from evenkeel.shared_spark import SharedSpark
from evenkeel_spark.jobs import adopt, apply_window, bootstrap, learn, repair, watch
from evenkeel_spark.runtime import attached, command
from evenkeel_spark.runtime.command import add_switch, parser
from evenkeel_spark.runtime.ctrl_c import INTERRUPTED
from tests.conftest import World
from tests.support.wheel import ROOT

#: A job of which a task waits for longer than any test.
SLOW_JOB = """
import sys, time
from evenkeel_spark.runtime import command, heartbeat

def _body(spark, table, options):
    command.say("begun")
    spark.sparkContext.parallelize([0.0, 600.0], 2).foreach(time.sleep)

beat = heartbeat.heartbeat
command.heartbeat = lambda spark, say, silent: beat(spark, say, silent, silence=0.5)
sys.exit(command.run_job(command.parser("job"), _body))
"""


@pytest.mark.parametrize(
    ("given", "on"),
    [([], False), (["--older"], True), (["--older", "yes"], True), (["--older", "no"], False)],
)
def test_no_is_not_yes(given: list[str], on: bool):
    arguments = parser("a job")
    add_switch(arguments, "--older", "give up what is there")
    assert arguments.parse_args(["--spec", "s", *given]).older is on


@pytest.mark.parametrize("value", ["", "maybe", "true"])
def test_a_switch_that_is_neither_is_refused(capsys, value: str):
    arguments = parser("a job")
    add_switch(arguments, "--older", "give up what is there")
    with pytest.raises(SystemExit) as ended:
        arguments.parse_args(["--spec", "s", "--older", value])
    assert ended.value.code == 2
    assert f"expected yes or no, found {value!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "names"),
    [
        (adopt, ("dry_run", "release", "drop_columns", "registry_lost")),
        (repair, ("dry_run", "registry_older")),
    ],
)
def test_what_gives_something_up_is_a_switch(monkeypatch: pytest.MonkeyPatch, job, names):
    asked = []
    monkeypatch.setattr(job, "run_job", lambda arguments, body, argv: asked.append(arguments) or 0)
    assert job.main([]) == 0
    given = [f"--{name.replace('_', '-')}" for name in names]
    off = asked[0].parse_args(["--spec", "s", *(part for flag in given for part in (flag, "no"))])
    assert [getattr(off, name) for name in names] == [False] * len(names)


@pytest.mark.parametrize(
    ("job", "option", "expected"),
    [
        (learn, "--end", "a day as YYYY-MM-DD"),
        (bootstrap, "--end", "a day as YYYY-MM-DD"),
        (apply_window, "--start", "a day as YYYY-MM-DD"),
        (watch, "--until", "a moment as YYYY-MM-DDTHH:MM"),
    ],
)
def test_a_time_that_is_none_is_refused(capsys, job, option: str, expected: str):
    with pytest.raises(SystemExit) as ended:
        job.main(["--spec", "s", option, "yesterday"])
    assert ended.value.code == 2
    assert f"argument {option}: expected {expected}, found 'yesterday'" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt, None])
def test_no_job_uses_a_shared_jvm_after_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, world: World, error: type | None
):
    """A statement that was broken off may go on in it. A line in its file frees it for the next."""
    file = (tmp_path / "turn").open("w")
    turn = attached._Turn(SharedSpark(tmp_path), file)
    monkeypatch.setattr(attached, "_turns", [turn])
    for name in ("session", "handle_ctrl_c", "check_log_store", "check_connectors"):
        monkeypatch.setattr(command, name, lambda *_, **__: None)

    def body(*_: object) -> None:
        if error is not None:
            raise error

    arguments = command.parser("job")
    ended = command.run_job(arguments, body, ["--spec", world.spec_path])
    turn.end()
    file.close()
    assert ended == (0 if error is None else INTERRUPTED)
    assert ((tmp_path / "turn").read_text() == "") is (error is not None)


@pytest.mark.spark
def test_a_long_step_says_how_far_it_is_and_ctrl_c_is_one_line(ready: World):
    job = subprocess.Popen(
        [sys.executable, "-c", SLOW_JOB, "--spec", ready.spec_path],
        env={**os.environ, **environment()},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert job.stdout is not None
        said = iter(job.stdout)
        told = next(line for line in said if "tasks" in line)
        assert re.search(r"Spark is at work: \d of 2 tasks of its running stages are done", told)
        # To all processes of the terminal, as its Ctrl-C.
        os.killpg(job.pid, signal.SIGINT)
        _, errors = job.communicate(timeout=60)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    assert job.returncode == INTERRUPTED, errors
    assert "Traceback" not in errors
    (line,) = [line for line in errors.splitlines() if line.startswith("evenkeel: ")]
    assert line.startswith("evenkeel: stopped by Ctrl-C")
