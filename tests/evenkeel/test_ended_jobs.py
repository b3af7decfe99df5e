"""A job whose process a signal ends: it leaves no line of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.submit import submit


@pytest.mark.parametrize(
    ("ends", "code", "lines"),
    [("kill -KILL $$", 137, 1), ("exit 137", 137, 1), ("exit 130", 130, 0)],
)
def test_a_job_that_a_signal_ends_leaves_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ends: str,
    code: int,
    lines: int,
) -> None:
    """Spark's launcher, or the Python below it, whose end is a code of the launcher."""
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{ends}\n")
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("EVENKEEL_SPARK", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert submit("learn", [], {}) == code
    found = capsys.readouterr().err.splitlines()
    assert len(found) == lines
    assert all("the job learn was ended from outside (Killed)" in line for line in found)
